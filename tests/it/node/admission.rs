//! Admission by Pods behind a Service: what a rollout does to those who ask meanwhile.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;

use crate::bed::creates::Creates;
use crate::bed::installation::{NAMESPACE, installed, kubectl};
use crate::bed::wait_for;

#[tokio::test]
async fn a_rolling_restart_under_constant_creates_fails_not_one_of_them() {
    let node = installed().await;
    let client = node.client().await;
    let namespace = node.namespace("creates").await;
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    wait_for("the required kinds to be enforced", Duration::from_mins(1), async || {
        let live = configurations.get("etcd-warden").await.map_err(|error| error.to_string())?;
        let policies: Vec<_> = live.webhooks.unwrap_or_default().into_iter().map(|w| w.failure_policy).collect();
        if policies.contains(&Some("Fail".to_owned())) { Ok(()) } else { Err(format!("{policies:?}")) }
    })
    .await;
    let creates = Creates::start(&client, &namespace);
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..2 {
        let said = kubectl(node, &["-n", NAMESPACE, "rollout", "restart", "deployment/etcd-warden"]);
        assert!(said.contains("restarted"), "{said}");
        let status = tokio::task::spawn_blocking(move || {
            kubectl(node, &["-n", NAMESPACE, "rollout", "status", "deployment/etcd-warden", "--timeout=120s"])
        });
        let said = status.await.unwrap();
        assert!(said.contains("successfully rolled out"), "{said}");
        // The last of the old Pods is still answering while it falls quiet.
        wait_for("the old Pods to be gone", Duration::from_mins(2), async || {
            let said = kubectl(
                node,
                &["-n", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/name=etcd-warden", "-o", "name"],
            );
            if said.lines().count() == 2 { Ok(()) } else { Err(said) }
        })
        .await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = creates.end().await;
    assert!(asked > 1000, "{asked}");
}
