//! A snapshot's status, computed once at the end of each look, also of one that failed. Pure.

use k8s_openapi::jiff::Timestamp;

use super::decide::{Plan, Standing};
use super::observe::Observed;
use crate::api::agent::{self, Consistency, Report};
use crate::api::common::Artifact;
use crate::api::condition::{self, Finding};
use crate::api::etcdsnapshot::{EtcdSnapshotStatus, condition_type, phase, reason};

/// The new status. `failure` is what went wrong while the plan was carried out: the snapshot then stands where it stood.
#[must_use]
pub fn compute(seen: &Observed, plan: &Plan, failure: Option<&str>, now: Timestamp) -> EtcdSnapshotStatus {
    let mut status = seen.snapshot.status.clone().unwrap_or_default();
    let (phase_now, finding) = match (&plan.standing, failure) {
        (Standing::Ended, _) => return status,
        (_, Some(failure)) => {
            let stood = status.phase.clone().unwrap_or_else(|| phase::PENDING.to_owned());
            status.phase = Some(stood);
            let message = format!("Last try failed: {failure}.");
            set(&mut status, seen, &ready(false, reason::JOB_NOT_CREATED, message), now);
            return status;
        }
        (Standing::Pending { reason, message }, None) => (phase::PENDING, ready(false, reason, message.clone())),
        (Standing::Started { reason, message }, None) => (phase::STARTED, ready(false, reason, message.clone())),
        (Standing::Failed { reason, message }, None) => (phase::FAILED, ready(false, reason, message.clone())),
        (Standing::Complete(report), None) => {
            status.artifact = report.artifact.as_ref().map(artifact);
            (phase::COMPLETE, ready(true, reason::SNAPSHOT_STORED, stored(report)))
        }
    };
    status.phase = Some(phase_now.to_owned());
    set(&mut status, seen, &finding, now);
    status
}

fn ready(status: bool, reason: &str, message: String) -> Finding {
    Finding { type_: condition_type::READY, status, reason: reason.to_owned(), message }
}

fn set(status: &mut EtcdSnapshotStatus, seen: &Observed, finding: &Finding, now: Timestamp) {
    let mut conditions = status.conditions.take().unwrap_or_default();
    condition::set(&mut conditions, finding, seen.snapshot.metadata.generation, now);
    status.conditions = Some(conditions);
}

fn stored(report: &Report) -> String {
    let Some(artifact) = &report.artifact else { return "Stored.".to_owned() };
    let revision = artifact.revision.map_or_else(String::new, |revision| format!(" of revision {revision}"));
    let doubt = match artifact.consistency {
        Some(Consistency::Serializable) => " No quorum confirmed it: the member may have lagged behind.",
        Some(Consistency::Linearizable) | None => "",
    };
    format!("Stored {} bytes{revision} in {:.1} s and verified.{doubt}", artifact.size_bytes, report.duration_seconds)
}

fn artifact(told: &agent::Artifact) -> Artifact {
    Artifact {
        uri: told.uri.clone(),
        size_bytes: i64::try_from(told.size_bytes).ok(),
        checksum: Some(format!("sha256:{}", told.sha256)),
        revision: told.revision,
        etcd_version: told.etcd_version.clone(),
        cluster_id: told.cluster_id.clone(),
        consistency: told.consistency.map(|consistency| {
            match consistency {
                Consistency::Linearizable => "linearizable",
                Consistency::Serializable => "serializable",
            }
            .to_owned()
        }),
    }
}
