//! What others need to know of a Backup.

use serde_json::Value;

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
