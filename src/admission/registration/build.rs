//! The webhook configurations, every field written out: what a server fills in by itself would look like drift.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use crate::checks::Kind;

/// Name of both configurations.
pub const NAME: &str = "etcd-warden";
/// The entry whose kinds are refused while nobody answers.
pub const REQUIRED: &str = "required.etcd-warden.io";
/// The entry whose kinds are admitted while nobody answers.
pub const ADVISORY: &str = "advisory.etcd-warden.io";
/// The entry that adds defaults.
pub const DEFAULTS: &str = "defaults.etcd-warden.io";
/// Objects of this name, in any namespace, are asked about even on our own behalf: they are the self-check.
pub const SELF_CHECK: &str = "etcd-warden-self-check";

/// How the API server reaches us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// By URL, for a process outside the cluster: `https://host:port`, without a path.
    Url(String),
    /// By a Service in the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: i32,
    },
}

impl Endpoint {
    /// The names that the serving certificate must carry.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Url(url) => vec![host(url).to_owned()],
            Self::Service { namespace, name, .. } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
                format!("{name}.{namespace}"),
            ],
        }
    }

    fn client_config(&self, path: &str, bundle: &str) -> WebhookClientConfig {
        let (url, service) = match self {
            Self::Url(url) => (Some(format!("{}{path}", url.trim_end_matches('/'))), None),
            Self::Service { namespace, name, port } => {
                let reference = ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    path: Some(path.to_owned()),
                    port: Some(*port),
                };
                (None, Some(reference))
            }
        };
        // Without a bundle the API server trusts the authorities of its own machine.
        let ca_bundle = (!bundle.is_empty()).then(|| ByteString(bundle.as_bytes().to_vec()));
        WebhookClientConfig { ca_bundle, service, url }
    }
}

/// The host of an `https://host:port` URL, an IPv6 address without its brackets.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    }
}

/// What the configurations are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// How the API server reaches us.
    pub endpoint: Endpoint,
    /// PEM certificates of the authorities to trust.
    pub bundle: String,
    /// Whether the required kinds are refused while nobody answers.
    pub enforcing: bool,
    /// Our own service account's user name, which is not asked about.
    pub own_user: Option<String>,
    /// What the configurations are deleted with: an object of the installation.
    pub owner: Option<OwnerReference>,
    /// The `resourceVersion` of the validating configuration that this was made from; `None` where there was none.
    pub version: Option<String>,
}

/// The validating configuration: two entries over disjoint kinds and operations, so that one object is asked about once.
#[must_use]
pub fn validating(wanted: &Wanted) -> ValidatingWebhookConfiguration {
    let entry = |name: &str, rules: Vec<RuleWithOperations>, policy: &str, seconds: i32| ValidatingWebhook {
        name: name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: wanted.endpoint.client_config("/validate", &wanted.bundle),
        failure_policy: Some(policy.to_owned()),
        match_conditions: Some(conditions(wanted.own_user.as_deref())),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(LabelSelector::default()),
        object_selector: Some(LabelSelector::default()),
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(seconds),
    };
    let policy = if wanted.enforcing { "Fail" } else { "Ignore" };
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta { resource_version: wanted.version.clone(), ..metadata(wanted) },
        webhooks: Some(vec![
            entry(REQUIRED, required_rules(), policy, 10),
            entry(ADVISORY, advisory_rules(), "Ignore", 5),
        ]),
    }
}

/// The mutating configuration.
#[must_use]
pub fn mutating(wanted: &Wanted) -> MutatingWebhookConfiguration {
    let kinds = [
        Kind::Strategy,
        Kind::WardenStrategy,
        Kind::BackupClass,
        Kind::BackupJob,
        Kind::Backup,
        Kind::RestoreJob,
        Kind::Plan,
    ];
    MutatingWebhookConfiguration {
        metadata: metadata(wanted),
        webhooks: Some(vec![MutatingWebhook {
            name: DEFAULTS.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: wanted.endpoint.client_config("/mutate", &wanted.bundle),
            failure_policy: Some("Ignore".to_owned()),
            match_conditions: Some(Vec::new()),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(LabelSelector::default()),
            object_selector: Some(LabelSelector::default()),
            reinvocation_policy: Some("Never".to_owned()),
            rules: Some(kinds.into_iter().map(|kind| rule(kind, &["CREATE"], &[])).collect()),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(5),
        }]),
    }
}

