//! Backup: a stored snapshot that a RestoreJob can name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Artifact, BACKUPS_GROUP, TypedReference, or_default};
use super::kind::kind;

kind!(
    /// A stored snapshot. It has no status subresource: status is written with the object.
    Backup, BackupSpec, BackupStatus, BACKUPS_GROUP, "v1alpha1", "backups", NamespaceResourceScope
);

/// Values of `status.phase`.
pub mod phase {
    /// Not stored yet.
    pub const PENDING: &str = "Pending";
    /// Stored and verified.
    pub const READY: &str = "Ready";
    /// Not usable.
    pub const FAILED: &str = "Failed";
}

/// Values of `spec.deletionPolicy`.
pub mod deletion_policy {
    /// The stored object goes with the Backup. Anything else keeps it.
    pub const DELETE: &str = "Delete";
}

/// Type of the condition that tells whether the Backup is usable, or why it is not gone yet.
pub const READY: &str = "Ready";

/// Reasons of condition `Ready` and of Events.
pub mod reason {
    /// A Backup that was written by hand was checked, and can be restored from.
    pub const ADOPTED: &str = "Adopted";
    /// The object of a Backup that was written by hand was not found, or could not be looked at. Tried again.
    pub const CHECKING: &str = "Checking";
    /// What a Backup that was written by hand names cannot be restored from.
    pub const REFUSED: &str = "Refused";
    /// A RestoreJob uses the stored object: it is kept until that ends.
    pub const IN_USE: &str = "InUse";
    /// The stored object could not be removed yet. Tried again.
    pub const DELETION_PENDING: &str = "DeletionPending";
    /// Event: the stored object was removed.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// Event: the stored object stays, although it was to go.
    pub const OBJECT_KEPT: &str = "ObjectKept";
}

/// Keys of `spec.driverMetadata`, kept from the first generation of the platform's etcd driver.
pub mod driver_metadata {
    /// Name of the EtcdSnapshot.
    pub const BACKUP_NAME: &str = "etcd.aenix.io/backup-name";
    /// Bucket.
    pub const BUCKET: &str = "etcd.aenix.io/bucket";
    /// Endpoint.
    pub const ENDPOINT: &str = "etcd.aenix.io/endpoint";
    /// Key prefix; absent where empty.
    pub const KEY: &str = "etcd.aenix.io/key";
    /// Region.
    pub const REGION: &str = "etcd.aenix.io/region";
    /// `true` or `false`.
    pub const FORCE_PATH_STYLE: &str = "etcd.aenix.io/force-path-style";
    /// Secret with the credentials.
    pub const CREDENTIALS_SECRET_NAME: &str = "etcd.aenix.io/credentials-secret-name";
}

/// What was backed up, by which strategy, when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupSpec {
    /// The application.
    #[serde(deserialize_with = "or_default")]
    pub application_ref: TypedReference,
    /// The strategy.
    #[serde(deserialize_with = "or_default")]
    pub strategy_ref: TypedReference,
    /// The Plan behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_ref: Option<LocalObjectReference>,
    /// When the snapshot was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Time>,
    /// Where it is stored, in the driver's own keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_metadata: Option<BTreeMap<String, String>>,
    /// `Retain` (default) keeps the stored object when this one is deleted, `Delete` removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
}

/// What is known of the stored snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupStatus {
    /// Empty, `Pending`, `Ready` or `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The driver's own record; for etcd the rendered destination and its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub underlying_resources: Option<serde_json::Value>,
}
