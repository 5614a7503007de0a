//! Reading an untyped object. A field that is `null` counts as absent, as it does for the API server.

use serde_json::Value;

use crate::api::common::{APP_KIND_ETCD, APPS_GROUP};
use crate::api::strategy::{STRATEGY_GROUP, STRATEGY_KIND, WARDEN_STRATEGY_GROUP};

/// The value at a JSON pointer.
#[must_use]
pub fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|value| !value.is_null())
}

/// The text at a JSON pointer; empty where it is absent or no text.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a JSON pointer.
#[must_use]
pub fn integer(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// The value of an annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// A reference to an application, its group defaulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application<'a> {
    /// API group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Name.
    pub name: &'a str,
}

impl<'a> Application<'a> {
    /// The reference at a JSON pointer.
    #[must_use]
    pub fn at(object: &'a Value, pointer: &str) -> Option<Self> {
        let reference = at(object, pointer)?;
        let group = text(reference, "/apiGroup");
        Some(Self {
            group: if group.is_empty() { APPS_GROUP } else { group },
            kind: text(reference, "/kind"),
            name: text(reference, "/name"),
        })
    }

    /// Whether it is the platform's etcd application.
    #[must_use]
    pub fn is_etcd(&self) -> bool {
        self.group == APPS_GROUP && self.kind == APP_KIND_ETCD
    }
}

/// Where a strategy reference leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To the `Etcd` strategy, in the group it names.
    Etcd(super::Kind),
    /// To another strategy.
    Elsewhere,
    /// Nowhere that could be told: the reference is missing or has no group.
    Nowhere,
}

/// Where the strategy reference at a JSON pointer leads.
#[must_use]
pub fn leads(object: &Value, pointer: &str) -> Leads {
    match (text(object, &format!("{pointer}/apiGroup")), text(object, &format!("{pointer}/kind"))) {
        (STRATEGY_GROUP, STRATEGY_KIND) => Leads::Etcd(super::Kind::Strategy),
        (WARDEN_STRATEGY_GROUP, STRATEGY_KIND) => Leads::Etcd(super::Kind::WardenStrategy),
        ("", "" | STRATEGY_KIND) => Leads::Nowhere,
        _ => Leads::Elsewhere,
    }
}
