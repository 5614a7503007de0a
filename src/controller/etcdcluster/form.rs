//! How a cluster comes to be: from nothing to the first member that answers. Pure.

use super::build;
use super::decide::{FAST, Plan, SLOW, Situation, Step, founder};
use super::observe::{Etcd, Observed, Seen, listed};
use crate::api::etcdcluster::Observed as Target;
use crate::controller::etcdmember::build::CONTAINER;
use crate::controller::seen::Asked;
use crate::controller::{pods, shape};

/// The next step towards a cluster of one.
pub(super) fn form(seen: &Observed) -> Plan {
    if let Some(going) = seen.members.iter().find(|member| member.is_going()) {
        return Plan::wait(Situation::Forming(format!("member {} leaves", going.name())));
    }
    let Some(founder) = founder(seen) else {
        let uids: Vec<&str> = seen.members.iter().filter_map(|member| member.member.metadata.uid.as_deref()).collect();
        let name = shape::member_name(&seen.cluster, &uids);
        return forming(Step::CreateSeed { name }, "the cluster has no seed", "the seed is being made");
    };
    let name = founder.name();
    if has_never_run(founder) && !is_up_to_date(seen, founder) {
        let because = "the spec has changed, and its etcd has never answered";
        return forming(Step::RemakeSeed { name }, because, "the seed is being made anew");
    }
    if founder.member.spec.initial_cluster.is_empty() {
        let because = "the seed does not know whom it forms the cluster with";
        return forming(Step::AdmitSeed { name }, because, "the seed is being admitted");
    }
    if let Some(failure) = founder.member.status.as_ref().and_then(|status| status.restore_failure.as_ref()) {
        return Plan::wait(Situation::RestoreFailed(format!("{}: {}", failure.reason, failure.message)));
    }
    match &seen.etcd {
        Asked::No => Plan::wait(Situation::Forming(waits_for(founder))),
        Asked::Failed(why) => Plan::wait(Situation::Forming(why.clone())).again(FAST),
        Asked::Answered(etcd) if etcd.locked => Plan::wait(Situation::AuthIsOn).again(SLOW),
        Asked::Answered(etcd) => match alone(etcd, founder) {
            Ok(()) => Plan::wait(Situation::Formed(etcd.cluster_id)),
            Err(why) => Plan::wait(Situation::Forming(why)).again(SLOW),
        },
    }
}

fn forming(step: Step, because: &str, situation: &str) -> Plan {
    Plan { situation: Situation::Forming(situation.to_owned()), ..Plan::step(step, because) }
}

/// Whether its etcd neither runs nor ever told who it is: then nobody can have written to it.
fn has_never_run(founder: &Seen) -> bool {
    let runs = founder.pod.as_ref().is_some_and(|pod| pods::is_running(pod, CONTAINER) || pods::is_ready(pod));
    founder.id().is_none() && !founder.is_ready() && !runs
}

/// Whether it was made as the target has it now: a version that does not exist can be corrected.
fn is_up_to_date(seen: &Observed, founder: &Seen) -> bool {
    let Some(target) = super::decide::target(seen) else { return true };
    let spec = founder.member.spec.clone();
    let made = Target {
        replicas: target.replicas,
        version: spec.version,
        storage: spec.storage,
        resources: spec.resources,
        affinity: spec.affinity,
        topology_spread_constraints: spec.topology_spread_constraints,
        additional_metadata: spec.additional_metadata,
        options: spec.options,
        image_pull_secrets: spec.image_pull_secrets,
    };
    build::same_target(&made, target)
}

/// A formed cluster has exactly one member, and that is the seed.
fn alone(etcd: &Etcd, founder: &Seen) -> Result<(), String> {
    match (etcd.members.as_slice(), listed(etcd, founder)) {
        ([_], Some(_)) => Ok(()),
        (members, _) => Err(format!("etcd lists {} members, where only the seed should be", members.len())),
    }
}

fn waits_for(founder: &Seen) -> String {
    match (founder.trouble(), &founder.pod) {
        (Some((_, message)), _) => format!("seed {}: {message}", founder.name()),
        (None, Some(pod)) => format!("seed {}: {}", founder.name(), pods::trouble(pod)),
        (None, None) => format!("seed {} has no Pod yet", founder.name()),
    }
}
