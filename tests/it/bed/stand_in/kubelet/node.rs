//! The Node: the object, its heartbeats, and the StorageClasses of its volumes.

use super::context::Context;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;

/// Its name.
pub const NAME: &str = "stand-in";
/// The default StorageClass.
pub const STORAGE_CLASS: &str = "stand-in";
/// A StorageClass whose volumes hold no more than was asked for: they are memory.
pub const LIMITED_CLASS: &str = "stand-in-limited";
/// The provisioner in the StorageClasses.
pub const PROVISIONER: &str = "stand-in.test/host-folder";
const FIELD_MANAGER: &str = "stand-in-kubelet";
const NODE_LEASES: &str = "kube-node-lease";
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Makes Node and StorageClasses.
pub async fn register(context: &Context) -> Result<(), kube::Error> {
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    let classes: Api<StorageClass> = Api::all(context.client.clone());
    for (name, is_default) in [(STORAGE_CLASS, "true"), (LIMITED_CLASS, "false")] {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": is_default}},
            "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
        });
        classes.patch(name, &apply, &Patch::Apply(&class)).await?;
    }
    let nodes: Api<Node> = Api::all(context.client.clone());
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NAME, "labels": {"kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux"}},
    });
    nodes.patch(NAME, &apply, &Patch::Apply(&node)).await?;
    set_ready(context, true).await?;
    beat(context).await
}

/// Says in the Node whether it is ready, at once: what takes the node controller 40 seconds to find out.
pub async fn set_ready(context: &Context, ready: bool) -> Result<(), kube::Error> {
    let (status, reason) = if ready { ("True", "KubeletReady") } else { ("Unknown", "NodeStatusUnknown") };
    let now = Time(Timestamp::now());
    let amounts = json!({"cpu": "64", "memory": "64Gi", "pods": "250", "ephemeral-storage": "1Ti"});
    let node = json!({"status": {
        "addresses": [
            {"type": "InternalIP", "address": context.runtime.address()}, {"type": "Hostname", "address": NAME},
        ],
        "capacity": amounts, "allocatable": amounts,
        "conditions": [{
            "type": "Ready", "status": status, "reason": reason, "message": "said by a stand-in",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
    }});
    let nodes: Api<Node> = Api::all(context.client.clone());
    nodes.patch_status(NAME, &PatchParams::default(), &Patch::Merge(&node)).await?;
    Ok(())
}

/// Renews the node's lease until the task is aborted.
pub async fn heartbeats(context: Context) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        context.resumed().await;
        if let Err(error) = beat(&context).await {
            context.note(format!("the node's lease could not be renewed: {error}"));
        }
    }
}

async fn beat(context: &Context) -> Result<(), kube::Error> {
    let now = MicroTime(Timestamp::now());
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": NAME, "namespace": NODE_LEASES},
        "spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": now},
    }))
    .expect("a Lease");
    let leases: Api<Lease> = Api::namespaced(context.client.clone(), NODE_LEASES);
    match leases.patch(NAME, &PatchParams::default(), &Patch::Merge(&lease)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            leases.create(&PostParams::default(), &lease).await.map(|_| ())
        }
        other => other.map(|_| ()),
    }
}
