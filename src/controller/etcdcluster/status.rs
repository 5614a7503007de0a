//! A cluster's status, computed once at the end of each look, also of one that failed. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::build;
use super::decide::{Plan, Situation, Step, cluster_id, is_complete, running};
use super::observe::{Observed, Seen};
use crate::api::condition::{self, Finding};
use crate::api::etcdcluster::{DEFAULT_PROGRESS_DEADLINE_SECONDS, EtcdClusterStatus, condition_type, reason};
use crate::controller::seen::Asked;
use crate::controller::shape;
use crate::controller::tell::sentence;

/// What went wrong while a plan was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One clause.
    pub text: String,
    /// Whether etcd did not take our password.
    pub rejected: bool,
}

/// The new status. `failure` is what went wrong while the plan was carried out.
#[must_use]
pub fn compute(seen: &Observed, plan: &Plan, failure: Option<&Failure>, now: Timestamp) -> EtcdClusterStatus {
    let cluster = &seen.cluster;
    let old = cluster.status.clone().unwrap_or_default();
    let mut status = old.clone();
    status.cluster_token.get_or_insert_with(|| shape::cluster_token(cluster));
    status.selector = Some(shape::cluster_selector(&cluster.name_any()));
    if plan.adopt.is_some() {
        status.observed = Some(build::target(cluster));
    }
    if failure.is_none() && plan.steps.iter().any(|planned| planned.step == Step::EnableAuth) {
        status.auth_enabled = Some(true);
    }
    if let Situation::Formed(id) = &plan.situation {
        status.cluster_id = Some(shape::hex_id(*id));
        // Restored users: everybody logs in from now on.
        if matches!(&seen.etcd, Asked::Answered(etcd) if etcd.auth_is_on) {
            status.auth_enabled = Some(true);
        }
        let founder = super::decide::founder(seen).and_then(|founder| founder.member.status.as_ref());
        status.restored = founder.and_then(|founder| founder.restored.clone());
    }
    let count = Count::of(seen);
    status.ready_members = Some(count.ready);
    status.broken_members = Some(broken(seen)).filter(|broken| *broken > 0);
    status.progress_deadline = deadline(seen, plan, &old, &status, now);
    let late = status.progress_deadline.as_ref().is_some_and(|deadline| deadline.0 <= now);
    let view = View { seen, plan, count, failure, late, ever_available: was_available(&old) };
    let mut conditions = old.conditions.unwrap_or_default();
    for finding in [view.available(), view.progressing(), view.degraded()] {
        condition::set(&mut conditions, &finding, cluster.metadata.generation, now);
    }
    status.conditions = Some(conditions);
    status
}

/// Members by what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    wanted: i32,
    ready: i32,
    voters: usize,
    ready_voters: usize,
}

impl Count {
    fn of(seen: &Observed) -> Self {
        let wanted = super::decide::target(seen).map_or(0, |target| target.replicas);
        let ready = seen.members.iter().filter(|member| member.is_ready()).count();
        let voters: Vec<&Seen> = seen.members.iter().filter(|member| member.is_voter()).collect();
        Self {
            wanted,
            ready: i32::try_from(ready).unwrap_or(i32::MAX),
            voters: voters.len(),
            ready_voters: voters.iter().filter(|member| member.is_ready()).count(),
        }
    }

    fn has_quorum(self) -> bool {
        self.ready_voters > self.voters / 2
    }
}

/// Memory-backed members whose Pod is gone, and others whose volume is.
fn broken(seen: &Observed) -> i32 {
    let lost = |member: &&Seen| {
        let status = member.member.status.clone().unwrap_or_default();
        let memory = member.member.spec.storage.in_memory() && status.pod_uid.is_some() && status.pod_name.is_none();
        memory || member.trouble().is_some_and(|(reason, _)| reason == crate::api::etcdmember::reason::DATA_LOST)
    };
    i32::try_from(seen.members.iter().filter(lost).count()).unwrap_or(i32::MAX)
}

