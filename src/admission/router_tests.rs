use axum::body::{Body, to_bytes};
use axum::http::Method;
use serde_json::json;
use tower::ServiceExt;

use super::*;
use crate::checks::Objects;
use crate::runtime::metrics::Metrics as Registry;

pub(super) fn service() -> Service {
    Service {
        policies: InForce::default(),
        lookup: Arc::new(Objects::default()),
        client: None,
        writers: Arc::new(Writers::default()),
        metrics: Metrics::new(&Registry::new("program", "1").unwrap()).unwrap(),
        turns: Turns::default(),
        drain: Drain::default(),
    }
}

pub(super) async fn post(
    service: &Service,
    path: &str,
    content_type: &str,
    body: impl Into<Body>,
) -> (StatusCode, Vec<u8>) {
    let request = HttpRequest::builder()
        .method(Method::POST)
        .uri(path)
        .header(CONTENT_TYPE, content_type)
        .body(body.into())
        .unwrap();
    let response = router(service.clone()).oneshot(request).await.unwrap();
    let status = response.status();
    (status, to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec())
}

fn pvc_strategy() -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE",
        "resource": {"group": "strategy.backups.cozystack.io", "version": "v1alpha1", "resource": "etcds"},
        "kind": {"group": "strategy.backups.cozystack.io", "version": "v1alpha1", "kind": "Etcd"},
        "object": {"metadata": {"name": "s"}, "spec": {"template": {"destination": {"pvc": {"claimName": "c"}}}}},
    }})
}

#[tokio::test]
async fn a_refusal_is_counted_and_answered_with_200() {
    let service = service();
    let (status, body) = post(&service, "/validate?timeout=10s", "application/json", pvc_strategy().to_string()).await;
    assert_eq!(status, StatusCode::OK);
    let review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(review["response"]["status"]["details"]["causes"].as_array().unwrap().len(), 2);
    let count = |policy: &str| service.metrics.findings.with_label_values(&[policy, "Deny", "Etcd"]).get();
    assert_eq!(count("strategy-s3-only"), 2);
    assert_eq!(service.metrics.requests.with_label_values(&["/validate", "200"]).get(), 1);
}

#[tokio::test]
async fn what_is_no_review_gets_a_status_that_says_so() {
    let service = service();
    let large = vec![b' '; BODY_LIMIT + 1];
    for (content_type, body, expected) in [
        ("text/plain", b"{}".to_vec(), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("application/json; charset=utf-8", Vec::new(), StatusCode::BAD_REQUEST),
        ("application/json", b"nonsense".to_vec(), StatusCode::BAD_REQUEST),
        ("application/json", large, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let (status, body) = post(&service, "/validate", content_type, body).await;
        assert_eq!(status, expected);
        assert!(!body.is_empty());
    }
}

#[tokio::test]
async fn a_large_review_is_judged_too() {
    let mut review = pvc_strategy();
    review["request"]["object"]["metadata"]["annotations"] = json!({"a": "x".repeat(3 * 1024 * 1024)});
    let (status, body) = post(&service(), "/validate", "application/json", review.to_string()).await;
    assert_eq!(status, StatusCode::OK);
    let review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(review["response"]["allowed"], false);
}

#[test]
fn we_answer_before_the_callers_time_is_up() {
    let within = |uri: &str| answer_within(&uri.parse().unwrap());
    assert_eq!(within("/validate?timeout=10s"), Duration::from_secs(9));
    assert_eq!(within("/validate?a=b&timeout=1s"), Duration::from_millis(900));
    for odd in ["/validate", "/validate?timeout=x", "/validate?timeout=-1s", "/validate?timeout=99999s"] {
        assert_eq!(within(odd), Duration::from_secs(9), "{odd}");
    }
}

#[tokio::test]
async fn a_stop_waits_until_it_is_quiet() {
    let service = service();
    let drain = service.drain.clone();
    let quiet = tokio::spawn(async move { drain.quiet_for(Duration::from_millis(300)).await });
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(!quiet.is_finished());
        post(&service, "/validate", "application/json", pvc_strategy().to_string()).await;
    }
    quiet.await.unwrap();
}

/// Knows nothing, and panics when it is asked.
struct Broken;

impl Lookup for Broken {
    fn get(&self, _: Kind, _: Option<&str>, _: &str) -> crate::checks::Known<Arc<Value>> {
        panic!("a fault in a rule")
    }

    fn list(&self, _: Kind, _: Option<&str>) -> crate::checks::Known<Vec<Arc<Value>>> {
        panic!("a fault in a rule")
    }
}

fn cluster_review(annotation: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "namespace": "a", "name": "etcd",
        "resource": {"group": "etcd-operator.cozystack.io", "version": "v1alpha2", "resource": "etcdclusters"},
        "object": {"metadata": {"name": "etcd", "annotations": {"a": annotation}}, "spec": {"version": "3.6.0", "replicas": 1}},
    }})
}

