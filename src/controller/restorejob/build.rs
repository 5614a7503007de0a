//! What a restore makes: the Job that rehearses it, and the EtcdCluster that takes the place of the old one.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, LocalObjectReference, PodSpec, PodTemplateSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use super::facts::{Capture, Inputs, OldData};
use super::records::{Facts, restore_uid};
use super::source::Source;
use crate::api::agent::env;
use crate::api::common::{APP_CLUSTER_NAME, PvcLocation, S3Location, SnapshotLocation};
use crate::api::etcdcluster::{Bootstrap, EtcdCluster, RestoreSource};
use crate::api::etcdsnapshot::{EtcdSnapshot, EtcdSnapshotSpec};
use crate::api::names::{self, warden};
use crate::api::restorejob::RestoreJob;
use crate::controller::agent_pod::{
    AGENT, container_security, from_secret, plain, pod_failure_policy, pod_security, read_only, s3_access, writable,
};
use crate::k8s::owner::controller_reference;

/// What a new cluster starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Which of the restore's attempts makes it.
    pub attempt: u32,
    /// Where its data comes from.
    pub source: SnapshotLocation,
    /// SHA-256 that is on record for it: what was swapped after the rehearsal is refused before etcd boots on it.
    pub sha256: Option<String>,
    /// How far the revision is raised.
    pub bump: i64,
}

impl Start {
    /// What the attempt under way starts from; `None` where the records do not tell, or nothing is made anew.
    #[must_use]
    pub fn of(facts: &Facts) -> Option<Self> {
        let attempt = facts.attempt();
        let stored = |source: &Source| SnapshotLocation { s3: Some(source.s3.clone()), pvc: None };
        let Some(rollback) = facts.rollback() else {
            let bump = facts.preflight().map(|preflight| preflight.fact.bump).unwrap_or_default();
            let source = &facts.inputs.as_ref()?.fact.source;
            return Some(Self { attempt, source: stored(source), sha256: source.sha256.clone(), bump });
        };
        let (source, sha256) = match &rollback.fact.source {
            OldData::Standing { .. } => return None,
            OldData::Volume { claim, sub_path } => {
                let pvc = PvcLocation { claim_name: claim.clone(), sub_path: Some(sub_path.clone()) };
                (SnapshotLocation { s3: None, pvc: Some(pvc) }, None)
            }
            OldData::Snapshot(source) => (stored(source), source.sha256.clone()),
        };
        Some(Self { attempt, source, sha256, bump: rollback.fact.bump })
    }
}

/// The captured cluster as a new object that starts from a snapshot: all its spec, labels, annotations and managed
/// fields, without what only the old object could have. `None` where the capture is no object.
#[must_use]
pub fn cluster(job: &RestoreJob, capture: &Capture, start: &Start) -> Option<DynamicObject> {
    let mut object: DynamicObject = serde_json::from_value(capture.object.clone()).ok()?;
    let metadata = &mut object.metadata;
    metadata.namespace = job.namespace();
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.generation = None;
    metadata.creation_timestamp = None;
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.self_link = None;
    metadata.finalizers = None;
    // Of an object that was alive, an owner was, too; what is only remembered may have lost it.
    if capture.found_in.is_some() {
        metadata.owner_references = None;
    }
    let annotations = object.annotations_mut();
    annotations.remove(warden::SPARED_BY);
    annotations.remove(warden::REVISION_BUMP);
    annotations.remove(warden::SNAPSHOT_SHA256);
    annotations.insert(warden::RESTORED_BY.to_owned(), restore_uid(job));
    annotations.insert(warden::RESTORE_ATTEMPT.to_owned(), start.attempt.to_string());
    if start.bump > 0 {
        annotations.insert(warden::REVISION_BUMP.to_owned(), start.bump.to_string());
    }
    if let Some(sha256) = &start.sha256 {
        annotations.insert(warden::SNAPSHOT_SHA256.to_owned(), sha256.clone());
    }
    let restore = RestoreSource { source: start.source.clone() };
    let data = object.data.as_object_mut()?;
    data.remove("status");
    let spec = data.entry("spec").or_insert_with(|| json!({})).as_object_mut()?;
    let bootstrap = serde_json::to_value(Bootstrap { restore: Some(restore) }).ok()?;
    spec.insert("bootstrap".to_owned(), bootstrap);
    Some(object)
}

/// The name of the snapshot of the old cluster: always the same one, so that none is taken twice.
#[must_use]
pub fn safety_snapshot_name(job: &RestoreJob) -> String {
    names::restore_record(&job.name_any(), &restore_uid(job), "safety")
}

/// The snapshot of the old cluster, into the place where the Backup's own object lies. Nobody owns it: what it stored
/// is needed when everything else went wrong.
#[must_use]
pub fn safety_snapshot(job: &RestoreJob, source: &Source) -> EtcdSnapshot {
    let folder = source.s3.key.as_deref().and_then(|key| key.rsplit_once('/')).map(|(folder, _)| format!("{folder}/"));
    let destination = S3Location { key: folder, ..source.s3.clone() };
    let mut snapshot = EtcdSnapshot::new(
        &safety_snapshot_name(job),
        EtcdSnapshotSpec {
            cluster_ref: LocalObjectReference { name: APP_CLUSTER_NAME.to_owned() },
            destination: SnapshotLocation { s3: Some(destination), pvc: None },
        },
    );
    snapshot.metadata.namespace = job.namespace();
    snapshot.metadata.labels = Some(BTreeMap::from([(warden::RESTORE_JOB_UID.to_owned(), restore_uid(job))]));
    snapshot
}

