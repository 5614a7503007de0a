//! BackupClass.

use super::definition::Definition;
use super::shapes;
use crate::api::backupclass::{BackupClass, BackupClassSpec, BackupClassStatus};

pub(super) fn definition() -> Definition {
    let mut definition = Definition::of::<BackupClass, BackupClassSpec, BackupClassStatus>(
        "Which strategy backs up which kind of application; the first entry that matches wins.",
    )
    .status_subresource()
    .age();
    let mut root = definition.root();
    root.at("spec").required(&["strategies"]);
    let mut entry = root.at("spec.strategies[]");
    entry.required(&["application", "strategyRef"]);
    entry.at("application").required(&["kind"]);
    shapes::typed_reference(&mut entry.at("strategyRef"));
    shapes::conditions(&mut root.at("status.conditions"));
    definition
}
