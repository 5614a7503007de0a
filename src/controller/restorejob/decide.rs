//! What a restore does next.
//!
//! A restore is a line of steps, each reached when its fact is on record (see [`super::facts`]). Whoever looks, sees the
//! first step that is not reached, does what it needs, and looks again; nothing depends on what was in memory.

mod back;
mod begin;
mod fence;
mod fit;
mod prove;
mod purge;
mod renew;
mod rival;
mod safety;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::build::{Rehearse, Start};
use super::facts::{Capture, Fact, Failing, Inputs, Volume};
use super::observe::{Observed, Release, Remnant};
use super::options::Options;
use super::records::{Dated, Facts};
use super::source::Source;
use super::status::is_terminal;
use crate::api::common::TypedReference;
use crate::api::condition;
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;
use crate::rules::class::etcd_strategy;

/// How soon something that is not watched is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A step of a restore; reached when its fact is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// All inputs are recorded.
    Validated,
    /// The restore was rehearsed.
    Preflighted,
    /// The old cluster was snapshot, or there was reason not to.
    SafetySnapshotTaken,
    /// Nothing renders the application's objects any more.
    Suspended,
    /// The whole EtcdCluster is recorded.
    EtcdClusterSpecCaptured,
    /// The old volumes outlive what comes.
    VolumeKept,
    /// Everything of the old cluster is gone.
    TargetPurged,
    /// The new cluster exists.
    Recreated,
    /// The new cluster was found to be ours, and its data to be what was rehearsed.
    Verified,
    /// The HelmRelease is as it was found.
    Resumed,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 10] = [
        Self::Validated,
        Self::Preflighted,
        Self::SafetySnapshotTaken,
        Self::Suspended,
        Self::EtcdClusterSpecCaptured,
        Self::VolumeKept,
        Self::TargetPurged,
        Self::Recreated,
        Self::Verified,
        Self::Resumed,
    ];

    /// The word in `status.step`, and the type of the step's condition.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Validated => "Validated",
            Self::Preflighted => "Preflighted",
            Self::SafetySnapshotTaken => "SafetySnapshotTaken",
            Self::Suspended => "Suspended",
            Self::EtcdClusterSpecCaptured => "EtcdClusterSpecCaptured",
            Self::VolumeKept => "VolumeKept",
            Self::TargetPurged => "TargetPurged",
            Self::Recreated => "Recreated",
            Self::Verified => "Verified",
            Self::Resumed => "Resumed",
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put our finalizer on the job, so that it cannot go before it has cleaned up.
    Hold,
    /// Take our finalizer off.
    Release,
    /// Write a fact down.
    Record(Fact),
    /// Start the Job that rehearses the restore.
    StartPreflight(Box<Rehearse>),
    /// Have the old cluster snapshot.
    TakeSnapshot(Box<Source>),
    /// Suspend the HelmRelease.
    Suspend(Release),
    /// Put back what `spec.suspend` of the HelmRelease was.
    Resume {
        /// The release.
        release: Release,
        /// What it was.
        suspend: Option<bool>,
    },
    /// Mark the job as the guard of its cluster, so that nobody else creates or changes it.
    Guard,
    /// Take the mark off.
    Unguard,
    /// Take a volume out of its member's hands, so that it outlives the member.
    KeepVolume(Box<Volume>),
    /// Give a kept volume back to its member.
    ReturnVolume(Box<Volume>),
    /// Write on a kept volume when it may go.
    ExpireVolume {
        /// The volume.
        volume: Box<Volume>,
        /// When.
        until: Timestamp,
    },
    /// Delete the cluster that stands there, if it still is what was seen.
    DeleteCluster {
        /// Its UID.
        uid: String,
        /// Its resourceVersion when it was compared with what was captured; absent where an edit does not matter.
        resource_version: Option<String>,
    },
    /// Write to the cluster that was to be deleted, so that a deletion which is still on its way fails.
    SpareCluster {
        /// Its UID.
        uid: String,
    },
    /// Take the finalizer off a member that nobody can serve any more.
    FreeMember {
        /// The member.
        member: Remnant,
        /// Its finalizers, without the one.
        keep: Vec<String>,
    },
    /// Create the new cluster.
    CreateCluster {
        /// The old one.
        capture: Box<Capture>,
        /// What it starts from.
        start: Box<Start>,
    },
}

impl Action {
    /// The action's word in logs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Record(fact) => fact.word(),
            Self::StartPreflight(_) => "start-preflight",
            Self::TakeSnapshot(_) => "take-snapshot",
            Self::Suspend(_) => "suspend",
            Self::Resume { .. } => "resume",
            Self::Guard => "guard",
            Self::Unguard => "unguard",
            Self::KeepVolume(_) => "keep-volume",
            Self::ReturnVolume(_) => "return-volume",
            Self::ExpireVolume { .. } => "expire-volume",
            Self::DeleteCluster { .. } => "delete-cluster",
            Self::SpareCluster { .. } => "spare-cluster",
            Self::FreeMember { .. } => "free-member",
            Self::CreateCluster { .. } => "create-cluster",
        }
    }
}

