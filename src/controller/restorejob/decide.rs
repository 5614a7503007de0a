//! What a restore does next.
//!
//! A restore is a line of steps, each reached when its fact is on record (see [`super::facts`]). Whoever looks, sees the
//! first step that is not reached, does what it needs, and looks again; nothing depends on what was in memory.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::facts::{Capture, Created, Dated, Fact, Inputs, PurgeIntent, Purged, Verified};
use super::observe::{Observed, Remains};
use super::options::Options;
use super::source::{self, Unusable};
use super::status::is_terminal;
use crate::api::common::{APP_CLUSTER_NAME, TypedReference};
use crate::api::condition;
use crate::api::etcdcluster::{DEFAULT_REPLICAS, EtcdClusterStatus};
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;
use crate::rules::class::etcd_strategy;

/// How soon something that is not watched is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How soon the new cluster is looked at again, if no change of it was told.
const LOOK_AT_CLUSTER: Duration = Duration::from_secs(5);

/// A step of a restore; reached when its fact is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// All inputs are recorded.
    Validated,
    /// The whole EtcdCluster is recorded.
    EtcdClusterSpecCaptured,
    /// Everything of the old cluster is gone.
    TargetPurged,
    /// The new cluster exists.
    Recreated,
    /// The new cluster was found to be ours, and ready.
    Verified,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 5] =
        [Self::Validated, Self::EtcdClusterSpecCaptured, Self::TargetPurged, Self::Recreated, Self::Verified];

    /// The word in `status.step`, and the type of the step's condition.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Validated => "Validated",
            Self::EtcdClusterSpecCaptured => "EtcdClusterSpecCaptured",
            Self::TargetPurged => "TargetPurged",
            Self::Recreated => "Recreated",
            Self::Verified => "Verified",
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put our finalizer on the job, so that it cannot go before it has cleaned up.
    Hold,
    /// Take our finalizer off.
    Release,
    /// Write a fact down.
    Record(Fact),
    /// Mark the job as the guard of its cluster, so that nobody else creates or changes it.
    Guard,
    /// Take the mark off.
    Unguard,
    /// Delete the old cluster, if it still is what was captured.
    DeleteCluster {
        /// Its UID.
        uid: String,
        /// Its resourceVersion when it was compared with what was captured.
        resource_version: String,
    },
    /// Create the new cluster.
    CreateCluster {
        /// The old one.
        capture: Box<Capture>,
        /// Where its data comes from.
        inputs: Box<Inputs>,
    },
}

impl Action {
    /// The action's word in logs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Record(fact) => fact.word(),
            Self::Guard => "guard",
            Self::Unguard => "unguard",
            Self::DeleteCluster { .. } => "delete-cluster",
            Self::CreateCluster { .. } => "create-cluster",
        }
    }
}

/// Where the restore stands once the actions are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something is under way or awaited.
    Waiting {
        /// Reason of condition `Ready`.
        reason: &'static str,
        /// What is awaited.
        message: String,
    },
    /// The application has the Backup's data.
    Succeeded {
        /// What a person should know.
        message: String,
    },
    /// Given up.
    Failed {
        /// Why, and what was left.
        message: String,
    },
    /// The job is on its way out and nothing is left to tell.
    Gone,
}

/// Actions, in order, and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do. With anything in it, the world is looked at again right after.
    pub actions: Vec<Action>,
    /// Where the restore stands then.
    pub verdict: Verdict,
    /// When to look again, if nothing changes before.
    pub again: Option<Duration>,
}

impl Plan {
    fn act(actions: impl Into<Vec<Action>>, reason: &'static str, message: &str) -> Self {
        Self { actions: actions.into(), verdict: waiting(reason, message.to_owned()), again: Some(LOOK_AGAIN) }
    }

    fn wait(reason: &'static str, message: String, again: Duration) -> Self {
        Self { actions: Vec::new(), verdict: waiting(reason, message), again: Some(again) }
    }
}

fn waiting(reason: &'static str, message: String) -> Verdict {
    Verdict::Waiting { reason, message }
}

/// The first step that is not reached, if any.
#[must_use]
pub fn next_step(seen: &Observed) -> Option<Step> {
    Step::ALL.into_iter().find(|step| !reached(seen, *step))
}

