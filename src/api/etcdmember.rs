//! EtcdMember: one member of an EtcdCluster, with its Pod and its volume.

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, ResourceRequirements, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::OPERATOR_GROUP;
use super::etcdcluster::{AdditionalMetadata, EtcdOptions, RestoreSource, RestoredFrom, Storage};
use super::kind::kind;

kind!(
    /// One member of an EtcdCluster. Made by the cluster's controller, not by people.
    EtcdMember, EtcdMemberSpec, EtcdMemberStatus, OPERATOR_GROUP, "v1alpha2", "etcdmembers", NamespaceResourceScope
);

/// What an EtcdMember shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdMemberSpec {
    /// The EtcdCluster it belongs to.
    pub cluster_name: String,
    /// `--initial-cluster-token`.
    pub cluster_token: String,
    /// `--initial-cluster`; empty until the member was added to etcd.
    pub initial_cluster: String,
    /// Whether it is the seed, the member that forms the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<bool>,
    /// Whether its Pod is stopped while its volume stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dormant: Option<bool>,
    /// etcd version.
    pub version: String,
    /// Always 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Where its data lives.
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
}
