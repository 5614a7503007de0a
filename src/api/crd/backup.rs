//! Backup.

use super::definition::Definition;
use super::shapes;
use crate::api::backup::{Backup, BackupSpec, BackupStatus};

/// Without a status subresource: status comes with the object, in one write.
pub(super) fn definition() -> Definition {
    let mut definition =
        Definition::of::<Backup, BackupSpec, BackupStatus>("A stored snapshot that a RestoreJob can name.")
            .selectable(shapes::APPLICATION_SELECTORS)
            .column("Phase", "string", ".status.phase")
            .column("Application", "string", ".spec.applicationRef.name")
            .column("Size", "integer", ".status.artifact.sizeBytes")
            .column("Taken", "date", ".spec.takenAt")
            .age();
    let mut root = definition.root();
    root.at("spec").required(&["applicationRef", "strategyRef", "takenAt"]);
    shapes::typed_reference(&mut root.at("spec.applicationRef"));
    shapes::typed_reference(&mut root.at("spec.strategyRef"));
    shapes::object_reference(&mut root.at("spec.planRef"));
    root.at("spec.deletionPolicy").one_of(&["Retain", "Delete"]);
    shapes::artifact(&mut root.at("status.artifact"));
    shapes::conditions(&mut root.at("status.conditions"));
    definition
}
