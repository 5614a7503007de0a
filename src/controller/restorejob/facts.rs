//! What a restore has found out and done, written down where it outlives everything that the restore deletes.
//!
//! Each fact is a ControllerRevision of its own ([`super::records`]): its data cannot be changed and nobody owns it, so
//! that a RestoreJob that is deleted by force does not take it along. Where a restore stands follows from the facts;
//! status only tells. Facts that exclude each other share one name, so that only the first of them can be written:
//! giving up and the purge's intent, and the ways in which an attempt ends.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Serialize};

use super::options::Options;
use super::source::Source;
use crate::api::agent::Rehearsal;
use crate::api::common::TypedReference;

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "camelCase")]
pub enum Fact {
    /// What is restored, and into what. Later edits of the Backup change nothing.
    Inputs(Box<Inputs>),
    /// The restore was rehearsed.
    Preflight(Box<Preflight>),
    /// The old cluster was snapshot, or why not.
    SafetySnapshot(Box<Safety>),
    /// How the application's HelmRelease was found.
    Release(Release),
    /// The suspend holds: nothing renders the application's objects.
    Suspended(Suspended),
    /// The whole EtcdCluster as it was.
    Capture(Box<Capture>),
    /// From here on the old cluster may be gone.
    PurgeIntent(PurgeIntent),
    /// The restore is given up before anything was deleted; what it did is being put back.
    Failing(Failing),
    /// The old volumes outlive what is deleted.
    Kept(Kept),
    /// Everything of what stood there is gone.
    Purged(Purged),
    /// The new cluster exists.
    Created(Created),
    /// The new cluster has the data that it was made from.
    Verified(Verified),
    /// An attempt failed; the old data is put back.
    RollBack(RollBack),
    /// A person ended the restore as things are.
    Abandoned(Abandoned),
    /// The HelmRelease is as it was found: nothing is left to do, however the restore ended.
    Resumed(Resumed),
}

/// What is restored, and into what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inputs {
    /// Name of the RestoreJob.
    pub job: String,
    /// Name of the Backup.
    pub backup: String,
    /// The stored snapshot.
    pub source: Source,
    /// The application.
    pub application: TypedReference,
    /// The EtcdCluster.
    pub cluster: String,
    /// What the job's options said.
    pub options: Options,
}

/// The restore was rehearsed, in the image that will do it, and nothing was changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preflight {
    /// Which rehearsal, from 0: one that has grown old is repeated.
    pub round: u32,
    /// What the rehearsal's etcd said of the data.
    pub rehearsal: Option<Rehearsal>,
    /// How far it raised the revision, and the restore will.
    pub bump: i64,
    /// The etcd version that booted on the data; absent in records from before it was kept.
    pub version: Option<String>,
}

/// The snapshot of the old cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Safety {
    /// What is stored, where there is one.
    pub source: Option<Source>,
    /// Why there is none.
    pub skipped: Option<String>,
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
    /// Where it was read, if not from the API server: the cluster was missing.
    pub found_in: Option<String>,
}

impl Capture {
    /// The UID of the captured cluster, while there is one.
    #[must_use]
    pub fn uid(&self) -> &str {
        let uid = self.object.pointer("/metadata/uid").and_then(serde_json::Value::as_str);
        uid.filter(|_| self.found_in.is_none()).unwrap_or_default()
    }
}

/// The old cluster, as it is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PurgeIntent {
    /// Its UID; empty where there was none.
    pub cluster_uid: String,
    /// The volumes that are to outlive it.
    pub volumes: Vec<Volume>,
    /// The highest revision that a member told, where one answered.
    pub revision: Option<i64>,
}

/// A volume claim of an old member, with what it takes to give it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name of the claim.
    pub claim: String,
    /// Its UID.
    pub uid: String,
    /// The member.
    pub member: String,
    /// The member's database in it.
    pub sub_path: String,
    /// Who owns it.
    pub owners: Vec<OwnerReference>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// The old volumes outlive what is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kept {
    /// Names of the claims.
    pub claims: Vec<String>,
}