/// Name of the container that copies the agent.
pub const INSTALL: &str = "install-tools";
/// Name of the container that rehearses.
pub const PREFLIGHT: &str = "preflight";
const TOOLS_VOLUME: &str = "tools";
const TOOLS_DIR: &str = "/tools";
const SCRATCH_VOLUME: &str = "scratch";
const SCRATCH_DIR: &str = "/scratch";
/// How often a rehearsal is tried again that failed in a way that may pass.
const RETRIES: i32 = 3;
/// How long an ended rehearsal is kept, in seconds.
const KEPT_SECONDS: i32 = 600;

/// Where the programs of Pods come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// Image with the agent.
    pub agent: Option<String>,
    /// Repository of the etcd images.
    pub etcd_repository: String,
}

/// The name of a restore's preflight Job, one for each round.
#[must_use]
pub fn preflight_name(job: &RestoreJob, round: u32) -> String {
    let fact = if round == 0 { PREFLIGHT.to_owned() } else { format!("{PREFLIGHT}-{round}") };
    names::restore_record(&job.name_any(), &restore_uid(job), &fact)
}

/// A rehearsal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearse {
    /// Which one, from 0.
    pub round: u32,
    /// The cluster whose image and placement it takes.
    pub cluster: EtcdCluster,
    /// What is rehearsed.
    pub inputs: Inputs,
    /// How far the revision is raised.
    pub bump: i64,
}

/// The Job that rehearses the restore: with the image, the placement and the Secrets that the restore will have. `None`
/// where nobody told which image has the agent.
#[must_use]
pub fn preflight(job: &RestoreJob, rehearse: &Rehearse, images: &Images) -> Option<Job> {
    let Rehearse { round, cluster, inputs, bump } = rehearse;
    let agent = images.agent.clone()?;
    let labels = BTreeMap::from([(warden::RESTORE_JOB_UID.to_owned(), restore_uid(job))]);
    let access = s3_access(&inputs.source.s3);
    let mut mounts = vec![read_only(TOOLS_VOLUME, TOOLS_DIR), writable(SCRATCH_VOLUME, SCRATCH_DIR)];
    mounts.extend(access.mounts);
    let env = preflight_env(cluster, inputs, *bump).into_iter().chain(access.env).collect();
    let container =
        |name: &str, image: String, program: String, env: Vec<EnvVar>, mounts: Vec<VolumeMount>| Container {
            name: name.to_owned(),
            image: Some(image),
            command: Some(vec![program, name.to_owned()]),
            env: Some(env),
            security_context: Some(container_security(true)),
            volume_mounts: Some(mounts),
            ..Container::default()
        };
    let install_env = vec![plain(env::TOOLS_DEST_DIR, TOOLS_DIR)];
    let install = container(INSTALL, agent, AGENT.to_owned(), install_env, vec![writable(TOOLS_VOLUME, TOOLS_DIR)]);
    let image = format!("{}:v{}", images.etcd_repository, cluster.spec.version);
    let rehearse = container(PREFLIGHT, image, format!("{TOOLS_DIR}{AGENT}"), env, mounts);
    let empty = |name: &str| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let pod = PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        security_context: Some(pod_security()),
        affinity: cluster.spec.affinity.clone(),
        image_pull_secrets: cluster.spec.image_pull_secrets.clone(),
        init_containers: Some(vec![install]),
        containers: vec![rehearse],
        volumes: Some([empty(TOOLS_VOLUME), empty(SCRATCH_VOLUME)].into_iter().chain(access.volumes).collect()),
        ..PodSpec::default()
    };
    Some(Job {
        metadata: ObjectMeta {
            name: Some(preflight_name(job, *round)),
            namespace: job.namespace(),
            labels: Some(labels.clone()),
            annotations: Some(BTreeMap::from([(warden::REVISION_BUMP.to_owned(), bump.to_string())])),
            owner_references: controller_reference(job).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(RETRIES),
            active_deadline_seconds: Some(inputs.options.timeout_seconds),
            ttl_seconds_after_finished: Some(KEPT_SECONDS),
            pod_failure_policy: Some(pod_failure_policy(PREFLIGHT)),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod),
            },
            ..JobSpec::default()
        }),
        status: None,
    })
}

fn preflight_env(cluster: &EtcdCluster, inputs: &Inputs, bump: i64) -> Vec<EnvVar> {
    let source = &inputs.source;
    let mut vars = vec![
        plain(env::SNAPSHOT_DEST_KIND, "s3"),
        plain(env::SCRATCH_DIR, SCRATCH_DIR),
        plain(env::TARGET_ETCD_VERSION, &cluster.spec.version),
    ];
    let optional = [
        (env::EXPECTED_SHA256, source.sha256.clone()),
        (env::EXPECTED_SIZE, source.size_bytes.map(|size| size.to_string())),
        (env::ORIGIN_ETCD_VERSION, source.etcd_version.clone()),
        (env::REVISION_BUMP, Some(bump.to_string()).filter(|_| bump > 0)),
        (env::ETCDUTL_PATH, cluster.annotations().get(warden::ETCDUTL_PATH).cloned()),
    ];
    vars.extend(optional.into_iter().filter_map(|(name, value)| Some(plain(name, value?))));
    let auth = cluster.spec.auth.as_ref().filter(|auth| auth.enabled == Some(true));
    if let Some(secret) = auth.and_then(|auth| auth.root_credentials_secret_ref.as_ref()) {
        vars.push(plain(env::ETCD_USERNAME, "root"));
        vars.push(from_secret(env::ETCD_PASSWORD, &secret.name, "password", false));
    }
    vars
}
