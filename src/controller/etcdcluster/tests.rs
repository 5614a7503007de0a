//! Whole rollouts, decision by decision.

mod world;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::SignedDuration;
use kube::{Resource, ResourceExt};
use serde_json::json;

use self::world::World;
use super::certificates::{Role, wanted};
use super::decide::{ServiceRole, Situation, Step, decide};
use super::observe::Certificates;
use super::{build, status};
use crate::api::etcdcluster::reason;
use crate::api::etcdmember::{EtcdMemberStatus, RestoreFailure};
use crate::controller::seen::Owned;

#[test]
fn what_the_rules_refuse_is_not_begun_and_what_was_there_before_is_kept_up() {
    let mut world = World::new(3);
    world.refused = Some("spec.version: the image has no etcdutl".to_owned());
    world.settle();
    assert_eq!((world.log.len(), world.members.len()), (0, 0), "{:?}", world.log);
    assert_eq!(world.condition("Available"), ("False".into(), "Refused".into()));
    assert_eq!(world.condition("Progressing"), ("False".into(), "Refused".into()));
    // Corrected, it begins.
    world.refused = None;
    world.settle();
    assert_eq!(world.condition("Progressing"), ("False".into(), "Reconciled".into()));
    // A refused change is not adopted, and the cluster is kept as it was.
    world.cluster.spec.version = "3.8.0".into();
    world.refused = Some("spec.version: etcd goes up one minor at a time".to_owned());
    world.members.pop();
    world.settle();
    assert_eq!(world.members.len(), 3);
    let target = world.cluster.status.as_ref().unwrap().observed.as_ref().unwrap();
    assert_eq!(target.version, "3.6.16");
    assert_eq!(world.condition("Available"), ("True".into(), "QuorumHealthy".into()));
    assert_eq!(world.condition("Progressing"), ("False".into(), "Refused".into()));
}

#[test]
fn a_cluster_of_three_is_formed_grows_shrinks_sleeps_and_wakes() {
    let mut world = World::new(3);
    world.settle();
    assert_eq!(world.condition("Available"), ("True".into(), reason::QUORUM_HEALTHY.into()));
    assert_eq!(world.condition("Progressing"), ("False".into(), reason::RECONCILED.into()));
    for replicas in [5, 1, 0, 3] {
        world.scale(replicas);
        let running = world.members.iter().filter(|member| member.spec.dormant != Some(true)).count();
        assert_eq!(i32::try_from(running), Ok(replicas));
    }
    assert!(world.cluster.status.as_ref().unwrap().progress_deadline.is_none());
    insta::assert_snapshot!(world.log.join("\n"));
}

#[test]
fn n2_available_never_flickers_on_the_way_up() {
    let mut world = World::new(3);
    let mut was_true = false;
    for _ in 0..40 {
        world.look();
        let is_true = world.condition("Available").0 == "True";
        assert!(is_true || !was_true, "Available went away:\n{}", world.log.join("\n"));
        was_true = is_true;
        world.pass();
    }
    assert!(was_true);
}

#[test]
fn a_lost_member_is_replaced_by_another_and_never_by_a_second_seed() {
    let mut world = World::new(3);
    world.settle();
    let seed = world.members[0].name_any();
    world.apply(&Step::RemoveMember { name: seed.clone() });
    world.settle();
    assert_eq!(world.members.len(), 3);
    assert!(world.members.iter().all(|member| member.name_any() != seed && member.spec.bootstrap != Some(true)));
}

#[test]
fn o7_a_cluster_that_lost_every_member_is_not_started_anew() {
    let mut world = World::new(3);
    world.settle();
    world.members.clear();
    world.listed.clear();
    let plan = world.look();
    assert_eq!(plan.situation, Situation::Lost);
    assert!(plan.steps.iter().all(|planned| matches!(planned.step, Step::DeleteBudget)), "{:?}", plan.steps);
    assert_eq!(world.condition("Available"), ("False".into(), reason::TOTAL_LOSS.into()));
}

