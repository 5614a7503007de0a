//! EtcdSnapshot: one snapshot of an EtcdCluster, taken once.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Artifact, OPERATOR_GROUP, SnapshotLocation, or_default};
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

/// Types of `status.conditions`.
pub mod condition_type {
    /// Whether the snapshot is stored and verified.
    pub const READY: &str = "Ready";
}

/// Reasons of the condition `Ready`.
pub mod reason {
    /// Stored and verified.
    pub const SNAPSHOT_STORED: &str = "SnapshotStored";
    /// The Job was just made.
    pub const JOB_CREATED: &str = "JobCreated";
    /// The Job is at work.
    pub const JOB_RUNNING: &str = "JobRunning";
    /// The Job failed; the message has the agent's own reason.
    pub const JOB_FAILED: &str = "JobFailed";
    /// The Job could not be made yet.
    pub const JOB_NOT_CREATED: &str = "JobNotCreated";
    /// A Job of another owner has the name.
    pub const JOB_NAME_TAKEN: &str = "JobNameTaken";
    /// The Job, or its Pod, was gone before it told how it ended.
    pub const SNAPSHOT_JOB_LOST: &str = "SnapshotJobLost";
    /// The cluster does not exist.
    pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
    /// The cluster could not be read.
    pub const CLUSTER_UNAVAILABLE: &str = "ClusterUnavailable";
    /// The operator does not know the image of its agent.
    pub const OPERATOR_IMAGE_NOT_CONFIGURED: &str = "OperatorImageNotConfigured";
    /// The cluster's authentication is not switched on yet, or was not within 15 minutes.
    pub const AUTH_LATCH_TIMEOUT: &str = "AuthLatchTimeout";
    /// The destination names none or both of S3 and a volume.
    pub const INVALID_DESTINATION: &str = "InvalidDestination";
    /// The rules of admission refuse it; it came in while nobody was asked.
    pub const REFUSED: &str = "Refused";
    /// Another snapshot of the same cluster comes first.
    pub const WAITING_FOR_SNAPSHOT: &str = "WaitingForSnapshot";
}

impl EtcdSnapshot {
    /// The phase, if there is one yet.
    #[must_use]
    pub fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref().filter(|phase| !phase.is_empty())
    }
}

/// Which cluster is snapshot, and where to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdSnapshotSpec {
    /// The EtcdCluster, in the same namespace.
    #[serde(deserialize_with = "or_default")]
    pub cluster_ref: LocalObjectReference,
    /// Exactly one place; its key or path is a prefix.
    #[serde(deserialize_with = "or_default")]
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
