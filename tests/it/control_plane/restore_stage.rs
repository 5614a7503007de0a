//! What it takes to tell of a restore: an application with its HelmRelease, a cluster with keys, a Backup; with real
//! etcd, etcdutl, agent and S3 processes.

use std::time::Duration;

use etcd_warden::api::backupjob::BackupJob;
use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::restorejob::{RestoreJob, RestoreJobStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::bed::etcd::Version;
use crate::bed::pki::Authority;
use crate::bed::stand_in::Plane;
use crate::bed::stand_in::plane::{S3_AUTHORITY, S3_HOST, S3_SECRET, s3};
use crate::bed::tools::tree;
use crate::bed::wait_for;

/// How long anything may take here.
pub const WITHIN: Duration = Duration::from_mins(4);

/// A plane that also serves the platform's kinds.
pub async fn plane() -> Plane {
    let plane = Plane::start(&[Version::V3_6]).await;
    let platform = tree().join("tests/cluster/stand-ins/platform/crds.yaml");
    plane.api.apply("", &std::fs::read_to_string(platform).expect("the platform's kinds")).await;
    let releases = releases(&plane.client().await, "default");
    wait_for("HelmReleases to be served", Duration::from_secs(20), async || {
        releases.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    plane
}

/// The HelmReleases of a namespace.
pub fn releases(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "helm.toolkit.fluxcd.io".to_owned(),
        version: "v2".to_owned(),
        api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
        kind: "HelmRelease".to_owned(),
        plural: "helmreleases".to_owned(),
    };
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// One application in a namespace of its own.
pub struct Stage<'a> {
    pub plane: &'a Plane,
    pub namespace: String,
    pub client: Client,
    /// Whether its cluster speaks TLS and asks for a password.
    secured: bool,
}

/// Root's password where there is one.
const PASSWORD: &str = "s3cret of root";

impl<'a> Stage<'a> {
    /// A namespace with credentials, class, strategy and HelmRelease.
    pub async fn set(plane: &'a Plane) -> Self {
        let namespace = plane.namespace_with_store("restore").await;
        s3().await.bucket(&namespace).await;
        let this = Self { plane, client: plane.client().await, namespace, secured: false };
        this.ground().await;
        this
    }

    /// The same for a cluster with TLS whose clients, ours among them, have nothing but a password.
    pub async fn set_secured(plane: &'a Plane) -> Self {
        let this = Self { secured: true, ..Self::set(plane).await };
        let authority = Authority::new("clusters");
        let members = format!("*.etcd.{}.svc", this.namespace);
        let pair = authority.issue("etcd", None, &[&members, "localhost", "127.0.0.1"]);
        let root = json!({"username": "root", "password": PASSWORD});
        for (name, type_, data) in [
            ("server", "Opaque", json!({"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem()})),
            ("root", "kubernetes.io/basic-auth", root),
        ] {
            this.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_,
                "stringData": data}))
                .await;
        }
        this
    }

    async fn ground(&self) {
        let name = &self.namespace;
        let group = "strategy.backups.cozystack.io";
        let s3 = json!({"endpoint": s3().await.endpoint_at(S3_HOST), "bucket": name, "key": "etcd/",
            "forcePathStyle": true, "credentialsSecretRef": {"name": S3_SECRET}, "caSecretRef": {"name": S3_AUTHORITY}});
        let strategy = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Etcd", "metadata": {"name": name},
            "spec": {"template": {"destination": {"s3": s3}}}});
        let entry = json!({"application": {"kind": "Etcd"},
            "strategyRef": {"apiGroup": group, "kind": "Etcd", "name": name}});
        let class = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupClass",
            "metadata": {"name": name}, "spec": {"strategies": [entry]}});
        let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "etcd"}, "spec": {"suspend": false}});
        let application =
            json!({"apiVersion": "apps.cozystack.io/v1alpha1", "kind": "Etcd", "metadata": {"name": "etcd"}});
        for object in [strategy, class, release, application] {
            self.apply(&object).await;
        }
    }

    pub async fn apply(&self, object: &Value) {
        self.plane.api.apply(&self.namespace, &object.to_string()).await;
    }

    pub fn clusters(&self) -> Api<EtcdCluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn restores(&self) -> Api<RestoreJob> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A cluster of so many members that holds `key=old`.
    pub async fn cluster(&self, replicas: i32) -> EtcdCluster {
        let mut spec = json!({"version": Version::V3_6.number(), "replicas": replicas, "storage": {"size": "512Mi"}});
        if self.secured {
            spec["tls"] = json!({"client": {"serverSecretRef": {"name": "server"}}});
            spec["auth"] = json!({"enabled": true, "rootCredentialsSecretRef": {"name": "root"}});
        }
        self.apply(&json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "etcd", "labels": {"app": "etcd"}}, "spec": spec}))
            .await;
        let cluster = self.ready_cluster().await;
        self.put("key", "old").await;
        cluster
    }

    /// The cluster once all its members are ready.
    pub async fn ready_cluster(&self) -> EtcdCluster {
        wait_for("the EtcdCluster to be ready", WITHIN, async || {
            let cluster = self.clusters().get("etcd").await.map_err(|error| error.to_string())?;
            let status = cluster.status.clone().unwrap_or_default();
            if status.ready_members == cluster.spec.replicas { Ok(cluster) } else { Err(format!("{status:?}")) }
        })
        .await
    }

    /// The member's Pod that is asked: the first.
    pub async fn pod(&self) -> Result<Pod, String> {
        self.plane.members(&self.namespace, "etcd").await.into_iter().next().ok_or_else(|| "no member".to_owned())
    }

    pub async fn try_etcdctl(&self, arguments: &[&str]) -> Result<String, String> {
        let pod = self.pod().await?;
        let user = format!("--user=root:{PASSWORD}");
        let arguments: Vec<&str> = self.secured.then_some(user.as_str()).iter().chain(arguments).copied().collect();
        self.plane.etcdctl(&pod, &arguments).await.map(|said| said.trim().to_owned())
    }

    pub async fn etcdctl(&self, arguments: &[&str]) -> String {
        wait_for(format!("etcdctl {arguments:?}"), WITHIN, async || self.try_etcdctl(arguments).await).await
    }

    pub async fn put(&self, key: &str, value: &str) {
        assert_eq!(self.etcdctl(&["put", key, value]).await, "OK");
    }

    /// Backs it up as `b`, and then writes what a restore takes away: `key=new` and `later=1`.
    pub async fn back_up(&self) {
        self.apply(&json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupJob",
            "metadata": {"name": "b"},
            "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "backupClassName": self.namespace}}))
            .await;
        let jobs: Api<BackupJob> = Api::namespaced(self.client.clone(), &self.namespace);
        wait_for("the BackupJob to succeed", WITHIN, async || {
            let status = jobs.get("b").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            if status.phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
        self.write_later().await;
    }

    /// What came after the backup.
    pub async fn write_later(&self) {
        self.put("key", "new").await;
        self.put("later", "1").await;
    }

    /// Asks for a restore; again where nobody admits it, for the server may be starting.
    pub async fn ask(&self, name: &str, options: &Value) {
        let job = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob",
            "metadata": {"name": name}, "spec": {"backupRef": {"name": "b"}, "options": options}});
        wait_for(format!("RestoreJob {name} to be admitted"), WITHIN, async || {
            let applied = self.plane.api.try_apply(&self.client, &self.namespace, &job.to_string()).await;
            applied.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    /// Waits until a RestoreJob's status is as wanted.
    pub async fn wait(&self, name: &str, what: &str, seen: impl Fn(&RestoreJobStatus) -> bool) -> RestoreJobStatus {
        wait_for(format!("RestoreJob {name}: {what}"), WITHIN, async || {
            let status = self.restores().get(name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            if seen(&status) { Ok(status) } else { Err(format!("{status:?}")) }
        })
        .await
    }

    /// Waits for its end.
    pub async fn end(&self, name: &str) -> RestoreJobStatus {
        self.wait(name, "ends", |status| status.completed_at.is_some()).await
    }

    /// Waits for its success: another cluster with what was backed up, and the release as it was found.
    pub async fn restored(&self, name: &str, old: &EtcdCluster) -> EtcdCluster {
        let status = self.end(name).await;
        assert_eq!(status.phase.as_deref(), Some("Succeeded"), "{name}: {status:?}");
        let new = self.ready_cluster().await;
        assert_ne!(new.uid(), old.uid(), "{name}");
        assert_eq!(self.is_old().await, Ok(true), "{name}");
        assert_eq!(self.suspended().await, Some(false), "{name}");
        new
    }

    /// Waits until the old cluster is gone, which no restore survives by itself.
    pub async fn gone(&self, old: &EtcdCluster) {
        wait_for("the old EtcdCluster to be gone", WITHIN, async || match self.clusters().get_opt("etcd").await {
            Ok(Some(cluster)) if cluster.uid() == old.uid() => Err("it is there".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        })
        .await;
    }

    pub async fn annotate(&self, job: &str, key: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        wait_for(format!("RestoreJob {job} to be annotated"), WITHIN, async || {
            let patched = self.restores().patch(job, &PatchParams::default(), &patch).await;
            patched.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    /// `spec.suspend` of the HelmRelease.
    pub async fn suspended(&self) -> Option<bool> {
        let release = releases(&self.client, &self.namespace).get("etcd").await.expect("the HelmRelease");
        release.data.pointer("/spec/suspend").and_then(Value::as_bool)
    }

    /// Whether the data is what was written before the backup (`true`), or all that was written (`false`).
    ///
    /// # Errors
    /// It is neither, or cannot be read.
    pub async fn is_old(&self) -> Result<bool, String> {
        let key = self.try_etcdctl(&["get", "key", "--print-value-only"]).await?;
        let later = self.try_etcdctl(&["get", "later", "--print-value-only"]).await?;
        match (key.as_str(), later.as_str()) {
            ("old", "") => Ok(true),
            ("new", "1") => Ok(false),
            other => Err(format!("neither old nor new data: {other:?}")),
        }
    }
}
