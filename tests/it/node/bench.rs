//! Times on the node, beside those of the operator whose API we speak, measured on such a node. Not part of CI:
//! `make bench-node`.
#![allow(clippy::print_stdout, reason = "a measurement says what it measured")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use etcd_warden::api::backupjob::BackupJob;
use etcd_warden::api::condition;
use etcd_warden::api::etcdcluster::{EtcdCluster, condition_type};
use etcd_warden::api::etcdsnapshot::EtcdSnapshot;
use etcd_warden::api::restorejob::RestoreJob;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::scene::{READY_WITHIN, Scene};
use crate::bed::etcd::Version;
use crate::bed::installation::{NAMESPACE, installed};
use crate::bed::node::HOST_NAME;
use crate::bed::s3::OWNER;
use crate::bed::wait_for;

const ROUNDS: usize = 3;

fn row(work: &str, theirs: &str, goal: &str, ours: &[Duration]) {
    let mut sorted = ours.to_vec();
    sorted.sort();
    let all: Vec<String> = sorted.iter().map(|took| format!("{:.1}", took.as_secs_f64())).collect();
    println!("| {work} | {theirs} | {goal} | {} s |", all.join(", "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: make bench-node"]
async fn times() {
    installed().await;
    println!("| Work | upstream's operator | goal | ours, each run |\n|---|---|---|---|");
    let mut one = Vec::new();
    let mut three = Vec::new();
    for _ in 0..ROUNDS {
        one.push(up(1).await.0);
        three.push(up(3).await.0);
    }
    row("one member, create to all Ready", "10.9 to 12.9 s", "under 5 s", &one);
    row("three members, create to all Ready", "31.2 to 34.1 s", "under 14 s", &three);
    let broken = with_a_broken_restore().await;
    row("three members beside a broken restore", "50.7 s", "as without", &broken);
    for (mib, theirs, goal) in [(5, "3.2 to 4.0 s", "under 2.5 s"), (100, "6.9 to 7.9 s", "under 5 s")] {
        row(&format!("EtcdSnapshot of {mib} MB"), theirs, goal, &snapshots(mib).await);
    }
    for (mib, backup, available, ready, whole) in [
        (5, "up to 10 s", "16 to 18 s", "44 to 46 s", "20 s, without these"),
        (100, "up to 10 s", "16 to 18.5 s", "43 to 46 s", "20 s, without these"),
    ] {
        let times = restores(mib).await;
        let of = |what: &str| format!("{what}, three members, {mib} MB");
        row(&of("BackupJob after its EtcdSnapshot"), backup, "under 1 s", &times.backup_after_snapshot);
        row(&of("RestoreJob, delete to Available"), available, "under 6 s", &times.to_available);
        row(&of("RestoreJob, delete to all Ready"), ready, "under 20 s", &times.to_ready);
        row(&of("RestoreJob with rehearsal, safety snapshot and proof"), whole, "under 45 s", &times.whole);
    }
    let (mut stopped, mut killed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        stopped.push(take_over(false).await);
        killed.push(take_over(true).await);
    }
    row("another leader after SIGTERM", "12 to 18 s", "under 3 s", &stopped);
    row("another leader after SIGKILL", "12 to 18 s", "under 10 s", &killed);
}

/// A new cluster: the time until all its members are Ready.
async fn up(replicas: i32) -> (Duration, Scene) {
    let scene = Scene::empty().await;
    let begin = Instant::now();
    scene.create(replicas, &json!({})).await;
    wait_for(format!("{replicas} Ready members"), READY_WITHIN, async || {
        let ready = scene.status().await.ready_members;
        if ready == Some(replicas) { Ok(()) } else { Err(format!("{ready:?}")) }
    })
    .await;
    let took = begin.elapsed();
    scene.reconciled(replicas).await;
    scene.clusters.delete("c", &DeleteParams::background()).await.expect("delete the cluster");
    (took, scene)
}

async fn with_a_broken_restore() -> Vec<Duration> {
    let nowhere = json!({"bootstrap": {"restore": {"source": {"s3": {"endpoint": "http://192.0.2.1:9", "bucket": "none",
        "key": "k.db", "credentialsSecretRef": {"name": "s3"}}}}}});
    let broken = Scene::empty().await;
    broken.apply(&keys()).await;
    broken.create(1, &nowhere).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        took.push(up(3).await.0);
    }
    broken.clusters.delete("c", &DeleteParams::background()).await.expect("delete the cluster");
    took
}

fn keys() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"},
        "stringData": {"AWS_ACCESS_KEY_ID": OWNER.access, "AWS_SECRET_ACCESS_KEY": OWNER.secret}})
}

