//! Single decisions about a member, and the Pods that they lead to; whole ways are in `world`.

mod world;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::build::{self, InitialState, Inputs};
use super::decide::{Plan, Step, Waiting, decide};
use super::observe::{Myself, Observed, Parent, Roster};
use super::status;
use crate::api::condition;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::{EtcdMember, RestoreFailure, reason};
use crate::api::names::{operator, warden};
use crate::controller::Settings;
use crate::controller::seen::{Asked, Owned};

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn settings() -> Settings {
    Settings {
        controllers: [].into(),
        namespaces: vec![],
        agent_image: Some("registry.example/etcd-warden:1".into()),
        etcd_image_repository: "quay.io/coreos/etcd".into(),
        cluster_domain: "cluster.local".into(),
    }
}

fn member(spec: &Value, status: &Value) -> EtcdMember {
    let mut whole = json!({"clusterName": "c", "clusterToken": "ns-c-1", "version": "3.6.16", "storage": {"size": "1Gi"},
        "bootstrap": true, "initialCluster": "c-1=http://c-1.c.ns.svc:2380"});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let mut member: EtcdMember = serde_json::from_value(json!({
        "metadata": {"name": "c-1", "namespace": "ns", "uid": "member-uid", "finalizers": [operator::MEMBER_CLEANUP]},
        "spec": whole}))
    .unwrap();
    member.status = Some(serde_json::from_value(status.clone()).unwrap());
    member
}

fn cluster(status: &Value) -> EtcdCluster {
    serde_json::from_value(
        json!({"metadata": {"name": "c", "namespace": "ns", "uid": "cluster-uid"}, "status": status}),
    )
    .unwrap()
}

fn seen(member: EtcdMember) -> Observed {
    Observed {
        member: Arc::new(member),
        parent: Parent::Alive(Arc::new(cluster(&json!({})))),
        pod: Owned::Absent,
        claim: Owned::Ours(Arc::new(PersistentVolumeClaim::default())),
        siblings: vec![],
        myself: Asked::No,
        roster: Asked::No,
        others_healthy: Asked::No,
        missing: vec![],
        restore_inputs: None,
    }
}

fn pod(annotations: &Value, status: &Value) -> Owned<Pod> {
    let pod = json!({"metadata": {"name": "c-1", "uid": "pod-uid", "annotations": annotations}, "status": status});
    Owned::Ours(Arc::new(serde_json::from_value(pod).unwrap()))
}

fn steps(plan: &Plan) -> Vec<Step> {
    plan.steps.iter().map(|planned| planned.step.clone()).collect()
}

fn plan(seen: &Observed) -> Plan {
    decide(seen, Some("image"), now())
}

const RESTORE: &str = r#"{"restore": {"source": {"s3": {"endpoint": "https://s3.example", "bucket": "b", "key": "k.db",
    "credentialsSecretRef": {"name": "creds"}, "caSecretRef": {"name": "ca"}}}}}"#;

fn restoring() -> EtcdMember {
    member(&serde_json::from_str(RESTORE).unwrap(), &json!({}))
}

#[test]
fn only_a_seed_that_has_not_formed_may_form_a_cluster() {
    let fresh = member(&json!({}), &json!({}));
    let formed = cluster(&json!({"clusterID": "abc"}));
    assert_eq!(build::initial_state(&fresh, Some(&cluster(&json!({})))), InitialState::New);
    assert_eq!(build::initial_state(&fresh, Some(&formed)), InitialState::Existing);
    assert_eq!(build::initial_state(&member(&json!({}), &json!({"memberID": "1"})), None), InitialState::Existing);
    assert_eq!(build::initial_state(&member(&json!({"bootstrap": false}), &json!({})), None), InitialState::Existing);
}

#[test]
fn a_seed_that_answers_is_sealed_before_its_id_is_known_to_anybody() {
    let mut seen = seen(member(&json!({}), &json!({})));
    seen.pod = pod(&json!({warden::INITIAL_CLUSTER_STATE: "new"}), &json!({"phase": "Running"}));
    seen.myself =
        Asked::Answered(Myself { member_id: 7, version: Some("3.6.16".into()), is_learner: false, errors: vec![] });
    assert_eq!(steps(&plan(&seen)), [Step::Seal, Step::LabelVoter]);
}

