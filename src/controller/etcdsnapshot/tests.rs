//! Decisions, the Job and the status, over observations made by hand.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::{Plan, Standing, Step, decide};
use super::observe::{Observed, Source, Tries};
use super::{build, status};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::etcdsnapshot::{EtcdSnapshot, phase};
use crate::controller::agent_pod::Ended;
use crate::controller::seen::Owned;

const IMAGE: Option<&str> = Some("warden:1");

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn snapshot(phase: Option<&str>) -> Arc<EtcdSnapshot> {
    object(json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": "snapshot-uid", "generation": 1, "creationTimestamp": at(0)},
        "spec": {
            "clusterRef": {"name": "etcd"},
            "destination": {"s3": {"endpoint": "s3.example", "bucket": "b", "key": "ns/etcd/", "credentialsSecretRef": {"name": "creds"},
                "caSecretRef": {"name": "ca"}}},
        },
        "status": {"phase": phase},
    }))
}

fn cluster(extra: &Value) -> Arc<EtcdCluster> {
    let mut cluster = json!({
        "metadata": {"name": "etcd", "namespace": "ns", "uid": "cluster-uid"},
        "spec": {"version": "3.6.16", "imagePullSecrets": [{"name": "pull"}]},
        "status": {"clusterID": "1"},
    });
    json_patch::merge(&mut cluster, extra);
    object(cluster)
}

fn fresh() -> Observed {
    Observed {
        snapshot: snapshot(None),
        source: Source::Found(cluster(&json!({}))),
        members: Vec::new(),
        job: Ok(Owned::Absent),
        tries: Tries::default(),
        before: None,
        refused: None,
    }
}

#[test]
fn what_the_rules_refuse_never_begins() {
    let seen = Observed { refused: Some("spec.destination.s3.key: begins with '/'".into()), ..fresh() };
    let plan = decide(&seen, Some("agent"), at(0));
    assert_eq!(plan.step, None);
    let Standing::Failed { reason, message } = plan.standing else { panic!("{:?}", plan.standing) };
    assert_eq!(reason, "Refused");
    assert!(message.starts_with("spec.destination.s3.key: begins with '/'. Correct it"), "{message}");
    // What is under way goes on.
    let running = Observed { refused: seen.refused.clone(), ..with_job(None) };
    assert!(matches!(decide(&running, Some("agent"), at(0)).standing, Standing::Started { .. }));
}

fn with_job(condition: Option<(&str, i64)>) -> Observed {
    let conditions: Vec<Value> = condition
        .iter()
        .map(|(type_, second)| json!({"type": type_, "status": "True", "lastTransitionTime": at(*second), "reason": "BackoffLimitExceeded"}))
        .collect();
    let job: Arc<Job> = object(json!({
        "metadata": {"name": "s-snapshot"}, "spec": {"backoffLimit": 3, "template": {}}, "status": {"conditions": conditions},
    }));
    Observed { snapshot: snapshot(Some(phase::STARTED)), job: Ok(Owned::Ours(job)), ..fresh() }
}

fn ended(code: i32, ok: bool, reason: &str) -> Ended {
    let report = json!({
        "task": "snapshot", "ok": ok, "reason": reason, "message": "what the agent says.", "retryable": false, "durationSeconds": 1.5,
        "artifact": if ok { json!({"uri": "s3://b/ns/etcd/s.db", "sizeBytes": 2080, "sha256": "ab", "revision": 7, "etcdVersion": "3.6.16",
            "clusterID": "1", "consistency": "linearizable"}) } else { Value::Null },
    });
    Ended { code, reason: "Completed".to_owned(), report: Some(serde_json::from_value(report).unwrap()) }
}

fn failed_reason(plan: &Plan) -> &'static str {
    match &plan.standing {
        Standing::Failed { reason, .. } => reason,
        other => panic!("not failed: {other:?}"),
    }
}

fn message(plan: &Plan) -> &str {
    match &plan.standing {
        Standing::Failed { message, .. } | Standing::Started { message, .. } | Standing::Pending { message, .. } => {
            message
        }
        Standing::Complete(_) | Standing::Ended => panic!("no message: {plan:?}"),
    }
}

#[test]
fn a_snapshot_of_a_cluster_that_is_there_gets_its_job() {
    assert_eq!(decide(&fresh(), IMAGE, at(0)).step, Some(Step::CreateJob));
}

#[test]
fn what_can_never_succeed_fails_at_once_with_its_reason() {
    assert_eq!(failed_reason(&decide(&fresh(), None, at(0))), "OperatorImageNotConfigured");
    let absent = Observed { source: Source::Absent, ..fresh() };
    assert_eq!(failed_reason(&decide(&absent, IMAGE, at(0))), "ClusterNotFound");
    let mut nowhere = fresh();
    Arc::make_mut(&mut nowhere.snapshot).spec.destination.s3 = None;
    assert_eq!(failed_reason(&decide(&nowhere, IMAGE, at(0))), "InvalidDestination");
}

