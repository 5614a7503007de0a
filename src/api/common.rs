//! Shapes that several kinds share.

use k8s_openapi::api::core::v1::LocalObjectReference;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The platform's application group, and what an empty group means.
pub const APPS_GROUP: &str = "apps.cozystack.io";
/// The kind of the platform's etcd application.
pub const APP_KIND_ETCD: &str = "Etcd";
/// Group of BackupClass, BackupJob, Backup, RestoreJob and Plan.
pub const BACKUPS_GROUP: &str = "backups.cozystack.io";
/// Group of EtcdCluster, EtcdMember, EtcdSnapshot and EtcdDefrag.
pub const OPERATOR_GROUP: &str = "etcd-operator.cozystack.io";

/// Whether the EtcdCluster carries the name that the platform's chart gives every etcd application's cluster.
pub const APP_CLUSTER_NAME: &str = "etcd";

/// Reads an explicit null as if the field were absent. Serde's `default` covers absence only, and a null that one field
/// cannot take would hide the whole object.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An object in an S3 bucket, or a prefix for objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct S3Location {
    /// Host, or http(s) URL, of the S3 server.
    #[serde(deserialize_with = "or_default")]
    pub endpoint: String,
    /// Bucket name.
    #[serde(deserialize_with = "or_default")]
    pub bucket: String,
    /// Exact object key of a restore source; prefix of a snapshot destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Region; `us-east-1` where empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Path-style addressing instead of a virtual host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_path_style: Option<bool>,
    /// Secret with keys `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, in the same namespace.
    #[serde(deserialize_with = "or_default")]
    pub credentials_secret_ref: LocalObjectReference,
    /// Secret with the CA that signed the S3 server's certificate, in the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaSecretRef>,
}

/// A PEM bundle in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CaSecretRef {
    /// Secret name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Key in the Secret; `ca.crt` where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl CaSecretRef {
    /// The key, defaulted.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_deref().filter(|key| !key.is_empty()).unwrap_or("ca.crt")
    }
}

/// A file, or a directory for files, on a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PvcLocation {
    /// PersistentVolumeClaim name, in the same namespace.
    #[serde(deserialize_with = "or_default")]
    pub claim_name: String,
    /// Exact file of a restore source; directory of a snapshot destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
}

/// Where a snapshot goes to or comes from: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotLocation {
    /// An S3 bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Location>,
    /// A volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PvcLocation>,
}

/// A stored snapshot, as EtcdSnapshot and Backup show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifact {
    /// `s3://<bucket>/<key>` or `file://<path>`.
    #[serde(deserialize_with = "or_default")]
    pub uri: String,
    /// Bytes stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// `sha256:<64 hex digits>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Revision of the key space when the snapshot was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// etcd version of the member that was snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
    /// Cluster id, 16 hex digits.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// `linearizable`, or `serializable` when no quorum could confirm the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistency: Option<String>,
}

/// A reference to an object of any group in the same namespace (or to a cluster-scoped one).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TypedReference {
    /// API group; what an empty one means depends on the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

impl TypedReference {
    /// The group of an application, defaulted.
    #[must_use]
    pub fn application_group(&self) -> &str {
        self.api_group.as_deref().filter(|group| !group.is_empty()).unwrap_or(APPS_GROUP)
    }

    /// Whether this names the platform's etcd application.
    #[must_use]
    pub fn is_etcd_application(&self) -> bool {
        self.application_group() == APPS_GROUP && self.kind == APP_KIND_ETCD
    }
}
