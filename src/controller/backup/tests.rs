use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::decide::{FOUND_WITHIN, NAMESPACE_WAITS, Need, Step, Verdict, decide, is_ours, need};
use super::observe::{Facts, Observed, Stored};
use super::{place, status};
use crate::api::backup::{Backup, reason};
use crate::api::condition::find;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::checks::Known;

const OWNER: &str = "0c1d2e3f-4a5b-4c6d-8e7f-8a9b0c1d2e3f";
const SIZE: u64 = 40 * 512 + 32;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A Backup as a person would write it.
fn written() -> Backup {
    serde_json::from_value(json!({
        "metadata": {"name": "old", "namespace": "tenant", "uid": "u-1", "creationTimestamp": at(0)},
        "spec": {
            "applicationRef": {"apiGroup": "apps.cozystack.io", "kind": "Etcd", "name": "etcd"},
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s3"},
            "takenAt": at(-100),
            "driverMetadata": {"etcd.aenix.io/backup-name": "snap", "etcd.aenix.io/bucket": "b",
                "etcd.aenix.io/endpoint": "https://s3.example.org", "etcd.aenix.io/key": "tenant/etcd/",
                "etcd.aenix.io/credentials-secret-name": "creds"},
        },
    }))
    .unwrap()
}

/// A Backup that is ready, takes its object along, and is to go.
fn going() -> Backup {
    let mut backup = written();
    backup.spec.deletion_policy = Some("Delete".into());
    backup.metadata.deletion_timestamp = Some(Time(at(100)));
    backup.metadata.finalizers = Some(vec!["etcd-warden.io/backup".into(), "backups.cozystack.io/cleanup".into()]);
    backup.metadata.annotations = Some([("etcd-warden.io/snapshot-uid".to_owned(), OWNER.to_owned())].into());
    backup.status = Some(
        serde_json::from_value(json!({"phase": "Ready",
            "artifact": {"uri": "s3://b/tenant/etcd/snap.db", "sizeBytes": SIZE}}))
        .unwrap(),
    );
    backup
}

fn facts(size: u64, owner: Option<&str>) -> Stored {
    let details = [("etcd-revision", "7"), ("etcd-version", "3.6.11"), ("etcd-cluster-id", "00000000000000ab")];
    Stored::Found(Facts {
        size,
        owner: owner.map(ToOwned::to_owned),
        details: details.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    })
}

fn snapshot(uid: &str) -> Known<Arc<EtcdSnapshot>> {
    let snapshot = serde_json::from_value(json!({"metadata": {"name": "snap", "namespace": "tenant", "uid": uid}}));
    Known::Found(Arc::new(snapshot.unwrap()))
}

fn seen(backup: Backup, stored: Stored) -> Observed {
    Observed {
        place: place::object(&backup),
        backup: Arc::new(backup),
        stored,
        snapshot: snapshot(OWNER),
        restoring: None,
        shared_with: None,
        namespace_going: Known::Found(false),
    }
}

fn is_kept(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Gone { note: Some((true, _)) })
}

#[test]
fn a_backup_written_by_hand_is_checked_and_adopted() {
    let seen = seen(written(), facts(SIZE, Some(OWNER)));
    assert_eq!(need(&seen, at(1)), Need::Object);
    let decision = decide(&seen, at(1));
    assert!(decision.steps.is_empty(), "nothing holds a Backup that keeps its object");
    let Verdict::Adopted { artifact, owner } = &decision.verdict else { panic!("{decision:?}") };
    assert_eq!((artifact.uri.as_str(), artifact.revision), ("s3://b/tenant/etcd/snap.db", Some(7)));
    assert_eq!((artifact.etcd_version.as_deref(), owner.as_deref()), (Some("3.6.11"), Some(OWNER)));
    let patch = status::patch(&seen.backup, &decision.verdict, at(1)).unwrap();
    assert_eq!(patch["status"]["phase"], "Ready");
    assert_eq!(patch["status"]["artifact"]["sizeBytes"], SIZE);
    assert_eq!(patch["status"]["underlyingResources"]["destination"]["s3"]["key"], "tenant/etcd/");
    assert_eq!(patch["metadata"]["annotations"]["etcd-warden.io/snapshot-uid"], OWNER);
    let mut adopted = (*seen.backup).clone();
    adopted.status = serde_json::from_value(patch["status"].clone()).unwrap();
    assert!(crate::controller::restorejob::source::source(&adopted).is_ok(), "a restore takes it");
}

