//! What a Backup's status says. The kind has no status subresource: it is a patch like any other.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::build;
use super::decide::Verdict;
use crate::api::backup::{Backup, READY, phase, reason};
use crate::api::condition::{Finding, find, set};
use crate::api::names::warden;

/// The patch that follows from a verdict; none where nothing changes.
#[must_use]
pub fn patch(backup: &Backup, verdict: &Verdict, now: Timestamp) -> Option<Value> {
    let finding = finding(verdict)?;
    let mut status = backup.status.clone().unwrap_or_default();
    let mut annotations = backup.annotations().clone();
    match verdict {
        Verdict::Adopted { artifact, owner } => {
            status = build::adopted(backup, artifact);
            if let Some(owner) = owner {
                annotations.insert(warden::SNAPSHOT_UID.to_owned(), owner.clone());
            }
        }
        Verdict::Checking { .. } => status.phase = Some(phase::PENDING.to_owned()),
        Verdict::Refused { .. } => status.phase = Some(phase::FAILED.to_owned()),
        Verdict::Held { .. } | Verdict::Unchanged | Verdict::Gone { .. } => {}
    }
    // Each write would raise the generation that it names: this kind counts its status as part of itself.
    set(status.conditions.get_or_insert_default(), &finding, None, now);
    let same = backup.status.as_ref() == Some(&status) && *backup.annotations() == annotations;
    (!same).then(|| json!({"metadata": {"annotations": annotations}, "status": status}))
}

fn finding(verdict: &Verdict) -> Option<Finding> {
    let (holds, reason, message) = match verdict {
        Verdict::Adopted { artifact, .. } => {
            let size = artifact.size_bytes.unwrap_or_default();
            (true, reason::ADOPTED, format!("{} is there, with {size} bytes", artifact.uri))
        }
        Verdict::Checking { message } => (false, reason::CHECKING, message.clone()),
        Verdict::Refused { message } => (false, reason::REFUSED, message.clone()),
        Verdict::Held { reason, message } => (false, *reason, message.clone()),
        Verdict::Unchanged | Verdict::Gone { .. } => return None,
    };
    Some(Finding { type_: READY, status: holds, reason: reason.to_owned(), message })
}

/// What a verdict tells that the condition did not say before: whether it warns, its reason, its message.
#[must_use]
pub fn news(backup: &Backup, verdict: &Verdict) -> Option<(bool, &'static str, String)> {
    let (warns, reason, message) = match verdict {
        Verdict::Adopted { artifact, .. } => (false, reason::ADOPTED, format!("{} can be restored from", artifact.uri)),
        Verdict::Refused { message } => (true, reason::REFUSED, message.clone()),
        Verdict::Held { reason, message } => (true, *reason, message.clone()),
        Verdict::Checking { .. } | Verdict::Unchanged | Verdict::Gone { .. } => return None,
    };
    let conditions = backup.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let told = find(conditions, READY).is_some_and(|ready| ready.reason == reason);
    (!told).then_some((warns, reason, message))
}
