//! What is to be done about a member. Pure: the whole decision follows from what was observed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::build::{self, CONTAINER, InitialState};
use super::observe::{Observed, Parent, has_joined};
use super::restore;
use crate::api::agent::exit;
use crate::api::etcdmember::RestoreFailure;
use crate::api::names::{operator, warden};
use crate::controller::agent_pod::{Ended, ended};
use crate::controller::pods;
use crate::controller::seen::{Asked, Owned};

/// Restarts of etcd after which its data is held to be beyond repair.
const CRASHES: i32 = 5;
/// Pause between two looks at what no watch tells about: Secrets, and an etcd that does not answer.
const SLOW: Duration = Duration::from_secs(5);
/// Pause between two looks at an etcd that is about to answer, or about to vote.
const FAST: Duration = Duration::from_millis(200);
/// How long after its start an etcd is about to answer.
const STARTING: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on, before there is anything to clean up.
    AddFinalizer,
    /// Let the object go.
    RemoveFinalizer,
    /// Hand leadership to another member.
    HandOver {
        /// The member that shall lead.
        to: u64,
    },
    /// Take the member out of etcd.
    LeaveEtcd {
        /// Its id.
        id: u64,
    },
    /// Make the volume claim.
    CreateClaim,
    /// Make the Pod.
    CreatePod,
    /// Delete the Pod.
    DeletePod,
    /// From now on, this Pod's etcd joins or fails; it never forms a cluster again.
    Seal,
    /// Put the voter label on the Pod.
    LabelVoter,
    /// Give this member up: its controller replaces it.
    DeleteMember,
}

/// A step and why it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What.
    pub step: Step,
    /// Why, in one clause.
    pub because: String,
}

/// What the member waits for, as its condition Ready tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// For nothing: it is as it should be.
    Nothing,
    /// To be added to etcd.
    Membership,
    /// To be woken.
    Paused,
    /// For a namesake's object to go.
    NameTaken(String),
    /// For Secrets.
    Secrets(Vec<String>),
    /// For its cluster to be readable.
    Parent(String),
    /// For the operator to be told its own image.
    AgentImage,
    /// For a person: its restore was given up.
    RestoreGivenUp(RestoreFailure),
    /// For its restore.
    Restore(String),
    /// For its Pod.
    Pod(String),
    /// For etcd to say who it is.
    Identity(String),
    /// For a person, or for its replacement: its data is lost.
    DataLost(String),
    /// For etcd to let it go.
    Removal(String),
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to do, in this order.
    pub steps: Vec<Planned>,
    /// What the member waits for.
    pub waiting: Waiting,
    /// When to look again though nothing changed.
    pub look_again: Option<Duration>,
}

impl Plan {
    fn wait(waiting: Waiting) -> Self {
        Self { steps: Vec::new(), waiting, look_again: None }
    }

    fn step(step: Step, because: impl Into<String>, waiting: Waiting) -> Self {
        Self::wait(waiting).with(step, because)
    }

    fn with(mut self, step: Step, because: impl Into<String>) -> Self {
        self.steps.push(Planned { step, because: because.into() });
        self
    }

    fn again(mut self, after: Duration) -> Self {
        self.look_again = Some(after);
        self
    }
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed, agent_image: Option<&str>, now: Timestamp) -> Plan {
    let member = &seen.member;
    if member.metadata.deletion_timestamp.is_some() {
        return leave(seen);
    }
    if !member.finalizers().iter().any(|finalizer| finalizer == operator::MEMBER_CLEANUP) {
        return Plan::step(Step::AddFinalizer, "it has to leave etcd before it goes", Waiting::Membership);
    }
    match &seen.parent {
        Parent::Going => return Plan::wait(Waiting::Parent("its cluster is gone or going".to_owned())),
        Parent::Unknown(why) => return Plan::wait(Waiting::Parent(why.clone())),
        Parent::Alive(_) => {}
    }
    if member.spec.dormant == Some(true) {
        return match &seen.pod {
            Owned::Ours(pod) if !pods::is_going(pod) => {
                Plan::step(Step::DeletePod, "the cluster is paused", Waiting::Paused)
            }
            Owned::Ours(_) | Owned::Absent | Owned::Foreign => Plan::wait(Waiting::Paused),
        };
    }
    match volume(seen) {
        Volume::There => {}
        Volume::ToMake => {
            let waiting = if member.spec.initial_cluster.is_empty() {
                Waiting::Membership
            } else {
                Waiting::Pod("its volume claim is being made".to_owned())
            };
            let plan = Plan::step(Step::CreateClaim, "it has no volume yet", waiting);
            return if member.spec.initial_cluster.is_empty() { plan } else { and_pod(plan, seen, agent_image, now) };
        }
        Volume::Taken => return Plan::wait(taken("volume claim")),
        Volume::Lost(why) => return lost(seen, why),
    }
    if member.spec.initial_cluster.is_empty() {
        return Plan::wait(Waiting::Membership);
    }
    pod(seen, agent_image, now)
}

