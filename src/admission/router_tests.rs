use axum::body::to_bytes;
use axum::http::Method;
use serde_json::json;
use tower::ServiceExt;

use super::*;
use crate::checks::Objects;
use crate::runtime::metrics::Metrics as Registry;

fn service() -> Service {
    Service {
        policies: InForce::default(),
        lookup: Arc::new(Objects::default()),
        client: None,
        writers: Arc::new(Writers::default()),
        metrics: Metrics::new(&Registry::new("program", "1").unwrap()).unwrap(),
        large: Arc::new(Semaphore::new(1)),
        drain: Drain::default(),
    }
}

async fn post(service: &Service, path: &str, content_type: &str, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
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
