//! RestoreJobs against a real API server with its garbage collector. The operator's part (members, status) is played by
//! the tests; where Pods matter, the node tier has them.

use std::time::Duration;

use etcd_warden::api::condition::find;
use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::restorejob::RestoreJob;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Warden, control_plane, wait_for};

/// The garbage collector learns of new kinds every 30 s.
const WITHIN: Duration = Duration::from_mins(1);

/// Objects that come in while nobody admits them.
async fn unserved() -> ControlPlane {
    let controllers = ["garbage-collector-controller", "persistentvolumeclaim-protection-controller"];
    let options = control_plane::Options {
        controllers: controllers.map(ToOwned::to_owned).into(),
        ..control_plane::Options::default()
    };
    let bed = ControlPlane::start(options).await;
    install_crds(&bed).await;
    bed
}

async fn serve(bed: &ControlPlane) -> Warden {
    let warden = Warden::start(bed, &["--controllers=restorejob", "--agent-image=etcd-warden"]).await;
    warden.wait_ready().await;
    warden
}

const CLUSTER: &str = "
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata:
  name: etcd
  labels: {app: etcd, helm.toolkit.fluxcd.io/name: etcd}
  annotations: {etcd-operator.cozystack.io/peer-auto-tls: 'true'}
spec:
  version: 3.6.11
  replicas: 1
  storage: {size: 1Gi}
  options: {quotaBackendBytes: 1000000}
";

const BACKUP: &str = "
apiVersion: backups.cozystack.io/v1alpha1
kind: Backup
metadata: {name: nightly}
spec:
  applicationRef: {apiGroup: apps.cozystack.io, kind: Etcd, name: etcd}
  strategyRef: {apiGroup: strategy.backups.cozystack.io, kind: Etcd, name: s3}
  takenAt: 2026-01-01T00:00:00Z
  driverMetadata:
    etcd.aenix.io/backup-name: nightly-0c1d2e3f
    etcd.aenix.io/bucket: etcd-backups
    etcd.aenix.io/endpoint: https://s3.example.org
    etcd.aenix.io/credentials-secret-name: creds
status:
  phase: Ready
  artifact: {uri: 's3://etcd-backups/tenant/etcd/nightly-0c1d2e3f.db', sizeBytes: 20512}
";

const RESTORE: &str = "
apiVersion: backups.cozystack.io/v1alpha1
kind: RestoreJob
metadata: {name: back}
spec: {backupRef: {name: nightly}}
";

/// What an operator makes of a cluster: a member with a Pod and a volume claim, each owned by the one before.
async fn populate(bed: &ControlPlane, namespace: &str) -> EtcdCluster {
    let client = bed.client().await;
    let cluster = clusters(&client, namespace).get("etcd").await.unwrap();
    let owner = |kind: &str, name: &str, uid: &str| {
        json!([{"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true}])
    };
    let name = format!("etcd-{}", &cluster.uid().unwrap()[..5]);
    let metadata = |name: &str, owner: &Value| json!({"name": name, "labels": {"etcd-operator.cozystack.io/cluster": "etcd"}, "ownerReferences": owner});
    let of_cluster = owner("EtcdCluster", "etcd", &cluster.uid().unwrap());
    let member = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdMember",
        "metadata": metadata(&name, &of_cluster),
        "spec": {"clusterName": "etcd", "clusterToken": "t", "initialCluster": "", "version": "3.6.11",
            "replicas": 1, "storage": {"size": "1Gi"}}});
    let member = bed.apply(namespace, &member.to_string()).await.remove(0);
    let of_member = owner("EtcdMember", &name, &member.uid().unwrap());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(&name, &of_member),
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "etcd", "image": "etcd"}]}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": metadata(&format!("data-{name}"), &of_member),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    for object in [account, pod, claim] {
        bed.apply(namespace, &object.to_string()).await;
    }
    mark_ready(&client, namespace, 1).await;
    cluster
}

fn clusters(client: &Client, namespace: &str) -> Api<EtcdCluster> {
    Api::namespaced(client.clone(), namespace)
}

