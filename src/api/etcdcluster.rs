//! EtcdCluster: one etcd cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, ResourceRequirements, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{OPERATOR_GROUP, SnapshotLocation, or_default};
use super::kind::kind;
use super::quantity::Quantity;

kind!(
    /// One etcd cluster: its members, their storage, and how they speak.
    EtcdCluster, EtcdClusterSpec, EtcdClusterStatus, OPERATOR_GROUP, "v1alpha2", "etcdclusters", NamespaceResourceScope
);

/// Members that a cluster has when `spec.replicas` is absent.
pub const DEFAULT_REPLICAS: i32 = 3;
/// Seconds from adopting a target to all members Ready, when `spec.progressDeadlineSeconds` is absent.
pub const DEFAULT_PROGRESS_DEADLINE_SECONDS: i32 = 600;

/// Types of conditions.
pub mod condition_type {
    /// Clients can read and write.
    pub const AVAILABLE: &str = "Available";
    /// The cluster is on its way to its target.
    pub const PROGRESSING: &str = "Progressing";
    /// Something is wrong, though clients may not feel it.
    pub const DEGRADED: &str = "Degraded";
}

/// Reasons of conditions.
pub mod reason {
    /// Available: every member is Ready. Not Degraded.
    pub const QUORUM_HEALTHY: &str = "QuorumHealthy";
    /// Available: a quorum is Ready, but not every member.
    pub const QUORUM_AVAILABLE: &str = "QuorumAvailable";
    /// Not Available, Degraded: too few members are Ready.
    pub const QUORUM_LOST: &str = "QuorumLost";
    /// Not Available: etcd does not answer.
    pub const CLUSTER_UNREACHABLE: &str = "ClusterUnreachable";
    /// No replicas are wanted.
    pub const PAUSED: &str = "Paused";
    /// The first member did not come up within the deadline. It is still waited for.
    pub const BOOTSTRAP_FAILED: &str = "BootstrapFailed";
    /// The restore that the cluster was to start from was given up.
    pub const RESTORE_FAILED: &str = "RestoreFailed";
    /// Not Available, Degraded: all members and their data are gone.
    pub const TOTAL_LOSS: &str = "TotalLoss";
    /// The name of an object that the cluster needs is taken.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// Not Progressing: the rules of admission refuse the spec, which came in while nobody was asked. What there was
    /// before is kept up.
    pub const REFUSED: &str = "Refused";
    /// Not Available: certificates are wanted from a cert-manager that is not installed.
    pub const CERT_MANAGER_NOT_INSTALLED: &str = "CertManagerNotInstalled";
    /// Not Available, Degraded: the restored data asks for a password, and the spec names none.
    pub const AUTH_REQUIRED_NOT_CONFIGURED: &str = "AuthRequiredNotConfigured";
    /// Degraded: etcd did not take the password that the spec names.
    pub const AUTH_CREDENTIALS_REJECTED: &str = "AuthCredentialsRejected";
    /// Progressing: the first target was adopted.
    pub const INITIAL_SNAPSHOT: &str = "InitialSnapshot";
    /// Progressing: a changed spec was adopted.
    pub const SPEC_CHANGED: &str = "SpecChanged";
    /// Progressing: the first member is on its way.
    pub const WAITING_FOR_SEED: &str = "WaitingForSeed";
    /// Progressing: members are on their way.
    pub const MEMBERS_CHANGING: &str = "MembersChanging";
    /// Not Progressing: the target is reached.
    pub const RECONCILED: &str = "Reconciled";
    /// Not Progressing: the target was not reached in time. It is still worked on.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Degraded: a member is not as it should be.
    pub const MEMBERS_UNHEALTHY: &str = "MembersUnhealthy";
}

/// What an EtcdCluster shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdClusterSpec {
    /// Number of members; 0 pauses the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// etcd version, `MAJOR.MINOR.PATCH`.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Where the data lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Resources of the etcd container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Affinity of the members' Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Spread of the members' Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Labels and annotations for everything the cluster owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
    /// Pull secrets of the members' Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// etcd's own settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<EtcdOptions>,
    /// TLS between clients and members, and among members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClusterTls>,
    /// Password authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// How the first member gets its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// Seconds from adopting a target to all members Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
}

