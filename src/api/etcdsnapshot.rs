//! EtcdSnapshot: one snapshot of an EtcdCluster, taken once.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Artifact, OPERATOR_GROUP, SnapshotLocation};
use super::kind::kind;

kind!(
    /// One snapshot of an EtcdCluster, taken once.
    EtcdSnapshot, EtcdSnapshotSpec, EtcdSnapshotStatus, OPERATOR_GROUP, "v1alpha2", "etcdsnapshots", NamespaceResourceScope
);

/// Values of `status.phase`.
pub mod phase {
    /// Seen, nothing started.
    pub const PENDING: &str = "Pending";
    /// The Job exists.
    pub const STARTED: &str = "Started";
    /// Stored and verified; final.
    pub const COMPLETE: &str = "Complete";
    /// Given up; final.
    pub const FAILED: &str = "Failed";
}

/// Which cluster is snapshot, and where to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdSnapshotSpec {
    /// The EtcdCluster, in the same namespace.
    pub cluster_ref: LocalObjectReference,
    /// Exactly one place; its key or path is a prefix.
    pub destination: SnapshotLocation,
}

/// What became of an EtcdSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdSnapshotStatus {
    /// `Pending`, `Started`, `Complete` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
