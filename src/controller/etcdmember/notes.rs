//! What people are told about a member: that it leaves or is given up, and conditions that turn. Pure.

use super::decide::{Planned, Step};
use crate::api::etcdmember::{EtcdMemberStatus, reason};
use crate::controller::tell;
use crate::k8s::events::Note;

/// Reasons of conditions that need a person's eyes.
const TROUBLES: [&str; 7] = [
    reason::NAME_TAKEN,
    reason::SECRET_MISSING,
    reason::AGENT_IMAGE_NOT_CONFIGURED,
    reason::RESTORE_FAILED,
    reason::DATA_LOST,
    reason::REMOVAL_BLOCKED,
    reason::VERSION_MISMATCH,
];

/// The conditions that turned.
#[must_use]
pub(super) fn of_change(before: Option<&EtcdMemberStatus>, after: &EtcdMemberStatus) -> Vec<Note> {
    let before = before.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    tell::changes(before, after.conditions.as_deref().unwrap_or_default(), &TROUBLES, "Reconcile")
}

/// The steps, done, that a person may wonder about later.
#[must_use]
pub(super) fn of_steps(done: &[Planned]) -> Vec<Note> {
    done.iter().filter_map(of_step).collect()
}

fn of_step(done: &Planned) -> Option<Note> {
    let (warning, reason, action, text) = match &done.step {
        Step::LeaveEtcd { .. } => (false, "LeftEtcd", "LeaveEtcd", "It was taken out of etcd"),
        Step::DeletePod => (false, "PodDeleted", "DeletePod", "Its Pod was deleted"),
        Step::DeleteMember => (true, "GivenUp", "DeleteMember", "It was given up and will be replaced"),
        Step::AddFinalizer
        | Step::RemoveFinalizer
        | Step::HandOver { .. }
        | Step::CreateClaim
        | Step::CreatePod
        | Step::Seal
        | Step::LabelVoter => return None,
    };
    let text = format!("{text}: {}.", done.because);
    Some(Note { warning, reason: reason.to_owned(), action, text })
}
