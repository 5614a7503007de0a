//! Plan: back up one application on a schedule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
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

/// Types of conditions.
pub mod condition_type {
    /// Something keeps the Plan from running.
    pub const ERROR: &str = "Error";
    /// Runs were missed before the last one.
    pub const MISSED: &str = "Missed";
}

/// Reasons of conditions and Events.
pub mod reason {
    /// `Error`: `spec.schedule.cron` is no schedule, or one that never comes up.
    pub const INVALID_SCHEDULE: &str = "InvalidSchedule";
    /// `Error`: the annotation with the starting deadline is no number of seconds.
    pub const INVALID_STARTING_DEADLINE: &str = "InvalidStartingDeadline";
    /// `Error`: the application does not exist, so no BackupJob is made.
    pub const APPLICATION_NOT_FOUND: &str = "ApplicationNotFound";
    /// `Error`: somebody else's BackupJob has the name of a slot's.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// `Error`: the API server refuses the BackupJob.
    pub const JOB_REFUSED: &str = "BackupJobRefused";
    /// `Error`: the API server did not answer. Tried again.
    pub const API_UNAVAILABLE: &str = "ApiUnavailable";
    /// `Error` is False.
    pub const SCHEDULE_VALID: &str = "ScheduleValid";
    /// `Missed`: slots went by without a run.
    pub const RUNS_MISSED: &str = "RunsMissed";
    /// `Missed` is False.
    pub const NONE_MISSED: &str = "NoneMissed";
    /// Event: a slot's BackupJob was made.
    pub const BACKUP_JOB_CREATED: &str = "BackupJobCreated";
}

/// What was observed of a Plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    /// `Error` and `Missed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation that the rest is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The newest slot that has a BackupJob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// The slot that comes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// Slots up to here are done with: run, missed and told, or from before the Plan was made or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_until: Option<Time>,
}
