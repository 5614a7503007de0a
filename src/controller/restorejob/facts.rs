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
use crate::api::common::TypedReference;
use crate::api::names::{self, warden};
use crate::api::restorejob::RestoreJob;

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "camelCase")]
pub enum Fact {
    /// What is restored, and into what. Later edits of the Backup change nothing.
    Inputs(Box<Inputs>),
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
    /// Seconds that the restore may take from here.
    pub timeout_seconds: i64,
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
            Self::Capture(_) => "capture",
            Self::PurgeIntent(_) => "purge-intent",
            Self::Purged(_) => "purged",
            Self::Created(_) => "created",
            Self::Verified(_) => "verified",
        }
    }

    fn number(&self) -> i64 {
        match self {
            Self::Inputs(_) => 1,
            Self::Capture(_) => 2,
            Self::PurgeIntent(_) => 3,
            Self::Purged(_) => 4,
            Self::Created(_) => 5,
            Self::Verified(_) => 6,
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
            Fact::Capture(fact) => self.capture = Some(Dated { fact: *fact, at }),
            Fact::PurgeIntent(fact) => self.purge_intent = Some(Dated { fact, at }),
            Fact::Purged(fact) => self.purged = Some(Dated { fact, at }),
            Fact::Created(fact) => self.created = Some(Dated { fact, at }),
            Fact::Verified(fact) => self.verified = Some(Dated { fact, at }),
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
