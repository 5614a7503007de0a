//! Several restores of one application: in whatever order they come and look, only one begins.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;
use serde_json::json;

use super::world::{Turn as Outcome, World, from, never, start};
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;
use crate::controller::restorejob::decide::{Action, Plan, Verdict, decide, is_finished};
use crate::controller::restorejob::observe::Observed;
use crate::controller::restorejob::records::restore_uid;

/// A RestoreJob that was made so many seconds after the first.
fn job(name: &str, after: i64) -> RestoreJob {
    let mut job = World::new().job;
    job.metadata.name = Some(name.to_owned());
    job.metadata.uid = Some(format!("uid-{name}"));
    job.metadata.creation_timestamp = start().checked_add(SignedDuration::from_secs(after)).ok().map(Time);
    job
}

fn held(mut job: RestoreJob) -> RestoreJob {
    job.finalizers_mut().push(warden::RESTORE_FINALIZER.to_owned());
    job
}

fn look(of: &RestoreJob, jobs: &[RestoreJob], open: &[&str]) -> Observed {
    let mut seen = World::new().look();
    seen.job = of.clone();
    seen.others = Known::Found(jobs.to_vec());
    seen.open = Known::Found(open.iter().map(|uid| (*uid).to_owned()).collect());
    seen
}

fn ends(plan: &Plan) -> bool {
    matches!(&plan.verdict, Verdict::Failed { message } if message.contains("only one can at a time"))
}

fn waits(plan: &Plan) -> bool {
    plan.actions.is_empty()
        && matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::RESTORE_IN_PROGRESS)
}

#[test]
fn a_job_is_held_before_it_looks_for_others_and_begins() {
    let free = job("a", 0);
    assert_eq!(decide(&look(&free, std::slice::from_ref(&free), &[]), start()).actions, [Action::Hold]);
    let own = held(free);
    let plan = decide(&look(&own, std::slice::from_ref(&own), &[]), start());
    assert!(matches!(&plan.actions[..], [Action::Record(fact)] if fact.word() == "inputs"), "{plan:?}");
}

/// The younger may have begun while the older waited for its Backup.
#[test]
fn one_that_has_begun_goes_on_whatever_its_age_and_its_phase() {
    let older = job("a", 0);
    let mut younger = held(job("b", 5));
    assert!(ends(&decide(&look(&older, &[older.clone(), younger.clone()], &["uid-b"]), start())));
    younger.status.get_or_insert_default().phase = Some("Failed".to_owned());
    assert!(ends(&decide(&look(&older, &[older.clone(), younger], &["uid-b"]), start())));
}

#[test]
fn of_two_that_are_about_to_begin_the_older_goes_on_once_the_younger_has_ended() {
    let (older, mut younger) = (held(job("a", 0)), held(job("b", 0)));
    let both = [older.clone(), younger.clone()];
    assert!(waits(&decide(&look(&older, &both, &[]), start())), "the younger may be about to write that it begins");
    assert!(ends(&decide(&look(&younger, &both, &[]), start())));
    let mut waiting = look(&younger, &both, &[]);
    waiting.backup = Known::Absent;
    assert!(ends(&decide(&waiting, start())), "it does not hold up the older while its Backup is not there");
    younger.status.get_or_insert_default().phase = Some("Failed".to_owned());
    assert!(!decide(&look(&older, &[older.clone(), younger], &[]), start()).actions.is_empty());
}

#[test]
fn whoever_brings_a_lost_restore_to_an_end_is_waited_for() {
    let (mine, mut heir) = (job("a", 0), held(job("heir", 5)));
    heir.annotations_mut().insert(warden::CONTINUES.to_owned(), "gone".to_owned());
    assert_eq!(restore_uid(&heir), "gone");
    assert!(waits(&decide(&look(&mine, &[mine.clone(), heir], &["gone"]), start())));
    assert!(waits(&decide(&look(&mine, std::slice::from_ref(&mine), &["gone"]), start())), "it has no RestoreJob yet");
}

#[test]
fn nothing_begins_while_nobody_can_tell_about_others() {
    let own = held(job("a", 0));
    let mut blind = look(&own, std::slice::from_ref(&own), &[]);
    blind.open = Known::Unknown("down".to_owned());
    assert!(decide(&blind, start()).actions.is_empty());
    blind.open = Known::Absent;
    blind.others = Known::Unknown("down".to_owned());
    assert!(decide(&blind, start()).actions.is_empty());
}

/// Two jobs and what is stored of them. A look is read in two parts, jobs and then records, and acted on later.
#[derive(Clone)]
struct Race {
    jobs: [RestoreJob; 2],
    open: [bool; 2],
    turns: [Turn; 2],
}

#[derive(Clone)]
enum Turn {
    Idle,
    Listed(Box<(RestoreJob, [RestoreJob; 2])>),
    Decided(Plan),
}

