//! What people and machines do to a restore while it goes on. Each ends in a named, safe state: restored, rolled back, or
//! left alone; judged by etcd's keys and live objects.

use std::time::Duration;

use etcd_warden::api::backup::Backup;
use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::etcdmember::EtcdMember;
use etcd_warden::api::restorejob::RestoreJobStatus;
use etcd_warden::api::strategy;
use futures::StreamExt;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use object_store::ObjectStoreExt;
use object_store::path::Path as ObjectPath;
use serde_json::json;

use super::restore_stage::{Stage, WITHIN, plane, releases};
use crate::bed::api_server::Identity;
use crate::bed::stand_in::Plane;
use crate::bed::stand_in::plane::{S3_SECRET, s3};
use crate::bed::wait_for;

async fn ready(plane: &Plane) -> (Stage<'_>, EtcdCluster) {
    let stage = Stage::set(plane).await;
    let old = stage.cluster(1).await;
    stage.back_up().await;
    (stage, old)
}

fn told(status: &RestoreJobStatus) -> (&str, &str) {
    (status.phase.as_deref().unwrap_or_default(), status.message.as_deref().unwrap_or_default())
}

/// Failed, with this said, and the old cluster as it was.
async fn left_alone(stage: &Stage<'_>, job: &str, old: &EtcdCluster, said: &str) {
    let status = stage.end(job).await;
    let (phase, message) = told(&status);
    assert!(phase == "Failed" && message.contains(said), "{job}: {phase}: {message}");
    assert_eq!(stage.ready_cluster().await.uid(), old.uid(), "{job}");
    assert_eq!(stage.is_old().await, Ok(false), "{job}");
    assert_eq!(stage.suspended().await, Some(false), "{job}");
}

async fn rolled_back(stage: &Stage<'_>, job: &str, old: &EtcdCluster, said: &str) {
    let status = stage.end(job).await;
    let (phase, message) = told(&status);
    let good = phase == "Failed" && message.starts_with("rolled back") && message.contains(said);
    assert!(good, "{job}: {phase}: {message}");
    assert_ne!(stage.ready_cluster().await.uid(), old.uid(), "{job}");
    assert_eq!(stage.is_old().await, Ok(false), "{job}");
    assert_eq!(stage.suspended().await, Some(false), "{job}");
}

/// R1, R3, R5: what is wrong with the stored object, its credentials, the Backup, or the room for it is found out before
/// anything is touched.
#[tokio::test]
async fn what_is_wrong_before_the_deletion_leaves_the_cluster_alone() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    let store = s3().await.store(&stage.namespace);
    let object = store.list(None).next().await.unwrap().unwrap().location;
    let whole = store.get(&object).await.unwrap().bytes().await.unwrap();

    store.put(&object, whole.slice(..whole.len() / 2).into()).await.unwrap();
    stage.ask("truncated", &json!({})).await;
    left_alone(&stage, "truncated", &old, "SizeMismatch").await;
    let mut swapped = whole.to_vec();
    swapped.reverse();
    store.put(&object, swapped.into()).await.unwrap();
    stage.ask("swapped", &json!({})).await;
    left_alone(&stage, "swapped", &old, "ChecksumMismatch").await;
    store.delete(&object).await.unwrap();
    stage.ask("deleted", &json!({})).await;
    left_alone(&stage, "deleted", &old, "ObjectNotFound").await;
    store.put(&object, whole.into()).await.unwrap();

    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let good = secrets.get(S3_SECRET).await.unwrap();
    let bad = json!({"stringData": {"AWS_SECRET_ACCESS_KEY": "revoked"}});
    secrets.patch(S3_SECRET, &PatchParams::default(), &Patch::Merge(bad)).await.unwrap();
    stage.ask("revoked", &json!({})).await;
    left_alone(&stage, "revoked", &old, "StoreAuthFailed").await;
    let good = json!({"data": good.data});
    secrets.patch(S3_SECRET, &PatchParams::default(), &Patch::Merge(good)).await.unwrap();

    // R3: what the quota cannot hold, the target's edited spec says, not the object.
    let quota = |quota: Option<i64>| Patch::Merge(json!({"spec": {"options": {"quotaBackendBytes": quota}}}));
    stage.clusters().patch("etcd", &PatchParams::default(), &quota(Some(10_000))).await.unwrap();
    stage.ask("too-large", &json!({"dryRun": true})).await;
    left_alone(&stage, "too-large", &old, "quotaBackendBytes of EtcdCluster etcd is 10000").await;
    stage.clusters().patch("etcd", &PatchParams::default(), &quota(None)).await.unwrap();

    // Once all is well again, the very same Backup restores.
    stage.ask("well", &json!({})).await;
    stage.restored("well", &old).await;
}

