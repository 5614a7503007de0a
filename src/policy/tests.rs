use serde_json::{Value, json};

use super::*;

fn policy(operations: &str, validations: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints:
    resourceRules:
      - {{apiGroups: [g], apiVersions: ['*'], operations: [{operations}], resources: [things, things/scale]}}
{validations}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: p}}
spec: {{policyName: p, validationActions: [Deny]}}
"
    )
}

fn one(expression: &str) -> String {
    let quoted = Value::from(expression);
    policy("CREATE, UPDATE", &format!("  validations: [{{expression: {quoted}, message: 'spec.a: no'}}]"))
}

fn load_text(text: &str) -> Result<PolicySet, Vec<LoadError>> {
    load(&[File { name: "p.yaml".to_owned(), text: text.to_owned() }])
}

fn create(object: &Value) -> Input<'_> {
    Input {
        group: "g",
        version: "v1",
        resource: "things",
        kind: "Thing",
        subresource: "",
        operation: "CREATE",
        namespace: "n",
        name: "",
        user: "anna",
        object: Some(object),
        old: None,
    }
}

/// What the expression says of the object: `Ok(true)` if nothing is found.
fn truth(expression: &str, object: &Value) -> Result<bool, String> {
    let set = load_text(&one(expression)).map_err(|errors| errors[0].to_string())?;
    match set.evaluate(&create(object)).as_slice() {
        [] => Ok(true),
        [finding] if finding.message == "no" => Ok(false),
        findings => Err(findings[0].message.clone()),
    }
}

fn refused(expression: &str) -> Refused {
    match load_text(&one(expression)).unwrap_err().remove(0) {
        LoadError::Refused { refused, .. } => refused,
        other => panic!("{expression}: {other}"),
    }
}

#[test]
fn integers_are_signed_and_count() {
    let object = json!({"spec": {"n": 3, "m": -1, "big": 9_223_372_036_854_775_807_i64}});
    for expression in [
        "object.spec.n == 3",
        "object.spec.n + 1 == 4",
        "object.spec.n % 2 == 1",
        "object.spec.m < object.spec.n",
        "object.spec.big > 0",
        "object.spec.n in [1, 2, 3]",
        "string(object.spec.n) == '3' && int('3') == object.spec.n",
    ] {
        assert_eq!(truth(expression, &object), Ok(true), "{expression}");
    }
}

#[test]
fn texts_are_as_long_as_they_have_characters() {
    let object = json!({"spec": {"t": "héé", "l": [1, 2]}});
    for expression in ["size(object.spec.t) == 3", "object.spec.t.size() == 3", "size(object.spec.l) == 2"] {
        assert_eq!(truth(expression, &object), Ok(true), "{expression}");
    }
}

#[test]
fn null_is_absent() {
    let object = json!({"spec": {"gone": null, "there": ""}});
    assert_eq!(truth("!has(object.spec.gone) && has(object.spec.there)", &object), Ok(true));
}

#[test]
fn what_the_engines_read_differently_is_refused() {
    for (expression, expected) in [
        ("object.spec.n == 1.0", Refused::Syntax("a floating-point literal")),
        ("object.spec.n == 1u", Refused::Syntax("an unsigned literal")),
        ("object.spec.t == b'x'", Refused::Syntax("a bytes literal")),
        ("type(object.spec.n) == int", Refused::Function("type".into())),
        ("timestamp(object.spec.t).getHours('Europe/Berlin') > 1", Refused::Function("getHours".into())),
        ("math.abs(object.spec.n) > 1", Refused::Function("abs".into())),
        ("object.spec.t.reverse() == 'x'", Refused::Function("reverse".into())),
        ("object.spec.n in [1, 'a']", Refused::MixedList),
        ("object.spec.t.matches(object.spec.u)", Refused::Pattern),
        ("object.spec.t.matches('[')", Refused::BadPattern("[".into())),
        ("unknown.spec == 1", Refused::Name("unknown".into())),
        ("variables.x == 1", Refused::Name("variables.x".into())),
        ("params.data.x == '1'", Refused::Name("params".into())),
        ("authorizer.path('/').check('get').allowed()", Refused::Function("allowed".into())),
        ("oldObject.spec == object.spec", Refused::OldObject),
    ] {
        assert_eq!(refused(expression), expected, "{expression}");
    }
    for pattern in ["\\\\d+", "(?i)x", "[[:alpha:]]", "[a&&b]", "\\\\p{L}", "\\\\Qx\\\\E"] {
        let refusal = refused(&format!("object.spec.t.matches('{pattern}')"));
        assert!(matches!(refusal, Refused::UnportablePattern(..)), "{pattern}: {refusal}");
    }
    assert!(load_text(&one("object.spec.t.matches('^(?:[a-z0-9]+[.])*$')")).is_ok());
    for optional in ["object.?spec.x.orValue(1) == 1", "object[?'spec'].hasValue()"] {
        assert!(matches!(load_text(&one(optional)).unwrap_err()[0], LoadError::Syntax { .. }), "{optional}");
    }
}

