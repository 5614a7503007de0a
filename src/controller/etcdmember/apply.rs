//! Carries a member's plan out. No decisions: each step is done as it stands, and doing it twice does no harm.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::PropagationPolicy;
use kube::{Api, ResourceExt};
use serde_json::json;
use tonic::Code;

use super::decide::{Planned, Step};
use super::observe::{self, Observed};
use super::{Error, Reader, build};
use crate::api::etcdmember::EtcdMember;
use crate::api::names::{operator, warden};
use crate::controller::{access, pods};
use crate::k8s::apply::{create, merge, merge_into, open_gate};
use crate::k8s::delete::{Target, delete};
use crate::k8s::error::{Class, class};

/// Does the steps in their order; the first that fails ends it. Also gives how many are done.
pub(super) async fn apply(reader: &Reader, seen: &Observed, steps: &[Planned]) -> (usize, Result<(), Error>) {
    for (done, planned) in steps.iter().enumerate() {
        if let Err(error) = step(reader, seen, &planned.step).await {
            return (done, Err(error));
        }
        tracing::info!(step = ?planned.step, because = planned.because, "done");
    }
    (steps.len(), Ok(()))
}

async fn step(reader: &Reader, seen: &Observed, step: &Step) -> Result<(), Error> {
    match step {
        Step::AddFinalizer => add_finalizer(reader, &seen.member).await,
        Step::RemoveFinalizer => remove_finalizer(reader, &seen.member).await,
        Step::HandOver { to } => hand_over(reader, seen, *to).await,
        Step::LeaveEtcd { id } => leave_etcd(reader, seen, *id).await,
        Step::CreateClaim => {
            let api: Api<PersistentVolumeClaim> = reader.api(&seen.member);
            made(create(&api, &build::claim(&seen.member)).await, "make the volume claim")
        }
        Step::CreatePod => {
            let inputs = build::Inputs { parent: seen.parent.alive(), settings: &reader.context.settings };
            let api: Api<Pod> = reader.api(&seen.member);
            made(create(&api, &build::pod(&seen.member, inputs)).await, "make the Pod")
        }
        Step::DeletePod => delete_pod(reader, seen).await,
        Step::Seal => seal(reader, seen).await,
        Step::LabelVoter => {
            patch_pod(reader, seen, json!({"labels": {operator::ROLE: operator::ROLE_VOTER}}), "label the Pod").await
        }
        Step::DeleteMember => delete_member(reader, &seen.member).await,
    }
}

/// A taken name is no failure: the next look tells whose it is.
fn made<K>(result: Result<K, kube::Error>, doing: &'static str) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if class(&error) == Class::AlreadyExists => Ok(()),
        Err(source) => Err(Error::Api { doing, source }),
    }
}

async fn add_finalizer(reader: &Reader, member: &EtcdMember) -> Result<(), Error> {
    let mut finalizers = member.finalizers().to_vec();
    finalizers.push(operator::MEMBER_CLEANUP.to_owned());
    set_finalizers(reader, member, &finalizers, "add the finalizer").await
}

async fn remove_finalizer(reader: &Reader, member: &EtcdMember) -> Result<(), Error> {
    let mut finalizers = member.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != operator::MEMBER_CLEANUP);
    set_finalizers(reader, member, &finalizers, "remove the finalizer").await
}

async fn set_finalizers(
    reader: &Reader,
    member: &EtcdMember,
    finalizers: &[String],
    doing: &'static str,
) -> Result<(), Error> {
    let api: Api<EtcdMember> = reader.api(member);
    match merge(&api, member, json!({"metadata": {"finalizers": finalizers}})).await {
        Ok(_) => Ok(()),
        Err(error) if class(&error) == Class::NotFound => Ok(()),
        Err(source) => Err(Error::Api { doing, source }),
    }
}

/// Only the leader can hand over, and the leader is this very member.
async fn hand_over(reader: &Reader, seen: &Observed, to: u64) -> Result<(), Error> {
    let (Some(cluster), Some(pod)) = (seen.parent.alive(), seen.pod.ours()) else { return Ok(()) };
    let Some(address) = pods::address(pod) else { return Ok(()) };
    let material = access::material(&reader.context.client, cluster).await?;
    let handed = async {
        let client = access::dial(access::Door { member: &seen.member, address }, &material).await?;
        Ok::<_, access::Error>(client.move_leader(to).await?)
    };
    // A courtesy to clients, not a condition: etcd elects another leader when this one has left.
    if let Err(error) = handed.await {
        tracing::warn!(error = crate::controller::frame::chain(&error), "leadership not handed over");
    }
    Ok(())
}

async fn leave_etcd(reader: &Reader, seen: &Observed, id: u64) -> Result<(), Error> {
    let client = observe::dial_sibling(reader, seen).await?;
    match client.member_remove(id).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(Code::NotFound) => Ok(()),
        Err(error) => Err(Error::Etcd(error.into())),
    }
}

async fn delete_pod(reader: &Reader, seen: &Observed) -> Result<(), Error> {
    let Some(pod) = seen.pod.ours() else { return Ok(()) };
    let api: Api<Pod> = reader.api(&seen.member);
    let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
    let target = Target { name: &name, uid: &uid, resource_version: None };
    let deleted = delete(&api, &target, PropagationPolicy::Background).await;
    deleted.map(drop).map_err(|source| Error::Api { doing: "delete the Pod", source })
}

/// The annotation first, the gate after it: whoever sees the gate open has seen the annotation.
async fn seal(reader: &Reader, seen: &Observed) -> Result<(), Error> {
    const DOING: &str = "seal the Pod";
    let existing = build::InitialState::Existing.as_str();
    patch_pod(reader, seen, json!({"annotations": {warden::INITIAL_CLUSTER_STATE: existing}}), DOING).await?;
    let Some(pod) = seen.pod.ours().filter(|pod| pods::waits_for_gate(pod, warden::SEALED)) else { return Ok(()) };
    let api: Api<Pod> = reader.api(&seen.member);
    let opened = open_gate(&api, pod, warden::SEALED, Timestamp::now()).await;
    opened.map(drop).map_err(|source| Error::Api { doing: DOING, source })
}

async fn patch_pod(
    reader: &Reader,
    seen: &Observed,
    metadata: serde_json::Value,
    doing: &'static str,
) -> Result<(), Error> {
    let Some(pod) = seen.pod.ours() else { return Ok(()) };
    let api: Api<Pod> = reader.api(&seen.member);
    merge_into(&api, pod, json!({ "metadata": metadata }))
        .await
        .map(drop)
        .map_err(|source| Error::Api { doing, source })
}

/// On condition that the member is still as it was seen when it was given up.
async fn delete_member(reader: &Reader, member: &EtcdMember) -> Result<(), Error> {
    let api: Api<EtcdMember> = reader.api(member);
    let (name, uid) = (member.name_any(), member.uid().unwrap_or_default());
    let version = member.resource_version();
    let target = Target { name: &name, uid: &uid, resource_version: version.as_deref() };
    let deleted = delete(&api, &target, PropagationPolicy::Background).await;
    deleted.map(drop).map_err(|source| Error::Api { doing: "give the member up", source })
}
