//! What is left of a cluster's members while it goes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, Error, Resource};

use super::{Remains, Remnant, answer};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::names::operator;
use crate::checks::Known;

pub(super) async fn remains(client: &Client, namespace: &str) -> Result<Remains, Error> {
    let members: Api<EtcdMember> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let of_cluster = ListParams::default().labels(&format!("{}={APP_CLUSTER_NAME}", operator::CLUSTER));
    let (members, pods, claims) = tokio::try_join!(
        members.list_metadata(&of_cluster),
        pods.list(&of_cluster),
        claims.list_metadata(&of_cluster)
    )?;
    let lost = lost_nodes(client, &pods.items).await;
    // Other Pods may carry the label: those of snapshots, say. Members' are controlled by a member.
    let pods = of_members(pods.items.iter().map(|pod| {
        let node = node_of(pod).filter(|node| lost.get(*node) == Some(&true));
        (&pod.metadata, node)
    }));
    Ok(Remains {
        members: members.items.iter().map(|object| remnant(&object.metadata, &EtcdCluster::kind(&()))).collect(),
        pods,
        claims: of_members(claims.items.iter().map(|claim| (&claim.metadata, None))),
    })
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The nodes of Pods that are going, and whether each is lost. One that cannot be read is not called lost.
async fn lost_nodes(client: &Client, pods: &[Pod]) -> BTreeMap<String, bool> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut found = BTreeMap::new();
    for name in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).filter_map(node_of) {
        if !found.contains_key(name) {
            let lost = match answer(nodes.get(name).await) {
                Known::Found(node) => !is_ready(&node),
                Known::Absent => true,
                Known::Unknown(_) => false,
            };
            found.insert(name.to_owned(), lost);
        }
    }
    found
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn of_members<'a>(objects: impl Iterator<Item = (&'a ObjectMeta, Option<&'a str>)>) -> Vec<Remnant> {
    let all = objects.map(|(metadata, node)| Remnant {
        lost_on: node.map(ToOwned::to_owned),
        ..remnant(metadata, &EtcdMember::kind(&()))
    });
    all.filter(|remnant| !remnant.owner_uid.is_empty()).collect()
}

fn remnant(metadata: &ObjectMeta, owner_kind: &str) -> Remnant {
    let owners = metadata.owner_references.iter().flatten();
    let owner =
        owners.filter(|owner| owner.kind == owner_kind && owner.controller == Some(true)).map(|owner| &owner.uid);
    Remnant {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        owner_uid: owner.max().cloned().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        going_since: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        lost_on: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(name: &str, owner: &serde_json::Value) -> ObjectMeta {
        serde_json::from_value(json!({"name": name, "uid": name,
            "labels": {"app.kubernetes.io/instance": "etcd", "etcd-operator.cozystack.io/cluster": "etcd"},
            "ownerReferences": owner}))
        .unwrap()
    }

    /// R18: a volume or Pod that has the cluster's labels, but no member for its controller, is not the cluster's.
    #[test]
    fn what_no_member_controls_does_not_belong_to_the_cluster() {
        let member = json!([{"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdMember", "name": "etcd-a",
            "uid": "m", "controller": true}]);
        let other = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]);
        let held = json!([{"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdMember", "name": "etcd-a",
            "uid": "m"}]);
        let all = [metadata("a", &member), metadata("b", &other), metadata("c", &held), metadata("d", &json!([]))];
        let found = of_members(all.iter().map(|metadata| (metadata, None)));
        assert_eq!(found.iter().map(|remnant| remnant.name.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_node_is_ready_only_where_it_says_so() {
        let node = |conditions: serde_json::Value| -> Node {
            serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap()
        };
        assert!(is_ready(&node(json!([{"type": "Ready", "status": "True"}]))));
        assert!(!is_ready(&node(json!([{"type": "Ready", "status": "Unknown"}]))));
        assert!(!is_ready(&node(json!([]))));
    }
}
