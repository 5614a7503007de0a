//! A member's whole way, decision by decision, in a world that does what the kubelet and etcd do. Every step is done
//! twice, as after a crash between the step and its record: the way stays the same.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::build::{self, CONTAINER, Inputs};
use super::super::decide::{Step, Waiting, decide};
use super::super::observe::{Myself, Observed, Roster};
use super::super::status;
use crate::api::etcdmember::EtcdMember;
use crate::api::names::{operator, warden};
use crate::controller::pods;
use crate::controller::seen::{Asked, Owned};

const ID: u64 = 7;

/// What there is, outside of our controller.
struct World {
    member: EtcdMember,
    pod: Option<Pod>,
    has_claim: bool,
    listed: Option<u64>,
    leads: bool,
    pods_made: u32,
    gone: bool,
    now: Timestamp,
    log: Vec<String>,
}

impl World {
    fn new() -> Self {
        let mut member = super::member(&json!({}), &json!({}));
        member.metadata.finalizers = None;
        Self {
            member,
            pod: None,
            has_claim: false,
            listed: None,
            leads: false,
            pods_made: 0,
            gone: false,
            now: super::now(),
            log: Vec::new(),
        }
    }

    fn seen(&self) -> Observed {
        let leaving = self.member.metadata.deletion_timestamp.is_some();
        let mut seen = super::seen(self.member.clone());
        seen.pod = self.pod.clone().map_or(Owned::Absent, |pod| Owned::Ours(Arc::new(pod)));
        let claim = || Owned::Ours(Arc::new(build::claim(&self.member)));
        seen.claim = if self.has_claim { claim() } else { Owned::Absent };
        if leaving {
            let listed = self.listed;
            seen.roster = Asked::Answered(Roster { listed, leads: self.leads, heir: Some(2) });
        } else if self.pod.as_ref().is_some_and(|pod| pods::is_running(pod, CONTAINER)) {
            let version = Some("3.6.16".into());
            seen.myself = Asked::Answered(Myself { member_id: ID, version, is_learner: false, errors: vec![] });
        }
        seen
    }

    /// One look: decision, steps, status.
    fn look(&mut self) -> Waiting {
        self.now += SignedDuration::from_secs(1);
        let seen = self.seen();
        let plan = decide(&seen, Some("image"), self.now);
        for planned in &plan.steps {
            self.log.push(format!("{:?}: {}", planned.step, planned.because));
            self.apply(&seen, &planned.step);
            self.apply(&seen, &planned.step);
        }
        self.member.status = Some(status::compute(&seen, &plan, None, self.now));
        plan.waiting
    }

    fn apply(&mut self, seen: &Observed, step: &Step) {
        match step {
            Step::AddFinalizer => self.member.metadata.finalizers = Some(vec![operator::MEMBER_CLEANUP.to_owned()]),
            Step::RemoveFinalizer => self.gone = true,
            Step::HandOver { .. } => self.leads = false,
            Step::LeaveEtcd { id } => self.listed = self.listed.filter(|listed| listed != id),
            Step::CreateClaim => self.has_claim = true,
            Step::CreatePod if self.pod.is_some() => {}
            Step::CreatePod => {
                self.pods_made += 1;
                let settings = super::settings();
                let mut pod = build::pod(&self.member, Inputs { parent: seen.parent.alive(), settings: &settings });
                pod.metadata.uid = Some(format!("pod-{}", self.pods_made));
                self.pod = Some(pod);
            }
            Step::DeletePod => self.pod = None,
            Step::Seal => {
                let annotations = self.pod.as_mut().unwrap().metadata.annotations.get_or_insert_default();
                annotations.insert(warden::INITIAL_CLUSTER_STATE.into(), "existing".into());
                self.be(&[warden::SEALED]);
            }
            Step::LabelVoter => {
                let labels = self.pod.as_mut().unwrap().metadata.labels.get_or_insert_default();
                labels.insert(operator::ROLE.into(), operator::ROLE_VOTER.into());
            }
            Step::DeleteMember => self.member.metadata.deletion_timestamp = Some(Time(self.now)),
        }
    }

    /// Makes conditions of the Pod True, beside those that are.
    fn be(&mut self, types: &[&str]) {
        let Some(pod) = &mut self.pod else { return };
        let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
        for type_ in types {
            conditions.retain(|condition| condition.type_ != *type_);
            conditions.push(serde_json::from_value(json!({"type": type_, "status": "True"})).unwrap());
        }
    }

    /// What the kubelet and etcd do in the meantime.
    fn pass(&mut self) {
        let Some(pod) = &mut self.pod else { return };
        if pod.status.is_none() {
            let running = json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": CONTAINER,
                "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {"startedAt": self.now}}}]});
            pod.status = Some(serde_json::from_value(running).unwrap());
            self.listed = Some(ID);
        }
        if !pods::waits_for_gate(self.pod.as_ref().unwrap(), warden::SEALED) {
            self.be(&["Ready"]);
        }
    }

    /// Looks until nothing is left to do.
    fn settle(&mut self) -> Waiting {
        for _ in 0..20 {
            let before = (self.log.len(), self.member.status.clone(), self.gone);
            let waiting = self.look();
            self.pass();
            if self.gone || before == (self.log.len(), self.member.status.clone(), self.gone) {
                return waiting;
            }
        }
        panic!("never settles:\n{}", self.log.join("\n"));
    }
}

#[test]
fn a_seed_comes_up_sleeps_wakes_outlives_an_eviction_and_leaves() {
    let mut world = World::new();
    assert_eq!(world.settle(), Waiting::Nothing);
    world.log.push("-- paused".into());
    world.member.spec.dormant = Some(true);
    assert_eq!(world.settle(), Waiting::Paused);
    world.log.push("-- woken".into());
    world.member.spec.dormant = Some(false);
    assert_eq!(world.settle(), Waiting::Nothing);
    world.log.push("-- evicted".into());
    world.pod.as_mut().unwrap().status.as_mut().unwrap().phase = Some("Failed".into());
    assert_eq!(world.settle(), Waiting::Nothing);
    world.log.push("-- deleted, while it leads".into());
    world.leads = true;
    world.member.metadata.deletion_timestamp = Some(Time(world.now));
    world.settle();
    assert!(world.gone && world.listed.is_none() && !world.leads);
    assert_eq!(world.pods_made, 3);
    insta::assert_snapshot!(world.log.join("\n"));
}