fn metadata(wanted: &Wanted) -> ObjectMeta {
    let labels = [("app.kubernetes.io/name", "etcd-warden"), ("app.kubernetes.io/managed-by", "etcd-warden")];
    ObjectMeta {
        name: Some(NAME.to_owned()),
        owner_references: wanted.owner.clone().map(|owner| vec![owner]),
        labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
        ..ObjectMeta::default()
    }
}

/// Deletions are never refused, and so never asked about where silence would refuse them.
fn required_rules() -> Vec<RuleWithOperations> {
    let mut rules = vec![rule(Kind::EtcdCluster, &["CREATE", "UPDATE"], &["scale"])];
    let others = [Kind::RestoreJob, Kind::Strategy, Kind::WardenStrategy];
    rules.extend(others.into_iter().map(|kind| rule(kind, &["CREATE", "UPDATE"], &[])));
    rules
}

fn advisory_rules() -> Vec<RuleWithOperations> {
    let mut rules: Vec<_> =
        [Kind::EtcdCluster, Kind::RestoreJob].into_iter().map(|kind| rule(kind, &["DELETE"], &[])).collect();
    rules.push(rule(Kind::EtcdMember, &["CREATE", "UPDATE", "DELETE"], &["scale"]));
    let others = [Kind::EtcdSnapshot, Kind::BackupClass, Kind::BackupJob, Kind::Plan];
    rules.extend(others.into_iter().map(|kind| rule(kind, &["CREATE", "UPDATE"], &[])));
    rules.push(rule(Kind::Backup, &["CREATE", "UPDATE", "DELETE"], &[]));
    rules
}

fn rule(kind: Kind, operations: &[&str], subresources: &[&str]) -> RuleWithOperations {
    let plural = kind.plural();
    let resources =
        std::iter::once(plural.to_owned()).chain(subresources.iter().map(|sub| format!("{plural}/{sub}"))).collect();
    RuleWithOperations {
        api_groups: Some(vec![kind.group().to_owned()]),
        api_versions: Some(vec!["*".to_owned()]),
        operations: Some(operations.iter().map(|&operation| operation.to_owned()).collect()),
        resources: Some(resources),
        scope: Some(if kind.namespaced() { "Namespaced" } else { "Cluster" }.to_owned()),
    }
}

/// What the API server need not ask about. In `request`, what is empty is absent, and reading it is an error. These hold with every one of our Pods dead, too: an object on its way out
/// loses its finalizers, metadata stays editable, and our own restores go on.
fn conditions(own_user: Option<&str>) -> Vec<MatchCondition> {
    let condition = |name: &str, expression: String| MatchCondition { name: name.to_owned(), expression };
    let mut conditions = vec![
        condition("not-on-its-way-out", "object == null || !has(object.metadata.deletionTimestamp)".to_owned()),
        condition(
            "more-than-metadata",
            "request.operation != 'UPDATE' || has(request.subResource) || !has(object.spec) || !has(oldObject.spec) \
             || object.spec != oldObject.spec || has(object.metadata.annotations) != \
             has(oldObject.metadata.annotations) || (has(object.metadata.annotations) && \
             object.metadata.annotations != oldObject.metadata.annotations) || \
             (request.resource.resource == 'backups' && (has(object.status) || has(oldObject.status)))"
                .to_owned(),
        ),
    ];
    if let Some(user) = own_user {
        let expression = format!(
            "request.userInfo.username != '{}' || (has(request.name) && request.name == '{SELF_CHECK}')",
            user.replace('\'', "\\'")
        );
        conditions.push(condition("not-by-ourselves", expression));
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_urls() {
        for (url, name) in [
            ("https://127.0.0.1:9443", "127.0.0.1"),
            ("https://[::1]:9443/", "::1"),
            ("https://warden.example:443/base", "warden.example"),
            ("https://warden.example", "warden.example"),
        ] {
            assert_eq!(Endpoint::Url(url.to_owned()).names(), [name]);
        }
    }

    #[test]
    fn no_kind_and_operation_is_asked_about_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for rule in required_rules().into_iter().chain(advisory_rules()) {
            for operation in rule.operations.unwrap() {
                for resource in rule.resources.iter().flatten() {
                    let group = rule.api_groups.as_ref().unwrap()[0].clone();
                    assert!(seen.insert((group, resource.clone(), operation.clone())), "{resource} {operation}");
                }
            }
        }
        assert!(!seen.iter().any(|(_, resource, operation)| resource == "etcdmembers"
            && required_rules().iter().any(|rule| rule.resources.as_ref().unwrap().contains(resource))
            && operation == "CREATE"));
    }
}
