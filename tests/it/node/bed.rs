//! The bed's own tests: the node.

use crate::bed::node::HOST_NAME;
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
    let pods: Api<Pod> = Api::namespaced(node.client().await, &namespace);
    wait_for("the Pod to succeed", Duration::from_mins(1), async || {
        let phase = pods.get("one").await.map_err(|e| e.to_string())?.status.and_then(|s| s.phase);
        if phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("phase {phase:?}")) }
    })
    .await;
    let log = pods.logs("one", &LogParams::default()).await.unwrap();
    let host = format!("Address: {}", node.host_ip());
    for line in ["owner 0:65532", "kept", host.as_str()] {
        assert!(log.lines().any(|l| l == line), "{line} is not in:\n{log}");
    }
}
