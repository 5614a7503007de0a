use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::build;
use super::decide::{Plan, Record, Step, Verdict, decide, is_ours, snapshot_name};
use super::observe::{Application, Inputs, Observed};
use super::status::status;
use crate::api::backup::Backup;
use crate::api::backupclass::BackupClass;
use crate::api::backupjob::{BackupJob, BackupJobStatus, phase, reason};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::names::{backups, warden};
use crate::api::strategy::Etcd;
use crate::checks::Known;

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

fn from<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).unwrap()
}

fn job() -> BackupJob {
    from(json!({
        "metadata": {"name": "nightly", "namespace": "tenant", "uid": "0c1d2e3f-4a5b-4c6d-8e7f-8a9b0c1d2e3f", "generation": 1},
        "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "backupClassName": "default",
            "planRef": {"name": "plan"}},
    }))
}

fn class() -> BackupClass {
    from(json!({
        "metadata": {"name": "default"},
        "spec": {"strategies": [{"application": {"kind": "Etcd"},
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s3"},
            "parameters": {"bucket": "etcd-backups"}}]},
    }))
}

fn strategy(bucket: &str) -> Etcd {
    from(json!({"metadata": {"name": "s3"}, "spec": {"template": {"destination": {"s3": {
        "endpoint": "http://s3:9000", "bucket": bucket,
        "key": "{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/",
        "credentialsSecretRef": {"name": "creds"}}}}}}))
}

fn cluster() -> EtcdCluster {
    from(json!({"metadata": {"name": "etcd", "namespace": "tenant"}, "spec": {"version": "3.6.11"},
        "status": {"conditions": [condition("Available", "True", "QuorumHealthy", "")]}}))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> serde_json::Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(-60)})
}

fn inputs() -> Inputs {
    Inputs {
        class: Known::Found(Arc::new(class())),
        strategy: Known::Found(strategy("{{ .Parameters.bucket }}").spec),
        application: Known::Found(Application::NotServed),
        cluster: Known::Found(cluster()),
        credentials: Known::Found(()),
    }
}

fn seen(inputs: Inputs) -> Observed {
    Observed {
        job: job(),
        snapshot: Known::Absent,
        inputs: Some(inputs),
        backups: None,
        restoring: None,
        refused: None,
    }
}

fn made() -> EtcdSnapshot {
    match decide(&seen(inputs()), at(0)).steps.as_slice() {
        [Step::CreateSnapshot { destination, record }] => {
            let mut snapshot = build::snapshot(&job(), destination, record);
            snapshot.metadata.creation_timestamp = Some(Time(at(0)));
            snapshot.metadata.uid = Some("snap-uid".to_owned());
            snapshot
        }
        other => panic!("{other:?}"),
    }
}

fn snapshot(phase: &str, ready: &serde_json::Value) -> Known<EtcdSnapshot> {
    let mut snapshot = made();
    snapshot.status = Some(from(json!({"phase": phase, "conditions": [ready],
        "artifact": {"uri": "s3://etcd-backups/tenant/etcd/nightly-0c1d2e3f.db", "sizeBytes": 4128,
            "checksum": format!("sha256:{}", "a".repeat(64)), "revision": 42, "etcdVersion": "3.6.11"}})));
    Known::Found(snapshot)
}

fn complete(first: Known<Backup>, beside: Known<Backup>) -> Observed {
    Observed {
        snapshot: snapshot("Complete", &condition("Ready", "True", "SnapshotStored", "stored")),
        inputs: None,
        backups: Some((first, beside)),
        ..seen(inputs())
    }
}

fn backup_of(uid: &str) -> Known<Backup> {
    Known::Found(from(json!({"metadata": {"name": "x", "labels": {warden::BACKUP_JOB_UID: uid}}})))
}

fn waits_for(plan: &Plan) -> (&'static str, &'static str) {
    match &plan.verdict {
        Verdict::Waiting { phase, reason, .. } => (phase, reason),
        other => panic!("{other:?}"),
    }
}

