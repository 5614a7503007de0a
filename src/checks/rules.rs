//! The rules of this room, for people to look at. A test holds the list to what is found.

use super::kind::Kind;
use super::{coordinates, etcdcluster, job, name, others, restorejob, store, strategy, upstream};
use crate::policy::Action;

/// A rule that takes other objects, or more than CEL says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in messages and metrics.
    pub name: &'static str,
    /// The kinds that it judges.
    pub kinds: &'static [Kind],
    /// What it can do to a request.
    pub actions: &'static [Action],
    /// What it says no to, or warns of.
    pub about: &'static str,
}

const STRATEGIES: &[Kind] = &[Kind::Strategy, Kind::WardenStrategy];
const JOBS: &[Kind] = &[Kind::BackupJob, Kind::Plan];
const DENY: &[Action] = &[Action::Deny];
const WARN: &[Action] = &[Action::Warn];
const BOTH: &[Action] = &[Action::Deny, Action::Warn];

const fn rule(name: &'static str, kinds: &'static [Kind], actions: &'static [Action], about: &'static str) -> Rule {
    Rule { name, kinds, actions, about }
}

/// Every rule, by kind.
pub const RULES: &[Rule] = &[
    rule(
        etcdcluster::GUARD,
        &[Kind::EtcdCluster],
        BOTH,
        "nobody else makes or changes an EtcdCluster, or scales it, while a RestoreJob is at work on it; deleting one then \
         is warned about, and so is overriding the guard by annotation",
    ),
    rule(others::MEMBER, &[Kind::EtcdMember], WARN, "members are their cluster's business, and nobody else's"),
    rule(others::SNAPSHOT_CLUSTER, &[Kind::EtcdSnapshot], WARN, "the EtcdCluster to take a snapshot of does not exist"),
    rule(
        coordinates::COORDINATES,
        &[Kind::EtcdSnapshot, Kind::Strategy, Kind::WardenStrategy],
        BOTH,
        "an endpoint is a host or an http(s) URL and nothing more, a bucket has a bucket's name, a key has no leading '/' \
         and no '..', the credentials are named; http:// is warned about",
    ),
    rule(
        strategy::TEMPLATE,
        STRATEGIES,
        DENY,
        "every template parses and uses only variables and functions that there are",
    ),
    rule(
        strategy::ENTRY,
        &[Kind::BackupClass],
        BOTH,
        "the etcd strategy is for Etcd applications only; a strategy that does not exist yet is warned about",
    ),
    rule(
        strategy::AMBIGUOUS,
        &[Kind::BackupClass],
        DENY,
        "of two entries for one kind of application the second would never be used",
    ),
    rule(
        strategy::RENDERING,
        &[Kind::BackupClass],
        BOTH,
        "with the entry's parameters the strategy renders to a destination that can be used",
    ),
    rule(job::SPEC, JOBS, DENY, "the spec is missing"),
    rule(
        name::BACKUP_JOB,
        &[Kind::BackupJob],
        DENY,
        "the name has more than 63 characters, and the objects that the job makes are labelled with it",
    ),
    rule(
        name::PLAN,
        &[Kind::Plan],
        DENY,
        "the name has more than 54 characters, and the BackupJobs that the Plan makes are called after it",
    ),
    rule(
        job::APPLICATION,
        JOBS,
        BOTH,
        "only Etcd applications are backed up by the etcd strategy; one without an EtcdCluster is warned about",
    ),
    rule(job::CLASS, JOBS, WARN, "the BackupClass does not exist yet, or has no entry for the application"),
    rule(job::FROZEN, &[Kind::BackupJob], DENY, "the spec of a backup that has begun"),
    rule(
        job::SCHEDULE,
        &[Kind::Plan],
        DENY,
        "there is no cron expression, so that no backup would ever be made, or the schedule's type is not cron",
    ),
    rule(
        job::CRON,
        &[Kind::Plan],
        DENY,
        "the schedule is one that the scheduler's own parser reads, in a time zone that exists, is due within five years and \
         not more often than every minute",
    ),
    rule(others::BACKUP_SPEC, &[Kind::Backup], DENY, "the spec is missing"),
    rule(others::BACKUP_FROZEN, &[Kind::Backup], DENY, "of a Backup's spec only deletionPolicy can change"),
    rule(
        others::BACKUP_STATUS,
        &[Kind::Backup],
        BOTH,
        "what is stored and where is written by the backup controllers only; warned about where nobody said who asks",
    ),
    rule(others::BACKUP_IN_USE, &[Kind::Backup], WARN, "deleting a Backup that a RestoreJob restores from"),
    rule(restorejob::SPEC, &[Kind::RestoreJob], DENY, "the spec or the Backup's name is missing"),
    rule(
        name::RESTORE_JOB,
        &[Kind::RestoreJob],
        DENY,
        "the name has more than 63 characters, and the objects that the job makes are labelled with it",
    ),
    rule(
        restorejob::IN_PLACE,
        &[Kind::RestoreJob],
        DENY,
        "the target is another application than the one that was backed up",
    ),
    rule(restorejob::TARGET_KIND, &[Kind::RestoreJob], DENY, "the target is no Etcd application"),
    rule(
        restorejob::BACKUP_USABLE,
        &[Kind::RestoreJob],
        BOTH,
        "the Backup has failed or is being deleted; one that is absent or not ready yet is warned about",
    ),
    rule(
        restorejob::OPTIONS,
        &[Kind::RestoreJob],
        BOTH,
        "an option has a wrong type or range; one that nobody knows is warned about",
    ),
    rule(
        restorejob::ONE_RESTORE,
        &[Kind::RestoreJob],
        DENY,
        "another restore of the same application has not come to its end",
    ),
    rule(restorejob::VERSION, &[Kind::RestoreJob], DENY, "the snapshot's etcd is newer than the target's, by minor"),
    rule(
        restorejob::ETCDUTL,
        &[Kind::RestoreJob],
        DENY,
        "the target's etcd is older than 3.5.0 and no etcdutl is declared in its image",
    ),
    rule(
        store::STORE,
        &[Kind::RestoreJob],
        DENY,
        "the Backup would take the credentials that its strategy names to a store that the strategy does not yield and that \
         is not declared with --trusted-store",
    ),
    rule(
        upstream::WHO_ACTS,
        &[Kind::RestoreJob],
        BOTH,
        "while upstream's strategy controller holds its lease, it fails restores over strategies of our own group; those \
         over its own are its own, which is warned about",
    ),
    rule(restorejob::FROZEN, &[Kind::RestoreJob], DENY, "the spec of a restore that has begun"),
    rule(restorejob::IN_FLIGHT, &[Kind::RestoreJob], WARN, "deleting a restore that is at work"),
];
