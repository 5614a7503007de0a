//! Taking a cluster away: captured, compared, its volumes kept, deleted, waited for.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;

use super::back::{STUCK, failed, unless_over};
use super::begin::{rehearse, target};
use super::fence::fence;
use super::fit::unfit_capture;
use super::renew::attempt_of;
use super::{Action, LOOK_AGAIN, Plan, fail, guards, out_of_time, uid};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::names::operator;
use crate::api::restorejob::reason;
use crate::checks::Known;
use crate::controller::restorejob::facts::{Capture, Fact, Kept, PurgeIntent, Purged};
use crate::controller::restorejob::observe::volumes::Standing;
use crate::controller::restorejob::observe::{Observed, Recreation, Remains, Remnant};

/// How often a rehearsal is repeated.
const MOST_ROUNDS: u32 = 5;
/// A rehearsal that is older is repeated.
const FRESH: Duration = Duration::from_mins(15);

pub(super) fn capture(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = out_of_time(seen, now, "the cluster was not touched").or_else(|| fence(seen)) {
        return plan;
    }
    // The guard comes before the look: what is captured is what is deleted.
    if !guards(&seen.job) {
        return Plan::act([Action::Guard], reason::BOOTSTRAPPING, "the cluster is guarded");
    }
    match target(seen) {
        Ok(capture) => {
            let fact = Fact::Capture(Box::new(capture));
            Plan::act([Action::Record(fact)], reason::BOOTSTRAPPING, "the EtcdCluster is recorded")
        }
        Err(plan) => plan,
    }
}

/// The intent, then the volumes that are to outlive it.
pub(super) fn keep(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = fence(seen) {
        return plan;
    }
    let Some(intent) = &seen.facts.purge_intent else { return intend(seen, now) };
    let found = match &seen.volumes {
        Known::Unknown(why) => {
            let plan = Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the volumes: {why}"), LOOK_AGAIN);
            return unless_over(seen, now, plan, "the volumes cannot be read");
        }
        Known::Found(found) => found.as_slice(),
        Known::Absent => &[],
    };
    if let Some(plan) = keep_owned(seen) {
        return unless_over(seen, now, plan, "the old volumes could not be kept");
    }
    let volumes = || intent.fact.volumes.iter().zip(found);
    if volumes().any(|(_, standing)| *standing == Standing::Gone) {
        return failed(seen, "a volume of the old cluster was deleted by somebody else".to_owned());
    }
    let claims = volumes().map(|(volume, _)| volume.claim.clone()).collect();
    Plan::act([Action::Record(Fact::Kept(Kept { claims }))], reason::PURGING, "the old volumes are kept")
}

/// The chosen volumes that are still, or again, their members': with these they would go.
fn keep_owned(seen: &Observed) -> Option<Plan> {
    let Known::Found(found) = &seen.volumes else { return None };
    let volumes = seen.facts.purge_intent.iter().flat_map(|intent| &intent.fact.volumes);
    let owned = volumes.zip(found).filter(|(_, standing)| **standing == Standing::Owned);
    let keep: Vec<Action> = owned.map(|(volume, _)| Action::KeepVolume(Box::new(volume.clone()))).collect();
    (!keep.is_empty()).then(|| Plan::act(keep, reason::PURGING, "the old volumes are kept"))
}

pub(super) fn purge(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = fence(seen) {
        return plan;
    }
    match &seen.cluster {
        Known::Unknown(why) => {
            let plan = Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN);
            unless_over(seen, now, plan, "the EtcdCluster cannot be read")
        }
        Known::Found(cluster) => match whose(seen, cluster) {
            Whose::Doomed if cluster.metadata.deletion_timestamp.is_some() => wait_for_remains(seen, now, false),
            Whose::Doomed => begin_purge(seen, cluster, now),
            Whose::Ours | Whose::Strange => wait_for_remains(seen, now, true),
        },
        Known::Absent => wait_for_remains(seen, now, true),
    }
}

/// Whose a cluster is that stands there before the attempt under way has made its own.
enum Whose {
    /// The old one, or one that an earlier attempt made.
    Doomed,
    /// Of this attempt: a look ended before it could write so.
    Ours,
    /// Somebody else's.
    Strange,
}

fn whose(seen: &Observed, cluster: &DynamicObject) -> Whose {
    let facts = &seen.facts;
    let old = facts.purge_intent.as_ref().map(|intent| intent.fact.cluster_uid.as_str());
    if old == Some(uid(cluster).as_str()) {
        return Whose::Doomed;
    }
    match attempt_of(cluster, &seen.job) {
        Some(attempt) if attempt < facts.attempt() => Whose::Doomed,
        Some(_) => Whose::Ours,
        None => Whose::Strange,
    }
}