/// A claim that is being made keeps nobody from making the Pod: the kubelet waits for it.
fn and_pod(mut plan: Plan, seen: &Observed, agent_image: Option<&str>, now: Timestamp) -> Plan {
    let pod = pod(seen, agent_image, now);
    plan.steps.extend(pod.steps);
    Plan { steps: plan.steps, waiting: pod.waiting, look_again: pod.look_again }
}

fn taken(what: &str) -> Waiting {
    Waiting::NameTaken(format!("the name of its {what} is taken by an object of another owner, which has to go first"))
}

/// The way out: hand over, leave etcd, go. A member that etcd does not list any more has left.
fn leave(seen: &Observed) -> Plan {
    if !seen.member.finalizers().iter().any(|finalizer| finalizer == operator::MEMBER_CLEANUP) {
        return Plan::wait(Waiting::Removal("another finalizer holds it".to_owned()));
    }
    let gone = |because: &str| Plan::step(Step::RemoveFinalizer, because, Waiting::Nothing);
    match &seen.parent {
        Parent::Going => return gone("its cluster goes with it"),
        Parent::Unknown(why) => return Plan::wait(Waiting::Removal(why.clone())).again(SLOW),
        Parent::Alive(_) => {}
    }
    match &seen.roster {
        Asked::No => gone("it is the last member"),
        Asked::Failed(why) => Plan::wait(Waiting::Removal(why.clone())).again(SLOW),
        Asked::Answered(roster) => match (roster.listed, roster.heir) {
            (None, _) => gone("etcd does not list it"),
            (Some(id), Some(heir)) if roster.leads => {
                Plan::step(Step::HandOver { to: heir }, "it leads", Waiting::Nothing)
                    .with(Step::LeaveEtcd { id }, "it is being deleted")
                    .with(Step::RemoveFinalizer, "it has left etcd")
            }
            (Some(id), Some(_) | None) => Plan::step(Step::LeaveEtcd { id }, "it is being deleted", Waiting::Nothing)
                .with(Step::RemoveFinalizer, "it has left etcd"),
        },
    }
}

