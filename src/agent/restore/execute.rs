//! The steps of a restore.

use std::path::Path;

use rustix::fs::{CWD, RenameFlags};

use crate::agent::failure::Failure;
use crate::agent::rebuild::{self, WORK_DIR};
use crate::agent::settings::{MemberSettings, SourceSettings};
use crate::agent::stop::Stop;
use crate::api::agent::Restored;

/// What a rebuilt directory takes beside the database: etcdutl lays out a write-ahead log of 64 MB, and a little more.
const OVERHEAD: u64 = 80 << 20;

pub(super) fn remove_leftover(path: &Path) -> Result<(), Failure> {
    rebuild::remove(path)?;
    tracing::info!(step = "leftover-removed", path = %path.display());
    Ok(())
}

/// Rebuilds the member below the work directory and moves it into place. The work directories are gone afterwards,
/// whatever came of it.
pub(super) async fn rebuild(
    source: &SourceSettings,
    member: &MemberSettings,
    data_dir: &Path,
    stop: &Stop,
) -> Result<Restored, Failure> {
    let outcome = attempt(source, member, data_dir, stop).await;
    let cleaned = clean(source, data_dir);
    match (outcome, cleaned) {
        (Ok(restored), Ok(())) => Ok(restored),
        (Ok(restored), Err(failure)) => {
            // The member is in place and durable. What is left beside it is removed by the next run.
            tracing::warn!(error = failure.full_message(), "leftovers could not be removed");
            Ok(restored)
        }
        (Err(failure), _) => Err(failure),
    }
}

async fn attempt(
    source: &SourceSettings,
    member: &MemberSettings,
    data_dir: &Path,
    stop: &Stop,
) -> Result<Restored, Failure> {
    let observed = rebuild::observe(source, data_dir, OVERHEAD, stop).await?;
    let rebuilt = observed.rebuild(source, member, data_dir, stop).await?;
    let staged = rebuilt.data_dir.join("member");
    rebuild::adopt(&staged)?;
    tracing::info!(step = "synced");
    let place = data_dir.join("member");
    // Never over a member that appeared meanwhile.
    rustix::fs::renameat_with(CWD, &staged, CWD, &place, RenameFlags::NOREPLACE)
        .map_err(|error| Failure::file("move the rebuilt member to", &place, error.into()))?;
    rebuild::sync_folder(data_dir)?;
    tracing::info!(step = "in-place", path = %place.display());
    Ok(Restored {
        revision: rebuilt.revision,
        bytes: rebuilt.bytes,
        etcdutl_version: observed.tool.version.to_string(),
        bump: rebuilt.bump,
    })
}

fn clean(source: &SourceSettings, data_dir: &Path) -> Result<(), Failure> {
    rebuild::remove(&data_dir.join(WORK_DIR))?;
    match &source.scratch {
        Some(scratch) => rebuild::remove(&scratch.join(WORK_DIR)),
        None => Ok(()),
    }
}
