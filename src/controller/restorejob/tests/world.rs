//! A small world without clocks or servers, in which restores are told: what is there, and how it behaves.

mod acts;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use crate::api::backup::Backup;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::names::warden;
use crate::api::restorejob::RestoreJob;
use crate::checks::Known;
use crate::controller::restorejob::decide::{Plan, Verdict, decide, is_finished};
use crate::controller::restorejob::facts::Volume;
use crate::controller::restorejob::is_settled;
use crate::controller::restorejob::observe::live::{Hash, Live, LiveMember, Told};
use crate::controller::restorejob::observe::volumes::Standing;
use crate::controller::restorejob::observe::{Lost, Observed, Recreation, Rehearsed, Release, Remains, Remnant};
use crate::controller::restorejob::records::{Facts, read};
use crate::controller::restorejob::status::status;

pub(super) fn from<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).unwrap()
}

pub(super) fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// The hash of the rehearsed data.
pub(super) const HASH: u32 = 0xabcd;
/// Revision of the old cluster.
pub(super) const OLD_REVISION: i64 = 100;

/// How a made cluster turns out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    /// With the data.
    #[default]
    Right,
    /// With other data.
    Wrong,
    /// With an alarm that the snapshot does not carry.
    Alarmed,
    /// It never comes up.
    Never,
    /// What was rehearsed is compacted away.
    Compacted,
    /// Its seed says that it will never come up.
    Hopeless,
}

/// What is there, and how it behaves.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) job: RestoreJob,
    pub(super) job_gone: bool,
    pub(super) backup: Known<Backup>,
    pub(super) records: Vec<ControllerRevision>,
    pub(super) cluster: Option<DynamicObject>,
    /// How long a cluster takes to go once it is deleted.
    pub(super) goes: u32,
    pub(super) remains: Remains,
    pub(super) volume: Standing,
    pub(super) release: Option<Release>,
    pub(super) rehearsal: Known<Rehearsed>,
    pub(super) rehearsal_ends: Option<String>,
    pub(super) snapshot: Option<EtcdSnapshot>,
    pub(super) snapshot_ends: &'static str,
    pub(super) recreation: Recreation,
    pub(super) lost: Known<Lost>,
    pub(super) against_the_rules: Option<String>,
    /// By attempt.
    pub(super) turns: BTreeMap<u32, Turn>,
    /// Members that are ready from the first moment; the others come when all three are wanted.
    pub(super) ready: i32,
    pub(super) old_revision: i64,
    pub(super) was_suspended: Option<bool>,
    pub(super) log: Vec<&'static str>,
    /// Actions that the API server refuses, by their word.
    pub(super) refused: BTreeSet<&'static str>,
    /// Whether somebody else writes into the job's status.
    pub(super) meddled: bool,
    /// Clusters by UID that were deleted.
    pub(super) deleted: Vec<String>,
    /// What the API server gives no answer about: `cluster`, `volumes`.
    pub(super) unreadable: BTreeSet<&'static str>,
}

pub(super) fn backup() -> Backup {
    from(json!({
        "metadata": {"name": "b"},
        "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"},
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s3"},
            "driverMetadata": {"etcd.aenix.io/bucket": "bucket", "etcd.aenix.io/endpoint": "s3:9000",
                "etcd.aenix.io/credentials-secret-name": "creds"}},
        "status": {"phase": "Ready", "artifact": {"uri": "s3://bucket/folder/x.db", "revision": 40, "sizeBytes": 7_000,
            "checksum": "sha256:ab"}},
    }))
}

pub(super) fn cluster() -> DynamicObject {
    from(json!({
        "apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": "etcd", "uid": "old", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"version": "3.6.11", "replicas": 3, "unknown": {"field": 1}},
        "status": {"readyMembers": 3, "conditions": [{"type": "Available", "status": "True", "reason": "QuorumHealthy",
            "message": "", "lastTransitionTime": start()}]},
    }))
}

pub(super) fn volume() -> Volume {
    Volume {
        claim: "data-etcd-a".to_owned(),
        uid: "c".to_owned(),
        member: "etcd-a".to_owned(),
        sub_path: "member/snap/db".to_owned(),
        ..Volume::default()
    }
}

