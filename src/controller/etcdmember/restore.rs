//! The two init containers that rebuild a seed's data from a snapshot: our image lends the agent, the etcd image lends
//! its own etcdutl, so that the rebuilt data fits the etcd that boots on it. Pure.

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, PersistentVolumeClaimVolumeSource, Volume, VolumeMount,
};
use kube::ResourceExt;

use super::build::{self, DATA_MOUNT, DATA_VOLUME, Inputs};
use crate::api::agent::env;
use crate::api::common::SnapshotLocation;
use crate::api::etcdmember::EtcdMember;
use crate::api::names::warden;
use crate::api::s3uri::ArtifactUri;
use crate::controller::agent_pod::{AGENT, container_security, plain, read_only, s3_access, writable};
use crate::controller::shape;

/// Name of the init container that copies the agent.
pub const INSTALL: &str = "install-tools";
/// Name of the init container that restores.
pub const RESTORE: &str = "restore";

const TOOLS_VOLUME: &str = "restore-tools";
const TOOLS_DIR: &str = "/tools";
const SOURCE_VOLUME: &str = "restore-src";
const SOURCE_DIR: &str = "/restore/src";
const SCRATCH_VOLUME: &str = "restore-scratch";
const SCRATCH_DIR: &str = "/restore/scratch";

/// What a restore adds to a Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Init containers, in their order.
    pub containers: Vec<Container>,
    /// Volumes.
    pub volumes: Vec<Volume>,
}

/// Secrets, with their keys, that a restore needs.
#[must_use]
pub fn needed_secrets(member: &EtcdMember) -> Vec<(String, Vec<&'static str>)> {
    let Some(s3) = source(member).and_then(|source| source.s3.as_ref()) else { return Vec::new() };
    let keys = vec![env::AWS_ACCESS_KEY_ID, env::AWS_SECRET_ACCESS_KEY];
    let mut needed = vec![(s3.credentials_secret_ref.name.clone(), keys)];
    if let Some(ca) = &s3.ca_secret_ref {
        needed.push((ca.name.clone(), Vec::new()));
    }
    needed
}

fn source(member: &EtcdMember) -> Option<&SnapshotLocation> {
    member.spec.restore.as_ref().map(|restore| &restore.source)
}

/// The address of the snapshot that the member starts from.
#[must_use]
pub fn source_uri(member: &EtcdMember) -> Option<String> {
    let source = source(member)?;
    if let Some(s3) = &source.s3 {
        let uri = ArtifactUri::S3 { bucket: s3.bucket.clone(), key: s3.key.clone().unwrap_or_default() };
        return Some(uri.to_string());
    }
    let pvc = source.pvc.as_ref()?;
    let path = format!("{SOURCE_DIR}/{}", pvc.sub_path.as_deref().unwrap_or_default());
    Some(ArtifactUri::File { path }.to_string())
}

/// Init containers and volumes of the member's restore.
#[must_use]
pub fn parts(member: &EtcdMember, inputs: Inputs<'_>) -> Parts {
    let Some(source) = source(member) else { return Parts::default() };
    let mut volumes = vec![empty_dir(TOOLS_VOLUME), empty_dir(SCRATCH_VOLUME)];
    let mut env = agent_env(member);
    let mut mounts = vec![
        writable(DATA_VOLUME, DATA_MOUNT),
        read_only(TOOLS_VOLUME, TOOLS_DIR),
        writable(SCRATCH_VOLUME, SCRATCH_DIR),
    ];
    if let Some(s3) = &source.s3 {
        let access = s3_access(s3);
        env.push(plain(env::SNAPSHOT_DEST_KIND, "s3"));
        env.extend(access.env);
        volumes.extend(access.volumes);
        mounts.extend(access.mounts);
    }
    if let Some(pvc) = &source.pvc {
        env.push(plain(env::SNAPSHOT_DEST_KIND, "pvc"));
        env.push(plain(env::PVC_MOUNT_PATH, SOURCE_DIR));
        env.push(plain(env::PVC_SUBPATH, pvc.sub_path.clone().unwrap_or_default()));
        mounts.push(read_only(SOURCE_VOLUME, SOURCE_DIR));
        volumes.push(Volume {
            name: SOURCE_VOLUME.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: pvc.claim_name.clone(),
                read_only: Some(true),
            }),
            ..Volume::default()
        });
    }
    let containers = vec![install(inputs), restore(member, inputs, env, mounts)];
    Parts { containers, volumes }
}

fn install(inputs: Inputs<'_>) -> Container {
    Container {
        name: INSTALL.to_owned(),
        image: inputs.settings.agent_image.clone(),
        command: Some(vec![AGENT.to_owned(), INSTALL.to_owned()]),
        env: Some(vec![plain(env::TOOLS_DEST_DIR, TOOLS_DIR)]),
        resources: Some(build::requests("50m", "64Mi")),
        security_context: Some(container_security(true)),
        volume_mounts: Some(vec![writable(TOOLS_VOLUME, TOOLS_DIR)]),
        ..Container::default()
    }
}

fn restore(member: &EtcdMember, inputs: Inputs<'_>, env: Vec<EnvVar>, mounts: Vec<VolumeMount>) -> Container {
    Container {
        name: RESTORE.to_owned(),
        image: Some(build::image(member, inputs.settings)),
        command: Some(vec![format!("{TOOLS_DIR}{AGENT}"), RESTORE.to_owned()]),
        env: Some(env),
        resources: Some(build::requests("50m", "64Mi")),
        security_context: Some(container_security(true)),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn agent_env(member: &EtcdMember) -> Vec<EnvVar> {
    let mut vars = vec![
        plain(env::ETCD_DATA_DIR, build::data_dir(member)),
        plain(env::ETCD_MEMBER_NAME, member.name_any()),
        plain(env::ETCD_INITIAL_CLUSTER, &member.spec.initial_cluster),
        plain(env::ETCD_INITIAL_CLUSTER_TOKEN, &member.spec.cluster_token),
        plain(env::ETCD_PEER_URLS, shape::peer_url(member)),
        plain(env::TARGET_ETCD_VERSION, &member.spec.version),
        plain(env::SCRATCH_DIR, SCRATCH_DIR),
        build::state_env(),
    ];
    let annotations = member.annotations();
    let optional = [
        (env::REVISION_BUMP, warden::REVISION_BUMP),
        (env::ETCDUTL_PATH, warden::ETCDUTL_PATH),
        (env::EXPECTED_SHA256, warden::SNAPSHOT_SHA256),
    ];
    vars.extend(optional.into_iter().filter_map(|(name, key)| Some(plain(name, annotations.get(key)?))));
    vars
}

fn empty_dir(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}
