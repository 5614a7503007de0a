//! What the objects of a cluster are called and how they speak: names, labels, URLs. On the wire it is all upstream's,
//! so that a cluster made by either can be taken over by the other.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use crate::api::etcdcluster::{AdditionalMetadata, EtcdCluster};
use crate::api::etcdmember::EtcdMember;
use crate::api::names::operator;

/// Port of clients.
pub const CLIENT_PORT: i32 = 2379;
/// Port of the other members.
pub const PEER_PORT: i32 = 2380;
/// Port of metrics and health, always plain HTTP.
pub const METRICS_PORT: i32 = 2381;

/// Labels and annotations.
pub type Labels = BTreeMap<String, String>;

/// Labels of everything that belongs to a cluster.
#[must_use]
pub fn cluster_labels(cluster: &str) -> Labels {
    [
        ("app.kubernetes.io/name", "etcd"),
        ("app.kubernetes.io/instance", cluster),
        ("app.kubernetes.io/managed-by", "etcd-operator"),
        (operator::CLUSTER, cluster),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Whether etcd shall ask for a password, as the spec has it.
#[must_use]
pub fn wants_auth(cluster: &EtcdCluster) -> bool {
    cluster.spec.auth.as_ref().and_then(|auth| auth.enabled) == Some(true)
}

/// Labels of everything that belongs to a member.
#[must_use]
pub fn member_labels(cluster: &str, member: &str) -> Labels {
    let mut labels = cluster_labels(cluster);
    labels.insert("app.kubernetes.io/component".to_owned(), member.to_owned());
    labels
}

/// Selector of all Pods of a cluster, as `/scale` shows it.
#[must_use]
pub fn cluster_selector(cluster: &str) -> String {
    format!("{}={cluster}", operator::CLUSTER)
}

/// Selector of a member's Pod, as `/scale` shows it.
#[must_use]
pub fn member_selector(cluster: &str, member: &str) -> String {
    format!("{}={cluster},app.kubernetes.io/component={member}", operator::CLUSTER)
}

/// `ours` with what the user wants to see in addition. Ours win, and nobody sets keys of the operator from outside.
#[must_use]
pub fn with_additional(ours: Labels, additional: Option<&Labels>) -> Labels {
    let mut all: Labels = additional
        .into_iter()
        .flatten()
        .filter(|(key, _)| !key.starts_with(operator::PREFIX))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    all.extend(ours);
    all
}

/// Metadata of an object of a cluster: name, place, labels and annotations.
#[must_use]
pub fn metadata(name: &str, namespace: Option<&str>, labels: Labels, more: Option<&AdditionalMetadata>) -> ObjectMeta {
    let annotations = with_additional(Labels::new(), more.and_then(|more| more.annotations.as_ref()));
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        labels: Some(with_additional(labels, more.and_then(|more| more.labels.as_ref()))),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..ObjectMeta::default()
    }
}

/// The Service that gives a member its DNS name.
#[must_use]
pub fn identity_service(member: &EtcdMember) -> String {
    member.annotations().get(operator::HEADLESS_SERVICE_NAME).unwrap_or(&member.spec.cluster_name).clone()
}

/// A member's DNS name, without the cluster domain: every certificate of the operator covers this form.
#[must_use]
pub fn host(member: &EtcdMember) -> String {
    let namespace = member.namespace().unwrap_or_default();
    format!("{}.{}.{namespace}.svc", member.name_any(), identity_service(member))
}

/// `http`, or `https` when members speak TLS to each other.
#[must_use]
pub fn peer_scheme(member: &EtcdMember) -> &'static str {
    let tls = member.spec.tls.as_ref();
    scheme(tls.is_some_and(|tls| tls.peer_secret_ref.is_some() || tls.peer_auto_tls == Some(true)))
}

/// `http`, or `https` when members speak TLS to clients.
#[must_use]
pub fn client_scheme(member: &EtcdMember) -> &'static str {
    scheme(member.spec.tls.as_ref().is_some_and(|tls| tls.client_server_secret_ref.is_some()))
}

fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// Where other members reach a member.
#[must_use]
pub fn peer_url(member: &EtcdMember) -> String {
    format!("{}://{}:{PEER_PORT}", peer_scheme(member), host(member))
}

