//! Taking the old cluster away: captured, compared, deleted, waited for.

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;

use super::begin::target;
use super::fence::fence;
use super::{Action, LOOK_AGAIN, Plan, fail, guards, out_of_time, uid};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::restorejob::reason;
use crate::checks::Known;
use crate::controller::restorejob::facts::{Capture, Fact, PurgeIntent, Purged};
use crate::controller::restorejob::observe::{Observed, Recreation, Remains, Remnant};

pub(super) fn capture(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = out_of_time(seen, now, "the cluster was not touched").or_else(|| fence(seen)) {
        return plan;
    }
    // The guard comes before the look: what is captured is what is deleted.
    if !guards(&seen.job) {
        return Plan::act([Action::Guard], reason::BOOTSTRAPPING, "the cluster is guarded");
    }
    let cluster = match target(seen) {
        Ok(cluster) => cluster,
        Err(plan) => return plan,
    };
    let object = serde_json::to_value(cluster).unwrap_or_default();
    let fact = Fact::Capture(Box::new(Capture { object }));
    Plan::act([Action::Record(fact)], reason::BOOTSTRAPPING, "the EtcdCluster is recorded")
}

pub(super) fn purge(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = fence(seen) {
        return plan;
    }
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
    let first = |kind: &str, all: &[Remnant]| {
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
    match &seen.recreation {
        Known::Found(Recreation::Accepted) => {}
        Known::Found(Recreation::Refused(why)) => {
            return fail(
                seen,
                format!("the API server would refuse the restored EtcdCluster: {why}; the cluster was not touched"),
            );
        }
        Known::Absent => {
            return Plan::wait(reason::API_UNAVAILABLE, "EtcdClusters are not served".to_owned(), LOOK_AGAIN);
        }
        Known::Unknown(why) => {
            let message = format!("cannot try whether the restored EtcdCluster would be accepted: {why}");
            return Plan::wait(reason::API_UNAVAILABLE, message, LOOK_AGAIN);
        }
    }
    let captured = seen.facts.capture.as_ref().map(|capture| &capture.fact.object);
    let uid = captured.and_then(|object| object.pointer("/metadata/uid")).and_then(serde_json::Value::as_str);
    let intent = PurgeIntent { cluster_uid: uid.unwrap_or_default().to_owned() };
    Plan::act([Action::Record(Fact::PurgeIntent(intent))], reason::PURGING, "the old cluster is about to be deleted")
}