#[test]
fn o1_a_seed_is_not_ready_before_the_kubelet_has_seen_that_it_is_sealed() {
    let built = build::pod(&member(&json!({}), &json!({})), Inputs { parent: None, settings: &settings() });
    let gates = built.spec.unwrap().readiness_gates.unwrap();
    assert_eq!(gates.iter().map(|gate| gate.condition_type.as_str()).collect::<Vec<_>>(), [warden::SEALED]);
    let later =
        build::pod(&member(&json!({}), &json!({"memberID": "1"})), Inputs { parent: None, settings: &settings() });
    assert_eq!(later.spec.unwrap().readiness_gates, None);

    // Annotated, but the write that opens the gate was lost.
    let mut seen = seen(member(&json!({}), &json!({"memberID": "1", "isVoter": true, "podUID": "pod-uid"})));
    let sealed = |conditions: Value| {
        let pod = json!({"metadata": {"name": "c-1", "uid": "pod-uid",
            "annotations": {warden::INITIAL_CLUSTER_STATE: "existing"}},
            "spec": {"containers": [], "readinessGates": [{"conditionType": warden::SEALED}]},
            "status": {"phase": "Running", "conditions": conditions}});
        Owned::Ours(Arc::new(serde_json::from_value(pod).unwrap()))
    };
    seen.pod = sealed(json!([]));
    assert_eq!(steps(&plan(&seen)), [Step::Seal]);
    seen.pod = sealed(json!([{"type": warden::SEALED, "status": "True"}]));
    assert_eq!(steps(&plan(&seen)), []);
}

#[test]
fn o1_a_restore_is_only_in_the_pod_of_a_seed_that_has_not_formed() {
    let settings = settings();
    let member = restoring();
    let of = |parent: &EtcdCluster| build::pod(&member, Inputs { parent: Some(parent), settings: &settings });
    let init = |pod: Pod| pod.spec.unwrap().init_containers.unwrap_or_default().len();
    assert_eq!(init(of(&cluster(&json!({})))), 2);
    assert_eq!(init(of(&cluster(&json!({"clusterID": "abc"})))), 0);
    insta::assert_json_snapshot!(of(&cluster(&json!({}))));
}

#[test]
fn a_volume_that_vanishes_after_the_member_joined_is_not_replaced_by_an_empty_one() {
    let mut seen = seen(member(&json!({}), &json!({"memberID": "1", "isVoter": true})));
    seen.claim = Owned::Absent;
    assert_eq!(steps(&plan(&seen)), []);
    assert!(matches!(plan(&seen).waiting, Waiting::DataLost(_)));

    let voter = |name: &str| {
        let mut sibling = member(&json!({}), &json!({"isVoter": true}));
        sibling.metadata.name = Some(name.into());
        Arc::new(sibling)
    };
    seen.siblings = vec![voter("c-2"), voter("c-3")];
    seen.others_healthy = Asked::Answered(1);
    assert_eq!(steps(&plan(&seen)), [], "one of three is no quorum");
    seen.others_healthy = Asked::Answered(2);
    assert_eq!(steps(&plan(&seen)), [Step::DeleteMember]);
}

