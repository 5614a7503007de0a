//! The whole life of a cluster with every write of ours done twice, as when an answer was lost on the way and somebody
//! asked again: it forms, grows, loses a volume, shrinks, sleeps, wakes, is snapshot and goes.
#![allow(clippy::print_stdout, reason = "it says how much was done twice")]

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::etcdmember::EtcdMember;
use etcd_warden::api::etcdsnapshot::EtcdSnapshot;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::injection::writes;
use super::scene::{Scene, VERSION};
use crate::bed::fault_proxy::HttpFault;
use crate::bed::stand_in::plane::{S3_AUTHORITY, S3_HOST, S3_SECRET, s3};
use crate::bed::wait_for;

const WITHIN: Duration = Duration::from_mins(2);

/// Each sort of write of the three controllers, steps and statuses. A cluster's own membership is changed in etcd, where
/// no proxy stands; that is done twice in the world of the cluster's own tests.
const SORTS: [&str; 15] = [
    "PATCH services",
    "PATCH poddisruptionbudgets",
    "DELETE poddisruptionbudgets",
    "POST etcdmembers",
    "PATCH etcdmembers",
    "DELETE etcdmembers",
    "POST persistentvolumeclaims",
    "POST pods",
    "PATCH pods",
    "PATCH pods/status",
    "DELETE pods",
    "POST jobs",
    "PATCH jobs",
    "PUT etcdclusters/status",
    "PUT etcdmembers/status",
];

struct Place<'a> {
    scene: &'a Scene,
    client: Client,
    namespace: String,
}

/// Lives it.
///
/// # Panics
/// When it comes to anything else than it would with every write done once.
pub async fn live() {
    let scene = Scene::start("etcdcluster,etcdmember,etcdsnapshot").await;
    let namespace = scene.plane.namespace_with_store("twice").await;
    s3().await.bucket(&namespace).await;
    let ours = writes(&namespace);
    let twice = scene.proxy.inject(ours.clone(), HttpFault::Twice);
    let place = Place { scene: &scene, client: scene.plane.client().await, namespace };

    place.create(3).await;
    let first = place.settled(3).await;
    place.etcdctl(&["put", "key", "kept"]).await.unwrap();
    place.lose_a_volume().await;
    assert_eq!(place.settled(3).await, first);
    for replicas in [1, 0, 1] {
        place.scale(replicas).await;
    }
    assert_eq!(place.settled(1).await, first);
    assert_eq!(place.etcdctl(&["get", "key", "--print-value-only"]).await.as_deref(), Ok("kept\n"));
    place.snapshot().await;
    place.go().await;

    let done = scene.proxy.applied(twice);
    println!("{done} writes done twice");
    let sorts = place.sorts();
    for sort in SORTS {
        assert!(sorts.contains(sort), "{sort} was never written; there were {sorts:?}");
    }
    assert_eq!(done, scene.proxy.count(&ours));
}

