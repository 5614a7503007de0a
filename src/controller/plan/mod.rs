//! Plan: BackupJobs on a schedule, one for each slot and none twice.
//!
//! Slots are points of the calendar, and a job's name is its slot: whoever makes it a second time finds it taken. Up to
//! where slots are done with stands in the status; what it does not say is read from the jobs that exist.

pub mod apply;
pub mod build;
pub mod decide;
pub mod observe;
pub mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use self::decide::{Decision, Trouble, Verdict, decide, lateness};
use self::observe::{Stores, observe};
use super::Context;
use super::frame::{self, Failure, Next, Reconciler};
use super::informer::Queue;
use super::watches::Watches;
use crate::api::plan::{Plan, reason};
use crate::k8s::apply::replace_status;
use crate::k8s::error::{Class, class, message};
use crate::k8s::events::Events;
use crate::rules::class::leads_to_etcd;

/// Why a look at a Plan did not end well. Retried, unless the Plan is gone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The BackupJob of a slot could not be made.
    #[error("cannot create the BackupJob of a slot")]
    Create(#[source] kube::Error),
    /// The status could not be written: most often the copy was not the newest.
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
}

impl Failure for Error {
    fn is_retried(&self) -> bool {
        match self {
            Self::Create(_) => true,
            Self::Status(source) => class(source) != Class::NotFound,
        }
    }
}

/// The controller.
pub struct Plans {
    client: Client,
    stores: Stores,
    events: Events,
}

impl Reconciler for Plans {
    type Kind = Plan;
    type Error = Error;
    const NAME: &'static str = "plan";

    async fn reconcile(&self, plan: Arc<Plan>) -> Result<Next, Error> {
        let class = self.stores.class(&plan);
        if plan.metadata.deletion_timestamp.is_some() || !leads_to_etcd(class.as_deref(), &plan.spec.application_ref) {
            return Ok(Next::OnChange);
        }
        let now = Timestamp::now();
        let seen = observe(&self.client, &self.stores, plan.clone(), now).await;
        let decision = decide(&seen, now);
        let (verdict, fault) = self.carry_out(&seen, &decision).await;
        self.write(&plan, &verdict, now).await?;
        match fault {
            Some(fault) => Err(Error::Create(fault)),
            None => Ok(decision.again.map_or(Next::OnChange, Next::After)),
        }
    }
}

impl Plans {
    /// Does the step, and tells where the Plan stands then. A slot whose job could not be made stays due.
    async fn carry_out(&self, seen: &observe::Observed, decision: &Decision) -> (Verdict, Option<kube::Error>) {
        let Some(step) = &decision.step else { return (decision.verdict.clone(), None) };
        let Err(error) = apply::apply(&self.client, seen, step).await else {
            return (decision.verdict.clone(), None);
        };
        let refused = apply::is_refused(&error);
        let trouble = Trouble {
            reason: if refused { reason::JOB_REFUSED } else { reason::API_UNAVAILABLE },
            message: format!("cannot create the BackupJob of a slot: {}", message(&error)),
        };
        let settled_until =
            if refused { decision.verdict.settled_until } else { seen.due.as_ref().map(|due| due.settled_until) };
        let verdict =
            Verdict { trouble: Some(trouble), settled_until, next: decision.verdict.next, ..Verdict::default() };
        (verdict, (!refused).then_some(error))
    }

    async fn write(&self, plan: &Plan, verdict: &Verdict, now: Timestamp) -> Result<(), Error> {
        let status = status::status(plan, verdict, now);
        if plan.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<Plan> = Api::namespaced(self.client.clone(), &plan.namespace().unwrap_or_default());
        replace_status(&api, &Plan { status: Some(status), ..plan.clone() }).await.map_err(Error::Status)?;
        self.tell(plan, verdict, now).await;
        Ok(())
    }

    async fn tell(&self, plan: &Plan, verdict: &Verdict, now: Timestamp) {
        if let Some(slot) = verdict.ran {
            let late = lateness(slot, now).map_or_else(String::new, |late| format!(", {late:#} late"));
            let note = format!("the backup of {slot} was begun{late}");
            self.events.normal(plan, reason::BACKUP_JOB_CREATED, "Schedule", note).await;
        }
        if let Some(Some(missed)) = &verdict.missed {
            self.events.warning(plan, reason::RUNS_MISSED, "Schedule", status::describe(missed)).await;
        }
        if let Some(trouble) = &verdict.trouble {
            self.events.warning(plan, trouble.reason, "Schedule", trouble.message.clone()).await;
        }
    }
}

/// Starts the controller: says what it listens to, and gives back its work.
pub fn start(watches: &mut Watches, context: &Context, stop: CancellationToken) -> BoxFuture<'static, ()> {
    let plans = watches.plans.store();
    let stores = Stores { classes: watches.classes.store(), jobs: watches.backup_jobs.store() };
    let queue = Queue::default();
    watches.plans.notify_self(&queue);
    let known = plans.clone();
    watches.classes.notify(&queue, move |class| of_class(&known, &class.name_any()));
    let controller = Plans { client: context.client.clone(), stores: stores.clone(), events: context.events.clone() };
    let metrics = context.metrics.of(Plans::NAME);
    Box::pin(async move {
        // An empty copy is not an absent class, nor one without jobs.
        let filled = super::ready(&[stores.classes.wait_until_ready().await, stores.jobs.wait_until_ready().await]);
        if filled {
            frame::run(controller, plans, queue.into_triggers(), metrics, stop).await;
        }
    })
}

fn of_class(plans: &Store<Plan>, class: &str) -> Vec<ObjectRef<Plan>> {
    let plans = plans.state();
    let named = plans.iter().filter(|plan| plan.spec.backup_class_name == class);
    named.map(|plan| ObjectRef::from_obj(plan.as_ref())).collect()
}