/// A cluster with so many MB in it, and a bucket and its Secrets beside it; and the destination in the bucket.
async fn filled(replicas: i32, mib: usize) -> (Scene, serde_json::Value) {
    let scene = Scene::start(replicas, &json!({"storage": {"size": "1Gi"}})).await;
    scene.reconciled(replicas).await;
    let endpoints = scene.endpoints().await.expect("endpoints").join(",");
    // No two pages alike, so that nothing on the way can make them small.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()
    };
    for number in 0..mib {
        let value: Vec<u8> = std::iter::repeat_with(&mut noise).take(125_000).flatten().collect();
        let mut command = Command::new(Version::V3_6.etcdctl());
        command.args(["--endpoints", &endpoints, "put", &format!("k{number}")]);
        let mut put = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("run etcdctl");
        put.stdin.take().expect("its input").write_all(&value).await.expect("write to etcdctl");
        assert!(put.wait().await.expect("etcdctl").success());
    }
    let s3 = scene.node.s3().await;
    s3.bucket(&scene.namespace).await;
    scene.apply(&keys()).await;
    let authority = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-ca"},
        "stringData": {"ca.crt": s3.authority_pem()}});
    scene.apply(&authority).await;
    let destination = json!({"s3": {"endpoint": s3.endpoint_at(HOST_NAME), "bucket": scene.namespace, "key": "b/",
        "forcePathStyle": true, "credentialsSecretRef": {"name": "s3"}, "caSecretRef": {"name": "s3-ca"}}});
    (scene, destination)
}

async fn snapshots(mib: usize) -> Vec<Duration> {
    let (scene, destination) = filled(1, mib).await;
    let api: Api<EtcdSnapshot> = Api::namespaced(scene.node.client().await, &scene.namespace);
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("s{round}");
        let begin = Instant::now();
        scene
            .apply(&json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdSnapshot",
                "metadata": {"name": name}, "spec": {"clusterRef": {"name": "c"}, "destination": destination}}))
            .await;
        wait_for("the snapshot to be stored", READY_WITHIN, async || {
            let snapshot = api.get(&name).await.map_err(|e| e.to_string())?;
            if snapshot.phase() == Some("Complete") { Ok(()) } else { Err(format!("{:?}", snapshot.status)) }
        })
        .await;
        took.push(begin.elapsed());
    }
    scene.clusters.delete("c", &DeleteParams::background()).await.expect("delete the cluster");
    took
}

/// Times of restores in place of one size.
#[derive(Default)]
struct Restores {
    /// From the EtcdSnapshot's end to the BackupJob's.
    backup_after_snapshot: Vec<Duration>,
    /// From the old cluster's end to the new one's Available.
    to_available: Vec<Duration>,
    /// From the old cluster's end to all members Ready.
    to_ready: Vec<Duration>,
    /// From the RestoreJob's creation to its success.
    whole: Vec<Duration>,
}

async fn restores(mib: usize) -> Restores {
    let (scene, destination) = filled(3, mib).await;
    let name = &scene.namespace;
    let group = "strategy.backups.cozystack.io";
    for object in [
        json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Etcd", "metadata": {"name": name},
            "spec": {"template": {"destination": destination}}}),
        json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupClass", "metadata": {"name": name},
            "spec": {"strategies": [{"application": {"kind": "Etcd"},
                "strategyRef": {"apiGroup": group, "kind": "Etcd", "name": name}}]}}),
    ] {
        scene.apply(&object).await;
    }
    let mut times = Restores::default();
    for round in 0..ROUNDS {
        times.backup_after_snapshot.push(back_up(&scene, &format!("b{round}")).await);
        restore(&scene, &format!("b{round}"), &mut times).await;
    }
    scene.clusters.delete("c", &DeleteParams::background()).await.expect("delete the cluster");
    times
}

