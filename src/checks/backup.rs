//! What others need to know of a Backup.

use serde_json::Value;

use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::restorejob::is_terminal;
use super::view::{self, Application};
use crate::api::backup::phase;

/// What a restore can expect of a Backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usable {
    /// It can be restored.
    Yes,
    /// It may become usable: nothing is stored yet.
    NotYet,
    /// It never will be.
    Never(&'static str),
}

/// Whether a Backup can be restored from.
pub(super) fn usable(backup: &Value) -> Usable {
    if view::at(backup, "/metadata/deletionTimestamp").is_some() {
        return Usable::Never("is being deleted");
    }
    if view::text(backup, "/status/phase") == phase::FAILED {
        return Usable::Never("has failed");
    }
    let stored = !view::text(backup, "/status/artifact/uri").is_empty();
    if view::text(backup, "/status/phase") == phase::READY && stored { Usable::Yes } else { Usable::NotYet }
}

/// The application that a Backup is of.
pub(super) fn application(backup: &Value) -> Option<Application<'_>> {
    Application::at(backup, "/spec/applicationRef")
}

/// The RestoreJob that restores from a Backup and has not come to its end.
pub(super) fn in_use(backup: &str, namespace: &str, lookup: &dyn Lookup) -> Option<String> {
    let Known::Found(jobs) = lookup.list(Kind::RestoreJob, Some(namespace)) else { return None };
    let user = jobs.iter().find(|job| view::text(job, "/spec/backupRef/name") == backup && !is_terminal(job))?;
    Some(view::text(user, "/metadata/name").to_owned())
}