/// Where the restore stands once the actions are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something is under way or awaited.
    Waiting {
        /// Reason of condition `Ready`.
        reason: &'static str,
        /// What is awaited.
        message: String,
    },
    /// The application has the Backup's data.
    Succeeded {
        /// What a person should know.
        message: String,
    },
    /// The rehearsal passed, and no more was asked for.
    DryRun {
        /// What it found.
        message: String,
    },
    /// Given up.
    Failed {
        /// Why, and what was left.
        message: String,
    },
    /// The job is on its way out and nothing is left to tell.
    Gone,
    /// Another program works on the job, and its status is that program's to write.
    Elsewhere {
        /// What a person should know.
        message: String,
    },
}

/// Actions, in order, and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do. With anything in it, the world is looked at again right after.
    pub actions: Vec<Action>,
    /// Where the restore stands then; or now, where an action fails and this says more than the fault.
    pub verdict: Verdict,
    /// When to look again, if nothing changes before.
    pub again: Option<Duration>,
}

impl Plan {
    fn act(actions: impl Into<Vec<Action>>, reason: &'static str, message: &str) -> Self {
        Self { actions: actions.into(), verdict: waiting(reason, message.to_owned()), again: Some(LOOK_AGAIN) }
    }

    fn wait(reason: &'static str, message: String, again: Duration) -> Self {
        Self { actions: Vec::new(), verdict: waiting(reason, message), again: Some(again) }
    }
}

fn waiting(reason: &'static str, message: String) -> Verdict {
    Verdict::Waiting { reason, message }
}

/// The first step that is not reached, if any. Of the steps that a rollback goes through again, its own count.
#[must_use]
pub fn next_step(seen: &Observed) -> Option<Step> {
    Step::ALL.into_iter().find(|step| !is_reached_by(seen, *step, seen.facts.attempt()))
}

/// Whether the restore itself, not a rollback, has reached a step.
#[must_use]
pub fn reached(seen: &Observed, step: Step) -> bool {
    is_reached_by(seen, step, 0)
}

fn is_reached_by(seen: &Observed, step: Step, attempt: u32) -> bool {
    let facts = &seen.facts;
    match step {
        Step::Validated => facts.inputs.is_some(),
        Step::Preflighted => !facts.preflights.is_empty(),
        Step::SafetySnapshotTaken => facts.safety.is_some(),
        Step::Suspended => facts.suspended.is_some(),
        Step::EtcdClusterSpecCaptured => facts.capture.is_some(),
        // A rollback keeps no further volumes.
        Step::VolumeKept => facts.kept.is_some() || attempt > 0,
        Step::TargetPurged => facts.purged.contains_key(&attempt),
        Step::Recreated => facts.created.contains_key(&attempt),
        Step::Verified => facts.verified.as_ref().is_some_and(|verified| verified.fact.attempt == attempt),
        Step::Resumed => facts.resumed.is_some(),
    }
}

/// Whether a job is about etcd, and so ours. Until its Backup is there, its target says it, or nothing does.
#[must_use]
pub fn is_ours(seen: &Observed) -> bool {
    if seen.facts.inputs.is_some() {
        return true;
    }
    match &seen.backup {
        Known::Found(backup) => etcd_strategy(&backup.spec.strategy_ref).is_some(),
        Known::Absent | Known::Unknown(_) => {
            seen.job.spec.target_application_ref.as_ref().is_none_or(TypedReference::is_etcd_application)
        }
    }
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed, now: Timestamp) -> Plan {
    let facts = &seen.facts;
    // With the namespace everything goes, and nothing can be made in it any more.
    if is_over(&seen.job, facts) || seen.namespace_goes {
        return clean_up(seen);
    }
    if facts.inputs.is_none() && rival::is_begun_elsewhere(&seen.job) {
        return rival::leave(seen);
    }
    if let Some(failing) = &facts.failing {
        return failed(seen, failing.fact.message.clone());
    }
    if let Some(abandoned) = &facts.abandoned {
        return back::abandon(seen, abandoned.fact.message.clone());
    }
    if facts.purge_intent.is_none()
        && let Some(why) = unwanted(&seen.job)
    {
        return fail(seen, format!("{why}; the cluster was not touched"));
    }
    if let Some(plan) = back::orphaned(seen) {
        return plan;
    }
    if facts.verified.is_none() && back::is_spared(seen) {
        return back::spare(seen, now);
    }
    if facts.verified.is_some() {
        return renew::finish(seen, now);
    }
    match next_step(seen) {
        Some(Step::Validated) => begin::validate(seen, now),
        Some(Step::Preflighted) => begin::preflight(seen, now),
        Some(_) if options(seen).dry_run => begin::succeed_dry(seen),
        Some(Step::SafetySnapshotTaken) => begin::misfit(seen).unwrap_or_else(|| safety::snapshot(seen, now)),
        Some(Step::Suspended) => fence::suspend(seen, now),
        Some(Step::EtcdClusterSpecCaptured) => purge::capture(seen, now),
        Some(Step::VolumeKept) => purge::keep(seen, now),
        Some(Step::TargetPurged) => purge::purge(seen, now),
        Some(Step::Recreated) => renew::recreate(seen, now),
        Some(Step::Verified) => renew::verify(seen, now),
        Some(Step::Resumed) | None => renew::finish(seen, now),
    }
}

