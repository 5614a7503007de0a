//! Which slot of a Plan is due, which were missed, and when to look again.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::observe::{Named, Observed};
use crate::api::names::{self, warden};
use crate::api::plan::{Plan, reason};
use crate::checks::Known;
use crate::rules::cron::Schedule;

/// How late a run may begin, unless the Plan says something else: of a daily backup that fell into an outage, late is
/// better than not at all.
pub const STARTING_DEADLINE: Duration = Duration::from_hours(24);
/// How soon is looked again at the latest. Waiting is measured by a clock that does not jump, slots are points of one
/// that may.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// How soon is looked again where the API server did not answer.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// A run that begins within this time after its slot is on time.
const ON_TIME: SignedDuration = SignedDuration::from_mins(1);
/// How far missed slots are counted.
const COUNTED: usize = 1_000;

/// What is done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the BackupJob of a slot.
    CreateJob {
        /// Its name.
        name: String,
        /// The slot.
        slot: Timestamp,
    },
}

/// Slots that went by without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// How many, up to a thousand.
    pub count: usize,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
}

/// What is wrong with a Plan or with its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Reason of condition `Error`.
    pub reason: &'static str,
    /// What a person can do.
    pub message: String,
}

/// Where a Plan stands once the step is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong.
    pub trouble: Option<Trouble>,
    /// What was missed; absent where this look says nothing about it.
    pub missed: Option<Option<Missed>>,
    /// The slot that has its BackupJob now.
    pub ran: Option<Timestamp>,
    /// Slots up to here are done with.
    pub settled_until: Option<Timestamp>,
    /// The slot that comes next.
    pub next: Option<Timestamp>,
}

/// A step, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is done.
    pub step: Option<Step>,
    /// Where the Plan stands then.
    pub verdict: Verdict,
    /// When to look again, if nothing changes before.
    pub again: Option<Duration>,
}

/// The slots since the Plan was last looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The slot to run now, and the name of its BackupJob.
    pub slot: Option<(Timestamp, String)>,
    /// Those that nobody runs any more.
    pub missed: Option<Missed>,
    /// Slots up to here are done with already.
    pub settled_until: Timestamp,
}

/// Reads a Plan's schedule.
///
/// # Errors
/// What is wrong with it.
pub fn schedule(plan: &Plan, now: Timestamp) -> Result<Schedule, Trouble> {
    let text = plan.spec.schedule.cron.as_deref().unwrap_or_default();
    Schedule::parse_useful(text, now).map_err(|error| Trouble {
        reason: reason::INVALID_SCHEDULE,
        message: format!("spec.schedule.cron {text:?} is no schedule: {error}"),
    })
}

/// How late a run of this Plan may begin.
fn starting_deadline(plan: &Plan) -> Result<Duration, Trouble> {
    let Some(text) = plan.annotations().get(warden::STARTING_DEADLINE_SECONDS) else { return Ok(STARTING_DEADLINE) };
    text.parse().map(Duration::from_secs).map_err(|_| Trouble {
        reason: reason::INVALID_STARTING_DEADLINE,
        message: format!("annotation {}: {text:?} is no number of seconds", warden::STARTING_DEADLINE_SECONDS),
    })
}

/// Slots up to this moment are done with: run, missed and told, or older than the Plan is in its present form. `ran` is
/// the newest slot that has a BackupJob.
fn settled_until(plan: &Plan, ran: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let status = plan.status.clone().unwrap_or_default();
    let created = plan.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let settled = match (status.observed_generation, status.settled_until) {
        // Changed since: what the new schedule would have run before it existed is nobody's loss.
        (Some(seen), _) if Some(seen) != plan.metadata.generation => now,
        (Some(_), Some(settled)) => settled.0,
        // A status that is not kept (under other definitions), or not written yet: jobs tell what was run.
        (Some(_) | None, _) => created.max(ran.unwrap_or(created)),
    };
    // A time in the future was written by a clock that went wrong, and must not stop the Plan until then. Slots that ran
    // already are recognised by their jobs' names.
    settled.min(now)
}