#[test]
fn the_old_object_may_be_read_where_there_is_one() {
    let set = load_text(&one("oldObject == null || has(oldObject.spec) && object.spec == oldObject.spec")).unwrap();
    let (old, same, other) = (json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}));
    assert!(set.evaluate(&create(&old)).is_empty());
    let update = |object| Input { operation: "UPDATE", old: Some(&old), ..create(object) };
    assert!(set.evaluate(&update(&same)).is_empty());
    assert_eq!(set.evaluate(&update(&other)).len(), 1);
    for guarded in [
        "oldObject != null && oldObject.spec == object.spec",
        "oldObject == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec || true",
    ] {
        assert!(load_text(&one(guarded)).is_ok(), "{guarded}");
    }
    for open in ["oldObject.spec == object.spec || oldObject == null", "oldObject == null && has(oldObject.spec)"] {
        assert_eq!(refused(open), Refused::OldObject, "{open}");
    }
    for (operations, expression, allowed) in [
        ("UPDATE", "oldObject.spec == object.spec", true),
        ("UPDATE, DELETE", "has(oldObject.spec)", true),
        ("UPDATE, DELETE", "has(object.spec)", false),
    ] {
        let quoted = Value::from(expression);
        let text = policy(operations, &format!("  validations: [{{expression: {quoted}, message: no}}]"));
        assert_eq!(load_text(&text).is_ok(), allowed, "{operations}: {expression}");
    }
}

#[test]
fn costs_grow_no_faster_than_the_object() {
    for (expression, expected) in [
        ("object.spec.l.all(x, x.k.exists(y, y != x))", Refused::Nested),
        ("object.spec.l.map(x, x.name).size() > 1", Refused::Growing),
        ("object.spec.l.filter(x, x > 1).size() > 1", Refused::Growing),
        ("object.spec.l.all(x, x in object.spec.l)", Refused::InLoop("object".into())),
    ] {
        assert_eq!(refused(expression), expected, "{expression}");
    }
    let object = json!({"spec": {"l": [{"a": 1}, {"a": 2}]}});
    assert_eq!(truth("object.spec.l.all(x, [1, 2].exists(y, x.a == y))", &object), Ok(true));
    assert_eq!(truth("object.spec.l.exists_one(x, x.a == 1) && !object.spec.l.all(x, x.a == 1)", &object), Ok(true));
}

#[test]
fn a_rule_that_cannot_be_evaluated_refuses_unless_it_is_told_not_to() {
    let object = json!({"spec": {}});
    for expression in ["object.spec.none == 1", "object.spec", "size(object.spec.a.b) > 1 || object.spec.c"] {
        let why = truth(expression, &object).unwrap_err();
        assert!(why.starts_with("the rule could not be evaluated"), "{why}");
    }
    let ignoring = one("object.spec.none == 1").replace("spec:\n  match", "spec:\n  failurePolicy: Ignore\n  match");
    assert!(load_text(&ignoring).unwrap().evaluate(&create(&object)).is_empty());
    // One side decides, whatever the other one is.
    assert_eq!(truth("object.spec.none == 1 || true", &object), Ok(true));
    assert_eq!(truth("object.spec.none == 1 && false", &object), Ok(false));
}

