//! The Etcd strategy, in both groups.

use super::definition::Definition;
use super::shapes;
use crate::api::strategy::{Etcd, EtcdStrategySpec, EtcdStrategyStatus, warden};

const DESCRIPTION: &str = "A backup strategy for etcd: a template of where snapshots go.";

/// In upstream's group.
pub(super) fn definition() -> Definition {
    schema(Definition::of::<Etcd, EtcdStrategySpec, EtcdStrategyStatus>(DESCRIPTION))
}

/// In our own group.
pub(super) fn warden_definition() -> Definition {
    schema(Definition::of::<warden::Etcd, EtcdStrategySpec, EtcdStrategyStatus>(DESCRIPTION))
}

fn schema(definition: Definition) -> Definition {
    let mut definition = definition
        .status_subresource()
        .column("Endpoint", "string", ".spec.template.destination.s3.endpoint")
        .column("Bucket", "string", ".spec.template.destination.s3.bucket")
        .age();
    let mut root = definition.root();
    root.at("spec").required(&["template"]);
    root.at("spec.template").required(&["destination"]);
    let mut destination = root.at("spec.template.destination");
    shapes::s3_coordinates(&mut destination.at("s3"));
    destination.at("s3.credentialsSecretRef").required(&["name"]);
    destination.at("s3.credentialsSecretRef.name").min_length(1);
    // Upstream lists s3 as required and does not know pvc. Then a volume is pruned unseen, and the person reads only
    // that s3 is missing; with these two rules they read why.
    destination.rule_about(
        ".pvc",
        "!has(self.pvc)",
        "backups go to S3 only, a volume would share the cluster's fate: remove pvc and set s3",
    );
    destination.rule_about(
        ".s3",
        "has(self.s3)",
        "is needed: give endpoint, bucket and credentialsSecretRef of the S3 store that takes the snapshots",
    );
    shapes::conditions(&mut root.at("status.conditions")).list_by("type");
    definition
}
