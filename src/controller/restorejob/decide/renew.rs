//! The new cluster: made, proven, and the end.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::back::{blocked, ending, failed, unless_over};
use super::fence::{fence, resume};
use super::prove::{Proof, prove};
use super::{Action, LOOK_AGAIN, Plan, Verdict, clean_up, fail, guards, left, options, uid};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::condition;
use crate::api::etcdcluster::EtcdClusterStatus;
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;
use crate::controller::restorejob::build::Start;
use crate::controller::restorejob::facts::{Created, Fact, OldData, Verified};
use crate::controller::restorejob::observe::Observed;
use crate::controller::restorejob::observe::volumes::Standing;
use crate::controller::restorejob::records::restore_uid;
use crate::controller::restorejob::report::outage_seconds;

pub(super) fn recreate(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = fence(seen) {
        return plan;
    }
    let (Some(start), Some(capture)) = (Start::of(&seen.facts), &seen.facts.capture) else {
        return fail(seen, "the records of this restore are incomplete".to_owned());
    };
    match &seen.cluster {
        Known::Unknown(why) => {
            let plan = Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN);
            unless_over(seen, now, plan, "the EtcdCluster cannot be read")
        }
        // Made by a look that ended before it could write so.
        Known::Found(cluster) if attempt_of(cluster, &seen.job) == Some(start.attempt) => {
            let fact = Fact::Created(Created { attempt: start.attempt, cluster_uid: uid(cluster) });
            Plan::act([Action::Record(fact)], reason::BOOTSTRAPPING, "the new EtcdCluster exists")
        }
        // We were deposed meanwhile: the records that were read are older than the cluster.
        Known::Found(cluster) if attempt_of(cluster, &seen.job) > Some(start.attempt) => {
            let message = "the EtcdCluster is of an attempt that began after this look".to_owned();
            Plan::wait(reason::BOOTSTRAPPING, message, LOOK_AGAIN)
        }
        // Of a leader that was deposed: it sent its request before this attempt began, and was heard after.
        Known::Found(cluster) if attempt_of(cluster, &seen.job).is_some() => {
            let delete = Action::DeleteCluster { uid: uid(cluster), resource_version: None };
            Plan::act([delete], reason::PURGING, "an EtcdCluster of an attempt that was given up is deleted")
        }
        // As often as it comes, while there is time.
        Known::Found(cluster) if ending(seen, now).is_none() && is_empty_newcomer(seen, cluster) => {
            let resource_version = Some(cluster.metadata.resource_version.clone().unwrap_or_default());
            let delete = Action::DeleteCluster { uid: uid(cluster), resource_version };
            Plan::act([delete], reason::PURGING, "an empty EtcdCluster that another made meanwhile is deleted")
        }
        Known::Found(_) => {
            let message =
                format!("another EtcdCluster {APP_CLUSTER_NAME} took the name; delete it to let the restore go on");
            let plan = Plan::wait(reason::BOOTSTRAPPING, message.clone(), LOOK_AGAIN);
            // The name would be taken for old data, too.
            if ending(seen, now).is_some() { blocked(seen, plan, &message) } else { plan }
        }
        Known::Absent => {
            let create = Action::CreateCluster { capture: Box::new(capture.fact.clone()), start: Box::new(start) };
            let plan = Plan::act([create], reason::BOOTSTRAPPING, "the new EtcdCluster is created");
            unless_over(seen, now, plan, "the new EtcdCluster could not be created")
        }
    }
}

/// Whether a cluster of another's making is younger than the purge and holds nothing: rendered by something that did not
/// know of the restore. What somebody wrote, or is going to restore, or made past the guard on purpose, is not ours to
/// delete.
fn is_empty_newcomer(seen: &Observed, cluster: &DynamicObject) -> bool {
    let Some(intent) = &seen.facts.purge_intent else { return false };
    let made = cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let is_younger = !intent.fact.cluster_uid.is_empty() || made > intent.at.as_ref().map(|time| time.0);
    let on_purpose = cluster.annotations().contains_key(warden::IGNORE_RESTORE)
        || cluster.data.pointer("/spec/bootstrap/restore").is_some_and(|restore| !restore.is_null());
    let formed = status(cluster).cluster_id.is_some_and(|id| !id.is_empty());
    let is_empty = match &seen.live {
        Known::Found(live) => live.revision().map_or(!formed, |revision| revision <= EMPTY_REVISION),
        Known::Absent => !formed,
        Known::Unknown(_) => false,
    };
    is_younger && !on_purpose && is_empty && cluster.metadata.deletion_timestamp.is_none()
}