async fn back_up(scene: &Scene, name: &str) -> Duration {
    let client = scene.node.client().await;
    let (jobs, snapshots): (Api<BackupJob>, Api<EtcdSnapshot>) =
        (Api::namespaced(client.clone(), &scene.namespace), Api::namespaced(client, &scene.namespace));
    scene
        .apply(&json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupJob", "metadata": {"name": name},
            "spec": {"applicationRef": {"kind": "Etcd", "name": "c"}, "backupClassName": scene.namespace}}))
        .await;
    let before = Instant::now();
    let stored = wait_for("the snapshot to be stored", READY_WITHIN, async || {
        let all = snapshots.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items;
        let (done, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.phase() == Some("Complete"));
        let ours = done.iter().any(|one| one.name_any().contains(name));
        if ours { Ok(before.elapsed()) } else { Err(format!("{rest:?}")) }
    })
    .await;
    wait_for("the BackupJob to succeed", READY_WITHIN, async || {
        let status = jobs.get(name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    before.elapsed().saturating_sub(stored)
}

async fn restore(scene: &Scene, backup: &str, times: &mut Restores) {
    let jobs: Api<RestoreJob> = Api::namespaced(scene.node.client().await, &scene.namespace);
    let old = scene.clusters.get("c").await.expect("the cluster").uid();
    let begin = Instant::now();
    let name = format!("of-{backup}");
    scene
        .apply(&json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob", "metadata": {"name": name},
            "spec": {"backupRef": {"name": backup}}}))
        .await;
    let new = async |what: &str, seen: fn(&EtcdCluster) -> bool| {
        wait_for(what.to_owned(), READY_WITHIN, async || match scene.clusters.get_opt("c").await {
            Ok(Some(cluster)) if cluster.uid() != old && seen(&cluster) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    };
    // Of the deletion and not of the last trace: a cluster that is going serves nobody.
    wait_for("the old cluster to go", READY_WITHIN, async || match scene.clusters.get_opt("c").await {
        Ok(Some(cluster)) if cluster.uid() == old && cluster.metadata.deletion_timestamp.is_none() => {
            let status = jobs.get(&name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            assert_ne!(status.phase.as_deref(), Some("Failed"), "{status:?}");
            Err(format!("{status:?}"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    })
    .await;
    let gone = Instant::now();
    new("the new cluster to be Available", |cluster| {
        let conditions = cluster.status.as_ref().and_then(|status| status.conditions.as_deref());
        condition::is_true(conditions.unwrap_or_default(), condition_type::AVAILABLE)
    })
    .await;
    times.to_available.push(gone.elapsed());
    new("all members to be Ready", |cluster| {
        cluster.status.as_ref().is_some_and(|status| status.ready_members == cluster.spec.replicas)
    })
    .await;
    times.to_ready.push(gone.elapsed());
    wait_for("the RestoreJob to succeed", READY_WITHIN, async || {
        let status = jobs.get(&name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    times.whole.push(begin.elapsed());
}

/// From the end of the leader to the next one's hold of the lease.
async fn take_over(kill: bool) -> Duration {
    let node = installed().await;
    let client = node.client().await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let holder = async || {
        let lease = leases.get_opt("etcd-warden").await.map_err(|e| e.to_string())?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).filter(|holder| !holder.is_empty());
        holder.ok_or_else(|| "nobody leads".to_owned())
    };
    wait_for("two replicas", READY_WITHIN, async || {
        let found = pods.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        let ready = |pod: &&Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
            ready && pod.metadata.deletion_timestamp.is_none()
        };
        let count = found.iter().filter(ready).count();
        if count == 2 { Ok(()) } else { Err(format!("{count} are ready")) }
    })
    .await;
    let leader = wait_for("a leader", READY_WITHIN, async || holder().await).await;
    let begin = Instant::now();
    if kill {
        // The sandbox of its Pod goes too, so that it does not come back under the same name before its lease ran out.
        let grace = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let uid = pods.get(&leader).await.expect("the leader's Pod").uid().unwrap_or_default();
        let script = format!(
            "for p in $(pgrep -f '^/etcd-warden serve'); do \
               if tr -d '-' </proc/$p/cgroup | grep -q '{}'; then kill -9 $p; fi; done",
            uid.replace('-', "")
        );
        node.exec(&["sh", "-c", &script]).expect("kill the leader");
        pods.delete(&leader, &grace).await.expect("delete the leader's Pod");
    } else {
        pods.delete(&leader, &DeleteParams::default()).await.expect("delete the leader's Pod");
    }
    wait_for("another leader", READY_WITHIN, async || {
        let now = holder().await?;
        if now == leader { Err(now) } else { Ok(()) }
    })
    .await;
    begin.elapsed()
}
