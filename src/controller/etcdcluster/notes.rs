//! What people are told about a cluster: changes of its membership, and conditions that turn. Pure.

use super::decide::{Planned, Step};
use crate::api::etcdcluster::{EtcdClusterStatus, reason};
use crate::controller::tell;
use crate::k8s::events::Note;

/// Reasons of conditions that need a person's eyes.
const TROUBLES: [&str; 12] = [
    reason::REFUSED,
    reason::QUORUM_LOST,
    reason::CLUSTER_UNREACHABLE,
    reason::BOOTSTRAP_FAILED,
    reason::RESTORE_FAILED,
    reason::TOTAL_LOSS,
    reason::NAME_TAKEN,
    reason::DEADLINE_EXCEEDED,
    reason::MEMBERS_UNHEALTHY,
    reason::CERT_MANAGER_NOT_INSTALLED,
    reason::AUTH_CREDENTIALS_REJECTED,
    reason::AUTH_REQUIRED_NOT_CONFIGURED,
];

/// The conditions that turned.
#[must_use]
pub(super) fn of_change(before: Option<&EtcdClusterStatus>, after: &EtcdClusterStatus) -> Vec<Note> {
    let before = before.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    tell::changes(before, after.conditions.as_deref().unwrap_or_default(), &TROUBLES, "Reconcile")
}

/// The steps, done, that changed who is in the cluster.
#[must_use]
pub(super) fn of_steps(done: &[Planned]) -> Vec<Note> {
    done.iter().filter_map(of_step).collect()
}

fn of_step(done: &Planned) -> Option<Note> {
    let (reason, action, text) = match &done.step {
        Step::CreateSeed { name } | Step::CreateMember { name } => {
            ("MemberCreated", "CreateMember", format!("Member {name} was made"))
        }
        Step::AddLearner { name, .. } => ("LearnerAdded", "AddLearner", format!("etcd took {name} in as a learner")),
        Step::Promote { name, .. } => ("MemberPromoted", "Promote", format!("Member {name} became a voter")),
        Step::RemoveMember { name } => ("MemberRemoved", "RemoveMember", format!("Member {name} was told to leave")),
        Step::Pause { name } => ("MemberPaused", "Pause", format!("Member {name} was paused")),
        Step::Wake { name } => ("MemberWoken", "Wake", format!("Member {name} was woken")),
        Step::RemakeSeed { name } => ("SeedRemade", "RemakeSeed", format!("Seed {name} is made anew")),
        Step::EnableAuth => ("AuthEnabled", "EnableAuth", "etcd asks for a password from now on".to_owned()),
        Step::ApplyService(_)
        | Step::ApplyCertificate(_)
        | Step::ApplyBudget { .. }
        | Step::DeleteBudget
        | Step::AdmitSeed { .. }
        | Step::Admit { .. } => return None,
    };
    let text = format!("{text}: {}.", done.because);
    Some(Note { warning: false, reason: reason.to_owned(), action, text })
}
