//! Restores in a small world without clocks or servers: every action may be the last before a crash, every action may
//! be done twice, and the world moves on by itself in between.

mod back;
mod invariants;
mod rivals;
mod world;

use kube::ResourceExt;
use serde_json::json;

use self::world::{Turn, World, cluster, crash_at, disturbances, never, start};
use super::decide::{Verdict, decide, is_finished};
use super::observe::volumes::Standing;
use super::observe::{Lost, Recreation, Remnant};
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

#[test]
fn nothing_is_touched_when_the_rehearsal_or_the_re_creation_would_fail() {
    let mut failed = World::new();
    failed.rehearsal_ends = Some("ChecksumMismatch: other bytes".to_owned());
    let mut refused = World::new();
    refused.recreation = Recreation::Refused("quota exceeded".to_owned());
    let mut unsafe_ = World::with(json!({"safetySnapshot": "Always"}));
    unsafe_.snapshot_ends = "Failed";
    for (mut world, expected) in
        [(failed, "ChecksumMismatch"), (refused, "quota exceeded"), (unsafe_, "no snapshot of the old cluster")]
    {
        world.run(never);
        assert_eq!(world.phase(), "Failed");
        assert!(world.message().contains(expected) && world.message().contains("not touched"), "{}", world.message());
        assert_eq!(world.uid(), "old");
        assert!(!world.log.contains(&"delete-cluster") && !world.log.contains(&"keep-volume"));
    }
}

#[test]
fn what_the_rules_refuse_never_begins() {
    let mut world = World::new();
    world.against_the_rules = Some("spec.backupRef.name: is wrong".to_owned());
    world.run(never);
    assert_eq!(world.phase(), "Failed");
    assert!(world.message().contains("refused: spec.backupRef.name: is wrong"), "{}", world.message());
    assert!(!world.log.contains(&"inputs"), "{:?}", world.log);
}

#[test]
fn a_dry_run_ends_after_the_rehearsal() {
    let mut world = World::with(json!({"dryRun": true}));
    world.run(never);
    assert_eq!(world.phase(), "Succeeded");
    assert!(world.message().starts_with("dry run, nothing was changed"), "{}", world.message());
    assert!(!world.log.contains(&"suspend") && !world.log.contains(&"take-snapshot"));
}

#[test]
fn a_safety_snapshot_is_skipped_where_none_can_be_had_and_that_is_said() {
    let mut dead = World::new();
    dead.cluster.as_mut().unwrap().data["status"] = json!({});
    let mut fails = World::new();
    fails.snapshot_ends = "Failed";
    let never_wanted = World::with(json!({"safetySnapshot": "Never"}));
    for (mut world, said) in [(dead, "not available"), (fails, "it has not begun"), (never_wanted, "not asked for")] {
        world.run(never);
        assert_eq!(world.phase(), "Succeeded");
        assert!(world.message().contains("no snapshot of the old data") && world.message().contains(said));
    }
}