#[test]
fn m7_a_service_of_another_owner_is_waited_for_and_not_taken() {
    let mut world = World::new(1);
    world.look();
    let mut seen = world.seen();
    let mut foreign = build::service(&world.cluster, ServiceRole::Headless);
    foreign.metadata.owner_references =
        Some(vec![OwnerReference { uid: "another".into(), controller: Some(true), ..OwnerReference::default() }]);
    seen.headless = Owned::of(Some(Arc::new(foreign)), world.cluster.meta());
    let plan = decide(&seen, world.now);
    assert_eq!(plan.steps, []);
    assert!(matches!(plan.situation, Situation::Blocked(_)));
}

#[test]
fn m4_a_deadline_that_passes_is_told_and_taken_back_once_the_target_is_reached() {
    let mut world = World::new(1);
    world.look();
    world.look();
    world.now += SignedDuration::from_secs(700);
    world.look();
    assert_eq!(world.condition("Progressing"), ("False".into(), reason::BOOTSTRAP_FAILED.into()));
    world.pass();
    world.settle();
    assert_eq!(world.condition("Progressing"), ("False".into(), reason::RECONCILED.into()));
    assert_eq!(world.condition("Available").0, "True");
}

#[test]
fn o3_a_restore_that_was_given_up_is_named_on_the_cluster() {
    let mut world = World::new(1);
    world.look();
    world.look();
    let failure = RestoreFailure { reason: "ObjectNotFound".into(), message: "no such key".into(), inputs: None };
    world.members[0].status = Some(EtcdMemberStatus { restore_failure: Some(failure), ..EtcdMemberStatus::default() });
    world.look();
    for type_ in ["Available", "Progressing", "Degraded"] {
        assert_eq!(world.condition(type_).1, reason::RESTORE_FAILED, "{type_}");
    }
}

#[test]
fn m8_the_broken_one_goes_first_and_nobody_without_whom_the_rest_is_no_quorum() {
    let mut world = World::new(3);
    world.settle();
    let oldest = world.members[0].name_any();
    world.members[0].status.as_mut().unwrap().conditions = None;
    world.cluster.spec.replicas = Some(2);
    world.look();
    let plan = world.look();
    assert_eq!(plan.steps[0].step, Step::RemoveMember { name: oldest });

    world.members[1].status.as_mut().unwrap().conditions = None;
    let plan = decide(&world.seen(), world.now);
    assert!(!plan.steps.iter().any(|planned| matches!(planned.step, Step::RemoveMember { .. })));
}

#[test]
fn m15_clients_reach_voters_only_and_what_others_added_to_a_service_stays() {
    let world = World::new(1);
    let wanted = build::service(&world.cluster, ServiceRole::Client);
    let selector = wanted.spec.as_ref().unwrap().selector.as_ref().unwrap();
    assert_eq!(selector.get(crate::api::names::operator::ROLE).map(String::as_str), Some("voter"));
    let mut live = wanted.clone();
    live.metadata.annotations = Some([("theirs".to_owned(), "kept".to_owned())].into());
    assert!(build::covers(&live, &wanted));
    live.spec.as_mut().unwrap().selector.as_mut().unwrap().clear();
    assert!(!build::covers(&live, &wanted));
}

#[test]
fn authentication_is_switched_on_once_when_all_are_ready() {
    let mut world = World::new(3);
    world.cluster.spec.auth = Some(crate::api::etcdcluster::Auth { enabled: Some(true), ..Default::default() });
    world.settle();
    world.settle();
    assert_eq!(world.auth_enabled, 2, "one step, done twice by the test");
    assert_eq!(world.cluster.status.as_ref().unwrap().auth_enabled, Some(true));
    let position = |what: &str| world.log.iter().rposition(|line| line.starts_with(what)).unwrap();
    assert!(position("EnableAuth") > position("Promote"));
}

fn with_cert_manager(world: &mut World) {
    world.cluster.spec.tls = serde_json::from_value(json!({
        "client": {"certManager": {"serverIssuerRef": {"name": "ca"},
            "operatorClientIssuerRef": {"name": "all", "kind": "ClusterIssuer"}}},
        "peer": {"certManager": {"issuerRef": {"name": "ca"}}}}))
    .unwrap();
}

