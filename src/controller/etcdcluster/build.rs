//! A cluster's target, members, Services and disruption budget. Pure.

use k8s_openapi::api::core::v1::{LocalObjectReference, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use super::decide::ServiceRole;
use crate::api::etcdcluster::{DEFAULT_REPLICAS, EtcdCluster, Observed as Target};
use crate::api::etcdmember::{EtcdMember, EtcdMemberSpec, MemberTls};
use crate::api::names::{self, operator, warden};
use crate::controller::access::client_tls_secrets;
use crate::controller::shape::{self, CLIENT_PORT, Labels, PEER_PORT};
use crate::k8s::owner::controller_reference;

/// What of the spec is worked towards.
#[must_use]
pub fn target(cluster: &EtcdCluster) -> Target {
    let spec = &cluster.spec;
    Target {
        replicas: spec.replicas.unwrap_or(DEFAULT_REPLICAS),
        version: spec.version.clone(),
        storage: spec.storage.clone().unwrap_or_default(),
        resources: spec.resources.clone(),
        affinity: spec.affinity.clone(),
        topology_spread_constraints: spec.topology_spread_constraints.clone(),
        additional_metadata: spec.additional_metadata.clone(),
        options: spec.options.clone(),
        image_pull_secrets: spec.image_pull_secrets.clone(),
    }
}

/// Whether two targets ask for the same. What the schema defaults counts as written, and the storage class, which
/// cannot change, does not count.
#[must_use]
pub fn same_target(one: &Target, other: &Target) -> bool {
    let plain = |target: &Target| {
        let mut target = target.clone();
        target.storage.storage_class_name = None;
        target.storage.medium = Some(target.storage.medium.unwrap_or_default());
        target.storage.size =
            Some(target.storage.size.unwrap_or_else(|| crate::api::quantity::Quantity("1Gi".to_owned())));
        target
    };
    plain(one) == plain(other)
}

/// Labels of the cluster's own objects, with those that the user wants in addition.
fn labels(cluster: &EtcdCluster) -> Labels {
    shape::cluster_labels(&cluster.name_any())
}

/// Metadata of what the cluster owns.
pub(super) fn metadata(
    cluster: &EtcdCluster,
    name: &str,
) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    let target = cluster.status.as_ref().and_then(|status| status.observed.as_ref());
    let more = target.and_then(|target| target.additional_metadata.as_ref());
    let mut metadata = shape::metadata(name, cluster.metadata.namespace.as_deref(), labels(cluster), more);
    metadata.owner_references = controller_reference(cluster).map(|reference| vec![reference]);
    metadata
}

/// A Service. Clients reach members that vote; members reach each other from the start.
#[must_use]
pub fn service(cluster: &EtcdCluster, role: ServiceRole) -> Service {
    let name = cluster.name_any();
    let mut selector = Labels::from([(operator::CLUSTER.to_owned(), name.clone())]);
    let port = |name: &str, number: i32| ServicePort {
        name: Some(name.to_owned()),
        port: number,
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let (name, spec) = match role {
        ServiceRole::Headless => (
            names::headless_service(&name),
            ServiceSpec {
                cluster_ip: Some("None".to_owned()),
                publish_not_ready_addresses: Some(true),
                ports: Some(vec![port("client", CLIENT_PORT), port("peer", PEER_PORT)]),
                selector: Some(selector),
                ..ServiceSpec::default()
            },
        ),
        ServiceRole::Client => {
            selector.insert(operator::ROLE.to_owned(), operator::ROLE_VOTER.to_owned());
            let ports = Some(vec![port("client", CLIENT_PORT)]);
            (names::client_service(&name), ServiceSpec { ports, selector: Some(selector), ..ServiceSpec::default() })
        }
    };
    Service { metadata: metadata(cluster, &name), spec: Some(spec), status: None }
}

/// The disruption budget.
#[must_use]
pub fn budget(cluster: &EtcdCluster, min_available: i32) -> PodDisruptionBudget {
    let name = cluster.name_any();
    let selector = Labels::from([
        (operator::CLUSTER.to_owned(), name.clone()),
        (operator::ROLE.to_owned(), operator::ROLE_VOTER.to_owned()),
    ]);
    let spec = PodDisruptionBudgetSpec {
        min_available: Some(IntOrString::Int(min_available)),
        selector: Some(LabelSelector { match_labels: Some(selector), match_expressions: None }),
        ..PodDisruptionBudgetSpec::default()
    };
    PodDisruptionBudget { metadata: metadata(cluster, &name), spec: Some(spec), status: None }
}

/// Whether a live object has everything that a wanted one sets; what else it has, others may have set.
#[must_use]
pub fn covers<K: Resource + Serialize>(live: &K, wanted: &K) -> bool {
    let plain = |object: &K| serde_json::to_value(object).unwrap_or_default();
    includes(&plain(live), &plain(wanted))
}

fn includes(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| includes(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| live.iter().any(|live| includes(live, wanted)))
        }
        (live, wanted) => live == wanted,
    }
}

