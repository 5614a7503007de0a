//! Policies of the user's own, mounted into a running server.

use std::path::Path;
use std::time::Duration;

use etcd_warden::api::etcdcluster::{EtcdCluster, EtcdClusterSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::bed::control_plane::Options;
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Warden, wait_for};

const SOON: Duration = Duration::from_secs(20);

fn policy(expression: &str, action: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: house.example}}
spec:
  paramKind: {{apiVersion: v1, kind: ConfigMap}}
  matchConstraints:
    resourceRules:
      - {{apiGroups: [etcd-operator.cozystack.io], apiVersions: ['*'], operations: [CREATE], resources: [etcdclusters]}}
  validations: [{{expression: \"{expression}\", message: 'spec.replicas: more members than this house has room for'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: house.example}}
spec:
  policyName: house.example
  validationActions: [{action}]
  paramRef: {{name: house, namespace: default, parameterNotFoundAction: Deny}}
"
    )
}

/// Writes as a mount does: never half a file.
fn write(folder: &Path, text: &str) {
    let file = tempfile::NamedTempFile::new_in(folder.parent().unwrap()).unwrap();
    std::fs::write(file.path(), text).unwrap();
    file.persist(folder.join("house.yaml")).unwrap();
}

async fn limit(client: &Client, members: &str) {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "house"}, "data": {"members": members}});
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    api.patch("house", &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
}

/// Whether a cluster of so many members is admitted; nothing is stored.
async fn try_members(client: &Client, members: i32) -> Result<(), String> {
    let spec = EtcdClusterSpec { version: "3.6.16".to_owned(), replicas: Some(members), ..EtcdClusterSpec::default() };
    let api: Api<EtcdCluster> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&dry_run, &EtcdCluster::new("etcd", spec)).await.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn policies_of_the_users_own_are_taken_up_and_a_broken_file_changes_nothing() {
    let bed = ControlPlane::start(Options::default()).await;
    install_crds(&bed).await;
    let client = bed.client().await;
    limit(&client, "5").await;
    let mount = tempfile::tempdir().unwrap();
    let folder = mount.path().join("policies");
    std::fs::create_dir(&folder).unwrap();
    write(&folder, &policy("object.spec.replicas <= int(params.data.members)", "Deny"));
    let warden = Warden::start(&bed, &["--policy-dir", folder.to_str().unwrap()]).await;
    warden.wait_ready().await;
    warden.wait_enforced(&client).await;

    // With parameters from the cluster, as they are now.
    let refused = try_members(&client, 7).await.unwrap_err();
    assert!(
        refused.contains("more members than this house has room for") && refused.contains("house.example"),
        "{refused}"
    );
    try_members(&client, 5).await.unwrap();
    limit(&client, "7").await;
    wait_for("the new parameter to count", SOON, async || try_members(&client, 7).await).await;

    // A file with an error in it is told of, and the policies of before stay.
    write(&folder, &policy("object.spec.replicas <= math.abs(9)", "Deny"));
    let errors = async |wanted: &str| {
        let (_, metrics) = warden.admin("/metrics").await?;
        let line = format!("etcd_warden_policy_load_errors {wanted}");
        if metrics.contains(&line) { Ok(()) } else { Err(format!("no {line}")) }
    };
    wait_for("the error to be counted", SOON, async || errors("1").await).await;
    assert!(try_members(&client, 9).await.unwrap_err().contains("house.example"));
    try_members(&client, 7).await.unwrap();
    let (leash, daemon) = warden.daemon();
    let log = std::fs::read_to_string(leash.log(daemon)).unwrap();
    let place = "house.yaml: document 1: spec.validations[0].expression: function abs() may not be used";
    assert!(log.contains(place), "{log}");
    let (status, _) = warden.admin("/readyz").await.unwrap();
    assert_eq!(status, 200, "the policies of before are as good as they were");

    // Put right, it is taken up; and a warning is no refusal.
    write(&folder, &policy("object.spec.replicas <= int(params.data.members)", "Warn"));
    wait_for("the policy to be taken up", SOON, async || try_members(&client, 9).await).await;
    errors("0").await.unwrap();
}