/// Revision of an etcd in which nothing was ever written.
const EMPTY_REVISION: i64 = 1;

pub(super) fn verify(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = fence(seen) {
        return plan;
    }
    let created = seen.facts.created_uid().unwrap_or_default();
    match &seen.cluster {
        Known::Unknown(why) => {
            let plan = Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN);
            unless_over(seen, now, plan, "the EtcdCluster cannot be read")
        }
        Known::Absent => failed(seen, "the new EtcdCluster was deleted by somebody else".to_owned()),
        Known::Found(cluster) if uid(cluster) != created || attempt_of(cluster, &seen.job).is_none() => {
            failed(seen, format!("EtcdCluster {APP_CLUSTER_NAME} is not the one that this restore made"))
        }
        Known::Found(cluster) => match prove(seen, cluster) {
            Proof::Complete(verified) => {
                let fact = Fact::Verified(verified);
                Plan::act([Action::Record(fact)], reason::BOOTSTRAPPING, "the new EtcdCluster has the data")
            }
            Proof::Refuted(why) => failed(seen, format!("the proof failed: {why}")),
            Proof::Lost(why) => {
                let plan = Plan::wait(reason::BOOTSTRAPPING, why.clone(), LOOK_AGAIN);
                // Clients have written meanwhile, and nothing says that the data is wrong: not ours to throw away.
                if ending(seen, now).is_some() { blocked(seen, plan, &why) } else { plan }
            }
            Proof::Open(why) => {
                let message = trouble(cluster).map_or_else(|| why.clone(), |trouble| format!("{why}; {trouble}"));
                if let Some(hopeless) = hopeless(cluster) {
                    return failed(seen, hopeless);
                }
                let plan = Plan::wait(reason::BOOTSTRAPPING, message.clone(), LOOK_AGAIN);
                unless_over(seen, now, plan, &message)
            }
        },
    }
}

fn status(cluster: &DynamicObject) -> EtcdClusterStatus {
    let status = cluster.data.get("status").and_then(|status| serde_json::from_value(status.clone()).ok());
    status.unwrap_or_default()
}

/// What the cluster itself says about why it is not available.
fn trouble(cluster: &DynamicObject) -> Option<String> {
    let conditions = status(cluster).conditions.unwrap_or_default();
    let available = condition::find(&conditions, "Available")?;
    (available.status != "True").then(|| format!("{}: {}", available.reason, available.message))
}

/// Why the cluster will never come up from what it was given.
fn hopeless(cluster: &DynamicObject) -> Option<String> {
    let conditions = status(cluster).conditions.unwrap_or_default();
    let available = condition::find(&conditions, "Available")?;
    (available.status != "True" && available.reason == crate::api::etcdcluster::reason::RESTORE_FAILED)
        .then(|| format!("the new EtcdCluster gave up: {}", available.message))
}

/// From the proof on: clients may write, so that nothing is taken back. The guard ends, the release is put back, and
/// members that are missing are waited for as long as there is time.
pub(super) fn finish(seen: &Observed, now: Timestamp) -> Plan {
    let Some(verified) = &seen.facts.verified else {
        return fail(seen, "the records of this restore are incomplete".to_owned());
    };
    if guards(&seen.job) {
        return Plan::act([Action::Unguard], reason::BOOTSTRAPPING, "the cluster is no longer guarded");
    }
    if seen.facts.resumed.is_none() {
        return resume(seen);
    }
    if let Some(plan) = expire(seen, now) {
        return plan;
    }
    if seen.job.metadata.deletion_timestamp.is_some() {
        return clean_up(seen);
    }
    if let Some(rollback) = seen.facts.rollbacks.values().next() {
        let message = rolled_back(seen, &rollback.fact.why);
        return Plan { actions: Vec::new(), verdict: Verdict::Failed { message }, again: Some(LOOK_AGAIN) };
    }
    let degraded = missing(seen, &verified.fact);
    let over = seen.facts.inputs.as_ref().is_none_or(|inputs| left(inputs, now).is_zero());
    match degraded {
        Some(degraded) if !over => Plan::wait(reason::DEGRADED, degraded, LOOK_AGAIN),
        degraded => succeed(seen, &verified.fact, degraded),
    }
}

