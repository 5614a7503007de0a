//! How many members a formed cluster has, and which. Pure.

use std::time::Duration;

use super::decide::{FAST, Plan, SLOW, Situation, Step, can_grow, running};
use super::observe::{Etcd, Observed, Seen, listed};
use crate::api::etcdcluster::Observed as Target;
use crate::controller::seen::Asked;
use crate::controller::shape;

/// The next step towards the wanted number of members. Nobody is leaving at this point.
pub(super) fn scale(seen: &Observed, target: &Target) -> Plan {
    let wanted = usize::try_from(target.replicas).unwrap_or(0);
    let present = running(seen);
    if wanted == 0 && present.is_empty() {
        return Plan::wait(Situation::Paused);
    }
    if let Some(sleeper) = seen.members.iter().find(|member| member.is_dormant()).filter(|_| wanted > 0) {
        return Plan::step(Step::Wake { name: sleeper.name() }, "replicas are wanted again");
    }
    if present.len() > wanted {
        return down(&present, wanted);
    }
    if let Some(pending) = present.iter().find(|member| member.is_pending()) {
        return admit(seen, pending);
    }
    if let Some(learner) = present.iter().find(|member| !member.is_voter()) {
        return promote(seen, learner);
    }
    if present.len() < wanted {
        return up(seen, &present, wanted);
    }
    Plan::wait(Situation::Settled)
}

fn up(seen: &Observed, present: &[&Seen], wanted: usize) -> Plan {
    if present.is_empty() {
        return Plan::wait(Situation::Lost);
    }
    if let Err(why) = can_grow(present) {
        return Plan::wait(Situation::Changing(why));
    }
    let uids: Vec<&str> = present.iter().filter_map(|member| member.member.metadata.uid.as_deref()).collect();
    let name = shape::member_name(&seen.cluster, &uids);
    Plan::step(Step::CreateMember { name }, format!("{} of {wanted} members exist", present.len()))
}

/// A member that was made is added to etcd first and started then, so that no etcd starts that is not expected.
fn admit(seen: &Observed, pending: &Seen) -> Plan {
    let etcd = match &seen.etcd {
        Asked::Answered(etcd) => etcd,
        Asked::Failed(why) => return Plan::wait(Situation::Unreachable(why.clone())).again(SLOW),
        Asked::No => return Plan::wait(Situation::Unreachable("no member is Ready".to_owned())),
    };
    let name = pending.name();
    if listed(etcd, pending).is_some() {
        let initial_cluster = initial_cluster(etcd, &seen.members);
        return Plan::step(Step::Admit { name, initial_cluster }, "etcd lists it, so it may start");
    }
    if let Some(learner) = etcd.members.iter().find(|member| member.is_learner) {
        let why = format!("etcd takes one learner at a time, and {} is one", shape::hex_id(learner.id));
        return Plan::wait(Situation::Changing(why)).again(FAST);
    }
    let peer_url = shape::peer_url(&pending.member);
    Plan::step(Step::AddLearner { name, peer_url }, "it was made, but etcd does not list it").again(Duration::ZERO)
}

/// `--initial-cluster` by etcd's own list: a name that etcd does not know yet is that of the member with the URL.
fn initial_cluster(etcd: &Etcd, members: &[Seen]) -> String {
    let name_of = |urls: &[String]| {
        let ours = members.iter().find(|member| urls.contains(&shape::peer_url(&member.member)));
        ours.map_or_else(|| urls.first().map(|url| first_label(url)).unwrap_or_default(), Seen::name)
    };
    let mut parts: Vec<String> = etcd
        .members
        .iter()
        .map(|listed| {
            let name = if listed.name.is_empty() { name_of(&listed.peer_urls) } else { listed.name.clone() };
            format!("{name}={}", listed.peer_urls.first().cloned().unwrap_or_default())
        })
        .collect();
    parts.sort();
    parts.join(",")
}

/// The first label of a URL's host.
fn first_label(url: &str) -> String {
    let host = url.split("://").last().unwrap_or_default();
    host.split(['.', ':', '/']).next().unwrap_or_default().to_owned()
}

/// A learner votes once it is Ready and etcd finds that it has caught up.
fn promote(seen: &Observed, learner: &Seen) -> Plan {
    let name = learner.name();
    if !learner.is_ready() {
        let why = learner.trouble().map_or_else(|| "it is not Ready".to_owned(), |(_, message)| message);
        return Plan::wait(Situation::Changing(format!("learner {name}: {why}")));
    }
    match &seen.etcd {
        Asked::Answered(etcd) => match listed(etcd, learner) {
            Some(listed) if listed.is_learner => {
                Plan::step(Step::Promote { name, id: listed.id }, "it is Ready and does not vote yet").again(FAST)
            }
            // It votes already; its own controller has yet to write that down.
            Some(_) => Plan::wait(Situation::Changing(format!("member {name} votes now"))),
            None => Plan::wait(Situation::Changing(format!("etcd does not list member {name}"))).again(SLOW),
        },
        Asked::Failed(why) => Plan::wait(Situation::Unreachable(why.clone())).again(SLOW),
        Asked::No => Plan::wait(Situation::Unreachable("no member is Ready".to_owned())),
    }
}

/// Who goes: first who is not in etcd, then who does not vote, then who is broken, then the youngest; never one
/// without whom the rest is no quorum.
fn down(present: &[&Seen], wanted: usize) -> Plan {
    if wanted == 0
        && let [last] = present
    {
        return Plan::step(Step::Pause { name: last.name() }, "no replicas are wanted");
    }
    let rank = |member: &&&Seen| {
        let age = member.member.metadata.creation_timestamp.clone().map(|at| at.0);
        (!member.is_pending(), member.is_voter(), member.is_ready(), std::cmp::Reverse((age, member.name())))
    };
    let mut by_rank: Vec<&&Seen> = present.iter().collect();
    by_rank.sort_by_key(rank);
    let because = format!("{} members exist, {wanted} are wanted", present.len());
    match by_rank.into_iter().find(|victim| leaves_quorum(present, victim)) {
        Some(victim) => Plan::step(Step::RemoveMember { name: victim.name() }, because),
        None => Plan::wait(Situation::Changing(format!("{because}; none can go while the rest is no quorum"))),
    }
}

/// Whether the voters have a quorum now, and the others still have one without this member.
fn leaves_quorum(present: &[&Seen], victim: &Seen) -> bool {
    if !victim.is_voter() {
        return true;
    }
    let quorum_of = |members: &[&&Seen]| {
        let ready = members.iter().filter(|member| member.is_ready()).count();
        ready > members.len() / 2
    };
    let voters: Vec<&&Seen> = present.iter().filter(|member| member.is_voter()).collect();
    let others: Vec<&&Seen> = voters.iter().copied().filter(|member| member.name() != victim.name()).collect();
    quorum_of(&voters) && quorum_of(&others)
}
