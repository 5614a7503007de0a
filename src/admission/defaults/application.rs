//! The group of an application, where it is left out.

use serde_json::Value;

use super::Additions;
use crate::api::common::APPS_GROUP;
use crate::checks::view::{Leads, leads};

pub(super) fn add(object: &Value, reference: &str, additions: &mut Additions) {
    additions.add(object, reference, "apiGroup", APPS_GROUP);
}

/// Of a class only the entries with our strategy are ours.
pub(super) fn add_to_class(class: &Value, additions: &mut Additions) {
    let entries = class.pointer("/spec/strategies").and_then(Value::as_array);
    for (at, entry) in entries.into_iter().flatten().enumerate() {
        if matches!(leads(entry, "/strategyRef"), Leads::Etcd(_)) {
            add(class, &format!("/spec/strategies/{at}/application"), additions);
        }
    }
}