#[test]
fn a_cluster_that_cannot_be_read_is_waited_for_but_not_for_ever() {
    let unknown = Observed { source: Source::Unknown("etcdserver: request timed out".into()), ..fresh() };
    let plan = decide(&unknown, IMAGE, at(60));
    assert!(matches!(plan.standing, Standing::Pending { .. }) && plan.look_again.is_some(), "{plan:?}");
    assert!(message(&decide(&unknown, IMAGE, at(901))).contains("request timed out"));
    assert_eq!(failed_reason(&decide(&unknown, IMAGE, at(901))), "ClusterUnavailable");
}

#[test]
fn s8_what_is_stored_counts_though_the_cluster_is_gone() {
    let mut seen = with_job(Some(("Complete", 10)));
    seen.source = Source::Absent;
    seen.tries.ended = vec![ended(0, true, "Completed")];
    assert!(matches!(decide(&seen, IMAGE, at(11)).standing, Standing::Complete(_)));
}

#[test]
fn s7_a_job_that_ended_well_is_lost_only_when_its_word_does_not_come() {
    let seen = with_job(Some(("Complete", 10)));
    assert!(matches!(decide(&seen, IMAGE, at(12)).standing, Standing::Started { .. }));
    assert_eq!(failed_reason(&decide(&seen, IMAGE, at(41))), "SnapshotJobLost");
}

#[test]
fn s9_a_failed_job_says_what_the_agent_said() {
    let mut seen = with_job(Some(("Failed", 10)));
    seen.tries.ended = vec![ended(1, false, "StoreUnreachable"), ended(3, false, "BucketNotFound")];
    let plan = decide(&seen, IMAGE, at(11));
    assert_eq!(failed_reason(&plan), "JobFailed");
    assert_eq!(message(&plan), "BucketNotFound: what the agent says.");
}

#[test]
fn a_lost_job_is_not_a_failed_one() {
    let lost = Observed { snapshot: snapshot(Some(phase::STARTED)), ..fresh() };
    assert_eq!(failed_reason(&decide(&lost, IMAGE, at(1))), "SnapshotJobLost");
    let unknown = Observed { job: Err("connection refused".into()), ..lost };
    assert!(matches!(decide(&unknown, IMAGE, at(1)).standing, Standing::Started { .. }));
}

#[test]
fn one_snapshot_of_a_cluster_at_a_time() {
    let waits = Observed { before: Some("other".into()), ..fresh() };
    let plan = decide(&waits, IMAGE, at(0));
    assert_eq!(plan.step, None);
    assert!(message(&plan).contains("other"));
}

#[test]
fn a_cluster_whose_authentication_is_not_latched_is_waited_for() {
    let wanted = json!({"spec": {"auth": {"enabled": true, "rootCredentialsSecretRef": {"name": "root"}}}});
    let waits = Observed { source: Source::Found(cluster(&wanted)), ..fresh() };
    assert_eq!(decide(&waits, IMAGE, at(60)).step, None);
    assert_eq!(failed_reason(&decide(&waits, IMAGE, at(900))), "AuthLatchTimeout");
}

#[test]
fn while_it_is_tried_again_the_last_failure_is_told() {
    let mut seen = with_job(None);
    seen.tries = Tries { ended: vec![ended(1, false, "StoreUnreachable")], trouble: Some("the agent runs".into()) };
    let plan = decide(&seen, IMAGE, at(5));
    assert_eq!(
        message(&plan),
        "Try 2 of 4: the agent runs. The last one ended with StoreUnreachable: what the agent says."
    );
}

#[test]
fn an_end_is_final_and_its_job_is_let_go_only_then() {
    for ending in [phase::COMPLETE, phase::FAILED] {
        let seen = Observed { snapshot: snapshot(Some(ending)), ..with_job(Some(("Complete", 1))) };
        let plan = decide(&seen, IMAGE, at(9999));
        assert_eq!((plan.standing, plan.step), (Standing::Ended, Some(Step::ExpireJob)));
    }
}

/// S5: revision, version and cluster of the source are recorded.
#[test]
fn the_status_holds_what_the_agent_told() {
    let mut seen = with_job(Some(("Complete", 10)));
    seen.tries.ended = vec![ended(0, true, "Completed")];
    let plan = decide(&seen, IMAGE, at(11));
    insta::assert_json_snapshot!(status::compute(&seen, &plan, None, at(11)));
}

#[test]
fn a_write_that_failed_leaves_the_snapshot_where_it_stood() {
    let seen = fresh();
    let plan = decide(&seen, IMAGE, at(0));
    let status = status::compute(&seen, &plan, Some("cannot make the Job: quota"), at(0));
    assert_eq!(status.phase.as_deref(), Some(phase::PENDING));
    assert!(status.conditions.unwrap()[0].message.contains("quota"));
}

fn tls_cluster() -> Arc<EtcdCluster> {
    cluster(&json!({
        "spec": {
            "tls": {"client": {"serverSecretRef": {"name": "server"}, "operatorClientSecretRef": {"name": "operator"}}},
            "auth": {"enabled": true, "rootCredentialsSecretRef": {"name": "root"}},
        },
        "status": {"authEnabled": true},
    }))
}

