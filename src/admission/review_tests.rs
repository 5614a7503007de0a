use super::*;

fn review(version: &str, request: &Value) -> Vec<u8> {
    serde_json::to_vec(&json!({"apiVersion": version, "kind": "AdmissionReview", "request": request})).unwrap()
}

fn request() -> Value {
    json!({
        "uid": "u-1", "operation": "CREATE", "namespace": "tenant-a",
        "kind": {"group": "backups.cozystack.io", "version": "v1alpha1", "kind": "RestoreJob"},
        "userInfo": {"username": "anna", "groups": ["x"], "extra": {"k": ["v"]}},
        "object": {"metadata": {"generateName": "back-"}, "spec": {"n": 18_446_744_073_709_551_615u64}},
        "oldObject": null, "options": {"kind": "CreateOptions"}, "dryRun": true,
    })
}

#[test]
fn both_versions_are_read_and_answered_in_kind() {
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let request = Request::parse(&review(version, &request())).unwrap();
        assert_eq!(request.user, "anna");
        assert!(request.dry_run && request.old_object.is_none());
        assert_eq!(request.display_name(), "back-");
        let answer = request.answer(&Verdict::default());
        assert_eq!(
            answer,
            json!({"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": "u-1", "allowed": true}})
        );
    }
}

#[test]
fn every_finding_is_told() {
    let request = Request::parse(&review("admission.k8s.io/v1", &request())).unwrap();
    let verdict = Verdict {
        findings: vec![
            Finding::deny("rule-a", "spec.a", "is wrong"),
            Finding::deny("rule-b", "spec.b[1]", "is\nwrong\u{7} too"),
            Finding::warn("rule-c", "spec.c", "is\todd"),
            Finding { action: Action::Audit, ..Finding::warn("rule-d", "", "noted") },
        ],
    };
    let answer = request.answer(&verdict);
    let response = &answer["response"];
    assert_eq!(response["allowed"], false);
    assert_eq!(
        response["status"],
        json!({
            "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "2 faults: 1) spec.a: is wrong (etcd-warden: rule-a); \
                        2) spec.b[1]: is wrong  too (etcd-warden: rule-b)",
            "details": {"group": "backups.cozystack.io", "kind": "RestoreJob", "name": "back-", "causes": [
                {"reason": "FieldValueInvalid", "field": "spec.a", "message": "is wrong (etcd-warden: rule-a)"},
                {"reason": "FieldValueInvalid", "field": "spec.b[1]", "message": "is wrong  too (etcd-warden: rule-b)"},
            ]},
        })
    );
    assert_eq!(response["warnings"], json!(["spec.c: is odd (etcd-warden: rule-c)"]));
    assert_eq!(response["auditAnnotations"], json!({"rule-d": "noted (etcd-warden: rule-d)"}));
}

#[test]
fn an_answer_stays_small_however_much_is_wrong() {
    let request = Request::parse(&review("admission.k8s.io/v1", &request())).unwrap();
    let warnings = (0..50_000).map(|at| Finding::warn("rule", &format!("spec.a{at}"), "is odd"));
    let denials = (0..50_000).map(|at| Finding::deny("rule", &format!("spec.b{at}"), "is wrong ".repeat(1000)));
    let answer = request.answer(&Verdict { findings: warnings.chain(denials).collect() });
    let response = &answer["response"];
    let count = |list: &Value| list.as_array().unwrap().len();
    assert_eq!((count(&response["warnings"]), count(&response["status"]["details"]["causes"])), (101, 100));
    assert_eq!(response["warnings"][100], "and 49900 more like these (etcd-warden)");
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("50000 faults: 1) spec.b0: ") && message.contains("and 49900 more"));
    assert!(serde_json::to_vec(&answer).unwrap().len() < 1_000_000);
}

#[test]
fn a_patch_comes_with_its_type_or_not_at_all() {
    let request = Request::parse(&review("admission.k8s.io/v1", &request())).unwrap();
    let none = request.answer_with_patch(&json_patch::Patch(Vec::new()));
    assert_eq!(none["response"], json!({"uid": "u-1", "allowed": true}));
    let patch: json_patch::Patch =
        serde_json::from_value(json!([{"op": "add", "path": "/spec/x", "value": "y"}])).unwrap();
    let some = request.answer_with_patch(&patch);
    assert_eq!(some["response"]["patchType"], "JSONPatch");
    let patch = some["response"]["patch"].as_str().unwrap();
    assert_eq!(patch, "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMveCIsInZhbHVlIjoieSJ9XQ==");
}

#[test]
fn what_cannot_be_answered_is_named() {
    let parse = |body: &[u8]| Request::parse(body).unwrap_err();
    assert!(matches!(parse(b" \n"), ReviewError::Empty));
    assert!(matches!(parse(b"{"), ReviewError::Malformed(_)));
    assert!(matches!(parse(b"\xff\xfe"), ReviewError::Malformed(_)));
    assert!(matches!(parse(b"[]"), ReviewError::Malformed(_) | ReviewError::Type { .. }));
    assert!(matches!(parse(br#"{"apiVersion":"v1","kind":"Pod"}"#), ReviewError::Type { .. }));
    let bare = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
    assert!(matches!(parse(bare), ReviewError::NoRequest));
    assert!(matches!(parse(&review("admission.k8s.io/v1", &json!({}))), ReviewError::NoUid));
    let odd = json!({"uid": "u", "operation": "PATCH"});
    assert!(matches!(parse(&review("admission.k8s.io/v1", &odd)), ReviewError::Operation(_)));
    let twice = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a","uid":"b"}}"#;
    assert!(matches!(parse(twice), ReviewError::Malformed(_)));
}

#[test]
fn an_object_that_is_nested_too_deep_leaves_a_review_that_can_be_answered() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let body = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"CREATE","object":{{"spec":{deep}}}}}}}"#
    );
    let request = Request::parse(body.as_bytes()).unwrap();
    assert_eq!(request.uid, "u");
    assert!(request.object.is_none() && request.unreadable.is_some());
}
