//! Restores in a small world without clocks or servers: every action may be the last before a crash, every action may
//! be done twice, and the world moves on by itself in between.

mod back;
mod before;
mod invariants;
mod purge;
mod rivals;
mod world;

use kube::ResourceExt;
use serde_json::json;

use self::world::{Turn, World, cluster, crash_at, disturbances, never, start};
use super::decide::{Verdict, decide, is_finished};
use super::observe::Lost;
use super::observe::volumes::Standing;
use crate::api::names::warden;
use crate::api::restorejob::reason;
use crate::checks::Known;

#[test]
fn an_undisturbed_restore_goes_through_its_steps_once() {
    let mut world = World::new();
    world.run(never);
    assert_eq!(
        world.log,
        [
            "hold",
            "inputs",
            "start-preflight",
            "preflight",
            "take-snapshot",
            "safety-snapshot",
            "release",
            "suspend",
            "suspended",
            "guard",
            "capture",
            "purge-intent",
            "keep-volume",
            "kept",
            "delete-cluster",
            "purged",
            "create-cluster",
            "created",
            "verified",
            "unguard",
            "resume",
            "resumed",
            "expire-volume",
            "release"
        ]
    );
    assert_eq!(world.phase(), "Succeeded");
    assert!(world.message().contains("3 of 3 members proven") && world.message().contains("0000abcd"));
    let new = world.cluster.unwrap();
    assert_eq!(new.data["spec"]["unknown"], json!({"field": 1}), "unknown fields come back");
    assert_eq!(new.labels()["a"], "b");
    assert_eq!(new.data["spec"]["bootstrap"]["restore"]["source"]["s3"]["key"], "folder/x.db");
}

#[test]
fn a_crash_at_any_action_and_any_action_twice_end_the_same() {
    for (nth, how) in disturbances(World::new().actions()) {
        let mut world = World::new();
        world.run(crash_at(nth, how));
        assert_eq!(world.phase(), "Succeeded", "{how:?} {nth}: {:?}", world.log);
        assert_eq!(world.uid(), "new0", "{how:?} {nth}");
        let new = world.cluster.as_ref().unwrap();
        assert_eq!(new.annotations()[warden::RESTORED_BY], world.job.uid().unwrap(), "{how:?} {nth}");
    }
}

/// R8: whoever deletes the job at any moment finds the old data again, or the restored one, and never nothing.
#[test]
fn a_job_deleted_at_any_moment_leaves_old_data_or_restored_data() {
    for nth in 0..=World::new().actions() {
        let mut world = World::new();
        world.job.metadata.finalizers = None;
        let mut done = 0;
        while done < nth && !super::is_settled(&world.job) {
            done += world.step(&mut never).actions.len();
        }
        if world.job.finalizers().is_empty() {
            continue;
        }
        let verified = world.has("verified");
        world.delete_job();
        world.run(never);
        assert!(world.job_gone, "{nth}: a finalizer is stuck");
        let expected = match (verified, world.deleted.is_empty()) {
            (true, _) => "new0",
            (false, true) => "old",
            (false, false) => "new1",
        };
        assert_eq!(world.uid(), expected, "{nth}: {:?}", world.log);
        assert_eq!(world.release.as_ref().unwrap().suspend, None, "{nth}");
        if expected == "old" {
            assert_eq!(world.volume, Standing::Owned, "{nth}: the volume was not given back");
        }
    }
}

/// R10: a suspend that somebody lifts is put back before anything else, and at the end the release is as found.
#[test]
fn a_lifted_suspend_is_put_back() {
    for nth in 9..World::new().actions() {
        let mut world = World::new();
        let mut done = 0;
        while done < nth {
            done += world.step(&mut never).actions.len();
        }
        if is_finished(&world.job) || world.has("verified") {
            break;
        }
        world.release.as_mut().unwrap().suspend = Some(false);
        world.run(never);
        assert_eq!((world.phase(), world.release.as_ref().unwrap().suspend), ("Succeeded", None), "{nth}");
    }
}

/// R16: an administrator's own suspend is left.
#[test]
fn a_release_that_was_suspended_before_stays_so() {
    let mut world = World::new();
    world.release.as_mut().unwrap().suspend = Some(true);
    world.was_suspended = Some(true);
    world.run(never);
    assert_eq!((world.phase(), world.release.as_ref().unwrap().suspend), ("Succeeded", Some(true)));
    assert!(!world.log.contains(&"suspend") && !world.log.contains(&"resume"));
}

