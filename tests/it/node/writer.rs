//! Somebody who writes all the time, while members and controllers come and go: what etcd has acknowledged stays.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::scene::Scene;
use crate::bed::etcd::Version;
use crate::bed::installation::{CALM, NAMESPACE};

/// A writer at work.
struct Writer {
    stop: CancellationToken,
    work: JoinHandle<Written>,
}

/// What a writer knows.
struct Written {
    acknowledged: BTreeSet<String>,
    /// The longest time without a write that succeeded.
    pause: Duration,
}

impl Writer {
    fn start(scene: &Arc<Scene>) -> Self {
        let stop = CancellationToken::new();
        let work = tokio::spawn(write(Arc::clone(scene), stop.clone()));
        Self { stop, work }
    }

    async fn end(self) -> Written {
        self.stop.cancel();
        self.work.await.expect("the writer")
    }
}

/// One key after the other. A write that fails may have been done: it is not counted, and never tried again.
async fn write(scene: Arc<Scene>, stop: CancellationToken) -> Written {
    let mut written = Written { acknowledged: BTreeSet::new(), pause: Duration::ZERO };
    let mut last = Instant::now();
    let mut endpoints = Vec::new();
    let mut number = 0;
    while !stop.is_cancelled() {
        number += 1;
        if endpoints.is_empty() {
            endpoints = scene.endpoints().await.unwrap_or_default();
        }
        let key = format!("writer/{number:06}");
        let put = scene.etcdctl_at(&endpoints, &["put", &key, "x", "--command-timeout=2s", "--dial-timeout=1s"]).await;
        if put.is_ok() {
            written.acknowledged.insert(key);
            written.pause = written.pause.max(last.elapsed());
            last = Instant::now();
        }
        // Members come and go: who is there is looked up anew now and then, and after each failure.
        if put.is_err() || number % 20 == 0 {
            endpoints.clear();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    written
}

/// Kills both replicas of our server as a machine that fails would, and waits until they are back.
async fn kill_controllers(scene: &Scene) {
    let _not_calm = CALM.write().await;
    scene.node.exec(&["sh", "-c", "kill -9 $(pgrep -f '^/etcd-warden serve')"]).unwrap();
    let pods: Api<Pod> = Api::namespaced(scene.node.client().await, NAMESPACE);
    crate::bed::wait_for("our server to be back", super::scene::READY_WITHIN, async || {
        let found = pods.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        let back = |pod: &&Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let restarted = status.container_statuses.iter().flatten().any(|c| c.restart_count > 0);
            restarted && status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
        };
        let count = found.iter().filter(back).count();
        if count == 2 { Ok(()) } else { Err(format!("{count} are")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_while_members_and_controllers_die() {
    let scene = Arc::new(Scene::start(1, &json!({})).await);
    scene.reconciled(1).await;
    let writer = Writer::start(&scene);

    // The controllers die in the middle of a rollout.
    scene.scale(3).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    kill_controllers(&scene).await;
    scene.reconciled(3).await;

    // A member dies, and another one's Pod is evicted.
    let names: Vec<String> = scene.members().await.iter().map(ResourceExt::name_any).collect();
    scene.with_process_of(&names[0], "kill -9 $p");
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.reconciled(3).await;
    evict(&scene, &names[1]).await;
    scene.reconciled(3).await;

    // All but one leave, the leader among them perhaps.
    scene.scale(1).await;
    scene.reconciled(1).await;

    let written = writer.end().await;
    println!("{} writes, the longest pause {:.1?}", written.acknowledged.len(), written.pause);
    assert!(written.acknowledged.len() > 100, "{} writes only", written.acknowledged.len());
    let kept = scene.etcdctl(&["get", "writer/", "--prefix", "--keys-only"]).await.unwrap();
    let kept: BTreeSet<String> = kept.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect();
    let lost: Vec<&String> = written.acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "{} acknowledged writes are lost: {lost:?}", lost.len());
    assert!(written.pause < Duration::from_secs(30), "nobody could write for {:?}", written.pause);
}

/// By the API that drains use, which asks the disruption budget.
async fn evict(scene: &Scene, pod: &str) {
    let pods: Api<Pod> = Api::namespaced(scene.node.client().await, &scene.namespace);
    let before = pods.get(pod).await.unwrap().uid();
    pods.evict(pod, &EvictParams::default()).await.expect("a healthy cluster of three spares one");
    crate::bed::wait_for(format!("another Pod for {pod}"), super::scene::READY_WITHIN, async || {
        let now = pods.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        let found = now.items.iter().find(|other| other.name_any() == pod);
        if found.is_some_and(|found| found.uid() != before) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_3_5_and_3_7_form_grow_and_outlive_a_killed_member() {
    tokio::join!(of_version(Version::V3_5), of_version(Version::V3_7));
}

async fn of_version(version: Version) {
    let scene = Scene::start(1, &json!({"version": version.number()})).await;
    scene.reconciled(1).await;
    scene.etcdctl(&["put", "key", "kept"]).await.unwrap();
    scene.scale(3).await;
    scene.reconciled(3).await;
    let seed = scene.members().await.remove(0).name_any();
    scene.with_process_of(&seed, "kill -9 $p");
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.reconciled(3).await;
    assert!(scene.etcdctl(&["get", "key"]).await.unwrap().contains("kept"), "{version:?}");
    for member in scene.members().await {
        let runs = member.status.as_ref().and_then(|status| status.version.as_deref());
        assert_eq!(runs, Some(version.number()), "{}", member.name_any());
    }
}