#[test]
fn the_job_of_a_cluster_with_tls_and_authentication() {
    let member: Arc<EtcdMember> = object(json!({
        "metadata": {"name": "etcd-abcde", "namespace": "ns"},
        "spec": {"clusterName": "etcd", "tls": {"clientServerSecretRef": {"name": "server"}, "clientMTLS": true}},
    }));
    let (snapshot, cluster) = (snapshot(None), tls_cluster());
    let inputs = build::Inputs { snapshot: &snapshot, cluster: &cluster, members: &[member], image: "warden:1" };
    insta::assert_json_snapshot!(build::job(inputs));
}

#[test]
fn s3_the_pods_of_a_snapshot_are_no_endpoints_of_the_cluster() {
    let (snapshot, cluster) = (snapshot(None), tls_cluster());
    let inputs = build::Inputs { snapshot: &snapshot, cluster: &cluster, members: &[], image: "warden:1" };
    let labels = build::job(inputs).spec.unwrap().template.metadata.unwrap().labels.unwrap();
    assert!(!labels.keys().any(|key| key.starts_with(crate::api::names::operator::PREFIX)), "{labels:?}");
}

#[test]
fn s12_the_job_is_pulled_and_placed_like_the_members() {
    let nodes = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}});
    let (snapshot, cluster) = (snapshot(None), cluster(&json!({"spec": {"affinity": {"nodeAffinity": nodes}}})));
    let inputs = build::Inputs { snapshot: &snapshot, cluster: &cluster, members: &[], image: "warden:1" };
    let pod = build::job(inputs).spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.image_pull_secrets, cluster.spec.image_pull_secrets);
    assert!(pod.affinity.is_some_and(|affinity| affinity.node_affinity.is_some()));
}

#[test]
fn s13_of_the_servers_secret_only_the_authority_is_mounted() {
    let (snapshot, cluster) = (snapshot(None), tls_cluster());
    let inputs = build::Inputs { snapshot: &snapshot, cluster: &cluster, members: &[], image: "warden:1" };
    let volumes = build::job(inputs).spec.unwrap().template.spec.unwrap().volumes.unwrap();
    let of_server = volumes.iter().filter_map(|volume| volume.secret.as_ref());
    let of_server = of_server.filter(|secret| secret.secret_name.as_deref() == Some("server"));
    let keys: Vec<String> = of_server.flat_map(|secret| secret.items.clone().unwrap()).map(|item| item.key).collect();
    assert_eq!(keys, ["ca.crt"]);
}

#[test]
fn n4_a_cluster_that_never_formed_can_be_snapshot() {
    let failed = json!([{"type": "Available", "status": "False", "reason": "BootstrapFailed", "message": "",
        "lastTransitionTime": at(0)}]);
    let source = Source::Found(cluster(&json!({"status": {"clusterID": null, "conditions": failed}})));
    assert_eq!(decide(&Observed { source, ..fresh() }, IMAGE, at(0)).step, Some(Step::CreateJob));
}

/// A snapshot's whole way, with every step done twice, as after a crash between the step and its record.
#[test]
fn a_snapshot_whose_every_step_is_done_twice_takes_one() {
    let mut job: Option<Job> = None;
    let mut jobs_made = 0;
    let mut seen = fresh();
    let mut log = Vec::new();
    for second in 0..10 {
        let there = job.clone().map(Arc::new);
        seen.job = Ok(there.map_or(Owned::Absent, Owned::Ours));
        let plan = decide(&seen, IMAGE, at(second));
        for step in plan.step.iter().flat_map(|step| [step, step]) {
            log.push(format!("{step:?}"));
            match step {
                Step::CreateJob if job.is_some() => {}
                Step::CreateJob => {
                    jobs_made += 1;
                    let (snapshot, cluster) = (&seen.snapshot, cluster(&json!({})));
                    let inputs = build::Inputs { snapshot, cluster: &cluster, members: &[], image: "warden:1" };
                    job = Some(build::job(inputs));
                }
                Step::ExpireJob => {
                    let spec = job.as_mut().unwrap().spec.as_mut().unwrap();
                    spec.ttl_seconds_after_finished = Some(build::KEPT_SECONDS);
                }
            }
        }
        let status = status::compute(&seen, &plan, None, at(second));
        Arc::make_mut(&mut seen.snapshot).status = Some(status);
        // The Job's Pod runs for a while, and tells; then the Job controller says so, too.
        if second == 3 {
            seen.tries.ended = vec![ended(0, true, "Completed")];
            let complete =
                json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(second)}]});
            job.as_mut().unwrap().status = Some(serde_json::from_value(complete).unwrap());
        }
    }
    assert_eq!((jobs_made, log), (1, ["CreateJob", "CreateJob", "ExpireJob", "ExpireJob"].map(str::to_owned).to_vec()));
    assert_eq!(seen.snapshot.phase(), Some(phase::COMPLETE));
}
