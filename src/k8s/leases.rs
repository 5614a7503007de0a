//! Leases of one name, wherever they are, kept by a watch: whether another program is at work.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tracing::debug;

type Known = HashMap<String, Arc<Value>>;

/// The leases, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Leases(Arc<RwLock<Option<Known>>>);

impl Leases {
    /// The leases; `None` while they were not read, or may not be.
    #[must_use]
    pub fn get(&self) -> Option<Vec<Arc<Value>>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|known| known.values().cloned().collect())
    }

    /// Watches the leases of this name, for ever.
    pub async fn watch(self, client: Client, name: &'static str) {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = std::pin::pin!(watcher(Api::<Lease>::all(client), config).default_backoff());
        let mut fresh = Known::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => fresh.clear(),
                Ok(Event::InitApply(lease)) => fresh.extend(entry(lease)),
                Ok(Event::InitDone) => self.set(|known| *known = Some(std::mem::take(&mut fresh))),
                Ok(Event::Apply(lease)) => self.set(|known| known.get_or_insert_default().extend(entry(lease))),
                Ok(Event::Delete(lease)) => self.set(|known| {
                    known.get_or_insert_default().remove(&lease.namespace().unwrap_or_default());
                }),
                // Not being allowed to is no fault: then nothing is known.
                Err(error) => debug!(%error, name, "leases cannot be watched; trying again"),
            }
        }
    }

    fn set(&self, change: impl FnOnce(&mut Option<Known>)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

fn entry(mut lease: Lease) -> Option<(String, Arc<Value>)> {
    lease.metadata.managed_fields = None;
    let namespace = lease.namespace().unwrap_or_default();
    serde_json::to_value(lease).ok().map(|value| (namespace, Arc::new(value)))
}
