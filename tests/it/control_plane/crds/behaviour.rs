//! What the API server does with objects of ours besides judging them.

use etcd_warden::api::crd;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{installed, object, objects};

const CLUSTER: &str = "EtcdCluster.etcd-operator.cozystack.io";
const MEMBER: &str = "EtcdMember.etcd-operator.cozystack.io";
const SNAPSHOT: &str = "EtcdSnapshot.etcd-operator.cozystack.io";
const BACKUP: &str = "Backup.backups.cozystack.io";
const RESTORE_JOB: &str = "RestoreJob.backups.cozystack.io";

async fn stored(kind: &str, content: Value) -> Value {
    let bed = installed().await;
    let namespace = bed.namespace("behaviour").await;
    let api = objects(bed, kind, &namespace).await;
    let created = api.create(&PostParams::default(), &object(kind, "one", content)).await.unwrap();
    serde_json::to_value(created).unwrap()
}

#[tokio::test]
async fn defaults_appear() {
    let cluster = stored(CLUSTER, json!({"spec": {"version": "3.6.16"}})).await;
    let expected = json!({
        "version": "3.6.16",
        "replicas": 3,
        "progressDeadlineSeconds": 600,
        "storage": {"medium": "", "size": "1Gi"},
    });
    assert_eq!(cluster["spec"], expected);

    let issuer = json!({"spec": {"version": "3.6.16", "tls": {"peer": {"certManager": {"issuerRef": {"name": "i"}}}}}});
    assert_eq!(stored(CLUSTER, issuer).await["spec"]["tls"]["peer"]["certManager"]["issuerRef"]["kind"], "Issuer");

    let storage = json!({"spec": {"version": "3.6.16", "storage": {"storageClassName": "fast"}, "auth": {"rootCredentialsSecretRef": {}}}});
    let cluster = stored(CLUSTER, storage).await;
    assert_eq!(cluster["spec"]["storage"], json!({"medium": "", "size": "1Gi", "storageClassName": "fast"}));
    assert_eq!(cluster["spec"]["auth"]["rootCredentialsSecretRef"], json!({"name": ""}));

    let member = json!({"spec": {"clusterName": "c", "clusterToken": "", "initialCluster": "", "version": "3.6.16", "storage": {}}});
    let member = stored(MEMBER, member).await;
    assert_eq!((&member["spec"]["replicas"], &member["spec"]["storage"]["size"]), (&json!(1), &json!("1Gi")));

    let s3 = json!({"endpoint": "e", "bucket": "b", "credentialsSecretRef": {}, "caSecretRef": {"name": "ca"}});
    let snapshot = stored(SNAPSHOT, json!({"spec": {"clusterRef": {}, "destination": {"s3": s3}}})).await;
    assert_eq!(snapshot["spec"]["clusterRef"], json!({"name": ""}));
    assert_eq!(snapshot["spec"]["destination"]["s3"]["caSecretRef"], json!({"name": "ca", "key": "ca.crt"}));
}

#[tokio::test]
async fn a_null_where_there_is_a_default_takes_the_default() {
    let cluster = stored(CLUSTER, json!({"spec": {"version": "3.6.16", "replicas": Value::Null}})).await;
    assert_eq!(cluster["spec"]["replicas"], 3);
}

#[tokio::test]
async fn a_quantity_stays_as_it_was_written() {
    for size in [json!(1024), json!("1024"), json!("0.5Gi")] {
        let cluster = stored(CLUSTER, json!({"spec": {"version": "3.6.16", "storage": {"size": size}}})).await;
        assert_eq!(cluster["spec"]["storage"]["size"], size);
    }
}

#[tokio::test]
async fn what_no_schema_knows_is_pruned_but_where_anything_goes() {
    let cluster = stored(CLUSTER, json!({"spec": {"version": "3.6.16", "pause": true, "options": {"x": 1}}})).await;
    assert_eq!((&cluster["spec"]["pause"], &cluster["spec"]["options"]), (&Value::Null, &json!({})));

    let options = json!({"restoreTimeoutSeconds": 60, "other": {"deep": [1, "two"]}});
    let job = stored(RESTORE_JOB, json!({"spec": {"backupRef": {"name": "b"}, "options": options, "x": 1}})).await;
    assert_eq!(job["spec"], json!({"backupRef": {"name": "b"}, "options": options}));

    let application = json!({"kind": "Etcd", "name": "etcd"});
    let resources = json!({"kind": "EtcdBackupSnapshot", "destination": {"s3": {"bucket": "b"}}});
    let backup = json!({
        "spec": {"applicationRef": application, "strategyRef": application, "takenAt": "2026-01-01T00:00:00Z"},
        "status": {"phase": "Ready", "underlyingResources": resources, "x": 1},
    });
    let backup = stored(BACKUP, backup).await;
    assert_eq!(backup["status"], json!({"phase": "Ready", "underlyingResources": resources}));
}

#[tokio::test]
async fn a_status_is_written_apart_but_for_backup() {
    let bed = installed().await;
    let namespace = bed.namespace("behaviour").await;
    for crd in crd::all() {
        let kind = format!("{}.{}", crd.spec.names.kind, crd.spec.group);
        let api = objects(bed, &kind, &namespace).await;
        // No kind requires a spec, as upstream's do not.
        let content = json!({"status": {"conditions": []}});
        let created = api.create(&PostParams::default(), &object(&kind, "status-test", content)).await.unwrap();
        let apart = kind != BACKUP;
        assert_eq!(created.data.get("status").is_none(), apart, "{kind}");
        let patch = Patch::Merge(json!({"status": {"conditions": []}}));
        let written = api.patch_status("status-test", &PatchParams::default(), &patch).await;
        match written {
            Ok(object) => assert!(apart && object.data["status"]["conditions"].is_array(), "{kind}"),
            Err(error) => assert!(!apart, "{kind}: {error}"),
        }
        api.delete("status-test", &DeleteParams::default()).await.unwrap();
    }
}

