//! Restores in a small world without clocks or servers: every action may be the last before a crash, every action may
//! be done twice, and the world moves on by itself in between.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use super::decide::{Action, Plan, Verdict, decide, is_finished};
use super::facts::{Facts, record};
use super::observe::{Observed, Recreation, Rehearsing, Release, Remains, Remnant};
use super::status::status;
use super::{build, is_settled};
use crate::api::backup::Backup;
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;

fn from<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).unwrap()
}

fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// What is there, and how it behaves.
#[derive(Clone, Debug)]
struct World {
    now: Timestamp,
    job: RestoreJob,
    job_gone: bool,
    backup: Known<Backup>,
    records: Vec<ControllerRevision>,
    cluster: Option<DynamicObject>,
    remains: Remains,
    release: Option<Release>,
    rehearsal: Known<Rehearsing>,
    rehearsal_ends: Rehearsing,
    recreation: Recreation,
    becomes_ready: bool,
    log: Vec<&'static str>,
}

fn backup() -> Backup {
    from(json!({
        "metadata": {"name": "b"},
        "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"},
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s3"},
            "driverMetadata": {"etcd.aenix.io/bucket": "bucket", "etcd.aenix.io/endpoint": "s3:9000",
                "etcd.aenix.io/credentials-secret-name": "creds"}},
        "status": {"phase": "Ready", "artifact": {"uri": "s3://bucket/x.db"}},
    }))
}

fn cluster() -> DynamicObject {
    from(json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": "etcd", "uid": "old", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"version": "3.6.11", "replicas": 3, "unknown": {"field": 1}},
        "status": {"readyMembers": 3},
    }))
}

impl World {
    fn new() -> Self {
        let member = Remnant { name: "etcd-a".to_owned(), uid: "m".to_owned(), owner_uid: "old".to_owned() };
        let claim = Remnant { name: "data-etcd-a".to_owned(), uid: "c".to_owned(), owner_uid: "m".to_owned() };
        Self {
            now: start(),
            job: from(json!({"metadata": {"name": "r", "namespace": "ns", "uid": "0c1d2e3f-1",
                "creationTimestamp": start()}, "spec": {"backupRef": {"name": "b"}}})),
            job_gone: false,
            backup: Known::Found(backup()),
            records: Vec::new(),
            cluster: Some(cluster()),
            remains: Remains { members: vec![member], pods: Vec::new(), claims: vec![claim] },
            release: Some(Release { name: "etcd".to_owned(), suspend: None, ..Release::default() }),
            rehearsal: Known::Absent,
            rehearsal_ends: Rehearsing::Passed(None),
            recreation: Recreation::Accepted,
            becomes_ready: true,
            log: Vec::new(),
        }
    }

    fn look(&self) -> Observed {
        let optional = |cluster: &Option<DynamicObject>| cluster.clone().map_or(Known::Absent, Known::Found);
        Observed {
            job: self.job.clone(),
            facts: Facts::read(&self.records).unwrap(),
            backup: self.backup.clone(),
            others: Known::Found(vec![self.job.clone()]),
            cluster: optional(&self.cluster),
            release: self.release.clone().map_or(Known::Absent, Known::Found),
            rehearsal: self.rehearsal.clone(),
            recreation: Known::Found(self.recreation.clone()),
            remains: Known::Found(self.remains.clone()),
        }
    }

    fn has(&self, fact: &str) -> bool {
        self.records.iter().any(|record| record.name_any().ends_with(&format!("-{fact}")))
    }

