//! EtcdMember: one member of a cluster, with its volume and its Pod. Brought up, told apart, taken out of etcd before
//! it goes, and given up when its data is beyond repair and the others can spare it.

mod apply;
pub mod build;
pub mod decide;
mod notes;
pub mod observe;
pub mod restore;
pub mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource};
use tokio_util::sync::CancellationToken;

use super::frame::{Next, Reconciler, chain, run};
use super::informer::{Queue, controller_of};
use super::watches::Watches;
use super::writes::{self, Error, Written, beside};
use super::{Context, ready};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;

/// Pause before the next look when a newer copy of the object is on its way.
const BEHIND: Duration = Duration::from_millis(100);

/// What the controller reads.
pub struct Reader {
    context: Context,
    clusters: Store<EtcdCluster>,
    members: Store<EtcdMember>,
    pods: Store<Pod>,
    claims: Store<PersistentVolumeClaim>,
}

impl Reader {
    fn api<K>(&self, member: &EtcdMember) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        beside(&self.context.client, member)
    }
}

impl Reconciler for Reader {
    type Kind = EtcdMember;
    type Error = Error;
    const NAME: &'static str = "etcdmember";

    async fn reconcile(&self, member: Arc<EtcdMember>) -> Result<Next, Error> {
        let seen = observe::observe(self, member).await;
        let now = Timestamp::now();
        let plan = decide::decide(&seen, self.context.settings.agent_image.as_deref(), now);
        let (done, result) = apply::apply(self, &seen, &plan.steps).await;
        let failure = result.as_ref().err().map(|error| chain(error));
        let status = status::compute(&seen, &plan, failure.as_deref(), now);
        let turned = notes::of_change(seen.member.status.as_ref(), &status);
        let written = self.write_status(&seen.member, status, &plan).await;
        // What is not written is told when it is.
        let turned = turned.into_iter().filter(|_| matches!(written, Ok(Written::Done)));
        let told = notes::of_steps(&plan.steps[..done]).into_iter().chain(turned).collect();
        self.context.events.tell(seen.member.as_ref(), told).await;
        result?;
        let behind = (written? == Written::Behind).then_some(BEHIND);
        Ok([plan.look_again, behind].into_iter().flatten().min().map_or(Next::OnChange, Next::After))
    }
}

impl Reader {
    async fn write_status(
        &self,
        member: &EtcdMember,
        status: crate::api::etcdmember::EtcdMemberStatus,
        plan: &decide::Plan,
    ) -> Result<Written, Error> {
        // A change of metadata in the same look has made the copy old; the event it causes brings us back.
        let moved = |step: &decide::Step| {
            matches!(step, decide::Step::AddFinalizer | decide::Step::RemoveFinalizer | decide::Step::DeleteMember)
        };
        if member.status.as_ref() == Some(&status) || plan.steps.iter().any(|planned| moved(&planned.step)) {
            return Ok(Written::Nothing);
        }
        let updated = EtcdMember { status: Some(status), ..member.clone() };
        writes::status(&self.api(member), &updated).await
    }
}

/// Starts the controller.
pub fn start(
    watches: &mut Watches,
    context: &Context,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let queue = Queue::default();
    watches.members.notify_self(&queue);
    watches.member_pods.notify(&queue, controller_of::<Pod, EtcdMember>);
    watches.claims.notify(&queue, controller_of::<PersistentVolumeClaim, EtcdMember>);
    // What a cluster's status says of its formation changes how its members' Pods are made.
    let members = watches.members.store();
    watches.clusters.notify(&queue, move |cluster| {
        let mut of_cluster = members.state();
        of_cluster.retain(|member| {
            member.metadata.namespace == cluster.metadata.namespace
                && Some(member.spec.cluster_name.as_str()) == cluster.metadata.name.as_deref()
        });
        of_cluster.into_iter().map(|member| ObjectRef::from_obj(member.as_ref())).collect::<Vec<_>>()
    });
    let reader = Reader {
        context: context.clone(),
        clusters: watches.clusters.store(),
        members: watches.members.store(),
        pods: watches.member_pods.store(),
        claims: watches.claims.store(),
    };
    let metrics = context.metrics.of(Reader::NAME);
    async move {
        let filled = ready(&[
            reader.clusters.wait_until_ready().await,
            reader.members.wait_until_ready().await,
            reader.pods.wait_until_ready().await,
            reader.claims.wait_until_ready().await,
        ]);
        if filled {
            let store = reader.members.clone();
            run(reader, store, queue.into_triggers(), metrics, stop).await;
        }
    }
}
