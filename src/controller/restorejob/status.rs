//! What a RestoreJob's status says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::decide::{Step, Verdict, reached};
use super::facts::{OldData, Safety};
use super::observe::Observed;
use super::records::Unreadable;
use super::report;
use crate::api::backupjob::phase;
use crate::api::condition::{Finding, set};
use crate::api::restorejob::{RestoreJob, RestoreJobStatus, reason};

/// The status that follows from what is on record and a verdict.
#[must_use]
pub fn status(seen: &Observed, verdict: &Verdict, now: Timestamp) -> RestoreJobStatus {
    let mut status = seen.job.status.clone().unwrap_or_default();
    status.started_at.get_or_insert(Time(now));
    let generation = seen.job.metadata.generation;
    let conditions = status.conditions.get_or_insert_default();
    for step in Step::ALL.into_iter().filter(|step| reached(seen, *step)) {
        let (reason, message) = told(seen, step);
        let finding = Finding { type_: step.word(), status: true, reason: reason.to_owned(), message };
        set(conditions, &finding, generation, now);
        status.step = Some(step.word().to_owned());
    }
    if let Some(finding) = rolled_back(seen) {
        set(conditions, &finding, generation, now);
        status.step = Some(reason::ROLLING_BACK.to_owned());
    }
    status.plan = report::plan(seen).or(status.plan);
    status.progress = report::progress(&seen.facts).or(status.progress);
    status.proof = report::proof(&seen.facts).or(status.proof);
    status.outage_seconds = report::outage_seconds(&seen.facts).or(status.outage_seconds);
    let (phase, holds, reason, message) = match verdict {
        Verdict::Gone | Verdict::Elsewhere { .. } => return status,
        Verdict::Waiting { reason, message } => (phase::RUNNING, false, *reason, message.clone()),
        Verdict::Succeeded { message } => (phase::SUCCEEDED, true, reason::RESTORE_COMPLETED, message.clone()),
        Verdict::DryRun { message } => (phase::SUCCEEDED, true, reason::DRY_RUN_COMPLETED, message.clone()),
        Verdict::Failed { message } => (phase::FAILED, false, reason::RESTORE_FAILED, message.clone()),
    };
    if reason == reason::BLOCKED {
        status.step = Some(reason::BLOCKED.to_owned());
    }
    if is_terminal(phase) {
        status.message = Some(message.clone());
        status.completed_at.get_or_insert(Time(now));
    } else {
        // Of an end that another program told.
        status.message = None;
        status.completed_at = None;
    }
    status.phase = Some(phase.to_owned());
    let finding = Finding { type_: reason::READY, status: holds, reason: reason.to_owned(), message };
    set(conditions, &finding, generation, now);
    status
}

/// The status of a job of which a record cannot be read: as it was, with that.
#[must_use]
pub fn unreadable(job: &RestoreJob, why: &Unreadable, now: Timestamp) -> RestoreJobStatus {
    let mut status = job.status.clone().unwrap_or_default();
    let message = format!("{why}. Nothing is done until a version of etcd-warden runs that can read it");
    let finding =
        Finding { type_: reason::READY, status: false, reason: reason::RECORDS_UNREADABLE.to_owned(), message };
    set(status.conditions.get_or_insert_default(), &finding, job.metadata.generation, now);
    status
}

