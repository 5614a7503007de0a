//! The objects that a BackupJob makes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::decide::{Record, named, snapshot_name};
use crate::api::backup::{Backup, BackupSpec, BackupStatus, phase};
use crate::api::backupjob::{BackupJob, reason};
use crate::api::common::{APP_CLUSTER_NAME, S3Location, SnapshotLocation};
use crate::api::condition;
use crate::api::etcdsnapshot::{EtcdSnapshot, EtcdSnapshotSpec};
use crate::api::names::{self, backups, warden};
use crate::controller::backup::payload::{self, Payload};

/// Upstream's labels, and the UID that tells this job from others of its name.
fn labels(job: &BackupJob) -> BTreeMap<String, String> {
    [
        (backups::OWNED_BY_JOB_NAME, names::label_value(&job.name_any())),
        (backups::OWNED_BY_JOB_NAMESPACE, names::label_value(&job.namespace().unwrap_or_default())),
        (warden::BACKUP_JOB_UID, job.uid().unwrap_or_default()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// The EtcdSnapshot. Nobody owns it: the record of a stored snapshot outlives the job, as upstream's does.
#[must_use]
pub fn snapshot(job: &BackupJob, destination: &S3Location, record: &Record) -> EtcdSnapshot {
    let mut snapshot = EtcdSnapshot::new(
        &snapshot_name(job),
        EtcdSnapshotSpec {
            cluster_ref: named(APP_CLUSTER_NAME),
            destination: SnapshotLocation { s3: Some(destination.clone()), pvc: None },
        },
    );
    // A record always has a JSON form: all its keys are texts.
    let written = serde_json::to_string(record).unwrap_or_default();
    snapshot.metadata = ObjectMeta {
        namespace: job.namespace(),
        labels: Some(labels(job)),
        annotations: Some(BTreeMap::from([(warden::BACKUP_RECORD.to_owned(), written)])),
        ..snapshot.metadata
    };
    snapshot
}

/// The Backup of a stored snapshot, status included: the kind has no status subresource.
#[must_use]
pub fn backup(job: &BackupJob, name: &str, snapshot: &EtcdSnapshot, record: &Record, now: Timestamp) -> Backup {
    let destination = snapshot.spec.destination.s3.clone().unwrap_or_default();
    let status = snapshot.status.clone().unwrap_or_default();
    let stored_at = condition::find(status.conditions.as_deref().unwrap_or_default(), reason::READY)
        .map_or_else(|| Time(now), |ready| ready.last_transition_time.clone());
    let mut backup = Backup::new(
        name,
        BackupSpec {
            application_ref: record.application_ref.clone(),
            strategy_ref: record.strategy_ref.clone(),
            plan_ref: job.spec.plan_ref.clone().filter(|plan| !plan.name.is_empty()),
            taken_at: Some(stored_at),
            driver_metadata: Some(payload::driver_metadata(&snapshot.name_any(), &destination)),
            deletion_policy: None,
        },
    );
    backup.metadata.namespace = job.namespace();
    backup.metadata.labels = Some(labels(job));
    backup.metadata.annotations = snapshot.uid().map(|uid| BTreeMap::from([(warden::SNAPSHOT_UID.to_owned(), uid)]));
    let parameters = Some(record.parameters.clone()).filter(|parameters| !parameters.is_empty());
    backup.status = Some(BackupStatus {
        phase: Some(phase::READY.to_owned()),
        artifact: status.artifact,
        conditions: None,
        underlying_resources: serde_json::to_value(Payload::new(destination, parameters)).ok(),
    });
    backup
}