    /// What the API server would make of an action; what must never be asked of it, panics.
    fn act(&mut self, action: &Action) {
        self.log.push(action.word());
        match action {
            Action::Hold => self.job.finalizers_mut().push(warden::RESTORE_FINALIZER.to_owned()),
            Action::Release => {
                self.job.finalizers_mut().clear();
                self.job_gone = self.job.metadata.deletion_timestamp.is_some();
            }
            Action::Record(fact) => {
                let mut made = record(&self.job, fact);
                made.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
                if !self.records.iter().any(|record| record.name_any() == made.name_any()) {
                    self.records.push(made);
                }
            }
            Action::StartPreflight { .. } => self.rehearsal = Known::Found(Rehearsing::Running(String::new())),
            Action::Guard => drop(self.job.labels_mut().insert(warden::GUARDS.to_owned(), "etcd".to_owned())),
            Action::Unguard => drop(self.job.labels_mut().remove(warden::GUARDS)),
            Action::Suspend(_) => self.release.as_mut().unwrap().suspend = Some(true),
            Action::Resume { suspend, .. } => self.release.as_mut().unwrap().suspend = *suspend,
            Action::DeleteCluster { uid, resource_version } => {
                assert!(self.has("preflight") && self.has("capture") && self.has("purge-intent"), "{:?}", self.log);
                assert!(self.job.labels().contains_key(warden::GUARDS));
                assert!(self.release.as_ref().is_none_or(|release| release.suspend == Some(true)));
                if let Some(cluster) = &mut self.cluster
                    && cluster.metadata.uid.as_ref() == Some(uid)
                    && cluster.metadata.resource_version.as_ref() == Some(resource_version)
                {
                    cluster.metadata.deletion_timestamp =
                        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
                }
            }
            Action::CreateCluster { capture, inputs } => {
                assert!(self.has("purged"));
                assert_eq!(self.remains, Remains::default(), "made beside what is left of the old one");
                if self.cluster.is_none() {
                    let mut made = build::cluster(&self.job, capture, inputs).unwrap();
                    made.metadata.uid = Some("new".to_owned());
                    self.cluster = Some(made);
                }
            }
        }
    }

    /// The world moves on by one step.
    fn pass(&mut self) {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        if matches!(self.rehearsal, Known::Found(Rehearsing::Running(_))) {
            self.rehearsal = Known::Found(self.rehearsal_ends.clone());
        }
        let Some(cluster) = &mut self.cluster else {
            self.remains = Remains::default();
            return;
        };
        if cluster.metadata.deletion_timestamp.is_some() {
            self.cluster = None;
        } else if cluster.metadata.uid.as_deref() == Some("new") && self.becomes_ready {
            cluster.data["status"] = json!({"readyMembers": 3, "conditions": [{"type": "Available", "status": "True",
                "reason": "QuorumHealthy", "message": "", "lastTransitionTime": start()}]});
        }
    }

    /// One look: the plan's actions up to a crash, which may come before or after the action took effect.
    fn step(&mut self, crash: &mut dyn FnMut() -> Crash) -> Plan {
        let seen = self.look();
        let plan = decide(&seen, self.now);
        for action in &plan.actions {
            match crash() {
                Crash::Never => self.act(action),
                Crash::Before => return plan,
                Crash::After => {
                    self.act(action);
                    return plan;
                }
                Crash::Twice => {
                    self.act(action);
                    self.act(action);
                }
            }
        }
        if plan.actions.is_empty() {
            self.job.status = Some(status(&seen, &plan.verdict, self.now));
            self.pass();
        }
        self.check();
        plan
    }

    /// What must hold at every moment.
    fn check(&self) {
        if is_finished(&self.job) {
            let release = self.release.as_ref().map(|release| release.suspend);
            assert_eq!(release, World::new().release.map(|release| release.suspend), "the release is as it was found");
            assert!(self.cluster.is_some(), "an end without a cluster");
        }
    }

    /// Runs until nothing is left to do.
    fn run(&mut self, mut crash: impl FnMut() -> Crash) {
        for _ in 0..400 {
            if self.job_gone || is_settled(&self.job) {
                return;
            }
            self.step(&mut crash);
        }
        panic!("did not settle: {:?}\n{:?}", self.job.status, self.log);
    }

    fn message(&self) -> &str {
        self.job.status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default()
    }

