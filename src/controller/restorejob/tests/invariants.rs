//! The promises of a restore, each tried at every moment. The world itself asserts what must never be asked of the API
//! server ([`World::act`]); these tests drive it there.

use kube::ResourceExt;
use serde_json::json;

use super::world::{Turn, World, crash_at, disturbances, never};
use crate::api::names::warden;
use crate::checks::Known;
use crate::controller::restorejob::observe::Recreation;
use crate::controller::restorejob::observe::volumes::Standing;

/// All stories that the promises are held to.
fn stories() -> Vec<World> {
    // A short time: what matters is that it runs out, and each of its seconds is a look.
    let mut slow = World::with(json!({"restoreTimeoutSeconds": 20}));
    slow.turns.insert(0, Turn::Never);
    let mut unrehearsed = World::new();
    unrehearsed.rehearsal_ends = Some("ObjectNotFound: no such key".to_owned());
    let mut refused = World::new();
    refused.recreation = Recreation::Refused("denied".to_owned());
    let mut twice = World::turning(Turn::Wrong);
    twice.turns.insert(1, Turn::Wrong);
    vec![
        World::new(),
        World::turning(Turn::Wrong),
        slow,
        twice,
        unrehearsed,
        refused,
        World::with(json!({"safetySnapshot": "Never", "revisionBump": "Off"})),
    ]
}

fn everywhere(mut judge: impl FnMut(&World)) {
    for story in stories() {
        for (nth, how) in disturbances(story.actions()) {
            let mut world = story.clone();
            world.run(crash_at(nth, how));
            judge(&world);
        }
    }
}

#[test]
fn invariant_1_nothing_is_deleted_before_everything_needed_is_durable() {
    // `World::delete` asserts the order; here: without those facts, nothing is ever deleted.
    everywhere(|world| {
        if !world.has("kept") {
            assert!(world.deleted.is_empty());
            assert_eq!((world.uid(), world.volume), ("old", Standing::Owned));
        }
    });
}

#[test]
fn invariant_2_the_release_ends_as_it_was_found_and_no_end_is_without_a_proven_cluster() {
    for suspend in [None, Some(false), Some(true)] {
        for story in stories() {
            for (nth, how) in disturbances(story.actions()).step_by(5) {
                let mut world = story.clone();
                world.was_suspended = suspend;
                world.release.as_mut().unwrap().suspend = suspend;
                world.run(crash_at(nth, how));
                assert_eq!(world.release.as_ref().unwrap().suspend, suspend);
                assert!(!world.has("purge-intent") || world.has("verified"), "{:?}", world.log);
                assert!(!world.job.labels().contains_key(warden::GUARDS));
            }
        }
    }
}

#[test]
fn invariant_3_an_empty_cluster_is_no_success_and_is_kept_out() {
    // Somebody lifts the suspend and renders an empty cluster at every moment between deletion and proof.
    for nth in 0..6 {
        let mut world = World::new();
        world.run_until("kept");
        while world.cluster.is_some() {
            world.step(&mut never);
        }
        assert!(world.job.labels().contains_key(warden::GUARDS), "the guard keeps others out");
        for _ in 0..nth {
            world.step(&mut never);
        }
        let mut empty = super::world::cluster();
        empty.metadata.uid = Some("empty".to_owned());
        if world.has("verified") {
            break;
        }
        world.cluster = Some(empty);
        world.run_for(4000);
        assert_eq!(world.phase(), "Running");
        assert!(world.job.labels().contains_key(warden::GUARDS));
        assert!(!world.has("verified"), "{nth}: an empty cluster was taken for a restored one");
    }
}

/// R18: what is deleted is known by its UID.
#[test]
fn invariant_4_the_purge_touches_only_what_was_captured_and_no_kept_volume() {
    everywhere(|world| {
        assert!(world.deleted.iter().all(|uid| uid == "old" || uid.starts_with("new")), "{:?}", world.deleted);
        if world.deleted.contains(&"old".to_owned()) {
            assert_eq!(world.volume, Standing::Expiring, "{:?}", world.log);
        }
    });
}

/// R15: of two restores one goes on, and backups see by a label that it does.
#[test]
fn invariant_5_one_restore_at_a_time() {
    super::rivals::in_no_order_of_looks_and_writes_do_two_begin();
    // The label by which BackupJobs wait, and others are kept out, is there from the capture to the proof.
    let mut world = World::new();
    while !world.has("verified") {
        world.step(&mut never);
        assert_eq!(world.has("capture"), world.has("capture") && world.job.labels().contains_key(warden::GUARDS));
    }
}

/// R5: what changes after the beginning changes nothing.
#[test]
fn invariant_6_inputs_are_read_once() {
    let mut world = World::new();
    world.run_until("inputs");
    world.backup = Known::Absent;
    world.job.spec.options = Some(json!({"dryRun": true, "onFailure": "Hold"}));
    world.run(never);
    assert_eq!(world.phase(), "Succeeded");
    let source = &world.cluster.as_ref().unwrap().data["spec"]["bootstrap"]["restore"]["source"];
    assert_eq!(source["s3"]["key"], "folder/x.db");
}

/// R17: no wait depends on an event alone.
#[test]
fn invariant_7_every_wait_is_looked_at_again_by_itself() {
    let mut world = World::turning(Turn::Wrong);
    for _ in 0..200 {
        let plan = world.step(&mut never);
        let settled = super::super::is_settled(&world.job);
        assert!(settled || plan.again.is_some_and(|again| again.as_secs() < 2), "{plan:?}");
        if settled {
            return;
        }
    }
    panic!("did not settle");
}
