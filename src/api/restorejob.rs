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
    /// False: a Pod of the old cluster cannot go, because its node is lost; the message says what a person can do.
    pub const NODE_LOST: &str = "NodeLost";
    /// False: the new cluster is not ready yet.
    pub const BOOTSTRAPPING: &str = "EtcdClusterBootstrapping";
    /// False: the API server did not answer, or refused; tried again.
    pub const API_UNAVAILABLE: &str = "APIUnavailable";
    /// False: what is on record about the restore was written by another version, and cannot be read by this one.
    pub const RECORDS_UNREADABLE: &str = "RecordsUnreadable";
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
    /// What the restore does, or what it would do in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<RestorePlan>,
    /// How many bytes each stage has dealt with, as each ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RestoreProgress>,
    /// What the rehearsal found, and what was found in the new cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<RestoreProof>,
    /// Seconds from the deletion of the old cluster to the proof of the new one: how long clients were cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_seconds: Option<i64>,
    /// What went wrong, or what a person should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `Ready`, and one for each step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// What a restore does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestorePlan {
    /// The stored snapshot, as a URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// etcd version that boots on the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
    /// Members that the restored cluster has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How far the revision is raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_bump: Option<i64>,
    /// The steps, in their order, each with what is done in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<String>>,
}

/// Bytes that the stages of a restore have dealt with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreProgress {
    /// Size of the stored snapshot, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_bytes: Option<i64>,
    /// Size of the database on which the rehearsal's etcd came up, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehearsed_bytes: Option<i64>,
    /// Size of the safety snapshot, in bytes, once it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_snapshot_bytes: Option<i64>,
    /// Size of the database that each proven member has been given, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_bytes: Option<i64>,
}

/// What makes a restore a proven one: the rehearsal's and the new cluster's answers to the same question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreProof {
    /// What the rehearsal found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehearsed: Option<RehearsedData>,
    /// What was found in the new cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveData>,
}

/// What the rehearsal found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RehearsedData {
    /// Revision of the key space, raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Number of keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<i64>,
    /// etcd's HashKV at `hashRevision`.
    #[serde(rename = "hashKV", skip_serializing_if = "Option::is_none")]
    pub hash_kv: Option<i64>,
    /// Revision at which the hash was taken, there and in the new cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_revision: Option<i64>,
}

/// What was found in the new cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LiveData {
    /// Highest revision that a proven member told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// etcd's HashKV of those members, at the rehearsal's `hashRevision`; absent where old data was put back.
    #[serde(rename = "hashKV", skip_serializing_if = "Option::is_none")]
    pub hash_kv: Option<i64>,
    /// Members that have the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<i32>,
    /// Members that the cluster should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}
