//! A world that does what the other controllers, the kubelet and etcd do.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::json;

use super::super::certificates::{Role, wanted};
use super::super::decide::{Plan, ServiceRole, Step, decide, wants_etcd};
use super::super::observe::{Certificates, Etcd, Listed, Observed, Seen};
use super::super::{build, status};
use crate::api::condition;
use crate::api::etcdcluster::{EtcdCluster, EtcdClusterSpec};
use crate::api::etcdmember::{EtcdMember, EtcdMemberStatus};
use crate::controller::seen::{Asked, Owned};
use crate::controller::shape;

/// What there is, outside of our controller.
pub(super) struct World {
    pub(super) cluster: EtcdCluster,
    pub(super) members: Vec<EtcdMember>,
    pub(super) listed: Vec<Listed>,
    pub(super) services: [bool; 2],
    pub(super) budget: Option<i32>,
    pub(super) now: Timestamp,
    pub(super) made: u64,
    pub(super) auth_enabled: u32,
    pub(super) refused: Option<String>,
    pub(super) certificates: Certificates,
    pub(super) auth_is_on: bool,
    pub(super) log: Vec<String>,
}

impl World {
    pub(super) fn new(replicas: i32) -> Self {
        let spec = EtcdClusterSpec { replicas: Some(replicas), version: "3.6.16".into(), ..EtcdClusterSpec::default() };
        let mut cluster = EtcdCluster::new("c", spec);
        cluster.metadata.namespace = Some("ns".into());
        cluster.metadata.uid = Some("cluster-uid".into());
        cluster.metadata.resource_version = Some("1".into());
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self {
            cluster,
            members: vec![],
            listed: vec![],
            services: [false; 2],
            budget: None,
            now,
            made: 0,
            auth_enabled: 0,
            refused: None,
            certificates: Certificates::NotWanted,
            auth_is_on: false,
            log: vec![],
        }
    }

    pub(super) fn seen(&self) -> Observed {
        let owned = |object: k8s_openapi::api::core::v1::Service, there: bool| {
            if there { Owned::Ours(Arc::new(object)) } else { Owned::Absent }
        };
        let [headless, client] = self.services;
        let members = self.members.iter().map(|member| Seen { member: Arc::new(member.clone()), pod: pod_of(member) });
        let mut seen = Observed {
            cluster: Arc::new(self.cluster.clone()),
            members: members.collect(),
            headless: owned(build::service(&self.cluster, ServiceRole::Headless), headless),
            client: owned(build::service(&self.cluster, ServiceRole::Client), client),
            budget: self.budget.map_or(Owned::Absent, |min| Owned::Ours(Arc::new(build::budget(&self.cluster, min)))),
            etcd: Asked::No,
            refused: self.refused.clone(),
            rejected: false,
            certificates: self.certificates.clone(),
            cluster_domain: "cluster.local".to_owned(),
        };
        if wants_etcd(&seen) {
            let locked = self.auth_is_on && !shape::wants_auth(&self.cluster);
            let (auth_is_on, members) = (self.auth_is_on, self.listed.clone());
            seen.etcd = Asked::Answered(Etcd { cluster_id: 0xabc, members, auth_is_on, locked });
        }
        seen
    }

