//! RestoreJobs against a real API server with its garbage collector. The operator's part (members, status) is played by
//! the tests; where Pods matter, the node tier has them.

use std::time::Duration;

use etcd_warden::api::condition::find;
use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::restorejob::RestoreJob;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Warden, control_plane, wait_for};

/// The garbage collector learns of new kinds every 30 s.
const WITHIN: Duration = Duration::from_mins(1);

async fn served() -> (ControlPlane, Warden) {
    let bed = unserved().await;
    let warden = serve(&bed).await;
    (bed, warden)
}

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

/// Plays the rehearsal's Job: no Pods run here.
async fn pass_preflight(client: &Client, namespace: &str) {
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let name = wait_for("the preflight Job", WITHIN, async || {
        let found = jobs.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        found.first().map(ResourceExt::name_any).ok_or_else(|| "no Job".to_owned())
    })
    .await;
    let time = "2026-01-01T00:00:00Z";
    let holds = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "CompletionsReached", "message": "", "lastProbeTime": time,
            "lastTransitionTime": time})
    };
    let patch = json!({"status": {"startTime": time, "completionTime": time, "succeeded": 1,
        "conditions": [holds("SuccessCriteriaMet"), holds("Complete")]}});
    jobs.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn wait_new_cluster(client: &Client, namespace: &str, old: &EtcdCluster) -> EtcdCluster {
    let api = clusters(client, namespace);
    wait_for("a new EtcdCluster", WITHIN, async || match api.get("etcd").await {
        Ok(cluster) if cluster.uid() != old.uid() => Ok(cluster),
        Ok(_) => Err("the old one".to_owned()),
        Err(error) => Err(error.to_string()),
    })
    .await
}

#[tokio::test]
async fn a_restore_purges_the_old_cluster_and_makes_it_again_from_the_snapshot() {
    let (bed, _warden) = served().await;
    let client = bed.client().await;
    let namespace = bed.namespace("restore").await;
    bed.apply(&namespace, CLUSTER).await;
    let old = populate(&bed, &namespace).await;
    // R22: the restore waits for its Backup.
    bed.apply(&namespace, RESTORE).await;
    wait_job(&client, &namespace, "waits for its Backup", |job| ready_reason(job) == "BackupNotReady").await;
    assert_eq!(clusters(&client, &namespace).get("etcd").await.unwrap().uid(), old.uid());
    bed.apply(&namespace, BACKUP).await;
    wait_job(&client, &namespace, "rehearses", |job| ready_reason(job) == "PreflightRunning").await;
    assert_eq!(clusters(&client, &namespace).get("etcd").await.unwrap().metadata.deletion_timestamp, None);
    pass_preflight(&client, &namespace).await;

    let new = wait_new_cluster(&client, &namespace, &old).await;
    // Nothing of the old cluster is left before the new one is made.
    let label = ListParams::default().labels("etcd-operator.cozystack.io/cluster=etcd");
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    assert_eq!(pods.list(&label).await.unwrap().items.len(), 0);
    assert_eq!(claims.list(&label).await.unwrap().items.len(), 0);
    // All of it comes back, and it starts from the exact object.
    let job = wait_job(&client, &namespace, "waits for the cluster", |job| {
        job.status.as_ref().is_some_and(|status| status.step.as_deref() == Some("Recreated"))
    })
    .await;
    assert_eq!(new.labels(), old.labels());
    assert_eq!(new.annotations()["etcd-operator.cozystack.io/peer-auto-tls"], "true");
    assert_eq!(new.annotations()["etcd-warden.io/restored-by"], job.uid().unwrap());
    assert_eq!(new.spec.options, old.spec.options);
    let s3 = new.spec.bootstrap.unwrap().restore.unwrap().source.s3.unwrap();
    assert_eq!(s3.key.as_deref(), Some("tenant/etcd/nightly-0c1d2e3f.db"));
    assert_eq!(phase(&job), "Running");
    assert_eq!(job.labels()["etcd-warden.io/guards"], "etcd");

    mark_ready(&client, &namespace, 1).await;
    let done = wait_job(&client, &namespace, "is settled", |job| {
        phase(job) == "Succeeded" && job.finalizers().is_empty() && job.labels().is_empty()
    })
    .await;
    let status = done.status.unwrap();
    assert!(status.message.unwrap().contains("without a snapshot of the old data"));
    for step in ["Preflighted", "Suspended", "EtcdClusterSpecCaptured", "TargetPurged", "Resumed", "Ready"] {
        assert_eq!(find(status.conditions.as_deref().unwrap(), step).unwrap().status, "True", "{step}");
    }
    assert!(status.completed_at.is_some());
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

/// R8: a RestoreJob that is deleted while the cluster is gone finishes its work first.
#[tokio::test]
async fn a_deleted_job_does_not_strand_the_cluster() {
    let (bed, _warden) = served().await;
    let client = bed.client().await;
    let namespace = bed.namespace("deleted").await;
    bed.apply(&namespace, CLUSTER).await;
    let old = populate(&bed, &namespace).await;
    // The member's Pod is held, so that the purge cannot end.
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    let hold = json!({"metadata": {"finalizers": ["test.io/hold"]}});
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(hold)).await.unwrap();
    bed.apply(&namespace, BACKUP).await;
    bed.apply(&namespace, RESTORE).await;
    pass_preflight(&client, &namespace).await;
    wait_job(&client, &namespace, "purges", |job| ready_reason(job) == "EtcdClusterPurging").await;
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), &namespace);
    jobs.delete("back", &DeleteParams::default()).await.unwrap();
    let free = json!({"metadata": {"finalizers": null}});
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(free)).await.unwrap();

    let new = wait_new_cluster(&client, &namespace, &old).await;
    assert!(new.spec.bootstrap.is_some());
    assert!(jobs.get_opt("back").await.unwrap().is_some(), "the job left before the cluster was ready");
    mark_ready(&client, &namespace, 1).await;
    wait_for("the job to go", WITHIN, async || match jobs.get_opt("back").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // The record of the old cluster outlives the job.
    let records: Api<ControllerRevision> = Api::namespaced(client, &namespace);
    let records = records.list(&ListParams::default()).await.unwrap().items;
    assert!(records.iter().any(|record| record.name_any().ends_with("-capture")), "{records:?}");
}
