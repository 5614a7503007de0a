//! Putting old data back.

use kube::ResourceExt;
use serde_json::json;

use super::world::{Turn, World, crash_at, disturbances, never};
use crate::api::names::warden;
use crate::api::restorejob::reason;
use crate::controller::restorejob::decide::{Action, Verdict, decide};
use crate::controller::restorejob::facts::{Fact, OldData, RollBack};
use crate::controller::restorejob::observe::Release;
use crate::controller::restorejob::observe::volumes::Standing;

fn source(world: &World) -> serde_json::Value {
    world.cluster.as_ref().unwrap().data["spec"]["bootstrap"]["restore"]["source"].clone()
}

/// R2 and R11: restored data that is not what was rehearsed is taken back.
#[test]
fn a_failed_proof_puts_the_old_data_back() {
    for turn in [Turn::Wrong, Turn::Alarmed] {
        let mut world = World::turning(turn);
        world.run(never);
        assert_eq!((world.phase(), world.uid()), ("Failed", "new1"), "{turn:?}");
        assert!(
            world.message().starts_with("rolled back to the old data in volume data-etcd-a"),
            "{}",
            world.message()
        );
        assert_eq!(source(&world)["pvc"], json!({"claimName": "data-etcd-a", "subPath": "member/snap/db"}));
        assert_eq!(world.deleted, ["old", "new0"]);
        assert_eq!(world.volume, Standing::Expiring);
        let bump: i64 = world.cluster.as_ref().unwrap().annotations()[warden::REVISION_BUMP].parse().unwrap();
        assert!(bump > 1_000_100, "a rollback exceeds what the restored cluster told: {bump}");
    }
}

/// Raised revisions leave no hash of another snapshot to compare; its own revision tells.
#[test]
fn a_cluster_made_from_another_snapshot_is_taken_back() {
    let mut world = World::turning(Turn::Compacted);
    world.run_until("created");
    world.cluster.as_mut().unwrap().data["status"] =
        json!({"restored": {"uri": "s3://bucket/folder/x.db", "revision": 41}});
    world.run_until("roll-back");
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Failed", "new1"));
    assert!(world.message().contains("snapshot of revision 41"), "{}", world.message());
}

#[test]
fn without_a_volume_the_safety_snapshot_is_put_back() {
    let mut world = World::turning(Turn::Wrong);
    world.turns.insert(1, Turn::Hopeless);
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Failed", "new2"));
    assert!(world.message().contains("s3://bucket/folder/safety.db"), "{}", world.message());
    assert_eq!(source(&world)["s3"]["key"], "folder/safety.db");
}

/// R4 and R17: time that runs out after the deletion ends in old data.
#[test]
fn a_cluster_that_never_comes_is_rolled_back_when_time_is_out() {
    let mut world = World::turning(Turn::Never);
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Failed", "new1"));
    assert!(world.message().contains("did not end within 1800 s"), "{}", world.message());
}

#[test]
fn a_rollback_that_is_disturbed_at_any_action_ends_the_same() {
    let story = World::turning(Turn::Wrong);
    for (nth, how) in disturbances(story.actions()) {
        let mut world = story.clone();
        world.run(crash_at(nth, how));
        assert_eq!((world.phase(), world.uid()), ("Failed", "new1"), "{how:?} {nth}: {:?}", world.log);
        assert_eq!(world.release.as_ref().unwrap().suspend, None);
    }
}

/// Time that runs out, or a clock that jumps, is no reason to put older data in the place of newer.
#[test]
fn old_data_that_is_slow_to_come_back_is_waited_for() {
    let mut world = World::turning(Turn::Wrong);
    world.turns.insert(1, Turn::Never);
    let plan = world.run_for(9000);
    let Verdict::Waiting { reason: reason::BLOCKED, message } = &plan.verdict else { panic!("{plan:?}") };
    assert!(message.contains("delete the EtcdCluster"), "{message}");
    assert_eq!((world.uid(), world.deleted.as_slice()), ("new1", ["old".to_owned(), "new0".to_owned()].as_slice()));
    let mut given_up = world.clone();
    given_up.cluster = None;
    given_up.run(never);
    assert_eq!((given_up.phase(), given_up.uid()), ("Failed", "new2"));
    world.turns.insert(1, Turn::Right);
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Failed", "new1"));
}

