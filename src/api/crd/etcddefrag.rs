//! EtcdDefrag.

use super::definition::Definition;
use super::node::Node;
use super::shapes;
use crate::api::etcddefrag::{EtcdDefrag, EtcdDefragSpec, EtcdDefragStatus};

pub(super) fn definition() -> Definition {
    let mut definition = Definition::of::<EtcdDefrag, EtcdDefragSpec, EtcdDefragStatus>(
        "A request to defragment the members of an EtcdCluster.",
    )
    .status_subresource()
    .column("Cluster", "string", ".spec.clusterRef.name")
    .column("Phase", "string", ".status.phase")
    .column("Defragmented", "integer", ".status.defragmented")
    .age();
    let mut root = definition.root();
    let mut spec = root.at("spec");
    spec.required(&["clusterRef"]);
    shapes::object_reference(&mut spec.at("clusterRef"));
    spec.at("ttlSecondsAfterFinished").minimum(0);
    spec.rule_about(
        ".clusterRef.name",
        "has(self.clusterRef.name) && self.clusterRef.name != ''",
        "must not be empty: name the EtcdCluster to defragment",
    );
    rule(&mut spec.at("rule"));
    shapes::conditions(&mut root.at("status.conditions"));
    root.at("status.members").list_by("name");
    root.at("status.members[]").required(&["name"]);
    definition
}

/// Which members are worth it.
fn rule(node: &mut Node<'_>) {
    node.at("quotaUsageAbove").pattern("^([1-9][0-9]?|100)%$");
    node.rule_about(
        ".all",
        "!(has(self.all) && self.all && (has(self.freeSpaceAbove) || has(self.quotaUsageAbove) || has(self.minReclaim)))",
        "takes every member, so it goes with no threshold: leave out either all or the thresholds",
    );
    for threshold in ["freeSpaceAbove", "minReclaim"] {
        node.rule_about(
            &format!(".{threshold}"),
            &format!("!has(self.{threshold}) || quantity(string(self.{threshold})).compareTo(quantity('0')) > 0"),
            "must be greater than 0",
        );
    }
    node.rule_about(
        ".minReclaim",
        "has(self.quotaUsageAbove) || !has(self.minReclaim)",
        "only narrows quotaUsageAbove: set that too, or leave minReclaim out",
    );
    node.rule_about(
        ".minReclaim",
        "!has(self.minReclaim) || !has(self.freeSpaceAbove) \
         || quantity(string(self.freeSpaceAbove)).compareTo(quantity(string(self.minReclaim))) >= 0",
        "must not be greater than freeSpaceAbove, which would never be reached",
    );
}
