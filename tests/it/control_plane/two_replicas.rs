//! Two replicas of our server, and one lease: whoever is cut off has stopped writing before the other begins, and does
//! not begin again when it is back.

use crate::bed::api_server::Identity;
use crate::bed::etcd::Version;
use crate::bed::fault_proxy::{HttpFault, HttpProxy, On};
use crate::bed::stand_in::Plane;
use crate::bed::stand_in::plane::Serve;
use crate::bed::wait_for;
use etcd_warden::api::etcdcluster::EtcdCluster;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_mins(2);

struct Replica {
    name: &'static str,
    proxy: HttpProxy,
    serve: Serve,
}

impl Replica {
    async fn start(plane: &Plane, name: &'static str) -> Self {
        let (proxy, kubeconfig) = plane.api.behind_proxy(&Identity::Admin).await;
        let flags = ["--controllers=etcdcluster,etcdmember".to_owned(), format!("--identity={name}")];
        let serve = plane.serve_by(&kubeconfig, &flags.each_ref().map(String::as_str)).await;
        serve.wait_ready().await;
        Self { name, proxy, serve }
    }

    /// Writes that reached its proxy, other than of leases and Events.
    fn writes(&self, namespace: &str) -> usize {
        self.proxy.count(&On::write(&format!("/namespaces/{namespace}/")).without("/events"))
    }
}

struct Story {
    plane: Plane,
    namespace: String,
}

impl Story {
    async fn holder(&self) -> String {
        let leases: Api<Lease> = Api::namespaced(self.plane.client().await, &self.plane.system);
        let all = leases.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        all.into_iter().find_map(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    async fn held_by(&self, name: &str) {
        wait_for(format!("{name} to lead"), WITHIN, async || {
            let holder = self.holder().await;
            if holder == name { Ok(()) } else { Err(holder) }
        })
        .await;
    }

    async fn scale(&self, replicas: i32) {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.plane.client().await, &self.namespace);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        clusters.patch("etcd", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn reconciled(&self, replicas: i32) {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.plane.client().await, &self.namespace);
        wait_for(format!("{replicas} members"), WITHIN, async || {
            let status = clusters.get("etcd").await.map_err(|e| e.to_string())?.status.unwrap_or_default();
            let done = status.conditions.iter().flatten().any(|c| c.reason == "Reconciled");
            let ready = status.ready_members == Some(replicas) && done;
            if ready { Ok(()) } else { Err(format!("{:?}", status.conditions)) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_cut_off_has_stopped_before_the_other_writes() {
    let plane = Plane::start(&[Version::V3_6]).await;
    let namespace = plane.api.namespace("two").await;
    let first = Replica::start(&plane, "first").await;
    let story = Story { plane, namespace };
    story.held_by("first").await;
    let second = Replica::start(&story.plane, "second").await;
    let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": "etcd"},
        "spec": {"version": Version::V3_6.number(), "replicas": 1, "storage": {"size": "1Gi"}}});
    story.plane.api.apply(&story.namespace, &cluster.to_string()).await;
    story.reconciled(1).await;
    assert!(first.writes(&story.namespace) > 0);
    assert_eq!(second.writes(&story.namespace), 0, "the one that waits writes nothing");

    // In the middle of a change the leader is cut off: what it sends is never seen, and it gets no answer.
    story.scale(3).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let cut = Instant::now();
    first.proxy.inject(On::any(), HttpFault::Hang);
    story.held_by("second").await;
    println!("followed after {:.1?}", cut.elapsed());
    // It is back while the other writes. What it has sent until now has reached nobody.
    first.proxy.clear();
    let before = first.writes(&story.namespace);
    story.reconciled(3).await;
    story.scale(1).await;
    story.reconciled(1).await;
    assert_eq!(first.writes(&story.namespace), before, "{} wrote while {} led", first.name, second.name);
    assert_eq!(story.holder().await, "second");
    assert!(second.writes(&story.namespace) > 0);

    // And the other way round, by death.
    let told = second.writes(&story.namespace);
    story.scale(3).await;
    wait_for("a write of the leader", WITHIN, async || {
        if second.writes(&story.namespace) > told { Ok(()) } else { Err("none".to_owned()) }
    })
    .await;
    let killed = Instant::now();
    second.serve.process.kill().await;
    story.held_by("first").await;
    println!("followed after {:.1?}", killed.elapsed());
    assert!(killed.elapsed() < Duration::from_secs(12), "{:?}", killed.elapsed());
    story.reconciled(3).await;
    assert!(first.serve.process.running());
}