/// R1, R2: an API server that does not answer says nothing about what is there.
#[test]
fn what_cannot_be_read_is_not_taken_for_gone() {
    for unreadable in [&["cluster"][..], &["volumes"], &["cluster", "volumes"]] {
        for since in ["purge-intent", "kept"] {
            let mut world = World::new();
            world.run_until(since);
            world.job.annotations_mut().insert(warden::ABORT.to_owned(), "true".to_owned());
            world.unreadable = unreadable.iter().copied().collect();
            world.run_for(5);
            world.unreadable.clear();
            world.run(never);
            assert_eq!(
                (world.phase(), world.uid()),
                ("Failed", "old"),
                "{unreadable:?} since {since}: {:?}",
                world.log
            );
            assert!(world.deleted.is_empty() && world.volume == Standing::Owned, "{unreadable:?} since {since}");
        }
    }
}

/// The same where the restore has failed, and a failure alone would be left to a person.
#[test]
fn an_abort_that_meets_an_api_without_answers_is_neither_blocked_nor_lost() {
    let mut world = World::with(json!({"onFailure": "Hold"}));
    world.turns.insert(0, Turn::Hopeless);
    world.run_until("created");
    world.job.annotations_mut().insert(warden::ABORT.to_owned(), "true".to_owned());
    world.unreadable.insert("volumes");
    let plan = world.run_for(5);
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::API_UNAVAILABLE), "{plan:?}");
    world.unreadable.clear();
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Failed", "new1"));
}

#[test]
fn an_old_cluster_that_stands_outlives_a_rollback_to_anything_else() {
    let mut world = World::new();
    world.run_until("kept");
    let source = OldData::Volume { claim: "data-etcd-a".to_owned(), sub_path: "member/snap/db".to_owned() };
    let back = RollBack { attempt: 1, why: "a test".to_owned(), source, bump: 0 };
    world.act(&Action::Record(Fact::RollBack(back)));
    world.run(never);
    assert_eq!((world.phase(), world.uid(), world.volume), ("Failed", "old", Standing::Owned));
    assert!(world.deleted.is_empty());
}

/// Records that a deposed leader read before the next attempt began say nothing about the cluster of that attempt.
#[test]
fn a_deposed_leader_deletes_no_cluster_of_a_newer_attempt() {
    let mut world = World::turning(Turn::Wrong);
    world.run_until("purged");
    let before = world.records.clone();
    while world.uid() != "new1" {
        world.step(&mut never);
    }
    world.records = before;
    let plan = decide(&world.look(), world.now);
    assert!(plan.actions.is_empty(), "{plan:?}");
}

/// R8: a restore that cannot succeed and has no old data is a person's, whether or not somebody deleted the job.
#[test]
fn a_deleted_restore_that_cannot_succeed_is_blocked_where_there_is_no_old_data() {
    let mut world = World::with(json!({"safetySnapshot": "Never"}));
    world.turns.insert(0, Turn::Hopeless);
    world.run_until("created");
    world.volume = Standing::Gone;
    world.delete_job();
    let plan = world.run_for(60);
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::BLOCKED), "{plan:?}");
    world.job.annotations_mut().insert(warden::UNBLOCK.to_owned(), "Abandon".to_owned());
    world.run(never);
    assert!(world.job_gone);
}

#[test]
fn when_nothing_can_be_put_back_a_person_decides() {
    let mut world = World::with(json!({"safetySnapshot": "Never"}));
    world.turns.extend([(0, Turn::Never), (1, Turn::Never)]);
    let plan = world.run_for(4000);
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::BLOCKED), "{plan:?}");
    assert_eq!(world.phase(), "Running");
    assert_eq!(world.job.status.as_ref().unwrap().step.as_deref(), Some("Blocked"));
    assert_eq!(world.release.as_ref().unwrap().suspend, Some(true), "the fence stays");
    assert!(world.job.labels().contains_key(warden::GUARDS), "the guard stays");
    let mut abandoned = world.clone();
    abandoned.job.annotations_mut().insert(warden::UNBLOCK.to_owned(), "Abandon".to_owned());
    abandoned.run(never);
    assert_eq!(abandoned.phase(), "Failed");
    assert!(abandoned.message().starts_with("abandoned on request"), "{}", abandoned.message());
    // Kept data is nobody's to throw away now.
    assert_eq!(abandoned.volume, Standing::Kept);
    // What comes right meanwhile is taken.
    world.turns.insert(1, Turn::Right);
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Failed", "new1"));
}

#[test]
fn hold_leaves_everything_to_a_person() {
    let mut world = World::with(json!({"onFailure": "Hold"}));
    world.turns.insert(0, Turn::Wrong);
    let plan = world.run_for(60);
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::BLOCKED), "{plan:?}");
    assert_eq!(world.uid(), "new0");
    let mut aborted = world.clone();
    aborted.job.annotations_mut().insert(warden::ABORT.to_owned(), "true".to_owned());
    aborted.run(never);
    assert_eq!((aborted.phase(), aborted.uid()), ("Failed", "new1"), "an abort is a decision, too");
    world.turns.insert(0, Turn::Right);
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Succeeded", "new0"));
}

