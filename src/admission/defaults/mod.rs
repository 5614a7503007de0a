//! Defaults: made visible where a field is absent, never changing or removing anything. CREATE only.

mod application;
mod restorejob;
mod strategy;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::{Map, Value};

use crate::checks::{Change, Kind, Lookup, Operation, Relation, relation};

/// The defaults of a new object, as a patch; empty where there is nothing to add.
#[must_use]
pub fn defaults(change: &Change<'_>, lookup: &dyn Lookup) -> Patch {
    let mut additions = Additions::default();
    if let (Operation::Create, "", Some(object)) = (change.operation, change.subresource, change.object)
        && relation(change, lookup) == Relation::Ours
    {
        match change.kind {
            Kind::Strategy | Kind::WardenStrategy => strategy::add(object, &mut additions),
            Kind::RestoreJob => restorejob::add(object, change.namespace, lookup, &mut additions),
            Kind::BackupJob | Kind::Backup | Kind::Plan => {
                application::add(object, "/spec/applicationRef", &mut additions);
            }
            Kind::BackupClass => application::add_to_class(object, &mut additions),
            Kind::EtcdCluster | Kind::EtcdMember | Kind::EtcdSnapshot => {}
        }
    }
    Patch(additions.0)
}

/// A new object with its defaults: as the API server has it once it has applied the patch.
#[must_use]
pub fn completed(change: &Change<'_>, object: &Value, lookup: &dyn Lookup) -> Value {
    let mut object = object.clone();
    if let Err(error) = json_patch::patch(&mut object, &defaults(change, lookup)) {
        unreachable!("fields are added to parents that are there: {error}");
    }
    object
}

/// Fields to add to one object.
#[derive(Default)]
struct Additions(Vec<PatchOperation>);

impl Additions {
    /// Adds `value` at `<parent>/<field>`, if the parent is an object that lacks the field.
    fn add(&mut self, object: &Value, parent: &str, field: &str, value: impl Into<Value>) {
        let Some(Value::Object(existing)) = object.pointer(parent) else { return };
        if is_absent(existing, field)
            && let Ok(path) = PointerBuf::parse(format!("{parent}/{field}"))
        {
            self.0.push(PatchOperation::Add(AddOperation { path, value: value.into() }));
        }
    }
}

/// The API server drops `null` where a schema does not allow it, so that it counts as absent.
fn is_absent(object: &Map<String, Value>, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

#[cfg(test)]
mod tests;
