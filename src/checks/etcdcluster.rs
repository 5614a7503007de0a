//! EtcdCluster: nobody may make or change one while a RestoreJob is at work on it.

use std::sync::Arc;

use serde_json::Value;

use super::change::{Change, Identity, Operation};
use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::restorejob::is_terminal;
use super::view;
use crate::api::names::warden::{GUARDS, IGNORE_RESTORE};
use crate::policy::{Basis, Cause, Finding};

/// Name of the rule.
pub(super) const GUARD: &str = "etcdcluster-guard";

pub(super) fn check(change: &Change<'_>, lookup: &dyn Lookup, findings: &mut Vec<Finding>) {
    if change.identity == Identity::Trusted || !touches_spec(change) {
        return;
    }
    let finding = match guard(change, lookup) {
        Known::Absent => return,
        Known::Unknown(_) if change.operation == Operation::Delete => return,
        Known::Unknown(why) => {
            let message =
                format!("whether a restore is at work on this EtcdCluster could not be found out ({why}); try again");
            Finding::deny(GUARD, "spec", message)
        }
        Known::Found(job) => guarded(change, &job),
    };
    findings.push(finding.because(Cause::FieldValueForbidden).based_on(Basis::Change));
}

fn touches_spec(change: &Change<'_>) -> bool {
    match change.operation {
        Operation::Create | Operation::Delete => true,
        Operation::Update => {
            let spec = |object: Option<&Value>| object.and_then(|object| view::at(object, "/spec")).cloned();
            spec(change.object) != spec(change.old)
        }
        Operation::Connect => false,
    }
}

/// The RestoreJob that is at work on this cluster.
fn guard(change: &Change<'_>, lookup: &dyn Lookup) -> Known<Arc<Value>> {
    let guards = |job: &Arc<Value>| {
        let label = job.pointer("/metadata/labels").and_then(|labels| labels.get(GUARDS)).and_then(Value::as_str);
        label == Some(change.name_of_subject()) && !is_terminal(job)
    };
    match lookup.list(Kind::RestoreJob, Some(change.namespace)) {
        Known::Found(jobs) => jobs.into_iter().find(guards).map_or(Known::Absent, Known::Found),
        Known::Absent => Known::Absent,
        Known::Unknown(why) => Known::Unknown(why),
    }
}

fn guarded(change: &Change<'_>, job: &Value) -> Finding {
    let name = view::text(job, "/metadata/name");
    let overridden = change.subject().and_then(|object| view::annotation(object, IGNORE_RESTORE)) == Some(name);
    if change.operation == Operation::Delete {
        let message = format!("RestoreJob {name:?} is restoring this EtcdCluster right now; it will make it anew");
        return Finding::warn(GUARD, "", message);
    }
    if overridden {
        let message =
            format!("annotation {IGNORE_RESTORE} overrides RestoreJob {name:?}, which is restoring this EtcdCluster");
        return Finding::warn(GUARD, "spec", message);
    }
    let step = view::text(job, "/status/step");
    let at = if step.is_empty() { String::new() } else { format!(" (at step {step})") };
    Finding::deny(
        GUARD,
        "spec",
        format!(
            "RestoreJob {name:?} is restoring this EtcdCluster{at}, so that nobody else may make or change it now. Wait \
             for it to end, or abort it: kubectl -n {namespace} annotate restorejob {name} etcd-warden.io/abort=true. \
             To override it, put annotation {IGNORE_RESTORE}: {name} on the EtcdCluster",
            namespace = change.namespace,
        ),
    )
}
