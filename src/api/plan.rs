//! Plan: back up one application on a schedule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{BACKUPS_GROUP, TypedReference, or_default};
use super::kind::kind;

kind!(
    /// Back up one application on a schedule.
    Plan, PlanSpec, PlanStatus, BACKUPS_GROUP, "v1alpha1", "plans", NamespaceResourceScope
);

/// Which application, by which class, when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanSpec {
    /// The application, in the same namespace.
    #[serde(deserialize_with = "or_default")]
    pub application_ref: TypedReference,
    /// The BackupClass.
    #[serde(deserialize_with = "or_default")]
    pub backup_class_name: String,
    /// When.
    #[serde(deserialize_with = "or_default")]
    pub schedule: PlanSchedule,
}

/// When a Plan makes BackupJobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanSchedule {
    /// Empty or `cron`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Five fields, a descriptor, or `@every`, with an optional `TZ=` before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
}

/// What was observed of a Plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    /// `Error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
