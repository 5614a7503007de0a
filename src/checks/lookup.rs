//! Other objects, as far as they are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::kind::Kind;
use crate::api::names::upstream::STRATEGY_LEASE;
use crate::rules::s3::Place;
use crate::rules::template::Allowance;

/// What is known of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<T> {
    /// It is there.
    Found(T),
    /// It is not there.
    Absent,
    /// Nobody could tell; the text says why.
    Unknown(String),
}

impl<T> Known<T> {
    /// What was found.
    #[must_use]
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(value) => Some(value),
            Self::Absent | Self::Unknown(_) => None,
        }
    }
}

/// Renderings that take all that one may, for one question.
const RENDERINGS: u64 = 4;

/// Other objects: caches in a server, files on the command line.
pub trait Lookup: Send + Sync {
    /// The object of this name; `namespace` is `None` for cluster-scoped kinds.
    fn get(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Known<Arc<Value>>;

    /// All objects of a kind, in one namespace or, with `None`, everywhere.
    fn list(&self, kind: Kind, namespace: Option<&str>) -> Known<Vec<Arc<Value>>>;

    /// The leases of upstream's strategy controller.
    fn strategy_leases(&self) -> Known<Vec<Arc<Value>>> {
        Known::Unknown("leases are not known here".to_owned())
    }

    /// Stores that the platform's credentials may be used with besides those that strategies yield.
    fn trusted_stores(&self) -> &[Place] {
        &[]
    }

    /// Work that templates may do together: of one whole question where the lookup is made for that question alone, as
    /// for `/check`, else of whatever asks, anew each time.
    fn allowance(&self) -> Allowance {
        Allowance::of(RENDERINGS)
    }
}

/// Knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _: Kind, _: Option<&str>, _: &str) -> Known<Arc<Value>> {
        Known::Unknown("no other objects are known here".to_owned())
    }

    fn list(&self, _: Kind, _: Option<&str>) -> Known<Vec<Arc<Value>>> {
        Known::Unknown("no other objects are known here".to_owned())
    }
}

/// A fixed set of objects that is taken to be complete.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_key: BTreeMap<(Kind, String, String), Arc<Value>>,
    leases: Vec<Arc<Value>>,
    trusted_stores: Vec<Place>,
}

impl Objects {
    /// Adds an object, or replaces the one of the same kind, namespace and name. Objects of other kinds, or without a
    /// name, are left out.
    pub fn insert(&mut self, object: Value) {
        if object["kind"] == "Lease" && object["metadata"]["name"] == STRATEGY_LEASE {
            return self.leases.push(Arc::new(object));
        }
        let Some(kind) = Kind::of_object(&object) else { return };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        if name.is_empty() {
            return;
        }
        let namespace = if kind.namespaced() { namespace } else { String::new() };
        self.by_key.insert((kind, namespace, name), Arc::new(object));
    }

    /// The same, with stores that are trusted.
    #[must_use]
    pub fn trusting(self, trusted_stores: Vec<Place>) -> Self {
        Self { trusted_stores, ..self }
    }
}

impl FromIterator<Value> for Objects {
    fn from_iter<I: IntoIterator<Item = Value>>(objects: I) -> Self {
        let mut all = Self::default();
        objects.into_iter().for_each(|object| all.insert(object));
        all
    }
}

impl Lookup for Objects {
    fn get(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Known<Arc<Value>> {
        let key = (kind, namespace.unwrap_or_default().to_owned(), name.to_owned());
        self.by_key.get(&key).map_or(Known::Absent, |object| Known::Found(object.clone()))
    }

    fn list(&self, kind: Kind, namespace: Option<&str>) -> Known<Vec<Arc<Value>>> {
        let wanted = |key: &(Kind, String, String)| key.0 == kind && namespace.is_none_or(|name| key.1 == name);
        Known::Found(self.by_key.iter().filter(|(key, _)| wanted(key)).map(|(_, object)| object.clone()).collect())
    }

    fn strategy_leases(&self) -> Known<Vec<Arc<Value>>> {
        Known::Found(self.leases.clone())
    }

    fn trusted_stores(&self) -> &[Place] {
        &self.trusted_stores
    }
}
