//! The snapshot of the old cluster, before anything is touched: what is put back when all else fails.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::begin::target;
use super::{Action, LOOK_AGAIN, Plan, fail, options, out_of_time, remaining};
use crate::api::condition;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdsnapshot::{EtcdSnapshot, condition_type, phase};
use crate::api::restorejob::reason;
use crate::checks::Known;
use crate::controller::restorejob::facts::{Fact, Safety};
use crate::controller::restorejob::observe::Observed;
use crate::controller::restorejob::options::SafetySnapshot;
use crate::controller::restorejob::source::Source;

/// How long a snapshot may take where a restore can do without it, in seconds.
const PATIENCE: u64 = 600;

pub(super) fn snapshot(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = out_of_time(seen, now, "the cluster was not touched") {
        return plan;
    }
    let wanted = options(seen).safety_snapshot;
    if wanted == SafetySnapshot::Never {
        return skip("not asked for (options.safetySnapshot is Never)".to_owned());
    }
    match &seen.snapshot {
        Known::Unknown(why) => {
            Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the safety snapshot: {why}"), LOOK_AGAIN)
        }
        Known::Absent => begin(seen, wanted),
        Known::Found(taken) => match (taken.phase(), stored(taken)) {
            (Some(phase::COMPLETE), Some(source)) => {
                let fact = Safety { source: Some(source), skipped: None };
                Plan::act([record(fact)], reason::SAFETY_SNAPSHOT_RUNNING, "the old cluster is snapshot")
            }
            (Some(phase::COMPLETE), None) => without(seen, wanted, "it does not say where it is stored".to_owned()),
            (Some(phase::FAILED), _) => without(seen, wanted, told(taken)),
            _ if wanted == SafetySnapshot::IfHealthy && is_late(taken, now) => {
                without(seen, wanted, format!("it did not end within {PATIENCE} s: {}", told(taken)))
            }
            _ => {
                let message = format!("the old cluster is snapshot first: {}", told(taken));
                Plan::wait(reason::SAFETY_SNAPSHOT_RUNNING, message, LOOK_AGAIN)
            }
        },
    }
}

fn begin(seen: &Observed, wanted: SafetySnapshot) -> Plan {
    let capture = match target(seen) {
        Ok(capture) => capture,
        Err(plan) => return plan,
    };
    if let Some(found_in) = capture.found_in {
        return without(seen, wanted, format!("there is no cluster (what it was is known from {found_in})"));
    }
    let cluster: EtcdCluster = serde_json::from_value(capture.object).unwrap_or_default();
    let conditions = cluster.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let available = condition::is_true(conditions, "Available");
    if wanted == SafetySnapshot::IfHealthy && !available {
        return without(seen, wanted, "the old cluster is not available".to_owned());
    }
    let Some(inputs) = &seen.facts.inputs else {
        return fail(seen, "the records of this restore are incomplete".to_owned());
    };
    let take = Action::TakeSnapshot(Box::new(inputs.fact.source.clone()));
    Plan::act([take], reason::SAFETY_SNAPSHOT_RUNNING, "the old cluster is snapshot first")
}

/// There is none: the end where one was asked for in any case.
fn without(seen: &Observed, wanted: SafetySnapshot, why: String) -> Plan {
    match wanted {
        SafetySnapshot::Always => {
            fail(seen, format!("no snapshot of the old cluster could be taken: {why}; the cluster was not touched"))
        }
        SafetySnapshot::IfHealthy | SafetySnapshot::Never => skip(why),
    }
}

fn skip(why: String) -> Plan {
    let fact = Safety { source: None, skipped: Some(why) };
    Plan::act([record(fact)], reason::SAFETY_SNAPSHOT_RUNNING, "the restore goes on without a safety snapshot")
}

fn record(fact: Safety) -> Action {
    Action::Record(Fact::SafetySnapshot(Box::new(fact)))
}

/// What it stored, with the coordinates of the place that it was sent to.
fn stored(taken: &EtcdSnapshot) -> Option<Source> {
    let artifact = taken.status.as_ref()?.artifact.as_ref()?;
    let destination = taken.spec.destination.s3.clone()?;
    Source::of(artifact, destination)
}

fn told(taken: &EtcdSnapshot) -> String {
    let conditions = taken.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    condition::find(conditions, condition_type::READY)
        .map_or_else(|| "it has not begun".to_owned(), |ready| format!("{}: {}", ready.reason, ready.message))
}

fn is_late(taken: &EtcdSnapshot, now: Timestamp) -> bool {
    let since = taken.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    remaining(since, PATIENCE, now) == Duration::ZERO
}