/// R5, R10, R15: the Backup deleted, its object deleted after the rehearsal's inputs were read, the release resumed by
/// another, and a second RestoreJob change nothing in a restore that goes on.
#[tokio::test]
async fn what_happens_beside_a_restore_does_not_disturb_it() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    let backups: Api<Backup> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let backup = backups.get("b").await.unwrap();
    stage.ask("first", &json!({})).await;
    stage.wait("first", "begins", |status| status.step.is_some()).await;
    // By a direct write, past admission's cache: the controller itself decides.
    let second = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob",
        "metadata": {"name": "second"}, "spec": {"backupRef": {"name": "b"}}});
    let denied = stage.plane.api.try_apply(&stage.client, &stage.namespace, &second.to_string()).await;
    if let Err(denied) = &denied {
        assert!(denied.to_string().contains("first"), "{denied}");
    }
    backups.delete("b", &DeleteParams::default()).await.unwrap();
    stage.gone(&old).await;
    let resume = json!({"spec": {"suspend": false}});
    releases(&stage.client, &stage.namespace)
        .patch("etcd", &PatchParams::default(), &Patch::Merge(resume))
        .await
        .unwrap();
    stage.restored("first", &old).await;
    if denied.is_ok() {
        let status = stage.end("second").await;
        assert!(told(&status).1.contains("first"), "{status:?}");
    }
    // The Backup is a record of what is stored, and can be made again.
    let mut again = Backup::new("b", backup.spec.clone());
    again.status = backup.status.clone();
    backups.create(&PostParams::default(), &again).await.unwrap();
    let old = stage.ready_cluster().await;
    stage.write_later().await;
    stage.ask("again", &json!({})).await;
    stage.restored("again", &old).await;
}

/// R2, R7: the new cluster deleted, the target version's image gone, and time that runs out put the old data back.
#[tokio::test]
async fn what_goes_wrong_after_the_deletion_is_rolled_back() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, mut old) = ready(&plane).await;
    // Somebody deletes the new cluster.
    stage.ask("deleted", &json!({})).await;
    // Before it is on record as made it would only be made again.
    reaches(&stage, "deleted", "Recreated").await;
    stage.clusters().delete("etcd", &DeleteParams::default()).await.unwrap();
    rolled_back(&stage, "deleted", &old, "deleted by somebody else").await;

    // The image is gone as soon as the old cluster is, and comes back when the time of the restore is over.
    old = stage.ready_cluster().await;
    let image = format!("quay.io/coreos/etcd:v{}", old.spec.version);
    stage.ask("imageless", &json!({"restoreTimeoutSeconds": 40, "safetySnapshot": "Never"})).await;
    stage
        .wait("imageless", "keeps the volume", |status| {
            status.conditions.iter().flatten().any(|condition| condition.type_ == "VolumeKept")
        })
        .await;
    plane.kubelet.withdraw_image(&image);
    stage
        .wait("imageless", "rolls back", |status| {
            matches!(status.step.as_deref(), Some("RollingBack")) || status.completed_at.is_some()
        })
        .await;
    plane.kubelet.offer_image(&image);
    rolled_back(&stage, "imageless", &old, "did not end within 40 s").await;
}

