//! Backup and restore with every controller of ours, and with real etcd, etcdutl, agent and S3 processes.

use std::time::Duration;

use etcd_warden::api::condition::find;
use etcd_warden::api::restorejob::RestoreJobStatus;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use object_store::ObjectStoreExt;
use serde_json::json;

use super::restore_stage::{Stage, plane};
use crate::bed::stand_in::plane::s3;
use crate::bed::wait_for;

fn condition<'a>(status: &'a RestoreJobStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
    let found = find(status.conditions.as_deref().unwrap_or_default(), type_);
    let found = found.unwrap_or_else(|| panic!("no condition {type_}: {status:?}"));
    (&found.status, &found.reason, &found.message)
}

/// R2, R6, R11, R13, B3, S6: everything of the old cluster is gone before the new one is made, all of it comes back from a
/// store behind a private authority, the revision does not go back, and only proven data is a success.
#[tokio::test]
async fn what_was_backed_up_comes_back_and_what_came_later_is_gone() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let stage = Stage::set(&plane).await;
    let old = stage.cluster(1).await;
    stage.back_up().await;
    let before: i64 = revision(&stage).await;
    stage.ask("r", &json!({})).await;
    let done = stage.end("r").await;
    assert_eq!(done.phase.as_deref(), Some("Succeeded"), "{done:?}");
    let rehearsed = condition(&done, "Preflighted").2;
    assert!(rehearsed.contains("1 keys"), "{rehearsed}");
    let hash = rehearsed.split("hash ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(condition(&done, "Verified").2.contains(&format!("hash {hash} as rehearsed")), "{done:?}");
    let proof = done.proof.clone().unwrap();
    let (found, live) = (proof.rehearsed.unwrap(), proof.live.unwrap());
    assert_eq!((found.hash_kv, found.keys), (i64::from_str_radix(hash, 16).ok(), Some(1)), "{done:?}");
    assert_eq!((live.hash_kv, live.members, live.replicas), (found.hash_kv, Some(1), Some(1)), "{done:?}");
    let progress = done.progress.clone().unwrap();
    assert!(progress.snapshot_bytes > Some(0) && progress.safety_snapshot_bytes > Some(0), "{done:?}");
    assert!(progress.rehearsed_bytes > Some(0) && progress.rehearsed_bytes == progress.restored_bytes, "{done:?}");
    assert!(done.outage_seconds.is_some_and(|seconds| seconds < 60), "{done:?}");
    assert!(done.plan.as_ref().is_some_and(|plan| plan.replicas == Some(1) && plan.steps.is_some()), "{done:?}");
    assert_eq!(condition(&done, "SafetySnapshotTaken").1, "SafetySnapshotStored");
    assert_eq!(condition(&done, "VolumeKept").1, "VolumesKept");

    let new = stage.ready_cluster().await;
    assert_ne!(new.uid(), old.uid());
    assert_eq!(new.labels()["app"], "etcd");
    assert_eq!(stage.is_old().await, Ok(true));
    // S6: the revision never goes back for clients.
    assert!(revision(&stage).await > before + 900_000, "the revision is raised beyond {before}");
    assert_eq!(stage.suspended().await, Some(false), "the release is as it was found");
    // The old volume outlives the old cluster, for a day.
    let kept =
        stage.claims().list(&ListParams::default().labels("etcd-warden.io/restore-job-uid")).await.unwrap().items;
    assert_eq!(kept.len(), 1);
    assert!(kept[0].annotations().contains_key("etcd-warden.io/keep-until"));
    assert_eq!(kept[0].owner_references(), []);
    assert!(!kept[0].labels().contains_key("etcd-operator.cozystack.io/cluster"));

    // The same Backup once more, over the restored cluster.
    stage.write_later().await;
    let before = revision(&stage).await;
    stage.ask("again", &json!({"safetySnapshot": "Never"})).await;
    let done = stage.end("again").await;
    assert_eq!(done.phase.as_deref(), Some("Succeeded"), "{done:?}");
    assert!(done.message.unwrap().contains("no snapshot of the old data"));
    assert_eq!(stage.is_old().await, Ok(true));
    assert!(revision(&stage).await > before + 900_000);
}

/// M5: the passwords come back with the data, and nobody but root with its password is let in, us included.
#[tokio::test]
async fn a_cluster_that_asks_for_a_password_comes_back_and_asks_for_it() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let stage = Stage::set_secured(&plane).await;
    let old = stage.cluster(3).await;
    stage.back_up().await;
    stage.ask("r", &json!({})).await;
    let new = stage.restored("r", &old).await;
    assert_eq!(new.status.unwrap().auth_enabled, Some(true));
    let stranger = plane.etcdctl(&stage.pod().await.unwrap(), &["get", "key"]).await;
    assert!(stranger.is_err_and(|why| why.contains("user name is empty")));

    // Rolled back, the old data asks for it, too.
    stage.write_later().await;
    stage.ask("aborted", &json!({})).await;
    stage.gone(&stage.ready_cluster().await).await;
    stage.annotate("aborted", "etcd-warden.io/abort", "true").await;
    let failed = stage.end("aborted").await;
    assert!(failed.message.as_ref().unwrap().starts_with("rolled back"), "{failed:?}");
    assert_eq!(stage.ready_cluster().await.status.unwrap().auth_enabled, Some(true));
    assert_eq!(stage.is_old().await, Ok(false));
}

