//! Backups and the objects that they stand for, against a real API server and a real S3 server.

use std::sync::Arc;
use std::time::Duration;

use etcd_warden::api::backup::Backup;
use etcd_warden::api::condition::find;
use etcd_warden::api::etcdsnapshot::EtcdSnapshot;
use etcd_warden::api::restorejob::RestoreJob;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore, ObjectStoreExt, PutOptions};
use serde_json::json;

use crate::bed::fault_proxy::{HttpFault, HttpProxy, On};
use crate::bed::s3::OWNER;
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, S3Server, Warden, control_plane, wait_for};

const WITHIN: Duration = Duration::from_secs(40);
/// The size of a whole snapshot.
const SIZE: usize = 40 * 512 + 32;

/// A namespace with credentials and an EtcdSnapshot, and a stored object that names it as its owner.
struct Scene {
    client: Client,
    namespace: String,
    bucket: Arc<dyn ObjectStore>,
    snapshot: EtcdSnapshot,
    proxy: HttpProxy,
}

async fn control_plane() -> ControlPlane {
    let controllers = vec!["namespace-controller".to_owned()];
    let bed = ControlPlane::start(control_plane::Options { controllers, ..control_plane::Options::default() }).await;
    install_crds(&bed).await;
    bed
}

async fn serve(bed: &ControlPlane) -> Warden {
    let warden = Warden::start(bed, &["--controllers=backup"]).await;
    warden.wait_ready().await;
    warden
}

impl Scene {
    async fn new(bed: &ControlPlane) -> Self {
        let s3 = S3Server::shared().await;
        let namespace = bed.namespace("kept").await;
        let bucket = s3.bucket(&namespace).await;
        let proxy = s3.behind_proxy();
        let authority = proxy.authority_pem().replace('\n', "\n    ");
        let (access, secret) = (OWNER.access, OWNER.secret);
        bed.apply(
            &namespace,
            &format!(
                "
apiVersion: v1
kind: Secret
metadata: {{name: creds}}
stringData:
  AWS_ACCESS_KEY_ID: {access}
  AWS_SECRET_ACCESS_KEY: {secret}
  ca.crt: |
    {authority}
---
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdSnapshot
metadata: {{name: snap}}
spec:
  clusterRef: {{name: etcd}}
  destination: {{s3: {{endpoint: 'https://s3', bucket: backups, credentialsSecretRef: {{name: creds}}}}}}
"
            ),
        )
        .await;
        let client = bed.client().await;
        let snapshot = Api::<EtcdSnapshot>::namespaced(client.clone(), &namespace).get("snap").await.unwrap();
        let this = Self { client, namespace, bucket, snapshot, proxy };
        this.store(&this.snapshot.uid().unwrap()).await;
        this
    }

    async fn store(&self, owner: &str) {
        let mut attributes = Attributes::new();
        for (key, value) in [("etcd-snapshot-uid", owner), ("etcd-revision", "7"), ("etcd-version", "3.6.11")] {
            attributes.insert(Attribute::Metadata(key.into()), value.to_owned().into());
        }
        let options = PutOptions { attributes, ..PutOptions::default() };
        self.bucket.put_opts(&Path::from("deep/er/snap.db"), vec![7; SIZE].into(), options).await.unwrap();
    }

    async fn is_stored(&self) -> bool {
        self.bucket.head(&Path::from("deep/er/snap.db")).await.is_ok()
    }

    /// As a person writes it, with a private authority in the payload.
    fn backup(&self, policy: &str) -> String {
        let (url, bucket) = (self.proxy.url(), &self.namespace);
        format!(
            "
apiVersion: backups.cozystack.io/v1alpha1
kind: Backup
metadata: {{name: old}}
spec:
  applicationRef: {{apiGroup: apps.cozystack.io, kind: Etcd, name: etcd}}
  strategyRef: {{apiGroup: strategy.backups.cozystack.io, kind: Etcd, name: s3}}
  takenAt: 2026-01-01T00:00:00Z
  deletionPolicy: {policy}
  driverMetadata: {{etcd.aenix.io/backup-name: snap}}
status:
  underlyingResources:
    kind: EtcdBackupSnapshot
    apiVersion: backups.cozystack.io/v1alpha1
    destination:
      s3:
        endpoint: {url}
        bucket: {bucket}
        key: deep/er/
        forcePathStyle: true
        credentialsSecretRef: {{name: creds}}
        caSecretRef: {{name: creds}}
"
        )
    }

    fn backups(&self) -> Api<Backup> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn says(&self, reason: &str) -> Backup {
        wait_for(format!("the Backup to say {reason}"), WITHIN, async || {
            let backup = self.backups().get("old").await.map_err(|error| error.to_string())?;
            let status = backup.status.clone().unwrap_or_default();
            let conditions = status.conditions.as_deref().unwrap_or_default();
            if find(conditions, "Ready").is_some_and(|ready| ready.reason == reason) {
                Ok(backup)
            } else {
                Err(format!("{status:?}, {:?}", backup.finalizers()))
            }
        })
        .await
    }

    async fn held(&self) {
        wait_for("the Backup to be held", WITHIN, async || {
            let backup = self.backups().get("old").await.map_err(|error| error.to_string())?;
            let held = backup.finalizers() == ["etcd-warden.io/backup"];
            if held { Ok(()) } else { Err(format!("{:?}", backup.finalizers())) }
        })
        .await;
    }

    async fn delete(&self) {
        self.backups().delete("old", &DeleteParams::default()).await.unwrap();
    }