/// Whether a step's fact is on record.
#[must_use]
pub fn reached(seen: &Observed, step: Step) -> bool {
    let facts = &seen.facts;
    match step {
        Step::Validated => facts.inputs.is_some(),
        Step::EtcdClusterSpecCaptured => facts.capture.is_some(),
        Step::TargetPurged => facts.purged.is_some(),
        Step::Recreated => facts.created.is_some(),
        Step::Verified => facts.verified.is_some(),
    }
}

/// Whether a job is about etcd, and so ours. Until its Backup is there, its target says it, or nothing does.
#[must_use]
pub fn is_ours(seen: &Observed) -> bool {
    if seen.facts.inputs.is_some() {
        return true;
    }
    match &seen.backup {
        Known::Found(backup) => etcd_strategy(&backup.spec.strategy_ref).is_some(),
        Known::Absent | Known::Unknown(_) => {
            seen.job.spec.target_application_ref.as_ref().is_none_or(TypedReference::is_etcd_application)
        }
    }
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed, now: Timestamp) -> Plan {
    if is_finished(&seen.job) {
        return clean_up(seen);
    }
    if seen.job.metadata.deletion_timestamp.is_some() && seen.facts.purge_intent.is_none() {
        return fail(seen, "the RestoreJob was deleted; the cluster was not touched".to_owned());
    }
    match next_step(seen) {
        Some(Step::Validated) => validate(seen, now),
        Some(Step::EtcdClusterSpecCaptured) => capture(seen, now),
        Some(Step::TargetPurged) => purge(seen, now),
        Some(Step::Recreated) => recreate(seen, now),
        Some(Step::Verified) => verify(seen, now),
        None => succeed(seen),
    }
}

/// Whether the job's phase is final.
#[must_use]
pub fn is_finished(job: &RestoreJob) -> bool {
    job.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(is_terminal)
}

fn is_held(job: &RestoreJob) -> bool {
    job.finalizers().iter().any(|finalizer| finalizer == warden::RESTORE_FINALIZER)
}

fn guards(job: &RestoreJob) -> bool {
    job.labels().contains_key(warden::GUARDS)
}

/// What is still to be put back once the end is settled.
fn clean_up(seen: &Observed) -> Plan {
    let mut actions = Vec::new();
    if guards(&seen.job) {
        actions.push(Action::Unguard);
    }
    if is_held(&seen.job) {
        actions.push(Action::Release);
    }
    Plan { actions, verdict: Verdict::Gone, again: None }
}

/// Ends the restore. The phase is written first; what was put in place is taken away after.
fn fail(seen: &Observed, message: String) -> Plan {
    if seen.job.metadata.deletion_timestamp.is_some() {
        return clean_up(seen);
    }
    Plan { actions: Vec::new(), verdict: Verdict::Failed { message }, again: Some(LOOK_AGAIN) }
}

/// The time that the whole restore has, once its inputs are recorded.
fn left(inputs: &Dated<Inputs>, now: Timestamp) -> Duration {
    let since = inputs.at.as_ref().map_or(now, |at| at.0);
    remaining(since, u64::try_from(inputs.fact.timeout_seconds).unwrap_or_default(), now)
}

fn remaining(since: Timestamp, seconds: u64, now: Timestamp) -> Duration {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Duration::from_secs(seconds).saturating_sub(elapsed)
}