#[test]
fn an_edit_between_capture_and_deletion_stops_the_restore() {
    let mut world = World::new();
    world.run_until("kept");
    world.cluster.as_mut().unwrap().data["spec"]["replicas"] = json!(5);
    world.run(never);
    assert_eq!(world.phase(), "Failed");
    assert!(world.message().contains("was edited") && world.message().contains("left standing"), "{}", world.message());
    assert_eq!((world.uid(), world.volume), ("old", Standing::Owned));
    assert_eq!(world.cluster.unwrap().data["spec"]["replicas"], 5);
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

/// R11: another cluster of the same name is not taken for the restored one.
#[test]
fn a_cluster_of_anothers_making_is_no_success() {
    let mut world = World::new();
    world.run_until("created");
    let mut stranger = cluster();
    stranger.metadata.uid = Some("stranger".to_owned());
    world.cluster = Some(stranger);
    world.run_for(3600 * 2);
    assert_eq!(world.phase(), "Running");
    assert!(!world.has("verified") && !world.deleted.contains(&"stranger".to_owned()));
    assert_eq!(world.job.status.as_ref().unwrap().step.as_deref(), Some("Blocked"));
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
    early.ready = 3;
    early.run(never);
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
fn the_revision_is_raised_beyond_all_that_was_seen_alive() {
    for (options, expected) in [
        (json!({}), Some(OLD_OVER_BACKUP + 1_000_000)),
        (json!({"revisionBump": "Off"}), None),
        (json!({"revisionBump": 5}), Some(5)),
    ] {
        let mut world = World::with(options);
        // A raise that is too small is found out before anything is touched.
        world.old_revision = if expected == Some(5) { 44 } else { 100 };
        world.run(never);
        assert_eq!(world.phase(), "Succeeded", "{}", world.message());
        let annotations = world.cluster.as_ref().unwrap().annotations().clone();
        let raised = annotations.get(warden::REVISION_BUMP).map(|bump| bump.parse::<i64>().unwrap());
        assert_eq!(raised, expected);
    }
}

/// The old cluster's revision less the Backup's.
const OLD_OVER_BACKUP: i64 = 60;

#[test]
fn a_rehearsal_that_clients_have_outrun_is_repeated() {
    let mut world = World::new();
    world.run_until("capture");
    world.old_revision = 3_000_000;
    // The rehearsal that is looked at now is the next one.
    world.rehearsal = Known::Absent;
    world.run(never);
    assert_eq!(world.phase(), "Succeeded", "{}", world.message());
    assert_eq!(world.facts().preflights.len(), 2);
    let annotations = world.cluster.as_ref().unwrap().annotations().clone();
    assert_eq!(annotations[warden::REVISION_BUMP], (3_000_000 - 40 + 1_000_000).to_string());
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
fn a_paused_cluster_and_one_in_memory_are_refused_before_anything() {
    for (pointer, value, said) in
        [("replicas", json!(0), "paused"), ("storage", json!({"medium": "Memory"}), "in memory")]
    {
        let mut world = World::new();
        world.cluster.as_mut().unwrap().data["spec"][pointer] = value;
        world.run(never);
        assert_eq!(world.phase(), "Failed");
        assert!(world.message().contains(said), "{}", world.message());
        assert!(!world.log.contains(&"start-preflight"));
    }
}

/// R7: a member that nobody serves any more does not hold the name for ever.
#[test]
fn a_member_without_anybody_to_serve_it_is_freed() {
    let mut world = World::new();
    world.run_until("kept");
    world.goes = 200;
    while world.deleted.is_empty() {
        world.step(&mut never);
    }
    world.remains.members[0].going_since = Some(world.now);
    world.remains.members[0].finalizers = vec!["etcd-operator.cozystack.io/member-cleanup".to_owned()];
    world.run_for(55);
    assert!(!world.log.contains(&"free-member"));
    world.run_for(10);
    assert!(world.log.contains(&"free-member"));
    world.run(never);
    assert_eq!(world.phase(), "Succeeded");
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

/// R3: what the volume or the quota cannot hold is refused before anything is touched, whether the size was recorded or
/// is only found by the rehearsal, and in a dry run, too.
#[test]
fn a_snapshot_that_does_not_fit_is_refused_before_anything() {
    for dry in [false, true] {
        for (spec, said) in [
            (json!({"storage": {"size": "5k"}}), "7000 bytes, and storage.size of EtcdCluster etcd is 5k (5000 bytes)"),
            (json!({"storage": {"size": "20k"}}), "20480 bytes, and storage.size of EtcdCluster etcd is 20k (20000"),
            (json!({"options": {"quotaBackendBytes": 10_000}}), "20480 bytes, and options.quotaBackendBytes"),
        ] {
            let mut world = World::with(json!({"dryRun": dry}));
            for (key, value) in spec.as_object().unwrap() {
                world.cluster.as_mut().unwrap().data["spec"][key] = value.clone();
            }
            world.run(never);
            assert_eq!((world.phase(), world.uid()), ("Failed", "old"));
            assert!(world.message().contains(said) && world.message().contains("not touched"), "{}", world.message());
            assert!(!world.log.contains(&"suspend") && !world.log.contains(&"take-snapshot"), "{:?}", world.log);
        }
    }
}

/// A cluster that is edited between the rehearsal and the capture is judged again, and rehearsed again where its etcd is
/// another one.
#[test]
fn an_edit_between_rehearsal_and_capture_is_looked_at_again() {
    let mut paused = World::new();
    paused.run_until("suspended");
    paused.cluster.as_mut().unwrap().data["spec"]["replicas"] = json!(0);
    paused.run(never);
    assert_eq!((paused.phase(), paused.uid()), ("Failed", "old"));
    assert!(paused.message().contains("paused") && paused.message().contains("not touched"), "{}", paused.message());

    let mut upgraded = World::new();
    upgraded.run_until("suspended");
    upgraded.cluster.as_mut().unwrap().data["spec"]["version"] = json!("3.6.16");
    upgraded.run_until("capture");
    upgraded.rehearsal = Known::Absent;
    upgraded.run(never);
    assert_eq!(upgraded.phase(), "Succeeded", "{}", upgraded.message());
    let facts = upgraded.facts();
    let versions: Vec<_> = facts.preflights.values().map(|preflight| preflight.fact.version.as_deref()).collect();
    assert_eq!(versions, [Some("3.6.11"), Some("3.6.16")]);
}

/// A Pod whose node is lost is told with what a person can do, and at the end of the time a person decides.
#[test]
fn a_pod_on_a_lost_node_is_never_waited_for_silently() {
    let mut world = World::with(json!({"restoreTimeoutSeconds": 300}));
    world.run_until("kept");
    world.goes = 1_000_000;
    world.step(&mut never);
    world.remains.pods = vec![Remnant {
        name: "etcd-a".to_owned(),
        owner_uid: "m".to_owned(),
        going_since: Some(world.now),
        lost_on: Some("n1".to_owned()),
        ..Remnant::default()
    }];
    let early = world.run_for(30);
    assert!(matches!(&early.verdict, Verdict::Waiting { reason, .. } if *reason == reason::PURGING), "{early:?}");
    let late = world.run_for(60);
    match &late.verdict {
        Verdict::Waiting { reason: reason::NODE_LOST, message } => {
            assert!(
                message.contains("Pod etcd-a") && message.contains("node n1") && message.contains("out-of-service")
            );
        }
        other => panic!("{other:?}"),
    }
    // Old data could be put back only where the name is free: a person is asked when all time is over.
    let end = world.run_for(2_000);
    match &end.verdict {
        Verdict::Waiting { reason: reason::BLOCKED, message } => assert!(message.contains("node n1"), "{message}"),
        other => panic!("{other:?}"),
    }
    // Once the Pod is gone the old data comes back by itself.
    world.goes = 0;
    world.job.annotations_mut().insert(warden::UNBLOCK.to_owned(), "Retry".to_owned());
    world.run(never);
    assert_eq!(world.phase(), "Failed");
    assert!(world.message().starts_with("rolled back"), "{}", world.message());
}

/// With the cluster and all members gone there is nobody left who could take the Pod of a lost node away.
#[test]
fn a_lost_pod_without_a_cluster_is_left_and_named() {
    let mut world = World::new();
    world.cluster = None;
    let pod = |name: &str, uid: &str| Remnant {
        name: name.to_owned(),
        owner_uid: uid.to_owned(),
        going_since: Some(start()),
        ..Remnant::default()
    };
    let lost = Remnant { lost_on: Some("n1".to_owned()), ..pod("etcd-a", "m") };
    world.remains =
        super::observe::Remains { members: Vec::new(), pods: vec![lost], claims: vec![pod("data-etcd-a", "m")] };
    let object = serde_json::to_value(cluster()).unwrap();
    world.lost = Known::Found(Lost { object, found_in: "ControllerRevision x".to_owned() });
    world.run_until("purge-intent");
    world.run_for(10);
    assert!(!world.has("purged"), "not before it is overdue");
    world.run_until("purged");
    assert_eq!(world.facts().purged[&0].fact.left, ["etcd-a"]);
}

/// R10: an empty cluster that was rendered meanwhile makes room; anything else under the name is left to a person.
#[test]
fn an_empty_newcomer_makes_room_and_nothing_else_does() {
    let newcomer = |data: serde_json::Value, annotation: Option<&str>| {
        let mut stranger = cluster();
        stranger.metadata.uid = Some("stranger".to_owned());
        stranger.data["status"] = data;
        if let Some(annotation) = annotation {
            stranger.annotations_mut().insert(annotation.to_owned(), "r".to_owned());
        }
        stranger
    };
    let formed_and_empty = json!({"clusterID": "1", "revision": 1, "readyMembers": 1});
    for (name, stranger, makes_room) in [
        ("never formed", newcomer(json!({}), None), true),
        ("empty", newcomer(formed_and_empty.clone(), None), true),
        ("written to", newcomer(json!({"clusterID": "1", "revision": 2, "readyMembers": 1}), None), false),
        ("silent", newcomer(json!({"clusterID": "1"}), None), false),
        ("on purpose", newcomer(formed_and_empty, Some(warden::IGNORE_RESTORE)), false),
    ] {
        let mut world = World::with(json!({"restoreTimeoutSeconds": 60}));
        world.run_until("purged");
        world.cluster = Some(stranger);
        if makes_room {
            world.run(never);
            assert_eq!((world.phase(), world.uid()), ("Succeeded", "new0"), "{name}: {}", world.message());
            assert_eq!(world.deleted, ["old", "stranger"], "{name}");
        } else {
            world.run_for(200);
            assert_eq!((world.phase(), world.uid()), ("Running", "stranger"), "{name}");
            assert_eq!(world.job.status.as_ref().unwrap().step.as_deref(), Some("Blocked"), "{name}");
        }
    }
}