    /// One look: decision, steps, status. Every step is done twice, as after a crash between the step and its record.
    pub(super) fn look(&mut self) -> Plan {
        self.now += SignedDuration::from_secs(1);
        let seen = self.seen();
        let plan = decide(&seen, self.now);
        if let Some(adopted) = plan.adopt {
            self.log.push(format!("adopt: {adopted}"));
        }
        for planned in &plan.steps {
            self.log.push(format!("{:?}: {}", planned.step, planned.because));
            self.apply(&planned.step);
            self.apply(&planned.step);
        }
        let new = status::compute(&seen, &plan, None, self.now);
        if self.cluster.status.as_ref() != Some(&new) {
            self.cluster.status = Some(new);
            let version: u64 = self.cluster.metadata.resource_version.as_deref().unwrap().parse().unwrap();
            self.cluster.metadata.resource_version = Some((version + 1).to_string());
        }
        plan
    }

    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::ApplyService(ServiceRole::Headless) => self.services[0] = true,
            Step::ApplyService(ServiceRole::Client) => self.services[1] = true,
            Step::ApplyCertificate(role) => self.apply_certificate(*role),
            Step::ApplyBudget { min_available } => self.budget = Some(*min_available),
            Step::DeleteBudget => self.budget = None,
            Step::CreateSeed { name } => self.create(build::seed(&self.cluster, name)),
            Step::CreateMember { name } => self.create(build::member(&self.cluster, name)),
            Step::AdmitSeed { name } => {
                let whole = build::initial_cluster_of_seed(self.member(name));
                self.member_mut(name).spec.initial_cluster = whole;
            }
            Step::Admit { name, initial_cluster } => {
                self.member_mut(name).spec.initial_cluster.clone_from(initial_cluster);
            }
            Step::AddLearner { peer_url, .. } => {
                if !self.listed.iter().any(|listed| listed.peer_urls.contains(peer_url)) {
                    assert!(!self.listed.iter().any(|listed| listed.is_learner), "etcd takes one learner at a time");
                    self.list(peer_url.clone(), true);
                }
            }
            Step::Promote { id, .. } => {
                self.listed.iter_mut().filter(|listed| listed.id == *id).for_each(|listed| listed.is_learner = false);
            }
            Step::RemoveMember { name } | Step::RemakeSeed { name } => {
                self.members.iter_mut().filter(|member| member.name_any() == *name).for_each(|member| {
                    member.metadata.deletion_timestamp = Some(Time(self.now));
                });
            }
            Step::Pause { name } => self.member_mut(name).spec.dormant = Some(true),
            Step::Wake { name } => self.member_mut(name).spec.dormant = Some(false),
            Step::EnableAuth => self.auth_enabled += 1,
        }
    }

    pub(super) fn apply_certificate(&mut self, role: Role) {
        let all = wanted(&self.cluster, "cluster.local");
        let (_, certificate) = all.into_iter().find(|(of, _)| *of == role).unwrap();
        let Certificates::Seen(there) = &mut self.certificates else { panic!("nothing to apply to") };
        there.retain(|(of, _)| *of != role);
        there.push((role, Owned::Ours(Arc::new(certificate))));
    }

    pub(super) fn create(&mut self, mut member: EtcdMember) {
        if self.members.iter().any(|there| there.name_any() == member.name_any()) {
            return;
        }
        self.made += 1;
        member.metadata.uid = Some(format!("uid-{}", self.made));
        member.metadata.creation_timestamp = Some(Time(self.now));
        self.members.push(member);
    }

    pub(super) fn list(&mut self, url: String, is_learner: bool) {
        let id = 0x10 + self.listed.len() as u64 + self.made;
        self.listed.push(Listed { id, name: String::new(), peer_urls: vec![url], is_learner });
    }

    pub(super) fn member(&self, name: &str) -> &EtcdMember {
        self.members.iter().find(|member| member.name_any() == name).unwrap()
    }

    pub(super) fn member_mut(&mut self, name: &str) -> &mut EtcdMember {
        self.members.iter_mut().find(|member| member.name_any() == name).unwrap()
    }

    /// What the member controller, the kubelet and etcd do in the meantime.
    pub(super) fn pass(&mut self) {
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|member| member.metadata.deletion_timestamp.is_some())
            .map(shape::peer_url)
            .collect();
        self.listed.retain(|listed| !gone.contains(&listed.peer_urls[0]));
        self.members.retain(|member| member.metadata.deletion_timestamp.is_none());
        for index in 0..self.members.len() {
            let member = self.members[index].clone();
            let url = shape::peer_url(&member);
            if member.spec.bootstrap == Some(true) && !self.listed.iter().any(|listed| listed.peer_urls.contains(&url))
            {
                self.list(url.clone(), false);
            }
            let awake = !member.spec.initial_cluster.is_empty() && member.spec.dormant != Some(true);
            let listed = self.listed.iter_mut().find(|listed| listed.peer_urls.contains(&url));
            let Some(listed) = listed.filter(|_| awake) else {
                self.members[index].status = self.members[index].status.take().map(|mut old| {
                    old.conditions = Some(vec![]);
                    old
                });
                continue;
            };
            listed.name = member.name_any();
            self.members[index].status = Some(ready(listed.id, !listed.is_learner));
        }
    }

    /// Looks until nothing is left to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..60 {
            let before = (self.cluster.status.clone(), self.log.len());
            self.look();
            self.pass();
            if before == (self.cluster.status.clone(), self.log.len()) {
                return;
            }
        }
        panic!("never settles:\n{}", self.log.join("\n"));
    }

    pub(super) fn condition(&self, type_: &str) -> (String, String) {
        let conditions = self.cluster.status.as_ref().unwrap().conditions.as_deref().unwrap();
        let found = condition::find(conditions, type_).unwrap();
        (found.status.clone(), found.reason.clone())
    }

    pub(super) fn scale(&mut self, replicas: i32) {
        self.log.push(format!("-- {replicas} replicas wanted"));
        self.cluster.spec.replicas = Some(replicas);
        self.settle();
    }
}

pub(super) fn ready(id: u64, votes: bool) -> EtcdMemberStatus {
    serde_json::from_value(json!({
        "memberID": shape::hex_id(id), "isVoter": votes, "podUID": "pod", "podName": "pod",
        "conditions": [{"type": "Ready", "status": "True", "reason": "PodReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }))
    .unwrap()
}

fn pod_of(member: &EtcdMember) -> Option<Arc<Pod>> {
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"uid": "pod"}, "status": {"podIP": "10.0.0.1"}})).unwrap();
    member.status.as_ref().map(|_| Arc::new(pod))
}
