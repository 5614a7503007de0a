//! What is to be done about a cluster. Pure: the whole decision follows from what was observed. One change of etcd's
//! membership at a time, and each only from a state that a crash may have left behind.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::certificates::{self, Role};
use super::observe::{Observed, Seen};
use super::{build, form, scale};
use crate::api::etcdcluster::Observed as Target;
use crate::controller::seen::Owned;
use crate::controller::shape;

/// Pause between two looks at an etcd that is about to do something.
pub const FAST: Duration = Duration::from_millis(200);
/// Pause between two looks at an etcd that refuses or does not answer.
pub const SLOW: Duration = Duration::from_secs(2);

/// The two Services of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRole {
    /// Gives members their DNS names, Ready or not.
    Headless,
    /// Where clients connect.
    Client,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a Service as it shall be.
    ApplyService(ServiceRole),
    /// Ask cert-manager for a certificate.
    ApplyCertificate(Role),
    /// Make the disruption budget as it shall be.
    ApplyBudget {
        /// Members that must stay up.
        min_available: i32,
    },
    /// Delete the disruption budget.
    DeleteBudget,
    /// Make the member that forms the cluster.
    CreateSeed {
        /// Its name.
        name: String,
    },
    /// Delete a seed whose etcd has never answered, for another one to be made as the spec has it now.
    RemakeSeed {
        /// Its name.
        name: String,
    },
    /// Tell a seed of another make whom it forms the cluster with: itself.
    AdmitSeed {
        /// Its name.
        name: String,
    },
    /// Make a further member, not yet one of etcd's.
    CreateMember {
        /// Its name.
        name: String,
    },
    /// Add a member to etcd, as one that does not vote yet.
    AddLearner {
        /// Its name.
        name: String,
        /// Where it will listen.
        peer_url: String,
    },
    /// Let a member that etcd lists start.
    Admit {
        /// Its name.
        name: String,
        /// The members it starts with.
        initial_cluster: String,
    },
    /// Make a learner a voter.
    Promote {
        /// Its name.
        name: String,
        /// Its id.
        id: u64,
    },
    /// Delete a member; it leaves etcd by itself.
    RemoveMember {
        /// Its name.
        name: String,
    },
    /// Stop the last member's Pod and keep its volume.
    Pause {
        /// Its name.
        name: String,
    },
    /// Start a stopped member.
    Wake {
        /// Its name.
        name: String,
    },
    /// Make user and role root, and have etcd ask for a password from now on.
    EnableAuth,
}

/// A step and why it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What.
    pub step: Step,
    /// Why, in one clause.
    pub because: String,
}

/// Where the cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// Nobody has decided yet: the target was only just adopted.
    Adopting,
    /// No replicas are wanted, and none run.
    Paused,
    /// The seed is on its way.
    Forming(String),
    /// The seed answers: from now on this is its id.
    Formed(u64),
    /// The seed's restore was given up.
    RestoreFailed(String),
    /// A name is taken by an object of another owner.
    Blocked(String),
    /// The rules refuse the cluster, or what its spec was changed to; what there was before is kept up.
    Refused(String),
    /// Certificates are wanted from a cert-manager that is not installed.
    NoCertManager,
    /// The seed's data asks for a password, and the spec names none.
    AuthIsOn,
    /// Every member and with them all data is gone.
    Lost,
    /// Something is to change, and etcd does not answer.
    Unreachable(String),
    /// Work is under way.
    Changing(String),
    /// Everything is as it should be, or only waits for members to be Ready.
    Settled,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to do, in this order.
    pub steps: Vec<Planned>,
    /// Whether the spec becomes the target, and why; the word is a reason of condition Progressing.
    pub adopt: Option<&'static str>,
    /// Where the cluster stands.
    pub situation: Situation,
    /// When to look again though nothing changed.
    pub look_again: Option<Duration>,
}

