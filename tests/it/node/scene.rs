//! One cluster on the shared node, in a namespace of its own, which only lets restricted Pods in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use etcd_warden::api::etcdcluster::{EtcdCluster, EtcdClusterStatus};
use etcd_warden::api::etcdmember::EtcdMember;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::bed::etcd::Version;
use crate::bed::installation::{installed, restrict};
use crate::bed::{Node, wait_for};

/// How long a change may take, beside everything else that the node does.
pub const READY_WITHIN: Duration = Duration::from_mins(3);

/// The cluster `c`.
pub struct Scene {
    pub node: &'static Node,
    pub namespace: String,
    pub clusters: Api<EtcdCluster>,
    /// What etcdctl needs beside the endpoints, and the scheme of these.
    pub access: Access,
}

/// How etcdctl speaks to the cluster.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The authority of its servers.
    pub authority: Option<PathBuf>,
    /// User and password.
    pub user: Option<String>,
}

impl Scene {
    /// Makes the namespace, and the cluster in it.
    pub async fn start(replicas: i32, more: &Value) -> Self {
        let scene = Self::empty().await;
        scene.create(replicas, more).await;
        scene
    }

    /// Makes the namespace.
    pub async fn empty() -> Self {
        let node = installed().await;
        let namespace = node.namespace("clusters").await;
        restrict(node, &namespace);
        let clusters = Api::namespaced(node.client().await, &namespace);
        Self { node, namespace, clusters, access: Access::default() }
    }

    /// The same place once more.
    pub fn of(other: &Self) -> Self {
        Self {
            node: other.node,
            namespace: other.namespace.clone(),
            clusters: other.clusters.clone(),
            access: other.access.clone(),
        }
    }

    /// Makes the cluster.
    pub async fn create(&self, replicas: i32, more: &Value) {
        // The clusters of all tests stand side by side: with what is asked for by default they would fill the node.
        let mut spec = json!({"replicas": replicas, "version": Version::V3_6.number(), "storage": {"size": "256Mi"},
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "c"}, "spec": spec});
        self.apply(&cluster).await;
    }

    /// Applies an object; our server, whom the API server asks about it, may have been killed a moment ago.
    pub async fn apply(&self, object: &Value) {
        let (client, yaml) = (self.node.client().await, object.to_string());
        wait_for("an object to be applied", READY_WITHIN, async || {
            self.node.try_apply(&client, &self.namespace, &yaml).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    pub async fn status(&self) -> EtcdClusterStatus {
        self.clusters.get("c").await.unwrap().status.unwrap_or_default()
    }

    /// Waits until so many members are all there is, each Ready and voting.
    pub async fn reconciled(&self, replicas: i32) {
        wait_for(format!("{replicas} Ready members"), READY_WITHIN, async || {
            let status = self.status().await;
            let told = told(&status);
            let done = status.ready_members == Some(replicas)
                && told.get("Progressing").is_some_and(|(_, reason)| reason == "Reconciled");
            if done { Ok(()) } else { Err(format!("{:?} Ready, {told:?}", status.ready_members)) }
        })
        .await;
    }

    /// Waits until a condition is as wanted and its message contains this.
    pub async fn says(&self, condition: &str, reason: &str, text: &str) {
        wait_for(format!("{condition} for {reason} with {text:?}"), READY_WITHIN, async || {
            let conditions = self.status().await.conditions.unwrap_or_default();
            let said = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
                format!("{}={}", c.type_, c.status) == condition && c.reason == reason && c.message.contains(text)
            };
            if conditions.iter().any(said) { Ok(()) } else { Err(format!("{conditions:#?}")) }
        })
        .await;
    }

    pub async fn patch(&self, spec: &Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        wait_for("the spec to be changed", READY_WITHIN, async || {
            let patched = self.clusters.patch("c", &PatchParams::default(), &patch).await;
            patched.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    pub async fn scale(&self, replicas: i32) {
        self.patch(&json!({ "replicas": replicas })).await;
    }

    pub async fn members(&self) -> Vec<EtcdMember> {
        let api: Api<EtcdMember> = Api::namespaced(self.node.client().await, &self.namespace);
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// The client URLs of the voters' Pods that are Ready.
    pub async fn endpoints(&self) -> Result<Vec<String>, String> {
        let pods: Api<Pod> = Api::namespaced(self.node.client().await, &self.namespace);
        let voters = ListParams::default().labels("etcd-operator.cozystack.io/role=voter");
        let listed = pods.list(&voters).await.map_err(|error| error.to_string())?;
        let address = |pod: &Pod| {
            let status = pod.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
            status.pod_ip.filter(|_| ready)
        };
        let scheme = if self.access.authority.is_some() { "https" } else { "http" };
        Ok(listed.iter().filter_map(address).map(|ip| format!("{scheme}://{ip}:2379")).collect())
    }

    /// etcdctl on this host, against the Pods of all members that are Ready.
    pub async fn etcdctl(&self, arguments: &[&str]) -> Result<String, String> {
        self.etcdctl_at(&self.endpoints().await?, arguments).await
    }

    /// The same, at these endpoints.
    pub async fn etcdctl_at(&self, endpoints: &[String], arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(Version::V3_6.etcdctl());
        command.arg("--endpoints").arg(endpoints.join(","));
        if let Some(authority) = &self.access.authority {
            command.arg("--cacert").arg(authority);
        }
        if let Some(user) = &self.access.user {
            command.arg("--user").arg(user);
        }
        let output = command.args(arguments).kill_on_drop(true).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(text) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// All keys with their values, as etcdctl prints them.
    pub async fn contents(&self) -> String {
        self.etcdctl(&["get", "", "--prefix"]).await.unwrap()
    }

    /// A shell line in the node's namespaces, with `$p` as the process of a member's etcd.
    pub fn with_process_of(&self, member: &str, line: &str) {
        let script = format!("p=$(pgrep -f -- '--name={member} ' | head -n 1); [ -n \"$p\" ] && {line}");
        self.node.exec(&["sh", "-c", &script]).unwrap();
    }

    /// The Pods as they are, and what their etcds logged, for a failed test's message.
    pub async fn describe_pods(&self) -> String {
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

    pub async fn delete_pod(&self, member: &str) {
        let pods: Api<Pod> = Api::namespaced(self.node.client().await, &self.namespace);
        pods.delete(member, &DeleteParams::default()).await.unwrap();
    }
}

/// Each condition's status and reason.
pub fn told(status: &EtcdClusterStatus) -> BTreeMap<String, (String, String)> {
    let conditions = status.conditions.iter().flatten();
    conditions.map(|c| (c.type_.clone(), (c.status.clone(), c.reason.clone()))).collect()
}