/// What is deleted is what was captured. The old cluster may still be left alone here: nothing is deleted yet.
fn begin_purge(seen: &Observed, cluster: &DynamicObject, now: Timestamp) -> Plan {
    let delete = |resource_version: Option<String>| {
        let delete = Action::DeleteCluster { uid: uid(cluster), resource_version };
        Plan::act([delete], reason::PURGING, "the EtcdCluster is deleted")
    };
    if seen.facts.attempt() > 0 {
        let old = seen.facts.purge_intent.as_ref().is_some_and(|intent| intent.fact.cluster_uid == uid(cluster));
        if old {
            return failed(seen, "the old EtcdCluster stands although something else was to be put back".to_owned());
        }
        return unless_over(seen, now, delete(None), "the failed EtcdCluster could not be deleted");
    }
    let captured = seen.facts.capture.as_ref().map(|capture| &capture.fact.object);
    if captured.is_none_or(|captured| is_edited(captured, cluster)) {
        return failed(
            seen,
            format!("EtcdCluster {APP_CLUSTER_NAME} was edited while the restore began; it was not touched"),
        );
    }
    if let Some(why) = outrun(seen) {
        return failed(seen, format!("{why}; the cluster was not touched"));
    }
    if let Some(plan) = keep_owned(seen) {
        return unless_over(seen, now, plan, "the old volumes could not be kept");
    }
    let plan = delete(Some(cluster.metadata.resource_version.clone().unwrap_or_default()));
    unless_over(seen, now, plan, "the cluster was not touched")
}

/// Whether anything that would be made again is no longer what was captured. Its status may have moved on.
fn is_edited(captured: &serde_json::Value, live: &DynamicObject) -> bool {
    let live = serde_json::to_value(live).unwrap_or_default();
    let differs = |pointer: &str| captured.pointer(pointer) != live.pointer(pointer);
    ["/spec", "/metadata/labels", "/metadata/annotations"].into_iter().any(differs)
}

/// Why the revision that was rehearsed is no longer beyond all that clients have seen.
fn outrun(seen: &Observed) -> Option<String> {
    let preflight = &seen.facts.preflight()?.fact;
    let rehearsed = preflight.rehearsal.as_ref()?.revision;
    let Known::Found(live) = &seen.live else { return None };
    let alive = live.revision()?;
    // An etcdutl that cannot raise the revision leaves it far below the raise.
    let raised = preflight.bump > 0 && rehearsed > preflight.bump;
    (raised && alive >= rehearsed)
        .then(|| format!("clients have seen revision {alive}, and the restored data would begin at {rehearsed}"))
}

/// Waits until nothing is left of the cluster that is going.
fn wait_for_remains(seen: &Observed, now: Timestamp, object_gone: bool) -> Plan {
    let remains = match &seen.remains {
        Known::Unknown(why) => {
            let plan = Plan::wait(reason::API_UNAVAILABLE, format!("cannot list what is left: {why}"), LOOK_AGAIN);
            return unless_over(seen, now, plan, "what is left of it cannot be listed");
        }
        Known::Found(remains) => remains.clone(),
        Known::Absent => Remains::default(),
    };
    let stays = match &seen.cluster {
        Known::Found(cluster) if object_gone => uid(cluster),
        Known::Found(_) | Known::Absent | Known::Unknown(_) => String::new(),
    };
    let (remains, left) = if object_gone { leave_lost(remains, &stays, now) } else { (remains, Vec::new()) };
    if let Some(free) = stuck(&remains, &stays, now) {
        let plan = Plan::act([free], reason::PURGING, "a member whose cluster is gone is freed");
        return unless_over(seen, now, plan, "a member cannot be freed");
    }
    if let Some(lost) = lost(&remains, now) {
        let plan = Plan::wait(reason::NODE_LOST, lost.clone(), LOOK_AGAIN);
        return unless_over(seen, now, plan, &lost);
    }
    match old(&remains, &stays) {
        None if object_gone => {
            let fact = Fact::Purged(Purged { attempt: seen.facts.attempt(), left });
            Plan::act([Action::Record(fact)], reason::PURGING, "the old cluster is gone")
        }
        None => {
            let plan = Plan::wait(reason::PURGING, "the old EtcdCluster is going".to_owned(), LOOK_AGAIN);
            unless_over(seen, now, plan, "the old EtcdCluster does not go")
        }
        Some(what) => {
            let plan = Plan::wait(reason::PURGING, format!("{what} of the old cluster is going"), LOOK_AGAIN);
            unless_over(seen, now, plan, &format!("{what} of the old cluster does not go"))
        }
    }
}

/// A member that waits in vain for somebody to take it out of an etcd that is going as a whole.
fn stuck(remains: &Remains, stays: &str, now: Timestamp) -> Option<Action> {
    let member = remains.members.iter().find(|member| {
        member.owner_uid != stays
            && is_overdue(member, now)
            && member.finalizers.iter().any(|name| name == operator::MEMBER_CLEANUP)
    })?;
    let keep = member.finalizers.iter().filter(|name| *name != operator::MEMBER_CLEANUP).cloned().collect();
    Some(Action::FreeMember { member: member.clone(), keep })
}

