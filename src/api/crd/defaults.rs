//! What the API server fills in by an object's definition, before anybody else sees the object.

use std::sync::LazyLock;

use serde_json::Value;

/// A schema of ours, by the group and kind that it is of.
struct Schema {
    group: String,
    kind: String,
    root: Value,
}

static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
    let schemas = super::all().into_iter().filter_map(|crd| {
        let root = crd.spec.versions.into_iter().next()?.schema?.open_api_v3_schema?;
        Some(Schema { group: crd.spec.group, kind: crd.spec.names.kind, root: serde_json::to_value(root).ok()? })
    });
    schemas.collect()
});

/// The schema of a kind of ours.
#[must_use]
pub fn schema(group: &str, kind: &str) -> Option<&'static Value> {
    SCHEMAS.iter().find(|schema| schema.group == group && schema.kind == kind).map(|schema| &schema.root)
}

/// An object as its definition completes it. Objects of other kinds stay as they are.
#[must_use]
pub fn with_defaults(group: &str, kind: &str, mut object: Value) -> Value {
    if let Some(schema) = schema(group, kind) {
        fill(&mut object, schema);
    }
    object
}

/// As the API server does it: a field that is `null` counts as absent, and what a default brings is completed, too.
fn fill(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let declared = schema.get("properties").and_then(Value::as_object);
            for (name, below) in declared.into_iter().flatten() {
                if fields.get(name).is_none_or(Value::is_null) {
                    match below.get("default") {
                        Some(default) => fields.insert(name.clone(), default.clone()),
                        None => fields.remove(name),
                    };
                }
                if let Some(value) = fields.get_mut(name) {
                    fill(value, below);
                }
            }
            if let Some(others) = schema.get("additionalProperties") {
                for (_, value) in fields.iter_mut() {
                    fill(value, others);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    fill(item, schema);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_and_null_fields_get_what_their_definition_says() {
        let made = with_defaults(
            "etcd-operator.cozystack.io",
            "EtcdCluster",
            json!({"spec": {"version": "3.6.1", "replicas": null, "tls": {"peer": {"certManager": {"issuerRef": {"name": "i"}}}},
                "unknown": {"kept": true}}}),
        );
        assert_eq!(made["spec"]["replicas"], 3);
        assert_eq!(made["spec"]["tls"]["peer"]["certManager"]["issuerRef"]["kind"], "Issuer");
        assert_eq!(made["spec"]["unknown"], json!({"kept": true}));
        let given = json!({"spec": {"version": "3.6.1", "replicas": 1}});
        assert_eq!(with_defaults("etcd-operator.cozystack.io", "EtcdCluster", given)["spec"]["replicas"], 1);
        assert_eq!(with_defaults("apps", "Deployment", json!({"spec": {}})), json!({"spec": {}}));
    }
}