fn remnant(name: &str, uid: &str, owner: &str) -> Remnant {
    Remnant { name: name.to_owned(), uid: uid.to_owned(), owner_uid: owner.to_owned(), ..Remnant::default() }
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: start(),
            job: from(json!({"metadata": {"name": "r", "namespace": "ns", "uid": "0c1d2e3f-1",
                "creationTimestamp": start()}, "spec": {"backupRef": {"name": "b"}}})),
            job_gone: false,
            backup: Known::Found(backup()),
            records: Vec::new(),
            cluster: Some(cluster()),
            goes: 2,
            remains: Remains {
                members: vec![remnant("etcd-a", "m", "old")],
                pods: Vec::new(),
                claims: vec![remnant("data-etcd-a", "c", "m")],
            },
            volume: Standing::Owned,
            release: Some(Release { name: "etcd".to_owned(), suspend: None, ..Release::default() }),
            rehearsal: Known::Absent,
            rehearsal_ends: None,
            snapshot: None,
            snapshot_ends: "Complete",
            recreation: Recreation::Accepted,
            lost: Known::Absent,
            against_the_rules: None,
            turns: BTreeMap::new(),
            ready: 3,
            old_revision: OLD_REVISION,
            was_suspended: None,
            log: Vec::new(),
            refused: BTreeSet::new(),
            meddled: false,
            deleted: Vec::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// With options.
    pub(super) fn with(options: serde_json::Value) -> Self {
        let mut world = Self::new();
        world.job.spec.options = Some(options);
        world
    }

    /// In which the restore itself turns out like this.
    pub(super) fn turning(turn: Turn) -> Self {
        let mut world = Self::new();
        world.turns.insert(0, turn);
        world
    }

    pub(super) fn look(&self) -> Observed {
        let optional = |cluster: &Option<DynamicObject>| cluster.clone().map_or(Known::Absent, Known::Found);
        let unknown = |what: &str| self.unreadable.contains(what).then(|| "no answer".to_owned());
        let volumes = vec![self.volume; self.facts().purge_intent.map_or(0, |i| i.fact.volumes.len())];
        Observed {
            job: self.job.clone(),
            facts: self.facts(),
            backup: self.backup.clone(),
            others: Known::Found(vec![self.job.clone()]),
            open: Known::Absent,
            cluster: unknown("cluster").map_or_else(|| optional(&self.cluster), Known::Unknown),
            release: self.release.clone().map_or(Known::Absent, Known::Found),
            rehearsal: self.rehearsal.clone(),
            snapshot: self.snapshot.clone().map_or(Known::Absent, Known::Found),
            recreation: Known::Found(self.recreation.clone()),
            remains: Known::Found(self.remains.clone()),
            live: self.live(),
            volumes: unknown("volumes").map_or(Known::Found(volumes), Known::Unknown),
            lost: self.lost.clone(),
            namespace_goes: false,
            refused: self.against_the_rules.clone(),
        }
    }

    pub(super) fn facts(&self) -> Facts {
        Facts::read(&self.records).unwrap()
    }

    /// Whether a fact of this word is on record.
    pub(super) fn has(&self, fact: &str) -> bool {
        self.records.iter().any(|record| read(record).unwrap().word() == fact)
    }

    /// How a cluster turns out.
    fn turn(&self, cluster: &DynamicObject) -> Turn {
        let attempt = cluster.annotations().get(warden::RESTORE_ATTEMPT).and_then(|attempt| attempt.parse().ok());
        attempt.and_then(|attempt: u32| self.turns.get(&attempt).copied()).unwrap_or_default()
    }

    fn live(&self) -> Known<Live> {
        let Some(cluster) = &self.cluster else { return Known::Absent };
        let old = cluster.metadata.uid.as_deref() == Some("old");
        let turn = self.turn(cluster);
        let up = old || (cluster.data["status"]["readyMembers"].as_i64() > Some(0) && turn != Turn::Never);
        let bump: i64 =
            cluster.annotations().get(warden::REVISION_BUMP).and_then(|bump| bump.parse().ok()).unwrap_or_default();
        let hash = match turn {
            _ if old => Hash::NotAsked,
            Turn::Right | Turn::Alarmed | Turn::Never | Turn::Hopeless => Hash::Is(HASH),
            Turn::Wrong => Hash::Is(HASH + 1),
            Turn::Compacted => Hash::Compacted,
        };
        let strangers = cluster.data["status"]["revision"].as_i64();
        let revision = strangers.unwrap_or(if old { self.old_revision } else { 40 + bump });
        let told = Told { revision, applied: 7, is_learner: false, hash };
        let ready = if old { 3 } else { self.ready };
        let member = |number: i32| LiveMember {
            name: format!("etcd-{number}"),
            ready: up && number < ready,
            told: if up && number < ready { Ok(told.clone()) } else { Err("connection refused".to_owned()) },
            volume: (old && number == 0).then(volume),
        };
        let alarms = if turn == Turn::Alarmed { vec!["Corrupt".to_owned()] } else { Vec::new() };
        Known::Found(Live { members: (0..3).map(member).collect(), alarms: up.then_some(alarms) })
    }

    /// One look: the plan's actions up to a crash, which may come before or after the action took effect.
    pub(super) fn step(&mut self, crash: &mut dyn FnMut() -> Crash) -> Plan {
        let seen = self.look();
        let plan = decide(&seen, self.now);
        let mut fault = false;
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
            if self.refused.contains(action.word()) {
                fault = true;
                break;
            }
        }
        if plan.actions.is_empty() || fault {
            if !fault || matches!(&plan.verdict, Verdict::Waiting { reason, .. } if *reason == "Blocked") {
                self.job.status = Some(status(&seen, &plan.verdict, self.now));
            }
            self.pass();
        }
        self.check();
        plan
    }

    /// What must hold at every moment.
    pub(super) fn check(&self) {
        if is_finished(&self.job) && self.release.is_some() && !self.meddled {
            let release = self.release.as_ref().map(|release| release.suspend);
            assert_eq!(release, Some(self.was_suspended), "the release is as it was found");
            let abandoned = self.has("abandoned");
            assert!(self.cluster.is_some() || abandoned, "an end without a cluster: {:?}", self.log);
        }
        if self.phase() == "Succeeded" && self.has("verified") {
            let live = self.live().found().unwrap();
            assert!(
                live.members.iter().any(|member| member.told.as_ref().is_ok_and(|told| told.hash == Hash::Is(HASH)))
            );
        }
    }

    /// Runs until nothing is left to do.
    pub(super) fn run(&mut self, mut crash: impl FnMut() -> Crash) {
        for _ in 0..12_000 {
            if self.job_gone || is_settled(&self.job) {
                return;
            }
            self.step(&mut crash);
        }
        panic!("did not settle: {:?}\n{:?}", self.job.status, &self.log[..self.log.len().min(60)]);
    }

    /// Runs until a fact is on record; with the number of an attempt, until it is of that attempt.
    pub(super) fn run_until(&mut self, fact: &str) {
        for _ in 0..400 {
            if self.has(fact) || self.records.iter().any(|record| read(record).unwrap().place() == fact) {
                return;
            }
            self.step(&mut never);
        }
        panic!("no {fact}: {:?}", self.log);
    }

    /// Runs for so many seconds.
    pub(super) fn run_for(&mut self, seconds: i64) -> Plan {
        let until = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        let mut plan = self.step(&mut never);
        while self.now < until {
            plan = self.step(&mut never);
        }
        plan
    }

    pub(super) fn message(&self) -> &str {
        self.job.status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default()
    }

    pub(super) fn phase(&self) -> &str {
        self.job.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.cluster.as_ref().and_then(|cluster| cluster.metadata.uid.as_deref()).unwrap_or_default()
    }

    /// Somebody deletes the job.
    pub(super) fn delete_job(&mut self) {
        self.job.metadata.deletion_timestamp = Some(Time(self.now));
    }

    /// Another program ends the job in its status.
    pub(super) fn end_elsewhere(&mut self) {
        self.meddled = true;
        let status = self.job.status.get_or_insert_default();
        status.phase = Some("Failed".to_owned());
        status.message = Some("no such strategy".to_owned());
        status.completed_at = Some(Time(self.now));
    }

    /// The number of actions of this story, undisturbed.
    pub(super) fn actions(&self) -> usize {
        let mut world = self.clone();
        world.run(never);
        world.log.len()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Crash {
    Never,
    Before,
    After,
    Twice,
}

pub(super) fn never() -> Crash {
    Crash::Never
}

pub(super) fn crash_at(nth: usize, how: Crash) -> impl FnMut() -> Crash {
    let mut count = 0;
    move || {
        count += 1;
        if count == nth { how } else { Crash::Never }
    }
}

/// Each way to be disturbed at each of so many actions.
pub(super) fn disturbances(actions: usize) -> impl Iterator<Item = (usize, Crash)> {
    let ways = [Crash::Before, Crash::After, Crash::Twice];
    (1..=actions).flat_map(move |nth| ways.into_iter().map(move |how| (nth, how)))
}