/// R1, R11: an object that is swapped for another whole snapshot after the rehearsal is refused before an etcd boots on it,
/// by its recorded checksum; where none is on record, by the proof.
#[tokio::test]
async fn data_that_the_proof_refuses_is_rolled_back() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, mut old) = ready(&plane).await;
    let store = s3().await.store(&stage.namespace);
    let first = store.list(None).next().await.unwrap().unwrap().location;
    let whole = store.get(&first).await.unwrap().bytes().await.unwrap();
    let other = snapshot_of_other_data(&stage).await;
    swapped_after_the_rehearsal(&stage, "summed", &first, &other).await;
    rolled_back(&stage, "summed", &old, "ChecksumMismatch").await;

    store.put(&first, whole.into()).await.unwrap();
    old = stage.ready_cluster().await;
    let unknown = json!({"status": {"artifact": {"checksum": null, "sizeBytes": null}}});
    let backups: Api<Backup> = Api::namespaced(stage.client.clone(), &stage.namespace);
    backups.patch("b", &PatchParams::default(), &Patch::Merge(unknown)).await.unwrap();
    swapped_after_the_rehearsal(&stage, "refused", &first, &other).await;
    rolled_back(&stage, "refused", &old, "the proof failed").await;
}

async fn swapped_after_the_rehearsal(stage: &Stage<'_>, job: &str, object: &ObjectPath, other: &[u8]) {
    stage.ask(job, &json!({"safetySnapshot": "Never"})).await;
    reaches(stage, job, "Preflighted").await;
    s3().await.store(&stage.namespace).put(object, other.to_vec().into()).await.unwrap();
}

async fn reaches(stage: &Stage<'_>, job: &str, step: &str) {
    stage
        .wait(job, &format!("reaches {step}"), |status| {
            status.conditions.iter().flatten().any(|condition| condition.type_ == step)
        })
        .await;
}

/// R5, R13: the strategy edited in the middle changes nothing; the target edited before it is recorded comes back as it
/// was edited, or is left alone; later the guard keeps others from editing it.
#[tokio::test]
async fn what_is_edited_in_the_middle_is_kept_refused_or_of_no_account() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    let merge = PatchParams::default();
    let strategies: Api<strategy::Etcd> = Api::all(stage.client.clone());
    let good = strategies.get(&stage.namespace).await.unwrap().spec.template.destination.s3.unwrap();
    let edit = |bucket: &str| Patch::Merge(json!({"spec": {"template": {"destination": {"s3": {"bucket": bucket}}}}}));
    stage.ask("strategy", &json!({})).await;
    reaches(&stage, "strategy", "Validated").await;
    strategies.patch(&stage.namespace, &merge, &edit("elsewhere")).await.unwrap();
    stage.restored("strategy", &old).await;
    strategies.patch(&stage.namespace, &merge, &edit(&good.bucket)).await.unwrap();

    stage.write_later().await;
    stage.ask("early", &json!({"safetySnapshot": "Never"})).await;
    reaches(&stage, "early", "Validated").await;
    let label = Patch::Merge(
        json!({"metadata": {"labels": {"edited": "early"}}, "spec": {"options": {"snapshotCount": 5000}}}),
    );
    stage.clusters().patch("etcd", &merge, &label).await.unwrap();
    let status = stage.end("early").await;
    // Unless the edit came right between the recording and the deletion, which leaves the cluster alone.
    let new = stage.ready_cluster().await;
    let count = new.spec.options.as_ref().and_then(|options| options.snapshot_count);
    assert_eq!((new.labels()["edited"].as_str(), count), ("early", Some(5000)));
    match told(&status) {
        ("Succeeded", _) => assert_eq!(stage.is_old().await, Ok(true)),
        ("Failed", message) => assert!(message.contains("was edited"), "{message}"),
        other => panic!("{other:?}"),
    }

    let old = stage.ready_cluster().await;
    if stage.is_old().await == Ok(true) {
        stage.write_later().await;
    }
    // Without an image the new cluster waits, guarded.
    let image = format!("quay.io/coreos/etcd:v{}", old.spec.version);
    stage.ask("late", &json!({"safetySnapshot": "Never"})).await;
    reaches(&stage, "late", "VolumeKept").await;
    plane.kubelet.withdraw_image(&image);
    reaches(&stage, "late", "Recreated").await;
    let edit = Patch::Merge(json!({"spec": {"options": {"snapshotCount": 6000}}}));
    let denied = somebody(&stage).await.patch("etcd", &merge, &edit).await.unwrap_err().to_string();
    plane.kubelet.offer_image(&image);
    assert!(denied.contains("late"), "{denied}");
    stage.restored("late", &old).await;
}

