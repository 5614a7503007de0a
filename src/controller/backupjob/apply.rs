//! Carrying out a BackupJob's steps.

use k8s_openapi::jiff::Timestamp;
use kube::api::PropagationPolicy;
use kube::{Api, Client, ResourceExt};

use super::build;
use super::decide::Step;
use super::observe::Observed;
use crate::api::backup::Backup;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::checks::Known;
use crate::k8s::apply::create;
use crate::k8s::delete::{Target, delete};
use crate::k8s::error::{Class, class, message};

/// Why a step could not be done.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct Fault {
    what: String,
    source: kube::Error,
}

impl Fault {
    /// Whether another try may succeed. Only an object that is not acceptable stays so.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        match class(&self.source) {
            Class::Invalid => false,
            Class::NotFound | Class::AlreadyExists | Class::Conflict | Class::Forbidden | Class::Transient => true,
        }
    }

    /// The fault and its cause as one sentence, for status.
    #[must_use]
    pub fn told(&self) -> String {
        format!("{self}: {}", message(&self.source))
    }
}

/// Does one step. A name that is taken is retried: the next look sees who has it.
pub async fn apply(client: &Client, seen: &Observed, step: &Step, now: Timestamp) -> Result<(), Fault> {
    let namespace = seen.job.namespace().unwrap_or_default();
    let (what, result) = match step {
        Step::CreateSnapshot { destination, record } => {
            let snapshot = build::snapshot(&seen.job, destination, record);
            let api: Api<EtcdSnapshot> = Api::namespaced(client.clone(), &namespace);
            (format!("create EtcdSnapshot {}", snapshot.name_any()), create(&api, &snapshot).await.map(drop))
        }
        Step::CancelSnapshot { name, uid } => {
            let api: Api<EtcdSnapshot> = Api::namespaced(client.clone(), &namespace);
            let target = Target { name, uid, resource_version: None };
            let deleted = delete(&api, &target, PropagationPolicy::Background).await.map(drop);
            (format!("delete EtcdSnapshot {name}"), deleted)
        }
        Step::CreateBackup { name, record } => {
            let Known::Found(snapshot) = &seen.snapshot else { return Ok(()) };
            let backup = build::backup(&seen.job, name, snapshot, record, now);
            let api: Api<Backup> = Api::namespaced(client.clone(), &namespace);
            (format!("create Backup {name}"), create(&api, &backup).await.map(drop))
        }
    };
    result.map_err(|source| Fault { what, source })
}