/// What stood there is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Purged {
    /// The attempt that found it gone: 0 is the restore, further ones put the old data back.
    pub attempt: u32,
    /// Pods on lost nodes that were not waited for: nothing but their objects is known of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// The new cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Created {
    /// The attempt that made it.
    pub attempt: u32,
    /// Its UID.
    pub cluster_uid: String,
}

/// The new cluster was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verified {
    /// The attempt that made it.
    pub attempt: u32,
    /// Members whose data was proven.
    pub members: i32,
    /// Members that it should have.
    pub replicas: i32,
    /// The highest revision that a member told.
    pub revision: i64,
    /// HashKV of those members, at the rehearsal's revision.
    #[serde(rename = "hashKV")]
    pub hash_kv: Option<u32>,
}

/// Where old data is put back from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "camelCase")]
pub enum OldData {
    /// The old cluster, which still stands.
    #[serde(rename_all = "camelCase")]
    Standing {
        /// Its UID.
        cluster_uid: String,
    },
    /// A kept volume.
    #[serde(rename_all = "camelCase")]
    Volume {
        /// Its claim.
        claim: String,
        /// The database in it.
        sub_path: String,
    },
    /// The safety snapshot.
    Snapshot(Box<Source>),
}

/// An attempt failed; the old data is put back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollBack {
    /// The attempt that begins, from 1.
    pub attempt: u32,
    /// Why the one before failed.
    pub why: String,
    /// Where the data comes from.
    pub source: OldData,
    /// How far the revision is raised.
    pub bump: i64,
}

/// A person ended the restore as things are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Abandoned {
    /// The attempt that was under way.
    pub attempt: u32,
    /// What was in the way.
    pub message: String,
}

impl Fact {
    /// The fact's word in logs and on records.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Inputs(_) => "inputs",
            Self::Preflight(_) => "preflight",
            Self::SafetySnapshot(_) => "safety-snapshot",
            Self::Release(_) => "release",
            Self::Suspended(_) => "suspended",
            Self::Capture(_) => "capture",
            Self::PurgeIntent(_) => "purge-intent",
            Self::Failing(_) => "failing",
            Self::Kept(_) => "kept",
            Self::Purged(_) => "purged",
            Self::Created(_) => "created",
            Self::Verified(_) => "verified",
            Self::RollBack(_) => "roll-back",
            Self::Abandoned(_) => "abandoned",
            Self::Resumed(_) => "resumed",
        }
    }

    /// The end of its record's name. Facts that exclude each other have the same.
    #[must_use]
    pub fn place(&self) -> String {
        let nth = |place: &str, number: u32| if number == 0 { place.to_owned() } else { format!("{place}-{number}") };
        match self {
            Self::PurgeIntent(_) | Self::Failing(_) => "commit".to_owned(),
            Self::Preflight(fact) => nth("preflight", fact.round),
            Self::Purged(fact) => nth("purged", fact.attempt),
            Self::Created(fact) => nth("created", fact.attempt),
            Self::Verified(fact) => nth("outcome", fact.attempt),
            Self::RollBack(fact) => nth("outcome", fact.attempt.saturating_sub(1)),
            Self::Abandoned(fact) => nth("outcome", fact.attempt),
            Self::Inputs(_)
            | Self::SafetySnapshot(_)
            | Self::Release(_)
            | Self::Suspended(_)
            | Self::Capture(_)
            | Self::Kept(_)
            | Self::Resumed(_) => self.word().to_owned(),
        }
    }

    /// The fact's number in the order of a restore.
    #[must_use]
    pub fn number(&self) -> i64 {
        match self {
            Self::Inputs(_) => 1,
            Self::Preflight(_) => 2,
            Self::SafetySnapshot(_) => 3,
            Self::Release(_) => 4,
            Self::Suspended(_) => 5,
            Self::Capture(_) => 6,
            Self::PurgeIntent(_) | Self::Failing(_) => 7,
            Self::Kept(_) => 8,
            Self::Purged(_) => 9,
            Self::Created(_) => 10,
            Self::Verified(_) | Self::RollBack(_) | Self::Abandoned(_) => 11,
            Self::Resumed(_) => 12,
        }
    }
}
