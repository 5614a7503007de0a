//! Which rollout registered last: a configuration that was deleted since is meant to stay away, also when a Pod of the
//! same rollout is started again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Client};

use crate::k8s;

/// Name of the ConfigMap that remembers it.
const NAME: &str = "etcd-warden-registration";
/// Its key.
const ROLLOUT: &str = "rollout";

/// The rollout that this process belongs to.
pub struct Rollout {
    api: Api<ConfigMap>,
    /// The installation and the version of its Pods; `None` for a process that belongs to no rollout, and registers
    /// whenever it starts.
    id: Option<String>,
    owner: Option<OwnerReference>,
}

impl Rollout {
    /// A rollout of this installation: the owner's UID tells apart one that was uninstalled and installed again.
    #[must_use]
    pub fn new(client: &Client, namespace: &str, rollout: Option<&str>, owner: Option<&OwnerReference>) -> Self {
        let installation = owner.map(|owner| owner.uid.as_str()).unwrap_or_default();
        Self {
            api: Api::namespaced(client.clone(), namespace),
            id: rollout.map(|rollout| format!("{installation}/{rollout}")),
            owner: owner.cloned(),
        }
    }

    /// Whether a Pod of this rollout has registered before.
    pub async fn has_registered(&self) -> Result<bool, kube::Error> {
        let Some(id) = &self.id else { return Ok(false) };
        let last = self.api.get_opt(NAME).await?.and_then(|map| map.data).and_then(|mut data| data.remove(ROLLOUT));
        Ok(last.as_ref() == Some(id))
    }

    /// Remembers that this rollout has registered.
    pub async fn remember(&self) -> Result<(), kube::Error> {
        let Some(id) = &self.id else { return Ok(()) };
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                owner_references: self.owner.clone().map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(ROLLOUT.to_owned(), id.clone())])),
            ..ConfigMap::default()
        };
        k8s::apply::apply(&self.api, &map).await.map(|_| ())
    }
}