/// M9: what binds a spec does not bind the status that tells of it.
#[tokio::test]
async fn a_status_may_tell_of_smaller_storage_and_another_medium() {
    let bed = installed().await;
    let namespace = bed.namespace("behaviour").await;
    let api = objects(bed, CLUSTER, &namespace).await;
    api.create(&PostParams::default(), &object(CLUSTER, "one", json!({"spec": {"version": "3.6.16"}}))).await.unwrap();
    for storage in
        [json!({"size": "2Gi"}), json!({"size": 1, "medium": "Memory"}), json!({"size": "1Gi", "medium": ""})]
    {
        let status = json!({"status": {"observed": {"replicas": 1, "version": "3.6.16", "storage": storage}}});
        let written = api.patch_status("one", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        assert_eq!(written.data["status"]["observed"]["storage"]["size"], storage["size"]);
    }
}

#[tokio::test]
async fn a_condition_that_the_api_would_refuse_is_refused() {
    let bed = installed().await;
    let namespace = bed.namespace("behaviour").await;
    let api = objects(bed, CLUSTER, &namespace).await;
    api.create(&PostParams::default(), &object(CLUSTER, "one", json!({"spec": {"version": "3.6.16"}}))).await.unwrap();
    let write = async |reason: &str, message: &str| {
        let condition = json!({
            "type": "Available", "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        api.patch_status("one", &PatchParams::default(), &patch).await.is_ok()
    };
    // What `condition::set` makes of any reason and message is what passes here.
    let limit = etcd_warden::api::condition::MESSAGE_LIMIT;
    assert!(write("QuorumHealthy", &"\u{e9}".repeat(limit)).await);
    assert!(!write("QuorumHealthy", &"x".repeat(limit + 1)).await);
    for reason in ["", "A", "a:b,c_", "Cron spec is valid", "A,", "1A", &"A".repeat(1025)] {
        assert_eq!(write(reason, "").await, etcd_warden::api::condition::is_reason(reason), "{reason:?}");
    }
}

#[tokio::test]
async fn clusters_and_members_can_be_scaled_and_counted() {
    let bed = installed().await;
    let namespace = bed.namespace("behaviour").await;
    let api = objects(bed, CLUSTER, &namespace).await;
    api.create(&PostParams::default(), &object(CLUSTER, "one", json!({"spec": {"version": "3.6.16"}}))).await.unwrap();
    let status = Patch::Merge(json!({"status": {"readyMembers": 2, "selector": "a=b"}}));
    api.patch_status("one", &PatchParams::default(), &status).await.unwrap();
    let scale = api.get_scale("one").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    let counted = scale.status.unwrap();
    assert_eq!((counted.replicas, counted.selector.as_deref()), (2, Some("a=b")));
    let grow = Patch::Merge(json!({"spec": {"replicas": 5}}));
    api.patch_scale("one", &PatchParams::default(), &grow).await.unwrap();
    assert_eq!(api.get("one").await.unwrap().data["spec"]["replicas"], 5);
    let refused = Patch::Merge(json!({"spec": {"replicas": -1}}));
    assert!(api.patch_scale("one", &PatchParams::default(), &refused).await.is_err());

    let members = objects(bed, MEMBER, &namespace).await;
    let spec =
        json!({"clusterName": "c", "clusterToken": "", "initialCluster": "", "version": "3.6.16", "storage": {}});
    members.create(&PostParams::default(), &object(MEMBER, "one-a", json!({"spec": spec}))).await.unwrap();
    assert_eq!(members.get_scale("one-a").await.unwrap().spec.unwrap().replicas, Some(1));
    assert!(members.patch_scale("one-a", &PatchParams::default(), &grow).await.is_err(), "a member is one");
}

#[tokio::test]
async fn jobs_backups_and_plans_are_found_by_their_application() {
    let bed = installed().await;
    let namespace = bed.namespace("behaviour").await;
    let application = |name: &str| json!({"apiGroup": "apps.cozystack.io", "kind": "Etcd", "name": name});
    let kinds = ["BackupJob.backups.cozystack.io", BACKUP, "Plan.backups.cozystack.io"];
    for kind in kinds {
        let api = objects(bed, kind, &namespace).await;
        for name in ["etcd", "other"] {
            let spec = json!({
                "applicationRef": application(name), "strategyRef": application("s"), "backupClassName": "c",
                "takenAt": "2026-01-01T00:00:00Z", "schedule": {},
            });
            api.create(&PostParams::default(), &object(kind, name, json!({"spec": spec}))).await.unwrap();
        }
        let selector = "spec.applicationRef.name=etcd,spec.applicationRef.kind=Etcd,spec.applicationRef.apiGroup=apps.cozystack.io";
        let found = api.list(&kube::api::ListParams::default().fields(selector)).await.unwrap();
        let names: Vec<_> = found.items.iter().filter_map(|object| object.metadata.name.as_deref()).collect();
        assert_eq!(names, ["etcd"], "{kind}");
    }
}