/// The member that forms the cluster, complete from the start: it knows its own name, and so its first peer URL.
#[must_use]
pub fn seed(cluster: &EtcdCluster, name: &str) -> EtcdMember {
    let mut member = member(cluster, name);
    member.spec.bootstrap = Some(true);
    member.spec.restore = cluster.spec.bootstrap.as_ref().and_then(|bootstrap| bootstrap.restore.clone());
    member.spec.initial_cluster = initial_cluster_of_seed(&member);
    member
}

/// A seed forms a cluster with itself.
#[must_use]
pub fn initial_cluster_of_seed(member: &EtcdMember) -> String {
    format!("{}={}", member.name_any(), shape::peer_url(member))
}

/// A further member, which waits to be added to etcd.
#[must_use]
pub fn member(cluster: &EtcdCluster, name: &str) -> EtcdMember {
    let target = cluster.status.as_ref().and_then(|status| status.observed.clone()).unwrap_or_else(|| target(cluster));
    let token = cluster.status.as_ref().and_then(|status| status.cluster_token.clone());
    let spec = EtcdMemberSpec {
        cluster_name: cluster.name_any(),
        cluster_token: token.unwrap_or_else(|| shape::cluster_token(cluster)),
        version: target.version,
        storage: target.storage,
        resources: target.resources,
        affinity: target.affinity,
        topology_spread_constraints: target.topology_spread_constraints,
        additional_metadata: target.additional_metadata,
        options: target.options,
        image_pull_secrets: target.image_pull_secrets,
        tls: member_tls(cluster),
        ..EtcdMemberSpec::default()
    };
    let mut metadata = metadata(cluster, name);
    metadata.labels.get_or_insert_default().extend(shape::member_labels(&cluster.name_any(), name));
    metadata.finalizers = Some(vec![operator::MEMBER_CLEANUP.to_owned()]);
    let handed_on = [warden::REVISION_BUMP, warden::ETCDUTL_PATH, warden::SNAPSHOT_SHA256];
    for key in handed_on {
        if let Some(value) = cluster.annotations().get(key) {
            metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.clone());
        }
    }
    EtcdMember { metadata, spec, status: None }
}

/// TLS as members see it: names of Secrets, whoever fills them.
fn member_tls(cluster: &EtcdCluster) -> Option<MemberTls> {
    let reference = |name: String| LocalObjectReference { name };
    let mut tls = MemberTls::default();
    if let Some((server, operator)) = client_tls_secrets(cluster) {
        tls.client_server_secret_ref = Some(reference(server));
        tls.client_mtls = operator.map(|_| true);
    }
    let peer = cluster.spec.tls.as_ref().and_then(|tls| tls.peer.as_ref());
    if let Some(peer) = peer {
        let managed = peer.cert_manager.as_ref().map(|_| reference(names::peer_tls_secret(&cluster.name_any())));
        tls.peer_secret_ref = managed.or_else(|| peer.secret_ref.clone());
    } else if cluster.annotations().get(operator::PEER_AUTO_TLS).is_some_and(|value| value == "true") {
        tls.peer_auto_tls = Some(true);
    }
    Some(tls).filter(|tls| *tls != MemberTls::default())
}
