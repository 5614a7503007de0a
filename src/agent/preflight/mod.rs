//! `preflight`: the whole restore, rehearsed in scratch space in the image that will do it, down to a booted etcd that
//! is asked what it holds. Nothing is changed and nothing stays.

mod boot;
mod decide;

use std::path::Path;

use super::failure::Failure;
use super::rebuild::{self, WORK_DIR};
use super::settings::PreflightSettings;
use super::stop::Stop;
use crate::api::agent::Rehearsal;

/// What the rehearsal takes beside the database: etcdutl's write-ahead log of 64 MB, the next one that a booted etcd
/// lays out, and a little more.
const OVERHEAD: u64 = 160 << 20;

/// What came of a rehearsal, also of one that failed at its end.
#[derive(Debug)]
pub(crate) struct Rehearsed {
    /// What is known.
    pub(crate) rehearsal: Option<Rehearsal>,
    /// Why it failed, if it did.
    pub(crate) failure: Option<Failure>,
}

/// Rehearses a restore.
pub(crate) async fn run(settings: &PreflightSettings, stop: &Stop) -> Rehearsed {
    let Some(scratch) = settings.source.scratch.clone() else {
        let failure = Failure::configuration(format!("{} is not set", crate::api::agent::env::SCRATCH_DIR));
        return Rehearsed { rehearsal: None, failure: Some(failure) };
    };
    let work = scratch.join(WORK_DIR);
    let mut outcome = match rebuild::remove(&work) {
        Ok(()) => attempt(settings, &scratch, stop).await,
        Err(failure) => Rehearsed { rehearsal: None, failure: Some(failure) },
    };
    if let Err(failure) = rebuild::remove(&work) {
        outcome.failure = outcome.failure.or(Some(failure));
    }
    outcome
}

async fn attempt(settings: &PreflightSettings, scratch: &Path, stop: &Stop) -> Rehearsed {
    let member = decide::member(settings.member.clone());
    let rebuilt = async {
        let observed = rebuild::observe(&settings.source, scratch, OVERHEAD, stop).await?;
        let etcd = boot::find(&settings.source, &observed.tool)?;
        let rebuilt = observed.rebuild(&settings.source, &member, scratch, stop).await?;
        Ok::<_, Failure>((observed.tool.version, etcd, rebuilt))
    };
    let (version, etcd, rebuilt) = match rebuilt.await {
        Ok(done) => done,
        Err(failure) => return Rehearsed { rehearsal: None, failure: Some(failure) },
    };
    let rehearsed = boot::ask(&etcd, &member.name, &rebuilt.data_dir, settings.credentials.as_ref(), stop).await;
    let with_tool = |rehearsal: Rehearsal| Rehearsal { etcdutl_version: version.to_string(), ..rehearsal };
    Rehearsed { rehearsal: rehearsed.rehearsal.map(with_tool), ..rehearsed }
}
