//! What a BackupJob needs next.

mod destination;

use std::time::Duration;

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use self::destination::strategy;
pub use self::destination::{BackupClassView, RenderFault, render, strategy_of};
use super::observe::{Inputs, Observed};
use crate::api::backup::Backup;
use crate::api::backupclass::BackupClassStrategy;
use crate::api::backupjob::{BackupJob, phase};
use crate::api::common::{APP_CLUSTER_NAME, S3Location, TypedReference};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdsnapshot::{EtcdSnapshot, phase as snapshot_phase};
use crate::api::names::{self, warden};
use crate::api::{backupjob::reason, condition};
use crate::checks::Known;
use crate::rules::class::{Resolution, StrategyGroup, leads_to_etcd, resolve};

/// How long a job waits for what it needs before its snapshot begins: class, strategy, credentials, a cluster.
pub const PREPARE_WITHIN: Duration = Duration::from_mins(30);
/// How long a snapshot may take. Longer than the 30 minutes that its Job has, so that the Job's own end comes first.
pub const SNAPSHOT_WITHIN: Duration = Duration::from_mins(40);
/// How soon something that is not watched is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// One step towards the Backup.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create the job's EtcdSnapshot: everything it needs is there.
    CreateSnapshot {
        /// Where to.
        destination: Box<S3Location>,
        /// What the Backup will say.
        record: Box<Record>,
    },
    /// Delete the EtcdSnapshot, and with it the Job that runs: nobody would record what it still stores.
    CancelSnapshot {
        /// The snapshot.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Create the Backup: the snapshot is stored.
    CreateBackup {
        /// Under this name.
        name: String,
        /// What it says.
        record: Box<Record>,
    },
}

/// What a Backup says that its snapshot does not know; recorded when the snapshot is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Name of the BackupJob.
    pub job: String,
    /// The application, its group made explicit.
    pub application_ref: TypedReference,
    /// The strategy.
    pub strategy_ref: TypedReference,
    /// The class entry's parameters.
    pub parameters: std::collections::BTreeMap<String, String>,
}

/// Where the job stands once the steps are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something is awaited.
    Waiting {
        /// `Pending` before anything was made, `Running` after.
        phase: &'static str,
        /// Reason of condition `Ready`.
        reason: &'static str,
        /// What is awaited.
        message: String,
    },
    /// The Backup exists.
    Succeeded {
        /// Its name.
        backup: String,
    },
    /// Given up.
    Failed {
        /// Why.
        message: String,
    },
}

/// Steps, in order, and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do.
    pub steps: Vec<Step>,
    /// Where the job stands then.
    pub verdict: Verdict,
    /// When to look again, if nothing changes before.
    pub again: Option<Duration>,
}

impl Plan {
    fn failed(message: String) -> Self {
        Self { steps: Vec::new(), verdict: Verdict::Failed { message }, again: None }
    }
}

/// Whether a job is about etcd, and so ours; other controllers handle the rest.
#[must_use]
pub fn is_ours(job: &BackupJob, class: &Known<BackupClassView>) -> bool {
    let class = match class {
        Known::Found(class) => Some(class.as_ref()),
        Known::Absent | Known::Unknown(_) => None,
    };
    leads_to_etcd(class, &job.spec.application_ref)
}

/// Whether a job is over a strategy of upstream's group, on which its own controllers act while they are there. What has
/// begun with us ends with us.
#[must_use]
pub fn is_upstreams(job: &BackupJob, class: &Known<BackupClassView>) -> bool {
    let Known::Found(class) = class else { return false };
    let upstreams = matches!(resolve(class, &job.spec.application_ref), Resolution::Etcd(StrategyGroup::Upstream, _));
    upstreams && !had_snapshot(job)
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed, now: Timestamp) -> Plan {
    match &seen.snapshot {
        Known::Unknown(why) => Waits::of(seen, now).unreadable("the EtcdSnapshot", why),
        Known::Found(snapshot) => taking(seen, snapshot, now),
        Known::Absent if had_snapshot(&seen.job) => {
            Plan::failed(format!("the EtcdSnapshot {} was deleted before it was stored", snapshot_name(&seen.job)))
        }
        Known::Absent => preparing(seen, now),
    }
}

/// The name of a job's EtcdSnapshot.
#[must_use]
pub fn snapshot_name(job: &BackupJob) -> String {
    names::snapshot(&job.name_any(), &job.uid().unwrap_or_default())
}

fn had_snapshot(job: &BackupJob) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    condition::find(conditions, reason::READY).is_some_and(|ready| ready.reason == reason::ETCD_BACKUP_RUNNING)
}

/// Waiting, with a deadline.
struct Waits {
    started: Timestamp,
    now: Timestamp,
}

impl Waits {
    fn of(seen: &Observed, now: Timestamp) -> Self {
        let started = seen.job.status.as_ref().and_then(|status| status.started_at.as_ref());
        Self { started: started.map_or(now, |time| time.0), now }
    }

