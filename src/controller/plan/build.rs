//! The BackupJob of a slot.

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::ResourceExt;

use crate::api::backupjob::{BackupJob, BackupJobSpec};
use crate::api::common::APPS_GROUP;
use crate::api::plan::Plan;
use crate::k8s::owner::controller_reference;

/// The BackupJob. It goes with its Plan, as upstream's does; the Backup that it makes stays.
#[must_use]
pub fn job(plan: &Plan, name: &str) -> BackupJob {
    let mut application_ref = plan.spec.application_ref.clone();
    application_ref.api_group =
        Some(application_ref.api_group.filter(|group| !group.is_empty()).unwrap_or_else(|| APPS_GROUP.to_owned()));
    let mut job = BackupJob::new(
        name,
        BackupJobSpec {
            plan_ref: Some(LocalObjectReference { name: plan.name_any() }),
            application_ref,
            backup_class_name: plan.spec.backup_class_name.clone(),
        },
    );
    job.metadata.namespace = plan.namespace();
    job.metadata.owner_references = controller_reference(plan).map(|owner| vec![owner]);
    job
}
