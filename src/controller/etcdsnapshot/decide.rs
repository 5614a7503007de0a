//! What is to be done about a snapshot. Pure: the whole decision follows from what was observed.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::observe::{Observed, Source};
use crate::api::agent::Report;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdsnapshot::{phase, reason};
use crate::controller::agent_pod::Ended;
use crate::controller::seen::Owned;
use crate::controller::shape;

/// How long a snapshot may wait for what has to come first.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);
/// How long after the end of a Job its Pod's last word is waited for: the two come by different watches.
const LAST_WORD: SignedDuration = SignedDuration::from_secs(30);
/// Pause between two looks at what no watch tells about.
const SLOW: Duration = Duration::from_secs(5);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the Job.
    CreateJob,
    /// Let the ended Job be removed after a while: what it told is in the status now.
    ExpireJob,
}

/// Where a snapshot stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It has not begun.
    Pending {
        /// One word.
        reason: &'static str,
        /// One sentence.
        message: String,
    },
    /// The Job is at work.
    Started {
        /// One word.
        reason: &'static str,
        /// One sentence.
        message: String,
    },
    /// It is stored.
    Complete(Box<Report>),
    /// It was given up.
    Failed {
        /// One word.
        reason: &'static str,
        /// One sentence.
        message: String,
    },
    /// It had ended before.
    Ended,
}

/// The decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do.
    pub step: Option<Step>,
    /// Where the snapshot stands, once that is done.
    pub standing: Standing,
    /// When to look again though nothing changed.
    pub look_again: Option<Duration>,
}

impl Plan {
    fn stand(standing: Standing) -> Self {
        Self { step: None, standing, look_again: None }
    }

    fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        Self::stand(Standing::Failed { reason, message: message.into() })
    }

    fn again(self, after: Duration) -> Self {
        Self { look_again: Some(after), ..self }
    }
}

/// Whether a phase is final.
#[must_use]
pub fn has_ended(phase_now: Option<&str>) -> bool {
    matches!(phase_now, Some(phase::COMPLETE | phase::FAILED))
}

/// Decides. The Job is looked at first: what is stored is stored, whatever became of the cluster meanwhile.
#[must_use]
pub fn decide(seen: &Observed, agent_image: Option<&str>, now: Timestamp) -> Plan {
    let job = match &seen.job {
        Ok(job) => job,
        Err(why) => return waiting(seen, reason::JOB_RUNNING, format!("The Job cannot be read: {why}.")).again(SLOW),
    };
    if has_ended(seen.snapshot.phase()) {
        let keeps = job.ours().is_some_and(|job| finished(job).is_some() && !expires(job));
        return Plan { step: Some(Step::ExpireJob).filter(|_| keeps), ..Plan::stand(Standing::Ended) };
    }
    match job {
        Owned::Ours(job) => of_job(seen, job, now),
        Owned::Foreign => {
            let plan = patient(seen, now, reason::JOB_NAME_TAKEN, || {
                "The name of its Job is taken by a Job of another owner, which has to go first.".to_owned()
            });
            plan.again(SLOW)
        }
        Owned::Absent if seen.snapshot.phase() == Some(phase::STARTED) => Plan::failed(
            reason::SNAPSHOT_JOB_LOST,
            "The Job was deleted before it told how it ended. Something may be stored under the snapshot's name; take another one.",
        ),
        Owned::Absent => begin(seen, agent_image, now),
    }
}

fn waiting(seen: &Observed, reason: &'static str, message: String) -> Plan {
    if seen.snapshot.phase() == Some(phase::STARTED) {
        Plan::stand(Standing::Started { reason, message })
    } else {
        Plan::stand(Standing::Pending { reason, message })
    }
}

/// Waits, but not for ever.
fn patient(seen: &Observed, now: Timestamp, reason: &'static str, message: impl Fn() -> String) -> Plan {
    let created = seen.snapshot.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    if now.duration_since(created) >= PATIENCE {
        return Plan::failed(reason, format!("Given up after {} minutes. {}", PATIENCE.as_mins(), message()));
    }
    waiting(seen, reason, message())
}

