//! Facts as they are written down and read back.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;

use super::facts::{
    Abandoned, Capture, Created, Fact, Failing, Inputs, Kept, Preflight, PurgeIntent, Purged, Release, Resumed,
    RollBack, Safety, Suspended, Verified,
};
use crate::api::names::{self, warden};
use crate::api::restorejob::RestoreJob;

/// What the names of all records begin with: not with the job's name, which is another one for whoever continues it.
const RESTORE: &str = "restore";

/// A fact and when it was written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Dated<T> {
    /// The fact.
    pub fact: T,
    /// When.
    pub at: Option<Time>,
}

/// Everything that is on record about one restore.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// See [`Fact::Inputs`].
    pub inputs: Option<Dated<Inputs>>,
    /// See [`Fact::Preflight`], by round.
    pub preflights: BTreeMap<u32, Dated<Preflight>>,
    /// See [`Fact::SafetySnapshot`].
    pub safety: Option<Dated<Safety>>,
    /// See [`Fact::Release`].
    pub release: Option<Dated<Release>>,
    /// See [`Fact::Suspended`].
    pub suspended: Option<Dated<Suspended>>,
    /// See [`Fact::Capture`].
    pub capture: Option<Dated<Capture>>,
    /// See [`Fact::PurgeIntent`].
    pub purge_intent: Option<Dated<PurgeIntent>>,
    /// See [`Fact::Failing`].
    pub failing: Option<Dated<Failing>>,
    /// See [`Fact::Kept`].
    pub kept: Option<Dated<Kept>>,
    /// See [`Fact::Purged`], by attempt.
    pub purged: BTreeMap<u32, Dated<Purged>>,
    /// See [`Fact::Created`], by attempt.
    pub created: BTreeMap<u32, Dated<Created>>,
    /// See [`Fact::Verified`].
    pub verified: Option<Dated<Verified>>,
    /// See [`Fact::RollBack`], by the attempt that began.
    pub rollbacks: BTreeMap<u32, Dated<RollBack>>,
    /// See [`Fact::Abandoned`].
    pub abandoned: Option<Dated<Abandoned>>,
    /// See [`Fact::Resumed`].
    pub resumed: Option<Dated<Resumed>>,
}

/// A record that cannot be read. Terminal for a look, retried by the next: a newer version may read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ControllerRevision {name} holds no fact about a restore: {why}")]
pub struct Unreadable {
    name: String,
    why: String,
}

impl Facts {
    /// Reads the records. One that cannot be read is an error, for to overlook a fact is to do it again.
    pub fn read(records: &[ControllerRevision]) -> Result<Self, Unreadable> {
        let mut facts = Self::default();
        for record in records {
            facts.add(read(record)?, record.creation_timestamp());
        }
        Ok(facts)
    }

    fn add(&mut self, fact: Fact, at: Option<Time>) {
        match fact {
            Fact::Inputs(fact) => self.inputs = Some(Dated { fact: *fact, at }),
            Fact::Preflight(fact) => drop(self.preflights.insert(fact.round, Dated { fact: *fact, at })),
            Fact::SafetySnapshot(fact) => self.safety = Some(Dated { fact: *fact, at }),
            Fact::Release(fact) => self.release = Some(Dated { fact, at }),
            Fact::Suspended(fact) => self.suspended = Some(Dated { fact, at }),
            Fact::Capture(fact) => self.capture = Some(Dated { fact: *fact, at }),
            Fact::PurgeIntent(fact) => self.purge_intent = Some(Dated { fact, at }),
            Fact::Failing(fact) => self.failing = Some(Dated { fact, at }),
            Fact::Kept(fact) => self.kept = Some(Dated { fact, at }),
            Fact::Purged(fact) => drop(self.purged.insert(fact.attempt, Dated { fact, at })),
            Fact::Created(fact) => drop(self.created.insert(fact.attempt, Dated { fact, at })),
            Fact::Verified(fact) => self.verified = Some(Dated { fact, at }),
            Fact::RollBack(fact) => drop(self.rollbacks.insert(fact.attempt, Dated { fact, at })),
            Fact::Abandoned(fact) => self.abandoned = Some(Dated { fact, at }),
            Fact::Resumed(fact) => self.resumed = Some(Dated { fact, at }),
        }
    }

    /// The attempt that is under way: 0 is the restore itself, further ones put the old data back.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.rollbacks.keys().last().copied().unwrap_or_default()
    }

    /// What the attempt that is under way puts back, if it puts anything back.
    #[must_use]
    pub fn rollback(&self) -> Option<&Dated<RollBack>> {
        self.rollbacks.values().last()
    }

    /// The latest rehearsal.
    #[must_use]
    pub fn preflight(&self) -> Option<&Dated<Preflight>> {
        self.preflights.values().last()
    }

    /// The UID of the cluster that the attempt under way made.
    #[must_use]
    pub fn created_uid(&self) -> Option<&str> {
        self.created.get(&self.attempt()).map(|created| created.fact.cluster_uid.as_str())
    }
}

/// The fact in a record.
pub fn read(record: &ControllerRevision) -> Result<Fact, Unreadable> {
    let unreadable = |why: String| Unreadable { name: record.name_any(), why };
    let data = record.data.as_ref().ok_or_else(|| unreadable("it is empty".to_owned()))?;
    serde_json::from_value(data.0.clone()).map_err(|error| unreadable(error.to_string()))
}

/// The UID under which a job's restore is on record: its own, or that of the job which it brings to an end.
#[must_use]
pub fn restore_uid(job: &RestoreJob) -> String {
    job.annotations().get(warden::CONTINUES).cloned().or_else(|| job.uid()).unwrap_or_default()
}

/// The record of a fact.
#[must_use]
pub fn record(job: &RestoreJob, fact: &Fact) -> ControllerRevision {
    let uid = restore_uid(job);
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(names::restore_record(RESTORE, &uid, &fact.place())),
            namespace: job.namespace(),
            labels: Some(BTreeMap::from([(warden::RESTORE_JOB_UID.to_owned(), uid)])),
            ..ObjectMeta::default()
        },
        // A fact always has a JSON form: all its keys are texts.
        data: serde_json::to_value(fact).ok().map(RawExtension),
        revision: fact.number(),
    }
}
