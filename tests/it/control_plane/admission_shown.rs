//! What a user sees of admission: every fault at once in kubectl, whose word it is, and what is left alone.

use std::io::Write;
use std::process::{Command, Stdio};

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use std::time::Duration;

use crate::bed::tools::{tool, tree};
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Warden, wait_for};

/// What kubectl says to an object, and whether it was taken.
fn create(bed: &ControlPlane, object: &Value, flags: &[&str]) -> (bool, String) {
    let mut command = Command::new(tool("kubectl"));
    command.arg("--kubeconfig").arg(bed.kubeconfig()).args(["create", "-f", "-"]).args(flags);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run kubectl");
    child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), said)
}

fn to_copy(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"backupRef": {"name": "b1"}, "targetApplicationRef": {"kind": "Etcd", "name": "other"}}})
}

fn into_3_4(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"version": "3.4.44", "replicas": 1, "bootstrap": {"restore": {"source": {"s3": {
            "endpoint": "https://s3.example", "bucket": "b", "key": "k.db", "credentialsSecretRef": {"name": "c"}}}}}}})
}

fn strategy(destination: &Value) -> Value {
    json!({"apiVersion": "strategy.backups.cozystack.io/v1alpha1", "kind": "Etcd", "metadata": {"name": "s"},
        "spec": {"template": {"destination": destination}}})
}

#[tokio::test]
async fn without_the_configurations_nobody_refuses_what_the_schemas_cannot() {
    let bed = ControlPlane::start(crate::bed::control_plane::Options::default()).await;
    install_crds(&bed).await;
    let client = bed.client().await;
    let namespace = bed.namespace("tenant").await;
    let backup = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "Backup",
        "metadata": {"name": "b1", "namespace": namespace},
        "spec": {"applicationRef": {"apiGroup": "apps.cozystack.io", "kind": "Etcd", "name": "etcd"},
            "takenAt": "2026-01-01T00:00:00Z",
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s"}},
        "status": {"phase": "Ready", "artifact": {"uri": "s3://backups/tenant/b1.db"}}});
    let (taken, said) = create(&bed, &backup, &[]);
    assert!(taken, "{said}");
    let warden = Warden::start(&bed, &[]).await;
    warden.wait_ready().await;
    warden.wait_enforced(&client).await;

    // With them, both are refused, by name of the webhook in the API's own answer.
    let post = |object: &Value, resource: &str| {
        let path = format!("/apis/{}/namespaces/{namespace}/{resource}", object["apiVersion"].as_str().unwrap());
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        let client = client.clone();
        async move { client.request_text(request).await }
    };
    for (object, resource, field) in [
        (to_copy(&namespace, "copy"), "restorejobs", "spec.targetApplicationRef.name"),
        (into_3_4(&namespace, "old"), "etcdclusters", "spec.version"),
    ] {
        let Err(kube::Error::Api(status)) = post(&object, resource).await else { panic!("{resource}") };
        assert!(
            status.message.starts_with(r#"admission webhook "required.etcd-warden.io" denied the request"#),
            "{}",
            status.message
        );
        let (taken, said) = create(&bed, &object, &[]);
        assert!(!taken && said.contains(field) && said.contains("etcd-warden: "), "{said}");
        // A dry run is asked about, too.
        let (taken, said) = create(&bed, &object, &["--dry-run=server"]);
        assert!(!taken && said.contains(field), "{said}");
    }

    // Without them, both are taken: it was us.
    let (validating, mutating): (Api<ValidatingWebhookConfiguration>, Api<MutatingWebhookConfiguration>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    validating.delete("etcd-warden", &DeleteParams::default()).await.unwrap();
    mutating.delete("etcd-warden", &DeleteParams::default()).await.unwrap();
    wait_for("the API server to stop asking", Duration::from_secs(10), async || {
        match create(&bed, &into_3_4(&namespace, "old"), &[]) {
            (true, _) => Ok(()),
            (false, said) => Err(said),
        }
    })
    .await;
    let (taken, said) = create(&bed, &to_copy(&namespace, "copy"), &[]);
    assert!(taken, "{said}");
    // The definition's own rule is still there.
    let (taken, said) = create(&bed, &strategy(&json!({"pvc": {"claimName": "c"}})), &[]);
    assert!(!taken && said.contains("pvc"), "{said}");
}

#[tokio::test]
async fn several_faults_of_one_object_are_all_in_what_kubectl_prints() {
    let bed = ControlPlane::start(crate::bed::control_plane::Options::default()).await;
    install_crds(&bed).await;
    let warden = Warden::start(&bed, &[]).await;
    warden.wait_ready().await;
    warden.wait_enforced(&bed.client().await).await;
    let faulty = strategy(&json!({"s3": {"endpoint": "https://user:word@s3.example/path", "bucket": "Not_A_Bucket",
        "key": "/leading/../up", "credentialsSecretRef": {"name": "{{ .Nothing }}"}}}));
    let (taken, said) = create(&bed, &faulty, &[]);
    assert!(!taken, "{said}");
    for field in ["endpoint", "bucket", "key", "credentialsSecretRef.name"] {
        assert!(said.contains(&format!("spec.template.destination.s3.{field}")), "{field} is not in: {said}");
    }
    assert!(!said.contains("user:word"), "a password is repeated: {said}");
    assert!(!warden.log().contains("user:word"), "a password is logged");
    let line = warden.log().lines().find(|line| line.contains("refused")).map(str::to_owned).expect("a line");
    assert!(line.contains("Etcd") && line.contains("policies="), "{line}");

    // A platform's class of ten kinds is not ours to judge or change.
    let kinds = [
        "Postgres",
        "MariaDB",
        "MongoDB",
        "ClickHouse",
        "FoundationDB",
        "Kafka",
        "NATS",
        "Qdrant",
        "Redis",
        "VMInstance",
    ];
    let strategies: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            json!({"application": {"apiGroup": "apps.cozystack.io", "kind": kind},
                "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": kind, "name": "default"},
                "parameters": {"anything": "{{ of theirs"}})
        })
        .collect();
    let class = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupClass",
        "metadata": {"name": "platform"}, "spec": {"strategies": strategies}});
    let (taken, said) = create(&bed, &class, &["-o", "json"]);
    assert!(taken && !said.contains("Warning"), "{said}");
    let stored: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(stored["spec"], class["spec"]);
}