fn validate(seen: &Observed, now: Timestamp) -> Plan {
    let options = match Options::parse(seen.job.spec.options.as_ref()) {
        Ok(options) => options,
        Err(error) => return fail(seen, error.to_string()),
    };
    let started = seen.job.status.as_ref().and_then(|status| status.started_at.as_ref()).map_or(now, |time| time.0);
    let left = remaining(started, u64::try_from(options.timeout_seconds).unwrap_or_default(), now);
    let wait = |reason: &'static str, message: String| {
        if left.is_zero() {
            return fail(seen, format!("gave up after {} s: {message}", options.timeout_seconds));
        }
        Plan::wait(reason, message, LOOK_AGAIN.min(left))
    };
    let name = &seen.job.spec.backup_ref.name;
    let backup = match &seen.backup {
        Known::Unknown(why) => return wait(reason::API_UNAVAILABLE, format!("cannot read Backup {name}: {why}")),
        Known::Absent => return wait(reason::BACKUP_NOT_READY, format!("Backup {name} does not exist")),
        Known::Found(backup) => backup,
    };
    let application = &backup.spec.application_ref;
    if let Some(message) = foreign_target(&seen.job, application) {
        return fail(seen, message);
    }
    let source = match source::source(backup) {
        Ok(source) => source,
        Err(unusable @ Unusable::NotYet(_)) => return wait(reason::BACKUP_NOT_READY, unusable.to_string()),
        Err(unusable) => return fail(seen, unusable.to_string()),
    };
    match rival(seen) {
        Err(why) => return wait(reason::API_UNAVAILABLE, format!("cannot list RestoreJobs: {why}")),
        Ok(Some(other)) => {
            return fail(seen, format!("RestoreJob {other} restores the same application; only one can at a time"));
        }
        Ok(None) => {}
    }
    let inputs = Inputs {
        backup: name.clone(),
        source,
        application: TypedReference {
            api_group: Some(application.application_group().to_owned()),
            ..application.clone()
        },
        cluster: APP_CLUSTER_NAME.to_owned(),
        timeout_seconds: options.timeout_seconds,
    };
    let mut actions = Vec::new();
    if !is_held(&seen.job) {
        actions.push(Action::Hold);
    }
    actions.push(Action::Record(Fact::Inputs(Box::new(inputs))));
    Plan::act(actions, reason::BOOTSTRAPPING, "the restore begins")
}

/// Why the target is not the application that was backed up.
fn foreign_target(job: &RestoreJob, source: &TypedReference) -> Option<String> {
    if !source.is_etcd_application() {
        let (kind, group) = (&source.kind, source.application_group());
        return Some(format!("the Backup is of {kind}.{group}, not of an etcd application"));
    }
    let target = job.spec.target_application_ref.as_ref()?;
    if target.is_etcd_application() && target.name == source.name {
        return None;
    }
    Some(format!(
        "an etcd Backup is restored in place only: targetApplicationRef has no namespace, so a restore lands in the \
         Backup's own namespace, and there the chart accepts no release but {APP_CLUSTER_NAME:?}. The target is {} {}, \
         the Backup is of Etcd {}",
        target.kind, target.name, source.name
    ))
}

/// An older unfinished restore of the same application. Of two that see each other, the older one goes on.
fn rival(seen: &Observed) -> Result<Option<String>, String> {
    let others = match &seen.others {
        Known::Found(others) => others,
        Known::Absent => return Ok(None),
        Known::Unknown(why) => return Err(why.clone()),
    };
    let age = |job: &RestoreJob| (job.metadata.creation_timestamp.clone().map(|time| time.0), job.uid());
    let begun = |job: &RestoreJob| is_held(job) && !is_finished(job);
    let mine = age(&seen.job);
    let older = others.iter().filter(|job| job.uid() != seen.job.uid() && begun(job) && age(job) < mine);
    Ok(older.map(ResourceExt::name_any).next())
}

fn capture(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = out_of_time(seen, now, "the cluster was not touched") {
        return plan;
    }
    // The guard comes before the look: what is captured is what is deleted.
    if !guards(&seen.job) {
        return Plan::act([Action::Guard], reason::BOOTSTRAPPING, "the cluster is guarded");
    }
    match &seen.cluster {
        Known::Unknown(why) => {
            Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN)
        }
        Known::Absent => fail(
            seen,
            format!("EtcdCluster {APP_CLUSTER_NAME} does not exist, so that nothing says how to make it again"),
        ),
        Known::Found(cluster) if cluster.metadata.deletion_timestamp.is_some() => {
            fail(seen, format!("EtcdCluster {APP_CLUSTER_NAME} is being deleted by somebody else"))
        }
        Known::Found(cluster) => {
            let object = serde_json::to_value(cluster).unwrap_or_default();
            let fact = Fact::Capture(Box::new(Capture { object }));
            Plan::act([Action::Record(fact)], reason::BOOTSTRAPPING, "the EtcdCluster is recorded")
        }
    }
}

/// The end, where the restore may still end without anything done to the cluster.
fn out_of_time(seen: &Observed, now: Timestamp, left_over: &str) -> Option<Plan> {
    let inputs = seen.facts.inputs.as_ref()?;
    left(inputs, now)
        .is_zero()
        .then(|| fail(seen, format!("the restore did not end within {} s; {left_over}", inputs.fact.timeout_seconds)))
}

