//! How long the names of jobs and plans may be. No policy can say it: only the class or the Backup tells whether one is
//! about etcd.

use super::change::{Change, Operation};
use super::kind::Kind;
use super::lookup::Lookup;
use super::relation::{Relation, relation};
use crate::api::names::{LABEL_LIMIT, PLAN_NAME_LIMIT};
use crate::policy::Finding;

/// Names of the rules.
pub(super) const BACKUP_JOB: &str = "backupjob-name";
pub(super) const PLAN: &str = "plan-name";
pub(super) const RESTORE_JOB: &str = "restorejob-name";

pub(super) fn check(change: &Change<'_>, lookup: &dyn Lookup) -> Option<Finding> {
    const LABELLED: &str = "the objects that it makes are labelled with it";
    let (policy, limit, why) = match change.kind {
        Kind::BackupJob => (BACKUP_JOB, LABEL_LIMIT, LABELLED),
        Kind::RestoreJob => (RESTORE_JOB, LABEL_LIMIT, LABELLED),
        Kind::Plan => (PLAN, PLAN_NAME_LIMIT, "the BackupJobs that it makes are called after it"),
        Kind::EtcdCluster
        | Kind::EtcdMember
        | Kind::EtcdSnapshot
        | Kind::Strategy
        | Kind::WardenStrategy
        | Kind::BackupClass
        | Kind::Backup => return None,
    };
    let long = change.operation == Operation::Create && change.name_of_subject().chars().count() > limit;
    // What nothing says to be about etcd may yet turn out to be somebody else's.
    (long && relation(change, lookup) == Relation::Ours)
        .then(|| Finding::deny(policy, "metadata.name", format!("at most {limit} characters, since {why}")))
}
