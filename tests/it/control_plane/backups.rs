//! BackupJobs against a real API server. What other controllers would write (a cluster's and a snapshot's status) is
//! written by the tests.

use std::time::Duration;

use etcd_warden::api::backup::Backup;
use etcd_warden::api::backupjob::BackupJob;
use etcd_warden::api::condition::find;
use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::etcdsnapshot::EtcdSnapshot;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Warden, control_plane, wait_for};

const WITHIN: Duration = Duration::from_secs(10);

async fn served() -> (ControlPlane, Warden) {
    let bed = ControlPlane::start(control_plane::Options::default()).await;
    install_crds(&bed).await;
    let warden = Warden::start(&bed, &["--controllers=backupjob"]).await;
    warden.wait_ready().await;
    (bed, warden)
}

const CLASS: &str = "
apiVersion: backups.cozystack.io/v1alpha1
kind: BackupClass
metadata: {name: NAME}
spec:
  strategies:
  - application: {kind: Etcd}
    strategyRef: {apiGroup: GROUP, kind: Etcd, name: NAME}
    parameters: {bucket: etcd-backups}
";

const STRATEGY: &str = "
apiVersion: GROUP/v1alpha1
kind: Etcd
metadata: {name: NAME}
spec:
  template:
    destination:
      s3:
        endpoint: https://s3.example.org
        bucket: '{{ .Parameters.bucket }}'
        key: '{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/KEY'
        credentialsSecretRef: {name: creds}
";

const SECRET: &str = "
apiVersion: v1
kind: Secret
metadata: {name: creds}
stringData: {AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: key}
";

const CLUSTER: &str = "
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata: {name: etcd}
spec: {version: 3.6.11}
";

const UPSTREAM: &str = "strategy.backups.cozystack.io";
const WARDEN: &str = "strategy.etcd-warden.io";

fn job(name: &str, class: &str) -> String {
    format!(
        "
apiVersion: backups.cozystack.io/v1alpha1
kind: BackupJob
metadata: {{name: {name}}}
spec:
  applicationRef: {{kind: Etcd, name: etcd}}
  backupClassName: {class}
"
    )
}

fn filled(text: &str, group: &str, name: &str, key: &str) -> String {
    text.replace("GROUP", group).replace("NAME", name).replace("KEY", key)
}

