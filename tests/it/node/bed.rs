//! The bed's own tests: the node.

use crate::bed::node::HOST_NAME;
use crate::bed::remains::{self, Victim};
use crate::bed::{Node, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use std::time::Duration;

const POD: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532}
  containers:
  - name: one
    image: docker.io/library/busybox:1.35.0
    command:
    - sh
    - -ec
    - |
      stat -c 'owner %u:%g' /data
      echo kept > /data/file
      cat /data/file
      nslookup -type=a kubernetes.default.svc.cluster.local
      nslookup -type=a HOST
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - name: data
    persistentVolumeClaim: {claimName: data}
";

#[tokio::test]
async fn a_pod_gets_its_volume_and_names() {
    let node = Node::shared().await;
    let namespace = node.namespace("bed").await;
    node.apply(&namespace, &POD.replace("HOST", HOST_NAME)).await;
    let pods = succeeded(node, &namespace).await;
    let log = pods.logs("one", &LogParams::default()).await.unwrap();
    let host = format!("Address: {}", node.host_ip());
    for line in ["owner 0:65532", "kept", host.as_str()] {
        assert!(log.lines().any(|l| l == line), "{line} is not in:\n{log}");
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_node_that_was_taken_down() {
    let name = format!("d{}", std::process::id());
    let node = tokio::task::spawn_blocking(move || Node::named(&name, &["pause", "coredns", "busybox"])).await.unwrap();
    let namespace = node.namespace("bed").await;
    node.apply(&namespace, &POD.replace("HOST", HOST_NAME)).await;
    succeeded(&node, &namespace).await;
    node.restart("kubelet", 0);
    node.restart("kube-apiserver", 0);
    wait_for("the API server", Duration::from_mins(1), async || node.get("/readyz").await).await;

    let (state, left) = (node.folder().display().to_string(), node.name().to_owned());
    assert!(remains::of(&left).len() > 2 && remains::of(&state).len() >= 8, "{:#?}", remains::of(&state));
    drop(node);
    remains::none_of(&left).await;
    remains::none_of(&state).await;
}

#[tokio::test]
async fn a_node_ends_with_its_killed_owner() {
    if Victim::is_me() {
        Node::named(&format!("v{}", std::process::id()), &["pause", "coredns", "busybox"]);
        return std::future::pending().await;
    }
    let victim = Victim::start("node::bed::a_node_ends_with_its_killed_owner");
    let name = format!("v{}", victim.pid());
    // In the middle of its start.
    wait_for("the victim's kubelet", Duration::from_mins(2), async || {
        let found = remains::of(&format!("nodes/{name}/"));
        if found.iter().any(|f| f.contains("kubelet.yaml")) { Ok(()) } else { Err(format!("{found:#?}")) }
    })
    .await;
    victim.kill();
    remains::none_of(&name).await;
}

async fn succeeded(node: &Node, namespace: &str) -> Api<Pod> {
    let pods: Api<Pod> = Api::namespaced(node.client().await, namespace);
    wait_for("the Pod to succeed", Duration::from_mins(1), async || {
        let phase = pods.get("one").await.map_err(|e| e.to_string())?.status.and_then(|s| s.phase);
        if phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("phase {phase:?}")) }
    })
    .await;
    pods
}
