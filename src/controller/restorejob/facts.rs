//! What a restore has found out and done, written down where it outlives everything that the restore deletes.
//!
//! Each fact is a ControllerRevision of its own: its data cannot be changed, its name is fixed by job and fact, and
//! nobody owns it, so that a RestoreJob that is deleted by force does not take it along. Where a restore stands follows
//! from the facts; status only tells.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::source::Source;
use crate::api::agent::Rehearsal;
use crate::api::common::TypedReference;
use crate::api::names::{self, warden};
use crate::api::restorejob::RestoreJob;

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "camelCase")]
pub enum Fact {
    /// What is restored, and into what. Later edits of the Backup change nothing.
    Inputs(Box<Inputs>),
    /// The restore was rehearsed.
    Preflight(Box<Preflight>),
    /// How the application's HelmRelease was found.
    Release(Release),
    /// The suspend holds: nothing renders the application's objects.
    Suspended(Suspended),
    /// The whole EtcdCluster as it was.
    Capture(Box<Capture>),
    /// From here on the old cluster may be gone.
    PurgeIntent(PurgeIntent),
    /// Everything of the old cluster is gone.
    Purged(Purged),
    /// The new cluster exists.
    Created(Created),
    /// The new cluster has the Backup's data.
    Verified(Verified),
    /// The HelmRelease is as it was found.
    Resumed(Resumed),
    /// The restore is given up; what it did is being put back.
    Failing(Failing),
}

/// What is restored, and into what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inputs {
    /// Name of the Backup.
    pub backup: String,
    /// The stored snapshot.
    pub source: Source,
    /// The application.
    pub application: TypedReference,
    /// The EtcdCluster.
    pub cluster: String,
    /// Whether the restore ends after its rehearsal.
    pub dry_run: bool,
    /// Seconds that the restore may take from here.
    pub timeout_seconds: i64,
}

/// The restore was rehearsed, in the image that will do it, and nothing was changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preflight {
    /// What the rehearsal's etcd said of the data.
    pub rehearsal: Option<Rehearsal>,
}

/// How the application's HelmRelease was found; written before it is suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Release {
    /// Whether there was one.
    pub exists: bool,
    /// Its `spec.suspend`.
    pub suspend: Option<bool>,
}

/// The suspend holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Suspended {}

/// The HelmRelease is as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resumed {}

/// The restore is given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Failing {
    /// Why.
    pub message: String,
}

/// The EtcdCluster as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capture {
    /// The whole object.
    pub object: serde_json::Value,
}

/// The old cluster, as it is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PurgeIntent {
    /// Its UID.
    pub cluster_uid: String,
}

/// The old cluster is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Purged {}

/// The new cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Created {
    /// Its UID.
    pub cluster_uid: String,
}

/// The new cluster was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verified {
    /// Members that were ready.
    pub ready_members: i32,
}

impl Fact {
    /// The fact's word, which ends its record's name.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Inputs(_) => "inputs",
            Self::Preflight(_) => "preflight",
            Self::Release(_) => "release",
            Self::Suspended(_) => "suspended",
            Self::Capture(_) => "capture",
            Self::PurgeIntent(_) => "purge-intent",
            Self::Purged(_) => "purged",
            Self::Created(_) => "created",
            Self::Verified(_) => "verified",
            Self::Resumed(_) => "resumed",
            Self::Failing(_) => "failing",
        }
    }

    fn number(&self) -> i64 {
        match self {
            Self::Inputs(_) => 1,
            Self::Preflight(_) => 2,
            Self::Release(_) => 3,
            Self::Suspended(_) => 4,
            Self::Capture(_) => 5,
            Self::PurgeIntent(_) => 6,
            Self::Purged(_) => 7,
            Self::Created(_) => 8,
            Self::Verified(_) => 9,
            Self::Resumed(_) => 10,
            Self::Failing(_) => 11,
        }
    }
}

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
    /// See [`Fact::Preflight`].
    pub preflight: Option<Dated<Preflight>>,
    /// See [`Fact::Release`].
    pub release: Option<Dated<Release>>,
    /// See [`Fact::Suspended`].
    pub suspended: Option<Dated<Suspended>>,
    /// See [`Fact::Capture`].
    pub capture: Option<Dated<Capture>>,
    /// See [`Fact::PurgeIntent`].
    pub purge_intent: Option<Dated<PurgeIntent>>,
    /// See [`Fact::Purged`].
    pub purged: Option<Dated<Purged>>,
    /// See [`Fact::Created`].
    pub created: Option<Dated<Created>>,
    /// See [`Fact::Verified`].
    pub verified: Option<Dated<Verified>>,
    /// See [`Fact::Resumed`].
    pub resumed: Option<Dated<Resumed>>,
    /// See [`Fact::Failing`].
    pub failing: Option<Dated<Failing>>,
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
            let unreadable = |why: String| Unreadable { name: record.name_any(), why };
            let data = record.data.as_ref().ok_or_else(|| unreadable("it is empty".to_owned()))?;
            let fact: Fact = serde_json::from_value(data.0.clone()).map_err(|error| unreadable(error.to_string()))?;
            facts.add(fact, record.creation_timestamp());
        }
        Ok(facts)
    }

    fn add(&mut self, fact: Fact, at: Option<Time>) {
        match fact {
            Fact::Inputs(fact) => self.inputs = Some(Dated { fact: *fact, at }),
            Fact::Preflight(fact) => self.preflight = Some(Dated { fact: *fact, at }),
            Fact::Release(fact) => self.release = Some(Dated { fact, at }),
            Fact::Suspended(fact) => self.suspended = Some(Dated { fact, at }),
            Fact::Capture(fact) => self.capture = Some(Dated { fact: *fact, at }),
            Fact::PurgeIntent(fact) => self.purge_intent = Some(Dated { fact, at }),
            Fact::Purged(fact) => self.purged = Some(Dated { fact, at }),
            Fact::Created(fact) => self.created = Some(Dated { fact, at }),
            Fact::Verified(fact) => self.verified = Some(Dated { fact, at }),
            Fact::Resumed(fact) => self.resumed = Some(Dated { fact, at }),
            Fact::Failing(fact) => self.failing = Some(Dated { fact, at }),
        }
    }
}

/// The record of a fact.
#[must_use]
pub fn record(job: &RestoreJob, fact: &Fact) -> ControllerRevision {
    let uid = job.uid().unwrap_or_default();
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(names::restore_record(&job.name_any(), &uid, fact.word())),
            namespace: job.namespace(),
            labels: Some(BTreeMap::from([(warden::RESTORE_JOB_UID.to_owned(), uid)])),
            ..ObjectMeta::default()
        },
        // A fact always has a JSON form: all its keys are texts.
        data: serde_json::to_value(fact).ok().map(RawExtension),
        revision: fact.number(),
    }
}