async fn mark_available(client: &Client, namespace: &str) {
    let clusters: Api<EtcdCluster> = Api::namespaced(client.clone(), namespace);
    let available = json!({"type": "Available", "status": "True", "reason": "QuorumHealthy", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!({"status": {"conditions": [available]}});
    clusters.patch_status("etcd", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn mark_snapshot(client: &Client, namespace: &str, name: &str, phase: &str, reason: &str) {
    let snapshots: Api<EtcdSnapshot> = Api::namespaced(client.clone(), namespace);
    let ready = if phase == "Complete" { "True" } else { "False" };
    let patch = json!({"status": {
        "phase": phase,
        "artifact": {"uri": format!("s3://etcd-backups/{namespace}/etcd/{name}.db"), "sizeBytes": 20512,
            "checksum": format!("sha256:{}", "0".repeat(64)), "revision": 7, "etcdVersion": "3.6.11"},
        "conditions": [{"type": "Ready", "status": ready, "reason": reason, "message": "as the agent said",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    snapshots.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Waits until condition Ready of the job has this reason.
async fn wait_reason(client: &Client, namespace: &str, name: &str, reason: &str) -> BackupJob {
    let jobs: Api<BackupJob> = Api::namespaced(client.clone(), namespace);
    wait_for(format!("BackupJob {name} to say {reason}"), WITHIN, async || {
        let job = jobs.get(name).await.map_err(|error| error.to_string())?;
        let status = job.status.clone().unwrap_or_default();
        match find(status.conditions.as_deref().unwrap_or_default(), "Ready") {
            Some(ready) if ready.reason == reason => Ok(job),
            _ => Err(format!("{status:?}")),
        }
    })
    .await
}

async fn snapshot_of(client: &Client, namespace: &str, job: &BackupJob) -> EtcdSnapshot {
    let snapshots: Api<EtcdSnapshot> = Api::namespaced(client.clone(), namespace);
    let name = format!("{}-{}", job.name_any(), &job.uid().unwrap()[..8]);
    wait_for(format!("EtcdSnapshot {name}"), WITHIN, async || snapshots.get(&name).await.map_err(|e| e.to_string()))
        .await
}

/// Everything that a job needs, in a namespace of its own.
async fn ground(bed: &ControlPlane, class: &str) -> String {
    let namespace = bed.namespace("backups").await;
    for text in [CLASS, STRATEGY] {
        bed.apply("", &filled(text, UPSTREAM, class, "")).await;
    }
    bed.apply(&namespace, SECRET).await;
    bed.apply(&namespace, CLUSTER).await;
    mark_available(&bed.client().await, &namespace).await;
    namespace
}

/// B14: each end is seen when it comes; the next look by itself at a running snapshot would be after half an hour.
#[tokio::test]
async fn a_job_tells_what_it_waits_for_and_ends_in_a_backup() {
    let (bed, _warden) = served().await;
    let client = bed.client().await;
    let namespace = bed.namespace("backups").await;
    bed.apply(&namespace, &job("nightly", "late")).await;
    let seen = wait_reason(&client, &namespace, "nightly", "BackupClassNotFound").await;
    assert!(seen.status.unwrap().started_at.is_some(), "a wait has a beginning, or it has no end");
    bed.apply("", &filled(CLASS, WARDEN, "late", "")).await;
    wait_reason(&client, &namespace, "nightly", "StrategyNotReady").await;
    bed.apply("", &filled(STRATEGY, WARDEN, "late", "")).await;
    wait_reason(&client, &namespace, "nightly", "CredentialsProjectionPending").await;
    bed.apply(&namespace, SECRET).await;
    wait_reason(&client, &namespace, "nightly", "EtcdClusterNotAvailable").await;
    bed.apply(&namespace, CLUSTER).await;
    mark_available(&client, &namespace).await;
    let running = wait_reason(&client, &namespace, "nightly", "EtcdBackupRunning").await;

    let snapshot = snapshot_of(&client, &namespace, &running).await;
    let s3 = snapshot.spec.destination.s3.clone().unwrap();
    assert_eq!((s3.bucket, s3.key), ("etcd-backups".to_owned(), Some(format!("{namespace}/etcd/"))));
    mark_snapshot(&client, &namespace, &snapshot.name_any(), "Complete", "SnapshotStored").await;
    let done = wait_reason(&client, &namespace, "nightly", "BackupCompleted").await.status.unwrap();
    assert_eq!((done.phase.as_deref(), done.message), (Some("Succeeded"), None));
    assert_eq!(done.backup_ref.unwrap().name, "nightly");

    let backups: Api<Backup> = Api::namespaced(client.clone(), &namespace);
    let backup = backups.get("nightly").await.unwrap();
    assert_eq!(backup.spec.taken_at.unwrap().0.to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(backup.spec.application_ref.api_group.as_deref(), Some("apps.cozystack.io"));
    let status = backup.status.unwrap();
    assert_eq!((status.phase.as_deref(), status.artifact.unwrap().revision), (Some("Ready"), Some(7)));
    assert_eq!(status.underlying_resources.unwrap()["kind"], "EtcdBackupSnapshot");
}

/// B4: a job made anew under an old name takes a backup of its own, and does not succeed with, or fail over, what its
/// namesake left behind.
#[tokio::test]
async fn a_job_made_anew_takes_its_own_backup() {
    let (bed, _warden) = served().await;
    let client = bed.client().await;
    let namespace = ground(&bed, "anew").await;
    let jobs: Api<BackupJob> = Api::namespaced(client.clone(), &namespace);
    let mut taken = Vec::new();
    for round in 0..2 {
        bed.apply(&namespace, &job("nightly", "anew")).await;
        let running = wait_reason(&client, &namespace, "nightly", "EtcdBackupRunning").await;
        let snapshot = snapshot_of(&client, &namespace, &running).await.name_any();
        mark_snapshot(&client, &namespace, &snapshot, "Complete", "SnapshotStored").await;
        let done = wait_reason(&client, &namespace, "nightly", "BackupCompleted").await.status.unwrap();
        let backup = done.backup_ref.unwrap().name;
        assert_eq!(backup, if round == 0 { "nightly".to_owned() } else { snapshot.clone() });
        taken.push((snapshot, backup));
        jobs.delete("nightly", &DeleteParams::default()).await.unwrap();
    }
    assert_ne!(taken[0], taken[1]);
    let backups: Api<Backup> = Api::namespaced(client, &namespace);
    for (snapshot, backup) in taken {
        let metadata = backups.get(&backup).await.unwrap().spec.driver_metadata.unwrap();
        assert_eq!(metadata["etcd.aenix.io/backup-name"], snapshot);
    }
}

/// B8 and B11: failures are told in the words of the template, and of the agent.
#[tokio::test]
async fn failures_are_told_in_their_own_words() {
    let (bed, _warden) = served().await;
    let client = bed.client().await;
    let namespace = ground(&bed, "words").await;
    bed.apply("", &filled(CLASS, UPSTREAM, "broken", "")).await;
    bed.apply("", &filled(STRATEGY, UPSTREAM, "broken", "{{ .Parameters.none }}")).await;
    bed.apply(&namespace, &job("template", "broken")).await;
    let failed = wait_reason(&client, &namespace, "template", "BackupFailed").await.status.unwrap();
    let message = failed.message.unwrap();
    assert!(message.ends_with(".Parameters.none has no value"), "{message}");

    bed.apply(&namespace, &job("agent", "words")).await;
    let running = wait_reason(&client, &namespace, "agent", "EtcdBackupRunning").await;
    let snapshot = snapshot_of(&client, &namespace, &running).await.name_any();
    mark_snapshot(&client, &namespace, &snapshot, "Failed", "StoreAuthFailed").await;
    let failed = wait_reason(&client, &namespace, "agent", "BackupFailed").await.status.unwrap();
    assert_eq!(failed.message.unwrap(), format!("EtcdSnapshot {snapshot} failed: StoreAuthFailed: as the agent said"));
    let backups: Api<Backup> = Api::namespaced(client, &namespace);
    assert_eq!(backups.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 0);
}