fn failure(plan: &Plan) -> &str {
    match &plan.verdict {
        Verdict::Failed { message } => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_upstreams_is_left_to_upstream_until_it_has_begun_with_us() {
    let class = Known::Found(Arc::new(class()));
    assert!(super::decide::is_upstreams(&job(), &class));
    assert!(!super::decide::is_upstreams(&job(), &Known::Absent));
    let mut begun = job();
    let ready = condition("Ready", "False", reason::ETCD_BACKUP_RUNNING, "");
    begun.status = Some(from(json!({"phase": "Running", "conditions": [ready]})));
    assert!(!super::decide::is_upstreams(&begun, &class));
    let mut ours = (*class.found().unwrap()).clone();
    for entry in &mut ours.spec.strategies {
        entry.strategy_ref.api_group = Some("strategy.etcd-warden.io".to_owned());
    }
    assert!(!super::decide::is_upstreams(&job(), &Known::Found(Arc::new(ours))));
}

#[test]
fn what_the_rules_refuse_never_begins() {
    let plan = decide(&Observed { refused: Some("spec.x: is wrong".to_owned()), ..seen(inputs()) }, at(0));
    assert!(plan.steps.is_empty());
    assert_eq!(failure(&plan), "refused: spec.x: is wrong");
    // What is under way goes on.
    let complete = Observed { refused: Some("spec.x".to_owned()), ..complete(Known::Absent, Known::Absent) };
    assert!(!decide(&complete, at(0)).steps.is_empty());
}

/// B5: the snapshot's name is made of the job's UID, so that whoever makes it again after a stale read finds it taken.
#[test]
fn with_everything_there_a_snapshot_is_made_once_and_knows_its_job() {
    let snapshot = made();
    assert_eq!(snapshot.name_any(), "nightly-0c1d2e3f");
    assert_eq!(snapshot.labels()[backups::OWNED_BY_JOB_NAME], "nightly");
    assert_eq!(snapshot.labels()[backups::OWNED_BY_JOB_NAMESPACE], "tenant");
    assert_eq!(snapshot.labels()[warden::BACKUP_JOB_UID], job().uid().unwrap());
    assert_eq!(snapshot.owner_references(), []);
    let s3 = snapshot.spec.destination.s3.as_ref().unwrap();
    assert_eq!((s3.bucket.as_str(), s3.key.as_deref()), ("etcd-backups", Some("tenant/etcd/")));
    assert_eq!(snapshot.spec.cluster_ref.name, "etcd");
    assert_eq!(serde_json::to_value(&snapshot).unwrap(), serde_json::to_value(made()).unwrap());
}

/// B7, B12: an API that does not answer is waited for like anything that is missing, and everything has an end.
#[test]
fn each_missing_input_has_its_reason_and_none_is_waited_for_without_end() {
    let cases: [(&str, Inputs, (&str, &str)); 6] = [
        ("class", Inputs { class: Known::Absent, ..inputs() }, (phase::PENDING, reason::BACKUP_CLASS_NOT_FOUND)),
        ("strategy", Inputs { strategy: Known::Absent, ..inputs() }, (phase::PENDING, reason::STRATEGY_NOT_READY)),
        ("creds", Inputs { credentials: Known::Absent, ..inputs() }, (phase::PENDING, reason::CREDENTIALS_PENDING)),
        ("cluster", Inputs { cluster: Known::Absent, ..inputs() }, (phase::RUNNING, reason::CLUSTER_NOT_AVAILABLE)),
        (
            "api",
            Inputs { application: Known::Unknown("503".to_owned()), ..inputs() },
            (phase::PENDING, reason::API_UNAVAILABLE),
        ),
        (
            "quorum",
            Inputs {
                cluster: Known::Found(from(json!({"metadata": {"name": "etcd"}, "status": {"conditions":
                    [condition("Available", "False", "QuorumLost", "1 of 3")]}}))),
                ..inputs()
            },
            (phase::RUNNING, reason::CLUSTER_NOT_AVAILABLE),
        ),
    ];
    for (name, inputs, expected) in cases {
        let mut seen = seen(inputs);
        let plan = decide(&seen, at(0));
        assert_eq!((waits_for(&plan), plan.steps.len()), (expected, 0), "{name}");
        assert!(plan.again.unwrap() <= Duration::from_mins(30), "{name}");
        seen.job.status = Some(BackupJobStatus { started_at: Some(Time(at(-1801))), ..BackupJobStatus::default() });
        assert!(failure(&decide(&seen, at(0))).starts_with("gave up after 30 min: "), "{name}");
    }
}

/// B8: a template that is wrong is never used as it stands.
#[test]
fn template_errors_fail_the_job_in_their_own_words() {
    let broken = Inputs { strategy: Known::Found(strategy("{{ .Parameters.buckte }}").spec), ..inputs() };
    assert_eq!(
        failure(&decide(&seen(broken), at(0))),
        "strategy s3: spec.template.destination.s3.bucket: line 1, column 4: .Parameters.buckte has no value"
    );
    let pvc: Etcd = from(json!({"spec": {"template": {"destination": {"pvc": {"claimName": "x"}}}}}));
    assert!(
        failure(&decide(&seen(Inputs { strategy: Known::Found(pvc.spec), ..inputs() }), at(0))).contains("S3 only")
    );
    let gone = Inputs { application: Known::Absent, ..inputs() };
    assert!(failure(&decide(&seen(gone), at(0))).contains("does not exist"));
}

#[test]
fn the_served_application_is_seen_whole() {
    let mut strategy = strategy("b");
    strategy.spec.template.destination.s3.as_mut().unwrap().key = Some("{{ .Application.spec.size }}".to_owned());
    let application = Application::Served(json!({"metadata": {"name": "etcd"}, "spec": {"size": "4Gi"}}));
    let inputs = Inputs { strategy: Known::Found(strategy.spec), application: Known::Found(application), ..inputs() };
    match decide(&seen(inputs), at(0)).steps.as_slice() {
        [Step::CreateSnapshot { destination, .. }] => assert_eq!(destination.key.as_deref(), Some("4Gi")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backup_waits_for_a_restore_of_the_same_cluster() {
    let seen = Observed { restoring: Some("r".to_owned()), ..seen(inputs()) };
    assert_eq!(waits_for(&decide(&seen, at(0))), (phase::RUNNING, reason::RESTORE_IN_PROGRESS));
}

#[test]
fn only_jobs_about_etcd_are_ours() {
    let found = |class: BackupClass| Known::Found(Arc::new(class));
    let mut elsewhere = class();
    elsewhere.spec.strategies[0].strategy_ref.kind = "Job".to_owned();
    let mut postgres = job();
    postgres.spec.application_ref.kind = "Postgres".to_owned();
    assert!(is_ours(&job(), &found(class())));
    assert!(is_ours(&job(), &Known::Absent));
    assert!(is_ours(&job(), &found(BackupClass::default())));
    assert!(!is_ours(&job(), &found(elsewhere)));
    assert!(!is_ours(&postgres, &found(class())));
    assert!(!is_ours(&postgres, &Known::Absent));
}

/// B13: a job that gives up takes its snapshot along.
#[test]
fn a_running_snapshot_is_waited_for_and_cancelled_when_it_never_ends() {
    let running = Observed {
        snapshot: snapshot("Started", &condition("Ready", "False", "JobRunning", "running")),
        inputs: None,
        ..seen(inputs())
    };
    let plan = decide(&running, at(60));
    assert_eq!(waits_for(&plan), (phase::RUNNING, reason::ETCD_BACKUP_RUNNING));
    assert_eq!(plan.again, Some(Duration::from_mins(39)));
    let late = decide(&running, at(2401));
    assert!(failure(&late).contains("40 min"));
    assert_eq!(late.steps, [Step::CancelSnapshot { name: "nightly-0c1d2e3f".to_owned(), uid: "snap-uid".to_owned() }]);
}

#[test]
fn a_failed_snapshot_fails_the_job_with_the_agents_reason() {
    let failed = Observed {
        snapshot: snapshot("Failed", &condition("Ready", "False", "StoreAuthFailed", "the store refused the key")),
        inputs: None,
        ..seen(inputs())
    };
    assert_eq!(
        failure(&decide(&failed, at(0))),
        "EtcdSnapshot nightly-0c1d2e3f failed: StoreAuthFailed: the store refused the key"
    );
}

#[test]
fn a_snapshot_of_anothers_making_is_not_taken_for_ours() {
    let mut foreign = made();
    foreign.metadata.labels.as_mut().unwrap().insert(warden::BACKUP_JOB_UID.to_owned(), "other".to_owned());
    let seen = Observed { snapshot: Known::Found(foreign), inputs: None, ..seen(inputs()) };
    assert!(failure(&decide(&seen, at(0))).contains("not made for this job"));
}

#[test]
fn a_snapshot_that_was_seen_and_vanished_is_not_taken_twice() {
    let mut seen = seen(inputs());
    let running =
        Verdict::Waiting { phase: phase::RUNNING, reason: reason::ETCD_BACKUP_RUNNING, message: String::new() };
    seen.job.status = Some(status(None, &running, Some(1), at(0)));
    let plan = decide(&seen, at(5));
    assert!(failure(&plan).contains("was deleted") && plan.steps.is_empty());
}

/// B4: the Backup of another job is not taken for this one's.
#[test]
fn the_backup_takes_the_jobs_name_unless_another_jobs_backup_has_it() {
    let ours = job().uid().unwrap();
    let cases = [
        (Known::Absent, Known::Absent, Some("nightly"), "nightly"),
        (backup_of(&ours), Known::Absent, None, "nightly"),
        (backup_of("other"), Known::Absent, Some("nightly-0c1d2e3f"), "nightly-0c1d2e3f"),
        (backup_of("other"), backup_of(&ours), None, "nightly-0c1d2e3f"),
        // The other job's Backup went away after ours was made beside it.
        (Known::Absent, backup_of(&ours), None, "nightly-0c1d2e3f"),
    ];
    for (first, beside, created, named) in cases {
        let plan = decide(&complete(first, beside), at(0));
        assert_eq!(plan.verdict, Verdict::Succeeded { backup: named.to_owned() });
        let steps: Vec<_> = plan
            .steps
            .iter()
            .map(|step| match step {
                Step::CreateBackup { name, .. } => name.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(steps, created.into_iter().collect::<Vec<_>>());
    }
    let taken = decide(&complete(backup_of("other"), backup_of("other")), at(0));
    assert!(failure(&taken).contains("were not made for this job"));
    let unread = decide(&complete(Known::Unknown("time-out".to_owned()), Known::Absent), at(0));
    assert_eq!(waits_for(&unread).1, reason::API_UNAVAILABLE);
}

/// B9: times, revision, version and cluster are the snapshot's.
#[test]
fn the_backup_says_what_was_stored_and_when() {
    let seen = complete(Known::Absent, Known::Absent);
    let plan = decide(&seen, at(0));
    let ([Step::CreateBackup { name, record }], Known::Found(snapshot)) = (plan.steps.as_slice(), &seen.snapshot)
    else {
        panic!("{plan:?}")
    };
    let backup = build::backup(&job(), name, snapshot, record, at(0));
    insta::assert_json_snapshot!(backup);
}

#[test]
fn a_lost_record_is_told() {
    let mut seen = complete(Known::Absent, Known::Absent);
    let Known::Found(snapshot) = &mut seen.snapshot else { panic!() };
    snapshot.metadata.annotations = None;
    assert!(failure(&decide(&seen, at(0))).contains(warden::BACKUP_RECORD));
}

#[test]
fn status_keeps_its_times_and_says_a_message_on_failure_only() {
    let waiting =
        Verdict::Waiting { phase: phase::PENDING, reason: reason::STRATEGY_NOT_READY, message: "m".to_owned() };
    let first = status(None, &waiting, Some(1), at(0));
    assert_eq!((first.started_at.clone(), first.completed_at.clone()), (Some(Time(at(0))), None));
    assert_eq!(status(Some(&first), &waiting, Some(1), at(9)), first, "a second look writes nothing");
    let failed = status(Some(&first), &Verdict::Failed { message: "why".to_owned() }, Some(1), at(10));
    assert_eq!((failed.phase.as_deref(), failed.message.as_deref()), (Some("Failed"), Some("why")));
    assert_eq!((failed.started_at.clone(), failed.completed_at.clone()), (Some(Time(at(0))), Some(Time(at(10)))));
    let done = status(Some(&first), &Verdict::Succeeded { backup: "b".to_owned() }, Some(1), at(10));
    assert_eq!((done.message, done.backup_ref.unwrap().name), (None, "b".to_owned()));
    let ready: Vec<Condition> = done.conditions.unwrap();
    assert_eq!((ready[0].status.as_str(), ready[0].reason.as_str()), ("True", "BackupCompleted"));
}

#[test]
fn a_record_survives_its_annotation() {
    let record = Record {
        job: "j".to_owned(),
        parameters: BTreeMap::from([("a".to_owned(), "\"b\"".to_owned())]),
        ..Record::default()
    };
    let snapshot = build::snapshot(&job(), &crate::api::common::S3Location::default(), &record);
    assert_eq!(super::decide::recorded(&snapshot), Some(record));
    assert_eq!(snapshot_name(&job()), snapshot.name_any());
}
