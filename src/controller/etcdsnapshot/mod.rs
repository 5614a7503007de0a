//! EtcdSnapshot: one snapshot, taken once by a Job with the agent. The Job's own word, in the termination message, is
//! what counts; the object's status is what a person reads.

mod apply;
pub mod build;
pub mod decide;
pub mod observe;
pub mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::frame::{Next, Reconciler, chain, run};
use super::informer::{Queue, controller_of};
use super::watches::Watches;
use super::writes::{self, Error, Written, beside};
use super::{Context, ready, tell};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::etcdsnapshot::{EtcdSnapshot, EtcdSnapshotStatus, reason};
use crate::api::names::warden;

/// Pause before the next look when a newer copy of the object is on its way.
const BEHIND: Duration = Duration::from_millis(100);

/// Reasons of conditions that need a person's eyes.
const TROUBLES: [&str; 9] = [
    reason::REFUSED,
    reason::JOB_FAILED,
    reason::JOB_NOT_CREATED,
    reason::JOB_NAME_TAKEN,
    reason::SNAPSHOT_JOB_LOST,
    reason::CLUSTER_NOT_FOUND,
    reason::OPERATOR_IMAGE_NOT_CONFIGURED,
    reason::AUTH_LATCH_TIMEOUT,
    reason::INVALID_DESTINATION,
];

/// What the controller reads.
pub struct Reader {
    context: Context,
    clusters: Store<EtcdCluster>,
    members: Store<EtcdMember>,
    snapshots: Store<EtcdSnapshot>,
    jobs: Store<Job>,
    pods: Store<Pod>,
}

impl Reader {
    fn api<K>(&self, snapshot: &EtcdSnapshot) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        beside(&self.context.client, snapshot)
    }

    /// What is written is also told: an end, and what a person has to see to, stand under `kubectl get events` then.
    async fn write_status(&self, snapshot: &EtcdSnapshot, status: EtcdSnapshotStatus) -> Result<Written, Error> {
        let old = snapshot.status.clone().unwrap_or_default();
        if snapshot.status.as_ref() == Some(&status) {
            return Ok(Written::Nothing);
        }
        // The reason why it was given up may be the one for which it waited: the end is told all the same.
        let ends = decide::has_ended(status.phase.as_deref()) && !decide::has_ended(snapshot.phase());
        let before = old.conditions.filter(|_| !ends).unwrap_or_default();
        let told = tell::changes(&before, status.conditions.as_deref().unwrap_or_default(), &TROUBLES, "Snapshot");
        let updated = EtcdSnapshot { status: Some(status), ..snapshot.clone() };
        let written = writes::status(&self.api(snapshot), &updated).await?;
        if written == Written::Done {
            self.context.events.tell(snapshot, told).await;
        }
        Ok(written)
    }
}

impl Reconciler for Reader {
    type Kind = EtcdSnapshot;
    type Error = Error;
    const NAME: &'static str = "etcdsnapshot";

    async fn reconcile(&self, snapshot: Arc<EtcdSnapshot>) -> Result<Next, Error> {
        if snapshot.metadata.deletion_timestamp.is_some() {
            // The Job goes with its owner; the stored object stays.
            return Ok(Next::OnChange);
        }
        let now = Timestamp::now();
        let seen = observe::observe(self, snapshot, now).await;
        let plan = decide::decide(&seen, self.context.settings.agent_image.as_deref(), now);
        let result = apply::apply(self, &seen, plan.step.as_ref()).await;
        let failure = result.as_ref().err().map(|error| chain(error));
        let status = status::compute(&seen, &plan, failure.as_deref(), now);
        let written = self.write_status(&seen.snapshot, status).await;
        result?;
        let behind = (written? == Written::Behind).then_some(BEHIND);
        Ok([plan.look_again, behind].into_iter().flatten().min().map_or(Next::OnChange, Next::After))
    }
}

/// Starts the controller.
pub fn start(
    watches: &mut Watches,
    context: &Context,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let queue = Queue::default();
    watches.snapshots.notify_self(&queue);
    watches.jobs.notify(&queue, controller_of::<Job, EtcdSnapshot>);
    watches.job_pods.notify(&queue, |pod: &Pod| {
        let name = pod.annotations().get(warden::SNAPSHOT)?;
        Some(ObjectRef::new(name).within(&pod.namespace()?))
    });
    // A snapshot that waits is waiting for its cluster, or for another snapshot of it.
    let waiting = watches.snapshots.store();
    watches
        .clusters
        .notify(&queue, move |cluster| of_cluster(&waiting, cluster.namespace().as_deref(), &cluster.name_any()));
    let waiting = watches.snapshots.store();
    watches.snapshots.notify(&queue, move |ended: &EtcdSnapshot| {
        if decide::has_ended(ended.phase()) || ended.metadata.deletion_timestamp.is_some() {
            of_cluster(&waiting, ended.namespace().as_deref(), &ended.spec.cluster_ref.name)
        } else {
            Vec::new()
        }
    });
    let reader = Reader {
        context: context.clone(),
        clusters: watches.clusters.store(),
        members: watches.members.store(),
        snapshots: watches.snapshots.store(),
        jobs: watches.jobs.store(),
        pods: watches.job_pods.store(),
    };
    let metrics = context.metrics.of(Reader::NAME);
    async move {
        let filled = ready(&[
            reader.clusters.wait_until_ready().await,
            reader.members.wait_until_ready().await,
            reader.snapshots.wait_until_ready().await,
            reader.jobs.wait_until_ready().await,
            reader.pods.wait_until_ready().await,
        ]);
        if filled {
            let store = reader.snapshots.clone();
            run(reader, store, queue.into_triggers(), metrics, stop).await;
        }
    }
}

/// The snapshots of a cluster that have not ended.
fn of_cluster(snapshots: &Store<EtcdSnapshot>, namespace: Option<&str>, cluster: &str) -> Vec<ObjectRef<EtcdSnapshot>> {
    let snapshots = snapshots.state();
    let of_it = snapshots.iter().filter(|snapshot| {
        snapshot.metadata.namespace.as_deref() == namespace
            && snapshot.spec.cluster_ref.name == cluster
            && !decide::has_ended(snapshot.phase())
    });
    of_it.map(|snapshot| ObjectRef::from_obj(snapshot.as_ref())).collect()
}
