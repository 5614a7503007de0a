//! Every validation rule, with an object that passes and one that is refused in our words.

use std::collections::{BTreeMap, BTreeSet};

use etcd_warden::api::crd;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{installed, object, objects};

#[derive(Deserialize)]
struct Table {
    bases: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    kind: String,
    before: Option<Value>,
    status: Option<Value>,
    good: Value,
    bad: Value,
    field: String,
}

impl Table {
    fn read() -> Self {
        serde_saphyr::from_str(include_str!("rules.yaml")).unwrap()
    }

    fn content(&self, kind: &str, change: &Value) -> Value {
        let mut content = self.bases[kind].clone();
        json_patch::merge(&mut content, change);
        content
    }
}

/// Every message of every rule of a definition.
fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "x-kubernetes-validations" {
                    let rules = value.as_array().unwrap().iter();
                    found.extend(rules.map(|rule| rule["message"].as_str().unwrap().to_owned()));
                } else {
                    messages(value, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| messages(value, found)),
        _ => {}
    }
}

fn trying() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// Makes the object that a case changes, with its status.
async fn create(api: &Api<DynamicObject>, case: &Case, content: Value) -> DynamicObject {
    let created = api.create(&PostParams::default(), &object(&case.kind, "", named(content))).await.unwrap();
    let Some(status) = &case.status else { return created };
    let name = created.metadata.name.unwrap();
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await.unwrap()
}

fn named(mut content: Value) -> Value {
    json_patch::merge(&mut content, &json!({"metadata": {"name": null, "generateName": "case-"}}));
    content
}

/// What the API server says to the case's `good` or `bad`, tried without being stored.
async fn verdict(
    api: &Api<DynamicObject>,
    case: &Case,
    existing: Option<&DynamicObject>,
    content: Value,
) -> Result<DynamicObject, kube::Error> {
    let Some(existing) = existing else {
        return api.create(&trying(), &object(&case.kind, "", named(content))).await;
    };
    let mut changed = object(&case.kind, "", content);
    changed.metadata = existing.metadata.clone();
    api.replace(&existing.metadata.name.clone().unwrap(), &trying(), &changed).await
}

#[tokio::test]
async fn every_rule_passes_one_object_and_refuses_another() {
    let bed = installed().await;
    let namespace = bed.namespace("rules").await;
    let table = Table::read();
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (index, case) in table.cases.iter().enumerate() {
        let api = objects(bed, &case.kind, &namespace).await;
        let existing = match &case.before {
            Some(before) => Some(create(&api, case, table.content(&case.kind, before)).await),
            None => None,
        };
        let about = format!("case {index} ({}, {}, bad: {})", case.kind, case.field, case.bad);
        let good = table.content(&case.kind, &case.good);
        verdict(&api, case, existing.as_ref(), good).await.unwrap_or_else(|error| panic!("{about}: good: {error}"));
        let bad = table.content(&case.kind, &case.bad);
        let refusal = verdict(&api, case, existing.as_ref(), bad).await.err();
        let Some(kube::Error::Api(status)) = refusal else { panic!("{about}: not refused: {refusal:?}") };
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{about}: {status:?}");
        let causes = status.details.clone().unwrap().causes;
        let [cause] = causes.as_slice() else { panic!("{about}: one refusal was expected: {causes:?}") };
        assert_eq!(cause.field, case.field, "{about}: {cause:?}");
        // "Invalid value: "object": the message"
        seen.entry(&case.kind).or_default().insert(cause.message.clone());
    }
    for crd in crd::all() {
        let kind = format!("{}.{}", crd.spec.names.kind, crd.spec.group);
        let mut expected = BTreeSet::new();
        messages(&serde_json::to_value(&crd.spec.versions[0].schema).unwrap(), &mut expected);
        for message in expected {
            let refused = seen.get(kind.as_str()).is_some_and(|seen| seen.iter().any(|text| text.ends_with(&message)));
            assert!(refused, "{kind}: no case was refused with {message:?}");
        }
    }
}

#[tokio::test]
async fn the_good_objects_are_good() {
    let bed = installed().await;
    let namespace = bed.namespace("rules").await;
    let table = Table::read();
    for crd in crd::all() {
        let kind = format!("{}.{}", crd.spec.names.kind, crd.spec.group);
        let api = objects(bed, &kind, &namespace).await;
        let content = named(table.bases[&kind].clone());
        api.create(&trying(), &object(&kind, "", content)).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}
