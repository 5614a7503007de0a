//! `restore`: a member's data directory from a snapshot, visible only when it is whole and durable.

mod decide;
mod execute;
mod observe;

use decide::Step;

use super::failure::Failure;
use super::settings::{self, Vars};
use super::stop::Stop;
use crate::api::agent::Restored;

/// Restores a snapshot into the data directory; `None` where that holds a member already, or the
/// cluster that it is for has formed.
///
/// # Errors
/// [`Failure`]; the data directory is as empty as before then.
pub(crate) async fn run(vars: &Vars<'_>, stop: &Stop) -> Result<Option<Restored>, Failure> {
    let data_dir = settings::data_dir(vars)?;
    let scratch = settings::scratch(vars);
    let observed = observe::data_dir(&data_dir, scratch.as_deref(), settings::has_formed(vars))?;
    let mut restored = None;
    for step in decide::plan(&observed) {
        match step {
            Step::RemoveLeftover(path) => execute::remove_leftover(&path)?,
            Step::LeaveAlone => tracing::info!(step = "already-initialised", data_dir = %data_dir.display()),
            Step::Rebuild => {
                let source = settings::source(vars)?;
                let member = settings::member(vars)?;
                restored = Some(execute::rebuild(&source, &member, &data_dir, stop).await?);
            }
        }
    }
    Ok(restored)
}
