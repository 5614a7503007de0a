//! RestoreJob: the target, and how long a restore may take.

use serde_json::{Value, json};

use super::{Additions, application};
use crate::api::restorejob::DEFAULT_RESTORE_TIMEOUT_SECONDS;
use crate::checks::view::{self, Application};
use crate::checks::{Kind, Lookup};

pub(super) fn add(job: &Value, namespace: &str, lookup: &dyn Lookup, additions: &mut Additions) {
    if view::at(job, "/spec/targetApplicationRef").is_some() {
        application::add(job, "/spec/targetApplicationRef", additions);
    } else if let Some(backup) =
        lookup.get(Kind::Backup, Some(namespace), view::text(job, "/spec/backupRef/name")).found()
        && let Some(source) = Application::at(&backup, "/spec/applicationRef")
    {
        let target = json!({"apiGroup": source.group, "kind": source.kind, "name": source.name});
        additions.add(job, "/spec", "targetApplicationRef", target);
    }
    if view::at(job, "/spec/options").is_some() {
        additions.add(job, "/spec/options", "restoreTimeoutSeconds", DEFAULT_RESTORE_TIMEOUT_SECONDS);
    } else {
        let options = json!({"restoreTimeoutSeconds": DEFAULT_RESTORE_TIMEOUT_SECONDS});
        additions.add(job, "/spec", "options", options);
    }
}