/// Finds the slot to run: the latest that is due, as long as it is not too late for it.
#[must_use]
pub fn due(plan: &Plan, schedule: &Schedule, ran: Option<Timestamp>, now: Timestamp) -> Due {
    let settled_until = settled_until(plan, ran, now);
    let allowed = starting_deadline(plan).unwrap_or(STARTING_DEADLINE);
    let in_time = now.checked_sub(allowed).map_or(settled_until, |earliest| earliest.max(settled_until));
    let mut slots: Vec<Timestamp> = slots(schedule, in_time, now).collect();
    let slot = slots.pop();
    // What is too old to be run is counted, and so is all but the latest of what is not.
    let late = self::slots(schedule, settled_until, in_time).take(COUNTED).chain(slots);
    let mut missed: Option<Missed> = None;
    for at in late {
        let so_far = missed.get_or_insert(Missed { count: 0, first: at, last: at });
        so_far.count = (so_far.count + 1).min(COUNTED);
        so_far.last = at;
    }
    let name = |slot: Timestamp| (slot, names::backup_job(&plan.name_any(), slot.as_second()));
    Due { slot: slot.map(name), missed, settled_until }
}

/// The slots after one moment, up to another and including it.
fn slots(schedule: &Schedule, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
    std::iter::successors(schedule.next(after), |slot| schedule.next(*slot)).take_while(move |slot| *slot <= until)
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let (schedule, due) = match (&seen.schedule, &seen.due) {
        (Ok(schedule), Some(due)) => (schedule, due),
        (Err(trouble), _) => return Decision::stopped(trouble.clone()),
        (Ok(_), None) => return Decision { step: None, verdict: Verdict::default(), again: Some(TRY_AGAIN) },
    };
    let mut verdict = Verdict { settled_until: Some(due.settled_until), ..Verdict::default() };
    verdict.trouble = starting_deadline(&seen.plan).err();
    let Some((slot, name)) = &due.slot else {
        if due.missed.is_some() {
            verdict.missed = Some(due.missed);
            verdict.settled_until = Some(now);
        }
        return Decision::waiting(verdict, schedule, now);
    };
    let step = match job(seen, name) {
        Ok(step) => step.then(|| Step::CreateJob { name: name.clone(), slot: *slot }),
        Err(Blocked::ForNow(message)) => {
            verdict.trouble = Some(Trouble { reason: reason::API_UNAVAILABLE, message });
            return Decision { step: None, verdict, again: Some(TRY_AGAIN) };
        }
        Err(Blocked::ForGood(trouble)) => {
            verdict.trouble = Some(trouble);
            verdict.settled_until = Some(*slot);
            verdict.missed = Some(due.missed);
            return Decision::waiting(verdict, schedule, now);
        }
    };
    verdict.ran = Some(*slot);
    verdict.settled_until = Some(*slot);
    verdict.missed = Some(due.missed);
    Decision { step, ..Decision::waiting(verdict, schedule, now) }
}

/// Why a slot is not run.
enum Blocked {
    ForNow(String),
    ForGood(Trouble),
}

/// Whether the BackupJob of the slot has to be made.
fn job(seen: &Observed, name: &str) -> Result<bool, Blocked> {
    match &seen.job {
        Known::Found(Named::Ours) => return Ok(false),
        Known::Found(Named::Foreign) => {
            let message = format!("BackupJob {name} exists already and is not of this Plan: its run is left out");
            return Err(Blocked::ForGood(Trouble { reason: reason::NAME_TAKEN, message }));
        }
        Known::Unknown(why) => return Err(Blocked::ForNow(format!("cannot read BackupJob {name}: {why}"))),
        Known::Absent => {}
    }
    match &seen.application {
        Known::Found(()) => Ok(true),
        Known::Absent => {
            let application = &seen.plan.spec.application_ref.name;
            let message = format!(
                "application Etcd {application} does not exist: nothing is backed up; delete this Plan if it is gone for good"
            );
            Err(Blocked::ForGood(Trouble { reason: reason::APPLICATION_NOT_FOUND, message }))
        }
        Known::Unknown(why) => Err(Blocked::ForNow(format!("cannot read the application: {why}"))),
    }
}

impl Decision {
    /// Nothing happens until the Plan is changed.
    fn stopped(trouble: Trouble) -> Self {
        let verdict = Verdict { trouble: Some(trouble), ..Verdict::default() };
        Self { step: None, verdict, again: None }
    }

    fn waiting(mut verdict: Verdict, schedule: &Schedule, now: Timestamp) -> Self {
        let from = verdict.settled_until.unwrap_or(now);
        verdict.next = schedule.next(from);
        let until =
            verdict.next.map_or(LOOK_AGAIN, |next| Duration::try_from(next.duration_since(now)).unwrap_or_default());
        Self { step: None, verdict, again: Some(until.clamp(Duration::from_millis(10), LOOK_AGAIN)) }
    }
}

/// How late a run began, where that is worth a word.
#[must_use]
pub fn lateness(slot: Timestamp, now: Timestamp) -> Option<SignedDuration> {
    let late = now.duration_since(slot);
    (late > ON_TIME).then_some(late)
}