#[test]
fn a_restore_that_cannot_succeed_is_recorded_first_and_stopped_then() {
    let said = json!({"task": "restore", "ok": false, "reason": "ObjectNotFound", "message": "no such key",
        "retryable": false, "durationSeconds": 0.1});
    let ended = json!({"initContainerStatuses": [{"name": "restore", "image": "", "imageID": "", "ready": false,
        "restartCount": 1, "lastState": {"terminated": {"exitCode": 3, "message": said.to_string()}},
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
    let mut seen = seen(restoring());
    seen.restore_inputs = Some("one".into());
    seen.pod = pod(&json!({}), &ended);
    let first = plan(&seen);
    assert_eq!(steps(&first), [], "the Pod that told the reason goes only once the reason is kept");
    let status = status::compute(&seen, &first, None, now());
    let failure = status.restore_failure.clone().unwrap();
    assert_eq!(
        failure,
        RestoreFailure { reason: "ObjectNotFound".into(), message: "no such key".into(), inputs: Some("one".into()) }
    );
    let ready = condition::find(status.conditions.as_deref().unwrap(), "Ready").unwrap();
    assert_eq!(ready.reason, reason::RESTORE_FAILED);

    let mut kept = restoring();
    kept.status = Some(status);
    seen.member = Arc::new(kept);
    assert_eq!(steps(&plan(&seen)), [Step::DeletePod]);
    seen.pod = Owned::Absent;
    assert_eq!(steps(&plan(&seen)), [], "not for ever");
    let status = status::compute(&seen, &plan(&seen), None, now());
    assert_eq!(status.restore_failure, Some(failure));
    seen.restore_inputs = Some("another".into());
    assert_eq!(steps(&plan(&seen)), [Step::CreatePod], "a Secret changed");
}

#[test]
fn m1_leaving_ends_whether_etcd_lists_the_member_or_not() {
    let mut going = member(&json!({}), &json!({"memberID": "1"}));
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let mut seen = seen(going);
    let roster = |listed, leads, heir| Asked::Answered(Roster { listed, leads, heir });
    seen.roster = roster(None, false, Some(2));
    assert_eq!(steps(&plan(&seen)), [Step::RemoveFinalizer]);
    seen.roster = roster(Some(1), true, Some(2));
    assert_eq!(steps(&plan(&seen)), [Step::HandOver { to: 2 }, Step::LeaveEtcd { id: 1 }, Step::RemoveFinalizer]);
    seen.roster = Asked::Failed("nobody answers".into());
    assert_eq!(steps(&plan(&seen)), [], "etcd is not left behind with a member that is gone");
    seen.parent = Parent::Going;
    assert_eq!(steps(&plan(&seen)), [Step::RemoveFinalizer], "a namesake of its cluster is none of its business");
}

#[test]
fn what_a_pod_waits_for_is_named() {
    let mut seen = seen(member(&json!({}), &json!({})));
    seen.missing = vec!["Secret creds does not exist".into()];
    let status = status::compute(&seen, &plan(&seen), None, now());
    let ready = condition::find(status.conditions.as_deref().unwrap(), "Ready").unwrap();
    assert_eq!(
        (ready.reason.as_str(), ready.message.as_str()),
        (reason::SECRET_MISSING, "The Pod waits: Secret creds does not exist.")
    );
    seen.missing.clear();
    seen.claim = Owned::Foreign;
    assert!(matches!(plan(&seen).waiting, Waiting::NameTaken(_)));
}

#[test]
fn an_evicted_pod_is_made_anew() {
    let mut seen = seen(member(&json!({}), &json!({"memberID": "1"})));
    seen.pod = pod(&json!({}), &json!({"phase": "Failed", "reason": "Evicted"}));
    assert_eq!(steps(&plan(&seen)), [Step::DeletePod]);
}

#[test]
fn m15_a_voter_that_comes_back_is_an_endpoint_from_its_first_moment_and_a_learner_is_not() {
    let settings = settings();
    let role = |voter: Value| {
        let member = member(&json!({}), &json!({"memberID": "1", "isVoter": voter}));
        let pod = build::pod(&member, Inputs { parent: None, settings: &settings });
        pod.metadata.labels.unwrap().get(operator::ROLE).cloned()
    };
    assert_eq!(role(json!(true)).as_deref(), Some(operator::ROLE_VOTER));
    assert_eq!(role(json!(false)), None);
    assert_eq!(role(Value::Null), None);
}

#[test]
fn o1_a_member_whose_pod_could_not_be_sealed_is_not_ready() {
    let seen = seen(member(&json!({}), &json!({"memberID": "1", "isVoter": true})));
    let plan = Plan { steps: Vec::new(), waiting: Waiting::Nothing, look_again: None };
    let ready = |failure: Option<&str>| {
        let status = status::compute(&seen, &plan, failure, now());
        condition::is_true(&status.conditions.unwrap(), "Ready")
    };
    assert!(ready(None));
    assert!(!ready(Some("cannot seal the Pod: the object has been modified")));
}

#[test]
fn o1_a_known_seed_is_sealed_although_its_etcd_does_not_answer_now() {
    let status = json!({"memberID": "1", "isVoter": true, "podUID": "pod-uid"});
    let mut seen = seen(member(&json!({}), &status));
    seen.pod = pod(&json!({warden::INITIAL_CLUSTER_STATE: "new"}), &json!({"phase": "Running"}));
    seen.myself = Asked::Failed("no answer".into());
    assert_eq!(steps(&plan(&seen)), [Step::Seal]);
}

#[test]
fn m13_a_member_is_given_up_only_when_the_others_themselves_say_that_they_are_a_quorum() {
    let status = |state: serde_json::Value| {
        json!({"containerStatuses": [{"name": "etcd", "ready": false, "restartCount": 9, "image": "", "imageID": "",
            "state": state}]})
    };
    let voter = json!({"memberID": "0000000000000007", "isVoter": true, "podUID": "pod-uid", "version": "3.6.16"});
    let mut crashing = seen(member(&json!({}), &voter));
    crashing.pod = pod(&json!({}), &status(json!({"waiting": {"reason": "CrashLoopBackOff"}})));
    crashing.siblings = vec![Arc::new(member(&json!({}), &voter)), Arc::new(member(&json!({}), &voter))];
    for (told, given_up) in
        [(Asked::Failed("no answer".into()), false), (Asked::Answered(1), false), (Asked::Answered(2), true)]
    {
        crashing.others_healthy = told;
        assert_eq!(steps(&plan(&crashing)).contains(&Step::DeleteMember), given_up, "{:?}", crashing.others_healthy);
    }
    // Restarts of a long life, and unready for a moment.
    crashing.pod = pod(&json!({}), &status(json!({"running": {}})));
    assert!(!steps(&plan(&crashing)).contains(&Step::DeleteMember));
}

#[test]
fn a_quota_that_is_used_up_is_named() {
    let voter = json!({"memberID": "0000000000000007", "isVoter": true, "podUID": "pod-uid", "version": "3.6.16"});
    let mut full = seen(member(&json!({}), &voter));
    full.pod = pod(&json!({}), &json!({"phase": "Running", "podIP": "10.0.0.1"}));
    let errors = vec!["memberID:7 alarm:NOSPACE ".to_owned()];
    full.myself = Asked::Answered(Myself { member_id: 7, version: Some("3.6.16".into()), is_learner: false, errors });
    assert_eq!(plan(&full).waiting, Waiting::Pod("etcd reports memberID:7 alarm:NOSPACE ".into()));
}

#[test]
fn why_an_etcd_that_runs_could_not_be_asked_is_told() {
    let mut silent = seen(member(&json!({}), &json!({})));
    silent.pod = pod(&json!({warden::INITIAL_CLUSTER_STATE: "new"}), &json!({"phase": "Running", "podIP": "10.0.0.1"}));
    silent.myself = Asked::Failed("etcd: https://10.0.0.1:2379 cannot be reached: certificate expired".into());
    let told = status::compute(&silent, &plan(&silent), None, now());
    let ready = condition::find(told.conditions.as_deref().unwrap(), "Ready").unwrap();
    assert_eq!(ready.reason, reason::POD_NOT_READY);
    assert_eq!(
        ready.message,
        "The Pod is not Ready: it does not answer yet: etcd: https://10.0.0.1:2379 cannot be reached: certificate expired."
    );
    // What the kubelet says comes first: it knows why there is nobody to ask.
    silent.pod = pod(
        &json!({}),
        &json!({"phase": "Running", "containerStatuses": [{"name": "etcd", "state": {"waiting": {"reason":
            "CrashLoopBackOff"}}, "ready": false, "restartCount": 1, "image": "", "imageID": ""}]}),
    );
    assert_eq!(plan(&silent).waiting, Waiting::Pod("container etcd waits: CrashLoopBackOff".into()));
}
