//! Whatever is asked gets a clear answer.

use axum::http::StatusCode;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::tests::{post, service};
use super::{BODY_LIMIT, Service};

const OPERATOR: &str = "etcd-operator.cozystack.io";

/// A review about an EtcdCluster; `more` goes over the request.
fn review(more: &Value) -> Value {
    let mut request = json!({
        "uid": "0d5bf4ee", "operation": "CREATE", "namespace": "tenant", "name": "etcd",
        "kind": {"group": OPERATOR, "version": "v1alpha2", "kind": "EtcdCluster"},
        "resource": {"group": OPERATOR, "version": "v1alpha2", "resource": "etcdclusters"},
        "userInfo": {"username": "anna", "groups": ["system:authenticated"], "extra": {"k": ["v"]}},
        "object": cluster(&json!({"version": "3.4.0"})), "oldObject": null,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}, "dryRun": false,
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        match (&mut request[field], value) {
            (there @ Value::Object(_), Value::Object(_)) if field != "object" || value.get("spec").is_none() => {
                json_patch::merge(there, value);
            }
            (there, value) => *there = value.clone(),
        }
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

/// An EtcdCluster that restores; into 3.4 that is refused.
fn cluster(spec: &Value) -> Value {
    let mut whole = json!({"replicas": 1, "bootstrap": {"restore": {"source": {"s3": {
        "endpoint": "https://s3.example", "bucket": "b", "key": "k", "credentialsSecretRef": {"name": "c"}}}}}});
    json_patch::merge(&mut whole, spec);
    json!({"apiVersion": format!("{OPERATOR}/v1alpha2"), "kind": "EtcdCluster",
        "metadata": {"name": "etcd", "namespace": "tenant"}, "spec": whole})
}

async fn validated(service: &Service, review: &Value) -> Value {
    let (status, body) = post(service, "/validate?timeout=10s", "application/json", review.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["apiVersion"], review["apiVersion"]);
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    assert!(answer["response"].get("patch").is_none() && answer["response"].get("patchType").is_none());
    answer["response"].clone()
}

/// What is asked, in words and as what goes over a review, and whether it is allowed.
fn operations() -> Vec<(&'static str, Value, bool)> {
    let good = cluster(&json!({"version": "3.6.0"}));
    let bad = cluster(&json!({"version": "3.4.0"}));
    let downgraded = cluster(&json!({"version": "3.5.0"}));
    let leaving = |mut object: Value| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object
    };
    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "etcd"}, "spec": {"replicas": 2}});
    vec![
        ("creation of what cannot be restored", json!({}), false),
        ("creation of what can", json!({"object": good}), true),
        ("dry run", json!({"dryRun": true}), false),
        ("generated name", json!({"name": "", "object": {"metadata": {"name": null, "generateName": "etcd-"}}}), false),
        ("update to a lower minor", json!({"operation": "UPDATE", "object": downgraded, "oldObject": good}), false),
        ("update that changes nothing", json!({"operation": "UPDATE", "object": bad, "oldObject": bad}), true),
        (
            "update of one on its way out",
            json!({"operation": "UPDATE", "object": leaving(downgraded.clone()), "oldObject": good}),
            true,
        ),
        (
            "status",
            json!({"operation": "UPDATE", "subResource": "status", "object": downgraded, "oldObject": good}),
            true,
        ),
        (
            "scale",
            json!({"operation": "UPDATE", "subResource": "scale", "object": scale, "oldObject": scale,
            "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}),
            true,
        ),
        ("deletion", json!({"operation": "DELETE", "object": null, "oldObject": good}), true),
        (
            "connection",
            json!({"operation": "CONNECT", "subResource": "exec", "object": {"kind": "PodExecOptions"}}),
            true,
        ),
        ("a kind that is not ours", json!({"resource": {"group": "", "resource": "pods"}}), true),
        ("a version that does not exist", json!({"resource": {"version": "v9"}}), false),
        ("no user", json!({"userInfo": null}), false),
        ("an object that is a list", json!({"object": [1, 2]}), true),
        ("an object that is a text", json!({"object": "text"}), true),
        ("update without an old object", json!({"operation": "UPDATE", "object": bad, "oldObject": null}), false),
        ("deletion with nothing", json!({"operation": "DELETE", "object": null, "oldObject": null}), true),
    ]
}

#[tokio::test]
async fn every_operation_and_subresource_gets_its_verdict() {
    let service = service();
    for (what, more, allowed) in operations() {
        for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
            let mut review = review(&more);
            review["apiVersion"] = json!(version);
            let response = validated(&service, &review).await;
            if what.starts_with("an object that is") {
                // Nothing of the API server's; that there is an answer is all that is asked for.
                continue;
            }
            assert_eq!(response["allowed"], allowed, "{what}, {version}: {response}");
            if !allowed {
                assert_eq!(response["status"]["code"], 422, "{what}");
                assert!(!response["status"]["message"].as_str().unwrap().is_empty(), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn fields_that_are_null_are_fields_that_are_absent() {
    let service = service();
    for field in
        ["name", "namespace", "subResource", "userInfo", "dryRun", "options", "object", "oldObject", "resource", "kind"]
    {
        let mut review = review(&json!({}));
        review["request"][field] = Value::Null;
        let with_null = validated(&service, &review).await;
        review["request"].as_object_mut().unwrap().remove(field);
        assert_eq!(validated(&service, &review).await, with_null, "{field}");
    }
}

#[tokio::test]
async fn what_cannot_be_judged_is_told_apart() {
    let service = service();
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let mut large = review(&json!({}));
    large["request"]["object"]["metadata"]["annotations"] = json!({"a": "x".repeat(3 << 20)});
    large["request"]["oldObject"] = large["request"]["object"].clone();
    large["request"]["operation"] = json!("UPDATE");
    let nested = review(&json!({})).to_string().replace(r#""3.4.0""#, &deep(10_000));
    let invalid =
        review(&json!({})).to_string().into_bytes().into_iter().map(|b| if b == b'3' { 0xff } else { b }).collect();
    let twice =
        review(&json!({})).to_string().replace(r#""version":"3.4.0""#, r#""version":"3.6.0","version":"3.4.0""#);
    let top_twice = review(&json!({})).to_string().replacen(r#""uid":"#, r#""uid":"other","uid":"#, 1);
    let no_request = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#.to_vec();
    let cases: [(&str, Vec<u8>, StatusCode); 9] = [
        ("two objects of 3 MiB", large.to_string().into_bytes(), StatusCode::OK),
        ("an object 10,000 deep", nested.into_bytes(), StatusCode::OK),
        ("a body 10,000 deep", deep(10_000).into_bytes(), StatusCode::BAD_REQUEST),
        ("invalid UTF-8", invalid, StatusCode::BAD_REQUEST),
        ("a key twice in an object", twice.into_bytes(), StatusCode::OK),
        ("a key twice in the request", top_twice.into_bytes(), StatusCode::BAD_REQUEST),
        ("no request", no_request, StatusCode::BAD_REQUEST),
        (
            "an operation that does not exist",
            review(&json!({"operation": "PATCH"})).to_string().into_bytes(),
            StatusCode::BAD_REQUEST,
        ),
        ("more than the limit", vec![b' '; BODY_LIMIT + 1], StatusCode::PAYLOAD_TOO_LARGE),
    ];
    for path in ["/validate", "/mutate"] {
        for (what, body, expected) in cases.clone() {
            let (status, answer) = post(&service, path, "application/json", body).await;
            assert_eq!(status, expected, "{path}: {what}: {}", String::from_utf8_lossy(&answer));
            assert!(!answer.is_empty(), "{what}");
        }
    }
    // The last of two keys counts, as it does for the API server's own decoder of stored objects.
    let (_, answer) = post(&service, "/validate", "application/json", cases[4].1.clone()).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"]["allowed"], false);
    let (_, answer) = post(&service, "/validate", "application/json", cases[1].1.clone()).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((&answer["response"]["allowed"], &answer["response"]["status"]["code"]), (&json!(false), &json!(400)));
}

const WORDS: [&str; 33] = [
    "spec",
    "metadata",
    "status",
    "name",
    "namespace",
    "annotations",
    "labels",
    "version",
    "replicas",
    "bootstrap",
    "restore",
    "source",
    "s3",
    "pvc",
    "endpoint",
    "bucket",
    "key",
    "template",
    "destination",
    "strategies",
    "strategyRef",
    "applicationRef",
    "apiGroup",
    "kind",
    "schedule",
    "options",
    "restoreTimeoutSeconds",
    "backupRef",
    "targetApplicationRef",
    "clusterRef",
    "etcd-warden.io/allow-downgrade",
    "deletionTimestamp",
    "generateName",
];

/// Any JSON, with the words that mean something to us among its keys and texts.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(WORDS.to_vec());
    let texts = prop_oneof![
        words.clone().prop_map(str::to_owned),
        "\\PC{0,12}",
        prop::sample::select(vec![
            "3.4.0",
            "Etcd",
            "{{ .Application.metadata.name }}",
            "{{",
            "* * * * *",
            "s3://b/k",
            "null"
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((words.clone(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
        ]
    })
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let resources = prop::sample::select(crate::checks::Kind::ALL.to_vec());
    let operation = prop::sample::select(vec!["CREATE", "UPDATE", "DELETE", "CONNECT", "create", ""]);
    let subresource = prop::sample::select(vec!["", "scale", "status", "exec"]);
    let reviews = (resources, operation, subresource, any_json(), any_json(), any_json()).prop_map(
        |(kind, operation, subresource, object, old, more)| {
            let mut review = review(&json!({
                "operation": operation, "subResource": subresource,
                "resource": {"group": kind.group(), "version": kind.version(), "resource": kind.plural()},
            }));
            review["request"]["object"] = json!({"apiVersion": format!("{}/{}", kind.group(), kind.version()),
                "kind": kind.name(), "metadata": more, "spec": object});
            review["request"]["oldObject"] = old;
            review.to_string().into_bytes()
        },
    );
    let cut = (reviews, any::<prop::sample::Index>(), any::<u8>(), 0..4u8).prop_map(|(mut body, at, byte, how)| {
        match how {
            0 => body.truncate(at.index(body.len())),
            1 => {
                let at = at.index(body.len());
                body[at] = byte;
            }
            _ => {}
        }
        body
    });
    prop_oneof![
        8 => cut,
        1 => any_json().prop_map(|json| json.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

#[test]
fn ten_thousand_bodies_are_answered_without_a_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = service();
    let config = Config { cases: 10_000, failure_persistence: None, ..Config::default() };
    let asked = TestRunner::new(config).run(&(any_body(), any::<bool>()), |(body, mutate)| {
        let path = if mutate { "/mutate?timeout=10s" } else { "/validate?timeout=10s" };
        let (status, answer) = runtime.block_on(post(&service, path, "application/json", body));
        prop_assert!(matches!(status, StatusCode::OK | StatusCode::BAD_REQUEST), "{path}: {status}");
        prop_assert!(!answer.is_empty());
        if status == StatusCode::OK {
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            prop_assert!(answer["response"]["uid"].is_string() && answer["response"]["allowed"].is_boolean());
        }
        Ok(())
    });
    asked.unwrap();
    assert_eq!(service.metrics.panics.get(), 0);
}
