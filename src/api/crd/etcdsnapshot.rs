//! EtcdSnapshot.

use super::definition::Definition;
use super::shapes;
use crate::api::etcdsnapshot::{EtcdSnapshot, EtcdSnapshotSpec, EtcdSnapshotStatus};

pub(super) fn definition() -> Definition {
    let mut definition = Definition::of::<EtcdSnapshot, EtcdSnapshotSpec, EtcdSnapshotStatus>(
        "One snapshot of an EtcdCluster, taken once.",
    )
    .status_subresource()
    .column("Cluster", "string", ".spec.clusterRef.name")
    .column("Phase", "string", ".status.phase")
    .column("Size", "integer", ".status.artifact.sizeBytes")
    .age();
    let mut root = definition.root();
    root.at("spec").required(&["clusterRef", "destination"]);
    shapes::object_reference(&mut root.at("spec.clusterRef"));
    shapes::location(&mut root.at("spec.destination"));
    shapes::artifact(&mut root.at("status.artifact"));
    shapes::conditions(&mut root.at("status.conditions"));
    definition
}