#[test]
fn a_quorum_that_is_proven_is_a_success_and_what_is_missing_is_said() {
    let mut world = World::new();
    world.ready = 2;
    world.run_until("resumed");
    assert!(!world.job.labels().contains_key(warden::GUARDS), "proven data needs no guard");
    let plan = world.run_for(30);
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::DEGRADED), "{plan:?}");
    let mut early = world.clone();
    // What another program calls the end is none, also in the last wait.
    early.end_elsewhere();
    early.ready = 3;
    early.run(never);
    assert_eq!((early.phase(), early.volume), ("Succeeded", Standing::Expiring));
    assert!(!early.message().contains("degraded"), "{}", early.message());
    world.run(never);
    assert_eq!(world.phase(), "Succeeded");
    assert!(world.message().contains("degraded"), "{}", world.message());
    let mut one = World::new();
    one.ready = 1;
    one.run_until("created");
    one.run_for(60);
    assert!(!one.has("verified"), "one of three is no quorum");
}

#[test]
fn a_missing_cluster_is_made_again_from_what_is_remembered() {
    let mut forgotten = World::new();
    forgotten.cluster = None;
    forgotten.remains = super::observe::Remains::default();
    let mut seen = forgotten.clone();
    for _ in 0..20 {
        seen.step(&mut never);
        if seen.phase() == "Failed" || seen.has("failing") {
            break;
        }
    }
    assert!(seen.has("failing"), "nothing remembers it");
    let object = serde_json::to_value(cluster()).unwrap();
    forgotten.lost = Known::Found(Lost { object, found_in: "ControllerRevision x".to_owned() });
    forgotten.run(never);
    assert_eq!(forgotten.phase(), "Succeeded", "{}", forgotten.message());
    assert!(!forgotten.log.contains(&"delete-cluster") && !forgotten.log.contains(&"take-snapshot"));
}

/// A restore whose job was deleted by force is continued by another job, which takes back what was done.
#[test]
fn a_job_deleted_by_force_at_any_moment_is_continued_by_another() {
    for nth in 2..World::new().actions() {
        let mut world = World::new();
        let mut done = 0;
        while done < nth && !is_finished(&world.job) {
            done += world.step(&mut never).actions.len();
        }
        let open = super::sweep::open(&world.records);
        if open.is_empty() {
            assert!(world.has("resumed"), "{nth}");
            continue;
        }
        let (uid, super::sweep::Open { namespace, facts }) = open.into_iter().next().unwrap();
        let facts = facts.unwrap();
        let inputs = &facts.inputs.as_ref().unwrap().fact;
        let verified = world.has("verified");
        world.job = super::sweep::heir(&uid, namespace, inputs, &facts);
        world.job.metadata.uid = Some("heir".to_owned());
        world.run(never);
        let expected = match (verified, world.deleted.is_empty()) {
            (true, _) => ("Succeeded", "new0"),
            (false, true) => ("Failed", "old"),
            (false, false) => ("Failed", "new1"),
        };
        assert_eq!((world.phase(), world.uid()), expected, "{nth}: {:?}", world.log);
        assert!(super::sweep::open(&world.records).is_empty(), "{nth}: it is on record as ended");
        assert_eq!(world.release.as_ref().unwrap().suspend, None, "{nth}");
    }
}

/// What was deleted by force is brought to an end before another restore begins.
#[test]
fn an_unfinished_restore_without_a_job_is_waited_for() {
    let mut seen = World::new().look();
    seen.open = Known::Found(["gone".to_owned()].into());
    let plan = decide(&seen, start());
    assert!(
        matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::RESTORE_IN_PROGRESS),
        "{plan:?}"
    );
}

#[test]
fn what_was_rehearsed_and_is_compacted_away_is_left_to_a_person() {
    let mut world = World::turning(Turn::Compacted);
    let plan = world.run_for(2000);
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::BLOCKED), "{plan:?}");
    assert_eq!(world.uid(), "new0", "data that clients may have written is not thrown away");
}

/// R14: status is told, not read: whoever rewrites or wipes it in the middle destroys nothing.
#[test]
fn a_status_that_is_wiped_at_any_moment_changes_nothing() {
    for nth in 0..World::new().actions() {
        let mut world = World::new();
        let mut done = 0;
        while done < nth && !is_finished(&world.job) {
            done += world.step(&mut never).actions.len();
        }
        if is_finished(&world.job) {
            break;
        }
        world.job.status = None;
        world.run(never);
        assert_eq!((world.phase(), world.uid()), ("Succeeded", "new0"), "{nth}: {:?}", world.log);
        assert_eq!(world.cluster.as_ref().unwrap().data["spec"]["unknown"], json!({"field": 1}), "{nth}");
    }
}

