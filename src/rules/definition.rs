//! An object against the schema of its definition, as the API server holds it to that before anybody else sees it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::api::crd;

/// A field that is not what the schema says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

static VALIDATORS: LazyLock<BTreeMap<(String, String), Validator>> = LazyLock::new(|| {
    let kinds = crd::all().into_iter().map(|crd| (crd.spec.group, crd.spec.names.kind));
    kinds
        .filter_map(|(group, kind)| {
            let validator = jsonschema::validator_for(crd::schema(&group, &kind)?).ok()?;
            Some(((group, kind), validator))
        })
        .collect()
});

/// Where an object departs from the shape, the limits and the required fields of its kind. Nothing of other kinds.
#[must_use]
pub fn faults(group: &str, kind: &str, object: &Value) -> Vec<Fault> {
    let Some(validator) = VALIDATORS.get(&(group.to_owned(), kind.to_owned())) else { return Vec::new() };
    validator
        .iter_errors(object)
        .map(|error| {
            let field = path(object, &error.instance_path().to_string());
            match error.kind() {
                ValidationErrorKind::Required { property } => {
                    let name = property.as_str().unwrap_or_default();
                    let field = if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
                    Fault { field, message: "required".to_owned() }
                }
                _ => Fault { field, message: error.masked().to_string() },
            }
        })
        .collect()
}

/// A JSON pointer into an object as a field path.
fn path(object: &Value, pointer: &str) -> String {
    let mut here = Some(object);
    let mut path = String::new();
    for segment in pointer.split('/').skip(1) {
        let name = segment.replace("~1", "/").replace("~0", "~");
        let step = if let Some(Value::Array(items)) = here {
            here = name.parse::<usize>().ok().and_then(|at| items.get(at));
            format!("[{name}]")
        } else {
            here = here.and_then(|here| here.get(&name));
            match (name.contains(['.', '/', '[']), path.is_empty()) {
                (true, _) => format!("[{name:?}]"),
                (false, true) => name,
                (false, false) => format!(".{name}"),
            }
        };
        path.push_str(&step);
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_definition_is_a_schema_that_can_be_asked() {
        for crd in crd::all() {
            let schema = crd::schema(&crd.spec.group, &crd.spec.names.kind).expect("a schema");
            assert!(jsonschema::validator_for(schema).is_ok(), "{:?}", crd.metadata.name);
        }
    }

    #[test]
    fn a_fault_names_its_field() {
        let of = |kind: &str, object: &Value| -> Vec<String> {
            let group = if kind == "EtcdCluster" { "etcd-operator.cozystack.io" } else { "backups.cozystack.io" };
            let mut fields: Vec<String> = faults(group, kind, object).into_iter().map(|fault| fault.field).collect();
            fields.sort();
            fields
        };
        assert_eq!(of("EtcdCluster", &json!({"spec": {"version": "3.6.1", "replicas": 3}})), [""; 0]);
        assert_eq!(
            of("EtcdCluster", &json!({"spec": {"version": 3, "replicas": "3"}})),
            ["spec.replicas", "spec.version"]
        );
        let class = json!({"spec": {"strategies": [{"application": {"kind": "Etcd"}}]}});
        assert_eq!(of("BackupClass", &class), ["spec.strategies[0].strategyRef"]);
        assert_eq!(faults("apps", "Deployment", &json!({"spec": 1})), []);
    }
}
