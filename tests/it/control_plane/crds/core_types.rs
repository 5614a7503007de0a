//! Kubernetes' own types inside ours are what this API server says they are.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{definition, installed};

/// The schemas of the core group, as the API server publishes them.
async fn published() -> Value {
    let document = installed().await.get("/openapi/v3/api/v1").await.unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    document["components"]["schemas"].clone()
}

/// The schema that a `$ref`, or an `allOf` around one, stands for.
fn resolved<'a>(schemas: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    reference.map_or(schema, |reference| &schemas[reference.rsplit('/').next().unwrap()])
}

fn names(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn compare(schemas: &Value, theirs: &Value, ours: &Value, path: &str, differences: &mut Vec<String>) {
    let target = resolved(schemas, theirs);
    let mut differ = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            differences.push(format!("{path}: {what} is {ours}, there {theirs}"));
        }
    };
    if target["oneOf"].is_array() {
        differ("int-or-string", ours["x-kubernetes-int-or-string"].to_string(), "true".to_owned());
        return;
    }
    for key in ["type", "format"] {
        differ(key, ours[key].to_string(), target[key].to_string());
    }
    differ("required", format!("{:?}", names(&ours["required"])), format!("{:?}", names(&target["required"])));
    differ(
        "list keys",
        ours["x-kubernetes-list-map-keys"].to_string(),
        list_marker(theirs, target, "list-map-keys").to_string(),
    );
    differ(
        "list type",
        ours["x-kubernetes-list-type"].to_string(),
        list_marker(theirs, target, "list-type").to_string(),
    );
    differ("map type", ours["x-kubernetes-map-type"].to_string(), list_marker(theirs, target, "map-type").to_string());
    let properties = |schema: &Value| -> BTreeSet<String> {
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    differ("set of fields", format!("{:?}", properties(ours)), format!("{:?}", properties(target)));
    for name in properties(target) {
        compare(
            schemas,
            &target["properties"][&name],
            &ours["properties"][&name],
            &format!("{path}.{name}"),
            differences,
        );
    }
    for key in ["items", "additionalProperties"] {
        if target[key].is_object() {
            compare(schemas, &target[key], &ours[key], &format!("{path}[]"), differences);
        }
    }
}

/// A marker stands where a type is used, or at the type.
fn list_marker<'a>(used: &'a Value, type_: &'a Value, marker: &str) -> &'a Value {
    let key = format!("x-kubernetes-{marker}");
    if used[&key].is_null() { &type_[&key] } else { &used[&key] }
}

#[tokio::test]
async fn affinity_resources_and_spread_are_complete() {
    let schemas = published().await;
    let core = |name: &str| &schemas[format!("io.k8s.api.core.v1.{name}")];
    let mut differences = Vec::new();
    for (kind, above) in [
        ("EtcdCluster.etcd-operator.cozystack.io", "spec"),
        ("EtcdCluster.etcd-operator.cozystack.io", "status.observed"),
        ("EtcdMember.etcd-operator.cozystack.io", "spec"),
    ] {
        let crd = serde_json::to_value(&definition(kind).spec.versions[0].schema).unwrap();
        let pointer = above.split('.').fold(String::new(), |path, name| path + "/properties/" + name);
        let fields = &crd["openAPIV3Schema"].pointer(&pointer).unwrap()["properties"];
        for (field, type_, list) in [
            ("affinity", "Affinity", false),
            ("resources", "ResourceRequirements", false),
            ("topologySpreadConstraints", "TopologySpreadConstraint", true),
            ("imagePullSecrets", "LocalObjectReference", true),
        ] {
            let ours = if list { &fields[field]["items"] } else { &fields[field] };
            let path = format!("{kind} {above}.{field}");
            compare(&schemas, core(type_), ours, &path, &mut differences);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
