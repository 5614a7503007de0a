//! `snapshot`: a member's database into a store, verified on the way.
//!
//! Observe the members, decide which one to read, execute. Nothing shows in the store under the final name before the
//! whole stream has been checked.

mod decide;
mod execute;
mod observe;

use super::failure::Failure;
use super::settings::SnapshotSettings;
use super::stop::Stop;
use crate::api::agent::Artifact;
use crate::store::Store;

/// Takes a snapshot.
///
/// # Errors
/// [`Failure`]; nothing is left in the store then, except for an earlier snapshot of the same owner.
pub(crate) async fn run(settings: &SnapshotSettings, stop: &Stop) -> Result<Artifact, Failure> {
    let store = Store::open(&settings.destination, stop.deadline())?;
    let observed = stop.unless(async { Ok::<_, Failure>(observe::members(settings).await) }).await?;
    let source = match decide::source(&observed.facts()) {
        Ok(index) => observed.into_source(index),
        Err(refusal) => return Err(observed.explain(refusal)),
    };
    execute::run(settings, &store, source, stop).await
}
