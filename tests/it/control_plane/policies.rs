//! Policies of the user's own, mounted into a running server.

use std::path::Path;
use std::time::Duration;

use etcd_warden::api::etcdcluster::{EtcdCluster, EtcdClusterSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

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
