//! EtcdCluster.

use super::core::pod_fields;
use super::definition::Definition;
use super::node::Node;
use super::shapes;
use crate::api::etcdcluster::{
    DEFAULT_PROGRESS_DEADLINE_SECONDS, DEFAULT_REPLICAS, EtcdCluster, EtcdClusterSpec, EtcdClusterStatus,
};

pub(super) fn definition() -> Definition {
    let mut definition = Definition::of::<EtcdCluster, EtcdClusterSpec, EtcdClusterStatus>("One etcd cluster.")
        .status_subresource()
        .scale_subresource(".spec.replicas", ".status.readyMembers", ".status.selector")
        .column("Version", "string", ".spec.version")
        .column("Replicas", "integer", ".spec.replicas")
        .column("Ready", "integer", ".status.readyMembers")
        .column("Available", "string", r#".status.conditions[?(@.type=="Available")].status"#)
        .age();
    let mut root = definition.root();
    spec(&mut root.at("spec"));
    status(&mut root.at("status"));
    // Here and not on spec, because only the root sees both spec and status.
    root.rule_about(
        ".spec.bootstrap",
        "!has(oldSelf.spec) || !has(oldSelf.spec.bootstrap) || !has(self.spec) || has(self.spec.bootstrap) \
         || (has(self.status) && has(self.status.clusterID) && self.status.clusterID != '')",
        "cannot be removed before the cluster has formed (status.clusterID is empty): its data is still to come from \
         there",
    );
    definition
}

fn spec(spec: &mut Node<'_>) {
    spec.required(&["version"]);
    spec.at("version").pattern(r"^\d+\.\d+\.\d+$");
    spec.at("replicas").default(DEFAULT_REPLICAS).minimum(0);
    spec.at("progressDeadlineSeconds").default(DEFAULT_PROGRESS_DEADLINE_SECONDS).minimum(1);
    pod_fields(spec);
    shapes::options(&mut spec.at("options"));
    storage(spec);
    tls(spec);
    auth(spec);
    bootstrap(spec);
}

fn storage(spec: &mut Node<'_>) {
    let mut node = spec.at("storage");
    node.default(shapes::default_storage());
    shapes::storage(&mut node);
    shapes::storage_transitions(&mut node);
    spec.rule_about(
        ".replicas",
        "!(has(self.replicas) && self.replicas == 0 && has(self.storage) && has(self.storage.medium) \
         && self.storage.medium == 'Memory')",
        "a cluster in memory cannot be paused with 0 replicas, its data would be gone: take a snapshot and delete the \
         cluster instead",
    );
    spec.rule_about(
        ".storage.size",
        "!(has(self.storage) && has(self.storage.medium) && self.storage.medium == 'Memory') \
         || (has(self.storage.size) && quantity(string(self.storage.size)).compareTo(quantity('0')) > 0)",
        "must be greater than 0 for storage in memory: it is what keeps etcd from filling the node's memory",
    );
    spec.at("storage");
    frozen_below(
        spec,
        "storage",
        "storageClassName",
        "a volume stays in its StorageClass; create another cluster and restore a snapshot into it",
    );
}

/// As [`Node::frozen`], for a field one level further down.
fn frozen_below(spec: &mut Node<'_>, parent: &str, field: &str, message: &str) {
    let about = format!(".{parent}.{field}");
    let held = |whose: &str| format!("(has({whose}.{parent}) && has({whose}.{parent}.{field}))");
    let (old, new) = (held("oldSelf"), held("self"));
    spec.rule_about(
        &about,
        &format!("{old} == {new}"),
        &format!("cannot be added or removed after creation: {message}"),
    );
    spec.rule_about(
        &about,
        &format!("!({old} && {new}) || oldSelf.{parent}.{field} == self.{parent}.{field}"),
        &format!("cannot be changed after creation: {message}"),
    );
}

fn tls(spec: &mut Node<'_>) {
    let mut client = spec.at("tls.client");
    shapes::object_reference(&mut client.at("serverSecretRef"));
    shapes::object_reference(&mut client.at("operatorClientSecretRef"));
    client.at("certManager").required(&["serverIssuerRef"]);
    shapes::issuer(&mut client.at("certManager.serverIssuerRef"));
    shapes::issuer(&mut client.at("certManager.operatorClientIssuerRef"));
    client.rule(
        "(has(self.serverSecretRef) ? 1 : 0) + (has(self.certManager) ? 1 : 0) == 1",
        "needs exactly one source of certificates: set serverSecretRef or certManager",
    );
    client.rule_about(
        ".operatorClientSecretRef",
        "!(has(self.operatorClientSecretRef) && has(self.certManager))",
        "goes with serverSecretRef only: with certManager set certManager.operatorClientIssuerRef instead",
    );
    let mut peer = spec.at("tls.peer");
    shapes::object_reference(&mut peer.at("secretRef"));
    peer.at("certManager").required(&["issuerRef"]);
    shapes::issuer(&mut peer.at("certManager.issuerRef"));
    peer.rule(
        "(has(self.secretRef) ? 1 : 0) + (has(self.certManager) ? 1 : 0) == 1",
        "needs exactly one source of certificates: set secretRef or certManager",
    );
    spec.frozen(
        "tls",
        "running members cannot switch how they speak; create another cluster and restore a snapshot into it",
    );
}

fn auth(spec: &mut Node<'_>) {
    shapes::object_reference(&mut spec.at("auth.rootCredentialsSecretRef"));
    spec.frozen("auth", "create another cluster and restore a snapshot into it to change how clients log in");
    spec.rule_about(
        ".auth",
        "!(has(self.auth) && has(self.auth.enabled) && self.auth.enabled) || (has(self.tls) && has(self.tls.client))",
        "passwords need tls.client: without it they would cross the network in clear; set tls.client or leave \
         auth.enabled out",
    );
    spec.rule_about(
        ".auth.rootCredentialsSecretRef",
        "!(has(self.auth) && has(self.auth.enabled) && self.auth.enabled) || has(self.auth.rootCredentialsSecretRef)",
        "is needed with auth.enabled: name the Secret of type kubernetes.io/basic-auth that holds root's password",
    );
}

fn bootstrap(spec: &mut Node<'_>) {
    shapes::restore_source(&mut spec.at("bootstrap.restore"));
    // Removal is judged at the root.
    spec.rule_about(
        ".bootstrap",
        "has(oldSelf.bootstrap) || !has(self.bootstrap)",
        "cannot be added after creation: only a new cluster reads it; to restore in place use a RestoreJob",
    );
    spec.rule_about(
        ".bootstrap",
        "!(has(oldSelf.bootstrap) && has(self.bootstrap)) || oldSelf.bootstrap == self.bootstrap",
        "cannot be changed after creation: only a new cluster reads it; to restore in place use a RestoreJob",
    );
    spec.rule_about(
        ".bootstrap.restore",
        "!(has(self.bootstrap) && has(self.bootstrap.restore) && has(self.storage) && has(self.storage.medium) \
         && self.storage.medium == 'Memory')",
        "a restore needs storage that outlives a Pod, in memory every restart of the first member would restore again: \
         leave storage.medium empty",
    );
}

fn status(status: &mut Node<'_>) {
    shapes::conditions(&mut status.at("conditions"));
    shapes::restored(&mut status.at("restored"));
    let mut observed = status.at("observed");
    observed.required(&["replicas", "storage", "version"]);
    pod_fields(&mut observed);
    shapes::options(&mut observed.at("options"));
    shapes::storage(&mut observed.at("storage"));
}