/// The clusters in the hands of somebody who may do anything and is not us.
async fn somebody(stage: &Stage<'_>) -> Api<EtcdCluster> {
    let who = Identity::User { name: "somebody".to_owned(), groups: vec!["system:masters".to_owned()] };
    Api::namespaced(stage.plane.api.client_as(&who).await, &stage.namespace)
}

/// R17: a Pod whose node is lost is named with its node and what to do, and the restore goes on when the node is back.
#[tokio::test]
async fn a_pod_on_a_lost_node_is_named() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let pod = stage.pod().await.unwrap().name_any();
    let hold = json!({"metadata": {"finalizers": ["test.io/hold"]}});
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(hold)).await.unwrap();
    stage.ask("lost", &json!({"safetySnapshot": "Never"})).await;
    reaches(&stage, "lost", "VolumeKept").await;
    plane.kubelet.set_node_ready(false).await;
    let waiting = stage
        .wait("lost", "names Pod and node", |status| {
            status.conditions.iter().flatten().any(|condition| condition.reason == "NodeLost")
        })
        .await;
    let ready = waiting.conditions.iter().flatten().find(|condition| condition.type_ == "Ready").unwrap();
    assert!(ready.message.contains(&format!("Pod {pod} ")) && ready.message.contains("stand-in"), "{}", ready.message);
    plane.kubelet.set_node_ready(true).await;
    let free = json!({"metadata": {"finalizers": null}});
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    stage.restored("lost", &old).await;
}

/// R10: an empty cluster that something renders past the guard in the middle of a restore is deleted, and the restored one
/// takes its place.
#[tokio::test]
async fn an_empty_cluster_that_is_rendered_meanwhile_makes_room() {
    let plane = plane().await;
    let serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    stage.ask("r", &json!({"safetySnapshot": "Never"})).await;
    reaches(&stage, "r", "VolumeKept").await;
    // Nobody is asked: neither we nor the configuration that names us are there.
    serve.process.kill().await;
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    hooks.delete("etcd-warden", &DeleteParams::default()).await.unwrap();
    let clusters = stage.clusters();
    if clusters.get_opt("etcd").await.unwrap().is_some_and(|cluster| cluster.uid() == old.uid()) {
        clusters.delete("etcd", &DeleteParams::background()).await.unwrap();
    }
    stage.gone(&old).await;
    if clusters.get_opt("etcd").await.unwrap().is_none() {
        let mut empty = EtcdCluster::new("etcd", old.spec.clone());
        empty.spec.bootstrap = None;
        clusters.create(&PostParams::default(), &empty).await.unwrap();
    }
    plane.release_lease().await;
    let _serve = plane.serve(&[]).await;
    stage.restored("r", &old).await;
}

/// A whole, sound snapshot of what is there now.
async fn snapshot_of_other_data(stage: &Stage<'_>) -> Vec<u8> {
    let file = stage.plane.api.folder().join(format!("other-{}.db", stage.namespace));
    let path = file.display().to_string();
    stage.etcdctl(&["snapshot", "save", &path]).await;
    std::fs::read(&file).expect("the snapshot")
}

