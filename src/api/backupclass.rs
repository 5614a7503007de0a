//! BackupClass: which strategy backs up which kind of application, and with which parameters.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{APPS_GROUP, BACKUPS_GROUP, TypedReference, or_default};
use super::kind::kind;

kind!(
    /// Which strategy backs up which kind of application.
    BackupClass, BackupClassSpec, BackupClassStatus, BACKUPS_GROUP, "v1alpha1", "backupclasses", ClusterResourceScope
);

/// The class's entries; the first that matches an application wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupClassSpec {
    /// Entries.
    #[serde(deserialize_with = "or_default")]
    pub strategies: Vec<BackupClassStrategy>,
}

/// One entry of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupClassStrategy {
    /// The kind of application.
    #[serde(deserialize_with = "or_default")]
    pub application: ApplicationKind,
    /// The strategy.
    #[serde(deserialize_with = "or_default")]
    pub strategy_ref: TypedReference,
    /// `.Parameters` of the strategy's templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
}

/// A kind of application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationKind {
    /// API group; `apps.cozystack.io` where empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
}

impl ApplicationKind {
    /// The group, defaulted.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_group.as_deref().filter(|group| !group.is_empty()).unwrap_or(APPS_GROUP)
    }
}

/// Nothing is ever observed of a class; the subresource is on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupClassStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
