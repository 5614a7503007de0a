//! A member's volume claim and Pod. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector,
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, Pod, PodReadinessGate,
    PodSpec, Probe, ResourceRequirements, SecretVolumeSource, TCPSocketAction, Volume, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::restore;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::names::{self, operator, warden};
use crate::api::version::EtcdVersion;
use crate::controller::Settings;
use crate::controller::agent_pod::{container_security, pod_security, read_only, writable};
use crate::controller::shape::{self, CLIENT_PORT, METRICS_PORT, PEER_PORT};
use crate::k8s::owner::controller_reference;

/// Name of the container that runs etcd.
pub const CONTAINER: &str = "etcd";
/// Where the volume is mounted.
pub const DATA_MOUNT: &str = "/var/lib/etcd";
/// Name of the volume with the data.
pub const DATA_VOLUME: &str = "data";

const CLIENT_TLS: &str = "tls-client";
const CLIENT_TLS_DIR: &str = "/etc/etcd/tls/client";
const PEER_TLS: &str = "tls-peer";
const PEER_TLS_DIR: &str = "/etc/etcd/tls/peer";
/// The environment variable in which a seed's containers find its state at each start. Not `ETCD_...`: etcd would read
/// it as a setting of its own and refuse to start beside the flag.
const STATE_ENV: &str = crate::api::agent::env::INITIAL_CLUSTER_STATE;

/// How etcd starts on an empty data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialState {
    /// It forms a cluster.
    New,
    /// It joins one, and fails if it cannot.
    Existing,
}

impl InitialState {
    /// The word in etcd's flag and in the Pod's annotation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }
}

/// How the member starts: only a seed whose cluster has not formed may form one.
#[must_use]
pub fn initial_state(member: &EtcdMember, parent: Option<&EtcdCluster>) -> InitialState {
    let seed = member.spec.bootstrap == Some(true);
    if seed && !super::observe::has_joined(member, parent) { InitialState::New } else { InitialState::Existing }
}

/// The state that a seed's Pod would start with now; `None` for a Pod whose state stands in its flags.
#[must_use]
pub fn initial_state_of(pod: &Pod) -> Option<InitialState> {
    match pod.annotations().get(warden::INITIAL_CLUSTER_STATE).map(String::as_str) {
        Some("new") => Some(InitialState::New),
        Some(_) => Some(InitialState::Existing),
        None => None,
    }
}

/// Whether the member's data still has to come from a snapshot: asked of the seed, and only until its cluster formed.
#[must_use]
pub fn wants_restore(member: &EtcdMember, parent: Option<&EtcdCluster>) -> bool {
    let restored = member.status.as_ref().is_some_and(|status| status.restored.is_some());
    member.spec.restore.is_some() && !restored && initial_state(member, parent) == InitialState::New
}

/// Secrets, with their keys, without which the Pod could not start.
#[must_use]
pub fn needed_secrets(member: &EtcdMember) -> Vec<(String, Vec<&'static str>)> {
    let tls = member.spec.tls.clone().unwrap_or_default();
    let mut needed = Vec::new();
    for secret in [tls.client_server_secret_ref, tls.peer_secret_ref].into_iter().flatten() {
        needed.push((secret.name, vec!["tls.crt", "tls.key", "ca.crt"]));
    }
    needed.extend(restore::needed_secrets(member));
    needed
}

/// Secrets of which a change makes a failed restore worth another try.
#[must_use]
pub fn restore_secrets(member: &EtcdMember) -> Vec<String> {
    restore::needed_secrets(member).into_iter().map(|(name, _)| name).collect()
}

/// The volume claim.
#[must_use]
pub fn claim(member: &EtcdMember) -> PersistentVolumeClaim {
    let size = Quantity(member.spec.storage.size().0);
    let spec = PersistentVolumeClaimSpec {
        access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
        storage_class_name: member.spec.storage.storage_class_name.clone(),
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
            limits: None,
        }),
        ..PersistentVolumeClaimSpec::default()
    };
    let mut metadata = metadata(member);
    metadata.name = Some(names::data_claim(&member.name_any()));
    PersistentVolumeClaim { metadata, spec: Some(spec), status: None }
}

fn metadata(member: &EtcdMember) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    let name = member.name_any();
    let labels = shape::member_labels(&member.spec.cluster_name, &name);
    let more = member.spec.additional_metadata.as_ref();
    let mut metadata = shape::metadata(&name, member.metadata.namespace.as_deref(), labels, more);
    metadata.owner_references = controller_reference(member).map(|reference| vec![reference]);
    metadata
}

/// What a Pod is built from besides its member.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The member's cluster.
    pub parent: Option<&'a EtcdCluster>,
    /// The operator's settings.
    pub settings: &'a Settings,
}

