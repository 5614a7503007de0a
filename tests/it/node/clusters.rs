//! Clusters on a node: they come up without flickering, keep their data through what happens to members, and never
//! start anew with less than they had.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use etcd_warden::api::condition;
use etcd_warden::api::etcdcluster::{EtcdCluster, EtcdClusterStatus};
use etcd_warden::api::etcdmember::EtcdMember;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::process::Command;

use crate::bed::etcd::Version;
use crate::bed::installation::{installed, restrict};
use crate::bed::{Node, wait_for};

const READY_WITHIN: Duration = Duration::from_mins(3);

/// One cluster in a namespace of its own, which only lets restricted Pods in.
struct Scene {
    node: &'static Node,
    namespace: String,
    clusters: Api<EtcdCluster>,
}

impl Scene {
    async fn start(replicas: i32, more: &serde_json::Value) -> Self {
        let node = installed().await;
        let namespace = node.namespace("clusters").await;
        restrict(node, &namespace);
        let mut spec = json!({"replicas": replicas, "version": Version::V3_6.number(), "storage": {"size": "256Mi"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "c"}, "spec": spec});
        node.apply(&namespace, &cluster.to_string()).await;
        let clusters = Api::namespaced(node.client().await, &namespace);
        Self { node, namespace, clusters }
    }

    async fn status(&self) -> EtcdClusterStatus {
        self.clusters.get("c").await.unwrap().status.unwrap_or_default()
    }

    async fn reconciled(&self, replicas: i32) {
        wait_for(format!("{replicas} Ready members"), READY_WITHIN, async || {
            let status = self.status().await;
            let told = told(&status);
            let done = status.ready_members == Some(replicas)
                && told.get("Progressing").is_some_and(|(_, reason)| reason == "Reconciled");
            if done { Ok(()) } else { Err(format!("{:?} Ready, {told:?}", status.ready_members)) }
        })
        .await;
    }

