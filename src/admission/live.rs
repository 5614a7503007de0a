//! A fresh look at what is at work on an EtcdCluster that somebody wants to make: a copy that is complete is not
//! therefore new, and an empty cluster made in mid-restore is the one thing that must not happen.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use super::review::Request;
use crate::api::names::warden::GUARDS;
use crate::checks::{Kind, Known, Lookup, Operation};
use crate::k8s;
use crate::rules::s3::Place;

/// How long the API server may take to answer.
const WITHIN: Duration = Duration::from_secs(3);

/// Other objects, with RestoreJobs that were read just now.
pub(super) struct Fresh {
    copies: Arc<dyn Lookup>,
    guards: Known<Vec<Arc<Value>>>,
}

/// The lookup for a request: with a fresh look where it takes one.
pub(super) async fn lookup(client: Option<&Client>, copies: &Arc<dyn Lookup>, request: &Request) -> Arc<dyn Lookup> {
    let kind = Kind::of_resource(&request.resource.group, &request.resource.resource);
    let creation = request.operation == Operation::Create && request.subresource.is_empty();
    match client {
        Some(client) if creation && kind == Some(Kind::EtcdCluster) => {
            Arc::new(Fresh { copies: copies.clone(), guards: guards(client, request).await })
        }
        _ => copies.clone(),
    }
}

async fn guards(client: &Client, request: &Request) -> Known<Vec<Arc<Value>>> {
    let kind = Kind::RestoreJob;
    let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &request.namespace, &resource);
    let selector = ListParams::default().labels(GUARDS);
    match tokio::time::timeout(WITHIN, api.list(&selector)).await {
        Ok(Ok(list)) => Known::Found(
            list.items.into_iter().filter_map(|job| serde_json::to_value(job).ok()).map(Arc::new).collect(),
        ),
        Ok(Err(error)) if k8s::error::is_not_found(&error) => Known::Found(Vec::new()),
        Ok(Err(error)) => Known::Unknown(k8s::error::message(&error)),
        Err(_) => Known::Unknown("the API server did not answer in time".to_owned()),
    }
}

impl Lookup for Fresh {
    fn get(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Known<Arc<Value>> {
        self.copies.get(kind, namespace, name)
    }

    fn list(&self, kind: Kind, namespace: Option<&str>) -> Known<Vec<Arc<Value>>> {
        if kind == Kind::RestoreJob { self.guards.clone() } else { self.copies.list(kind, namespace) }
    }

    fn strategy_leases(&self) -> Known<Vec<Arc<Value>>> {
        self.copies.strategy_leases()
    }

    fn trusted_stores(&self) -> &[Place] {
        self.copies.trusted_stores()
    }
}