/// The Pod.
#[must_use]
pub fn pod(member: &EtcdMember, inputs: Inputs<'_>) -> Pod {
    let name = member.name_any();
    let state = initial_state(member, inputs.parent);
    let mut metadata = metadata(member);
    if state == InitialState::New {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(warden::INITIAL_CLUSTER_STATE.to_owned(), state.as_str().to_owned());
    }
    // A voter that comes back is a voter from its first moment: it is Ready, and so an endpoint, without another look.
    if member.status.as_ref().and_then(|status| status.is_voter) == Some(true) {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(operator::ROLE.to_owned(), operator::ROLE_VOTER.to_owned());
    }
    let mut volumes = vec![data_volume(member)];
    volumes.extend(tls_volumes(member));
    let mut init = Vec::new();
    if wants_restore(member, inputs.parent) {
        let parts = restore::parts(member, inputs);
        volumes.extend(parts.volumes);
        init = parts.containers;
    }
    let spec = PodSpec {
        hostname: Some(name),
        subdomain: Some(shape::identity_service(member)),
        automount_service_account_token: Some(false),
        security_context: Some(pod_security()),
        affinity: member.spec.affinity.clone(),
        topology_spread_constraints: member.spec.topology_spread_constraints.clone(),
        image_pull_secrets: member.spec.image_pull_secrets.clone(),
        readiness_gates: Some(vec![PodReadinessGate { condition_type: warden::SEALED.to_owned() }])
            .filter(|_| state == InitialState::New),
        init_containers: Some(init).filter(|init| !init.is_empty()),
        containers: vec![etcd(member, inputs.settings, state)],
        volumes: Some(volumes),
        ..PodSpec::default()
    };
    Pod { metadata, spec: Some(spec), status: None }
}

/// The etcd image of the member's version.
#[must_use]
pub fn image(member: &EtcdMember, settings: &Settings) -> String {
    format!("{}:v{}", settings.etcd_image_repository, member.spec.version)
}