async fn revision(stage: &Stage<'_>) -> i64 {
    let said = stage.etcdctl(&["endpoint", "status", "--write-out=json"]).await;
    let status: serde_json::Value = serde_json::from_str(&said).unwrap();
    status[0]["Status"]["header"]["revision"].as_i64().unwrap()
}

/// R1 and S1: an object that is no longer what was stored is found out while the old cluster still serves.
#[tokio::test]
async fn a_corrupted_object_leaves_the_cluster_serving() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let stage = Stage::set(&plane).await;
    let old = stage.cluster(1).await;
    stage.back_up().await;
    let store = s3().await.store(&stage.namespace);
    let object = store.list(None).next().await.unwrap().unwrap().location;
    let mut bytes = store.get(&object).await.unwrap().bytes().await.unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0xff);
    store.put(&object, bytes.into()).await.unwrap();
    stage.ask("r", &json!({})).await;
    let failed = stage.end("r").await;
    let message = failed.message.unwrap();
    assert_eq!(failed.phase.as_deref(), Some("Failed"), "{message}");
    assert!(message.contains("ChecksumMismatch") && message.contains("was not touched"), "{message}");
    assert_eq!(stage.ready_cluster().await.uid(), old.uid());
    assert_eq!(stage.is_old().await, Ok(false));
}

/// R2, R8: a restore that is aborted, or whose RestoreJob is deleted, after the old cluster is gone puts the old data
/// back from the kept volume.
#[tokio::test]
async fn an_aborted_or_deleted_restore_puts_the_old_data_back() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let stage = Stage::set(&plane).await;
    let mut old = stage.cluster(1).await;
    stage.back_up().await;
    stage.ask("aborted", &json!({})).await;
    stage.gone(&old).await;
    stage.annotate("aborted", "etcd-warden.io/abort", "true").await;
    let failed = stage.end("aborted").await;
    let message = failed.message.clone().unwrap();
    assert_eq!(failed.phase.as_deref(), Some("Failed"), "{message}");
    assert!(message.starts_with("rolled back to the old data in volume data-etcd-"), "{message}");
    assert_eq!(condition(&failed, "RolledBack").0, "True");
    assert_eq!(stage.is_old().await, Ok(false), "nothing of the old data is lost");
    assert_eq!(stage.suspended().await, Some(false));

    old = stage.ready_cluster().await;
    stage.ask("deleted", &json!({"safetySnapshot": "Never"})).await;
    stage.gone(&old).await;
    stage.restores().delete("deleted", &DeleteParams::default()).await.unwrap();
    wait_for("the job to go", super::restore_stage::WITHIN, async || match stage.restores().get_opt("deleted").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_ne!(stage.ready_cluster().await.uid(), old.uid());
    assert_eq!(stage.is_old().await, Ok(false));
    assert_eq!(stage.suspended().await, Some(false));
    // The record of the old cluster outlives the job.
    let records: Api<ControllerRevision> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let records = records.list(&ListParams::default()).await.unwrap().items;
    assert!(records.iter().any(|record| record.name_any().ends_with("-capture")), "{records:?}");
}

/// R2: where the kept volume is no good either, the safety snapshot is put back.
#[tokio::test]
async fn without_a_volume_the_safety_snapshot_is_put_back() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let stage = Stage::set(&plane).await;
    let old = stage.cluster(1).await;
    stage.back_up().await;
    stage.ask("r", &json!({"onFailure": "Hold"})).await;
    stage.gone(&old).await;
    // Somebody deletes the kept volume while there is no cluster.
    let kept =
        stage.claims().list(&ListParams::default().labels("etcd-warden.io/restore-job-uid")).await.unwrap().items;
    for claim in &kept {
        let free = json!({"metadata": {"finalizers": null}});
        stage.claims().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        // Gone at once where nothing held it.
        if let Err(error) = stage.claims().patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(free)).await
        {
            assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
        }
    }
    assert_eq!(kept.len(), 1);
    stage.annotate("r", "etcd-warden.io/abort", "true").await;
    let failed = stage.end("r").await;
    let message = failed.message.unwrap();
    assert_eq!(failed.phase.as_deref(), Some("Failed"), "{message}");
    assert!(message.starts_with("rolled back to the old data of s3://"), "{message}");
    assert_eq!(stage.is_old().await, Ok(false));
}

/// Three members: all of them are proven, and the volume of one outlives the purge.
#[tokio::test]
async fn three_members_come_back_and_are_proven() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let stage = Stage::set(&plane).await;
    let old = stage.cluster(3).await;
    stage.back_up().await;
    stage.ask("r", &json!({})).await;
    stage.restored("r", &old).await;
    let kept = ListParams::default().labels("etcd-warden.io/restore-job-uid");
    assert_eq!(stage.claims().list(&kept).await.unwrap().items.len(), 1);
    assert_eq!(stage.claims().list(&ListParams::default()).await.unwrap().items.len(), 4);
}

/// The controllers are killed again and again while the cluster is made anew.
#[tokio::test]
async fn a_restore_outlives_killed_controllers() {
    let plane = plane().await;
    let mut serve = plane.serve(&[]).await;
    let stage = Stage::set(&plane).await;
    let old = stage.cluster(1).await;
    stage.back_up().await;
    stage.ask("r", &json!({})).await;
    for pause in [300, 900, 1500, 2100, 2700] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        serve.process.kill().await;
        plane.release_lease().await;
        serve = plane.serve(&[]).await;
    }
    stage.restored("r", &old).await;
}
