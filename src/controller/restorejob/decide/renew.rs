//! The new cluster: made, looked at, and the end.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::fence::fence;
use super::{Action, LOOK_AGAIN, LOOK_AT_CLUSTER, Plan, Verdict, clean_up, fail, left, uid};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::condition;
use crate::api::etcdcluster::{DEFAULT_REPLICAS, EtcdClusterStatus};
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;
use crate::controller::restorejob::facts::{Created, Fact, Verified};
use crate::controller::restorejob::observe::Observed;

pub(super) fn recreate(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = fence(seen) {
        return plan;
    }
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
        Known::Absent if left(inputs, now).is_zero() && answer(seen) == Some("Abandon") => {
            fail(seen, "abandoned on request: there is no EtcdCluster".to_owned())
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

/// What a person decided about a restore that is blocked.
fn answer(seen: &Observed) -> Option<&str> {
    seen.job.annotations().get(warden::UNBLOCK).map(String::as_str)
}

/// Waits while there is time. Then a person has to decide: with the old cluster given up and the new one not proven, to
/// end the restore would be to leave an empty or stranded cluster. What comes right meanwhile is taken.
fn give_up(seen: &Observed, now: Timestamp, message: String) -> Plan {
    let left = seen.facts.inputs.as_ref().map_or(Duration::ZERO, |inputs| left(inputs, now));
    if !left.is_zero() || answer(seen) == Some("Retry") {
        return Plan::wait(reason::BOOTSTRAPPING, message, LOOK_AT_CLUSTER);
    }
    if answer(seen) == Some("Abandon") {
        return fail(seen, format!("abandoned on request: {message}"));
    }
    let unblock = warden::UNBLOCK;
    let message = format!(
        "time ran out: {message}. The cluster stays guarded and its HelmRelease suspended. To go on waiting, annotate this \
         RestoreJob with {unblock}=Retry; to end it as things are, with {unblock}=Abandon"
    );
    Plan::wait(reason::BLOCKED, message, LOOK_AT_CLUSTER)
}

pub(super) fn verify(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = fence(seen) {
        return plan;
    }
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

pub(super) fn succeed(seen: &Observed) -> Plan {
    let backup = seen.facts.inputs.as_ref().map(|inputs| inputs.fact.backup.clone()).unwrap_or_default();
    let message = format!(
        "restored from Backup {backup}. This was done without a snapshot of the old data and without \
         comparing hashes afterwards"
    );
    if seen.job.metadata.deletion_timestamp.is_some() {
        return clean_up(seen);
    }
    Plan { actions: Vec::new(), verdict: Verdict::Succeeded { message }, again: Some(LOOK_AGAIN) }
}

/// Whether this cluster was made by this restore.
fn is_stamped(cluster: &DynamicObject, job: &RestoreJob) -> bool {
    let stamp = cluster.annotations().get(warden::RESTORED_BY);
    stamp.is_some() && stamp.map(String::as_str) == job.metadata.uid.as_deref()
}
