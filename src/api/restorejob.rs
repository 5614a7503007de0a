//! RestoreJob: bring an application back to a Backup, once.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{BACKUPS_GROUP, TypedReference, or_default};
use super::kind::kind;

kind!(
    /// Bring an application back to a Backup, once.
    RestoreJob, RestoreJobSpec, RestoreJobStatus, BACKUPS_GROUP, "v1alpha1", "restorejobs", NamespaceResourceScope
);

/// `spec.options.restoreTimeoutSeconds` where absent or 0.
pub const DEFAULT_RESTORE_TIMEOUT_SECONDS: i64 = 1800;
/// Largest `spec.options.restoreTimeoutSeconds`.
pub const MAX_RESTORE_TIMEOUT_SECONDS: i64 = 86_400;

/// Conditions of RestoreJobs and their reasons. Each step of a restore is a condition of its own.
pub mod reason {
    /// The condition that tells how the whole restore stands.
    pub const READY: &str = "Ready";
    /// True: the application has the Backup's data.
    pub const RESTORE_COMPLETED: &str = "RestoreCompleted";
    /// False: given up; the message says why and what was left.
    pub const RESTORE_FAILED: &str = "RestoreFailed";
    /// False: the Backup does not exist or has nothing stored yet.
    pub const BACKUP_NOT_READY: &str = "BackupNotReady";
    /// False: another RestoreJob works on the same application.
    pub const RESTORE_IN_PROGRESS: &str = "RestoreInProgress";
    /// False: the restore is being rehearsed.
    pub const PREFLIGHT_RUNNING: &str = "PreflightRunning";
    /// True: a dry run found that the restore would work.
    pub const DRY_RUN_COMPLETED: &str = "DryRunCompleted";
    /// True, of condition `Preflighted`.
    pub const REHEARSED: &str = "Rehearsed";
    /// False: the old cluster is being snapshot.
    pub const SAFETY_SNAPSHOT_RUNNING: &str = "SafetySnapshotRunning";
    /// True, of condition `SafetySnapshotTaken`.
    pub const SAFETY_SNAPSHOT_STORED: &str = "SafetySnapshotStored";
    /// True, of condition `SafetySnapshotTaken`: there is none, and the restore goes on without.
    pub const SAFETY_SNAPSHOT_SKIPPED: &str = "SafetySnapshotSkipped";
    /// False: a Helm run that began before the suspend has not ended.
    pub const SUSPENDING: &str = "HelmReleaseSuspending";
    /// True, of condition `Suspended`.
    pub const RELEASE_SUSPENDED: &str = "HelmReleaseSuspended";
    /// True, of condition `Suspended`: there is no HelmRelease.
    pub const NO_RELEASE: &str = "NoHelmRelease";
    /// True, of condition `Resumed`.
    pub const RELEASE_RESUMED: &str = "HelmReleaseAsFound";
    /// False: time ran out after the old cluster was given up; guard and suspend stay until a person decides.
    pub const BLOCKED: &str = "Blocked";
    /// False: the restore failed, and the old data is being put back.
    pub const ROLLING_BACK: &str = "RollingBack";
    /// The condition that tells of old data being put back, and its reason once it is back.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// False: the data is proven, and members are still missing.
    pub const DEGRADED: &str = "Degraded";
    /// True, of condition `VolumeKept`.
    pub const VOLUMES_KEPT: &str = "VolumesKept";
    /// True, of condition `VolumeKept`: there was nothing to keep.
    pub const NO_VOLUME: &str = "NoVolume";
    /// False: the old cluster is going.
    pub const PURGING: &str = "EtcdClusterPurging";
    /// False: the new cluster is not ready yet.
    pub const BOOTSTRAPPING: &str = "EtcdClusterBootstrapping";
    /// False: the API server did not answer, or refused; tried again.
    pub const API_UNAVAILABLE: &str = "APIUnavailable";
    /// True, of condition `Validated`: all inputs are recorded.
    pub const INPUTS_RECORDED: &str = "InputsRecorded";
    /// True, of condition `EtcdClusterSpecCaptured`.
    pub const SPEC_CAPTURED: &str = "SpecCaptured";
    /// True, of condition `TargetPurged`.
    pub const CLUSTER_PURGED: &str = "ClusterPurged";
    /// True, of condition `Recreated`.
    pub const CLUSTER_RECREATED: &str = "ClusterRecreated";
    /// True, of condition `Verified`.
    pub const CLUSTER_VERIFIED: &str = "ClusterVerified";
}

/// Which Backup, into which application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreJobSpec {
    /// The Backup, in the same namespace.
    #[serde(deserialize_with = "or_default")]
    pub backup_ref: LocalObjectReference,
    /// The application to restore into; the Backup's own where absent, and no other for etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_application_ref: Option<TypedReference>,
    /// The driver's own options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<serde_json::Value>,
}

/// What became of a RestoreJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreJobStatus {
    /// Empty, `Pending`, `Running`, `Succeeded` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The step reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When work began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// What went wrong, or what a person should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `Ready`, and one for each step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