impl Race {
    fn turn(&mut self, of: usize) {
        self.turns[of] = match self.turns[of].clone() {
            Turn::Idle => Turn::Listed(Box::new((self.jobs[of].clone(), self.jobs.clone()))),
            Turn::Listed(listed) => {
                let (own, others) = *listed;
                let open = ["uid-a", "uid-b"].into_iter().zip(self.open).filter_map(|(uid, open)| open.then_some(uid));
                Turn::Decided(decide(&look(&own, &others, &open.collect::<Vec<_>>()), start()))
            }
            Turn::Decided(plan) => {
                for action in &plan.actions {
                    match action {
                        Action::Hold => self.jobs[of] = held(self.jobs[of].clone()),
                        Action::Record(_) => self.open[of] = true,
                        other => panic!("{other:?}"),
                    }
                }
                if matches!(plan.verdict, Verdict::Failed { .. }) {
                    self.jobs[of].status.get_or_insert_default().phase = Some("Failed".to_owned());
                }
                Turn::Idle
            }
        };
    }

    /// Every order of so many turns from here on; the number of orders in which one began.
    fn explore(&self, left: u32) -> u32 {
        assert!(self.open != [true, true], "both began");
        assert!(!self.jobs.iter().all(is_finished), "both gave way");
        if left == 0 {
            return u32::from(self.open.contains(&true));
        }
        let able: Vec<usize> = (0..2).filter(|of| !self.open[*of] && !is_finished(&self.jobs[*of])).collect();
        if able.is_empty() {
            return 1;
        }
        let after = |of: &usize| {
            let mut next = self.clone();
            next.turn(*of);
            next.explore(left - 1)
        };
        able.iter().map(after).sum()
    }
}

#[test]
pub(super) fn in_no_order_of_looks_and_writes_do_two_begin() {
    let race = Race { jobs: [job("a", 0), job("b", 0)], open: [false, false], turns: [Turn::Idle, Turn::Idle] };
    assert!(race.explore(14) > 0, "none ever begins");
}

/// A phase that is final is no end of a restore that is on record as open.
#[test]
fn an_end_that_another_program_writes_at_any_moment_ends_nothing() {
    for nth in 2..World::new().actions() {
        let mut world = World::new();
        let mut done = 0;
        while done < nth {
            done += world.step(&mut never).actions.len();
        }
        if is_finished(&world.job) {
            break;
        }
        world.end_elsewhere();
        world.run(never);
        assert_eq!((world.phase(), world.uid()), ("Succeeded", "new0"), "{nth}: {:?}", world.log);
        assert!(world.has("resumed") && world.message().contains("proven"), "{nth}: {}", world.message());
        assert!(world.job.finalizers().is_empty() && !world.job.labels().contains_key(warden::GUARDS), "{nth}");
    }
}

#[test]
fn what_another_program_wrote_is_taken_back_while_the_restore_goes_on() {
    let mut world = World::turning(Outcome::Never);
    world.run_until("created");
    world.end_elsewhere();
    world.run_for(5);
    let status = world.job.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!((&status.message, &status.completed_at), (&None, &None));
}

#[test]
fn what_another_program_has_begun_is_left_alone() {
    let ready = |reason: &str| {
        json!({"type": "Ready", "status": "False", "reason": reason, "message": "",
        "lastTransitionTime": start()})
    };
    let captured = json!({"type": "EtcdClusterSpecCaptured", "status": "True", "reason": "SpecCaptured",
        "message": "{}", "lastTransitionTime": start()});
    for (status, elsewhere) in [
        (json!({}), false),
        (json!({"phase": "Running", "conditions": [ready(reason::BACKUP_NOT_READY)]}), false),
        (json!({"phase": "Running", "conditions": [ready(reason::API_UNAVAILABLE)]}), false),
        (json!({"phase": "Running"}), true),
        (json!({"conditions": [captured.clone()]}), true),
        (json!({"phase": "Running", "conditions": [ready("EtcdClusterBootstrapping")]}), true),
        (json!({"phase": "Running", "conditions": [captured.clone(), ready(reason::BACKUP_NOT_READY)]}), true),
    ] {
        let mut job = held(job("a", 0));
        job.status = Some(from(status.clone()));
        let plan = decide(&look(&job, std::slice::from_ref(&job), &[]), start());
        assert_eq!(matches!(plan.verdict, Verdict::Elsewhere { .. }), elsewhere, "{status}: {plan:?}");
        assert_eq!(plan.actions == [Action::Release], elsewhere, "{status}: {plan:?}");
    }
    // And another is not begun beside it.
    let (mine, mut theirs) = (job("a", 0), job("b", 5));
    theirs.status = Some(from(json!({"phase": "Running", "conditions": [captured]})));
    assert!(waits(&decide(&look(&mine, &[mine.clone(), theirs.clone()], &[]), start())));
    theirs.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
    assert!(!decide(&look(&mine, &[mine.clone(), theirs], &[]), start()).actions.is_empty());
}