    fn phase(&self) -> &str {
        self.job.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
enum Crash {
    Never,
    Before,
    After,
    Twice,
}

fn never() -> Crash {
    Crash::Never
}

/// The number of actions of an undisturbed restore.
fn actions() -> usize {
    let mut world = World::new();
    world.run(never);
    world.log.len()
}

fn crash_at(nth: usize, how: Crash) -> impl FnMut() -> Crash {
    let mut count = 0;
    move || {
        count += 1;
        if count == nth { how } else { Crash::Never }
    }
}

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
            "release",
            "suspend",
            "suspended",
            "guard",
            "capture",
            "purge-intent",
            "delete-cluster",
            "purged",
            "create-cluster",
            "created",
            "verified",
            "resume",
            "resumed",
            "unguard",
            "release"
        ]
    );
    assert_eq!(world.phase(), "Succeeded");
    let new = world.cluster.unwrap();
    assert_eq!(new.data["spec"]["unknown"], json!({"field": 1}), "unknown fields come back");
    assert_eq!(new.labels()["a"], "b");
    assert_eq!(new.data["spec"]["bootstrap"]["restore"]["source"]["s3"]["key"], "x.db");
}

#[test]
fn a_crash_at_any_action_and_any_action_twice_end_the_same() {
    for how in [Crash::Before, Crash::After, Crash::Twice] {
        for nth in 1..=actions() {
            let mut world = World::new();
            world.run(crash_at(nth, how));
            assert_eq!(world.phase(), "Succeeded", "{how:?} {nth}: {:?}", world.log);
            let new = world.cluster.as_ref().unwrap();
            assert_eq!(new.metadata.uid.as_deref(), Some("new"), "{how:?} {nth}");
            assert_eq!(new.annotations()[warden::RESTORED_BY], world.job.uid().unwrap(), "{how:?} {nth}");
        }
    }
}

#[test]
fn a_job_deleted_at_any_moment_leaves_the_cluster_untouched_or_restored() {
    for nth in 0..=actions() {
        let mut world = World::new();
        world.job.metadata.finalizers = None;
        let mut done = 0;
        while done < nth && !is_settled(&world.job) {
            done += world.step(&mut never).actions.len();
        }
        if world.job.finalizers().is_empty() {
            continue;
        }
        world.job.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
        world.run(never);
        assert!(world.job_gone, "{nth}: a finalizer is stuck");
        let uid = world.cluster.as_ref().and_then(|cluster| cluster.metadata.uid.clone());
        let restored = uid.as_deref() == Some("new");
        assert!(restored || uid.as_deref() == Some("old"), "{nth}: {uid:?}");
        assert_eq!(restored, world.has("purge-intent"), "{nth}: {:?}", world.log);
        assert_eq!(world.release.unwrap().suspend, None, "{nth}");
    }
}

#[test]
fn nothing_is_touched_when_the_rehearsal_or_the_re_creation_would_fail() {
    let mut failed = World::new();
    failed.rehearsal_ends = Rehearsing::Failed("ChecksumMismatch: other bytes".to_owned());
    let mut refused = World::new();
    refused.recreation = Recreation::Refused("quota exceeded".to_owned());
    for (mut world, expected) in [(failed, "ChecksumMismatch"), (refused, "quota exceeded")] {
        world.run(never);
        assert_eq!(world.phase(), "Failed");
        assert!(world.message().contains(expected) && world.message().contains("not touched"), "{}", world.message());
        assert_eq!(world.cluster.unwrap().metadata.uid.as_deref(), Some("old"));
        assert!(!world.log.contains(&"delete-cluster"));
    }
}

#[test]
fn a_dry_run_ends_after_the_rehearsal() {
    let mut world = World::new();
    world.job.spec.options = Some(json!({"dryRun": true}));
    world.run(never);
    assert_eq!(world.phase(), "Succeeded");
    assert!(world.message().starts_with("dry run, nothing was changed"), "{}", world.message());
    assert!(!world.log.contains(&"suspend") && !world.log.contains(&"delete-cluster"));
}

