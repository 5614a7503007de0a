//! The Job that takes a snapshot. Pure.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, ResourceRequirements,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::api::agent::env;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::names::{self, operator, warden};
use crate::controller::access::client_tls_secrets;
use crate::controller::agent_pod::{
    AGENT, container_security, from_secret, plain, pod_failure_policy, pod_security, read_only, s3_access,
    secret_volume, writable,
};
use crate::controller::etcdmember::build::requests;
use crate::controller::shape;
use crate::k8s::owner;

/// Name of the container with the agent.
pub const CONTAINER: &str = "snapshot-agent";
/// How often a failed agent is tried again.
const RETRIES: i32 = 3;
/// How long all tries together may take, in seconds.
const DEADLINE_SECONDS: i64 = 1800;
/// How long an ended Job is kept once the status has what it told, in seconds.
pub const KEPT_SECONDS: i32 = 600;

const CA_VOLUME: &str = "etcd-ca";
const CA_DIR: &str = "/etc/etcd/pki/ca";
const CLIENT_VOLUME: &str = "etcd-client";
const CLIENT_DIR: &str = "/etc/etcd/pki/client";
const DATA_VOLUME: &str = "snapshot-data";
const DATA_DIR: &str = "/snapshot/data";

/// What the Job is made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The snapshot.
    pub snapshot: &'a EtcdSnapshot,
    /// Its cluster.
    pub cluster: &'a EtcdCluster,
    /// The cluster's members.
    pub members: &'a [std::sync::Arc<EtcdMember>],
    /// Image with the agent.
    pub image: &'a str,
}

/// What a part adds to the Pod.
#[derive(Default)]
struct Parts {
    env: Vec<EnvVar>,
    volumes: Vec<Volume>,
    mounts: Vec<VolumeMount>,
}

