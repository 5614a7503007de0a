//! Backup: the record of a stored snapshot. One that was written by hand is checked before it counts; one whose deletion
//! policy says so takes its stored object along when it goes.

pub mod apply;
pub mod build;
pub mod decide;
pub mod door;
pub mod observe;
pub mod payload;
pub mod place;
pub mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::apply::Fault;
use self::decide::{Decision, Verdict, decide};
use self::observe::{Observed, Stores, observe};
use super::Context;
use super::frame::{self, Failure, Next, Reconciler};
use super::informer::Queue;
use super::watches::Watches;
use crate::api::backup::{Backup, reason};
use crate::k8s::apply::merge;
use crate::k8s::error::{Class, class};
use crate::k8s::events::Events;

/// Why a look at a Backup did not end well. Retried, unless the Backup is gone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step failed; the condition says so.
    #[error("step")]
    Step(#[source] Fault),
    /// The status could not be written: most often the copy was not the newest.
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
}

impl Failure for Error {
    fn is_retried(&self) -> bool {
        match self {
            Self::Step(_) => true,
            Self::Status(source) => class(source) != Class::NotFound,
        }
    }
}

/// The controller.
pub struct Backups {
    client: Client,
    stores: Stores,
    events: Events,
}

impl Reconciler for Backups {
    type Kind = Backup;
    type Error = Error;
    const NAME: &'static str = "backup";

    async fn reconcile(&self, backup: Arc<Backup>) -> Result<Next, Error> {
        if !decide::is_ours(&backup) {
            return Ok(Next::OnChange);
        }
        let now = Timestamp::now();
        let seen = observe(&self.client, &self.stores, backup, now).await;
        let decision = decide(&seen, now);
        let (verdict, fault, current) = self.carry_out(&seen, &decision).await;
        if let Some(current) = current {
            self.write(&current, &verdict, now).await?;
        }
        self.tell(&seen.backup, &verdict).await;
        match fault {
            Some(fault) => Err(Error::Step(fault)),
            None => Ok(decision.again.map_or(Next::OnChange, Next::After)),
        }
    }
}

impl Backups {
    /// Does the steps up to the first that fails, and tells where the Backup stands then, and its newest form; none
    /// once it is released, and gone.
    async fn carry_out(&self, seen: &Observed, decision: &Decision) -> (Verdict, Option<Fault>, Option<Backup>) {
        let mut current = Some((*seen.backup).clone());
        for step in &decision.steps {
            match apply::apply(&self.client, seen, step, current.take().unwrap_or_default()).await {
                Ok(newest) => current = newest,
                Err((fault, newest)) => {
                    let verdict = decide::after_fault(seen, step, fault.told());
                    return (verdict, Some(fault), Some(newest));
                }
            }
        }
        (decision.verdict.clone(), None, current)
    }

    async fn write(&self, backup: &Backup, verdict: &Verdict, now: Timestamp) -> Result<(), Error> {
        let Some(patch) = status::patch(backup, verdict, now) else { return Ok(()) };
        let api: Api<Backup> = Api::namespaced(self.client.clone(), &backup.namespace().unwrap_or_default());
        match merge(&api, backup, patch).await {
            Ok(_) => Ok(()),
            Err(error) if class(&error) == Class::NotFound => Ok(()),
            Err(error) => Err(Error::Status(error)),
        }
    }

    /// A condition that says the same as before was told before.
    async fn tell(&self, backup: &Backup, verdict: &Verdict) {
        if let Verdict::Gone { note: Some((kept, note)) } = verdict {
            let reason = if *kept { reason::OBJECT_KEPT } else { reason::OBJECT_DELETED };
            if *kept {
                warn!(backup = backup.name_any(), namespace = backup.namespace(), note, "the stored object stays");
                self.events.warning(backup, reason, "Delete", note.clone()).await;
            } else {
                self.events.normal(backup, reason, "Delete", note.clone()).await;
            }
        }
        if let Some((warns, reason, message)) = status::news(backup, verdict) {
            if warns {
                self.events.warning(backup, reason, "Backup", message).await;
            } else {
                self.events.normal(backup, reason, "Backup", message).await;
            }
        }
    }
}

/// Starts the controller: says what it listens to, and gives back its work.
pub fn start(watches: &mut Watches, context: &Context, stop: CancellationToken) -> BoxFuture<'static, ()> {
    let stores = Stores {
        backups: watches.backups.store(),
        snapshots: watches.snapshots.store(),
        restore_jobs: watches.restore_jobs.store(),
    };
    let queue = Queue::default();
    watches.backups.notify_self(&queue);
    // A Backup that is going may be waiting for the restore that uses it.
    watches.restore_jobs.notify(&queue, |job| {
        let backup = &job.spec.backup_ref.name;
        Some(ObjectRef::new(backup).within(&job.namespace()?)).filter(|_| !backup.is_empty())
    });
    let controller = Backups { client: context.client.clone(), stores: stores.clone(), events: context.events.clone() };
    let metrics = context.metrics.of(Backups::NAME);
    Box::pin(async move {
        // An empty copy is not one without restores.
        let filled = super::ready(&[
            stores.backups.wait_until_ready().await,
            stores.snapshots.wait_until_ready().await,
            stores.restore_jobs.wait_until_ready().await,
        ]);
        if filled {
            let backups: Store<Backup> = stores.backups.clone();
            frame::run(controller, backups, queue.into_triggers(), metrics, stop).await;
        }
    })
}