#[test]
fn an_abort_at_any_moment_leaves_old_data_unless_the_new_is_proven() {
    for nth in 0..=World::new().actions() {
        let mut world = World::new();
        let mut done = 0;
        while done < nth && world.phase() != "Succeeded" {
            done += world.step(&mut never).actions.len();
        }
        let verified = world.has("verified");
        world.job.annotations_mut().insert(warden::ABORT.to_owned(), "true".to_owned());
        world.run(never);
        let expected = match (verified, world.deleted.is_empty()) {
            (true, _) => ("Succeeded", "new0"),
            (false, true) => ("Failed", "old"),
            (false, false) => ("Failed", "new1"),
        };
        assert_eq!((world.phase(), world.uid()), expected, "{nth}: {:?}", world.log);
    }
}

#[test]
fn an_abort_with_nothing_to_put_back_goes_on() {
    let mut world = World::with(json!({"safetySnapshot": "Never"}));
    world.run_until("kept");
    while world.cluster.is_some() {
        world.step(&mut never);
    }
    world.volume = Standing::Gone;
    world.delete_job();
    world.run(never);
    assert!(world.job_gone);
    assert_eq!(world.uid(), "new0", "the only way to a cluster is forward");
}

/// A deposed leader may send the deletion after the new leader spared the cluster.
#[test]
fn a_late_deletion_of_a_spared_cluster_fails() {
    let mut world = World::new();
    world.run_until("kept");
    let late = Action::DeleteCluster { uid: "old".to_owned(), resource_version: Some("7".to_owned()) };
    world.job.annotations_mut().insert(warden::ABORT.to_owned(), "true".to_owned());
    while !world.log.contains(&"spare-cluster") {
        world.step(&mut never);
    }
    world.act(&late);
    world.run(never);
    assert_eq!((world.phase(), world.uid(), world.volume), ("Failed", "old", Standing::Owned));
    // Before that it may succeed: then the kept volume is put back.
    let mut early = World::new();
    early.run_until("kept");
    early.job.annotations_mut().insert(warden::ABORT.to_owned(), "true".to_owned());
    early.run_until("roll-back");
    early.act(&late);
    early.run(never);
    assert_eq!((early.phase(), early.uid()), ("Failed", "new2"));
}

/// A deposed leader's creation that is heard after the rollback began does not stay.
#[test]
fn a_late_creation_of_a_failed_attempt_is_taken_away() {
    let mut world = World::turning(Turn::Wrong);
    world.run_until("created");
    let late = world.cluster.clone();
    world.run_until("roll-back");
    while world.cluster.is_some() {
        world.step(&mut never);
    }
    world.cluster = late;
    world.run(never);
    assert_eq!((world.phase(), world.uid()), ("Failed", "new1"));
}

#[test]
fn a_deleted_application_ends_the_duty() {
    let mut world = World::new();
    world.run_until("kept");
    world.release = None::<Release>;
    world.cluster = None;
    world.run(never);
    assert_eq!(world.phase(), "Failed");
    assert!(world.message().contains("HelmRelease was deleted"), "{}", world.message());
    assert_eq!(world.volume, Standing::Kept);
}

/// Its members could not come back without the volume.
#[test]
fn an_abandoned_restore_gives_a_cluster_that_stands_its_volume_back() {
    let mut world = World::with(json!({"onFailure": "Hold"}));
    world.run_until("kept");
    world.cluster.as_mut().unwrap().annotations_mut().insert("note".to_owned(), "by hand".to_owned());
    let plan = world.run_for(5);
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::BLOCKED), "{plan:?}");
    assert_eq!((world.uid(), world.volume), ("old", Standing::Kept));
    let mut deleted = world.clone();
    world.job.annotations_mut().insert(warden::UNBLOCK.to_owned(), "Abandon".to_owned());
    world.run(never);
    assert_eq!((world.phase(), world.uid(), world.volume), ("Failed", "old", Standing::Owned));
    assert!(world.log.contains(&"spare-cluster"), "a deletion that is still on its way is to fail");
    // So does one whose HelmRelease was deleted while the cluster stands.
    deleted.release = None::<Release>;
    deleted.run(never);
    assert_eq!((deleted.phase(), deleted.uid(), deleted.volume), ("Failed", "old", Standing::Owned));
}

/// Between the record and the deletion, too.
#[test]
fn a_volume_that_is_given_its_owner_again_is_kept_again() {
    let mut world = World::new();
    world.run_until("kept");
    world.volume = Standing::Owned;
    world.run(never);
    assert_eq!((world.phase(), world.uid(), world.volume), ("Succeeded", "new0", Standing::Expiring));
}
