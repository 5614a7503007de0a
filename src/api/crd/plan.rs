//! Plan.

use super::definition::Definition;
use super::shapes;
use crate::api::plan::{Plan, PlanSpec, PlanStatus};

pub(super) fn definition() -> Definition {
    let mut definition = Definition::of::<Plan, PlanSpec, PlanStatus>("Back up one application on a schedule.")
        .status_subresource()
        .selectable(shapes::APPLICATION_SELECTORS)
        .dashboard_options(&[("applicationRef.kind", "appkind"), ("backupClassName", "backupclass")])
        .column("Application", "string", ".spec.applicationRef.name")
        .column("Class", "string", ".spec.backupClassName")
        .column("Schedule", "string", ".spec.schedule.cron")
        .age();
    let mut root = definition.root();
    root.at("spec").required(&["applicationRef", "backupClassName", "schedule"]);
    shapes::typed_reference(&mut root.at("spec.applicationRef"));
    shapes::conditions(&mut root.at("status.conditions"));
    definition
}