/// R8: a RestoreJob that is deleted by force, past its finalizer, at every step: the restore is brought to an end by
/// another job, and the release is as it was found.
#[tokio::test]
async fn a_job_deleted_by_force_at_any_step_strands_nothing() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, _) = ready(&plane).await;
    for step in [
        "Validated",
        "Preflighted",
        "SafetySnapshotTaken",
        "Suspended",
        "EtcdClusterSpecCaptured",
        "VolumeKept",
        "TargetPurged",
        "Recreated",
    ] {
        let name = format!("at-{}", step.to_lowercase());
        stage.ask(&name, &json!({})).await;
        force_delete_at(&stage, &name, step).await;
        // Either nothing had been done, or an heir brings it to an end; in both cases all jobs end.
        wait_for(format!("{name}: every RestoreJob to end"), WITHIN, async || {
            let jobs = stage.restores().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let open: Vec<String> = jobs
                .iter()
                .filter(|job| {
                    !job.finalizers().is_empty() || job.status.as_ref().is_none_or(|s| s.completed_at.is_none())
                })
                .map(|job| format!("{}: {:?}", job.name_any(), job.status))
                .collect();
            let suspended = stage.suspended().await == Some(true);
            if open.is_empty() && !suspended { Ok(()) } else { Err(format!("{open:?}, suspended: {suspended}")) }
        })
        .await;
        stage.ready_cluster().await;
        // The job that is deleted the moment after the proof has restored.
        if stage.is_old().await.unwrap_or_else(|why| panic!("{step}: {why}")) {
            assert_eq!(step, "Recreated");
            stage.write_later().await;
        }
    }
}

async fn force_delete_at(stage: &Stage<'_>, name: &str, step: &str) {
    wait_for(format!("{name} to reach {step}"), WITHIN, async || {
        let job = stage.restores().get(name).await.map_err(|error| error.to_string())?;
        let status = job.status.unwrap_or_default();
        let reached = status.conditions.iter().flatten().any(|condition| condition.type_ == step);
        if reached || status.completed_at.is_some() { Ok(()) } else { Err(format!("{:?}", status.step)) }
    })
    .await;
    let free = json!({"metadata": {"finalizers": null}});
    stage.restores().delete(name, &DeleteParams::default()).await.unwrap();
    let _ = stage.restores().patch(name, &PatchParams::default(), &Patch::Merge(free)).await;
}

