//! From a Rust type to a structural schema, before any rule is added.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The shape of a type: nested properties with their types and descriptions.
///
/// What serde's attributes imply about absence and null is dropped: our types decode more than the API admits (objects
/// that upstream stored), so what is required, and what a default is, stands in the rules of each kind.
pub(super) fn of<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    normalise(&mut schema);
    match schema {
        Value::Object(schema) => schema,
        other => unreachable!("a type's schema is an object, not {other}"),
    }
}

fn normalise(schema: &mut Value) {
    // A type that may be anything: free-form, but an object, as every field of that sort is on the wire.
    if schema.is_boolean() {
        *schema = json!({});
    }
    let Some(object) = schema.as_object_mut() else { return };
    unwrap_optional(object);
    for key in ["title", "default", "nullable"] {
        object.remove(key);
    }
    if !object.contains_key("type") && !object.contains_key("x-kubernetes-int-or-string") {
        object.insert("type".to_owned(), json!("object"));
        object.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(normalise);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            normalise(inner);
        }
    }
}

/// `Option` of an int-or-string comes as "this, or null"; the API's schemas have no null.
fn unwrap_optional(object: &mut Map<String, Value>) {
    let Some([inner, null]) = object.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) else { return };
    if null.get("nullable").is_none() {
        return;
    }
    let Some(inner) = inner.as_object().cloned() else { return };
    object.remove("anyOf");
    for (key, value) in inner {
        object.entry(key).or_insert(value);
    }
}