#[tokio::test]
async fn a_panic_is_answered_and_counted_whatever_the_size() {
    let service = Service { lookup: Arc::new(Broken), ..service() };
    for (times, annotation) in [(1, String::new()), (2, "x".repeat(2 * INLINE))] {
        let (status, body) =
            post(&service, "/validate", "application/json", cluster_review(&annotation).to_string()).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!body.is_empty());
        assert_eq!(service.metrics.panics.get(), times);
        assert_eq!(service.metrics.in_flight.with_label_values(&["/validate"]).get(), 0);
    }
}

#[tokio::test]
async fn who_has_no_turn_in_time_is_told_so_and_the_turn_is_not_lost() {
    let service = service();
    let all = service.turns.judged.acquire_many(u32::try_from(JUDGED_AT_A_TIME).unwrap()).await.unwrap();
    let (status, body) = post(&service, "/validate?timeout=0.2s", "application/json", pvc_strategy().to_string()).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(String::from_utf8_lossy(&body).contains("in time"));
    drop(all);
    let (status, _) = post(&service, "/validate", "application/json", pvc_strategy().to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(service.turns.judged.available_permits(), JUDGED_AT_A_TIME);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let service = service();
    for (path, expected) in [
        ("/validate?timeout=30s", StatusCode::REQUEST_TIMEOUT),
        ("/validate?timeout=0.3s", StatusCode::GATEWAY_TIMEOUT),
    ] {
        let beginning = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 2 * INLINE]))]);
        let body = Body::from_stream(beginning.chain(futures::stream::pending()));
        let started = tokio::time::Instant::now();
        let (status, _) = post(&service, path, "application/json", body).await;
        assert_eq!(status, expected);
        assert!(started.elapsed() <= BODY_WITHIN + Duration::from_secs(2));
    }
    assert_eq!(service.turns.large.available_permits(), LARGE_AT_A_TIME / KIB);
}

