//! BackupJob.

use super::definition::Definition;
use super::shapes;
use crate::api::backupjob::{BackupJob, BackupJobSpec, BackupJobStatus};

pub(super) fn definition() -> Definition {
    let mut definition = Definition::of::<BackupJob, BackupJobSpec, BackupJobStatus>("Back up one application, once.")
        .status_subresource()
        .selectable(shapes::APPLICATION_SELECTORS)
        .dashboard_options(&[
            ("applicationRef.kind", "appkind"),
            ("planRef.name", "plan"),
            ("backupClassName", "backupclass"),
        ])
        .column("Phase", "string", ".status.phase")
        .column("Application", "string", ".spec.applicationRef.name")
        .column("Backup", "string", ".status.backupRef.name")
        .age();
    let mut root = definition.root();
    root.at("spec").required(&["applicationRef", "backupClassName"]);
    shapes::typed_reference(&mut root.at("spec.applicationRef"));
    root.at("spec.backupClassName").min_length(1).rule(
        "oldSelf == self",
        "cannot be changed after creation: a job runs once; make another BackupJob for another class",
    );
    shapes::object_reference(&mut root.at("spec.planRef"));
    shapes::object_reference(&mut root.at("status.backupRef"));
    shapes::conditions(&mut root.at("status.conditions"));
    definition
}
