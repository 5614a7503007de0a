//! What is looked at before anything is deleted, and what ends a restore there.

use kube::ResourceExt;
use serde_json::json;

use super::world::{World, never};
use crate::api::names::warden;
use crate::checks::Known;
use crate::controller::restorejob::observe::Recreation;
use crate::controller::restorejob::observe::volumes::Standing;

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
