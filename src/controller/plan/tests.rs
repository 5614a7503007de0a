use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::build;
use super::decide::{Decision, Missed, STARTING_DEADLINE, Step, decide, due, schedule};
use super::observe::{Named, Observed};
use super::status::status;
use crate::api::condition::find;
use crate::api::plan::{Plan, reason};
use crate::checks::Known;

fn at(text: &str) -> Timestamp {
    format!("2026-03-{text}Z").parse().unwrap()
}

/// A Plan that was made on March 1.
fn plan(cron: &str) -> Plan {
    serde_json::from_value(json!({
        "metadata": {"name": "nightly", "namespace": "tenant", "uid": "u-1", "generation": 1,
            "creationTimestamp": at("01T00:00:00")},
        "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "backupClassName": "default",
            "schedule": {"type": "cron", "cron": cron}},
    }))
    .unwrap()
}

fn look(plan: &Plan, ran: Option<Timestamp>, now: Timestamp) -> Observed {
    let schedule = schedule(plan, now);
    let due = schedule.as_ref().ok().map(|schedule| due(plan, schedule, ran, now));
    Observed { plan: Arc::new(plan.clone()), schedule, due, job: Known::Absent, application: Known::Found(()) }
}

fn decided(plan: &Plan, now: Timestamp) -> Decision {
    decide(&look(plan, None, now), now)
}

/// The Plan as its status says after a look at this time.
fn after(plan: &Plan, now: Timestamp) -> Plan {
    let decision = decided(plan, now);
    Plan { status: Some(status(plan, &decision.verdict, now)), ..plan.clone() }
}

fn slot(decision: &Decision) -> Option<Timestamp> {
    decision.step.as_ref().map(|Step::CreateJob { slot, .. }| *slot)
}

#[test]
fn a_slot_is_run_when_it_comes_and_once() {
    let plan = after(&plan("0 2 * * *"), at("01T00:00:01"));
    let early = decided(&plan, at("01T01:59:30"));
    assert_eq!((slot(&early), early.again), (None, Some(Duration::from_secs(30))));
    assert_eq!(early.verdict.next, Some(at("01T02:00:00")));
    let now = at("01T02:00:00.2");
    let run = decided(&plan, now);
    let Some(Step::CreateJob { name, slot: at_slot }) = &run.step else { panic!("{run:?}") };
    assert_eq!(*at_slot, at("01T02:00:00"));
    assert_eq!(*name, format!("nightly-{}", at("01T02:00:00").as_second() / 60));
    assert_eq!((run.verdict.missed, run.verdict.next), (Some(None), Some(at("02T02:00:00"))));
    let plan = after(&plan, now);
    assert_eq!(slot(&decided(&plan, at("01T02:00:01"))), None);
    assert_eq!(plan.status.unwrap().last_schedule_time.unwrap().0, at("01T02:00:00"));
}

/// P2, P3: as often as each minute, and at intervals longer than five.
#[test]
fn short_and_long_intervals_are_kept() {
    let mut often = after(&plan("* * * * *"), at("01T00:00:00"));
    let mut hourly = after(&plan("@every 1h"), at("01T00:00:00"));
    let (mut minutes, mut hours) = (0, 0);
    for second in 1..=7_200 {
        let now = Timestamp::from_second(at("01T00:00:00").as_second() + second).unwrap();
        if slot(&decided(&often, now)).is_some() {
            minutes += 1;
            often = after(&often, now);
        }
        if slot(&decided(&hourly, now)).is_some() {
            hours += 1;
            hourly = after(&hourly, now);
        }
    }
    assert_eq!((minutes, hours), (120, 2));
}

/// P1: the latest missed slot is run late, the others are told.
#[test]
fn the_latest_missed_slot_is_made_up_for_and_the_rest_is_told() {
    let plan = after(&plan("0 * * * *"), at("01T00:00:01"));
    let now = at("01T05:30:00");
    let late = decided(&plan, now);
    assert_eq!(slot(&late), Some(at("01T05:00:00")));
    let missed = Missed { count: 4, first: at("01T01:00:00"), last: at("01T04:00:00") };
    assert_eq!(late.verdict.missed, Some(Some(missed)));
    let plan = after(&plan, now);
    let told = plan.status.clone().unwrap().conditions.unwrap();
    let told = find(&told, "Missed").unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("True", reason::RUNS_MISSED));
    // It is told until the next run that follows the one before it.
    let conditions = |plan: &Plan| plan.status.clone().unwrap().conditions.unwrap();
    let quiet = after(&plan, at("01T05:31:00"));
    assert_eq!(find(&conditions(&quiet), "Missed").unwrap().status, "True");
    let next = after(&quiet, at("01T06:00:00"));
    assert_eq!(find(&conditions(&next), "Missed").unwrap().status, "False");
}

#[test]
fn beyond_the_starting_deadline_nothing_is_made_up_for_but_told_once() {
    let mut plan = after(&plan("0 2 1 * *"), at("01T00:00:01"));
    let now = at("01T02:00:00").checked_add(STARTING_DEADLINE).unwrap().checked_add(Duration::from_secs(1)).unwrap();
    let late = decided(&plan, now);
    assert_eq!(slot(&late), None);
    let missed = Missed { count: 1, first: at("01T02:00:00"), last: at("01T02:00:00") };
    assert_eq!((late.verdict.missed, late.verdict.settled_until), (Some(Some(missed)), Some(now)));
    assert_eq!(decided(&after(&plan, now), at("03T03:00:00")).verdict.missed, None);
    // The Plan may say how late is too late.
    let annotation = |text: &str| [("etcd-warden.io/starting-deadline-seconds".to_owned(), text.to_owned())].into();
    plan.metadata.annotations = Some(annotation("60"));
    assert_eq!(slot(&decided(&plan, at("01T02:00:59"))), Some(at("01T02:00:00")));
    assert_eq!(slot(&decided(&plan, at("01T02:01:01"))), None);
    plan.metadata.annotations = Some(annotation("soon"));
    let decision = decided(&plan, at("01T02:00:59"));
    assert_eq!(slot(&decision), Some(at("01T02:00:00")));
    assert_eq!(decision.verdict.trouble.unwrap().reason, reason::INVALID_STARTING_DEADLINE);
}