/// Reason and message of a step's condition.
fn told(seen: &Observed, step: Step) -> (&'static str, String) {
    let facts = &seen.facts;
    match step {
        Step::Validated => {
            let inputs = facts.inputs.as_ref().map(|inputs| &inputs.fact);
            let key = inputs.and_then(|inputs| inputs.source.s3.key.clone()).unwrap_or_default();
            let bucket = inputs.map(|inputs| inputs.source.s3.bucket.clone()).unwrap_or_default();
            (reason::INPUTS_RECORDED, format!("s3://{bucket}/{key} is restored"))
        }
        Step::Preflighted => (reason::REHEARSED, rehearsed(seen)),
        Step::SafetySnapshotTaken => match facts.safety.as_ref().map(|safety| &safety.fact) {
            Some(Safety { source: Some(source), .. }) => {
                let key = source.s3.key.clone().unwrap_or_default();
                (reason::SAFETY_SNAPSHOT_STORED, format!("the old data is stored as s3://{}/{key}", source.s3.bucket))
            }
            Some(Safety { skipped, .. }) => {
                let why = skipped.clone().unwrap_or_default();
                (reason::SAFETY_SNAPSHOT_SKIPPED, format!("no snapshot of the old data: {why}"))
            }
            None => (reason::SAFETY_SNAPSHOT_SKIPPED, String::new()),
        },
        Step::VolumeKept => match facts.kept.as_ref().map(|kept| kept.fact.claims.join(", ")) {
            Some(claims) if !claims.is_empty() => {
                (reason::VOLUMES_KEPT, format!("PersistentVolumeClaim {claims} outlives the old cluster"))
            }
            Some(_) | None => (reason::NO_VOLUME, "the old cluster had no volume to keep".to_owned()),
        },
        Step::Suspended if facts.release.as_ref().is_some_and(|release| release.fact.exists) => {
            (reason::RELEASE_SUSPENDED, "the HelmRelease is suspended and no Helm run is under way".to_owned())
        }
        Step::Suspended => (reason::NO_RELEASE, "there is no HelmRelease to suspend".to_owned()),
        Step::Resumed => (reason::RELEASE_RESUMED, "spec.suspend of the HelmRelease is as it was found".to_owned()),
        Step::EtcdClusterSpecCaptured => {
            (reason::SPEC_CAPTURED, "the whole EtcdCluster is recorded in a ControllerRevision".to_owned())
        }
        Step::TargetPurged => {
            let left = facts.purged.get(&0).map(|purged| purged.fact.left.join(", ")).filter(|left| !left.is_empty());
            let left = left
                .map(|left| format!(", but for Pod {left} and its volume, on a node that is lost"))
                .unwrap_or_default();
            (reason::CLUSTER_PURGED, format!("the old EtcdCluster, its members, Pods and volumes are gone{left}"))
        }
        Step::Recreated => {
            let uid = facts.created.get(&0).map(|created| created.fact.cluster_uid.clone()).unwrap_or_default();
            (reason::CLUSTER_RECREATED, format!("the new EtcdCluster has UID {uid}"))
        }
        Step::Verified => {
            let verified = facts.verified.as_ref().map(|verified| verified.fact.clone()).unwrap_or_default();
            let hash = verified.hash_kv.map(|hash| format!(", hash {hash:08x} as rehearsed")).unwrap_or_default();
            let (members, replicas) = (verified.members, verified.replicas);
            let message =
                format!("{members} of {replicas} members have the data: revision {}{hash}", verified.revision);
            (reason::CLUSTER_VERIFIED, message)
        }
    }
}

/// How old data is put back, if it is.
fn rolled_back(seen: &Observed) -> Option<Finding> {
    let rollback = &seen.facts.rollback()?.fact;
    let from = match &rollback.source {
        OldData::Standing { .. } => "the old cluster, which still stands".to_owned(),
        OldData::Volume { claim, .. } => format!("volume {claim}"),
        OldData::Snapshot(source) => {
            format!("s3://{}/{}", source.s3.bucket, source.s3.key.clone().unwrap_or_default())
        }
    };
    let done = seen.facts.verified.is_some();
    let reason = if done { reason::ROLLED_BACK } else { reason::ROLLING_BACK };
    let message = format!("attempt {} puts the old data back, from {from}: {}", rollback.attempt, rollback.why);
    Some(Finding { type_: reason::ROLLED_BACK, status: done, reason: reason.to_owned(), message })
}

/// What the rehearsal found, as a sentence.
#[must_use]
pub fn rehearsed(seen: &Observed) -> String {
    match seen.facts.preflight().and_then(|preflight| preflight.fact.rehearsal.as_ref()) {
        Some(found) => format!(
            "etcd came up on the restored data: revision {}, {} keys, hash {:08x} at revision {}, rebuilt by etcdutl {}",
            found.revision, found.keys, found.hash_kv, found.hash_revision, found.etcdutl_version
        ),
        None => "the restore was rehearsed".to_owned(),
    }
}

/// Whether a phase is final.
#[must_use]
pub fn is_terminal(phase: &str) -> bool {
    phase == phase::SUCCEEDED || phase == phase::FAILED
}