/// Where clients reach a member.
#[must_use]
pub fn client_url(member: &EtcdMember) -> String {
    format!("{}://{}:{CLIENT_PORT}", client_scheme(member), host(member))
}

/// A client URL by address, for whoever cannot or will not resolve the cluster's names.
#[must_use]
pub fn client_url_at(scheme: &str, address: &str) -> String {
    if address.contains(':') {
        format!("{scheme}://[{address}]:{CLIENT_PORT}")
    } else {
        format!("{scheme}://{address}:{CLIENT_PORT}")
    }
}

/// `--initial-cluster-token`.
#[must_use]
pub fn cluster_token(cluster: &EtcdCluster) -> String {
    format!(
        "{}-{}-{}",
        cluster.namespace().unwrap_or_default(),
        cluster.name_any(),
        cluster.metadata.uid.as_deref().unwrap_or_default()
    )
}

/// A member or cluster id as status fields hold it: 16 hex digits.
#[must_use]
pub fn hex_id(id: u64) -> String {
    format!("{id:016x}")
}

/// The name of the next member: five characters that look random, but follow from what was seen. Whoever decides the
/// same on the same view makes the same name, so that the second of two creations meets a taken name.
#[must_use]
pub fn member_name(cluster: &EtcdCluster, member_uids: &[&str]) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut uids = member_uids.to_vec();
    uids.sort_unstable();
    let seen = [cluster.metadata.uid.as_deref(), cluster.metadata.resource_version.as_deref()];
    let mut hash = Sha256::new();
    for part in seen.into_iter().flatten().chain(uids) {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest = hash.finalize();
    let suffix: String =
        digest.iter().take(5).map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect();
    format!("{}-{suffix}", cluster.name_any())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> EtcdMember {
        let mut member = EtcdMember::new(name, crate::api::etcdmember::EtcdMemberSpec::default());
        member.metadata.namespace = Some("ns".into());
        member.spec.cluster_name = "c".into();
        member
    }

    /// B1: members are dialled by names that their certificates cover, and no other.
    #[test]
    fn urls_carry_the_dns_name_that_certificates_cover() {
        let mut one = member("c-abcde");
        assert_eq!(peer_url(&one), "http://c-abcde.c.ns.svc:2380");
        assert_eq!(client_url(&one), "http://c-abcde.c.ns.svc:2379");
        one.annotations_mut().insert(operator::HEADLESS_SERVICE_NAME.into(), "legacy".into());
        one.spec.tls = Some(crate::api::etcdmember::MemberTls {
            peer_auto_tls: Some(true),
            ..crate::api::etcdmember::MemberTls::default()
        });
        assert_eq!(peer_url(&one), "https://c-abcde.legacy.ns.svc:2380");
        assert_eq!(client_url(&one), "http://c-abcde.legacy.ns.svc:2379");
    }

    #[test]
    fn addresses_of_both_families_make_urls() {
        assert_eq!(client_url_at("http", "10.0.0.1"), "http://10.0.0.1:2379");
        assert_eq!(client_url_at("https", "fd00::1"), "https://[fd00::1]:2379");
    }

    #[test]
    fn a_user_cannot_take_the_operators_labels() {
        let user = Labels::from([
            (operator::ROLE.to_owned(), "voter".to_owned()),
            ("team".to_owned(), "a".to_owned()),
            ("app.kubernetes.io/name".to_owned(), "mine".to_owned()),
        ]);
        let all = with_additional(cluster_labels("c"), Some(&user));
        assert_eq!(all.get("team").map(String::as_str), Some("a"));
        assert_eq!(all.get("app.kubernetes.io/name").map(String::as_str), Some("etcd"));
        assert!(!all.contains_key(operator::ROLE));
    }

    #[test]
    fn the_same_view_makes_the_same_name_and_another_view_another() {
        let mut cluster = EtcdCluster::new("c", crate::api::etcdcluster::EtcdClusterSpec::default());
        cluster.metadata.uid = Some("u".into());
        cluster.metadata.resource_version = Some("1".into());
        let first = member_name(&cluster, &["a", "b"]);
        assert_eq!(first, member_name(&cluster, &["b", "a"]));
        assert_ne!(first, member_name(&cluster, &["a"]));
        cluster.metadata.resource_version = Some("2".into());
        assert_ne!(first, member_name(&cluster, &["a", "b"]));
        assert_eq!(first.len(), "c-".len() + 5);
    }
}
