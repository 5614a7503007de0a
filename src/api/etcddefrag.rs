//! EtcdDefrag: a request to defragment. The kind is on the wire; no controller of ours acts on it.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{OPERATOR_GROUP, or_default};
use super::kind::kind;
use super::quantity::Quantity;

kind!(
    /// A request to defragment the members of an EtcdCluster.
    EtcdDefrag, EtcdDefragSpec, EtcdDefragStatus, OPERATOR_GROUP, "v1alpha2", "etcddefrags", NamespaceResourceScope
);

/// Which cluster, and which of its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdDefragSpec {
    /// The EtcdCluster, in the same namespace.
    #[serde(deserialize_with = "or_default")]
    pub cluster_ref: LocalObjectReference,
    /// Which members are worth it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<DefragRule>,
    /// Seconds after which the finished object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Which members are worth defragmenting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DefragRule {
    /// Every member, whatever its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Members with more free space in the database file than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_space_above: Option<Quantity>,
    /// With `quotaUsageAbove`: only where at least this much comes free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_reclaim: Option<Quantity>,
    /// Members that use more of their quota than this percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_usage_above: Option<String>,
}

/// What became of an EtcdDefrag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdDefragStatus {
    /// `Pending`, `Running`, `Complete` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// Members defragmented.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defragmented: Option<i32>,
    /// Each member's outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<DefragMember>>,
    /// Conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// A member's outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DefragMember {
    /// EtcdMember name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `leader` or `follower`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// `Pending`, `Skipped`, `Defragmented` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Database size before, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_size_before: Option<i64>,
    /// Database size after, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_size_after: Option<i64>,
    /// Bytes that came free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimed_bytes: Option<i64>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}
