//! Admission, asked by a real API server.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use serde_json::{Value, json};

use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Identity, Warden, wait_for};

/// A control plane with our definitions and a server that has registered itself.
async fn served() -> (ControlPlane, Warden) {
    let bed = ControlPlane::start(crate::bed::control_plane::Options::default()).await;
    install_crds(&bed).await;
    let warden = Warden::start(&bed, &[]).await;
    warden.wait_ready().await;
    warden.wait_enforced(&bed.client().await).await;
    (bed, warden)
}

const PLURALS: [(&str, &str); 6] = [
    ("Etcd", "etcds"),
    ("EtcdCluster", "etcdclusters"),
    ("BackupClass", "backupclasses"),
    ("BackupJob", "backupjobs"),
    ("Backup", "backups"),
    ("RestoreJob", "restorejobs"),
];

async fn create(client: &Client, object: &Value) -> Result<Value, Status> {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = object["kind"].as_str().unwrap();
    let plural = PLURALS.iter().find(|(known, _)| *known == kind).unwrap().1;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    match api.create(&PostParams::default(), &typed).await {
        Ok(created) => Ok(serde_json::to_value(created).unwrap()),
        Err(kube::Error::Api(status)) => Err(*status),
        Err(error) => panic!("{error}"),
    }
}

fn strategy(name: &str, destination: &Value) -> Value {
    json!({"apiVersion": "strategy.backups.cozystack.io/v1alpha1", "kind": "Etcd", "metadata": {"name": name},
        "spec": {"template": {"destination": destination}}})
}

fn s3() -> Value {
    json!({"endpoint": "https://s3.example", "bucket": "backups", "credentialsSecretRef": {"name": "creds"}})
}

fn backup(namespace: &str) -> Value {
    json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "Backup",
        "metadata": {"name": "b1", "namespace": namespace},
        "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "takenAt": "2026-01-01T00:00:00Z",
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s"}},
        "status": {"phase": "Ready", "artifact": {"uri": "s3://backups/tenant/b1.db"}}})
}

fn restore(namespace: &str, name: &str, target: &Value) -> Value {
    let mut job = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"backupRef": {"name": "b1"}}});
    if !target.is_null() {
        job["spec"]["targetApplicationRef"] = target.clone();
    }
    job
}

fn cluster(namespace: &str, name: &str, version: &str) -> Value {
    json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"version": version, "replicas": 1, "bootstrap": {"restore": {"source": {"s3": {
            "endpoint": "https://s3.example", "bucket": "b", "key": "k.db", "credentialsSecretRef": {"name": "c"}}}}}}})
}

fn causes(status: &Status) -> Vec<(String, String)> {
    let details = status.details.as_ref().expect("details");
    details.causes.iter().map(|cause| (cause.field.clone(), cause.message.clone())).collect()
}

