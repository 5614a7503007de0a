//! etcd-warden on a node, installed by its chart.

use std::fs;
use std::process::Command;
use std::time::UNIX_EPOCH;

use super::Node;
use super::tools::{tool, tree};

/// Held for writing by whoever kills our server, and for reading by whoever cannot bear that.
pub static CALM: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// The namespace that the chart is installed in.
pub const NAMESPACE: &str = "etcd-warden-system";

/// The shared node with etcd-warden on it: two replicas, ready.
///
/// # Panics
/// When Helm does not get it there; with what Helm and the Pods say.
pub async fn installed() -> &'static Node {
    static INSTALLED: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    let node = Node::shared().await;
    INSTALLED
        .get_or_init(|| async {
            tokio::task::spawn_blocking(move || install(node)).await.expect("install etcd-warden");
        })
        .await;
    node
}

fn install(node: &Node) {
    let chart = tree().join("charts/etcd-warden");
    // A node that was kept runs an older build under the same tag: a changed annotation rolls the Pods.
    let build = fs::metadata(env!("CARGO_BIN_EXE_etcd-warden")).and_then(|file| file.modified()).expect("our program");
    let build = build.duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
    kubectl(node, &["create", "namespace", NAMESPACE]);
    restrict(node, NAMESPACE);
    let output = Command::new(tool("helm"))
        .args(["upgrade", "--install", "etcd-warden"])
        .arg(chart)
        .args(["--namespace", NAMESPACE, "--wait", "--timeout=120s", "--set=image.tag=dev"])
        .arg(format!("--set-string=podAnnotations.build={build}"))
        .arg("--kubeconfig")
        .arg(node.kubeconfig())
        .output()
        .expect("run helm");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", kubectl(node, &["describe", "pods", "--namespace", NAMESPACE]));
}

/// Lets only Pods into a namespace that keep to the `restricted` Pod security standard.
pub fn restrict(node: &Node, namespace: &str) {
    let said = kubectl(
        node,
        &["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted", "--overwrite"],
    );
    assert!(said.contains("labeled"), "{said}");
}

/// What kubectl prints on the node's API server, errors included.
pub fn kubectl(node: &Node, arguments: &[&str]) -> String {
    let output = Command::new(tool("kubectl"))
        .arg("--kubeconfig")
        .arg(node.kubeconfig())
        .args(arguments)
        .output()
        .expect("run kubectl");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