    async fn gone(&self) {
        wait_for("the Backup to be gone", WITHIN, async || match self.backups().get_opt("old").await {
            Ok(None) => Ok(()),
            Ok(Some(backup)) => Err(format!("{:?}, {:?}", backup.metadata, backup.status)),
            Err(error) => Err(error.to_string()),
        })
        .await;
    }

    async fn snapshot_is_there(&self) -> bool {
        let snapshots: Api<EtcdSnapshot> = Api::namespaced(self.client.clone(), &self.namespace);
        snapshots.get_opt("snap").await.unwrap().is_some()
    }
}

/// B10: the stored object goes with its Backup, but not under a restore that reads it, and not in haste: a Backup that was
/// written by hand is looked at first.
#[tokio::test]
async fn an_object_is_adopted_held_for_a_restore_and_goes_with_its_backup() {
    let bed = control_plane().await;
    let scene = Scene::new(&bed).await;
    bed.apply(&scene.namespace, &scene.backup("Delete")).await;
    let restore = "
apiVersion: backups.cozystack.io/v1alpha1
kind: RestoreJob
metadata: {name: restore-1}
spec: {backupRef: {name: old}}
";
    bed.apply(&scene.namespace, restore).await;
    let _warden = serve(&bed).await;
    let adopted = scene.says("Adopted").await;
    let artifact = adopted.status.as_ref().unwrap().artifact.clone().unwrap();
    assert_eq!(artifact.uri, format!("s3://{}/deep/er/snap.db", scene.namespace));
    assert_eq!((artifact.size_bytes, artifact.revision), (Some(i64::try_from(SIZE).unwrap()), Some(7)));
    assert_eq!(adopted.annotations()["etcd-warden.io/snapshot-uid"], scene.snapshot.uid().unwrap());
    scene.held().await;

    scene.delete().await;
    let held = scene.says("InUse").await;
    assert!(held.metadata.deletion_timestamp.is_some() && scene.is_stored().await);
    let restores: Api<RestoreJob> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let ended = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    restores.patch_status("restore-1", &PatchParams::default(), &ended).await.unwrap();
    scene.gone().await;
    assert!(!scene.is_stored().await, "the object is still there");
    assert!(!scene.snapshot_is_there().await, "the EtcdSnapshot is still there");
}

#[tokio::test]
async fn a_store_that_fails_and_a_process_that_is_killed_only_delay() {
    let bed = control_plane().await;
    let scene = Scene::new(&bed).await;
    bed.apply(&scene.namespace, &scene.backup("Delete")).await;
    let warden = serve(&bed).await;
    scene.says("Adopted").await;
    scene.held().await;
    let refused = "<Error><Code>AccessDenied</Code></Error>".to_owned();
    let rule = scene.proxy.inject(On::request("DELETE", "snap.db").first(1), HttpFault::Answer(403, refused));
    scene.delete().await;
    let pending = scene.says("DeletionPending").await;
    let conditions = pending.status.unwrap().conditions.unwrap();
    let message = &find(&conditions, "Ready").unwrap().message;
    assert!(message.contains("bucket's policy"), "{message}");
    assert_eq!(scene.proxy.applied(rule), 1);
    // The store did it, and nobody lived to hear of it.
    scene.proxy.clear();
    let lost = scene.proxy.inject(On::request("DELETE", "snap.db"), HttpFault::WithholdAnswer);
    wait_for(
        "the object to go",
        WITHIN,
        async || {
            if scene.is_stored().await { Err("it is there".to_owned()) } else { Ok(()) }
        },
    )
    .await;
    assert!(scene.snapshot_is_there().await && scene.backups().get_opt("old").await.unwrap().is_some());
    assert!(scene.proxy.applied(lost) >= 1);
    let (leash, daemon) = warden.daemon();
    leash.kill(daemon);
    scene.proxy.clear();
    leash.restart(daemon);
    scene.gone().await;
    assert!(!scene.snapshot_is_there().await);
}

#[tokio::test]
async fn what_is_not_its_own_stays_and_nobody_is_held_up() {
    let bed = control_plane().await;
    let _warden = serve(&bed).await;
    // Somebody else's object under the recorded name.
    let scene = Scene::new(&bed).await;
    bed.apply(&scene.namespace, &scene.backup("Delete")).await;
    scene.says("Adopted").await;
    scene.held().await;
    scene.store("another").await;
    scene.delete().await;
    scene.gone().await;
    assert!(scene.is_stored().await, "an object of somebody else was removed");

    // One that keeps its object is never held.
    let scene = Scene::new(&bed).await;
    bed.apply(&scene.namespace, &scene.backup("Retain")).await;
    let adopted = scene.says("Adopted").await;
    assert!(adopted.finalizers().is_empty());
    scene.delete().await;
    scene.gone().await;
    assert!(scene.is_stored().await && scene.snapshot_is_there().await);

    // A namespace goes, and takes the credentials with it.
    let scene = Scene::new(&bed).await;
    bed.apply(&scene.namespace, &scene.backup("Delete")).await;
    scene.held().await;
    scene.proxy.inject(On::any(), HttpFault::Answer(503, String::new()));
    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    namespaces.delete(&scene.namespace, &DeleteParams::default()).await.unwrap();
    wait_for("the namespace to go", Duration::from_secs(90), async || {
        match namespaces.get_opt(&scene.namespace).await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(namespace) => Err(format!("{:?}", namespace.status)),
        }
    })
    .await;
}