fn purge(seen: &Observed, now: Timestamp) -> Plan {
    let Some(intent) = &seen.facts.purge_intent else { return intend(seen, now) };
    let intent = &intent.fact;
    match &seen.cluster {
        Known::Unknown(why) => {
            return Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN);
        }
        Known::Found(cluster) if uid(cluster) == intent.cluster_uid => {
            if cluster.metadata.deletion_timestamp.is_some() {
                return Plan::wait(reason::PURGING, "the old EtcdCluster is going".to_owned(), LOOK_AGAIN);
            }
            return begin_purge(seen, cluster, now);
        }
        Known::Found(_) | Known::Absent => {}
    }
    match &seen.remains {
        Known::Unknown(why) => {
            Plan::wait(reason::API_UNAVAILABLE, format!("cannot list what is left: {why}"), LOOK_AGAIN)
        }
        Known::Found(remains) => match old(remains, &intent.cluster_uid) {
            Some(what) => Plan::wait(reason::PURGING, format!("{what} of the old cluster is going"), LOOK_AGAIN),
            None => purged(),
        },
        Known::Absent => purged(),
    }
}

/// Nothing is deleted yet: the last moment to leave the cluster alone.
fn begin_purge(seen: &Observed, cluster: &DynamicObject, now: Timestamp) -> Plan {
    if let Some(plan) = out_of_time(seen, now, "the cluster was not touched") {
        return plan;
    }
    let captured = seen.facts.capture.as_ref().map(|capture| &capture.fact.object);
    if captured.is_none_or(|captured| is_edited(captured, cluster)) {
        return fail(
            seen,
            format!("EtcdCluster {APP_CLUSTER_NAME} was edited while the restore began; it was not touched"),
        );
    }
    let delete = Action::DeleteCluster {
        uid: uid(cluster),
        resource_version: cluster.metadata.resource_version.clone().unwrap_or_default(),
    };
    Plan::act([delete], reason::PURGING, "the old EtcdCluster is deleted")
}

/// Whether anything that would be made again is no longer what was captured. Its status may have moved on.
fn is_edited(captured: &serde_json::Value, live: &DynamicObject) -> bool {
    let live = serde_json::to_value(live).unwrap_or_default();
    let differs = |pointer: &str| captured.pointer(pointer) != live.pointer(pointer);
    ["/spec", "/metadata/labels", "/metadata/annotations"].into_iter().any(differs)
}

fn purged() -> Plan {
    Plan::act([Action::Record(Fact::Purged(Purged {}))], reason::PURGING, "the old cluster is gone")
}

/// The first thing that is left of the cluster of this UID.
fn old(remains: &Remains, cluster_uid: &str) -> Option<String> {
    if let Some(member) = remains.members.iter().find(|member| member.owner_uid == cluster_uid) {
        return Some(format!("EtcdMember {}", member.name));
    }
    // The member of a left Pod or volume may be gone already; only those of another cluster's member are not ours.
    let others: Vec<&str> = remains.members.iter().map(|member| member.uid.as_str()).collect();
    let first = |kind: &str, all: &[super::observe::Remnant]| {
        let left = all.iter().find(|remnant| !others.contains(&remnant.owner_uid.as_str()));
        left.map(|remnant| format!("{kind} {}", remnant.name))
    };
    first("Pod", &remains.pods).or_else(|| first("PersistentVolumeClaim", &remains.claims))
}

/// The last look before the point of no return.
fn intend(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = out_of_time(seen, now, "the cluster was not touched") {
        return plan;
    }
    let captured = seen.facts.capture.as_ref().map(|capture| &capture.fact.object);
    let uid = captured.and_then(|object| object.pointer("/metadata/uid")).and_then(serde_json::Value::as_str);
    let intent = PurgeIntent { cluster_uid: uid.unwrap_or_default().to_owned() };
    Plan::act([Action::Record(Fact::PurgeIntent(intent))], reason::PURGING, "the old cluster is about to be deleted")
}

fn uid(object: &DynamicObject) -> String {
    object.metadata.uid.clone().unwrap_or_default()
}

/// Whether this cluster was made by this restore.
fn is_stamped(cluster: &DynamicObject, job: &RestoreJob) -> bool {
    let stamp = cluster.annotations().get(warden::RESTORED_BY);
    stamp.is_some() && stamp.map(String::as_str) == job.metadata.uid.as_deref()
}

