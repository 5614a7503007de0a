//! RestoreJob: brings an application back to a Backup, in place.

pub mod apply;
pub mod build;
pub mod decide;
pub mod facts;
mod lost;
pub mod observe;
pub mod options;
pub mod preflight;
pub mod records;
mod refusal;
mod release;
mod report;
pub mod source;
pub mod status;
mod sweep;
pub mod volumes;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::decide::{Plan, Verdict, decide, is_finished, is_ours};
use self::observe::{ObserveError, Observed, observe};
use super::Context;
use super::frame::{self, Failure, Next, Reconciler};
use super::informer::Queue;
use super::watches::Watches;
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::condition;
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, RestoreJobStatus, reason};
use crate::k8s::apply::replace_status;
use crate::k8s::events::Events;

/// Pause between two looks at whether upstream's controllers are still at work.
const LOOK_FOR_UPSTREAM: Duration = Duration::from_secs(15);

/// Most looks in one reconcile. A restore has fewer steps; more is a fault of ours, which must not spin.
const MOST_LOOKS: usize = 24;

/// Why a reconcile did not end well. All of it is tried again: a restore under way is never left alone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing could be seen.
    #[error("observe")]
    Observe(#[source] ObserveError),
    /// An action failed; status says so.
    #[error("action")]
    Action(#[source] apply::Fault),
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
}

impl Failure for Error {
    fn is_retried(&self) -> bool {
        true
    }
}

/// The controller.
pub struct RestoreJobs {
    client: Client,
    events: Events,
    images: build::Images,
    context: Context,
}

impl Reconciler for RestoreJobs {
    type Kind = RestoreJob;
    type Error = Error;
    const NAME: &'static str = "restorejob";

    async fn reconcile(&self, job: Arc<RestoreJob>) -> Result<Next, Error> {
        let (namespace, name) = (job.namespace().unwrap_or_default(), job.name_any());
        for _ in 0..MOST_LOOKS {
            let seen = match Box::pin(observe(&self.client, &namespace, &name)).await {
                Ok(seen) => seen,
                Err(error) => return Err(self.blind(error, Timestamp::now()).await),
            };
            let Some(mut seen) = seen.filter(is_ours) else { return Ok(Next::OnChange) };
            let now = Timestamp::now();
            if refusal::is_upstreams(&seen) && self.context.upstream_holder(now).is_some() {
                return Ok(Next::After(LOOK_FOR_UPSTREAM));
            }
            seen.refused = refusal::refused(&self.context, &seen, now).await;
            let plan = decide(&seen, now);
            let fault = self.carry_out(&seen, &plan).await.err();
            let verdict = fault.as_ref().map_or_else(|| plan.verdict.clone(), |fault| unavailable(fault, &plan));
            let idle = plan.actions.is_empty();
            // Between two looks of one reconcile nobody needs to be told.
            if idle || fault.is_some() {
                self.write(&seen, &verdict, now).await?;
            }
            match fault {
                Some(fault) => return Err(Error::Action(fault)),
                None if idle => return Ok(plan.again.map_or(Next::OnChange, Next::After)),
                None => {}
            }
        }
        Ok(Next::After(Duration::from_secs(1)))
    }
}

impl RestoreJobs {
    /// Does the plan's actions up to the first that fails.
    async fn carry_out(&self, seen: &Observed, plan: &Plan) -> Result<(), apply::Fault> {
        for action in &plan.actions {
            apply::apply(&self.client, &self.images, seen, action).await?;
            info!(action = action.word(), "action done");
        }
        Ok(())
    }

    async fn write(&self, seen: &Observed, verdict: &Verdict, now: Timestamp) -> Result<(), Error> {
        if let Verdict::Elsewhere { message } = verdict {
            self.events.warning(&seen.job, reason::RESTORE_IN_PROGRESS, "Restore", message.clone()).await;
            return Ok(());
        }
        if let Some(job) = self.put(&seen.job, status::status(seen, verdict, now)).await? {
            self.tell(&seen.job, &job, verdict).await;
        }
        Ok(())
    }

    /// The job with its new status; `None` where it has that already.
    async fn put(&self, job: &RestoreJob, status: RestoreJobStatus) -> Result<Option<RestoreJob>, Error> {
        if job.status.as_ref() == Some(&status) {
            return Ok(None);
        }
        let api: Api<RestoreJob> = Api::namespaced(self.client.clone(), &job.namespace().unwrap_or_default());
        let job = RestoreJob { status: Some(status), ..job.clone() };
        replace_status(&api, &job).await.map_err(Error::Status)?;
        Ok(Some(job))
    }

    /// Nothing could be seen, and so nothing is done. A person hears of what does not pass by itself.
    async fn blind(&self, error: ObserveError, now: Timestamp) -> Error {
        if let ObserveError::Records { job, why } = &error
            && !is_settled(job)
            && let Err(error) = self.put(job, status::unreadable(job, why, now)).await
        {
            return error;
        }
        Error::Observe(error)
    }
}

impl RestoreJobs {
    /// Each step that was reached is an event, and so is the end, and what a person has to know meanwhile.
    async fn tell(&self, before: &RestoreJob, job: &RestoreJob, verdict: &Verdict) {
        let of = |job: &RestoreJob| job.status.clone().and_then(|status| status.conditions).unwrap_or_default();
        let (old, new) = (of(before), of(job));
        for reached in new.iter().filter(|new| new.status == "True" && !condition::is_true(&old, &new.type_)) {
            if reached.type_ != reason::READY {
                self.events.normal(job, &reached.reason, "Restore", reached.message.clone()).await;
            }
        }
        let was = condition::find(&old, reason::READY).map(|ready| ready.reason.clone()).unwrap_or_default();
        match verdict {
            Verdict::Waiting { reason, message } if is_for_a_person(reason) => {
                if was != *reason {
                    self.events.warning(job, reason, "Restore", message.clone()).await;
                }
            }
            Verdict::Waiting { .. } | Verdict::Gone | Verdict::Elsewhere { .. } => {}
            Verdict::Succeeded { message } => {
                self.events.normal(job, reason::RESTORE_COMPLETED, "Restore", message.clone()).await;
            }
            Verdict::DryRun { message } => {
                self.events.normal(job, reason::DRY_RUN_COMPLETED, "Restore", message.clone()).await;
            }
            Verdict::Failed { message } => {
                self.events.warning(job, reason::RESTORE_FAILED, "Restore", message.clone()).await;
            }
        }
    }
}

/// Whether somebody should be told of what a restore waits for.
fn is_for_a_person(reason: &str) -> bool {
    [reason::BLOCKED, reason::ROLLING_BACK, reason::NODE_LOST].contains(&reason)
}

/// An action that will be tried again. That a person has to decide is more than that it failed.
fn unavailable(fault: &apply::Fault, plan: &Plan) -> Verdict {
    match &plan.verdict {
        Verdict::Waiting { reason, .. } if *reason == reason::BLOCKED => plan.verdict.clone(),
        _ => Verdict::Waiting { reason: reason::API_UNAVAILABLE, message: fault.told() },
    }
}

/// Whether nothing is left to do for a job.
fn is_settled(job: &RestoreJob) -> bool {
    is_finished(job)
        && !job.labels().contains_key(warden::GUARDS)
        && !job.finalizers().iter().any(|name| name == warden::RESTORE_FINALIZER)
}

/// Starts the controller: says what it listens to, and gives back its work.
pub fn start(watches: &mut Watches, context: &Context, stop: CancellationToken) -> BoxFuture<'static, ()> {
    let jobs = watches.restore_jobs.store();
    let queue = Queue::default();
    let gone = Arc::new(Notify::new());
    listen(watches, &queue, &jobs, &gone);
    let namespace = watches.namespace.clone();
    let client = context.client.clone();
    let controller = RestoreJobs {
        client: context.client.clone(),
        events: context.events.clone(),
        context: context.clone(),
        images: build::Images {
            agent: context.settings.agent_image.clone(),
            etcd_repository: context.settings.etcd_image_repository.clone(),
        },
    };
    let metrics = context.metrics.of(RestoreJobs::NAME);
    Box::pin(async move {
        let sweeper = sweep::run(client, namespace, gone, stop.clone());
        tokio::join!(frame::run(controller, jobs, queue.into_triggers(), metrics, stop), sweeper);
    })
}