#[tokio::test]
async fn large_bodies_are_held_few_at_a_time_and_small_ones_pass_them_by() {
    let service = service();
    let all = service.turns.large.acquire_many(u32::try_from(LARGE_AT_A_TIME / KIB).unwrap()).await.unwrap();
    let large = cluster_review(&"x".repeat(2 * INLINE)).to_string();
    let (status, _) = post(&service, "/validate?timeout=0.2s", "application/json", large.clone()).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    let (status, _) = post(&service, "/validate", "application/json", cluster_review("").to_string()).await;
    assert_eq!(status, StatusCode::OK);
    drop(all);
    // Checks have a place of their own, and take none from reviews.
    let checks = service.turns.large_checks.acquire_many(u32::try_from(BODY_LIMIT / KIB).unwrap()).await.unwrap();
    let (status, _) = post(&service, "/check?timeout=0.2s", "application/json", large.clone()).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    let (status, _) = post(&service, "/validate", "application/json", large.clone()).await;
    assert_eq!(status, StatusCode::OK);
    drop(checks);
    let (status, _) = post(&service, "/validate", "application/json", large).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_check_reports_on_documents_lists_and_questions() {
    let service = service();
    let strategy = &pvc_strategy()["request"]["object"];
    let mut strategy = strategy.clone();
    strategy["apiVersion"] = json!("strategy.backups.cozystack.io/v1alpha1");
    strategy["kind"] = json!("Etcd");
    let documents = format!("# two\n{strategy}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\n");
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [strategy, {"apiVersion": "v1", "kind": "ConfigMap"}]});
    let question = json!({"objects": [strategy, {"apiVersion": "v1", "kind": "ConfigMap"}], "user": "anna"});
    for (source, body) in [("body:", documents), ("body:", list.to_string()), ("objects[0]", question.to_string())] {
        let (status, answer) = post(&service, "/check", "application/yaml", body).await;
        assert_eq!(status, StatusCode::OK);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["passedOver"], 1, "{answer}");
        let [object] = answer["objects"].as_array().unwrap().as_slice() else { panic!("{answer}") };
        assert!(object["source"].as_str().unwrap().starts_with(source), "{answer}");
        assert_eq!(
            (&object["kind"], &object["name"], &object["allowed"]),
            (&json!("Etcd"), &json!("s"), &json!(false))
        );
        let fields: Vec<&Value> = object["findings"].as_array().unwrap().iter().map(|found| &found["field"]).collect();
        assert_eq!(fields, ["spec.template.destination.pvc", "spec.template.destination.s3"]);
    }
    let update = json!({"objects": [strategy], "old": [strategy], "operation": "UPDATE"});
    let (_, answer) = post(&service, "/check", "application/json", update.to_string()).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["objects"][0]["allowed"], true, "nothing changes");
    for wrong in [
        "",
        "a: [",
        r#"{"objects": []}"#,
        r#"{"objects": [{}], "operation": "PATCH"}"#,
        r#"{"objects": [{}], "as": 1}"#,
    ] {
        let (status, answer) = post(&service, "/check", "application/yaml", wrong).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong:?}: {}", String::from_utf8_lossy(&answer));
    }
}

/// Takes its time over every answer.
struct Slow(Duration);

impl Lookup for Slow {
    fn get(&self, _: Kind, _: Option<&str>, _: &str) -> crate::checks::Known<Arc<Value>> {
        std::thread::sleep(self.0);
        crate::checks::Known::Absent
    }

    fn list(&self, _: Kind, _: Option<&str>) -> crate::checks::Known<Vec<Arc<Value>>> {
        crate::checks::Known::Absent
    }
}

#[tokio::test]
async fn a_check_holds_up_nobody_and_keeps_its_place_until_it_ends() {
    let service = Service { lookup: Arc::new(Slow(Duration::from_millis(1500))), ..service() };
    let job = "{apiVersion: backups.cozystack.io/v1alpha1, kind: BackupJob, metadata: {name: j, namespace: a}, \
               spec: {applicationRef: {kind: Etcd, name: etcd}, backupClassName: k}}";
    let started = std::time::Instant::now();
    let (status, _) = post(&service, "/check?timeout=0.3s", "application/yaml", job).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(started.elapsed() < Duration::from_millis(1400), "{:?}", started.elapsed());
    assert_eq!(service.turns.checked.available_permits(), CHECKED_AT_A_TIME - 1, "the work goes on");
    let (status, _) = post(&service, "/validate", "application/json", pvc_strategy().to_string()).await;
    assert_eq!(status, StatusCode::OK);
    let all = service.turns.checked.acquire_many(u32::try_from(CHECKED_AT_A_TIME).unwrap());
    let all = tokio::time::timeout(Duration::from_secs(30), all).await.expect("its place is free again").unwrap();
    let (status, _) = post(&service, "/check?timeout=0.2s", "application/yaml", job).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    drop(all);
}