/// Right after an installation the API server refuses every EtcdCluster, until it has found the kind that the guard's
/// policy asks about: whoever waits for us to be ready does not meet that.
#[tokio::test]
async fn once_we_are_ready_the_guards_policy_is_understood() {
    let bed = ControlPlane::start(crate::bed::control_plane::Options::default()).await;
    // The policy first: so the API server looks for the kind before it is there, and again only half a minute later.
    let guard = std::fs::read_to_string(tree().join("policies/guard/etcdcluster.yaml")).unwrap();
    bed.apply("", &guard).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    install_crds(&bed).await;
    let namespace = bed.namespace("guarded").await;
    let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": "c", "namespace": namespace}, "spec": {"version": "3.6.0", "replicas": 1}});
    wait_for("the API server to know of the policy", Duration::from_secs(20), async || {
        let (_, said) = create(&bed, &cluster, &["--dry-run=server"]);
        if said.contains("paramKind") { Ok(()) } else { Err(said) }
    })
    .await;
    let warden = Warden::start(&bed, &[]).await;
    wait_for("etcd-warden to be ready", Duration::from_secs(70), async || match warden.admin("/readyz").await? {
        (200, _) => Ok(()),
        (_, why) => Err(why),
    })
    .await;
    let (taken, said) = create(&bed, &cluster, &[]);
    assert!(taken, "{said}");
}