    fn wait(&self, phase: &'static str, reason: &'static str, message: String, again: Duration) -> Plan {
        let left = remaining(self.started, PREPARE_WITHIN, self.now);
        if left.is_zero() {
            return Plan::failed(format!("gave up after {} min: {message}", PREPARE_WITHIN.as_secs() / 60));
        }
        let verdict = Verdict::Waiting { phase, reason, message };
        Plan { steps: Vec::new(), verdict, again: Some(again.min(left)) }
    }

    fn pending(&self, reason: &'static str, message: String) -> Plan {
        self.wait(phase::PENDING, reason, message, PREPARE_WITHIN)
    }

    fn unreadable(&self, what: &str, why: &str) -> Plan {
        self.wait(phase::PENDING, reason::API_UNAVAILABLE, format!("cannot read {what}: {why}"), LOOK_AGAIN)
    }
}

fn remaining(since: Timestamp, within: Duration, now: Timestamp) -> Duration {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    within.saturating_sub(elapsed)
}

fn preparing(seen: &Observed, now: Timestamp) -> Plan {
    let waits = Waits::of(seen, now);
    let Some(inputs) = &seen.inputs else { return waits.unreadable("what the backup needs", "nothing was read") };
    if let Some(why) = &seen.refused {
        return Plan::failed(format!("refused: {why}"));
    }
    let (entry, spec) = match strategy(&seen.job, inputs, &waits) {
        Ok(found) => found,
        Err(plan) => return plan,
    };
    let application = match &inputs.application {
        Known::Found(application) => application,
        Known::Absent => {
            let name = &seen.job.spec.application_ref.name;
            return Plan::failed(format!("application Etcd {name} does not exist in this namespace"));
        }
        Known::Unknown(why) => return waits.unreadable("the application", why),
    };
    let destination = match render(&seen.job, entry, spec, application, now) {
        Ok(destination) => destination,
        Err(error) => return Plan::failed(format!("strategy {}: {error}", entry.strategy_ref.name)),
    };
    if let Some(plan) = blocked(seen, inputs, &destination, &waits) {
        return plan;
    }
    let name = snapshot_name(&seen.job);
    Plan {
        steps: vec![Step::CreateSnapshot {
            destination: Box::new(destination),
            record: Box::new(record(&seen.job, entry)),
        }],
        verdict: running(format!("EtcdSnapshot {name} begins")),
        again: Some(SNAPSHOT_WITHIN),
    }
}

/// What keeps the snapshot from beginning, although everything about its destination is known.
fn blocked(seen: &Observed, inputs: &Inputs, destination: &S3Location, waits: &Waits) -> Option<Plan> {
    let secret = &destination.credentials_secret_ref.name;
    let running = |reason, message| Some(waits.wait(phase::RUNNING, reason, message, PREPARE_WITHIN));
    match &inputs.credentials {
        Known::Unknown(why) => return Some(waits.unreadable("the credentials", why)),
        Known::Absent => {
            let message = format!("Secret {secret} with the S3 credentials does not exist in this namespace");
            return Some(waits.wait(phase::PENDING, reason::CREDENTIALS_PENDING, message, LOOK_AGAIN));
        }
        Known::Found(()) => {}
    }
    if let Some(restore) = &seen.restoring {
        return running(reason::RESTORE_IN_PROGRESS, format!("RestoreJob {restore} is restoring the cluster"));
    }
    match &inputs.cluster {
        Known::Unknown(why) => Some(waits.unreadable("the EtcdCluster", why)),
        Known::Absent => {
            running(reason::CLUSTER_NOT_AVAILABLE, format!("EtcdCluster {APP_CLUSTER_NAME} does not exist"))
        }
        Known::Found(cluster) => match unavailable(cluster) {
            Some(message) => running(reason::CLUSTER_NOT_AVAILABLE, message),
            None => None,
        },
    }
}

/// Why a cluster cannot be snapshot now.
fn unavailable(cluster: &EtcdCluster) -> Option<String> {
    let name = cluster.name_any();
    if cluster.metadata.deletion_timestamp.is_some() {
        return Some(format!("EtcdCluster {name} is being deleted"));
    }
    let conditions = cluster.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    match condition::find(conditions, "Available") {
        Some(available) if available.status == "True" => None,
        Some(available) => {
            Some(format!("EtcdCluster {name} is not available: {}: {}", available.reason, available.message))
        }
        None => Some(format!("EtcdCluster {name} is not available yet")),
    }
}

fn record(job: &BackupJob, entry: &BackupClassStrategy) -> Record {
    let application = &job.spec.application_ref;
    Record {
        job: job.name_any(),
        application_ref: TypedReference {
            api_group: Some(application.application_group().to_owned()),
            ..application.clone()
        },
        strategy_ref: entry.strategy_ref.clone(),
        parameters: entry.parameters.clone().unwrap_or_default(),
    }
}