#[test]
fn variables_and_conditions_and_computed_messages() {
    let text = policy(
        "CREATE, UPDATE",
        "  matchConditions: [{name: has-a, expression: has(object.spec.a)}]
  variables:
    - {name: a, expression: object.spec.a}
    - {name: twice, expression: variables.a * 2}
    - {name: broken, expression: object.spec.none}
  validations:
    - {expression: variables.twice < 10, message: static, messageExpression: \"'spec.a: is ' + string(variables.a)\"}
    - {expression: variables.a < 9, messageExpression: 'object.spec.none', message: 'spec.a: fallback'}",
    );
    let set = load_text(&text).unwrap();
    assert!(set.evaluate(&create(&json!({"spec": {"b": 1}}))).is_empty());
    assert!(set.evaluate(&create(&json!({"spec": {"a": 1}}))).is_empty());
    let found = set.evaluate(&create(&json!({"spec": {"a": 9}})));
    let found: Vec<_> = found.iter().map(|finding| (finding.field(), finding.message.as_str())).collect();
    assert_eq!(found, [("spec.a", "is 9"), ("spec.a", "fallback")]);
}

#[test]
fn the_request_shows_no_empty_fields() {
    let object = json!({});
    assert_eq!(truth("!has(request.name) && request.namespace == 'n' && !has(request.subResource)", &object), Ok(true));
    assert_eq!(
        truth("request.userInfo.username == 'anna' && request.resource.resource == 'things'", &object),
        Ok(true)
    );
}

#[test]
fn policies_apply_where_they_say() {
    let set = load_text(&one("false")).unwrap();
    let object = json!({});
    let input = create(&object);
    let found = |input: Input<'_>| set.evaluate(&input).len();
    assert_eq!(found(input), 1);
    assert_eq!(found(Input { subresource: "scale", ..input }), 1);
    assert_eq!(found(Input { subresource: "status", ..input }), 0);
    assert_eq!(found(Input { operation: "DELETE", ..input }), 0);
    assert_eq!(found(Input { group: "h", ..input }), 0);
    assert_eq!(found(Input { resource: "others", ..input }), 0);
}

#[test]
fn parameters_come_from_config_maps() {
    let text = one("object.spec.n <= int(params.data.limit)")
        .replace("spec:\n  match", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n  match")
        .replace("validationActions: [Deny]", "validationActions: [Warn], paramRef: {name: limits, namespace: sys}")
        + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits, namespace: sys}\ndata: {limit: '3'}\n";
    let set = load_text(&text).unwrap();
    assert!(set.evaluate(&create(&json!({"spec": {"n": 3}}))).is_empty());
    let found = set.evaluate(&create(&json!({"spec": {"n": 4}})));
    assert_eq!(found[0].action, Action::Warn);
    let missing = load_text(&text.replace("name: limits, namespace: sys}\ndata", "name: x, namespace: sys}\ndata"));
    let missing = missing.unwrap();
    assert!(missing.evaluate(&create(&json!({"spec": {"n": 1}})))[0].message.contains("ConfigMap"));
    // From elsewhere, as a server has them.
    let found = json!({"metadata": {"name": "limits", "namespace": "sys"}, "data": {"limit": "3"}});
    let given = missing.with_parameters([std::sync::Arc::new(found)]);
    assert!(given.evaluate(&create(&json!({"spec": {"n": 3}}))).is_empty());
    assert_eq!(given.evaluate(&create(&json!({"spec": {"n": 4}})))[0].message, "no");
    assert_eq!(given.parameter_sources().len(), 1);
    let unneeded = one("true").replace("validationActions", "paramRef: {name: x}, validationActions");
    assert!(load_text(&unneeded).unwrap_err()[0].to_string().contains("spec.paramRef"));
}

#[test]
fn policies_load_as_an_api_server_gives_them_back() {
    let written = one("false").replace(
        "  matchConstraints:\n",
        "  matchConstraints:\n    namespaceSelector: {}\n    objectSelector: {}\n    matchPolicy: Equivalent\n",
    );
    assert!(written.contains("namespaceSelector"), "{written}");
    assert_eq!(load_text(&written).unwrap().evaluate(&create(&json!({}))).len(), 1);
    // What is not handled is refused, and not passed over.
    let selective = written.replace("objectSelector: {}", "objectSelector: {matchLabels: {a: b}}");
    assert!(load_text(&selective).unwrap_err()[0].to_string().contains("unknown field"));
}

#[test]
fn every_action_of_a_binding_is_told() {
    let actions = |actions: &str| -> Vec<Action> {
        let set = load_text(&one("false").replace("[Deny]", actions)).unwrap();
        set.evaluate(&create(&json!({}))).iter().map(|finding| finding.action).collect()
    };
    assert_eq!(actions("[Warn, Audit]"), [Action::Audit, Action::Warn]);
    assert_eq!(actions("[Deny, Audit]"), [Action::Audit, Action::Deny]);
    assert_eq!(actions("[Audit]"), [Action::Audit]);
    assert!(load_text(&one("false").replace("[Deny]", "[Deny, Warn]")).is_err());
    assert!(load_text(&one("false").replace("[Deny]", "[]")).is_err());
}

#[test]
fn errors_say_file_document_and_place() {
    let told = |text: &str| -> Vec<String> { load_text(text).unwrap_err().iter().map(ToString::to_string).collect() };
    assert_eq!(
        told(&one("object.spec.a ==")),
        ["p.yaml: document 1: spec.validations[0].expression: line 1, column 17: Syntax error: mismatched input \
          '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
          STRING, BYTES, IDENTIFIER}"]
    );
    assert_eq!(
        told(&one("type(object) == 1").replace("policyName: p,", "policyName: q,")),
        ["p.yaml: document 1: spec.validations[0].expression: function type() may not be used"]
    );
    assert_eq!(
        told(&one("true").replace("policyName: p,", "policyName: q,")),
        ["p.yaml: document 2: spec.policyName: there is no policy \"q\""]
    );
    let misspelt = told(&one("true").replace("matchConstraints", "matchConstraint"));
    assert!(misspelt[0].starts_with("p.yaml: document 1: line 5, column 3: unknown field"), "{misspelt:?}");
    let other = told("apiVersion: v1\nkind: Pod\n");
    assert_eq!(
        other,
        ["p.yaml: document 1: Pod of v1 is no policy: expected ValidatingAdmissionPolicy, \
          ValidatingAdmissionPolicyBinding or ConfigMap"]
    );
    assert!(told("a: [\n")[0].starts_with("p.yaml: document 1: line "));
}