#[test]
fn what_is_not_there_is_waited_for_and_what_is_no_snapshot_is_refused() {
    for stored in [Stored::Absent, Stored::Unknown("no answer".into()), Stored::Closed("no Secret".into())] {
        let seen = seen(written(), stored);
        let waiting = decide(&seen, at(1));
        assert!(matches!(waiting.verdict, Verdict::Checking { .. }) && waiting.again.is_some(), "{waiting:?}");
        assert_eq!(status::patch(&seen.backup, &waiting.verdict, at(1)).unwrap()["status"]["phase"], "Pending");
        let late = decide(&seen, at(i64::try_from(FOUND_WITHIN.as_secs()).unwrap()));
        assert!(matches!(late.verdict, Verdict::Refused { .. }) && late.again.is_none(), "{late:?}");
    }
    for size in [0, 32, SIZE - 32, SIZE + 1] {
        let decision = decide(&seen(written(), facts(size, None)), at(1));
        assert!(matches!(decision.verdict, Verdict::Refused { .. }), "{size}");
    }
    let mut nowhere = written();
    nowhere.spec.driver_metadata = None;
    assert!(matches!(decide(&seen(nowhere, Stored::NotAsked), at(1)).verdict, Verdict::Refused { .. }));
}

#[test]
fn only_a_backup_that_takes_its_object_along_is_held() {
    let mut backup = going();
    backup.metadata.deletion_timestamp = None;
    backup.metadata.finalizers = None;
    let steps = |backup: &Backup| decide(&seen(backup.clone(), Stored::NotAsked), at(1)).steps;
    assert_eq!(steps(&backup), [Step::Hold]);
    backup.metadata.finalizers = Some(vec!["etcd-warden.io/backup".into()]);
    assert_eq!(steps(&backup), []);
    for policy in [None, Some("Retain"), Some("delete")] {
        backup.spec.deletion_policy = policy.map(Into::into);
        assert_eq!(steps(&backup), [Step::Release]);
    }
}

#[test]
fn object_snapshot_and_hold_go_in_this_order() {
    let seen = seen(going(), facts(SIZE, Some(OWNER)));
    assert_eq!(need(&seen, at(101)), Need::Everything);
    let decision = decide(&seen, at(101));
    let snapshot = Step::DeleteSnapshot { name: "snap".into(), uid: OWNER.into() };
    assert_eq!(decision.steps, [Step::DeleteObject, snapshot.clone(), Step::Release]);
    // What a killed process has done already is left out.
    let again = Observed { stored: Stored::Absent, ..seen.clone() };
    assert_eq!(decide(&again, at(102)).steps, [snapshot, Step::Release]);
    let rest = Observed { stored: Stored::Absent, snapshot: Known::Absent, ..seen };
    assert_eq!(decide(&rest, at(103)).steps, [Step::Release]);
}

#[test]
fn an_object_that_is_not_the_recorded_one_stays() {
    for stored in [facts(SIZE, Some("another")), facts(SIZE + 512, Some(OWNER))] {
        let decision = decide(&seen(going(), stored), at(101));
        assert_eq!(decision.steps, [Step::Release]);
        assert!(is_kept(&decision.verdict), "{decision:?}");
    }
    let shared = Observed { shared_with: Some("tenant/other".into()), ..seen(going(), facts(SIZE, Some(OWNER))) };
    let decision = decide(&shared, at(101));
    assert!(decision.steps == [Step::Release] && is_kept(&decision.verdict), "{decision:?}");
    // A namesake's snapshot is not ours to delete.
    let renewed = Observed { snapshot: snapshot("another"), ..seen(going(), facts(SIZE, Some(OWNER))) };
    assert_eq!(decide(&renewed, at(101)).steps, [Step::DeleteObject, Step::Release]);
}

