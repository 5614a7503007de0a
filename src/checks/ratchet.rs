//! What an UPDATE may be blamed for: only what it brought in.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::change::Change;
use crate::policy::{Basis, Finding, Segment, segments};

/// What makes two findings the same one.
#[derive(PartialEq, Eq, Hash)]
struct Had {
    policy: Cow<'static, str>,
    fields: Vec<String>,
}

impl From<Finding> for Had {
    fn from(finding: Finding) -> Self {
        Self { policy: finding.policy, fields: finding.fields }
    }
}

/// Drops the findings that the old object had too, on fields that the change left alone. Facts about other objects are
/// dropped as soon as their fields are unchanged: what is elsewhere changed by itself.
pub(super) fn apply(change: &Change<'_>, findings: &mut Vec<Finding>, find: impl FnOnce(&Change<'_>) -> Vec<Finding>) {
    let (Some(old), Some(new)) = (change.old, change.object) else { return };
    let mut before = None;
    let creation = change.creation_of_old();
    let mut find = Some(find);
    findings.retain(|finding| {
        if !finding.fields.iter().all(|field| value(old, field) == value(new, field)) {
            return true;
        }
        match finding.basis {
            Basis::Change => true,
            Basis::Others => false,
            Basis::Object => {
                let before = before.get_or_insert_with(|| match (find.take(), &creation) {
                    (Some(find), Some(creation)) => find(creation).into_iter().map(Had::from).collect(),
                    _ => HashSet::new(),
                });
                !before.contains(&Had { policy: finding.policy.clone(), fields: finding.fields.clone() })
            }
        }
    });
}

/// The value at a field path. A path that cannot be followed is absent.
#[must_use]
pub fn value<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut steps = segments(path)?.into_iter();
    let found = steps.try_fold(object, |here, step| match step {
        Segment::Field(name) => here.get(name),
        Segment::Item(at) => here.get(at),
    })?;
    Some(found).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_findings_on_both_objects_are_compared_in_no_time() {
        let object = json!({"spec": {"a": 1}});
        let change = Change {
            kind: crate::checks::Kind::RestoreJob,
            operation: crate::checks::Operation::Update,
            subresource: "",
            namespace: "t",
            name: "x",
            user: "",
            identity: crate::checks::Identity::Unknown,
            object: Some(&object),
            old: Some(&object),
            now: k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        };
        let found = || (0..50_000).map(|at| Finding::warn("rule", &format!("spec.b{at}"), "x")).collect::<Vec<_>>();
        let mut findings = found();
        findings.push(Finding::warn("rule", "spec.new", "x"));
        let started = std::time::Instant::now();
        apply(&change, &mut findings, |_| found());
        assert_eq!(findings.iter().map(Finding::field).collect::<Vec<_>>(), ["spec.new"]);
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    #[test]
    fn paths_reach_into_lists_and_maps() {
        let object = json!({"spec": {"strategies": [{"kind": "a"}, {"kind": "b", "gone": null}]},
            "metadata": {"annotations": {"etcd-warden.io/x": "y"}}});
        assert_eq!(value(&object, "spec.strategies[1].kind"), Some(&json!("b")));
        assert_eq!(value(&object, "metadata.annotations[\"etcd-warden.io/x\"]"), Some(&json!("y")));
        for absent in ["spec.strategies[1].gone", "spec.strategies[7].kind", "spec.none.at.all", "spec[", "spec[x]"] {
            assert_eq!(value(&object, absent), None, "{absent}");
        }
        assert_eq!(value(&object, ""), Some(&object));
    }
}
