//! The judgement of one change to one object: whether it is ours to judge, what is wrong with it by itself and
//! together with other objects, and what of that may be held against this very change.

mod backup;
mod change;
mod etcdcluster;
mod kind;
mod lookup;
mod ratchet;
mod relation;
mod restorejob;
mod strategy;
pub mod view;

pub use change::{Change, Identity, Operation};
pub use kind::Kind;
pub use lookup::{Known, Lookup, Nothing, Objects};
pub use relation::{Relation, relation};

use crate::policy::{Action, Finding};

/// What was found about a change, the refusals first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Everything that was found.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether nothing refuses the change.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.with(Action::Deny).next().is_none()
    }

    /// The findings of one action.
    pub fn with(&self, action: Action) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.action == action)
    }
}

/// Judges a change.
#[must_use]
pub fn judge(change: &Change<'_>, lookup: &dyn Lookup) -> Verdict {
    if change.is_exempt() || relation(change, lookup) == Relation::Foreign {
        return Verdict::default();
    }
    let mut findings = find(change, lookup);
    if change.operation == Operation::Update {
        ratchet::apply(change, &mut findings, |old| find(old, lookup));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.action));
    Verdict { findings }
}

fn find(change: &Change<'_>, lookup: &dyn Lookup) -> Vec<Finding> {
    let mut findings = Vec::new();
    match change.kind {
        Kind::EtcdCluster => etcdcluster::check(change, &mut findings),
        Kind::Strategy | Kind::WardenStrategy => strategy::check(change, &mut findings),
        Kind::RestoreJob => restorejob::check(change, lookup, &mut findings),
        Kind::EtcdMember | Kind::EtcdSnapshot | Kind::BackupClass | Kind::BackupJob | Kind::Backup | Kind::Plan => {}
    }
    findings
}
