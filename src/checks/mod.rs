//! The judgement of one change to one object: whether it is ours to judge, what is wrong with it by itself and
//! together with other objects, and what of that may be held against this very change.

mod backup;
pub mod cases;
mod change;
mod coordinates;
mod etcdcluster;
mod job;
mod kind;
mod lookup;
mod name;
mod others;
mod ratchet;
mod relation;
mod restorejob;
mod rules;
mod store;
mod strategy;
pub mod upstream;
pub mod view;

pub use change::{Change, Identity, Operation};
pub use coordinates::rendered;
pub use kind::Kind;
pub use lookup::{Known, Lookup, Nothing, Objects};
pub use ratchet::value as value_at;
pub use relation::{Relation, relation};
pub use rules::{RULES, Rule};
pub use strategy::stand_in_application;

use crate::policy::{Action, Finding, Input, PolicySet};

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

/// Judges a change: by policies what it says by itself, by the rest what takes other objects or more than CEL.
#[must_use]
pub fn judge(change: &Change<'_>, policies: &PolicySet, lookup: &dyn Lookup) -> Verdict {
    if change.is_exempt() || relation(change, lookup) == Relation::Foreign {
        return Verdict::default();
    }
    let mut findings = find(change, policies, lookup);
    if change.operation == Operation::Update {
        ratchet::apply(change, &mut findings, |old| find(old, policies, lookup));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.action));
    Verdict { findings }
}

fn find(change: &Change<'_>, policies: &PolicySet, lookup: &dyn Lookup) -> Vec<Finding> {
    let mut findings = policies.evaluate(&input(change));
    match change.kind {
        Kind::EtcdCluster => etcdcluster::check(change, lookup, &mut findings),
        Kind::EtcdMember => others::check_member(change, &mut findings),
        Kind::EtcdSnapshot => others::check_snapshot(change, lookup, &mut findings),
        Kind::Strategy | Kind::WardenStrategy => strategy::check(change, &mut findings),
        Kind::BackupClass => strategy::check_class(change, lookup, &mut findings),
        Kind::BackupJob | Kind::Plan => job::check(change, lookup, &mut findings),
        Kind::Backup => others::check_backup(change, lookup, &mut findings),
        Kind::RestoreJob => restorejob::check(change, lookup, &mut findings),
    }
    findings
}

fn input<'a>(change: &Change<'a>) -> Input<'a> {
    Input {
        group: change.kind.group(),
        version: change.kind.version(),
        resource: change.kind.plural(),
        kind: change.kind.name(),
        subresource: change.subresource,
        operation: change.operation.as_str(),
        namespace: change.namespace,
        name: change.name,
        user: change.user,
        object: change.object,
        old: change.old,
    }
}
