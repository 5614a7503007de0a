//! Carrying out a Backup's steps.

use kube::api::PropagationPolicy;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::decide::Step;
use super::door::{Closed, open};
use super::observe::Observed;
use crate::api::backup::Backup;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::names::{backups, warden};
use crate::k8s::apply::merge;
use crate::k8s::delete::{Target, delete};
use crate::k8s::error::message;
use crate::store;

/// Why a step could not be done. Always retried.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The API server did not do what was asked.
    #[error("cannot {what}: {}", message(source))]
    Api {
        /// What was asked, as an infinitive.
        what: String,
        /// What it said.
        source: kube::Error,
    },
    /// The way to the store is closed.
    #[error("cannot reach the store")]
    Closed(#[from] Closed),
    /// The store did not remove the object.
    #[error("cannot remove the stored object")]
    Store(#[from] store::Error),
}

impl Fault {
    /// The fault and its causes as one sentence.
    #[must_use]
    pub fn told(&self) -> String {
        crate::controller::frame::chain(self)
    }
}

/// Does one step on the Backup as it is now, and gives back what it became; none once nothing holds it any more and it
/// is going. Each step is safe to repeat: what is gone counts as removed.
///
/// # Errors
/// Why it could not be done, and the Backup as it still is.
pub async fn apply(
    client: &Client,
    seen: &Observed,
    step: &Step,
    backup: Backup,
) -> Result<Option<Backup>, (Fault, Backup)> {
    let namespace = backup.namespace().unwrap_or_default();
    match step {
        Step::Hold => {
            let mut held: Vec<String> = backup.finalizers().to_vec();
            held.push(warden::BACKUP_FINALIZER.to_owned());
            finalizers(client, backup, held).await.map(Some)
        }
        Step::Release => {
            let going = backup.metadata.deletion_timestamp.is_some();
            let stays = |held: &&String| *held != warden::BACKUP_FINALIZER && !(going && *held == backups::CLEANUP);
            let held: Vec<String> = backup.finalizers().iter().filter(stays).cloned().collect();
            let gone = going && held.is_empty();
            let released = finalizers(client, backup, held).await?;
            Ok((!gone).then_some(released))
        }
        Step::DeleteObject => match remove(client, &namespace, seen).await {
            Ok(()) => Ok(Some(backup)),
            Err(fault) => Err((fault, backup)),
        },
        Step::DeleteSnapshot { name, uid } => {
            let api: Api<EtcdSnapshot> = Api::namespaced(client.clone(), &namespace);
            let target = Target { name, uid, resource_version: None };
            match delete(&api, &target, PropagationPolicy::Background).await {
                Ok(_) => Ok(Some(backup)),
                Err(source) => Err((Fault::Api { what: format!("delete EtcdSnapshot {name}"), source }, backup)),
            }
        }
    }
}

async fn remove(client: &Client, namespace: &str, seen: &Observed) -> Result<(), Fault> {
    let Ok(place) = &seen.place else { return Ok(()) };
    Ok(open(client, namespace, place).await?.delete().await?)
}

async fn finalizers(client: &Client, backup: Backup, held: Vec<String>) -> Result<Backup, (Fault, Backup)> {
    let api: Api<Backup> = Api::namespaced(client.clone(), &backup.namespace().unwrap_or_default());
    let patch = json!({"metadata": {"finalizers": held}});
    match merge(&api, &backup, patch).await {
        Ok(newest) => Ok(newest),
        Err(source) => Err((Fault::Api { what: "change the Backup's finalizers".to_owned(), source }, backup)),
    }
}
