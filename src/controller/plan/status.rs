//! What a Plan's status says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::decide::{Missed, Trouble, Verdict};
use crate::api::condition::{Finding, find, set};
use crate::api::plan::{Plan, PlanStatus, condition_type, reason};

/// The status that follows from a verdict.
#[must_use]
pub fn status(plan: &Plan, verdict: &Verdict, now: Timestamp) -> PlanStatus {
    let mut status = plan.status.clone().unwrap_or_default();
    let generation = plan.metadata.generation;
    status.observed_generation = generation;
    if let Some(settled) = verdict.settled_until {
        status.settled_until = Some(Time(settled));
    }
    if let Some(ran) = verdict.ran {
        status.last_schedule_time = Some(Time(ran));
    }
    status.next_schedule_time = verdict.next.map(Time);
    let old = find(status.conditions.as_deref().unwrap_or_default(), condition_type::ERROR);
    let stands =
        verdict.trouble.is_none() && verdict.ran.is_none() && old.is_some_and(|old| is_of_a_run(old, generation));
    let error = (!stands).then(|| error(verdict.trouble.as_ref()));
    let conditions = status.conditions.get_or_insert_default();
    if let Some(error) = error {
        set(conditions, &error, generation, now);
    }
    if let Some(missed) = &verdict.missed {
        set(conditions, &told(missed.as_ref()), generation, now);
    }
    status
}

/// Whether a condition tells of a run that did not come about: that stands until the next one.
fn is_of_a_run(error: &Condition, generation: Option<i64>) -> bool {
    let of_a_run = [reason::APPLICATION_NOT_FOUND, reason::NAME_TAKEN, reason::JOB_REFUSED];
    error.status == "True" && error.observed_generation == generation && of_a_run.contains(&error.reason.as_str())
}

fn error(trouble: Option<&Trouble>) -> Finding {
    let (reason, message) = match trouble {
        Some(trouble) => (trouble.reason, trouble.message.clone()),
        None => (reason::SCHEDULE_VALID, "the schedule is valid".to_owned()),
    };
    Finding { type_: condition_type::ERROR, status: trouble.is_some(), reason: reason.to_owned(), message }
}

fn told(missed: Option<&Missed>) -> Finding {
    let (reason, message) = match missed {
        Some(missed) => (reason::RUNS_MISSED, describe(missed)),
        None => (reason::NONE_MISSED, "the last run followed the one before it".to_owned()),
    };
    Finding { type_: condition_type::MISSED, status: missed.is_some(), reason: reason.to_owned(), message }
}

/// Missed slots in words.
#[must_use]
pub fn describe(missed: &Missed) -> String {
    if missed.count == 1 {
        return format!("the run of {} was missed: no controller was there to begin it", missed.first);
    }
    format!(
        "{} runs or more from {} to {} were missed: no controller was there to begin them",
        missed.count, missed.first, missed.last
    )
}
