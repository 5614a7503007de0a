//! BackupJob: back up one application, once.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{BACKUPS_GROUP, TypedReference, or_default};
use super::kind::kind;

kind!(
    /// Back up one application, once.
    BackupJob, BackupJobSpec, BackupJobStatus, BACKUPS_GROUP, "v1alpha1", "backupjobs", NamespaceResourceScope
);

/// Values of `status.phase` of BackupJobs and RestoreJobs.
pub mod phase {
    /// Seen, nothing started.
    pub const PENDING: &str = "Pending";
    /// At work.
    pub const RUNNING: &str = "Running";
    /// Done; final.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Given up; final.
    pub const FAILED: &str = "Failed";
}

/// Condition `Ready` of BackupJobs and its reasons.
pub mod reason {
    /// The condition's type.
    pub const READY: &str = "Ready";
    /// True: the Backup exists.
    pub const BACKUP_COMPLETED: &str = "BackupCompleted";
    /// False: given up; the message says why.
    pub const BACKUP_FAILED: &str = "BackupFailed";
    /// False: the BackupClass does not exist.
    pub const BACKUP_CLASS_NOT_FOUND: &str = "BackupClassNotFound";
    /// False: the Secret with the S3 credentials does not exist.
    pub const CREDENTIALS_PENDING: &str = "CredentialsProjectionPending";
    /// False: the strategy does not exist.
    pub const STRATEGY_NOT_READY: &str = "StrategyNotReady";
    /// False: the EtcdCluster does not exist or has no quorum.
    pub const CLUSTER_NOT_AVAILABLE: &str = "EtcdClusterNotAvailable";
    /// False: the snapshot is under way.
    pub const ETCD_BACKUP_RUNNING: &str = "EtcdBackupRunning";
    /// False: a RestoreJob works on the same cluster.
    pub const RESTORE_IN_PROGRESS: &str = "RestoreInProgress";
    /// False: the API server did not answer, or refused; tried again.
    pub const API_UNAVAILABLE: &str = "APIUnavailable";
}

/// Which application, by which class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupJobSpec {
    /// The application, in the same namespace; its group is `apps.cozystack.io` where empty.
    #[serde(deserialize_with = "or_default")]
    pub application_ref: TypedReference,
    /// The BackupClass.
    #[serde(deserialize_with = "or_default")]
    pub backup_class_name: String,
    /// The Plan that made this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_ref: Option<LocalObjectReference>,
}

/// What became of a BackupJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupJobStatus {
    /// Empty, `Pending`, `Running`, `Succeeded` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The Backup that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_ref: Option<LocalObjectReference>,
    /// When work began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