#[test]
fn an_edit_between_capture_and_deletion_stops_the_restore() {
    let mut world = World::new();
    while !world.has("purge-intent") {
        world.step(&mut never);
    }
    world.cluster.as_mut().unwrap().data["spec"]["replicas"] = json!(5);
    world.run(never);
    assert_eq!(world.phase(), "Failed");
    assert!(world.message().contains("was edited"), "{}", world.message());
    assert_eq!(world.cluster.unwrap().data["spec"]["replicas"], 5);
}

/// R10: a suspend that somebody lifts is put back before anything else, and at the end the release is as found.
#[test]
fn a_lifted_suspend_is_put_back() {
    for nth in 7..actions() {
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
    for _ in 0..200 {
        if is_settled(&world.job) {
            break;
        }
        let seen = world.look();
        let plan = decide(&seen, world.now);
        plan.actions.iter().for_each(|action| world.act(action));
        if plan.actions.is_empty() {
            world.job.status = Some(status(&seen, &plan.verdict, world.now));
            world.pass();
        }
    }
    assert_eq!((world.phase(), world.release.as_ref().unwrap().suspend), ("Succeeded", Some(true)));
    assert!(!world.log.contains(&"suspend") && !world.log.contains(&"resume"));
}

#[test]
fn a_restore_whose_cluster_never_comes_is_blocked_and_not_ended() {
    let mut world = World::new();
    world.becomes_ready = false;
    let mut plan = world.step(&mut never);
    for _ in 0..2000 {
        plan = world.step(&mut never);
    }
    assert!(matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == reason::BLOCKED), "{plan:?}");
    assert_eq!(world.phase(), "Running");
    assert_eq!(world.release.as_ref().unwrap().suspend, Some(true), "the fence stays");
    assert!(world.job.labels().contains_key(warden::GUARDS), "the guard stays");
    let mut abandoned = world.clone();
    abandoned.job.annotations_mut().insert(warden::UNBLOCK.to_owned(), "Abandon".to_owned());
    abandoned.run(never);
    assert_eq!(abandoned.phase(), "Failed");
    // What comes right meanwhile is taken.
    world.becomes_ready = true;
    world.run(never);
    assert_eq!(world.phase(), "Succeeded");
}

/// R11: another cluster of the same name is not taken for the restored one.
#[test]
fn a_cluster_of_anothers_making_is_no_success() {
    let mut world = World::new();
    while !world.has("created") {
        world.step(&mut never);
    }
    let mut stranger = cluster();
    stranger.metadata.uid = Some("stranger".to_owned());
    stranger.data["status"] = json!({"readyMembers": 3, "conditions": [{"type": "Available", "status": "True",
        "reason": "QuorumHealthy", "message": "", "lastTransitionTime": start()}]});
    world.cluster = Some(stranger);
    for _ in 0..50 {
        world.step(&mut never);
    }
    assert_eq!(world.phase(), "Running");
    assert!(!world.has("verified"));
}

#[test]
fn of_two_restores_the_older_goes_on() {
    let mut other = World::new();
    other.job.metadata.name = Some("older".to_owned());
    other.job.metadata.uid = Some("ffff".to_owned());
    other.job.metadata.creation_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    other.job.finalizers_mut().push(warden::RESTORE_FINALIZER.to_owned());
    let mut seen = World::new().look();
    seen.others = Known::Found(vec![seen.job.clone(), other.job.clone()]);
    match decide(&seen, start()).verdict {
        Verdict::Failed { message } => assert!(message.contains("older"), "{message}"),
        verdict => panic!("{verdict:?}"),
    }
    let mut older = other.look();
    older.others = Known::Found(vec![World::new().job, other.job]);
    assert!(!decide(&older, start()).actions.is_empty());
}