fn recreate(seen: &Observed, now: Timestamp) -> Plan {
    let (Some(inputs), Some(capture)) = (&seen.facts.inputs, &seen.facts.capture) else {
        return fail(seen, "the records of this restore are incomplete".to_owned());
    };
    match &seen.cluster {
        Known::Unknown(why) => {
            Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN)
        }
        // Made by a look that ended before it could write so.
        Known::Found(cluster) if is_stamped(cluster, &seen.job) => {
            let fact = Fact::Created(Created { cluster_uid: uid(cluster) });
            Plan::act([Action::Record(fact)], reason::BOOTSTRAPPING, "the new EtcdCluster exists")
        }
        Known::Found(_) => {
            let message =
                format!("another EtcdCluster {APP_CLUSTER_NAME} took the name; delete it to let the restore go on");
            give_up(seen, now, message)
        }
        Known::Absent if left(inputs, now).is_zero() => {
            give_up(seen, now, "the new EtcdCluster could not be created".to_owned())
        }
        Known::Absent => {
            let create = Action::CreateCluster {
                capture: Box::new(capture.fact.clone()),
                inputs: Box::new(inputs.fact.clone()),
            };
            Plan::act([create], reason::BOOTSTRAPPING, "the new EtcdCluster is created")
        }
    }
}

/// Waits while there is time, and ends the restore then.
fn give_up(seen: &Observed, now: Timestamp, message: String) -> Plan {
    match &seen.facts.inputs {
        Some(inputs) if !left(inputs, now).is_zero() => {
            Plan::wait(reason::BOOTSTRAPPING, message, LOOK_AT_CLUSTER.min(left(inputs, now)))
        }
        _ => fail(seen, message),
    }
}

fn verify(seen: &Observed, now: Timestamp) -> Plan {
    let created = seen.facts.created.as_ref().map(|created| created.fact.cluster_uid.clone()).unwrap_or_default();
    match &seen.cluster {
        Known::Unknown(why) => {
            Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN)
        }
        Known::Absent => give_up(seen, now, "the new EtcdCluster was deleted by somebody else".to_owned()),
        Known::Found(cluster) if uid(cluster) != created || !is_stamped(cluster, &seen.job) => {
            give_up(seen, now, format!("EtcdCluster {APP_CLUSTER_NAME} is not the one that this restore made"))
        }
        Known::Found(cluster) => match readiness(cluster) {
            Ok(ready_members) => {
                let fact = Fact::Verified(Verified { ready_members });
                Plan::act([Action::Record(fact)], reason::BOOTSTRAPPING, "the new EtcdCluster is ready")
            }
            Err(message) => give_up(seen, now, message),
        },
    }
}

/// The number of ready members, once all are and the cluster says so.
fn readiness(cluster: &DynamicObject) -> Result<i32, String> {
    let status: EtcdClusterStatus =
        cluster.data.get("status").and_then(|status| serde_json::from_value(status.clone()).ok()).unwrap_or_default();
    let replicas = cluster.data.pointer("/spec/replicas").and_then(serde_json::Value::as_i64);
    let replicas = replicas.and_then(|replicas| i32::try_from(replicas).ok()).unwrap_or(DEFAULT_REPLICAS);
    let ready = status.ready_members.unwrap_or_default();
    match condition::find(status.conditions.as_deref().unwrap_or_default(), "Available") {
        Some(available) if available.status != "True" => {
            Err(format!("the new EtcdCluster is not available: {}: {}", available.reason, available.message))
        }
        Some(_) if ready >= replicas => Ok(ready),
        Some(_) => Err(format!("{ready} of {replicas} members of the new EtcdCluster are ready")),
        None => Err("the new EtcdCluster has not begun".to_owned()),
    }
}

fn succeed(seen: &Observed) -> Plan {
    let backup = seen.facts.inputs.as_ref().map(|inputs| inputs.fact.backup.clone()).unwrap_or_default();
    let message = format!(
        "restored from Backup {backup}. This was done without rehearsing the restore, without a snapshot of the old data \
         and without comparing hashes afterwards"
    );
    if seen.job.metadata.deletion_timestamp.is_some() {
        return clean_up(seen);
    }
    Plan { actions: Vec::new(), verdict: Verdict::Succeeded { message }, again: Some(LOOK_AGAIN) }
}