#[test]
fn m6_certificates_are_asked_for_before_members_are_made() {
    let mut world = World::new(1);
    with_cert_manager(&mut world);
    world.certificates = Certificates::NotInstalled;
    world.look();
    let plan = world.look();
    assert_eq!(plan.situation, Situation::NoCertManager);
    assert!(plan.look_again.is_some() && world.members.is_empty());
    for type_ in ["Available", "Progressing", "Degraded"] {
        assert_eq!(world.condition(type_).1, reason::CERT_MANAGER_NOT_INSTALLED, "{type_}");
    }
    // It is installed later, and the cluster goes on by itself.
    world.certificates = Certificates::Seen(vec![]);
    world.settle();
    assert_eq!(world.condition("Available").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
    let position = |what: &str| world.log.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(position("ApplyCertificate(Peer)") < position("CreateSeed"));
    // What becomes of cert-manager then is no reason to stop a cluster that has its Secrets.
    world.certificates = Certificates::NotInstalled;
    world.scale(3);
    assert_eq!(world.condition("Available").0, "True");
}

#[test]
fn certificates_are_what_upstream_asks_for() {
    let mut world = World::new(1);
    with_cert_manager(&mut world);
    let all: Vec<_> = wanted(&world.cluster, "cluster.local").into_iter().map(|(_, certificate)| certificate).collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&all).unwrap());
}

#[test]
fn a_certificate_of_another_owner_is_waited_for_and_not_taken() {
    let mut world = World::new(1);
    with_cert_manager(&mut world);
    world.certificates = Certificates::Seen(vec![(Role::Server, Owned::Foreign)]);
    world.look();
    let plan = world.look();
    assert!(matches!(plan.situation, Situation::Blocked(_)), "{plan:?}");
    assert!(world.members.is_empty());
}

#[test]
fn m5_restored_data_that_asks_for_a_password_is_named_and_taken_up_once_the_spec_has_it() {
    let mut world = World::new(1);
    world.auth_is_on = true;
    for _ in 0..6 {
        world.look();
        world.pass();
    }
    for type_ in ["Available", "Progressing", "Degraded"] {
        assert_eq!(world.condition(type_).1, reason::AUTH_REQUIRED_NOT_CONFIGURED, "{type_}");
    }
    world.cluster.spec.auth = Some(crate::api::etcdcluster::Auth { enabled: Some(true), ..Default::default() });
    world.settle();
    assert_eq!(world.condition("Available").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
    // Our password opened it: from then on it is used, and there is nothing to switch on.
    assert_eq!(world.cluster.status.as_ref().unwrap().auth_enabled, Some(true));
    assert_eq!(world.auth_enabled, 0);
}

#[test]
fn m11_a_password_that_etcd_does_not_take_is_named_by_its_code() {
    let mut world = World::new(1);
    world.settle();
    let seen = world.seen();
    let plan = decide(&seen, world.now);
    let failure = status::Failure { text: "etcd refused Authenticate".into(), rejected: true };
    world.cluster.status = Some(status::compute(&seen, &plan, Some(&failure), world.now));
    assert_eq!(world.condition("Degraded"), ("True".into(), reason::AUTH_CREDENTIALS_REJECTED.into()));
    assert_eq!(world.condition("Available").0, "True");
}

#[test]
fn a_seed_that_never_ran_is_made_anew_when_the_spec_is_corrected_and_no_other_is() {
    let mut world = World::new(1);
    world.look();
    world.look();
    let first = world.members[0].name_any();
    world.cluster.spec.version = "3.6.15".into();
    world.look();
    let plan = world.look();
    assert_eq!(plan.steps[0].step, Step::RemakeSeed { name: first.clone() });
    let plan = world.look();
    assert!(
        !plan.steps.iter().any(|planned| matches!(planned.step, Step::CreateSeed { .. })),
        "the old one still goes"
    );
    world.pass();
    world.settle();
    assert_ne!(world.members[0].name_any(), first);
    assert_eq!(world.members[0].spec.version, "3.6.15");
    assert_eq!(world.condition("Available").0, "True");

    // One that has told who it is may have been written to.
    let mut world = World::new(1);
    world.look();
    world.look();
    world.pass();
    world.cluster.spec.version = "3.6.15".into();
    world.settle();
    assert!(!world.log.iter().any(|line| line.starts_with("RemakeSeed")), "{}", world.log.join("\n"));
}
