//! Backup and restore with every controller of ours, and with real etcd, etcdutl, agent and S3 processes.

use std::time::Duration;

use etcd_warden::api::backupjob::BackupJob;
use etcd_warden::api::condition::find;
use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::restorejob::{RestoreJob, RestoreJobStatus};
use futures::StreamExt;
use kube::{Api, ResourceExt};
use object_store::ObjectStoreExt;
use serde_json::json;

use crate::bed::etcd::Version;
use crate::bed::s3::{self, OWNER, S3Server};
use crate::bed::stand_in::kubelet::images::Images;
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, StandInKubelet, Warden, control_plane, wait_for};

const IMAGE: &str = "etcd-warden:test";
const STORE: &str = "s3.bed";
const WITHIN: Duration = Duration::from_mins(3);

/// Everything that it takes; dropped in this order.
struct Bed {
    warden: Warden,
    kubelet: StandInKubelet,
    store: S3Server,
    control_plane: ControlPlane,
    namespace: String,
}

impl Bed {
    async fn start() -> Self {
        let options = control_plane::Options { controllers: vec!["*".to_owned()], ..control_plane::Options::default() };
        let control_plane = ControlPlane::start(options).await;
        install_crds(&control_plane).await;
        let store = S3Server::start(s3::Options { listen: "0.0.0.0".to_owned(), names: vec![STORE.to_owned()] }).await;
        let images = Images::none().etcd(Version::V3_6).ours(IMAGE);
        let kubelet = StandInKubelet::start(&control_plane, images).await;
        let warden = Warden::start(&control_plane, &[&format!("--agent-image={IMAGE}")]).await;
        warden.wait_ready().await;
        let namespace = control_plane.namespace("walk").await;
        store.bucket(&namespace).await;
        let this = Self { warden, kubelet, store, control_plane, namespace };
        this.ground().await;
        this
    }

    /// Class, strategy and Secrets, as an administrator and a tenant make them.
    async fn ground(&self) {
        let name = &self.namespace;
        let group = "strategy.backups.cozystack.io";
        let s3 = json!({"endpoint": self.store.endpoint_at(STORE), "bucket": "{{ .Parameters.bucket }}",
            "key": "{{ .Application.metadata.namespace }}/", "forcePathStyle": true,
            "credentialsSecretRef": {"name": "creds"}, "caSecretRef": {"name": "store-ca"}});
        let strategy = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Etcd", "metadata": {"name": name},
            "spec": {"template": {"destination": {"s3": s3}}}});
        let entry = json!({"application": {"kind": "Etcd"}, "parameters": {"bucket": name},
            "strategyRef": {"apiGroup": group, "kind": "Etcd", "name": name}});
        let class = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupClass",
            "metadata": {"name": name}, "spec": {"strategies": [entry]}});
        let creds = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"},
            "stringData": {"AWS_ACCESS_KEY_ID": OWNER.access, "AWS_SECRET_ACCESS_KEY": OWNER.secret}});
        let ca = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store-ca"},
            "stringData": {"ca.crt": self.store.authority_pem()}});
        for object in [strategy, class, creds, ca] {
            self.apply(&object).await;
        }
    }

    async fn apply(&self, object: &serde_json::Value) {
        self.control_plane.apply(&self.namespace, &object.to_string()).await;
    }

    async fn ready_cluster(&self) -> EtcdCluster {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.control_plane.client().await, &self.namespace);
        wait_for("the EtcdCluster to be ready", WITHIN, async || {
            let cluster = clusters.get("etcd").await.map_err(|error| error.to_string())?;
            let status = cluster.status.clone().unwrap_or_default();
            if status.ready_members == Some(1) { Ok(cluster) } else { Err(format!("{status:?}")) }
        })
        .await
    }

    async fn etcdctl(&self, arguments: &[&str]) -> String {
        let program = Version::V3_6.etcdctl().display().to_string();
        let endpoint = format!("http://etcd-client.{}.svc:2379", self.namespace);
        wait_for(format!("etcdctl {arguments:?}"), WITHIN, async || {
            let argv: Vec<&str> =
                [program.as_str(), "--endpoints", &endpoint].iter().chain(arguments).copied().collect();
            let run = self.kubelet.run("etcdctl", &argv, &[]).await;
            let exit = run.ended().await;
            let said = std::fs::read_to_string(run.log()).unwrap_or_default();
            if exit.code == 0 { Ok(said.trim().to_owned()) } else { Err(format!("{exit:?}: {said}")) }
        })
        .await
    }
}

