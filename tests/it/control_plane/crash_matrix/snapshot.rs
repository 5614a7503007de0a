//! A snapshot is taken: from an EtcdSnapshot to one object in a real S3 server, and nothing else there.

use super::scene::{Scene, VERSION};
use super::story::{NoEnd, Story};
use crate::bed::stand_in::plane::{S3_AUTHORITY, S3_HOST, S3_SECRET, s3};
use crate::bed::wait_for;
use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::etcdsnapshot::EtcdSnapshot;
use futures::TryStreamExt;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use std::time::Duration;

/// The story.
pub struct Take;

impl Story for Take {
    const NAME: &'static str = "a snapshot is taken";
    const CONTROLLERS: &'static str = "etcdcluster,etcdmember,etcdsnapshot";

    async fn prepare(&self, scene: &Scene) -> String {
        let namespace = scene.plane.namespace_with_store("take").await;
        s3().await.bucket(&namespace).await;
        let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "etcd"},
            "spec": {"version": VERSION.number(), "replicas": 1, "storage": {"size": "1Gi"}}});
        scene.apply(&namespace, &cluster.to_string()).await;
        let clusters: Api<EtcdCluster> = Api::namespaced(scene.plane.client().await, &namespace);
        wait_for("the cluster to be up", Duration::from_mins(2), async || {
            let status = clusters.get("etcd").await.map_err(|e| e.to_string())?.status.unwrap_or_default();
            let conditions = status.conditions.iter().flatten();
            let done = conditions.clone().any(|c| c.type_ == "Progressing" && c.reason == "Reconciled");
            if done { Ok(()) } else { Err(format!("{:?}", conditions.collect::<Vec<_>>())) }
        })
        .await;
        namespace
    }

    async fn begin(&self, scene: &Scene, namespace: &str) {
        let destination = json!({"s3": {"endpoint": s3().await.endpoint_at(S3_HOST), "bucket": namespace, "key": "here",
            "forcePathStyle": true, "credentialsSecretRef": {"name": S3_SECRET}, "caSecretRef": {"name": S3_AUTHORITY}}});
        let snapshot = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdSnapshot",
            "metadata": {"name": "one"}, "spec": {"clusterRef": {"name": "etcd"}, "destination": destination}});
        scene.apply(namespace, &snapshot.to_string()).await;
    }

    async fn look(&self, scene: &Scene, namespace: &str) -> Result<&'static str, NoEnd> {
        let client = scene.plane.client().await;
        let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
        let jobs = jobs.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items;
        if jobs.len() > 1 {
            return Err(NoEnd::Never(format!("{} Jobs for one snapshot", jobs.len())));
        }
        let stored: Vec<_> = s3()
            .await
            .store(namespace)
            .list(None)
            .try_collect()
            .await
            .map_err(|e: object_store::Error| e.to_string())?;
        let [object] = stored.as_slice() else {
            return if stored.len() > 1 {
                Err(NoEnd::Never(format!("one snapshot, and {stored:?}")))
            } else {
                Err("nothing is stored yet".into())
            };
        };
        // etcd's own mark of a whole snapshot: its digest behind the pages.
        if object.size % 512 != 32 {
            return Err(NoEnd::Never(format!("what is stored is no whole snapshot: {} bytes", object.size)));
        }
        let snapshots: Api<EtcdSnapshot> = Api::namespaced(client, namespace);
        let snapshot = snapshots.get("one").await.map_err(|e| e.to_string())?;
        match snapshot.phase() {
            Some("Complete") => {}
            Some("Failed") => return Err(NoEnd::Never(format!("stored, and {:?}", snapshot.status))),
            other => return Err(format!("stored, and the phase is {other:?}").into()),
        }
        let recorded = snapshot.status.and_then(|status| status.artifact).and_then(|artifact| artifact.size_bytes);
        if recorded.and_then(|size| u64::try_from(size).ok()) != Some(object.size) {
            return Err(NoEnd::Never(format!("{} bytes are stored, {recorded:?} recorded", object.size)));
        }
        let expires = jobs.iter().all(|job| job.spec.as_ref().is_some_and(|s| s.ttl_seconds_after_finished.is_some()));
        if expires { Ok("stored") } else { Err("the Job is kept for ever".into()) }
    }
}
