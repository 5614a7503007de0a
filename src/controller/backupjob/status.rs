//! What a BackupJob's status says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::decide::{Verdict, named};
use crate::api::backupjob::{BackupJobStatus, phase, reason};
use crate::api::condition::{Finding, set};

/// The status that follows from a verdict.
#[must_use]
pub fn status(
    old: Option<&BackupJobStatus>,
    verdict: &Verdict,
    generation: Option<i64>,
    now: Timestamp,
) -> BackupJobStatus {
    let mut status = old.cloned().unwrap_or_default();
    status.started_at.get_or_insert(Time(now));
    let (phase, holds, reason, message) = match verdict {
        Verdict::Waiting { phase, reason, message } => (*phase, false, *reason, message.clone()),
        Verdict::Succeeded { backup } => {
            status.backup_ref = Some(named(backup));
            (phase::SUCCEEDED, true, reason::BACKUP_COMPLETED, format!("Backup {backup} is stored"))
        }
        Verdict::Failed { message } => {
            status.message = Some(message.clone());
            (phase::FAILED, false, reason::BACKUP_FAILED, message.clone())
        }
    };
    if is_terminal(phase) {
        status.completed_at.get_or_insert(Time(now));
    }
    status.phase = Some(phase.to_owned());
    let finding = Finding { type_: reason::READY, status: holds, reason: reason.to_owned(), message };
    set(status.conditions.get_or_insert_default(), &finding, generation, now);
    status
}

/// Whether a phase is final.
#[must_use]
pub fn is_terminal(phase: &str) -> bool {
    phase == phase::SUCCEEDED || phase == phase::FAILED
}
