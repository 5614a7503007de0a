//! EtcdMember.

use super::core::pod_fields;
use super::definition::Definition;
use super::node::Node;
use super::shapes;
use crate::api::etcdmember::{EtcdMember, EtcdMemberSpec, EtcdMemberStatus};

pub(super) fn definition() -> Definition {
    let mut definition = Definition::of::<EtcdMember, EtcdMemberSpec, EtcdMemberStatus>(
        "One member of an EtcdCluster. Made by the cluster's controller, not by people.",
    )
    .status_subresource()
    .scale_subresource(".spec.replicas", ".status.replicas", ".status.selector")
    .column("Cluster", "string", ".spec.clusterName")
    .column("Version", "string", ".spec.version")
    .column("Running", "string", ".status.version")
    .column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#)
    .column("Voter", "boolean", ".status.isVoter")
    .age();
    let mut root = definition.root();
    spec(&mut root.at("spec"));
    shapes::conditions(&mut root.at("status.conditions"));
    shapes::restored(&mut root.at("status.restored"));
    definition
}

fn spec(spec: &mut Node<'_>) {
    spec.required(&["clusterName", "clusterToken", "initialCluster", "storage", "version"]);
    spec.at("clusterName").min_length(1);
    spec.at("version").pattern(r"^\d+\.\d+\.\d+$");
    spec.at("replicas").default(1).minimum(1).maximum(1);
    pod_fields(spec);
    shapes::options(&mut spec.at("options"));
    shapes::storage(&mut spec.at("storage"));
    shapes::storage_transitions(&mut spec.at("storage"));
    shapes::restore_source(&mut spec.at("restore"));
    shapes::object_reference(&mut spec.at("tls.clientServerSecretRef"));
    shapes::object_reference(&mut spec.at("tls.peerSecretRef"));
}