impl Bed {
    /// A cluster of one member that holds `key=old`.
    async fn cluster(&self) -> EtcdCluster {
        self.apply(&json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "etcd"},
            "spec": {"version": Version::V3_6.number(), "replicas": 1, "storage": {"size": "256Mi"}}}))
            .await;
        let cluster = self.ready_cluster().await;
        assert_eq!(self.etcdctl(&["put", "key", "old"]).await, "OK");
        cluster
    }

    /// Backs it up.
    async fn back_up(&self) {
        self.apply(&json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupJob",
            "metadata": {"name": "b"},
            "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "backupClassName": self.namespace}}))
            .await;
        let jobs: Api<BackupJob> = Api::namespaced(self.control_plane.client().await, &self.namespace);
        wait_for("the BackupJob to succeed", WITHIN, async || {
            let status = jobs.get("b").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            if status.phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    }

    /// Restores from the Backup and gives the status at the end.
    async fn restore(&self) -> RestoreJobStatus {
        self.apply(&json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob",
            "metadata": {"name": "r"}, "spec": {"backupRef": {"name": "b"}}}))
            .await;
        let restores: Api<RestoreJob> = Api::namespaced(self.control_plane.client().await, &self.namespace);
        wait_for("the RestoreJob to end", WITHIN, async || {
            let status = restores.get("r").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            if status.completed_at.is_some() { Ok(status) } else { Err(format!("{status:?}")) }
        })
        .await
    }
}

#[tokio::test]
async fn what_was_backed_up_comes_back_and_what_came_later_is_gone() {
    let bed = Bed::start().await;
    let old = bed.cluster().await;
    bed.back_up().await;
    assert_eq!(bed.etcdctl(&["put", "key", "new"]).await, "OK");
    assert_eq!(bed.etcdctl(&["put", "later", "1"]).await, "OK");
    let done = bed.restore().await;
    assert_eq!(done.phase.as_deref(), Some("Succeeded"), "{done:?}");
    let rehearsed = find(done.conditions.as_deref().unwrap(), "Preflighted").unwrap();
    assert!(rehearsed.message.contains("1 keys"), "{}", rehearsed.message);
    assert_ne!(bed.ready_cluster().await.uid(), old.uid());
    assert_eq!(bed.etcdctl(&["get", "key", "--print-value-only"]).await, "old");
    assert_eq!(bed.etcdctl(&["get", "later", "--print-value-only"]).await, "");
}

/// R1 and S1: an object that is no longer what was stored is found out while the old cluster still serves.
#[tokio::test]
async fn a_corrupted_object_leaves_the_cluster_serving() {
    let bed = Bed::start().await;
    let old = bed.cluster().await;
    bed.back_up().await;
    let store = bed.store.store(&bed.namespace);
    let object = store.list(None).next().await.unwrap().unwrap().location;
    let mut bytes = store.get(&object).await.unwrap().bytes().await.unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0xff);
    store.put(&object, bytes.into()).await.unwrap();
    let failed = bed.restore().await;
    let message = failed.message.unwrap();
    assert_eq!(failed.phase.as_deref(), Some("Failed"), "{message}");
    assert!(message.contains("ChecksumMismatch") && message.contains("was not touched"), "{message}");
    assert_eq!(bed.ready_cluster().await.uid(), old.uid());
    assert_eq!(bed.etcdctl(&["get", "key", "--print-value-only"]).await, "old");
}

/// The controllers are killed again and again while the cluster is made anew.
#[tokio::test]
async fn a_restore_outlives_killed_controllers() {
    let bed = Bed::start().await;
    let old = bed.cluster().await;
    bed.back_up().await;
    assert_eq!(bed.etcdctl(&["put", "later", "1"]).await, "OK");
    let (done, ()) = tokio::join!(bed.restore(), async {
        for pause in [300, 900, 1500, 2100, 2700] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let (daemon, name) = bed.warden.daemon();
            daemon.kill(name);
            daemon.restart(name);
        }
    });
    assert_eq!(done.phase.as_deref(), Some("Succeeded"), "{done:?}");
    assert_ne!(bed.ready_cluster().await.uid(), old.uid());
    assert_eq!(bed.etcdctl(&["get", "key", "--print-value-only"]).await, "old");
    assert_eq!(bed.etcdctl(&["get", "later", "--print-value-only"]).await, "");
}
