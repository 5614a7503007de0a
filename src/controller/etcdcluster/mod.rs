//! EtcdCluster: from one member that forms the cluster to the number that is wanted, up and down, one change at a time.

mod apply;
pub mod build;
pub mod certificates;
pub mod decide;
mod form;
mod notes;
pub mod observe;
mod scale;
pub mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::frame::{Next, Reconciler, chain, run};
use super::informer::{Queue, controller_of};
use super::watches::Watches;
use super::writes::{self, Error, Written, beside};
use super::{Context, ready};
use crate::api::etcdcluster::{EtcdCluster, EtcdClusterStatus};
use crate::api::etcdmember::EtcdMember;

/// Pause before a step is tried again that etcd would not do yet.
const NOT_YET: Duration = Duration::from_millis(300);

/// Pause before the next look when a newer copy of the object is on its way.
const BEHIND: Duration = Duration::from_millis(100);

/// What the controller reads.
pub struct Reader {
    context: Context,
    clusters: Store<EtcdCluster>,
    members: Store<EtcdMember>,
    pods: Store<Pod>,
    services: Store<Service>,
    budgets: Store<PodDisruptionBudget>,
}

impl Reader {
    fn api<K>(&self, object: &impl ResourceExt) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        beside(&self.context.client, object)
    }

    async fn write_status(&self, cluster: &EtcdCluster, status: EtcdClusterStatus) -> Result<Written, Error> {
        if cluster.status.as_ref() == Some(&status) {
            return Ok(Written::Nothing);
        }
        let updated = EtcdCluster { status: Some(status), ..cluster.clone() };
        writes::status(&self.api(cluster), &updated).await
    }
}

/// Whether etcd did not take our password.
fn is_rejected(error: &Error) -> bool {
    match error {
        Error::Etcd(error) => error.is_rejected(),
        Error::Api { .. } => false,
    }
}

impl Reconciler for Reader {
    type Kind = EtcdCluster;
    type Error = Error;
    const NAME: &'static str = "etcdcluster";

    async fn reconcile(&self, cluster: Arc<EtcdCluster>) -> Result<Next, Error> {
        if cluster.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange);
        }
        let now = Timestamp::now();
        let seen = observe::observe(self, cluster, now).await;
        let plan = decide::decide(&seen, now);
        let (done, result) = apply::apply(self, &seen, &plan.steps).await;
        let failure = match &result {
            Ok(apply::Outcome::Done) => None,
            Ok(apply::Outcome::NotYet(why)) => Some(status::Failure { text: why.clone(), rejected: false }),
            Err(error) => Some(status::Failure { text: chain(error), rejected: is_rejected(error) }),
        };
        let status = status::compute(&seen, &plan, failure.as_ref(), now);
        let deadline = status.progress_deadline.as_ref().map(|deadline| deadline.0);
        let turned = notes::of_change(seen.cluster.status.as_ref(), &status);
        let written = self.write_status(&seen.cluster, status).await;
        // What is not written is told when it is.
        let turned = turned.into_iter().filter(|_| matches!(written, Ok(Written::Done)));
        let told = notes::of_steps(&plan.steps[..done]).into_iter().chain(turned).collect();
        self.context.events.tell(seen.cluster.as_ref(), told).await;
        let outcome = result?;
        let behind = (written? == Written::Behind).then_some(BEHIND);
        let pause = match outcome {
            apply::Outcome::Done => plan.look_again,
            apply::Outcome::NotYet(_) => Some(NOT_YET),
        };
        // The moment when a deadline passes is told by no watch.
        let to_deadline = deadline.and_then(|deadline| Duration::try_from(deadline.duration_since(now)).ok());
        Ok([pause, to_deadline, behind].into_iter().flatten().min().map_or(Next::OnChange, Next::After))
    }
}

/// Starts the controller.
pub fn start(
    watches: &mut Watches,
    context: &Context,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let queue = Queue::default();
    watches.clusters.notify_self(&queue);
    watches.members.notify(&queue, controller_of::<EtcdMember, EtcdCluster>);
    watches.services.notify(&queue, controller_of::<Service, EtcdCluster>);
    watches.budgets.notify(&queue, controller_of::<PodDisruptionBudget, EtcdCluster>);
    // A Service of another owner that goes makes its name free: whoever waits for it is found by the name.
    watches.services.notify(&queue, |service| {
        let cluster = service.labels().get(crate::api::names::operator::CLUSTER)?;
        Some(ObjectRef::new(cluster).within(&service.namespace().unwrap_or_default()))
    });
    let reader = Reader {
        context: context.clone(),
        clusters: watches.clusters.store(),
        members: watches.members.store(),
        pods: watches.member_pods.store(),
        services: watches.services.store(),
        budgets: watches.budgets.store(),
    };
    let metrics = context.metrics.of(Reader::NAME);
    async move {
        let filled = ready(&[
            reader.clusters.wait_until_ready().await,
            reader.members.wait_until_ready().await,
            reader.pods.wait_until_ready().await,
            reader.services.wait_until_ready().await,
            reader.budgets.wait_until_ready().await,
        ]);
        if filled {
            let store = reader.clusters.clone();
            run(reader, store, queue.into_triggers(), metrics, stop).await;
        }
    }
}