fn begin(seen: &Observed, agent_image: Option<&str>, now: Timestamp) -> Plan {
    let cluster_name = &seen.snapshot.spec.cluster_ref.name;
    if agent_image.is_none() {
        return Plan::failed(
            reason::OPERATOR_IMAGE_NOT_CONFIGURED,
            "The operator does not know the image of its agent: start it with --agent-image.",
        );
    }
    if let Some(why) = &seen.refused {
        return Plan::failed(reason::REFUSED, format!("{why}. Correct it in a new EtcdSnapshot."));
    }
    let destination = &seen.snapshot.spec.destination;
    if destination.s3.is_some() == destination.pvc.is_some() {
        return Plan::failed(
            reason::INVALID_DESTINATION,
            "spec.destination names exactly one of s3 and pvc; correct it in a new EtcdSnapshot.",
        );
    }
    let cluster = match &seen.source {
        Source::Found(cluster) => cluster,
        Source::Absent if cluster_name.is_empty() => {
            return Plan::failed(reason::CLUSTER_NOT_FOUND, "spec.clusterRef.name is empty.");
        }
        Source::Absent => {
            let message = format!("EtcdCluster {cluster_name} does not exist in this namespace.");
            return Plan::failed(reason::CLUSTER_NOT_FOUND, message);
        }
        Source::Unknown(why) => {
            let message = || format!("EtcdCluster {cluster_name} cannot be read: {why}.");
            return patient(seen, now, reason::CLUSTER_UNAVAILABLE, message).again(SLOW);
        }
    };
    if waits_for_auth(cluster) {
        let message = || format!("Authentication of EtcdCluster {cluster_name} is not switched on yet.");
        return patient(seen, now, reason::AUTH_LATCH_TIMEOUT, message).again(SLOW);
    }
    if let Some(before) = &seen.before {
        let message = format!("EtcdSnapshot {before} of the same cluster comes first.");
        return waiting(seen, reason::WAITING_FOR_SNAPSHOT, message);
    }
    Plan {
        step: Some(Step::CreateJob),
        standing: Standing::Started { reason: reason::JOB_CREATED, message: "The Job was made.".to_owned() },
        look_again: None,
    }
}

/// The password would be refused, or not asked for, until the cluster has latched its authentication.
fn waits_for_auth(cluster: &EtcdCluster) -> bool {
    shape::wants_auth(cluster) && cluster.status.as_ref().and_then(|status| status.auth_enabled) != Some(true)
}

/// How a Job ended, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Complete(Option<Timestamp>),
    Failed(String),
}

fn finished(job: &Job) -> Option<End> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().filter(|condition| condition.status == "True").find_map(|condition| {
        match condition.type_.as_str() {
            "Complete" => Some(End::Complete(condition.last_transition_time.as_ref().map(|time| time.0))),
            "Failed" => {
                let told = [condition.reason.as_deref(), condition.message.as_deref()];
                Some(End::Failed(told.into_iter().flatten().collect::<Vec<_>>().join(": ")))
            }
            _ => None,
        }
    })
}

fn expires(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.ttl_seconds_after_finished.is_some())
}

fn of_job(seen: &Observed, job: &Job, now: Timestamp) -> Plan {
    // The agent's own good word comes before the Job's: the Job controller may be slow, the bytes are stored.
    let stored = seen.tries.ended.iter().rev().find_map(|ended| ended.report.clone().filter(is_stored));
    if let Some(report) = stored {
        return Plan::stand(Standing::Complete(Box::new(report)));
    }
    match finished(job) {
        Some(End::Complete(at)) if at.is_some_and(|at| now.duration_since(at) < LAST_WORD) => {
            waiting(seen, reason::JOB_RUNNING, "The Job has ended; its last word is waited for.".to_owned())
                .again(Duration::from_secs(1))
        }
        Some(End::Complete(_)) => Plan::failed(
            reason::SNAPSHOT_JOB_LOST,
            "The Job ended well, but its Pod was gone before it told what it stored. Take another snapshot.",
        ),
        Some(End::Failed(why)) => Plan::failed(reason::JOB_FAILED, failure(&seen.tries.ended, &why)),
        None => running(seen, job),
    }
}

fn is_stored(report: &Report) -> bool {
    report.ok && report.artifact.is_some()
}

fn running(seen: &Observed, job: &Job) -> Plan {
    let tries = seen.tries.ended.len();
    let now = seen.tries.trouble.clone().unwrap_or_else(|| "its Pod is being made".to_owned());
    let message = match seen.tries.ended.last().map(told) {
        Some(last) if tries > 0 => {
            let all = job.spec.as_ref().and_then(|spec| spec.backoff_limit).unwrap_or_default() + 1;
            format!(
                "Try {} of {all}: {now}. The last one ended with {last}",
                (tries + 1).min(usize::try_from(all).unwrap_or(1))
            )
        }
        _ => format!("At work: {now}."),
    };
    waiting(seen, reason::JOB_RUNNING, message)
}

/// Why a Job failed, in the agent's own words where there are any.
fn failure(ended: &[Ended], job: &str) -> String {
    ended.last().map_or_else(|| format!("The Job failed before the agent could say why: {job}."), told)
}

fn told(ended: &Ended) -> String {
    match &ended.report {
        Some(report) => format!("{}: {}", report.reason.as_str(), report.message),
        None => format!("exit code {}{}", ended.code, prefixed(&ended.reason)),
    }
}

fn prefixed(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}