#[tokio::test]
async fn what_could_not_be_restored_is_refused_in_our_words_and_the_rest_is_defaulted() {
    let (bed, warden) = served().await;
    let client = bed.client().await;
    let namespace = bed.namespace("tenant").await;

    // The strategy's destination: the definition's own rule comes first, on the same object our server says it too.
    let pvc = strategy("pvc", &json!({"pvc": {"claimName": "c"}}));
    let refused = create(&client, &pvc).await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"), "{refused:?}");
    let answer = ask(&bed, &warden, &review("strategy.backups.cozystack.io", &pvc)).await;
    let asked = &answer["response"]["status"];
    let fields: Vec<&str> =
        asked["details"]["causes"].as_array().unwrap().iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.template.destination.pvc", "spec.template.destination.s3"]);

    let made = create(&client, &strategy("s", &json!({"s3": s3()}))).await.unwrap();
    let destination = &made["spec"]["template"]["destination"]["s3"];
    assert_eq!(destination["region"], "us-east-1");
    assert_eq!(destination["forcePathStyle"], false);

    // A restore to elsewhere; the cache may not have the Backup yet.
    create(&client, &backup(&namespace)).await.unwrap();
    let elsewhere = restore(&namespace, "to-copy", &json!({"kind": "Etcd", "name": "other"}));
    let refused = wait_for("the to-copy restore to be refused", Duration::from_secs(10), async || {
        let mut try_it = elsewhere.clone();
        try_it["metadata"]["name"] = json!(format!("try-{}", rand()));
        create(&client, &try_it).await.err().ok_or_else(|| "it was admitted".to_owned())
    })
    .await;
    assert!(
        refused.message.contains(r#"admission webhook "required.etcd-warden.io" denied the request"#),
        "{refused:?}"
    );
    let [(field, message)] = &causes(&refused)[..] else { panic!("{refused:?}") };
    assert_eq!(field, "spec.targetApplicationRef.name");
    let (api, chart) = (message.find("targetApplicationRef has no namespace"), message.find("chart"));
    assert!(api.is_some() && api < chart, "{message}");

    let made = create(&client, &restore(&namespace, "in-place", &Value::Null)).await.unwrap();
    assert_eq!(
        made["spec"]["targetApplicationRef"],
        json!({"apiGroup": "apps.cozystack.io", "kind": "Etcd", "name": "etcd"})
    );
    assert_eq!(made["spec"]["options"], json!({"restoreTimeoutSeconds": 1800}));

    // A restore into an etcd without etcdutl.
    let refused = create(&client, &cluster(&namespace, "old", "3.4.44")).await.unwrap_err();
    let [(field, message)] = &causes(&refused)[..] else { panic!("{refused:?}") };
    assert_eq!(field, "spec.version");
    assert!(message.contains("etcdutl") && message.contains("etcd-warden.io/etcdutl-path"), "{message}");
    let mut declared = cluster(&namespace, "declared", "3.4.44");
    declared["metadata"]["annotations"] = json!({"etcd-warden.io/etcdutl-path": "/usr/local/bin/etcdutl"});
    create(&client, &declared).await.unwrap();
    create(&client, &cluster(&namespace, "new", "3.5.0")).await.unwrap();

    let (_, metrics) = warden.admin("/metrics").await.unwrap();
    assert!(
        metrics.contains(r#"controller_runtime_webhook_requests_total{code="200",webhook="/validate"}"#),
        "{metrics}"
    );
    assert!(
        metrics.contains(r#"action="Deny",kind="EtcdCluster",policy="etcdcluster-restore-needs-etcdutl""#),
        "{metrics}"
    );
}

#[tokio::test]
async fn deleting_the_configuration_is_the_way_out_and_it_stays_deleted() {
    let (bed, warden) = served().await;
    let client = bed.client().await;
    let namespace = bed.namespace("tenant").await;
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());

    // With nobody answering, the required kinds are refused, but objects on their way out and metadata are not.
    let made = create(&client, &cluster(&namespace, "etcd", "3.6.0")).await.unwrap();
    let (leash, daemon) = warden.daemon();
    leash.kill(daemon);
    let refused = create(&client, &cluster(&namespace, "other", "3.6.0")).await.unwrap_err();
    assert!(refused.message.contains("failed calling webhook \"required.etcd-warden.io\""), "{refused:?}");
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("etcd-operator.cozystack.io", "v1alpha2", "EtcdCluster"),
        "etcdclusters",
    );
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let mut labelled: DynamicObject = serde_json::from_value(made).unwrap();
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    labelled.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    let labelled = clusters.replace("etcd", &PostParams::default(), &labelled).await.unwrap();
    clusters.delete("etcd", &kube::api::DeleteParams::default()).await.unwrap();
    let mut leaving = clusters.get("etcd").await.unwrap();
    assert!(leaving.metadata.deletion_timestamp.is_some());
    leaving.metadata.finalizers = None;
    assert_eq!(leaving.metadata.uid, labelled.metadata.uid);
    clusters.replace("etcd", &PostParams::default(), &leaving).await.unwrap();
    assert!(clusters.get_opt("etcd").await.unwrap().is_none());

    configurations.delete("etcd-warden", &kube::api::DeleteParams::default()).await.unwrap();
    wait_for("the API server to stop asking", Duration::from_secs(10), async || {
        let mut old = cluster(&namespace, "x", "3.4.44");
        old["metadata"]["name"] = json!(format!("x{}", rand()));
        create(&client, &old).await.map(|_| ()).map_err(|status| status.message)
    })
    .await;

    // A new start registers again.
    leash.restart(daemon);
    warden.wait_ready().await;
    warden.wait_enforced(&client).await;
    let refused = create(&client, &cluster(&namespace, "again", "3.4.44")).await.unwrap_err();
    assert!(refused.message.contains("required.etcd-warden.io"), "{refused:?}");
}

#[tokio::test]
async fn what_keeps_the_api_server_from_asking_is_undone_before_the_server_was_seen_too() {
    let bed = ControlPlane::start(crate::bed::control_plane::Options::default()).await;
    install_crds(&bed).await;
    let client = bed.client().await;
    // Nobody listens there: the server is never seen answering.
    let flags = ["--certificate-times=86400,86400,0,1".to_owned()];
    let warden = Warden::replica(bed.kubeconfig(), "default", "https://127.0.0.1:1", &flags);
    warden.wait_ready().await;
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let mut live = configurations.get("etcd-warden").await.unwrap();
    for entry in live.webhooks.iter_mut().flatten() {
        entry.namespace_selector = serde_json::from_value(json!({"matchLabels": {"no": "such"}})).unwrap();
    }
    configurations.replace("etcd-warden", &PostParams::default(), &live).await.unwrap();
    wait_for("the selector to be put right", Duration::from_secs(30), async || {
        let live = configurations.get("etcd-warden").await.map_err(|error| error.to_string())?;
        let entries = live.webhooks.unwrap_or_default();
        assert!(entries.iter().all(|entry| entry.failure_policy.as_deref() == Some("Ignore")), "{entries:?}");
        let right = |selector: &Value| selector["matchLabels"].is_null();
        let all = entries.iter().all(|entry| right(&serde_json::to_value(&entry.namespace_selector).unwrap()));
        if all { Ok(()) } else { Err(format!("{entries:?}")) }
    })
    .await;
    let (_, metrics) = warden.admin("/metrics").await.unwrap();
    assert!(metrics.contains("etcd_warden_webhook_enforcing 0\n"), "{metrics}");
    configurations.delete("etcd-warden", &kube::api::DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(configurations.get_opt("etcd-warden").await.unwrap().is_none(), "what was deleted stays deleted");
}

#[tokio::test]
async fn the_whole_status_of_a_backup_cannot_be_erased_unasked() {
    let (bed, _warden) = served().await;
    let namespace = bed.namespace("tenant").await;
    let anna = Identity::User { name: "anna".to_owned(), groups: vec!["system:masters".to_owned()] };
    create(&bed.client().await, &backup(&namespace)).await.unwrap();
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("backups.cozystack.io", "v1alpha1", "Backup"),
        "backups",
    );
    let backups: Api<DynamicObject> = Api::namespaced_with(bed.client_as(&anna).await, &namespace, &resource);
    let mut erased = backups.get("b1").await.unwrap();
    erased.data.as_object_mut().unwrap().remove("status");
    let error = backups.replace("b1", &PostParams::default(), &erased).await.unwrap_err().to_string();
    assert!(error.contains("status.artifact"), "{error}");
}

/// An AdmissionReview around the creation of an object, as the API server would write it.
fn review(group: &str, object: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "0d5bf4ee-0000-4000-8000-000000000000", "operation": "CREATE", "userInfo": {"username": "anna"},
        "kind": {"group": group, "version": "v1alpha1", "kind": object["kind"]},
        "resource": {"group": group, "version": "v1alpha1", "resource": "etcds"},
        "object": object, "oldObject": null, "dryRun": false}})
}

/// Posts a review to `/validate` as anybody could, trusting the authority that the server made.
async fn ask(bed: &ControlPlane, warden: &Warden, review: &Value) -> Value {
    let bundle = std::fs::read(Warden::authority(bed)).unwrap();
    let client =
        reqwest::Client::builder().tls_certs_only([reqwest::Certificate::from_pem(&bundle).unwrap()]).build().unwrap();
    let answer = client
        .post(format!("{}/validate?timeout=10s", warden.url()))
        .header("content-type", "application/json")
        .body(review.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

fn rand() -> u32 {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