/// R7, R17: a member's finalizer that nobody serves, and a Pod that does not go, hold the restore up, but do not end it
/// in an empty place.
#[tokio::test]
async fn what_is_stuck_is_named_and_waited_for() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let pod = stage.pod().await.unwrap().name_any();
    let hold = json!({"metadata": {"finalizers": ["test.io/hold"]}});
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(hold)).await.unwrap();
    stage.ask("held", &json!({})).await;
    let waiting = stage
        .wait("held", "names what is stuck", |status| {
            let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
            ready.is_some_and(|ready| ready.reason == "EtcdClusterPurging" && ready.message.contains("is going"))
        })
        .await;
    assert_eq!(waiting.phase.as_deref(), Some("Running"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(stage.restores().get("held").await.unwrap().status.unwrap().completed_at.is_none());
    let free = json!({"metadata": {"finalizers": null}});
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    stage.restored("held", &old).await;
}

/// A quorum-less source: the only member's etcd is dead. Nothing can be snapshot, all volumes are kept, and it restores.
#[tokio::test]
async fn a_cluster_without_a_quorum_and_one_that_is_missing_are_restored() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    let claim = stage.claims().list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    plane.kubelet.empty_volume(&stage.namespace, &claim).await;
    let pod = stage.pod().await.unwrap().name_any();
    plane.kubelet.kill(&stage.namespace, &pod, "etcd").await;
    wait_for("the EtcdCluster to be unavailable", WITHIN, async || {
        let cluster = stage.clusters().get("etcd").await.map_err(|error| error.to_string())?;
        let status = cluster.status.unwrap_or_default();
        if status.ready_members == Some(0) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    stage.ask("dead", &json!({})).await;
    stage.restored("dead", &old).await;

    // The object itself is gone: an earlier restore remembers it.
    let old = stage.ready_cluster().await;
    stage.clusters().delete("etcd", &DeleteParams::foreground()).await.unwrap();
    stage.gone(&old).await;
    stage.ask("missing", &json!({})).await;
    stage.restored("missing", &old).await;
    let members: Api<EtcdMember> = Api::namespaced(stage.client.clone(), &stage.namespace);
    assert_eq!(members.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

/// Kept volumes go when their time is over, and not before.
#[tokio::test]
async fn a_kept_volume_goes_when_its_time_is_over() {
    let plane = plane().await;
    let serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    stage.ask("r", &json!({"keepOldVolume": "1s", "safetySnapshot": "Never"})).await;
    stage.restored("r", &old).await;
    let kept = ListParams::default().labels("etcd-warden.io/restore-job-uid");
    let found: Vec<PersistentVolumeClaim> = stage.claims().list(&kept).await.unwrap().items;
    assert_eq!(found.len(), 1);
    // Its time is over, and a leader that begins sweeps at once.
    tokio::time::sleep(Duration::from_secs(2)).await;
    serve.process.kill().await;
    plane.release_lease().await;
    let _serve = plane.serve(&[]).await;
    wait_for("the kept volume to go", WITHIN, async || {
        let left = stage.claims().list(&kept).await.map_err(|error| error.to_string())?.items.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} left")) }
    })
    .await;
    assert_eq!(stage.is_old().await, Ok(true));
}

/// Another program that is back at work in mid-restore fails a job that it does not understand.
#[tokio::test]
async fn an_end_that_another_program_writes_in_mid_restore_ends_nothing() {
    let plane = plane().await;
    let _serve = plane.serve(&[]).await;
    let (stage, old) = ready(&plane).await;
    stage.ask("r", &json!({})).await;
    stage.gone(&old).await;
    let failed = json!({"status": {"phase": "Failed", "message": "no such strategy",
        "completedAt": "2026-01-01T00:00:00Z"}});
    stage.restores().patch_status("r", &PatchParams::default(), &Patch::Merge(failed)).await.unwrap();
    let ended = |status: &RestoreJobStatus| told(status).0 == "Succeeded";
    stage.wait("r", "goes on to its own end", ended).await;
    stage.restored("r", &old).await;
}

/// Neither a volume that cannot be deleted nor records of a newer version hold up what else was left behind.
#[tokio::test]
async fn what_cannot_be_swept_holds_up_nothing_else() {
    let plane = plane().await;
    let stage = Stage::set(&plane).await;
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "stuck"}, "spec": {
            "validations": [{"expression": "oldObject.metadata.name != 'stuck'"}],
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["DELETE"], "resources": ["persistentvolumeclaims"]}]}}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "stuck"}, "spec": {"policyName": "stuck", "validationActions": ["Deny"]}});
    plane.api.apply("", &format!("{policy}\n---\n{binding}\n")).await;
    for name in ["stuck", "expired"] {
        stage
            .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name,
                "labels": {"etcd-warden.io/restore-job-uid": name},
                "annotations": {"etcd-warden.io/keep-until": "2026-01-01T00:00:00Z"}}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
            .await;
    }
    for (uid, fact) in [("newer", "ofANewerVersion"), ("lost", "inputs")] {
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {"name": uid, "labels": {"etcd-warden.io/restore-job-uid": uid}},
            "data": {"fact": fact, "job": uid, "backup": "b"}});
        stage.apply(&revision).await;
    }
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    wait_for("the policy to be in force", WITHIN, async || match stage.claims().delete("stuck", &dry).await {
        Err(kube::Error::Api(status)) if status.code == 422 || status.code == 403 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let _serve = plane.serve(&[]).await;
    wait_for("the other volume to go, and the lost restore to be ended", WITHIN, async || {
        let expired = stage.claims().get_opt("expired").await.map_err(|error| error.to_string())?;
        let jobs = stage.restores().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let continues: Vec<_> =
            jobs.iter().filter_map(|job| job.annotations().get("etcd-warden.io/continues")).collect();
        // A claim without Pods still has its protection's finalizer where nobody serves that.
        let going = expired.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some());
        if going && continues == ["lost"] { Ok(()) } else { Err(format!("{going} {continues:?}")) }
    })
    .await;
    assert!(stage.claims().get("stuck").await.unwrap().metadata.deletion_timestamp.is_none());
}
