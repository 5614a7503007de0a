//! The `Etcd` backup strategy: a template of where snapshots go.
//!
//! The kind exists in two groups with one schema. Upstream's controllers fail RestoreJobs over strategies of their own
//! group that they cannot handle as we do, so that beside them ours carries its own group.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{CaSecretRef, PvcLocation, or_default};
use super::kind::kind;

/// Upstream's group.
pub const STRATEGY_GROUP: &str = "strategy.backups.cozystack.io";
/// Our own group, for use beside upstream's backup controllers.
pub const WARDEN_STRATEGY_GROUP: &str = "strategy.etcd-warden.io";
/// The kind in both groups.
pub const STRATEGY_KIND: &str = "Etcd";
/// What an absent `region` means.
pub const DEFAULT_REGION: &str = "us-east-1";
/// What an absent `forcePathStyle` means.
pub const DEFAULT_FORCE_PATH_STYLE: bool = false;

kind!(
    /// The `Etcd` strategy in upstream's group.
    Etcd, EtcdStrategySpec, EtcdStrategyStatus, STRATEGY_GROUP, "v1alpha1", "etcds", ClusterResourceScope
);

/// The strategy in our own group.
pub mod warden {
    use super::{EtcdStrategySpec, EtcdStrategyStatus, WARDEN_STRATEGY_GROUP};
    use crate::api::kind::kind;

    kind!(
        /// The `Etcd` strategy in our own group.
        Etcd, EtcdStrategySpec, EtcdStrategyStatus, WARDEN_STRATEGY_GROUP, "v1alpha1", "etcds", ClusterResourceScope
    );
}

/// What the strategy makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdStrategySpec {
    /// The snapshot to make; every text in it is a Go template over `.Application` and `.Parameters`.
    #[serde(deserialize_with = "or_default")]
    pub template: StrategyTemplate,
}

/// The snapshot to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyTemplate {
    /// Where it goes.
    #[serde(deserialize_with = "or_default")]
    pub destination: StrategyDestination,
}

/// Where snapshots go: S3 only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyDestination {
    /// An S3 bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<StrategyS3>,
    /// Refused. Declared so that it is not pruned unseen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PvcLocation>,
}

/// An S3 bucket, every text a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyS3 {
    /// Host, or http(s) URL, of the S3 server.
    #[serde(deserialize_with = "or_default")]
    pub endpoint: String,
    /// Bucket name.
    #[serde(deserialize_with = "or_default")]
    pub bucket: String,
    /// Prefix of the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Region; `us-east-1` where empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Path-style addressing instead of a virtual host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_path_style: Option<bool>,
    /// Secret with keys `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, in the application's namespace.
    #[serde(deserialize_with = "or_default")]
    pub credentials_secret_ref: SecretName,
    /// Secret with the CA that signed the S3 server's certificate, in the application's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaSecretRef>,
}

/// A Secret by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretName {
    /// Secret name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// Nothing is ever observed of a strategy; the subresource is on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdStrategyStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