/// What a person has to know of a Pod whose node is not there to let it go. Nobody but a person can tell whether it still
/// runs there.
fn lost(remains: &Remains, now: Timestamp) -> Option<String> {
    let pod = remains.pods.iter().find(|pod| pod.lost_on.is_some() && is_overdue(pod, now))?;
    let (name, node) = (&pod.name, pod.lost_on.as_deref().unwrap_or_default());
    Some(format!(
        "Pod {name} of the old cluster cannot go: its node {node} is not ready or does not exist. Bring the node back; or, \
         if it is certain that nothing runs there any more, delete Node {node}, taint it with \
         node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or delete the Pod by force (kubectl delete pod {name} \
         --force)"
    ))
}

/// What is left apart from Pods on lost nodes and their volumes, and the names of those Pods: with their cluster and their
/// members gone, nothing but a person could end that wait, and the new members have other names and volumes.
fn leave_lost(remains: Remains, stays: &str, now: Timestamp) -> (Remains, Vec<String>) {
    if remains.members.iter().any(|member| stays.is_empty() || member.owner_uid != stays) {
        return (remains, Vec::new());
    }
    let (lost, pods): (Vec<_>, Vec<_>) =
        remains.pods.into_iter().partition(|pod| pod.lost_on.is_some() && is_overdue(pod, now));
    let of_lost = |claim: &Remnant| lost.iter().any(|pod| pod.owner_uid == claim.owner_uid);
    let claims = remains.claims.into_iter().filter(|claim| !of_lost(claim)).collect();
    let names = lost.iter().map(|pod| pod.name.clone()).collect();
    (Remains { members: remains.members, pods, claims }, names)
}

/// Whether something that is going should have gone by now.
fn is_overdue(remnant: &Remnant, now: Timestamp) -> bool {
    let since = remnant.going_since.map(|since| Duration::try_from(now.duration_since(since)).unwrap_or_default());
    since.is_some_and(|since| since >= STUCK)
}

/// The first thing that is left of a cluster other than the one of this UID.
fn old(remains: &Remains, stays: &str) -> Option<String> {
    let stays = |member: &Remnant| !stays.is_empty() && member.owner_uid == stays;
    if let Some(member) = remains.members.iter().find(|member| !stays(member)) {
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
    let Some(capture) = &seen.facts.capture else {
        return fail(seen, "the records of this restore are incomplete".to_owned());
    };
    let (volumes, revision) = match (&seen.live, capture.fact.uid()) {
        (_, "") => (Vec::new(), None),
        (Known::Unknown(why), _) => {
            let message = format!("cannot look at the old cluster's members: {why}");
            return Plan::wait(reason::API_UNAVAILABLE, message, LOOK_AGAIN);
        }
        (Known::Absent, _) => {
            return fail(seen, format!("EtcdCluster {APP_CLUSTER_NAME} was deleted by somebody else"));
        }
        (Known::Found(live), _) => (live.volumes_to_keep(), live.revision()),
    };
    if let Some(why) = unfit_capture(seen, &capture.fact) {
        return fail(seen, format!("{why}; the cluster was not touched"));
    }
    if let Some(plan) = repeat(seen, &capture.fact, now) {
        return plan;
    }
    let intent = PurgeIntent { cluster_uid: capture.fact.uid().to_owned(), volumes, revision };
    Plan::act([Action::Record(Fact::PurgeIntent(intent))], reason::PURGING, "the old cluster is about to be deleted")
}

/// A rehearsal that is no longer worth anything is repeated: too old, outrun by the clients, or by another etcd than the
/// one that the cluster was edited to have meanwhile.
fn repeat(seen: &Observed, capture: &Capture, now: Timestamp) -> Option<Plan> {
    let preflight = seen.facts.preflight()?;
    let age = preflight.at.as_ref().and_then(|at| Duration::try_from(now.duration_since(at.0)).ok());
    let stale = age.is_some_and(|age| age > FRESH);
    let wanted = capture.object.pointer("/spec/version").and_then(serde_json::Value::as_str);
    let upgraded = preflight.fact.version.as_deref().filter(|rehearsed| Some(*rehearsed) != wanted);
    let upgraded =
        upgraded.map(|version| format!("the rehearsal was etcd {version}'s, which the cluster no longer has"));
    let why = outrun(seen).or(upgraded);
    if !stale && why.is_none() {
        return None;
    }
    let round = preflight.fact.round.saturating_add(1);
    if round >= MOST_ROUNDS {
        let why = why.unwrap_or_else(|| "the rehearsal grows old faster than the restore goes on".to_owned());
        return Some(fail(seen, format!("{why}; the cluster was not touched")));
    }
    Some(rehearse(seen, round))
}