impl Place<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn create(&self, replicas: usize) {
        let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "etcd"},
            "spec": {"version": VERSION.number(), "replicas": replicas, "storage": {"size": "1Gi"}}});
        self.scene.apply(&self.namespace, &cluster.to_string()).await;
    }

    /// etcdctl against any member.
    async fn etcdctl(&self, arguments: &[&str]) -> Result<String, String> {
        let pods = self.scene.plane.members(&self.namespace, "etcd").await;
        self.scene.plane.etcdctl(pods.first().ok_or("no Pod")?, arguments).await
    }

    /// Waits until there are so many members and nothing else, all of one cluster, whose id it gives.
    async fn settled(&self, replicas: usize) -> String {
        wait_for(format!("{replicas} members"), WITHIN, async || {
            let cluster = self.api::<EtcdCluster>().get("etcd").await.map_err(|e| e.to_string())?;
            let status = cluster.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            if !conditions.any(|c| c.type_ == "Progressing" && c.reason == "Reconciled") {
                return Err(format!("{:?}\n{}", status.conditions, self.scene.last_words().await));
            }
            let all = ListParams::default();
            let members = self.api::<EtcdMember>().list(&all).await.map_err(|e| e.to_string())?.items;
            let claims = self.api::<PersistentVolumeClaim>().list(&all).await.map_err(|e| e.to_string())?.items;
            let pods = self.scene.plane.members(&self.namespace, "etcd").await;
            if [members.len(), claims.len(), pods.len()] != [replicas; 3] {
                return Err(format!("{} members, {} claims, {} Pods", members.len(), claims.len(), pods.len()));
            }
            for pod in &pods {
                let listed = self.scene.plane.etcdctl(pod, &["member", "list", "--write-out=simple"]).await?;
                // The last column says whether a member is a learner.
                if listed.lines().count() != replicas || !listed.lines().all(|line| line.ends_with("false")) {
                    return Err(format!("not {replicas} voters: {listed}"));
                }
            }
            status.cluster_id.ok_or_else(|| "no cluster id".to_owned())
        })
        .await
    }

    async fn lose_a_volume(&self) {
        let members = self.api::<EtcdMember>().list(&ListParams::default()).await.unwrap().items;
        let lost = members[0].name_any();
        let gone = DeleteParams::default();
        self.api::<PersistentVolumeClaim>().delete(&format!("data-{lost}"), &gone).await.unwrap();
        self.api::<Pod>().delete(&lost, &gone).await.unwrap();
        wait_for("the member without a volume to be given up", WITHIN, async || {
            match self.api::<EtcdMember>().get_opt(&lost).await.map_err(|e| e.to_string())? {
                None => Ok(()),
                Some(member) => Err(format!("{:?}\n{}", member.status, self.scene.last_words().await)),
            }
        })
        .await;
    }

    async fn scale(&self, replicas: usize) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.api::<EtcdCluster>().patch("etcd", &PatchParams::default(), &patch).await.unwrap();
        if replicas > 0 {
            self.settled(replicas).await;
            return;
        }
        wait_for("the pause", WITHIN, async || {
            let pods = self.scene.plane.members(&self.namespace, "etcd").await.len();
            let claims = self.api::<PersistentVolumeClaim>().list(&ListParams::default()).await;
            let claims = claims.map_err(|e| e.to_string())?.items.len();
            if (pods, claims) == (0, 1) { Ok(()) } else { Err(format!("{pods} Pods, {claims} claims")) }
        })
        .await;
    }

    async fn snapshot(&self) {
        let destination = json!({"s3": {"endpoint": s3().await.endpoint_at(S3_HOST), "bucket": self.namespace,
            "key": "here", "forcePathStyle": true, "credentialsSecretRef": {"name": S3_SECRET},
            "caSecretRef": {"name": S3_AUTHORITY}}});
        let snapshot = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdSnapshot",
            "metadata": {"name": "one"}, "spec": {"clusterRef": {"name": "etcd"}, "destination": destination}});
        self.scene.apply(&self.namespace, &snapshot.to_string()).await;
        wait_for("the snapshot to be stored", WITHIN, async || {
            let snapshot = self.api::<EtcdSnapshot>().get("one").await.map_err(|e| e.to_string())?;
            let jobs = self.api::<Job>().list(&ListParams::default()).await.map_err(|e| e.to_string())?.items;
            assert!(jobs.len() <= 1, "{} Jobs for one snapshot", jobs.len());
            let expires =
                jobs.iter().any(|job| job.spec.as_ref().is_some_and(|s| s.ttl_seconds_after_finished.is_some()));
            if snapshot.phase() == Some("Complete") && expires { Ok(()) } else { Err(format!("{:?}", snapshot.status)) }
        })
        .await;
    }

    /// The cluster is deleted, and everything of it goes along.
    async fn go(&self) {
        self.api::<EtcdCluster>().delete("etcd", &DeleteParams::background()).await.unwrap();
        wait_for("everything to be gone", WITHIN, async || {
            let all = ListParams::default();
            let members = self.api::<EtcdMember>().list(&all).await.map_err(|e| e.to_string())?.items.len();
            let claims = self.api::<PersistentVolumeClaim>().list(&all).await.map_err(|e| e.to_string())?.items.len();
            let pods = self.scene.plane.members(&self.namespace, "etcd").await.len();
            if members + claims + pods == 0 {
                Ok(())
            } else {
                Err(format!("{members} members, {claims} claims, {pods} Pods\n{}", self.scene.last_words().await))
            }
        })
        .await;
    }

    /// What was written: method, kind, and subresource.
    fn sorts(&self) -> BTreeSet<String> {
        let below = format!("/namespaces/{}/", self.namespace);
        let sort = |(method, path): (String, String)| {
            let path = path.split('?').next()?;
            let mut parts = path.split_once(&below)?.1.split('/');
            let (kind, sub) = (parts.next()?, parts.nth(1));
            let sub = sub.map(|sub| format!("/{sub}")).unwrap_or_default();
            (method != "GET").then(|| format!("{method} {kind}{sub}"))
        };
        self.scene.proxy.seen().into_iter().filter_map(sort).collect()
    }
}