#[tokio::test]
async fn a_server_does_not_start_with_policies_that_it_cannot_read() {
    let bed = ControlPlane::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let output = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_etcd-warden"))
            .env("KUBECONFIG", bed.kubeconfig())
            .args(["serve", "--webhook-address=127.0.0.1:0", "--admin-address=127.0.0.1:0"])
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    std::fs::write(folder.path().join("a.yaml"), policy("object.spec.replicas <=", "Deny")).unwrap();
    let (code, said) = output(&["--policy-dir", folder.path().to_str().unwrap()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--policy-dir") && said.contains("a.yaml: document 1: spec.validations[0]"), "{said}");
    let (code, said) = output(&["--policy-dir", "/nowhere/at/all"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--policy-dir") && said.contains("/nowhere/at/all"), "{said}");
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

async fn create(client: &Client, namespace: &str, of: &ApiResource, object: Value) -> Result<(), String> {
    let mut object: DynamicObject = serde_json::from_value(object).unwrap();
    object.types = Some(kube::core::TypeMeta { api_version: of.api_version.clone(), kind: of.kind.clone() });
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, of);
    api.create(&PostParams::default(), &object).await.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn what_came_in_while_nobody_was_asked_is_refused_with_a_condition() {
    let bed = ControlPlane::start(Options::default()).await;
    install_crds(&bed).await;
    let client = bed.client().await;
    let namespace = bed.namespace("tenant").await;
    let clusters = resource("etcd-operator.cozystack.io", "v1alpha2", "EtcdCluster", "etcdclusters");
    let snapshots = resource("etcd-operator.cozystack.io", "v1alpha2", "EtcdSnapshot", "etcdsnapshots");
    let backup_jobs = resource("backups.cozystack.io", "v1alpha1", "BackupJob", "backupjobs");
    let restore_jobs = resource("backups.cozystack.io", "v1alpha1", "RestoreJob", "restorejobs");
    let backups = resource("backups.cozystack.io", "v1alpha1", "Backup", "backups");
    let classes = resource("backups.cozystack.io", "v1alpha1", "BackupClass", "backupclasses");
    let s3 =
        json!({"endpoint": "https://s3.example", "bucket": "b", "key": "k", "credentialsSecretRef": {"name": "c"}});
    let mut elsewhere = s3.clone();
    elsewhere["endpoint"] = json!("https://user:secret@s3.example");
    let old = json!({"metadata": {"name": "etcd"}, "spec": {"version": "3.4.44", "replicas": 1,
        "bootstrap": {"restore": {"source": {"s3": s3}}}}});
    create(&client, &namespace, &clusters, old).await.unwrap();
    let snapshot =
        json!({"metadata": {"name": "s"}, "spec": {"clusterRef": {"name": "etcd"}, "destination": {"s3": elsewhere}}});
    create(&client, &namespace, &snapshots, snapshot).await.unwrap();
    let long = "a".repeat(64);
    let job = json!({"metadata": {"name": long}, "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "backupClassName": "k"}});
    create(&client, &namespace, &backup_jobs, job).await.unwrap();
    let class = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "BackupClass", "metadata": {"name": "k"}, "spec": {"strategies": [{"application": {"kind": "Etcd"},
        "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s"}}]}});
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &classes);
    all.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let backup = json!({"metadata": {"name": "b"}, "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "takenAt": "2026-01-01T00:00:00Z",
        "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s"},
        "driverMetadata": {"etcd.aenix.io/endpoint": "s3.example", "etcd.aenix.io/bucket": "b", "etcd.aenix.io/credentials-secret-name": "c"}},
        "status": {"phase": "Ready", "artifact": {"uri": "s3://b/k.db", "etcdVersion": "3.7.0"}}});
    create(&client, &namespace, &backups, backup).await.unwrap();
    let restore = json!({"metadata": {"name": "r"}, "spec": {"backupRef": {"name": "b"}}});
    create(&client, &namespace, &restore_jobs, restore).await.unwrap();

    let warden = Warden::start(&bed, &["--agent-image=agent"]).await;
    warden.wait_ready().await;
    let says = async |of: &ApiResource, name: &str, wanted: &[&str]| {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, of);
        wait_for(format!("{} {name} to be refused", of.kind), SOON, async || {
            let object = api.get(name).await.map_err(|error| error.to_string())?;
            let status = object.data["status"].to_string();
            let told = wanted.iter().all(|word| status.contains(word));
            if told { Ok(()) } else { Err(status) }
        })
        .await;
    };
    says(&clusters, "etcd", &["\"reason\":\"Refused\"", "etcdcluster-restore-needs-etcdutl"]).await;
    says(&snapshots, "s", &["\"reason\":\"Refused\"", "\"phase\":\"Failed\"", "s3-coordinates"]).await;
    says(&backup_jobs, &long, &["\"phase\":\"Failed\"", "refused: metadata.name", "backupjob-name"]).await;
    says(
        &restore_jobs,
        "r",
        &["\"phase\":\"Failed\"", "refused: ", "restorejob-version", "restorejob-target-needs-etcdutl"],
    )
    .await;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &snapshots);
    let status = api.get("s").await.unwrap().data["status"].to_string();
    assert!(!status.contains("secret@"), "{status}");
    let members = resource("etcd-operator.cozystack.io", "v1alpha2", "EtcdMember", "etcdmembers");
    let members: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &members);
    assert!(members.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn what_is_upstreams_is_left_to_upstream_while_it_holds_its_lease() {
    let bed = ControlPlane::start(Options::default()).await;
    install_crds(&bed).await;
    let client = bed.client().await;
    let namespace = bed.namespace("tenant").await;
    let backups = resource("backups.cozystack.io", "v1alpha1", "Backup", "backups");
    let restore_jobs = resource("backups.cozystack.io", "v1alpha1", "RestoreJob", "restorejobs");
    let lease = json!({"metadata": {"name": "strategy.backups.cozystack.io"}, "spec": {"holderIdentity": "other",
        "leaseDurationSeconds": 3600, "renewTime": format!("{:.6}", Timestamp::now())}});
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    for (name, group) in [("ours", "strategy.etcd-warden.io"), ("theirs", "strategy.backups.cozystack.io")] {
        let backup = json!({"metadata": {"name": name}, "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"},
            "takenAt": "2026-01-01T00:00:00Z", "strategyRef": {"apiGroup": group, "kind": "Etcd", "name": "s"}}});
        create(&client, &namespace, &backups, backup).await.unwrap();
    }
    let warden = Warden::start(&bed, &["--controllers=restorejob"]).await;
    warden.wait_ready().await;
    warden.wait_enforced(&client).await;
    let restore = |name: &str| json!({"metadata": {"name": name}, "spec": {"backupRef": {"name": name}}});
    let refused = create(&client, &namespace, &restore_jobs, restore("ours")).await.unwrap_err();
    assert!(
        refused.contains("Scale their strategy controller to zero") && refused.contains("default: other"),
        "{refused}"
    );
    // Theirs is admitted, and left alone: our finalizer and status would be there within a moment.
    create(&client, &namespace, &restore_jobs, restore("theirs")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &restore_jobs);
    let theirs = api.get("theirs").await.unwrap();
    assert_eq!((theirs.metadata.finalizers, &theirs.data["status"]), (None, &Value::Null));
    // Without the lease it is ours.
    leases.delete("strategy.backups.cozystack.io", &kube::api::DeleteParams::default()).await.unwrap();
    wait_for("our controller to take the job up", Duration::from_secs(40), async || {
        let theirs = api.get("theirs").await.map_err(|error| error.to_string())?;
        if theirs.data["status"].is_object() { Ok(()) } else { Err("no status".to_owned()) }
    })
    .await;
}
