//! The old cluster on its way out, and what others put in its place.

use kube::ResourceExt;
use serde_json::json;

use super::world::{World, cluster, never, start};
use crate::api::names::warden;
use crate::api::restorejob::reason;
use crate::checks::Known;
use crate::controller::restorejob::decide::Verdict;
use crate::controller::restorejob::observe::{Lost, Remains, Remnant};

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
    world.remains = Remains { members: Vec::new(), pods: vec![lost], claims: vec![pod("data-etcd-a", "m")] };
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
