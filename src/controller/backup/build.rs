//! What is written into a Backup that was checked.

use super::observe::Facts;
use super::payload::{self, Payload};
use crate::api::agent::object;
use crate::api::backup::{Backup, BackupStatus, phase};
use crate::api::common::Artifact;

/// The artefact, as far as the object's metadata tells: its hash would take reading all of it.
#[must_use]
pub fn artifact(uri: &str, facts: &Facts) -> Artifact {
    let detail = |key: &str| facts.details.get(key).cloned();
    Artifact {
        uri: uri.to_owned(),
        size_bytes: i64::try_from(facts.size).ok(),
        checksum: None,
        revision: detail(object::REVISION).and_then(|text| text.parse().ok()),
        etcd_version: detail(object::ETCD_VERSION),
        cluster_id: detail(object::CLUSTER_ID),
        consistency: None,
    }
}

/// The status of a Backup whose object was found: what BackupJobs write, too.
#[must_use]
pub fn adopted(backup: &Backup, artifact: &Artifact) -> BackupStatus {
    let status = backup.status.clone().unwrap_or_default();
    let payload = || {
        let place = payload::destination(&backup.spec, None).ok()?;
        serde_json::to_value(Payload::new(place, None)).ok()
    };
    BackupStatus {
        phase: Some(phase::READY.to_owned()),
        artifact: Some(artifact.clone()),
        underlying_resources: status.underlying_resources.clone().or_else(payload),
        ..status
    }
}
