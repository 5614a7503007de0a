//! A member's status, computed once at the end of each look, also of one that failed. Pure.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::decide::{Plan, Waiting};
use super::observe::Observed;
use super::restore;
use crate::api::agent::Report;
use crate::api::condition::{self, Finding};
use crate::api::etcdcluster::RestoredFrom;
use crate::api::etcdmember::{EtcdMemberStatus, RestoreFailure, condition_type, reason};
use crate::controller::agent_pod::ended;
use crate::controller::seen::{Asked, Owned};
use crate::controller::tell::sentence;
use crate::controller::{pods, shape};

/// The new status. `failure` is what went wrong while the plan was carried out.
#[must_use]
pub fn compute(seen: &Observed, plan: &Plan, failure: Option<&str>, now: Timestamp) -> EtcdMemberStatus {
    let member = &seen.member;
    let mut status = member.status.clone().unwrap_or_default();
    status.selector = Some(shape::member_selector(&member.spec.cluster_name, &member.name_any()));
    if let Owned::Ours(claim) = &seen.claim {
        status.pvc_name = Some(claim.name_any());
    }
    set_pod(&mut status, seen);
    if let Asked::Answered(myself) = &seen.myself {
        status.member_id = Some(shape::hex_id(myself.member_id));
        status.is_voter = Some(!myself.is_learner);
        if let Some(version) = &myself.version {
            status.version = Some(version.clone());
        }
    }
    if let Some(pod) = seen.pod.ours().filter(|_| status.restored.is_none() && status.member_id.is_some()) {
        status.restored = restored(seen, pod, now);
    }
    status.restore_failure = restore_failure(&status, seen, plan);
    let generation = member.metadata.generation;
    let mut conditions = status.conditions.take().unwrap_or_default();
    condition::set(&mut conditions, &ready(plan, failure), generation, now);
    if let Some(finding) = drifted(&status, &member.spec.version) {
        condition::set(&mut conditions, &finding, generation, now);
    }
    status.conditions = Some(conditions);
    status
}

fn set_pod(status: &mut EtcdMemberStatus, seen: &Observed) {
    if let Some(pod) = seen.pod.ours() {
        status.pod_name = Some(pod.name_any());
        status.replicas = Some(1);
        // The UID of a memory-backed member's first Pod is kept: it tells that the data went with it.
        if !seen.member.spec.storage.in_memory() || status.pod_uid.is_none() {
            status.pod_uid.clone_from(&pod.metadata.uid);
        }
        return;
    }
    status.pod_name = None;
    if seen.member.spec.dormant == Some(true) {
        status.pod_uid = None;
    }
}

/// What the restore told, once etcd answers on its data.
fn restored(seen: &Observed, pod: &Pod, now: Timestamp) -> Option<RestoredFrom> {
    let uri = restore::source_uri(&seen.member)?;
    let report: Option<Report> = pods::container(pod, restore::RESTORE).and_then(ended).and_then(|ended| ended.report);
    let told = report.filter(|report| report.ok)?.restore;
    Some(RestoredFrom {
        uri,
        revision: told.as_ref().and_then(|told| told.revision),
        etcdutl_version: told.map(|told| told.etcdutl_version).filter(|version| !version.is_empty()),
        at: Some(Time(now)),
    })
}

/// A failure stands until another Pod has begun to try again, or the data came about in another way.
fn restore_failure(status: &EtcdMemberStatus, seen: &Observed, plan: &Plan) -> Option<RestoreFailure> {
    if let Waiting::RestoreGivenUp(failure) = &plan.waiting {
        return Some(failure.clone());
    }
    let tries_again = seen.pod.ours().is_some_and(|pod| !pods::is_going(pod));
    status.restore_failure.clone().filter(|_| !tries_again && status.member_id.is_none())
}

fn ready(plan: &Plan, failure: Option<&str>) -> Finding {
    let (reason, message) = match &plan.waiting {
        Waiting::Nothing => (reason::POD_READY, "The Pod is Ready and etcd has told its member id.".to_owned()),
        Waiting::Membership => (reason::WAITING_FOR_MEMBERSHIP, "It is not a member of etcd yet.".to_owned()),
        Waiting::Paused => (reason::PAUSED, "The cluster is paused: no Pod runs, the volume is kept.".to_owned()),
        Waiting::NameTaken(why) => (reason::NAME_TAKEN, sentence(why)),
        Waiting::Secrets(missing) => (reason::SECRET_MISSING, format!("The Pod waits: {}.", missing.join("; "))),
        Waiting::Parent(why) => (reason::CLUSTER_UNAVAILABLE, sentence(why)),
        Waiting::AgentImage => (
            reason::AGENT_IMAGE_NOT_CONFIGURED,
            "A restore needs the operator's own image: start it with --agent-image.".to_owned(),
        ),
        Waiting::RestoreGivenUp(failure) => {
            (reason::RESTORE_FAILED, format!("The restore was given up: {}: {}", failure.reason, failure.message))
        }
        Waiting::Restore(why) => (reason::RESTORING, sentence(why)),
        Waiting::Pod(why) => (reason::POD_NOT_READY, format!("The Pod is not Ready: {why}.")),
        Waiting::Identity(why) => (reason::DISCOVERING_MEMBER_ID, format!("etcd has not told its member id: {why}.")),
        Waiting::DataLost(why) => (reason::DATA_LOST, sentence(why)),
        Waiting::Removal(why) => (reason::REMOVAL_BLOCKED, format!("It cannot leave etcd: {why}.")),
    };
    // A Pod that could not be sealed might still form another cluster on an emptied volume: nobody may count on it yet.
    let Some(failure) = failure else {
        let status = plan.waiting == Waiting::Nothing;
        return Finding { type_: condition_type::READY, status, reason: reason.to_owned(), message };
    };
    let reason = if plan.waiting == Waiting::Nothing { reason::POD_NOT_READY } else { reason };
    let message = format!("Last try failed: {failure}.");
    Finding { type_: condition_type::READY, status: false, reason: reason.to_owned(), message }
}

fn drifted(status: &EtcdMemberStatus, wanted: &str) -> Option<Finding> {
    let runs = status.version.as_deref()?;
    let drifted = runs != wanted;
    let (reason, message) = if drifted {
        (reason::VERSION_MISMATCH, format!("etcd {runs} runs, {wanted} is wanted."))
    } else {
        (reason::VERSION_MATCHED, format!("etcd {runs} runs."))
    };
    Some(Finding { type_: condition_type::VERSION_DRIFTED, status: drifted, reason: reason.to_owned(), message })
}
