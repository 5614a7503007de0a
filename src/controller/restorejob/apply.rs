//! Carrying out a restore's actions.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DynamicObject, Patch, PatchParams, PropagationPolicy};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::{Value, json};

use super::decide::Action;
use super::observe::{Observed, Remnant, clusters};
use super::records::{record, restore_uid};
use super::{build, release, volumes};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::etcdmember::EtcdMember;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::names::warden;
use crate::api::restorejob::RestoreJob;
use crate::k8s::apply::{FIELD_MANAGER, create, merge};
use crate::k8s::delete::{Target, delete};
use crate::k8s::error::{Class, class, message};

/// Why an action could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The API server did not answer, or refused.
    #[error("cannot {what}")]
    Api {
        /// What was tried.
        what: String,
        /// What the API server said.
        source: Error,
    },
    /// What was captured is no EtcdCluster.
    #[error("the captured EtcdCluster cannot be read back")]
    Capture,
    /// Nobody told which image has the agent.
    #[error("no agent image is configured, so that nothing can be rehearsed; set --agent-image")]
    NoImage,
}

impl Fault {
    /// The fault and its cause as one sentence, for status.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::Api { source, .. } => format!("{self}: {}", message(source)),
            Self::Capture | Self::NoImage => self.to_string(),
        }
    }
}

/// Does one action. Each can be done again: what is there already is as good as made.
pub async fn apply(client: &Client, images: &build::Images, seen: &Observed, action: &Action) -> Result<(), Fault> {
    let namespace = seen.job.namespace().unwrap_or_default();
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), &namespace);
    let job = &seen.job;
    let mark = async |what, patch| (what, merge(&jobs, job, patch).await.map(drop));
    let (what, result) = match action {
        Action::Hold => mark("hold the RestoreJob", held(job, true)).await,
        Action::Release => mark("release the RestoreJob", held(job, false)).await,
        Action::Guard => mark("guard the cluster", guarding(Some(APP_CLUSTER_NAME))).await,
        Action::Unguard => mark("end the guard of the cluster", guarding(None)).await,
        Action::Record(fact) => {
            let records: Api<ControllerRevision> = Api::namespaced(client.clone(), &namespace);
            let made = create(&records, &record(job, fact)).await.map(drop);
            ("write a record", there_already(made))
        }
        Action::StartPreflight(rehearse) => {
            let run = build::preflight(job, rehearse, images).ok_or(Fault::NoImage)?;
            let jobs: Api<Job> = Api::namespaced(client.clone(), &namespace);
            ("create the preflight Job", there_already(create(&jobs, &run).await.map(drop)))
        }
        Action::TakeSnapshot(source) => {
            let snapshots: Api<EtcdSnapshot> = Api::namespaced(client.clone(), &namespace);
            let made = create(&snapshots, &build::safety_snapshot(job, source)).await.map(drop);
            ("create the safety snapshot", there_already(made))
        }
        Action::Suspend(found) => {
            ("suspend the HelmRelease", release::write(client, &namespace, found, Some(true)).await)
        }
        Action::Resume { release: found, suspend } => {
            ("put back the HelmRelease", release::write(client, &namespace, found, *suspend).await)
        }
        Action::KeepVolume(volume) => {
            let patch = volumes::keep(volume, &restore_uid(job));
            ("keep the old volume", volumes::write(client, &namespace, &volume.claim, patch).await)
        }
        Action::ReturnVolume(volume) => {
            ("give a volume back", volumes::write(client, &namespace, &volume.claim, volumes::give_back(volume)).await)
        }
        Action::ExpireVolume { volume, until } => {
            let patch = volumes::expire(volume, *until);
            ("write on a kept volume when it may go", volumes::write(client, &namespace, &volume.claim, patch).await)
        }
        Action::DeleteCluster { uid, resource_version } => {
            let target = Target { name: APP_CLUSTER_NAME, uid, resource_version: resource_version.as_deref() };
            let deleted = delete(&clusters(client, &namespace), &target, PropagationPolicy::Foreground).await;
            ("delete the EtcdCluster", deleted.map(drop))
        }
        Action::SpareCluster { uid } => ("leave the old EtcdCluster standing", spare(client, job, uid).await),
        Action::FreeMember { member, keep } => {
            ("take the finalizer off a member", free(client, &namespace, member, keep).await)
        }
        Action::CreateCluster { capture, start } => {
            let cluster: DynamicObject = build::cluster(job, capture, start).ok_or(Fault::Capture)?;
            let made = create(&clusters(client, &namespace), &cluster).await.map(drop);
            ("create the new EtcdCluster", there_already(made))
        }
    };
    result.map_err(|source| Fault::Api { what: what.to_owned(), source })
}

fn held(job: &RestoreJob, keep: bool) -> Value {
    let others = job.finalizers().iter().filter(|name| *name != warden::RESTORE_FINALIZER).cloned();
    let all: Vec<String> = others.chain(keep.then(|| warden::RESTORE_FINALIZER.to_owned())).collect();
    json!({"metadata": {"finalizers": all}})
}

fn guarding(cluster: Option<&str>) -> Value {
    json!({"metadata": {"labels": {warden::GUARDS: cluster}}})
}

async fn spare(client: &Client, job: &RestoreJob, uid: &str) -> Result<(), Error> {
    let patch = json!({"metadata": {"uid": uid, "annotations": {warden::SPARED_BY: restore_uid(job)}}});
    let clusters = clusters(client, &job.namespace().unwrap_or_default());
    clusters.patch(APP_CLUSTER_NAME, &params(), &Patch::Merge(patch)).await.map(drop)
}

async fn free(client: &Client, namespace: &str, member: &Remnant, keep: &[String]) -> Result<(), Error> {
    let members: Api<EtcdMember> = Api::namespaced(client.clone(), namespace);
    let seen = json!({"uid": member.uid, "resourceVersion": member.resource_version, "finalizers": keep});
    let patch = Patch::Merge(json!({"metadata": seen}));
    gone_already(members.patch_metadata(&member.name, &params(), &patch).await.map(drop))
}

/// A name that is taken: the next look sees by whom.
fn there_already(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if class(&error) == Class::AlreadyExists => Ok(()),
        other => other,
    }
}

fn gone_already(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if class(&error) == Class::NotFound => Ok(()),
        other => other,
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
