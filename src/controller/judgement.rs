//! The rules, over what a controller is about to act on: an object may have come in while nobody was asked about it.

use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use crate::checks::{Change, Identity, Kind, Lookup, Operation, judge};
use crate::policy::{Action, InForce};

/// Judges as admission does.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    policies: InForce,
}

impl Judgement {
    /// By these policies.
    #[must_use]
    pub fn new(policies: InForce) -> Self {
        Self { policies }
    }

    /// Why an object would be refused if it were made now; `None` if it would not be. Who made it cannot be known, so
    /// that rules about that are left out.
    #[must_use]
    pub fn of_new<K>(&self, kind: Kind, object: &K, lookup: &dyn Lookup, now: Timestamp) -> Option<String>
    where
        K: Resource + Serialize,
    {
        self.judge(kind, object, None, lookup, now)
    }

    /// Why a change of an object would be refused.
    #[must_use]
    pub fn of_change<K>(&self, kind: Kind, new: &K, old: &K, lookup: &dyn Lookup, now: Timestamp) -> Option<String>
    where
        K: Resource + Serialize,
    {
        self.judge(kind, new, Some(old), lookup, now)
    }

    fn judge<K>(&self, kind: Kind, new: &K, old: Option<&K>, lookup: &dyn Lookup, now: Timestamp) -> Option<String>
    where
        K: Resource + Serialize,
    {
        let metadata = new.meta();
        let object = serde_json::to_value(new).ok()?;
        let old: Option<Value> = old.and_then(|old| serde_json::to_value(old).ok());
        let change = Change {
            kind,
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            subresource: "",
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            name: metadata.name.as_deref().unwrap_or_default(),
            user: "",
            identity: Identity::Trusted,
            object: Some(&object),
            old: old.as_ref(),
            now,
        };
        let verdict = judge(&change, &self.policies.get(), lookup);
        let told: Vec<String> = verdict
            .with(Action::Deny)
            .map(|finding| match finding.field() {
                "" => format!("{} ({})", finding.message, finding.policy),
                field => format!("{field}: {} ({})", finding.message, finding.policy),
            })
            .collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::etcdcluster::EtcdCluster;
    use crate::checks::Nothing;

    fn cluster(version: &str) -> EtcdCluster {
        serde_json::from_value(json!({"metadata": {"name": "etcd", "namespace": "a"}, "spec": {"version": version,
            "replicas": 1, "bootstrap": {"restore": {"source": {"s3": {"endpoint": "s3.example", "bucket": "b",
                "key": "k", "credentialsSecretRef": {"name": "c"}}}}}}}))
        .unwrap()
    }

    #[test]
    fn what_admission_refuses_is_refused_here_in_the_same_words() {
        let of = |version: &str| {
            Judgement::default().of_new(Kind::EtcdCluster, &cluster(version), &Nothing, Timestamp::UNIX_EPOCH)
        };
        assert_eq!(of("3.5.0"), None);
        let why = of("3.4.44").unwrap();
        assert!(why.starts_with("spec.version: ") && why.ends_with("(etcdcluster-restore-needs-etcdutl)"), "{why}");
    }

    #[test]
    fn a_change_is_blamed_for_what_it_brings_only() {
        let of = |new: &str, old: &str| {
            let (new, old) = (cluster(new), cluster(old));
            Judgement::default().of_change(Kind::EtcdCluster, &new, &old, &Nothing, Timestamp::UNIX_EPOCH)
        };
        assert_eq!(of("3.6.1", "3.5.1"), None);
        assert_eq!(of("3.4.44", "3.4.44"), None);
        assert!(of("3.7.0", "3.5.1").unwrap().contains("one minor at a time"));
    }
}