#[test]
fn a_restore_and_a_store_that_does_not_answer_are_waited_for() {
    let restoring = Observed { restoring: Some("restore-1".into()), ..seen(going(), facts(SIZE, Some(OWNER))) };
    for (seen, told) in [
        (restoring, reason::IN_USE),
        (seen(going(), Stored::Unknown("no answer".into())), reason::DELETION_PENDING),
        (seen(going(), Stored::Closed("Secret creds does not exist".into())), reason::DELETION_PENDING),
    ] {
        let decision = decide(&seen, at(1_000_000));
        assert!(decision.steps.is_empty() && decision.again.is_some());
        let patch = status::patch(&seen.backup, &decision.verdict, at(101)).unwrap();
        assert_eq!(patch["status"]["conditions"][0]["reason"], told);
        // The way out is always open.
        let mut kept = (*seen.backup).clone();
        kept.spec.deletion_policy = Some("Retain".into());
        assert_eq!(decide(&Observed { backup: Arc::new(kept), ..seen }, at(102)).steps, [Step::Release]);
    }
}

#[test]
fn a_namespace_that_goes_is_not_held_up() {
    let in_going = |stored: Stored, restoring: Option<&str>| Observed {
        namespace_going: Known::Found(true),
        restoring: restoring.map(ToOwned::to_owned),
        ..seen(going(), stored)
    };
    let limit = i64::try_from(NAMESPACE_WAITS.as_secs()).unwrap();
    // Credentials that are gone do not come back.
    let closed = decide(&in_going(Stored::Closed("Secret creds does not exist".into()), None), at(101));
    assert!(closed.steps == [Step::Release] && is_kept(&closed.verdict));
    for (stored, restoring) in [(Stored::Unknown("no answer".into()), None), (facts(SIZE, Some(OWNER)), Some("job"))] {
        let early = decide(&in_going(stored.clone(), restoring), at(101));
        assert!(early.steps.is_empty(), "{early:?}");
        let late = decide(&in_going(stored, restoring), at(100 + limit));
        assert_eq!(late.steps.last(), Some(&Step::Release), "{late:?}");
    }
}

#[test]
fn upstreams_finalizer_stands_for_nothing_of_etcd() {
    let mut backup = going();
    backup.spec.deletion_policy = None;
    backup.metadata.finalizers = Some(vec!["backups.cozystack.io/cleanup".into()]);
    assert_eq!(decide(&seen(backup.clone(), Stored::NotAsked), at(101)).steps, [Step::Release]);
    backup.metadata.finalizers = Some(vec!["somebody.example.org/else".into()]);
    assert_eq!(decide(&seen(backup.clone(), Stored::NotAsked), at(101)).steps, []);
    backup.metadata.deletion_timestamp = None;
    backup.metadata.finalizers = Some(vec!["backups.cozystack.io/cleanup".into()]);
    assert_eq!(decide(&seen(backup, Stored::NotAsked), at(1)).steps, []);
}

#[test]
fn other_drivers_backups_are_left_alone() {
    let mut backup = written();
    assert!(is_ours(&backup));
    backup.spec.strategy_ref.kind = "Velero".into();
    assert!(!is_ours(&backup));
}

#[test]
fn the_same_object_is_known_by_any_spelling_of_its_address() {
    let place = |endpoint: &str| {
        let mut backup = written();
        let metadata = backup.spec.driver_metadata.as_mut().unwrap();
        metadata.insert("etcd.aenix.io/endpoint".into(), endpoint.into());
        place::object(&backup).unwrap()
    };
    let one = place("https://s3.example.org");
    assert!(place::is_shared(&one, &place("S3.example.org/")));
    for same in ["s3.example.org:443", "https://s3.example.org:443/", "http://s3.example.org:80"] {
        assert!(place::is_shared(&one, &place(same)) && place::is_shared(&place(same), &one), "{same}");
    }
    for other in ["https://s3.example.com", "s3.example.org:9000"] {
        assert!(!place::is_shared(&one, &place(other)), "{other}");
    }
}

#[test]
fn a_condition_is_told_once() {
    let seen = seen(going(), Stored::Unknown("no answer".into()));
    let verdict = decide(&seen, at(101)).verdict;
    assert!(status::news(&seen.backup, &verdict).is_some());
    let mut told = (*seen.backup).clone();
    told.status = serde_json::from_value(status::patch(&told, &verdict, at(101)).unwrap()["status"].clone()).unwrap();
    assert!(find(told.status.as_ref().unwrap().conditions.as_ref().unwrap(), "Ready").is_some());
    assert_eq!(status::news(&told, &verdict), None);
    assert_eq!(status::patch(&told, &verdict, at(161)), None, "it would be written for ever");
}
