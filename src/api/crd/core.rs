//! Kubernetes' own types inside ours (affinity, resources, spread): complete, but without their long descriptions, and
//! with the markers of server-side apply that the Rust types do not carry.

use serde_json::json;

use super::node::Node;
use crate::api::quantity::QUANTITY_PATTERN;

/// Fields that an EtcdCluster hands on to Pods, where both the spec and the observed target have them.
pub(super) fn pod_fields(node: &mut Node<'_>) {
    affinity(&mut node.at("affinity"));
    resources(&mut node.at("resources"));
    topology_spread(&mut node.at("topologySpreadConstraints"));
    super::shapes::object_reference(&mut node.at("imagePullSecrets[]")).describe(None);
}

fn without_descriptions(node: &mut Node<'_>, visit: impl Fn(&mut Node<'_>)) {
    let mut top = true;
    node.walk(&mut |inner| {
        if !top {
            inner.describe(None);
        }
        top = false;
        visit(inner);
    });
}

fn affinity(node: &mut Node<'_>) {
    without_descriptions(node, |inner| {
        if inner.type_name() == "array" {
            inner.atomic_list();
        }
    });
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    node.at(&format!("nodeAffinity.{required}")).atomic_map();
    node.at(&format!("nodeAffinity.{required}.nodeSelectorTerms[]")).atomic_map();
    node.at(&format!("nodeAffinity.{preferred}[].preference")).atomic_map();
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for term in [format!("{required}[]"), format!("{preferred}[].podAffinityTerm")] {
            for selector in ["labelSelector", "namespaceSelector"] {
                node.at(&format!("{affinity}.{term}.{selector}")).atomic_map();
            }
        }
    }
}

fn resources(node: &mut Node<'_>) {
    without_descriptions(node, |inner| {
        if inner.is_int_or_string() {
            inner.any_of(&[json!({"type": "integer"}), json!({"type": "string"})]).pattern(QUANTITY_PATTERN);
        }
    });
    node.at("claims").list_by("name");
}

fn topology_spread(node: &mut Node<'_>) {
    without_descriptions(node, |_| ());
    let mut item = node.at("[]");
    item.at("labelSelector").atomic_map();
    for list in ["matchLabelKeys", "labelSelector.matchExpressions", "labelSelector.matchExpressions[].values"] {
        item.at(list).atomic_list();
    }
}