fn running(message: String) -> Verdict {
    Verdict::Waiting { phase: phase::RUNNING, reason: reason::ETCD_BACKUP_RUNNING, message }
}

/// Whether an object was made for this very job, not for one that had its name before.
#[must_use]
pub fn belongs_to(labels: &std::collections::BTreeMap<String, String>, job: &BackupJob) -> bool {
    let uid = job.uid().unwrap_or_default();
    !uid.is_empty() && labels.get(warden::BACKUP_JOB_UID) == Some(&uid)
}

fn taking(seen: &Observed, snapshot: &EtcdSnapshot, now: Timestamp) -> Plan {
    let name = snapshot.name_any();
    if !belongs_to(snapshot.labels(), &seen.job) {
        return Plan::failed(format!("EtcdSnapshot {name} exists already and was not made for this job"));
    }
    let status = snapshot.status.clone().unwrap_or_default();
    match status.phase.as_deref() {
        Some(snapshot_phase::COMPLETE) if status.artifact.as_ref().is_none_or(|stored| stored.uri.is_empty()) => {
            Plan::failed(format!("EtcdSnapshot {name} is complete but does not say what was stored"))
        }
        Some(snapshot_phase::COMPLETE) => recording(seen, snapshot, now),
        Some(snapshot_phase::FAILED) => Plan::failed(failure(&name, status.conditions.as_deref().unwrap_or_default())),
        _ => {
            let began = snapshot.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
            let left = remaining(began, SNAPSHOT_WITHIN, now);
            if left.is_zero() {
                return cancel(snapshot);
            }
            let told = condition::find(status.conditions.as_deref().unwrap_or_default(), reason::READY);
            let message = told.map_or_else(
                || format!("EtcdSnapshot {name} has not begun"),
                |ready| format!("EtcdSnapshot {name}: {}: {}", ready.reason, ready.message),
            );
            Plan { steps: Vec::new(), verdict: running(message), again: Some(left) }
        }
    }
}

/// The snapshot's own words for its failure.
fn failure(name: &str, conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]) -> String {
    match condition::find(conditions, reason::READY) {
        Some(ready) => format!("EtcdSnapshot {name} failed: {}: {}", ready.reason, ready.message),
        None => format!("EtcdSnapshot {name} failed without saying why"),
    }
}

fn cancel(snapshot: &EtcdSnapshot) -> Plan {
    let name = snapshot.name_any();
    Plan {
        verdict: Verdict::Failed {
            message: format!("EtcdSnapshot {name} was not stored within {} min", SNAPSHOT_WITHIN.as_secs() / 60),
        },
        steps: vec![Step::CancelSnapshot { name, uid: snapshot.uid().unwrap_or_default() }],
        again: None,
    }
}

/// The snapshot is stored: the Backup is to be made, unless it was already.
fn recording(seen: &Observed, snapshot: &EtcdSnapshot, now: Timestamp) -> Plan {
    let Some(record) = recorded(snapshot) else {
        return Plan::failed(format!(
            "EtcdSnapshot {} is stored, but lost annotation {}: no Backup can be made of it",
            snapshot.name_any(),
            warden::BACKUP_RECORD
        ));
    };
    let (first, beside) = (names::backup(&seen.job.name_any()), snapshot_name(&seen.job));
    let waits = Waits { started: now, now };
    let (first_seen, beside_seen) = match &seen.backups {
        None => return waits.unreadable("the Backups", "nothing was read"),
        Some((Known::Unknown(why), _) | (_, Known::Unknown(why))) => return waits.unreadable("the Backups", why),
        Some(found) => found,
    };
    let mine = |found: &Known<Backup>| match found {
        Known::Found(backup) => Some(belongs_to(backup.labels(), &seen.job)),
        Known::Absent | Known::Unknown(_) => None,
    };
    let create = |name: String| Plan {
        steps: vec![Step::CreateBackup { name: name.clone(), record: Box::new(record.clone()) }],
        verdict: Verdict::Succeeded { backup: name },
        again: None,
    };
    let done = |backup: String| Plan { steps: Vec::new(), verdict: Verdict::Succeeded { backup }, again: None };
    match (mine(first_seen), mine(beside_seen)) {
        (Some(true), _) => done(first),
        (_, Some(true)) => done(beside),
        (None, _) => create(first),
        (Some(false), None) => create(beside),
        (Some(false), Some(false)) => {
            Plan::failed(format!("Backups {first} and {beside} exist already and were not made for this job"))
        }
    }
}

/// What was recorded when the snapshot was made.
#[must_use]
pub fn recorded(snapshot: &EtcdSnapshot) -> Option<Record> {
    serde_json::from_str(snapshot.annotations().get(warden::BACKUP_RECORD)?).ok()
}

/// A reference by name.
#[must_use]
pub fn named(name: &str) -> LocalObjectReference {
    LocalObjectReference { name: name.to_owned() }
}