/// Why somebody wants the restore to end: they say so, or delete it.
fn unwanted(job: &RestoreJob) -> Option<&'static str> {
    if job.metadata.deletion_timestamp.is_some() {
        return Some("the RestoreJob was deleted");
    }
    let aborted = job.annotations().get(warden::ABORT).is_some_and(|value| value == "true");
    aborted.then_some("the restore was aborted on request")
}

/// What the job's options said when it began.
fn options(seen: &Observed) -> Options {
    seen.facts.inputs.as_ref().map(|inputs| inputs.fact.options).unwrap_or_default()
}

/// Whether the restore has come to its end. A final phase alone does not say so, for others may write one: once a restore
/// has begun, our own end is told with the phase, and not before the HelmRelease is as it was found.
#[must_use]
pub fn is_over(job: &RestoreJob, facts: &Facts) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ended = condition::find(conditions, reason::READY)
        .is_some_and(|ready| [reason::RESTORE_COMPLETED, reason::RESTORE_FAILED].contains(&ready.reason.as_str()));
    let told = facts.resumed.is_some() && condition::is_true(conditions, Step::Resumed.word()) && ended;
    is_finished(job) && facts.inputs.as_ref().is_none_or(|inputs| inputs.fact.options.dry_run || told)
}

/// Whether the job's phase is final, whoever wrote it.
#[must_use]
pub fn is_finished(job: &RestoreJob) -> bool {
    job.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(is_terminal)
}

fn is_held(job: &RestoreJob) -> bool {
    job.finalizers().iter().any(|finalizer| finalizer == warden::RESTORE_FINALIZER)
}

fn guards(job: &RestoreJob) -> bool {
    job.labels().contains_key(warden::GUARDS)
}

/// What is still to be put back once the end is settled.
fn clean_up(seen: &Observed) -> Plan {
    let mut actions = Vec::new();
    if guards(&seen.job) {
        actions.push(Action::Unguard);
    }
    if is_held(&seen.job) {
        actions.push(Action::Release);
    }
    Plan { actions, verdict: Verdict::Gone, again: None }
}

/// Ends the restore. That it ends is written down before anything is put back, or the next look would go on with it.
fn fail(seen: &Observed, message: String) -> Plan {
    if seen.facts.inputs.is_some() {
        let failing = Action::Record(Fact::Failing(Failing { message }));
        return Plan::act([failing], reason::RESTORE_FAILED, "the restore is given up");
    }
    failed(seen, message)
}

/// The end, once everything is put back: no end is told while the release is not as it was found. The phase is written
/// first; guard and finalizer go after.
fn failed(seen: &Observed, message: String) -> Plan {
    if seen.facts.inputs.is_some() && seen.facts.resumed.is_none() {
        return fence::resume(seen);
    }
    if seen.job.metadata.deletion_timestamp.is_some() {
        return clean_up(seen);
    }
    Plan { actions: Vec::new(), verdict: Verdict::Failed { message }, again: Some(LOOK_AGAIN) }
}

/// The time that the whole restore has, once its inputs are recorded.
fn left(inputs: &Dated<Inputs>, now: Timestamp) -> Duration {
    let since = inputs.at.as_ref().map_or(now, |at| at.0);
    remaining(since, u64::try_from(inputs.fact.options.timeout_seconds).unwrap_or_default(), now)
}

fn remaining(since: Timestamp, seconds: u64, now: Timestamp) -> Duration {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Duration::from_secs(seconds).saturating_sub(elapsed)
}

/// The end, where the restore may still end without anything done to the cluster.
fn out_of_time(seen: &Observed, now: Timestamp, left_over: &str) -> Option<Plan> {
    let inputs = seen.facts.inputs.as_ref()?;
    let seconds = inputs.fact.options.timeout_seconds;
    left(inputs, now).is_zero().then(|| fail(seen, format!("the restore did not end within {seconds} s; {left_over}")))
}

fn uid(object: &DynamicObject) -> String {
    object.metadata.uid.clone().unwrap_or_default()
}