/// P4: what lies before a Plan was made or changed is nobody's loss.
#[test]
fn a_new_or_changed_plan_begins_with_its_next_slot() {
    let mut late = plan("0 2 * * *");
    late.metadata.creation_timestamp.as_mut().unwrap().0 = at("01T02:01:00");
    let decision = decided(&late, at("01T02:02:00"));
    assert_eq!((slot(&decision), decision.verdict.next), (None, Some(at("02T02:00:00"))));
    let mut changed = after(&late, at("01T02:02:00"));
    changed.metadata.generation = Some(2);
    changed.spec.schedule.cron = Some("0 1 * * *".into());
    let decision = decided(&changed, at("05T01:01:00"));
    assert_eq!((slot(&decision), decision.verdict.missed), (None, None));
    let changed = after(&changed, at("05T01:01:00"));
    assert_eq!(slot(&decided(&changed, at("06T01:00:00"))), Some(at("06T01:00:00")));
}

/// A slot has one name, and its job is made once, whatever the clock does meanwhile.
#[test]
fn a_clock_that_jumps_makes_no_second_job_and_stops_no_plan() {
    let plan = after(&after(&plan("0 * * * *"), at("01T00:00:01")), at("01T05:00:00"));
    // Back by an hour: the slot comes again, and its job is there.
    let back = after(&plan, at("01T03:58:00"));
    assert_eq!(back.status.clone().unwrap().settled_until.unwrap().0, at("01T03:58:00"));
    let now = at("01T05:00:00");
    let mut seen = look(&back, None, now);
    seen.job = Known::Found(Named::Ours);
    let again = decide(&seen, now);
    assert_eq!((again.step, again.verdict.ran), (None, Some(now)));
    // Years ahead and back again: the Plan goes on at once, not in years.
    let ahead = after(&plan, "2031-01-01T00:00:30Z".parse().unwrap());
    let back = after(&ahead, at("01T06:10:00"));
    let next = decided(&back, at("01T07:00:00"));
    assert_eq!(slot(&next), Some(at("01T07:00:00")));
}

/// Under definitions that do not keep our status, jobs tell what was run.
#[test]
fn without_a_status_jobs_tell_what_was_run() {
    let plan = plan("0 * * * *");
    let now = at("01T05:10:00");
    assert_eq!(look(&plan, Some(at("01T05:00:00")), now).due.unwrap().slot, None);
    let due = look(&plan, Some(at("01T03:00:00")), now).due.unwrap();
    assert_eq!((due.slot.unwrap().0, due.missed.unwrap().count), (at("01T05:00:00"), 1));
}

/// P5: reasons are what the API takes, and a schedule that cannot be is told once.
#[test]
fn a_schedule_that_cannot_be_is_told() {
    for cron in ["", "tomorrow", "0 0 31 2 *", "@every 10s", "0 2 * *"] {
        let plan = plan(cron);
        let decision = decided(&plan, at("01T00:00:01"));
        assert_eq!((decision.step.clone(), decision.again), (None, None), "{cron}");
        let told = after(&plan, at("01T00:00:01"));
        let error = find(told.status.as_ref().unwrap().conditions.as_ref().unwrap(), "Error").unwrap().clone();
        assert_eq!((error.status.as_str(), error.reason.as_str()), ("True", reason::INVALID_SCHEDULE));
        assert_eq!(told.status, after(&told, at("01T00:00:09")).status, "it would be written for ever");
    }
}

#[test]
fn what_keeps_a_slot_from_being_run_is_told_until_the_next_one() {
    let plan = after(&plan("0 * * * *"), at("01T00:00:01"));
    let now = at("01T01:00:00");
    let mut taken = look(&plan, None, now);
    taken.job = Known::Found(Named::Foreign);
    let mut gone = look(&plan, None, now);
    gone.application = Known::Absent;
    for (seen, reason) in [(taken, reason::NAME_TAKEN), (gone, reason::APPLICATION_NOT_FOUND)] {
        let decision = decide(&seen, now);
        assert_eq!((&decision.step, decision.verdict.next), (&None, Some(at("01T02:00:00"))));
        let told = Plan { status: Some(status(&plan, &decision.verdict, now)), ..plan.clone() };
        let later = after(&told, at("01T01:30:00"));
        let error =
            |plan: &Plan| find(plan.status.as_ref().unwrap().conditions.as_ref().unwrap(), "Error").unwrap().clone();
        assert_eq!(error(&later).reason, reason);
        assert_eq!(error(&after(&later, at("01T02:00:00"))).status, "False");
    }
    let mut unknown = look(&plan, None, now);
    unknown.job = Known::Unknown("timeout".into());
    let decision = decide(&unknown, now);
    assert_eq!(decision.step, None);
    // The slot stays due.
    assert_eq!(decision.verdict.settled_until, Some(at("01T00:00:00")));
}

#[test]
fn a_job_is_upstreams() {
    let job = build::job(&plan("@daily"), "nightly-29543160");
    assert_eq!(job.spec.plan_ref.unwrap().name, "nightly");
    assert_eq!(job.spec.application_ref.api_group.as_deref(), Some("apps.cozystack.io"));
    assert_eq!(job.spec.backup_class_name, "default");
    let owner = &job.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.controller), ("Plan", "nightly", Some(true)));
}