async fn mark_ready(client: &Client, namespace: &str, ready: i32) {
    let available = json!({"type": "Available", "status": "True", "reason": "QuorumHealthy", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!({"status": {"readyMembers": ready, "conditions": [available]}});
    clusters(client, namespace).patch_status("etcd", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn wait_job(client: &Client, namespace: &str, what: &str, seen: impl Fn(&RestoreJob) -> bool) -> RestoreJob {
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), namespace);
    wait_for(format!("RestoreJob: {what}"), WITHIN, async || {
        let job = jobs.get("back").await.map_err(|error| error.to_string())?;
        if seen(&job) { Ok(job) } else { Err(format!("{:?}", job.status)) }
    })
    .await
}

fn phase(job: &RestoreJob) -> &str {
    job.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn ready_reason(job: &RestoreJob) -> String {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    find(conditions, "Ready").map(|ready| ready.reason.clone()).unwrap_or_default()
}

/// R22, N3: the restore waits for its Backup, and for its rehearsal; meanwhile it can be aborted, and nothing was touched.
#[tokio::test]
async fn a_restore_waits_for_its_backup_and_can_be_aborted_meanwhile() {
    let bed = unserved().await;
    let _warden = serve(&bed).await;
    let client = bed.client().await;
    let namespace = bed.namespace("restore").await;
    bed.apply(&namespace, CLUSTER).await;
    let old = populate(&bed, &namespace).await;
    bed.apply(&namespace, RESTORE).await;
    wait_job(&client, &namespace, "waits for its Backup", |job| ready_reason(job) == "BackupNotReady").await;
    bed.apply(&namespace, BACKUP).await;
    wait_job(&client, &namespace, "rehearses", |job| ready_reason(job) == "PreflightRunning").await;
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), &namespace);
    let abort = json!({"metadata": {"annotations": {"etcd-warden.io/abort": "true"}}});
    jobs.patch("back", &PatchParams::default(), &Patch::Merge(abort)).await.unwrap();
    let job = wait_job(&client, &namespace, "is settled", |job| {
        phase(job) == "Failed" && job.finalizers().is_empty() && job.labels().is_empty()
    })
    .await;
    let message = job.status.unwrap().message.unwrap();
    assert!(message.contains("aborted on request") && message.contains("not touched"), "{message}");
    let live = clusters(&client, &namespace).get("etcd").await.unwrap();
    assert_eq!((live.uid(), live.metadata.deletion_timestamp), (old.uid(), None));
}

/// Admission would refuse most of these; the controller does so too, for what came in while admission was away.
#[tokio::test]
async fn what_cannot_be_restored_leaves_the_cluster_alone() {
    let bed = unserved().await;
    let client = bed.client().await;
    let mut cases = Vec::new();
    for (name, backup, restore, expected) in [
        ("failed", BACKUP.replace("phase: Ready", "phase: Failed"), RESTORE.to_owned(), "has failed"),
        ("options", BACKUP.to_owned(), RESTORE.replace("}}", "}, options: {restoreTimeoutSeconds: -1}}"), "from 0 to"),
        ("foreign", BACKUP.replace("kind: Etcd, name: etcd}", "kind: Redis, name: r}"), RESTORE.to_owned(), "Redis"),
        (
            "copy",
            BACKUP.to_owned(),
            RESTORE.replace("}}", "}, targetApplicationRef: {kind: Etcd, name: other}}"),
            "restored in place only",
        ),
        ("late", String::new(), RESTORE.replace("}}", "}, options: {restoreTimeoutSeconds: 2}}"), "does not exist"),
    ] {
        let namespace = bed.namespace(name).await;
        bed.apply(&namespace, CLUSTER).await;
        let old = populate(&bed, &namespace).await;
        if !backup.is_empty() {
            bed.apply(&namespace, &backup).await;
        }
        bed.apply(&namespace, &restore).await;
        cases.push((namespace, old, expected));
    }
    let _warden = serve(&bed).await;
    for (namespace, old, expected) in cases {
        let job = wait_job(&client, &namespace, "fails", |job| phase(job) == "Failed").await;
        let message = job.status.unwrap().message.unwrap();
        assert!(message.contains(expected), "{namespace}: {message}");
        let live = clusters(&client, &namespace).get("etcd").await.unwrap();
        assert_eq!((live.uid(), live.metadata.deletion_timestamp), (old.uid(), None), "{namespace}");
    }
}
