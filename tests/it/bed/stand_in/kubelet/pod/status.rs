//! A Pod's status, from what is known of it.

use super::track::{State, Track};
use k8s_openapi::api::core::v1::{HostIP, Pod, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::net::Ipv4Addr;

/// How a Pod ended.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub phase: &'static str,
    pub reason: Option<&'static str>,
    pub message: Option<String>,
}

/// What the status is made of.
pub struct Known<'a> {
    /// The object as it was heard of last: conditions that somebody else sets, and which of them the readiness waits for.
    pub pod: &'a Pod,
    pub tracks: &'a [Track],
    pub verdict: Option<&'a Verdict>,
    pub scheduled: Result<(), String>,
    pub address: Option<Ipv4Addr>,
    pub node: Ipv4Addr,
    pub since: Option<&'a Time>,
    pub now: &'a Time,
    /// The status before, whose times of transition stay while nothing changes.
    pub before: Option<&'a PodStatus>,
}

impl Known<'_> {
    /// The whole status.
    pub fn status(&self) -> PodStatus {
        let phase = self.phase();
        let of = |init: bool| -> Vec<_> { self.tracks.iter().filter(|t| t.init == init).map(Track::status).collect() };
        let (init, apps) = if self.scheduled.is_ok() { (of(true), of(false)) } else { (Vec::new(), Vec::new()) };
        PodStatus {
            phase: Some(phase.to_owned()),
            reason: self.verdict.and_then(|v| v.reason).map(str::to_owned),
            message: self.verdict.and_then(|v| v.message.clone()),
            conditions: Some(self.conditions(phase)),
            init_container_statuses: (!init.is_empty()).then_some(init),
            container_statuses: (!apps.is_empty()).then_some(apps),
            start_time: self.since.cloned(),
            host_ip: self.since.map(|_| self.node.to_string()),
            host_ips: self.since.map(|_| vec![HostIP { ip: self.node.to_string() }]),
            pod_ip: self.address.map(|a| a.to_string()),
            pod_ips: self.address.map(|a| vec![PodIP { ip: a.to_string() }]),
            ..PodStatus::default()
        }
    }

    fn phase(&self) -> &'static str {
        if let Some(verdict) = self.verdict {
            return verdict.phase;
        }
        let mut apps = self.tracks.iter().filter(|t| !t.init).peekable();
        let never_ran = |t: &Track| matches!(t.state, State::Waiting { .. }) && t.last.is_none();
        if self.scheduled.is_err() || apps.peek().is_none() || apps.any(never_ran) { "Pending" } else { "Running" }
    }

    fn conditions(&self, phase: &str) -> Vec<PodCondition> {
        let mut conditions =
            vec![self.condition("PodScheduled", self.scheduled.clone().map_err(|m| ("Unschedulable", m)))];
        if self.scheduled.is_ok() {
            let names = |unmet: Vec<&Track>| -> String {
                unmet.iter().map(|t| t.spec.name.as_str()).collect::<Vec<_>>().join(" ")
            };
            let uninitialised: Vec<&Track> = self.tracks.iter().filter(|t| t.init && !t.succeeded()).collect();
            let unready: Vec<&Track> = self.tracks.iter().filter(|t| !t.init && !t.ready).collect();
            let initialised = if uninitialised.is_empty() {
                Ok(())
            } else {
                let message = format!("containers with incomplete status: [{}]", names(uninitialised));
                Err(("ContainersNotInitialized", message))
            };
            let ready = match phase {
                "Succeeded" => Err(("PodCompleted", String::new())),
                "Failed" => Err(("PodFailed", String::new())),
                _ if unready.is_empty() => Ok(()),
                _ => Err(("ContainersNotReady", format!("containers with unready status: [{}]", names(unready)))),
            };
            conditions.push(self.condition("Initialized", initialised));
            conditions.push(self.condition("ContainersReady", ready.clone()));
            conditions.push(self.condition("Ready", ready.and_then(|()| self.gates())));
        }
        conditions
    }

    fn gates(&self) -> Result<(), (&'static str, String)> {
        let gates = self.pod.spec.iter().filter_map(|spec| spec.readiness_gates.as_ref()).flatten();
        let open = |gate: &str| {
            let mut conditions = self.pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
            conditions.any(|condition| condition.type_ == gate && condition.status == "True")
        };
        match gates.map(|gate| gate.condition_type.as_str()).find(|gate| !open(gate)) {
            Some(gate) => Err(("ReadinessGatesNotReady", format!("readiness gate {gate:?} is not True"))),
            None => Ok(()),
        }
    }

    fn condition(&self, kind: &str, holds: Result<(), (&'static str, String)>) -> PodCondition {
        let (status, reason, message) = match holds {
            Ok(()) => ("True", None, None),
            Err((reason, message)) => ("False", Some(reason.to_owned()), (!message.is_empty()).then_some(message)),
        };
        let before = self.before.and_then(|s| s.conditions.as_ref()?.iter().find(|c| c.type_ == kind));
        let since = before.filter(|b| b.status == status).and_then(|b| b.last_transition_time.clone());
        PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason,
            message,
            last_transition_time: Some(since.unwrap_or_else(|| self.now.clone())),
            ..PodCondition::default()
        }
    }
}