/// The Job. Its Pods carry no label that a Service or the cluster's `/scale` selects: a Pod that takes a snapshot is
/// nobody's endpoint.
#[must_use]
pub fn job(inputs: Inputs<'_>) -> Job {
    let snapshot = inputs.snapshot;
    let name = snapshot.name_any();
    let mark = (warden::SNAPSHOT.to_owned(), names::label_value(&name));
    let cluster = (operator::CLUSTER.to_owned(), names::label_value(&inputs.cluster.name_any()));
    Job {
        metadata: ObjectMeta {
            name: Some(names::snapshot_job(&name)),
            namespace: snapshot.namespace(),
            labels: Some([mark.clone(), cluster].into()),
            owner_references: owner::controller_reference(snapshot).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(RETRIES),
            active_deadline_seconds: Some(DEADLINE_SECONDS),
            pod_failure_policy: Some(pod_failure_policy(CONTAINER)),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some([mark].into()),
                    // A label cannot hold every name to the letter.
                    annotations: Some([(warden::SNAPSHOT.to_owned(), name)].into()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(inputs)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

fn pod(inputs: Inputs<'_>) -> PodSpec {
    let parts = [source(inputs), destination(inputs.snapshot)];
    let mut all = Parts::default();
    for part in parts {
        all.env.extend(part.env);
        all.volumes.extend(part.volumes);
        all.mounts.extend(part.mounts);
    }
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(inputs.image.to_owned()),
        command: Some(vec![AGENT.to_owned(), "snapshot".to_owned()]),
        env: Some(all.env),
        resources: Some(ResourceRequirements {
            limits: Some([("memory".to_owned(), Quantity("256Mi".to_owned()))].into()),
            ..requests("50m", "64Mi")
        }),
        security_context: Some(container_security(true)),
        volume_mounts: Some(all.mounts).filter(|mounts| !mounts.is_empty()),
        ..Container::default()
    };
    let spec = &inputs.cluster.spec;
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        security_context: Some(pod_security()),
        image_pull_secrets: spec.image_pull_secrets.clone(),
        // Where members may run, so may this; their rules about each other are not its own.
        affinity: spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.clone())
            .map(|nodes| Affinity { node_affinity: Some(nodes), ..Affinity::default() }),
        containers: vec![container],
        volumes: Some(all.volumes).filter(|volumes| !volumes.is_empty()),
        ..PodSpec::default()
    }
}

/// Where the snapshot comes from: each member under a name that the certificate covers, or the client Service where no
/// member is known.
fn source(inputs: Inputs<'_>) -> Parts {
    let Inputs { cluster, members, .. } = inputs;
    let secrets = client_tls_secrets(cluster);
    let scheme = if secrets.is_some() { "https" } else { "http" };
    let endpoints = if members.is_empty() {
        let service = names::client_service(&cluster.name_any());
        format!("{scheme}://{service}.{}.svc:{}", cluster.namespace().unwrap_or_default(), shape::CLIENT_PORT)
    } else {
        members.iter().map(|member| shape::client_url(member)).collect::<Vec<_>>().join(",")
    };
    let mut parts = Parts { env: vec![plain(env::ETCD_ENDPOINTS, endpoints)], ..Parts::default() };
    if let Some((server, operator_client)) = secrets {
        // The certificate authority alone: the servers' key is none of the agent's business.
        parts.volumes.push(secret_volume(CA_VOLUME, &server, &[("ca.crt", "ca.crt")]));
        parts.mounts.push(read_only(CA_VOLUME, CA_DIR));
        parts.env.push(plain(env::ETCD_TLS_CA_PATH, format!("{CA_DIR}/ca.crt")));
        if let Some(client) = operator_client {
            let keys = [("tls.crt", "tls.crt"), ("tls.key", "tls.key")];
            parts.volumes.push(secret_volume(CLIENT_VOLUME, &client, &keys));
            parts.mounts.push(read_only(CLIENT_VOLUME, CLIENT_DIR));
            parts.env.push(plain(env::ETCD_TLS_CERT_PATH, format!("{CLIENT_DIR}/tls.crt")));
            parts.env.push(plain(env::ETCD_TLS_KEY_PATH, format!("{CLIENT_DIR}/tls.key")));
        }
    }
    if cluster.status.as_ref().and_then(|status| status.auth_enabled) == Some(true) {
        let auth = cluster.spec.auth.as_ref();
        let secret = auth.and_then(|auth| auth.root_credentials_secret_ref.as_ref()).map(|secret| secret.name.clone());
        parts.env.push(plain(env::ETCD_USERNAME, "root"));
        parts.env.push(from_secret(env::ETCD_PASSWORD, &secret.unwrap_or_default(), "password", false));
    }
    parts
}

fn destination(snapshot: &EtcdSnapshot) -> Parts {
    let mut parts = Parts {
        env: vec![
            plain(env::SNAPSHOT_NAME, snapshot.name_any()),
            plain(env::SNAPSHOT_UID, snapshot.metadata.uid.clone().unwrap_or_default()),
        ],
        ..Parts::default()
    };
    let destination = &snapshot.spec.destination;
    if let Some(s3) = &destination.s3 {
        let access = s3_access(s3);
        parts.env.push(plain(env::SNAPSHOT_DEST_KIND, "s3"));
        parts.env.extend(access.env);
        parts.volumes.extend(access.volumes);
        parts.mounts.extend(access.mounts);
    }
    if let Some(pvc) = &destination.pvc {
        parts.env.push(plain(env::SNAPSHOT_DEST_KIND, "pvc"));
        parts.env.push(plain(env::PVC_MOUNT_PATH, DATA_DIR));
        parts.env.push(plain(env::PVC_SUBPATH, pvc.sub_path.clone().unwrap_or_default()));
        parts.mounts.push(writable(DATA_VOLUME, DATA_DIR));
        parts.volumes.push(Volume {
            name: DATA_VOLUME.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: pvc.claim_name.clone(),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    parts
}