/// Where a member's data lives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Storage {
    /// Empty for a volume, `Memory` for a tmpfs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Size of the volume or the tmpfs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// StorageClass of the volume; the default class where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

impl Storage {
    /// Whether the data lives in memory.
    #[must_use]
    pub fn in_memory(&self) -> bool {
        self.medium.as_deref() == Some("Memory")
    }

    /// The size, defaulted to `1Gi`.
    #[must_use]
    pub fn size(&self) -> Quantity {
        self.size.clone().unwrap_or_else(|| Quantity("1Gi".to_owned()))
    }
}

/// Labels and annotations to add.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdditionalMetadata {
    /// Labels; the operator's own win.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations; the operator's own win.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// etcd's own settings, by the names of its flags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdOptions {
    /// `--quota-backend-bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_backend_bytes: Option<i64>,
    /// `--auto-compaction-mode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compaction_mode: Option<String>,
    /// `--auto-compaction-retention`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compaction_retention: Option<String>,
    /// `--snapshot-count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_count: Option<i64>,
}

/// TLS of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTls {
    /// TLS between clients and members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientTls>,
    /// Mutual TLS among members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerTls>,
}

/// TLS between clients and members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientTls {
    /// Secret with `tls.crt`, `tls.key` and `ca.crt` of the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_secret_ref: Option<LocalObjectReference>,
    /// Secret with the operator's client certificate; its presence makes etcd ask clients for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_client_secret_ref: Option<LocalObjectReference>,
    /// Certificates made by cert-manager instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<ClientCertManager>,
}

/// Client TLS by cert-manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientCertManager {
    /// Issuer of the servers' certificate.
    #[serde(deserialize_with = "or_default")]
    pub server_issuer_ref: IssuerRef,
    /// Issuer of the operator's client certificate; its presence makes etcd ask clients for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_client_issuer_ref: Option<IssuerRef>,
}

/// Mutual TLS among members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerTls {
    /// Secret with `tls.crt`, `tls.key` and `ca.crt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
    /// Certificates made by cert-manager instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<PeerCertManager>,
}

/// Peer TLS by cert-manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerCertManager {
    /// Issuer of the members' certificate.
    #[serde(deserialize_with = "or_default")]
    pub issuer_ref: IssuerRef,
}

/// A cert-manager issuer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IssuerRef {
    /// Issuer name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `Issuer` or `ClusterIssuer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Password authentication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Auth {
    /// Whether etcd asks for a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Secret of type `kubernetes.io/basic-auth` with root's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_credentials_secret_ref: Option<LocalObjectReference>,
}

/// How the first member gets its data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// From a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<RestoreSource>,
}

/// The snapshot that a cluster starts from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreSource {
    /// Exactly one exact place.
    #[serde(deserialize_with = "or_default")]
    pub source: SnapshotLocation,
}

/// What was observed of an EtcdCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdClusterStatus {
    /// `Available`, `Progressing`, `Degraded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Cluster id, 16 hex digits; set once the first member answered.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// `--initial-cluster-token`: `<namespace>-<name>-<uid>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_token: Option<String>,
    /// Members that are Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_members: Option<i32>,
    /// Members that lost their memory-backed data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_members: Option<i32>,
    /// Whether authentication was switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_enabled: Option<bool>,
    /// Label selector of the members' Pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// When the present target must be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<Time>,
    /// The target being worked on: a copy of the spec, taken when it was adopted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// The restore that this cluster started from; set once, when it had succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredFrom>,
}

/// The target being worked on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Observed {
    /// As `spec.replicas`.
    #[serde(deserialize_with = "or_default")]
    pub replicas: i32,
    /// As `spec.version`.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// As `spec.storage`.
    #[serde(deserialize_with = "or_default")]
    pub storage: Storage,
    /// As `spec.resources`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// As `spec.affinity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// As `spec.topologySpreadConstraints`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// As `spec.additionalMetadata`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
    /// As `spec.options`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<EtcdOptions>,
    /// As `spec.imagePullSecrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
}

/// The restore that a cluster started from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoredFrom {
    /// Artefact URI.
    #[serde(deserialize_with = "or_default")]
    pub uri: String,
    /// Revision of the snapshot, before any bump.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Version of the etcdutl that rebuilt the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcdutl_version: Option<String>,
    /// When the first member answered on the restored data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}