fn was_available(old: &EtcdClusterStatus) -> bool {
    condition::is_true(old.conditions.as_deref().unwrap_or_default(), condition_type::AVAILABLE)
        || old.conditions.iter().flatten().any(|condition| {
            condition.type_ == condition_type::AVAILABLE
                && [reason::QUORUM_LOST, reason::PAUSED, reason::TOTAL_LOSS].contains(&condition.reason.as_str())
        })
}

/// The deadline begins anew with each target and with each sign of progress, and ends when the target is reached.
fn deadline(
    seen: &Observed,
    plan: &Plan,
    old: &EtcdClusterStatus,
    new: &EtcdClusterStatus,
    now: Timestamp,
) -> Option<Time> {
    let rests = matches!(plan.situation, Situation::Paused | Situation::Refused(_));
    if plan.adopt.is_none() && (rests || is_complete(seen)) {
        return None;
    }
    let seconds = seen.cluster.spec.progress_deadline_seconds.unwrap_or(DEFAULT_PROGRESS_DEADLINE_SECONDS);
    let budget = SignedDuration::from_secs(seconds.into());
    let fresh = || now.checked_add(budget).ok().map(Time);
    let progressed = new.ready_members > old.ready_members || new.cluster_id != old.cluster_id;
    if plan.adopt.is_some() || (progressed && old.progress_deadline.is_some()) {
        return fresh();
    }
    // A restore takes as long as its data takes. Half of the time is given back each time half of it has passed, so
    // that the status is not written for every look.
    let restoring = super::decide::founder(seen).is_some_and(|founder| {
        founder.pod.as_ref().is_some_and(|pod| {
            crate::controller::pods::is_running(pod, crate::controller::etcdmember::restore::RESTORE)
        })
    });
    let half = SignedDuration::from_secs(i64::from(seconds) / 2);
    match &old.progress_deadline {
        Some(deadline) if restoring && deadline.0.duration_since(now) < half => fresh(),
        unchanged => unchanged.clone(),
    }
}

struct View<'a> {
    seen: &'a Observed,
    plan: &'a Plan,
    count: Count,
    failure: Option<&'a Failure>,
    late: bool,
    ever_available: bool,
}

