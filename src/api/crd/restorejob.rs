//! RestoreJob.

use super::definition::Definition;
use super::shapes;
use crate::api::restorejob::{RestoreJob, RestoreJobSpec, RestoreJobStatus};

pub(super) fn definition() -> Definition {
    let mut definition =
        Definition::of::<RestoreJob, RestoreJobSpec, RestoreJobStatus>("Bring an application back to a Backup, once.")
            .status_subresource()
            .dashboard_options(&[("backupRef.name", "backup"), ("targetApplicationRef.kind", "appkind")])
            .column("Phase", "string", ".status.phase")
            .column("Backup", "string", ".spec.backupRef.name")
            .column("Step", "string", ".status.step")
            .age();
    let mut root = definition.root();
    root.at("spec").required(&["backupRef"]);
    shapes::object_reference(&mut root.at("spec.backupRef"));
    shapes::typed_reference(&mut root.at("spec.targetApplicationRef"));
    shapes::conditions(&mut root.at("status.conditions"));
    definition
}
