//! What the controllers take with many clusters. Not part of CI: `make bench-controllers`.
#![allow(clippy::print_stdout, reason = "a measurement says what it measured")]

use crate::bed::api_server::Identity;
use crate::bed::control_plane::Options;
use crate::bed::fault_proxy::{HttpProxy, On};
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Warden, wait_for};
use etcd_warden::api::etcdcluster::EtcdCluster;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const WITHIN: Duration = Duration::from_mins(10);
/// Changes of a spec, one after the other.
const CHANGES: usize = 200;
/// Clusters that a namespace holds.
const EACH: usize = 100;

struct Bench {
    plane: ControlPlane,
    proxy: HttpProxy,
    warden: Warden,
    namespaces: Vec<String>,
}

impl Bench {
    async fn start() -> Self {
        let plane = ControlPlane::start(Options::default()).await;
        install_crds(&plane).await;
        let (proxy, kubeconfig) = plane.behind_proxy(&Identity::Admin).await;
        let namespace = plane.namespace("warden").await;
        let flags = ["--controllers=etcdcluster,etcdmember,etcdsnapshot", "--agent-image=etcd-warden:bench"];
        let warden = Warden::start_as(&plane, &kubeconfig, &namespace, &flags);
        warden.wait_ready().await;
        Self { plane, proxy, warden, namespaces: Vec::new() }
    }

    /// Peak and present memory of the server, in MiB.
    fn memory(&self) -> (u64, u64) {
        let (leash, daemon) = self.warden.daemon();
        let pid = leash.pid(daemon).expect("the server runs");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the server's status");
        let of = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line of the status");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
        };
        (of("VmHWM:"), of("VmRSS:"))
    }

    /// Makes clusters until there are so many, and waits until each has the Pod of its seed.
    async fn grow(&mut self, wanted: usize) -> Duration {
        let client = self.plane.client().await;
        let begin = Instant::now();
        while self.namespaces.len() * EACH < wanted {
            let namespace = self.plane.namespace("bench").await;
            let clusters: Api<EtcdCluster> = Api::namespaced(client.clone(), &namespace);
            let names: Vec<usize> = (0..EACH).collect();
            futures::stream::iter(names)
                .for_each_concurrent(10, |number| {
                    let clusters = clusters.clone();
                    async move {
                        let cluster: EtcdCluster =
                            serde_json::from_value(json!({"metadata": {"name": format!("c{number}")},
                            "spec": {"version": "3.6.16", "replicas": 3, "storage": {"size": "1Gi"}}}))
                            .expect("a cluster");
                        clusters.create(&PostParams::default(), &cluster).await.expect("make a cluster");
                    }
                })
                .await;
            self.namespaces.push(namespace);
        }
        let pods: Api<Pod> = Api::all(client);
        wait_for(format!("{wanted} seeds' Pods"), WITHIN, async || {
            let found = pods.list_metadata(&ListParams::default()).await.map_err(|e| e.to_string())?.items.len();
            tokio::time::sleep(Duration::from_secs(1)).await;
            if found >= wanted { Ok(()) } else { Err(format!("{found} Pods")) }
        })
        .await;
        begin.elapsed()
    }

    /// Requests of one minute in which nothing happens, and how many of them are the lease's.
    async fn steady(&self) -> (usize, usize) {
        let (all, leases) = (On::any(), On::request("*", "/leases"));
        // What the last change has set off comes to rest first.
        wait_for("ten seconds of rest", WITHIN, async || {
            let other = || self.proxy.count(&all) - self.proxy.count(&leases);
            let before = other();
            tokio::time::sleep(Duration::from_secs(10)).await;
            if other() < before + 3 { Ok(()) } else { Err(format!("{} requests", other() - before)) }
        })
        .await;
        let before = (self.proxy.count(&all), self.proxy.count(&leases));
        tokio::time::sleep(Duration::from_mins(1)).await;
        (self.proxy.count(&all) - before.0, self.proxy.count(&leases) - before.1)
    }

    /// From the answer to a change of a spec to the first write that takes it up, as a watch of ours sees it; sorted.
    async fn reactions(&self) -> Vec<Duration> {
        let client = self.plane.client().await;
        let (sender, mut seen) = mpsc::unbounded_channel();
        let all: Api<EtcdCluster> = Api::all(client.clone());
        let watch = tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(all, Config::default()).default_backoff().applied_objects());
            while let Some(event) = events.next().await {
                let Ok(cluster) = event else { continue };
                let target = cluster.status.as_ref().and_then(|status| status.observed.as_ref());
                let key = (cluster.namespace().unwrap_or_default(), cluster.name_any());
                if target.map(|target| target.replicas) == Some(5) && sender.send((key, Instant::now())).is_err() {
                    return;
                }
            }
        });
        let total = self.namespaces.len() * EACH;
        let mut begun = HashMap::new();
        for change in 0..CHANGES.min(total) {
            let place = change * total / CHANGES.min(total);
            let (namespace, name) = (&self.namespaces[place / EACH], format!("c{}", place % EACH));
            let clusters: Api<EtcdCluster> = Api::namespaced(client.clone(), namespace);
            let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
            clusters.patch(&name, &PatchParams::default(), &patch).await.expect("change a spec");
            begun.insert((namespace.clone(), name), Instant::now());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut took = Vec::new();
        while !begun.is_empty() {
            let (key, at) = tokio::time::timeout(WITHIN, seen.recv()).await.expect("in time").expect("the watch");
            took.extend(begun.remove(&key).map(|begin| at.saturating_duration_since(begin)));
        }
        watch.abort();
        took.sort();
        took
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: make bench-controllers"]
async fn many_clusters() {
    println!(
        "| clusters | all seeds' Pods made | RSS | peak RSS | requests a steady minute (of these the lease's) | spec to first write p50 | p99 |"
    );
    println!("|---|---|---|---|---|---|---|");
    for wanted in [100, 1000] {
        let mut bench = Bench::start().await;
        let made = bench.grow(wanted).await;
        let (requests, leases) = bench.steady().await;
        let reactions = bench.reactions().await;
        let (peak, now) = bench.memory();
        let at = |share: usize| reactions[(reactions.len() * share / 100).min(reactions.len() - 1)];
        println!(
            "| {wanted} | {:.1} s | {now} MiB | {peak} MiB | {requests} ({leases}) | {:.0} ms | {:.0} ms |",
            made.as_secs_f64(),
            at(50).as_secs_f64() * 1e3,
            at(99).as_secs_f64() * 1e3,
        );
    }
}