    async fn scale(&self, replicas: i32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.clusters.patch("c", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn members(&self) -> Vec<EtcdMember> {
        let api: Api<EtcdMember> = Api::namespaced(self.node.client().await, &self.namespace);
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// etcdctl on this host, against the Pod of any member that is Ready.
    async fn etcdctl(&self, arguments: &[&str]) -> Result<String, String> {
        let pods: Api<Pod> = Api::namespaced(self.node.client().await, &self.namespace);
        let voters = ListParams::default().labels("etcd-operator.cozystack.io/role=voter");
        let listed = pods.list(&voters).await.map_err(|error| error.to_string())?;
        let address = |pod: &Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
            status.pod_ip.filter(|_| ready)
        };
        let endpoints: Vec<String> = listed.iter().filter_map(address).map(|ip| format!("http://{ip}:2379")).collect();
        let mut command = Command::new(Version::V3_6.etcdctl());
        let output = command.arg("--endpoints").arg(endpoints.join(",")).args(arguments).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(text) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// A shell line in the node's namespaces, with `$p` as the process of a member's etcd.
    fn with_process_of(&self, member: &str, line: &str) {
        let script = format!("p=$(pgrep -f -- '--name={member} ' | head -n 1); [ -n \"$p\" ] && {line}");
        self.node.exec(&["sh", "-c", &script]).unwrap();
    }

    /// The Pods as they are, and what their etcds logged, for a failed test's message.
    async fn describe_pods(&self) -> String {
        let pods: Api<Pod> = Api::namespaced(self.node.client().await, &self.namespace);
        let mut told = Vec::new();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let name = pod.name_any();
            let log = async |previous| {
                let params = LogParams { container: Some("etcd".to_owned()), previous, ..LogParams::default() };
                pods.logs(&name, &params).await.unwrap_or_else(|error| error.to_string())
            };
            let (before, now) = (log(true).await, log(false).await);
            told.push(format!(
                "{}\nlog before: {before}\nlog now: {now}\n",
                serde_json::to_string_pretty(&pod).unwrap()
            ));
        }
        told.concat()
    }

    async fn delete_pod(&self, member: &str) {
        let pods: Api<Pod> = Api::namespaced(self.node.client().await, &self.namespace);
        pods.delete(member, &DeleteParams::default()).await.unwrap();
    }
}

fn told(status: &EtcdClusterStatus) -> BTreeMap<String, (String, String)> {
    let conditions = status.conditions.iter().flatten();
    conditions.map(|c| (c.type_.clone(), (c.status.clone(), c.reason.clone()))).collect()
}

#[tokio::test]
async fn three_members_come_up_and_available_never_flickers() {
    let scene = Scene::start(3, &json!({})).await;
    let started = Instant::now();
    let mut since = None;
    while started.elapsed() < READY_WITHIN {
        let status = scene.status().await;
        let available = condition::is_true(status.conditions.as_deref().unwrap_or_default(), "Available");
        assert!(available || since.is_none(), "Available went away: {:?}", told(&status));
        since = since.or_else(|| available.then(|| started.elapsed()));
        if status.ready_members == Some(3) {
            println!("Available after {:.1?}, all Ready after {:.1?}", since.unwrap(), started.elapsed());
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not Ready in time: {:?}", told(&scene.status().await));
}

#[tokio::test]
async fn data_survives_1_3_1_0_1_and_the_loss_of_one_volume_of_three() {
    let scene = Scene::start(1, &json!({})).await;
    scene.reconciled(1).await;
    scene.etcdctl(&["put", "key", "kept"]).await.unwrap();
    scene.scale(3).await;
    scene.reconciled(3).await;

    let lost = scene.members().await.remove(0).name_any();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(scene.node.client().await, &scene.namespace);
    claims.delete(&format!("data-{lost}"), &DeleteParams::default()).await.unwrap();
    scene.delete_pod(&lost).await;
    wait_for("the member's replacement", READY_WITHIN, async || {
        let names: Vec<String> = scene.members().await.iter().map(ResourceExt::name_any).collect();
        if names.len() == 3 && !names.contains(&lost) { Ok(()) } else { Err(format!("{names:?}, lost {lost}")) }
    })
    .await;
    scene.reconciled(3).await;
    assert!(scene.etcdctl(&["get", "key"]).await.unwrap().contains("kept"));

    scene.scale(1).await;
    scene.reconciled(1).await;
    scene.scale(0).await;
    wait_for("the pause", READY_WITHIN, async || {
        let told = told(&scene.status().await);
        if told.get("Available").is_some_and(|(_, reason)| reason == "Paused") {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
    scene.scale(1).await;
    scene.reconciled(1).await;
    assert!(scene.etcdctl(&["get", "key"]).await.unwrap().contains("kept"));
}

#[tokio::test]
async fn a_wiped_seed_never_becomes_a_fresh_cluster() {
    let scene = Scene::start(1, &json!({})).await;
    scene.reconciled(1).await;
    scene.etcdctl(&["put", "key", "precious"]).await.unwrap();
    let seed = scene.members().await.remove(0).name_any();

    // The data goes, and the container starts again in the very Pod that formed the cluster.
    scene.with_process_of(&seed, "rm -rf /proc/$p/root/var/lib/etcd/member && kill -9 $p");
    refused_for(&scene, Duration::from_secs(15)).await;
    // And in a new Pod.
    scene.delete_pod(&seed).await;
    refused_for(&scene, Duration::from_secs(15)).await;
    let told = told(&scene.status().await);
    assert_eq!(told.get("Available"), Some(&("False".to_owned(), "QuorumLost".to_owned())));
}

/// Nobody may get an answer from an empty etcd.
async fn refused_for(scene: &Scene, time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        if let Ok(answer) = scene.etcdctl(&["get", "key", "--command-timeout=1s"]).await {
            assert!(answer.contains("precious"), "an empty etcd answered {answer:?}; {}", scene.describe_pods().await);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn a_restore_of_what_is_not_there_is_named_and_given_up() {
    let source = json!({"bootstrap": {"restore": {"source": {"s3": {
        "endpoint": "http://192.0.2.1:9", "bucket": "none", "key": "k.db", "credentialsSecretRef": {"name": "absent"}}}}}});
    let scene = Scene::start(1, &source).await;
    wait_for("the missing Secret to be named", READY_WITHIN, async || {
        let members = scene.members().await;
        let status = members.first().and_then(|member| member.status.clone()).unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        match condition::find(&conditions, "Ready") {
            Some(ready) if ready.reason == "SecretMissing" && ready.message.contains("absent") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