impl Plan {
    pub(super) fn wait(situation: Situation) -> Self {
        Self { steps: Vec::new(), adopt: None, situation, look_again: None }
    }

    pub(super) fn step(step: Step, because: impl Into<String>) -> Self {
        let because = because.into();
        let mut plan = Self::wait(Situation::Changing(because.clone()));
        plan.steps.push(Planned { step, because });
        plan
    }

    pub(super) fn again(mut self, after: Duration) -> Self {
        self.look_again = Some(after);
        self
    }
}

/// The target that is being worked on.
#[must_use]
pub fn target(seen: &Observed) -> Option<&Target> {
    seen.cluster.status.as_ref()?.observed.as_ref()
}

/// Whether the cluster formed.
#[must_use]
pub fn cluster_id(seen: &Observed) -> Option<&str> {
    seen.cluster.status.as_ref()?.cluster_id.as_deref().filter(|id| !id.is_empty())
}

/// Members that run, or shall.
pub(super) fn running(seen: &Observed) -> Vec<&Seen> {
    seen.members.iter().filter(|member| !member.is_going() && !member.is_dormant()).collect()
}

/// Whether the members are those that are wanted, each a Ready voter.
#[must_use]
pub fn is_complete(seen: &Observed) -> bool {
    let Some(target) = target(seen) else { return false };
    let running = running(seen);
    let all_there = i32::try_from(running.len()) == Ok(target.replicas);
    let settled = running.iter().all(|member| member.is_ready() && member.is_voter());
    let nobody_goes = !seen.members.iter().any(Seen::is_going);
    all_there && settled && nobody_goes && (target.replicas == 0 || cluster_id(seen).is_some())
}

/// Whether etcd has to be asked: only to find out whether the seed formed, and when membership has to change.
#[must_use]
pub fn wants_etcd(seen: &Observed) -> bool {
    if target(seen).is_none_or(|target| target.replicas == 0 && running(seen).len() <= 1) {
        return false;
    }
    if cluster_id(seen).is_none() {
        return founder(seen).is_some_and(|founder| founder.id().is_some());
    }
    !is_complete(seen) && !seen.members.iter().any(Seen::is_going) && can_grow(&running(seen)).is_ok()
}

/// Whether a member may be added: all are Ready, but for one that is alone and answers, for whom nobody else counts.
pub(super) fn can_grow(present: &[&Seen]) -> Result<(), String> {
    if let [one] = present
        && one.has_answered()
    {
        return Ok(());
    }
    let members: Vec<&&Seen> = present.iter().filter(|member| !member.is_pending()).collect();
    match members.iter().find(|member| !member.is_ready()) {
        Some(starting) => {
            let why = starting.trouble().map_or_else(|| "it is not Ready".to_owned(), |(_, message)| message);
            Err(format!("member {}: {why}", starting.name()))
        }
        None => Ok(()),
    }
}

pub(super) fn founder(seen: &Observed) -> Option<&Seen> {
    seen.members.iter().find(|member| member.is_seed() && !member.is_going() && !member.is_dormant())
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed, _now: Timestamp) -> Plan {
    if seen.cluster.metadata.deletion_timestamp.is_some() {
        return Plan::wait(Situation::Settled);
    }
    let wanted = build::target(&seen.cluster);
    match (target(seen), &seen.refused) {
        (None, Some(why)) => return Plan::wait(Situation::Refused(why.clone())),
        (None, None) => return Plan { adopt: Some("InitialSnapshot"), ..Plan::wait(Situation::Adopting) },
        (Some(target), None) if !build::same_target(target, &wanted) => {
            return Plan { adopt: Some("SpecChanged"), ..Plan::wait(Situation::Adopting) };
        }
        (Some(_), _) => {}
    }
    let mut steps = match services(seen) {
        Ok(steps) => steps,
        Err(blocked) => return Plan::wait(Situation::Blocked(blocked)),
    };
    match certificates::steps(seen) {
        Ok(more) => steps.extend(more),
        Err(situation) if cluster_id(seen).is_none() => {
            return Plan { steps, ..Plan::wait(situation).again(SLOW) };
        }
        // Members of a formed cluster have their Secrets.
        Err(_) => {}
    }
    let mut plan = membership(seen);
    steps.append(&mut plan.steps);
    plan.steps = steps;
    plan.steps.extend(budget(seen));
    if wants_auth(seen) {
        plan.steps.push(Planned { step: Step::EnableAuth, because: "all members are Ready".to_owned() });
    }
    if let (Some(why), Situation::Settled) = (&seen.refused, &plan.situation) {
        plan.situation = Situation::Refused(why.clone());
    }
    plan
}