fn etcd(member: &EtcdMember, settings: &Settings, state: InitialState) -> Container {
    let mut mounts = vec![writable(DATA_VOLUME, DATA_MOUNT)];
    mounts.extend(
        tls_volumes(member).iter().map(|volume| {
            read_only(&volume.name, if volume.name == CLIENT_TLS { CLIENT_TLS_DIR } else { PEER_TLS_DIR })
        }),
    );
    let port = |name: &str, number: i32| ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    Container {
        name: CONTAINER.to_owned(),
        image: Some(image(member, settings)),
        command: Some(command(member, state)),
        env: Some(vec![state_env()]).filter(|_| state == InitialState::New),
        ports: Some(vec![port("client", CLIENT_PORT), port("peer", PEER_PORT), port("metrics", METRICS_PORT)]),
        resources: Some(resources(member)),
        security_context: Some(container_security(false)),
        liveness_probe: Some(liveness()),
        readiness_probe: Some(readiness(member)),
        // Why etcd ended is in its log only: a full volume, a certificate that it cannot read.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// The container learns its state from the Pod's annotation each time it starts, not once for the Pod's life.
#[must_use]
pub fn state_env() -> EnvVar {
    let field = ObjectFieldSelector {
        field_path: format!("metadata.annotations['{}']", warden::INITIAL_CLUSTER_STATE),
        ..ObjectFieldSelector::default()
    };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: STATE_ENV.to_owned(), value: None, value_from: Some(source) }
}

/// The directory below the volume's mount where the data lives.
#[must_use]
pub fn data_dir(member: &EtcdMember) -> String {
    let sub = member.annotations().get(operator::DATA_DIR_SUBPATH).filter(|sub| is_plain_directory(sub));
    sub.map_or_else(|| DATA_MOUNT.to_owned(), |sub| format!("{DATA_MOUNT}/{sub}"))
}

/// One path element, and not one that leads upwards.
fn is_plain_directory(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(plain)
        && !text.contains("..")
}

fn command(member: &EtcdMember, state: InitialState) -> Vec<String> {
    let (peer, client) = (shape::peer_scheme(member), shape::client_scheme(member));
    let state = match state {
        InitialState::New => format!("$({STATE_ENV})"),
        InitialState::Existing => state.as_str().to_owned(),
    };
    let mut command = vec![
        "etcd".to_owned(),
        format!("--name={}", member.name_any()),
        format!("--data-dir={}", data_dir(member)),
        format!("--listen-peer-urls={peer}://0.0.0.0:{PEER_PORT}"),
        format!("--listen-client-urls={client}://0.0.0.0:{CLIENT_PORT}"),
        format!("--advertise-client-urls={}", shape::client_url(member)),
        format!("--initial-advertise-peer-urls={}", shape::peer_url(member)),
        format!("--initial-cluster={}", member.spec.initial_cluster),
        format!("--initial-cluster-token={}", member.spec.cluster_token),
        format!("--initial-cluster-state={state}"),
        format!("--listen-metrics-urls=http://0.0.0.0:{METRICS_PORT}"),
    ];
    command.extend(option_flags(member));
    command.extend(tls_flags(member));
    command
}

fn option_flags(member: &EtcdMember) -> Vec<String> {
    let options = member.spec.options.clone().unwrap_or_default();
    let flags = [
        options.quota_backend_bytes.map(|bytes| format!("--quota-backend-bytes={bytes}")),
        options.auto_compaction_mode.map(|mode| format!("--auto-compaction-mode={mode}")),
        options.auto_compaction_retention.map(|retention| format!("--auto-compaction-retention={retention}")),
        options.snapshot_count.map(|count| format!("--snapshot-count={count}")),
    ];
    flags.into_iter().flatten().collect()
}

fn tls_flags(member: &EtcdMember) -> Vec<String> {
    let tls = member.spec.tls.clone().unwrap_or_default();
    let mut flags = Vec::new();
    if tls.client_server_secret_ref.is_some() {
        flags.push(format!("--cert-file={CLIENT_TLS_DIR}/tls.crt"));
        flags.push(format!("--key-file={CLIENT_TLS_DIR}/tls.key"));
        if tls.client_mtls == Some(true) {
            flags.push("--client-cert-auth=true".to_owned());
            flags.push(format!("--trusted-ca-file={CLIENT_TLS_DIR}/ca.crt"));
        }
    }
    if tls.peer_secret_ref.is_some() {
        flags.push(format!("--peer-cert-file={PEER_TLS_DIR}/tls.crt"));
        flags.push(format!("--peer-key-file={PEER_TLS_DIR}/tls.key"));
        flags.push(format!("--peer-trusted-ca-file={PEER_TLS_DIR}/ca.crt"));
        flags.push("--peer-client-cert-auth=true".to_owned());
    } else if tls.peer_auto_tls == Some(true) {
        flags.push("--peer-auto-tls".to_owned());
    }
    flags
}

fn data_volume(member: &EtcdMember) -> Volume {
    let mut volume = Volume { name: DATA_VOLUME.to_owned(), ..Volume::default() };
    if member.spec.storage.in_memory() {
        volume.empty_dir = Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity(member.spec.storage.size().0)),
        });
    } else {
        volume.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
            claim_name: names::data_claim(&member.name_any()),
            read_only: None,
        });
    }
    volume
}

fn tls_volumes(member: &EtcdMember) -> Vec<Volume> {
    let tls = member.spec.tls.clone().unwrap_or_default();
    let volume = |name: &str, secret: String| Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource { secret_name: Some(secret), ..SecretVolumeSource::default() }),
        ..Volume::default()
    };
    let client = tls.client_server_secret_ref.map(|secret| volume(CLIENT_TLS, secret.name));
    let peer = tls.peer_secret_ref.map(|secret| volume(PEER_TLS, secret.name));
    [client, peer].into_iter().flatten().collect()
}

/// What the user asked for, else what lets the scheduler count with the member.
fn resources(member: &EtcdMember) -> ResourceRequirements {
    let asked = member.spec.resources.clone().filter(|asked| *asked != ResourceRequirements::default());
    asked.unwrap_or_else(|| requests("100m", "128Mi"))
}

/// Requests of so much processor and memory.
#[must_use]
pub fn requests(cpu: &str, memory: &str) -> ResourceRequirements {
    let quantity = |text: &str| Quantity(text.to_owned());
    ResourceRequirements {
        requests: Some([("cpu".to_owned(), quantity(cpu)), ("memory".to_owned(), quantity(memory))].into()),
        ..ResourceRequirements::default()
    }
}

fn liveness() -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(PEER_PORT), host: None }),
        initial_delay_seconds: Some(15),
        period_seconds: Some(10),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

/// Asked every second, so that a member counts as soon as it answers; only a few misses in a row take that back. etcd
/// before 3.5 writes to its log for every such question, so it is asked less often.
fn readiness(member: &EtcdMember) -> Probe {
    let version: Option<EtcdVersion> = member.spec.version.parse().ok();
    let writes = version.is_some_and(|version| version < EtcdVersion { major: 3, minor: 5, patch: 0 });
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/health".to_owned()),
            port: IntOrString::Int(METRICS_PORT),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(if writes { 5 } else { 1 }),
        timeout_seconds: Some(5),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}
