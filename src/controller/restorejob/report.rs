//! What a restore reports in fields of its own: the plan, bytes, the proof, the outage. Pure.

use serde_json::Value;

use super::decide::Step;
use super::facts::OldData;
use super::observe::Observed;
use super::options::{OnFailure, Options, SafetySnapshot};
use super::records::Facts;
use crate::api::restorejob::{LiveData, RehearsedData, RestorePlan, RestoreProgress, RestoreProof};
use crate::api::s3uri::ArtifactUri;
use crate::checks::Known;

/// What the restore does; known once the rehearsal has passed.
#[must_use]
pub(super) fn plan(seen: &Observed) -> Option<RestorePlan> {
    let facts = &seen.facts;
    let inputs = &facts.inputs.as_ref()?.fact;
    let preflight = &facts.preflight()?.fact;
    let target = target(seen)?;
    let s3 = &inputs.source.s3;
    let uri = ArtifactUri::S3 { bucket: s3.bucket.clone(), key: s3.key.clone().unwrap_or_default() };
    let replicas = target.pointer("/spec/replicas").and_then(Value::as_i64);
    Some(RestorePlan {
        source: Some(uri.to_string()),
        etcd_version: target.pointer("/spec/version").and_then(Value::as_str).map(ToOwned::to_owned),
        replicas: replicas.and_then(|replicas| i32::try_from(replicas).ok()),
        revision_bump: Some(preflight.bump),
        steps: Some(Step::ALL.into_iter().filter_map(|step| planned(step, inputs.options)).collect()),
    })
}

/// The cluster that is made again: as captured, as it stands there, or as something remembers it.
fn target(seen: &Observed) -> Option<Value> {
    if let Some(capture) = &seen.facts.capture {
        return Some(capture.fact.object.clone());
    }
    match (&seen.cluster, &seen.lost) {
        (Known::Found(cluster), _) => serde_json::to_value(cluster).ok(),
        (Known::Absent, Known::Found(lost)) => Some(lost.object.clone()),
        (Known::Absent | Known::Unknown(_), _) => None,
    }
}

/// A step of the plan, where it is one that is still ahead after the rehearsal.
fn planned(step: Step, options: Options) -> Option<String> {
    let what = match step {
        Step::Validated | Step::Preflighted => return None,
        Step::SafetySnapshotTaken => match options.safety_snapshot {
            SafetySnapshot::Always => "store a snapshot of the old data; without it the restore ends here",
            SafetySnapshot::IfHealthy => "store a snapshot of the old data, if its etcd is healthy",
            SafetySnapshot::Never => "take no snapshot of the old data",
        },
        Step::Suspended => "suspend the HelmRelease, if there is one, and wait until no Helm run is under way",
        Step::EtcdClusterSpecCaptured => "guard the EtcdCluster and record the whole object",
        Step::VolumeKept => {
            let then = match options.on_failure {
                OnFailure::Rollback => "from here on a failure puts the old data back",
                OnFailure::Hold => "from here on a failure waits for a person",
            };
            return Some(told(step, &format!("keep the volume of the most advanced member; {then}")));
        }
        Step::TargetPurged => "delete the EtcdCluster and wait until its members, Pods and other volumes are gone",
        Step::Recreated => "create it again with the same name, spec, labels and annotations, from the snapshot",
        Step::Verified => "compare revision and HashKV of a quorum with the rehearsal's",
        Step::Resumed => "put back what spec.suspend of the HelmRelease was",
    };
    Some(told(step, what))
}

fn told(step: Step, what: &str) -> String {
    format!("{}: {what}", step.word())
}

/// Bytes, as far as stages have ended.
#[must_use]
pub(super) fn progress(facts: &Facts) -> Option<RestoreProgress> {
    let inputs = &facts.inputs.as_ref()?.fact;
    let rehearsal = facts.preflight().and_then(|preflight| preflight.fact.rehearsal.as_ref());
    let rehearsed = rehearsal.and_then(|rehearsal| i64::try_from(rehearsal.db_bytes).ok());
    let safety = facts.safety.as_ref().and_then(|safety| safety.fact.source.as_ref());
    let restored = facts.verified.as_ref().filter(|verified| verified.fact.attempt == 0);
    let progress = RestoreProgress {
        snapshot_bytes: inputs.source.size_bytes,
        rehearsed_bytes: rehearsed,
        safety_snapshot_bytes: safety.and_then(|source| source.size_bytes),
        restored_bytes: restored.and(rehearsed),
    };
    (progress != RestoreProgress::default()).then_some(progress)
}

/// What is proven so far.
#[must_use]
pub(super) fn proof(facts: &Facts) -> Option<RestoreProof> {
    let rehearsal = facts.preflight().and_then(|preflight| preflight.fact.rehearsal.as_ref());
    let rehearsed = rehearsal.map(|found| RehearsedData {
        revision: Some(found.revision),
        keys: Some(found.keys),
        hash_kv: Some(i64::from(found.hash_kv)),
        hash_revision: Some(found.hash_revision),
    });
    // Of a cluster that was left standing nothing was asked.
    let live = facts.verified.as_ref().filter(|verified| verified.fact.replicas > 0).map(|verified| LiveData {
        revision: Some(verified.fact.revision),
        hash_kv: verified.fact.hash_kv.map(i64::from),
        members: Some(verified.fact.members),
        replicas: Some(verified.fact.replicas),
    });
    (rehearsed.is_some() || live.is_some()).then_some(RestoreProof { rehearsed, live })
}

/// Seconds from the deletion of the old cluster to the proof of the new one, or of the old data that was put back.
#[must_use]
pub(super) fn outage_seconds(facts: &Facts) -> Option<i64> {
    if facts.rollback().is_some_and(|rollback| matches!(rollback.fact.source, OldData::Standing { .. })) {
        return None;
    }
    let from = facts.kept.as_ref()?.at.as_ref()?;
    let until = facts.verified.as_ref()?.at.as_ref()?;
    Some(until.0.duration_since(from.0).as_secs())
}