/// Authentication is switched on once, when nothing else is under way: while it is, members come and go without a
/// password.
fn wants_auth(seen: &Observed) -> bool {
    let latched = seen.cluster.status.as_ref().is_some_and(|status| status.auth_enabled == Some(true));
    let serves = target(seen).is_some_and(|target| target.replicas > 0);
    shape::wants_auth(&seen.cluster) && !latched && serves && is_complete(seen)
}

/// Services come first: without the headless one no member finds another.
fn services(seen: &Observed) -> Result<Vec<Planned>, String> {
    let mut steps = Vec::new();
    for (role, found) in [(ServiceRole::Headless, &seen.headless), (ServiceRole::Client, &seen.client)] {
        let wanted = build::service(&seen.cluster, role);
        let because = match found {
            Owned::Absent => "it does not exist",
            Owned::Ours(service) if build::covers(service.as_ref(), &wanted) => continue,
            Owned::Ours(_) => "it is not as it should be",
            Owned::Foreign => {
                return Err(format!("Service {} belongs to another owner", wanted.name_any()));
            }
        };
        steps.push(Planned { step: Step::ApplyService(role), because: because.to_owned() });
    }
    Ok(steps)
}

/// The budget follows the voters: it must let nobody evict a quorum away.
fn budget(seen: &Observed) -> Option<Planned> {
    let voters = seen.members.iter().filter(|member| member.is_voter() && !member.is_dormant()).count();
    let planned = |step: Step, because: &str| Some(Planned { step, because: because.to_owned() });
    if voters == 0 {
        return match &seen.budget {
            Owned::Ours(_) => planned(Step::DeleteBudget, "nobody votes"),
            Owned::Absent | Owned::Foreign => None,
        };
    }
    let replicas = target(seen).map_or(0, |target| target.replicas);
    let min_available = i32::try_from(voters).unwrap_or(i32::MAX).max(replicas) / 2 + 1;
    let wanted = build::budget(&seen.cluster, min_available);
    match &seen.budget {
        Owned::Absent => planned(Step::ApplyBudget { min_available }, "it does not exist"),
        Owned::Ours(budget) if budget.spec.as_ref().is_some_and(|spec| spec.max_unavailable.is_some()) => {
            planned(Step::DeleteBudget, "it counts in a way that cannot be changed in place")
        }
        Owned::Ours(budget) if build::covers(budget.as_ref(), &wanted) => None,
        Owned::Ours(_) => planned(Step::ApplyBudget { min_available }, "the number of voters changed"),
        // An eviction may then be admitted that ours would refuse; no reason to stop everything else.
        Owned::Foreign => None,
    }
}

fn membership(seen: &Observed) -> Plan {
    let Some(target) = target(seen) else { return Plan::wait(Situation::Adopting) };
    if cluster_id(seen).is_none() {
        return if target.replicas == 0 { Plan::wait(Situation::Paused) } else { form::form(seen) };
    }
    if seen.members.is_empty() {
        return Plan::wait(Situation::Lost);
    }
    if let Some(going) = seen.members.iter().find(|member| member.is_going()) {
        return Plan::wait(Situation::Changing(format!("member {} leaves", going.name())));
    }
    scale::scale(seen, target)
}