impl View<'_> {
    fn finding(type_: &'static str, status: bool, reason: &str, message: String) -> Finding {
        Finding { type_, status, reason: reason.to_owned(), message }
    }

    fn is_rejected(&self) -> bool {
        self.seen.rejected || self.failure.is_some_and(|failure| failure.rejected)
    }

    fn counted(&self) -> String {
        format!("{} of {} members are Ready.", self.count.ready, self.count.wanted)
    }

    /// What the first member that is not Ready says of itself.
    fn first_trouble(&self) -> String {
        let first = running(self.seen).into_iter().find_map(|member| Some((member.name(), member.trouble()?.1)));
        first.map_or_else(String::new, |(name, message)| format!(" {name}: {message}"))
    }

    /// True from the first quorum on, for as long as there is one; nothing in between says otherwise.
    fn available(&self) -> Finding {
        let no = |reason: &str, message: String| Self::finding(condition_type::AVAILABLE, false, reason, message);
        let formed = cluster_id(self.seen).is_some();
        match &self.plan.situation {
            Situation::Paused => return no(reason::PAUSED, self.paused()),
            Situation::Lost => return no(reason::TOTAL_LOSS, LOST.to_owned()),
            Situation::RestoreFailed(why) => return no(reason::RESTORE_FAILED, given_up(why)),
            Situation::Blocked(why) if !formed => return no(reason::NAME_TAKEN, sentence(why)),
            Situation::Refused(why) if !formed => return no(reason::REFUSED, sentence(why)),
            Situation::NoCertManager => return no(reason::CERT_MANAGER_NOT_INSTALLED, NO_CERT_MANAGER.to_owned()),
            Situation::AuthIsOn => return no(reason::AUTH_REQUIRED_NOT_CONFIGURED, AUTH_IS_ON.to_owned()),
            Situation::Adopting
            | Situation::Forming(_)
            | Situation::Formed(_)
            | Situation::Blocked(_)
            | Situation::Refused(_)
            | Situation::Unreachable(_)
            | Situation::Changing(_)
            | Situation::Settled => {}
        }
        if !formed || (!self.ever_available && !self.count.has_quorum()) {
            let reason = if self.late { reason::BOOTSTRAP_FAILED } else { reason::WAITING_FOR_SEED };
            return no(reason, self.forming());
        }
        if !self.count.has_quorum() {
            let Count { voters, ready_voters, .. } = self.count;
            let message = format!("{ready_voters} of {voters} voting members are Ready, too few for a quorum.");
            return no(reason::QUORUM_LOST, format!("{message}{}", self.first_trouble()));
        }
        let all = self.count.ready == self.count.wanted;
        let reason = if all { reason::QUORUM_HEALTHY } else { reason::QUORUM_AVAILABLE };
        Self::finding(condition_type::AVAILABLE, true, reason, self.counted())
    }

    fn forming(&self) -> String {
        match &self.plan.situation {
            Situation::Forming(why) => sentence(why),
            Situation::Formed(_) => "The seed has formed the cluster.".to_owned(),
            Situation::Adopting
            | Situation::Paused
            | Situation::RestoreFailed(_)
            | Situation::Blocked(_)
            | Situation::Refused(_)
            | Situation::NoCertManager
            | Situation::AuthIsOn
            | Situation::Lost
            | Situation::Unreachable(_)
            | Situation::Changing(_)
            | Situation::Settled => format!("The cluster has not served yet.{}", self.first_trouble()),
        }
    }

    fn paused(&self) -> String {
        if self.seen.members.iter().any(Seen::is_dormant) {
            "No replicas are wanted: no Pod runs, and the last member's volume is kept.".to_owned()
        } else {
            "No replicas are wanted, and the cluster was never started.".to_owned()
        }
    }

    fn progressing(&self) -> Finding {
        let type_ = condition_type::PROGRESSING;
        let failed = self.failure.map(|failure| format!(" Last try failed: {}.", failure.text)).unwrap_or_default();
        let yes = |reason: &str, message: &str| Self::finding(type_, true, reason, format!("{message}{failed}"));
        let no = |reason: &str, message: String| Self::finding(type_, false, reason, format!("{message}{failed}"));
        if let Some(adopted) = self.plan.adopt {
            return yes(adopted, "The spec is the target now.");
        }
        if let Situation::Refused(why) = &self.plan.situation {
            return no(reason::REFUSED, sentence(why));
        }
        if self.is_rejected() {
            return no(reason::AUTH_CREDENTIALS_REJECTED, REJECTED.to_owned());
        }
        if is_complete(self.seen) && self.plan.situation != Situation::Paused {
            return no(reason::RECONCILED, self.counted());
        }
        let formed = cluster_id(self.seen).is_some();
        if self.late {
            let reason = if formed { reason::DEADLINE_EXCEEDED } else { reason::BOOTSTRAP_FAILED };
            let message = format!("The target was not reached in time; it is still worked on. {}", self.counted());
            return no(reason, format!("{message}{}", self.first_trouble()));
        }
        match &self.plan.situation {
            Situation::Paused => no(reason::PAUSED, self.paused()),
            Situation::Lost => no(reason::TOTAL_LOSS, LOST.to_owned()),
            Situation::RestoreFailed(why) => no(reason::RESTORE_FAILED, given_up(why)),
            Situation::Blocked(why) => yes(reason::NAME_TAKEN, &sentence(why)),
            Situation::Refused(why) => no(reason::REFUSED, sentence(why)),
            Situation::NoCertManager => no(reason::CERT_MANAGER_NOT_INSTALLED, NO_CERT_MANAGER.to_owned()),
            Situation::AuthIsOn => no(reason::AUTH_REQUIRED_NOT_CONFIGURED, AUTH_IS_ON.to_owned()),
            Situation::Forming(why) => yes(reason::WAITING_FOR_SEED, &sentence(why)),
            Situation::Formed(_) => yes(reason::MEMBERS_CHANGING, "The seed has formed the cluster."),
            Situation::Unreachable(why) => {
                yes(reason::CLUSTER_UNREACHABLE, &format!("etcd cannot be asked for a change: {why}."))
            }
            Situation::Changing(why) => yes(reason::MEMBERS_CHANGING, &sentence(why)),
            Situation::Adopting | Situation::Settled => {
                yes(reason::MEMBERS_CHANGING, &format!("{}{}", self.counted(), self.first_trouble()))
            }
        }
    }

    fn degraded(&self) -> Finding {
        let type_ = condition_type::DEGRADED;
        let yes = |reason: &str, message: String| Self::finding(type_, true, reason, message);
        let no = |reason: &str, message: String| Self::finding(type_, false, reason, message);
        if self.is_rejected() {
            return yes(reason::AUTH_CREDENTIALS_REJECTED, REJECTED.to_owned());
        }
        match &self.plan.situation {
            Situation::Paused => return no(reason::PAUSED, self.paused()),
            Situation::NoCertManager => {
                return yes(reason::CERT_MANAGER_NOT_INSTALLED, NO_CERT_MANAGER.to_owned());
            }
            Situation::AuthIsOn => return yes(reason::AUTH_REQUIRED_NOT_CONFIGURED, AUTH_IS_ON.to_owned()),
            Situation::Lost => return yes(reason::TOTAL_LOSS, LOST.to_owned()),
            Situation::RestoreFailed(why) => return yes(reason::RESTORE_FAILED, given_up(why)),
            Situation::Unreachable(why) => {
                return yes(reason::CLUSTER_UNREACHABLE, format!("etcd cannot be asked for a change: {why}."));
            }
            Situation::Adopting
            | Situation::Forming(_)
            | Situation::Formed(_)
            | Situation::Blocked(_)
            | Situation::Refused(_)
            | Situation::Changing(_)
            | Situation::Settled => {}
        }
        if self.ever_available && !self.count.has_quorum() {
            let Count { voters, ready_voters, .. } = self.count;
            return yes(reason::QUORUM_LOST, format!("{ready_voters} of {voters} voting members are Ready."));
        }
        // While members are on their way up within the deadline, not being Ready is no fault of theirs.
        let on_the_way = self.seen.cluster.status.as_ref().is_some_and(|status| status.progress_deadline.is_some());
        let unhealthy = running(self.seen).iter().any(|member| !member.is_ready());
        if unhealthy && (self.late || !on_the_way) && self.plan.adopt.is_none() {
            return yes(reason::MEMBERS_UNHEALTHY, format!("{}{}", self.counted(), self.first_trouble()));
        }
        no(reason::QUORUM_HEALTHY, self.counted())
    }
}

const LOST: &str = "The cluster had formed, and all its members are gone, with their data. It is not started anew by \
                    itself: delete it and create it from a snapshot, by spec.bootstrap.restore or by a RestoreJob.";

const NO_CERT_MANAGER: &str = "spec.tls asks for certificates from cert-manager, and the API server does not know its \
                               kind Certificate: install cert-manager, or name Secrets instead. Looked at again every \
                               few seconds.";

const AUTH_IS_ON: &str = "The data that the cluster was restored from asks for a password, and spec.auth is not enabled: \
                          enable it, with the Secret that holds root's password of that time.";

const REJECTED: &str = "etcd did not take root's password, as spec.auth.rootCredentialsSecretRef has it: put the right \
                        one into that Secret.";

fn given_up(why: &str) -> String {
    format!("The restore was given up: {why} It is tried again when a Secret that it uses changes.")
}