/// Members that are not ready yet, where the restored cluster is still the one that is there.
fn missing(seen: &Observed, verified: &Verified) -> Option<String> {
    let Known::Found(cluster) = &seen.cluster else { return None };
    let ready = status(cluster).ready_members.unwrap_or_default();
    let ours = seen.facts.created_uid() == Some(uid(cluster).as_str());
    let replicas = verified.replicas;
    (ours && ready < replicas).then(|| format!("the data is proven; {ready} of {replicas} members are ready"))
}

fn succeed(seen: &Observed, verified: &Verified, degraded: Option<String>) -> Plan {
    let backup = seen.facts.inputs.as_ref().map(|inputs| inputs.fact.backup.clone()).unwrap_or_default();
    let Verified { members, replicas, revision, .. } = verified;
    let hash = verified.hash_kv.map(|hash| format!(", with hash {hash:08x} as rehearsed"));
    let skipped = seen.facts.safety.as_ref().and_then(|safety| safety.fact.skipped.as_ref());
    let skipped = skipped.map(|skipped| format!("; no snapshot of the old data was taken: {skipped}"));
    let degraded = degraded.map(|degraded| format!("; degraded: {degraded}"));
    let outage = outage_seconds(&seen.facts).map(|seconds| format!("; clients were cut off for about {seconds} s"));
    let more: String = [hash, outage, skipped, degraded].into_iter().flatten().collect();
    let message =
        format!("restored from Backup {backup}: {members} of {replicas} members proven at revision {revision}{more}");
    Plan { actions: Vec::new(), verdict: Verdict::Succeeded { message }, again: Some(LOOK_AGAIN) }
}

/// What a person should know of a restore that was taken back.
fn rolled_back(seen: &Observed, why: &str) -> String {
    match seen.facts.rollback().map(|rollback| &rollback.fact.source) {
        Some(OldData::Standing { .. }) => format!("{why}; the old cluster was left standing"),
        Some(OldData::Volume { claim, .. }) => format!("rolled back to the old data in volume {claim}: {why}"),
        Some(OldData::Snapshot(source)) => {
            let key = source.s3.key.clone().unwrap_or_default();
            format!("rolled back to the old data of s3://{}/{key}: {why}", source.s3.bucket)
        }
        None => why.to_owned(),
    }
}

/// Kept volumes may go after a while; until this is written on them, nobody takes them away.
fn expire(seen: &Observed, now: Timestamp) -> Option<Plan> {
    let intent = seen.facts.purge_intent.as_ref()?;
    let found = match &seen.volumes {
        Known::Unknown(why) => {
            return Some(Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the volumes: {why}"), LOOK_AGAIN));
        }
        Known::Absent => return None,
        Known::Found(found) => found,
    };
    let keep = SignedDuration::from_secs(options(seen).keep_seconds);
    let until = now.checked_add(keep).unwrap_or(Timestamp::MAX);
    let kept = intent.fact.volumes.iter().zip(found).filter(|(_, standing)| **standing == Standing::Kept);
    let actions: Vec<Action> =
        kept.map(|(volume, _)| Action::ExpireVolume { volume: Box::new(volume.clone()), until }).collect();
    (!actions.is_empty())
        .then(|| Plan::act(actions, reason::BOOTSTRAPPING, "when the kept volumes may go is written on them"))
}

/// Which attempt of this restore made a cluster, if one did.
pub(super) fn attempt_of(cluster: &DynamicObject, job: &RestoreJob) -> Option<u32> {
    let annotations = cluster.annotations();
    if annotations.get(warden::RESTORED_BY) != Some(&restore_uid(job)) {
        return None;
    }
    annotations.get(warden::RESTORE_ATTEMPT)?.parse().ok()
}