fn listen(watches: &mut Watches, queue: &Queue<RestoreJob>, jobs: &Store<RestoreJob>, gone: &Arc<Notify>) {
    let (known, gone) = (jobs.clone(), gone.clone());
    watches.restore_jobs.notify(queue, move |job| {
        if known.get(&ObjectRef::from_obj(job)).is_none() {
            gone.notify_one();
        }
        (!is_settled(job)).then(|| ObjectRef::from_obj(job))
    });
    let unsettled = |jobs: &Store<RestoreJob>, namespace: Option<String>| -> Vec<ObjectRef<RestoreJob>> {
        let found = jobs.state().into_iter().filter(|job| !is_settled(job) && job.namespace() == namespace);
        found.map(|job| ObjectRef::from_obj(job.as_ref())).collect()
    };
    let known = jobs.clone();
    watches.clusters.notify(queue, move |cluster| {
        let named = cluster.name_any() == APP_CLUSTER_NAME;
        if named { unsettled(&known, cluster.namespace()) } else { Vec::new() }
    });
    let known = jobs.clone();
    watches.members.notify(queue, move |member| unsettled(&known, member.namespace()));
    let known = jobs.clone();
    watches.member_pods.notify(queue, move |pod| unsettled(&known, pod.namespace()));
    let known = jobs.clone();
    watches.snapshots.notify(queue, move |snapshot| unsettled(&known, snapshot.namespace()));
    let known = jobs.clone();
    watches.claims.notify(queue, move |claim| unsettled(&known, claim.namespace()));
}

#[cfg(test)]
mod tests;