enum Volume {
    There,
    ToMake,
    Taken,
    Lost(&'static str),
}

fn volume(seen: &Observed) -> Volume {
    let member = &seen.member;
    if member.spec.storage.in_memory() {
        let had = member.status.as_ref().and_then(|status| status.pod_uid.as_deref()).filter(|uid| !uid.is_empty());
        let has = seen.pod.ours().and_then(|pod| pod.metadata.uid.as_deref());
        return match had {
            Some(had) if has != Some(had) => Volume::Lost("its data was in the memory of a Pod that is gone"),
            Some(_) | None => Volume::There,
        };
    }
    match &seen.claim {
        Owned::Ours(_) => Volume::There,
        Owned::Foreign => Volume::Taken,
        Owned::Absent if has_joined(member, seen.parent.alive()) => Volume::Lost("its volume claim is gone"),
        Owned::Absent => Volume::ToMake,
    }
}

/// Lost data is never replaced by an empty volume under the same member: etcd has counted on what it wrote. The member
/// is given up where the others can spare it.
fn lost(seen: &Observed, why: &str) -> Plan {
    if seen.member.spec.storage.in_memory() && seen.siblings.is_empty() {
        return Plan::wait(Waiting::DataLost(why.to_owned()));
    }
    if can_be_spared(seen) {
        Plan::step(Step::DeleteMember, why, Waiting::DataLost(why.to_owned()))
    } else {
        Plan::wait(Waiting::DataLost(why.to_owned())).again(SLOW)
    }
}

/// Whether etcd crashes, is held back by the kubelet right now, and has been started again many times in its Pod's life:
/// neither says much alone. Out of memory is not a matter of its data.
#[must_use]
pub fn looks_beyond_repair(seen: &Observed) -> bool {
    let lost = matches!(volume(seen), Volume::Lost(_));
    let Some(pod) = seen.pod.ours().filter(|pod| !pods::is_going(pod)) else { return lost };
    let Some(status) = pods::container(pod, CONTAINER) else { return lost };
    let out_of_memory = ended(status).is_some_and(|ended| ended.reason == "OOMKilled");
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let held_back = waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"));
    lost || (held_back && status.restart_count >= CRASHES && !out_of_memory)
}

/// Whether the other voters are a quorum without this member, as they themselves told just now.
fn can_be_spared(seen: &Observed) -> bool {
    let votes = |member: &crate::api::etcdmember::EtcdMember| {
        member.status.as_ref().and_then(|status| status.is_voter) == Some(true)
    };
    let all = seen.siblings.iter().filter(|sibling| votes(sibling)).count() + usize::from(votes(&seen.member));
    match seen.others_healthy {
        Asked::Answered(healthy) => healthy > all / 2,
        Asked::No | Asked::Failed(_) => false,
    }
}

fn pod(seen: &Observed, agent_image: Option<&str>, now: Timestamp) -> Plan {
    match &seen.pod {
        Owned::Foreign => Plan::wait(taken("Pod")),
        Owned::Absent => new_pod(seen, agent_image),
        Owned::Ours(pod) if pods::is_going(pod) => Plan::wait(Waiting::Pod(pods::trouble(pod))),
        Owned::Ours(pod) if pods::has_ended(pod) => {
            Plan::step(Step::DeletePod, pods::trouble(pod), Waiting::Pod(pods::trouble(pod)))
        }
        Owned::Ours(pod) => live_pod(seen, pod, now),
    }
}

fn new_pod(seen: &Observed, agent_image: Option<&str>) -> Plan {
    if !seen.missing.is_empty() {
        return Plan::wait(Waiting::Secrets(seen.missing.clone())).again(SLOW);
    }
    let starting = Waiting::Pod("it is being made".to_owned());
    if build::wants_restore(&seen.member, seen.parent.alive()) {
        if agent_image.is_none() {
            return Plan::wait(Waiting::AgentImage);
        }
        let given_up = seen.member.status.as_ref().and_then(|status| status.restore_failure.clone());
        return match given_up {
            Some(failure) if failure.inputs == seen.restore_inputs => {
                Plan::wait(Waiting::RestoreGivenUp(failure)).again(SLOW)
            }
            Some(_) => Plan::step(Step::CreatePod, "what the failed restore used has changed", starting),
            None => Plan::step(Step::CreatePod, "its data is to be restored", starting),
        };
    }
    Plan::step(Step::CreatePod, "it has no Pod", starting)
}

/// The failure for which a Pod's restore is to be given up: its agent said that another try would end alike.
#[must_use]
pub fn hopeless_restore(seen: &Observed, pod: &Pod) -> Option<RestoreFailure> {
    if !build::wants_restore(&seen.member, seen.parent.alive()) {
        return None;
    }
    let Ended { code, report, .. } = pods::container(pod, restore::RESTORE).and_then(ended)?;
    let final_code = code == i32::from(exit::TERMINAL) || code == i32::from(exit::CONFIGURATION);
    let report = report.filter(|report| !report.ok && !report.retryable && final_code)?;
    Some(RestoreFailure {
        reason: report.reason.as_str().to_owned(),
        message: report.message,
        inputs: seen.restore_inputs.clone(),
    })
}

fn live_pod(seen: &Observed, pod: &Pod, now: Timestamp) -> Plan {
    if let Some(failure) = hopeless_restore(seen, pod) {
        // The reason has to be in the status before the Pod that told it goes.
        let kept = seen.member.status.as_ref().and_then(|status| status.restore_failure.as_ref()) == Some(&failure);
        let plan = Plan::wait(Waiting::RestoreGivenUp(failure));
        return if kept { plan.with(Step::DeletePod, "its restore cannot succeed as things are") } else { plan };
    }
    if looks_beyond_repair(seen) && can_be_spared(seen) {
        let why = format!("etcd ended {CRASHES} times and more; the other members can spare it");
        return Plan::step(Step::DeleteMember, why, Waiting::Pod(pods::trouble(pod)));
    }
    let mut plan = Plan::wait(waiting(seen, pod));
    plan.look_again = next_look(seen, pod, now);
    let answered = matches!(seen.myself, Asked::Answered(_));
    if is_unsealed(pod) && (answered || is_known(seen, pod)) {
        plan = plan.with(Step::Seal, "its cluster has formed");
    }
    let Asked::Answered(myself) = &seen.myself else { return plan };
    let labelled = pod.labels().get(operator::ROLE).is_some_and(|role| role == operator::ROLE_VOTER);
    if !myself.is_learner && !labelled {
        plan = plan.with(Step::LabelVoter, "it votes");
    }
    plan
}

/// Whether the Pod's etcd would still form a cluster if it started on an empty volume, as far as the kubelet was told.
fn is_unsealed(pod: &Pod) -> bool {
    build::initial_state_of(pod) == Some(InitialState::New) || pods::waits_for_gate(pod, warden::SEALED)
}

/// Whether the etcd of this very Pod has told who it is.
fn is_known(seen: &Observed, pod: &Pod) -> bool {
    let status = seen.member.status.as_ref();
    status.is_some_and(|status| status.member_id.is_some() && status.pod_uid == pod.metadata.uid)
}

fn waiting(seen: &Observed, pod: &Pod) -> Waiting {
    if pods::is_running(pod, restore::RESTORE) {
        return Waiting::Restore("its data is being restored".to_owned());
    }
    let failed =
        pods::container(pod, restore::RESTORE).and_then(ended).filter(|ended| ended.code != i32::from(exit::DONE));
    if let Some(failed) = failed.filter(|_| !pods::is_running(pod, CONTAINER)) {
        let said = failed.report.map(|report| format!("{}: {}", report.reason.as_str(), report.message));
        return Waiting::Restore(said.unwrap_or_else(|| format!("the restore ended with exit code {}", failed.code)));
    }
    if !pods::is_ready(pod) {
        return Waiting::Pod(match &seen.myself {
            Asked::Answered(myself) if !myself.errors.is_empty() => {
                format!("etcd reports {}", myself.errors.join("; "))
            }
            Asked::Failed(why) if pods::is_silent(pod) => format!("{}: {why}", pods::SILENT),
            Asked::Answered(_) | Asked::No | Asked::Failed(_) => pods::trouble(pod),
        });
    }
    match &seen.myself {
        Asked::Answered(_) => Waiting::Nothing,
        Asked::No | Asked::Failed(_) if is_known(seen, pod) => Waiting::Nothing,
        Asked::No => Waiting::Identity("its Pod has no address yet".to_owned()),
        Asked::Failed(why) => Waiting::Identity(why.clone()),
    }
}

/// The kubelet tells when a container runs and when it is Ready; only etcd tells when it answers and when it votes.
fn next_look(seen: &Observed, pod: &Pod, now: Timestamp) -> Option<Duration> {
    let since = pods::running_since(pod, CONTAINER)?;
    let pause = if now.duration_since(since) < STARTING { FAST } else { SLOW };
    match &seen.myself {
        Asked::No => looks_beyond_repair(seen).then_some(SLOW),
        Asked::Failed(_) => Some(pause),
        Asked::Answered(myself) => (myself.is_learner || !pods::is_ready(pod)).then_some(pause),
    }
}
