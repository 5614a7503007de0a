//! BackupJob: one snapshot of one application, and the Backup that says where it is.

pub mod apply;
pub mod build;
pub mod decide;
pub mod observe;
pub mod status;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::decide::{Plan, Verdict, decide};
use self::observe::{Stores, observe};
use super::Context;
use super::frame::{self, Failure, Next, Reconciler};
use super::informer::Queue;
use super::watches::Watches;
use crate::api::backupjob::{BackupJob, phase, reason};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::names::warden;
use crate::checks::Known;
use crate::k8s::apply::replace_status;
use crate::k8s::error::{Class, class};
use crate::k8s::events::Events;

/// Pause between two looks at whether upstream's controllers are still at work.
const LOOK_FOR_UPSTREAM: Duration = Duration::from_secs(15);

/// Why a reconcile did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step failed; status says so.
    #[error("step")]
    Step(#[source] apply::Fault),
    /// The status could not be written. Retried: most often the copy was not the newest.
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
}

impl Failure for Error {
    fn is_retried(&self) -> bool {
        match self {
            Self::Step(fault) => fault.is_retried(),
            Self::Status(source) => class(source) != Class::NotFound,
        }
    }
}

/// The controller.
pub struct BackupJobs {
    client: Client,
    stores: Stores,
    events: Events,
    context: Context,
}

impl Reconciler for BackupJobs {
    type Kind = BackupJob;
    type Error = Error;
    const NAME: &'static str = "backupjob";

    async fn reconcile(&self, job: Arc<BackupJob>) -> Result<Next, Error> {
        let class = self.stores.class(&job);
        if is_done(&job) || !decide::is_ours(&job, &class) {
            return Ok(Next::OnChange);
        }
        let now = Timestamp::now();
        if decide::is_upstreams(&job, &class) && self.context.upstream_holder(now).is_some() {
            return Ok(Next::After(LOOK_FOR_UPSTREAM));
        }
        let seen = observe(&self.client, &self.stores, &self.context.judgement, &job, now).await;
        let plan = decide(&seen, now);
        let (verdict, fault) = self.carry_out(&seen, &plan, now).await;
        self.write(&job, &verdict, now).await?;
        match fault {
            Some(fault) => Err(Error::Step(fault)),
            None => Ok(plan.again.map_or(Next::OnChange, Next::After)),
        }
    }
}

/// Whether nothing is left to do for a job.
fn is_done(job: &BackupJob) -> bool {
    job.metadata.deletion_timestamp.is_some()
        || job.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(status::is_terminal)
}

impl BackupJobs {
    /// Does the plan's steps up to the first that fails, and tells where the job stands then.
    async fn carry_out(
        &self,
        seen: &observe::Observed,
        plan: &Plan,
        now: Timestamp,
    ) -> (Verdict, Option<apply::Fault>) {
        for step in &plan.steps {
            if let Err(fault) = apply::apply(&self.client, seen, step, now).await {
                return if fault.is_retried() {
                    (unavailable(seen, &fault), Some(fault))
                } else {
                    (Verdict::Failed { message: fault.told() }, None)
                };
            }
            info!(step = ?std::mem::discriminant(step), "step done");
        }
        (plan.verdict.clone(), None)
    }

    async fn write(&self, job: &BackupJob, verdict: &Verdict, now: Timestamp) -> Result<(), Error> {
        let status = status::status(job.status.as_ref(), verdict, job.metadata.generation, now);
        if job.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<BackupJob> = Api::namespaced(self.client.clone(), &job.namespace().unwrap_or_default());
        let job = BackupJob { status: Some(status), ..job.clone() };
        replace_status(&api, &job).await.map_err(Error::Status)?;
        match verdict {
            Verdict::Waiting { .. } => {}
            Verdict::Succeeded { backup } => {
                self.events
                    .normal(&job, reason::BACKUP_COMPLETED, "Backup", format!("Backup {backup} is stored"))
                    .await;
            }
            Verdict::Failed { message } => {
                self.events.warning(&job, reason::BACKUP_FAILED, "Backup", message.clone()).await;
            }
        }
        Ok(())
    }
}

/// A step that will be tried again.
fn unavailable(seen: &observe::Observed, fault: &apply::Fault) -> Verdict {
    let phase = if matches!(seen.snapshot, Known::Found(_)) { phase::RUNNING } else { phase::PENDING };
    Verdict::Waiting { phase, reason: reason::API_UNAVAILABLE, message: fault.told() }
}

/// Starts the controller: says what it listens to, and gives back its work.
pub fn start(watches: &mut Watches, context: &Context, stop: CancellationToken) -> BoxFuture<'static, ()> {
    let jobs = watches.backup_jobs.store();
    let stores = Stores {
        classes: watches.classes.store(),
        strategies: watches.strategies.store(),
        warden_strategies: watches.warden_strategies.store(),
        snapshots: watches.snapshots.store(),
        clusters: watches.clusters.store(),
        restore_jobs: watches.restore_jobs.store(),
    };
    let queue = Queue::default();
    listen(watches, &queue, &jobs);
    let controller = BackupJobs {
        client: context.client.clone(),
        stores: stores.clone(),
        events: context.events.clone(),
        context: context.clone(),
    };
    let metrics = context.metrics.of(BackupJobs::NAME);
    Box::pin(async move {
        // An empty copy is not an absent class: nothing is decided before every copy is complete.
        if ready(&stores).await {
            frame::run(controller, jobs, queue.into_triggers(), metrics, stop).await;
        }
    })
}

async fn ready(stores: &Stores) -> bool {
    tokio::try_join!(
        stores.classes.wait_until_ready(),
        stores.strategies.wait_until_ready(),
        stores.warden_strategies.wait_until_ready(),
        stores.snapshots.wait_until_ready(),
        stores.clusters.wait_until_ready(),
        stores.restore_jobs.wait_until_ready(),
    )
    .is_ok()
}

fn listen(watches: &mut Watches, queue: &Queue<BackupJob>, jobs: &Store<BackupJob>) {
    watches.backup_jobs.notify_self(queue);
    let unfinished = |jobs: &Store<BackupJob>, wanted: &dyn Fn(&BackupJob) -> bool| -> Vec<ObjectRef<BackupJob>> {
        let found = jobs.state().into_iter().filter(|job| !is_done(job) && wanted(job));
        found.map(|job| ObjectRef::from_obj(job.as_ref())).collect()
    };
    let known = jobs.clone();
    watches.classes.notify(queue, move |class| {
        let name = class.name_any();
        unfinished(&known, &|job| job.spec.backup_class_name == name)
    });
    let known = jobs.clone();
    watches.strategies.notify(queue, move |_| unfinished(&known, &|_| true));
    let known = jobs.clone();
    watches.warden_strategies.notify(queue, move |_| unfinished(&known, &|_| true));
    let known = jobs.clone();
    watches.clusters.notify(queue, move |cluster| {
        let namespace = cluster.namespace();
        let named = cluster.name_any() == APP_CLUSTER_NAME;
        unfinished(&known, &|job| named && job.namespace() == namespace)
    });
    let known = jobs.clone();
    watches.restore_jobs.notify(queue, move |restore| {
        let namespace = restore.namespace();
        unfinished(&known, &|job| job.namespace() == namespace)
    });
    watches.snapshots.notify(queue, |snapshot| {
        let ours = snapshot.labels().contains_key(warden::BACKUP_JOB_UID);
        let record = decide::recorded(snapshot).filter(|_| ours);
        record.map(|record| ObjectRef::new(&record.job).within(&snapshot.namespace().unwrap_or_default()))
    });
}

#[cfg(test)]
mod tests;