/// R12: what the new cluster says of a deadline of its own does not end a restore that has time left.
#[test]
fn a_deadline_of_the_cluster_itself_does_not_end_the_restore() {
    for said in ["BootstrapFailed", "DeadlineExceeded", "QuorumLost"] {
        let mut world = World::new();
        world.ready = 1;
        world.run_until("created");
        for _ in 0..30 {
            let conditions = json!([{"type": "Available", "status": "False", "reason": said, "message": "",
                "lastTransitionTime": start()}]);
            world.cluster.as_mut().unwrap().data["status"] = json!({"readyMembers": 1, "conditions": conditions});
            let plan = world.step(&mut never);
            assert!(
                matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::BOOTSTRAPPING),
                "{plan:?}"
            );
        }
        world.ready = 3;
        world.run(never);
        assert_eq!((world.phase(), world.uid()), ("Succeeded", "new0"), "{said}: {}", world.message());
    }
}

#[test]
fn the_report_has_plan_bytes_proof_and_outage() {
    let mut dry = World::with(json!({"dryRun": true, "safetySnapshot": "Never", "onFailure": "Hold"}));
    dry.run(never);
    let status = dry.job.status.unwrap();
    let plan = status.plan.unwrap();
    assert_eq!(plan.source.as_deref(), Some("s3://bucket/folder/x.db"));
    assert_eq!(
        (plan.etcd_version.as_deref(), plan.replicas, plan.revision_bump),
        (Some("3.6.11"), Some(3), Some(1_000_060))
    );
    let steps = plan.steps.unwrap();
    assert_eq!(steps.len(), 8, "{steps:?}");
    assert_eq!(steps[0], "SafetySnapshotTaken: take no snapshot of the old data");
    assert!(steps[3].starts_with("VolumeKept: ") && steps[3].ends_with("waits for a person"), "{}", steps[3]);
    assert_eq!((status.proof.unwrap().live, status.outage_seconds), (None, None));

    let mut world = World::new();
    world.run(never);
    let status = world.job.status.clone().unwrap();
    let proof = status.proof.unwrap();
    let (rehearsed, live) = (proof.rehearsed.unwrap(), proof.live.unwrap());
    assert_eq!((rehearsed.hash_kv, live.hash_kv), (Some(0xabcd), Some(0xabcd)));
    assert_eq!((rehearsed.revision, live.revision), (Some(1_000_100), Some(1_000_100)));
    assert_eq!((rehearsed.keys, live.members, live.replicas), (Some(3), Some(3), Some(3)));
    let progress = status.progress.unwrap();
    assert_eq!((progress.snapshot_bytes, progress.rehearsed_bytes), (Some(7_000), Some(20_480)));
    assert_eq!((progress.safety_snapshot_bytes, progress.restored_bytes), (Some(9_000), Some(20_480)));
    let outage = status.outage_seconds.unwrap();
    assert!((2..20).contains(&outage) && world.message().contains(&format!("about {outage} s")), "{outage}");

    // Of a cluster that was left standing there was none, and nothing was proven of it.
    let mut spared = World::new();
    spared.run_until("kept");
    spared.cluster.as_mut().unwrap().data["spec"]["replicas"] = json!(5);
    spared.run(never);
    let status = spared.job.status.unwrap();
    assert_eq!((status.outage_seconds, status.proof.unwrap().live), (None, None));
}

/// What was recorded of the object goes along, so that another one is refused before etcd boots on it.
#[test]
fn the_recorded_checksum_is_handed_to_whoever_restores() {
    let sum = |world: &World| world.cluster.as_ref().unwrap().annotations().get(warden::SNAPSHOT_SHA256).cloned();
    let mut world = World::new();
    world.run_until("created");
    assert_eq!(sum(&world).as_deref(), Some("ab"));
    // A volume has none; the safety snapshot has its own.
    let mut world = World::with(json!({"restoreTimeoutSeconds": 60}));
    world.turns.insert(0, Turn::Wrong);
    world.run_until("created-1");
    assert_eq!(sum(&world), None);
    world.turns.insert(1, Turn::Hopeless);
    world.run_until("created-2");
    assert_eq!(sum(&world).as_deref(), Some("cd"));
}
