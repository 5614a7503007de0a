//! EtcdMember: one member of an EtcdCluster, with its Pod and its volume.

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, ResourceRequirements, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{OPERATOR_GROUP, or_default};
use super::etcdcluster::{AdditionalMetadata, EtcdOptions, RestoreSource, RestoredFrom, Storage};
use super::kind::kind;

kind!(
    /// One member of an EtcdCluster. Made by the cluster's controller, not by people.
    EtcdMember, EtcdMemberSpec, EtcdMemberStatus, OPERATOR_GROUP, "v1alpha2", "etcdmembers", NamespaceResourceScope
);

/// Types of conditions.
pub mod condition_type {
    /// The member serves.
    pub const READY: &str = "Ready";
    /// It runs another version than its spec names.
    pub const VERSION_DRIFTED: &str = "VersionDrifted";
}

/// Reasons of conditions.
pub mod reason {
    /// Ready: its Pod is Ready and its member id is known.
    pub const POD_READY: &str = "PodReady";
    /// Not Ready: its Pod is not Ready.
    pub const POD_NOT_READY: &str = "PodNotReady";
    /// Not Ready: its Pod is Ready, but etcd has not told who it is.
    pub const DISCOVERING_MEMBER_ID: &str = "DiscoveringMemberID";
    /// Not Ready: its cluster is paused.
    pub const PAUSED: &str = "Paused";
    /// Not Ready: not yet added to etcd.
    pub const WAITING_FOR_MEMBERSHIP: &str = "WaitingForMembership";
    /// Not Ready: an object that it needs to own belongs to another.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// Not Ready: a Secret that its Pod needs is missing or incomplete.
    pub const SECRET_MISSING: &str = "SecretMissing";
    /// Not Ready: its cluster cannot be read, or is going.
    pub const CLUSTER_UNAVAILABLE: &str = "ClusterUnavailable";
    /// Not Ready: a restore is asked for, and the operator does not know its own image.
    pub const AGENT_IMAGE_NOT_CONFIGURED: &str = "OperatorImageNotConfigured";
    /// Not Ready: its data is being restored, or the restore failed and is tried again.
    pub const RESTORING: &str = "Restoring";
    /// Not Ready: its restore was given up.
    pub const RESTORE_FAILED: &str = "RestoreFailed";
    /// Not Ready: its data is gone.
    pub const DATA_LOST: &str = "DataLost";
    /// Not Ready: it is being deleted, and etcd does not let it go.
    pub const REMOVAL_BLOCKED: &str = "RemovalBlocked";
    /// Not drifted.
    pub const VERSION_MATCHED: &str = "VersionMatched";
    /// Drifted.
    pub const VERSION_MISMATCH: &str = "VersionMismatch";
}

/// What an EtcdMember shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdMemberSpec {
    /// The EtcdCluster it belongs to.
    #[serde(deserialize_with = "or_default")]
    pub cluster_name: String,
    /// `--initial-cluster-token`.
    #[serde(deserialize_with = "or_default")]
    pub cluster_token: String,
    /// `--initial-cluster`; empty until the member was added to etcd.
    #[serde(deserialize_with = "or_default")]
    pub initial_cluster: String,
    /// Whether it is the seed, the member that forms the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<bool>,
    /// Whether its Pod is stopped while its volume stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dormant: Option<bool>,
    /// etcd version.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Always 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Where its data lives.
    #[serde(deserialize_with = "or_default")]
    pub storage: Storage,
    /// The snapshot that the seed starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<RestoreSource>,
    /// Secrets of its TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<MemberTls>,
    /// Resources of the etcd container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Affinity of its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Spread of its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Labels and annotations for its Pod and volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
    /// etcd's own settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<EtcdOptions>,
    /// Pull secrets of its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
}

/// TLS as a member sees it: Secrets only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberTls {
    /// Whether etcd asks clients for a certificate.
    #[serde(rename = "clientMTLS", skip_serializing_if = "Option::is_none")]
    pub client_mtls: Option<bool>,
    /// Secret of the server certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_server_secret_ref: Option<LocalObjectReference>,
    /// Whether peers make certificates by themselves (migration only).
    #[serde(rename = "peerAutoTLS", skip_serializing_if = "Option::is_none")]
    pub peer_auto_tls: Option<bool>,
    /// Secret of the peer certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_secret_ref: Option<LocalObjectReference>,
}

/// What was observed of an EtcdMember.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdMemberStatus {
    /// `Ready`, `VersionDrifted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Whether it votes (a learner does not).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_voter: Option<bool>,
    /// Member id, 16 hex digits.
    #[serde(rename = "memberID", skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,
    /// Its Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// UID of its Pod.
    #[serde(rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// Its volume claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// 1 once it had a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Label selector of its Pod, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Version that etcd tells of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The restore that its data came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredFrom>,
    /// Why its restore was given up; absent while it is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_failure: Option<RestoreFailure>,
}

/// A restore that was given up, since another try with the same inputs would end alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreFailure {
    /// The agent's reason.
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
    /// The agent's message.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Digest of the Secrets that were used: once they change, the restore is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
}
