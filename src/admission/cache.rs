//! Local copies of the objects that judgements ask for, kept by watches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tracing::warn;

use crate::checks::{Kind, Known, Lookup};
use crate::k8s::leases::Leases;
use crate::rules::s3::Place;
use crate::runtime::readiness::Gate;

/// The kinds that judgements ask for.
const WATCHED: [Kind; 6] =
    [Kind::EtcdCluster, Kind::Strategy, Kind::WardenStrategy, Kind::BackupClass, Kind::Backup, Kind::RestoreJob];

type Key = (String, String);

/// One kind's objects, by namespace and name.
#[derive(Default)]
struct Copy {
    objects: HashMap<Key, Arc<Value>>,
    /// Why the copy cannot be relied on; `None` once it was complete.
    incomplete: Option<String>,
}

/// Local copies of other objects.
#[derive(Clone)]
pub struct Caches {
    copies: Arc<BTreeMap<Kind, RwLock<Copy>>>,
    leases: Leases,
    trusted_stores: Arc<[Place]>,
}

impl Default for Caches {
    fn default() -> Self {
        let empty = || RwLock::new(Copy { incomplete: Some("not read yet".to_owned()), ..Copy::default() });
        let copies = Arc::new(WATCHED.into_iter().map(|kind| (kind, empty())).collect());
        Self { copies, leases: Leases::default(), trusted_stores: Arc::new([]) }
    }
}

impl Caches {
    /// Copies to be, beside what is kept elsewhere and what was declared.
    #[must_use]
    pub fn new(leases: Leases, trusted_stores: &[Place]) -> Self {
        Self { leases, trusted_stores: trusted_stores.into(), ..Self::default() }
    }

    /// Keeps the copies for ever. The gate opens when all of them were complete for the first time.
    pub async fn run(self, client: Client, gate: Gate) {
        let gate = &gate;
        let this = &self;
        join_all(WATCHED.into_iter().map(|kind| {
            let client = client.clone();
            async move { this.watch(client, kind, gate).await }
        }))
        .await;
    }

    async fn watch(&self, client: Client, kind: Kind, gate: &Gate) {
        let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
        let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk_with_plural(&gvk, kind.plural()));
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut fresh = HashMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    self.take(kind, event, &mut fresh);
                    self.tell(gate);
                }
                Err(error) if is_missing(&error) => {
                    // Nothing of a kind that the API server does not have.
                    self.set(kind, |copy| *copy = Copy::default());
                    self.tell(gate);
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
                Err(error) => warn!(kind = kind.name(), group = kind.group(), %error, "watch broke; starting it again"),
            }
        }
    }

    fn take(&self, kind: Kind, event: Event<DynamicObject>, fresh: &mut HashMap<Key, Arc<Value>>) {
        match event {
            Event::Init => fresh.clear(),
            Event::InitApply(object) => {
                fresh.extend(entry(object));
            }
            Event::InitDone => {
                let objects = std::mem::take(fresh);
                self.set(kind, |copy| *copy = Copy { objects, incomplete: None });
            }
            Event::Apply(object) => {
                self.set(kind, |copy| copy.objects.extend(entry(object)));
            }
            Event::Delete(object) => {
                let key = key(&object);
                self.set(kind, |copy| {
                    copy.objects.remove(&key);
                });
            }
        }
    }

    fn set(&self, kind: Kind, change: impl FnOnce(&mut Copy)) {
        if let Some(copy) = self.copies.get(&kind) {
            change(&mut copy.write().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn tell(&self, gate: &Gate) {
        let missing: Vec<&str> =
            WATCHED.into_iter().filter(|kind| self.read(*kind, |_| ()).is_err()).map(Kind::name).collect();
        if missing.is_empty() {
            gate.ready();
        } else {
            gate.not_ready(format!("not read yet: {}", missing.join(", ")));
        }
    }

    fn read<T>(&self, kind: Kind, ask: impl FnOnce(&HashMap<Key, Arc<Value>>) -> T) -> Result<T, String> {
        let Some(copy) = self.copies.get(&kind) else { return Err(format!("{} is not watched", kind.name())) };
        let copy = copy.read().unwrap_or_else(PoisonError::into_inner);
        match &copy.incomplete {
            None => Ok(ask(&copy.objects)),
            Some(why) => Err(why.clone()),
        }
    }
}

impl Lookup for Caches {
    fn get(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Known<Arc<Value>> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        match self.read(kind, |objects| objects.get(&key).cloned()) {
            Ok(Some(object)) => Known::Found(object),
            Ok(None) => Known::Absent,
            Err(why) => Known::Unknown(why),
        }
    }

    fn list(&self, kind: Kind, namespace: Option<&str>) -> Known<Vec<Arc<Value>>> {
        let wanted = |key: &Key| namespace.is_none_or(|namespace| key.0 == namespace);
        let all = |objects: &HashMap<Key, Arc<Value>>| {
            objects.iter().filter(|(key, _)| wanted(key)).map(|(_, object)| object.clone()).collect()
        };
        match self.read(kind, all) {
            Ok(objects) => Known::Found(objects),
            Err(why) => Known::Unknown(why),
        }
    }

    fn strategy_leases(&self) -> Known<Vec<Arc<Value>>> {
        self.leases.get().map_or_else(|| Known::Unknown("leases were not read".to_owned()), Known::Found)
    }

    fn trusted_stores(&self) -> &[Place] {
        &self.trusted_stores
    }
}

fn key(object: &DynamicObject) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Managed fields are the largest part of many objects, and nobody asks for them.
fn entry(mut object: DynamicObject) -> Option<(Key, Arc<Value>)> {
    object.metadata.managed_fields = None;
    let key = key(&object);
    serde_json::to_value(object).ok().map(|value| (key, Arc::new(value)))
}

fn is_missing(error: &watcher::Error) -> bool {
    let source = match error {
        watcher::Error::InitialListFailed(source) | watcher::Error::WatchStartFailed(source) => source,
        watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => {
            return false;
        }
    };
    crate::k8s::error::is_not_found(source)
}
