//! What several kinds say alike.

use serde_json::json;

use super::node::Node;

/// A reference by name to an object in the same namespace. As upstream has it: owned as one, and an absent name is empty.
/// (The Rust type knows no absent name, so that the shape has it as required.)
pub(super) fn object_reference<'n, 'a>(node: &'n mut Node<'a>) -> &'n mut Node<'a> {
    node.at("name").default("").describe(Some("Name of the object."));
    node.all_optional().atomic_map()
}

/// A reference by group, kind and name.
pub(super) fn typed_reference(node: &mut Node<'_>) {
    node.required(&["kind", "name"]).atomic_map();
}

/// A cert-manager issuer.
pub(super) fn issuer(node: &mut Node<'_>) {
    node.required(&["name"]);
    node.at("name").min_length(1);
    node.at("kind").default("Issuer").one_of(&["Issuer", "ClusterIssuer"]);
}

/// Conditions, as `metav1.Condition` defines them.
pub(super) fn conditions<'n, 'a>(node: &'n mut Node<'a>) -> &'n mut Node<'a> {
    let mut item = node.at("[]");
    item.describe(Some("One aspect of the state."));
    item.required(&["lastTransitionTime", "message", "reason", "status", "type"]);
    item.at("lastTransitionTime").describe(Some("When the status last changed."));
    item.at("message").describe(Some("One sentence for a person.")).max_length(32_768);
    item.at("observedGeneration").describe(Some("The generation that this was found for.")).minimum(0);
    item.at("reason")
        .describe(Some("Why, in one CamelCase word."))
        .min_length(1)
        .max_length(1024)
        .pattern(crate::api::condition::REASON_PATTERN);
    item.at("status").describe(Some("Whether it holds.")).one_of(&["True", "False", "Unknown"]);
    item.at("type").describe(Some("Which aspect.")).max_length(316).pattern(CONDITION_TYPE_PATTERN);
    drop(item);
    node
}

/// `metav1.Condition`'s own pattern for types.
const CONDITION_TYPE_PATTERN: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A member's storage, without the rules that compare it with what was: those bind a spec, not the observed copy of
/// one, or a status could not be corrected.
pub(super) fn storage(node: &mut Node<'_>) {
    node.at("medium").default("").one_of(&["", "Memory"]);
    node.at("size").default("1Gi");
}

/// The rules that compare a spec's storage with what was.
pub(super) fn storage_transitions(node: &mut Node<'_>) {
    node.at("medium").rule(
        "oldSelf == self",
        "cannot be changed after creation: data does not move between a volume and memory; create another cluster \
         and restore a snapshot into it",
    );
    node.at("size").rule(
        "quantity(string(oldSelf)).compareTo(quantity(string(self))) <= 0",
        "cannot shrink: a volume never gets smaller; keep the present size or choose a greater one",
    );
}

/// etcd's own settings.
pub(super) fn options(node: &mut Node<'_>) {
    node.at("autoCompactionMode").one_of(&["periodic", "revision"]);
    node.at("autoCompactionRetention").pattern(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$|^[0-9]+$");
    node.at("quotaBackendBytes").minimum(0);
    node.at("snapshotCount").minimum(1);
}

/// Coordinates in an S3 store that are the same for templates and for concrete places.
pub(super) fn s3_coordinates(node: &mut Node<'_>) {
    node.required(&["bucket", "credentialsSecretRef", "endpoint"]);
    node.at("bucket").min_length(1);
    node.at("endpoint").min_length(1);
    let mut ca = node.at("caSecretRef");
    ca.required(&["name"]);
    ca.at("name").min_length(1);
    ca.at("key").default("ca.crt");
}

/// Where a snapshot goes to or comes from.
pub(super) fn location(node: &mut Node<'_>) {
    s3_coordinates(&mut node.at("s3"));
    object_reference(&mut node.at("s3.credentialsSecretRef"));
    node.at("pvc").required(&["claimName"]);
    node.at("pvc.claimName").min_length(1);
    node.rule(
        "(has(self.s3) ? 1 : 0) + (has(self.pvc) ? 1 : 0) == 1",
        "needs exactly one place: set s3 or pvc, not both and not neither",
    );
}

/// The snapshot that a cluster starts from.
pub(super) fn restore_source(node: &mut Node<'_>) {
    node.required(&["source"]);
    location(&mut node.at("source"));
    node.rule_about(
        ".source.s3.key",
        "has(self.source.s3) ? (has(self.source.s3.key) && self.source.s3.key != '') : true",
        "a restore reads one object: give its whole key (Backup or EtcdSnapshot status.artifact.uri has it), not a \
         prefix",
    );
    node.rule_about(
        ".source.pvc.subPath",
        "has(self.source.pvc) ? (has(self.source.pvc.subPath) && self.source.pvc.subPath != '') : true",
        "a restore reads one file: give its path on the volume, not a directory",
    );
}

/// A stored snapshot.
pub(super) fn artifact(node: &mut Node<'_>) {
    node.required(&["uri"]);
}

/// The restore that data came from.
pub(super) fn restored(node: &mut Node<'_>) {
    node.required(&["uri"]);
}

/// An application reference, and the field selectors over it.
pub(super) const APPLICATION_SELECTORS: &[&str] =
    &[".spec.applicationRef.apiGroup", ".spec.applicationRef.kind", ".spec.applicationRef.name"];

/// The storage of an EtcdCluster whose spec has none.
pub(super) fn default_storage() -> serde_json::Value {
    json!({"medium": "", "size": "1Gi"})
}
