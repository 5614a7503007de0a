//! A place in a schema, and what can be said about it.

use serde_json::{Map, Value, json};

/// A schema node. Naming a field that the type does not have is a fault of this program and panics: every test that
/// generates the definitions shows it.
pub(super) struct Node<'a> {
    schema: &'a mut Map<String, Value>,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(schema: &'a mut Map<String, Value>) -> Self {
        Self { schema, path: String::new() }
    }

    /// The node below this one: `a.b`, with `[]` for the items of a list and `{}` for the values of a map.
    pub(super) fn at(&mut self, below: &str) -> Node<'_> {
        let path = format!("{}.{below}", self.path);
        let mut schema = &mut *self.schema;
        for segment in below.split('.') {
            let name = segment.trim_end_matches("[]").trim_end_matches("{}");
            if !name.is_empty() {
                schema = step(schema, "properties", Some(name), &path);
            }
            if segment.ends_with("[]") {
                schema = step(schema, "items", None, &path);
            }
            if segment.ends_with("{}") {
                schema = step(schema, "additionalProperties", None, &path);
            }
        }
        Node { schema, path }
    }

    fn set(&mut self, key: &str, value: Value) -> &mut Self {
        self.schema.insert(key.to_owned(), value);
        self
    }

    /// Fields that must be there. All of them at once: what stood there before is replaced.
    pub(super) fn required(&mut self, fields: &[&str]) -> &mut Self {
        for field in fields {
            self.at(field);
        }
        self.set("required", json!(fields))
    }

    /// No field below this one must be there.
    pub(super) fn all_optional(&mut self) -> &mut Self {
        self.schema.remove("required");
        self
    }

    /// Value where the field is absent.
    pub(super) fn default(&mut self, value: impl Into<Value>) -> &mut Self {
        self.set("default", value.into())
    }

    /// Values that are allowed.
    pub(super) fn one_of(&mut self, values: &[&str]) -> &mut Self {
        self.set("enum", json!(values))
    }

    /// Regular expression that a text must match.
    pub(super) fn pattern(&mut self, pattern: &str) -> &mut Self {
        self.set("pattern", json!(pattern))
    }

    /// Schemas of which one at least must hold.
    pub(super) fn any_of(&mut self, schemas: &[Value]) -> &mut Self {
        self.set("anyOf", json!(schemas))
    }

    /// Least length of a text.
    pub(super) fn min_length(&mut self, length: u32) -> &mut Self {
        self.set("minLength", json!(length))
    }

    /// Greatest length of a text.
    pub(super) fn max_length(&mut self, length: u32) -> &mut Self {
        self.set("maxLength", json!(length))
    }

    /// Least value of a number.
    pub(super) fn minimum(&mut self, value: i32) -> &mut Self {
        self.set("minimum", json!(value))
    }

    /// Greatest value of a number.
    pub(super) fn maximum(&mut self, value: i32) -> &mut Self {
        self.set("maximum", json!(value))
    }

    /// For server-side apply: the object is owned as one.
    pub(super) fn atomic_map(&mut self) -> &mut Self {
        self.set("x-kubernetes-map-type", json!("atomic"))
    }

    /// For server-side apply: the list is owned as one.
    pub(super) fn atomic_list(&mut self) -> &mut Self {
        self.set("x-kubernetes-list-type", json!("atomic"))
    }

    /// For server-side apply: each entry is owned by itself, and found by this key.
    pub(super) fn list_by(&mut self, key: &str) -> &mut Self {
        self.set("x-kubernetes-list-type", json!("map")).set("x-kubernetes-list-map-keys", json!([key]))
    }

    /// Replaces description or leaves it out.
    pub(super) fn describe(&mut self, description: Option<&str>) -> &mut Self {
        match description {
            Some(text) => return self.set("description", json!(text)),
            None => self.schema.remove("description"),
        };
        self
    }

    /// The kind of value, such as `array`.
    pub(super) fn type_name(&self) -> &str {
        self.schema.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether Kubernetes takes both an integer and a text here.
    pub(super) fn is_int_or_string(&self) -> bool {
        self.schema.contains_key("x-kubernetes-int-or-string")
    }

    /// Calls `visit` on this node and on every node below it.
    pub(super) fn walk(&mut self, visit: &mut dyn FnMut(&mut Node<'_>)) {
        visit(self);
        let names: Vec<String> = self
            .schema
            .get("properties")
            .and_then(Value::as_object)
            .map(|properties| properties.keys().cloned().collect())
            .unwrap_or_default();
        for name in names {
            self.at(&name).walk(visit);
        }
        for (key, segment) in [("items", "[]"), ("additionalProperties", "{}")] {
            if self.schema.contains_key(key) {
                self.at(segment).walk(visit);
            }
        }
    }

    /// A CEL rule that must hold for this node. The API server prefixes the message with the field's path.
    pub(super) fn rule(&mut self, rule: &str, message: &str) -> &mut Self {
        self.push_rule(json!({"rule": rule, "message": message}))
    }

    /// A CEL rule whose failure is reported at a field below this node (`.tls`).
    pub(super) fn rule_about(&mut self, field: &str, rule: &str, message: &str) -> &mut Self {
        self.at(field.trim_start_matches('.'));
        self.push_rule(json!({"rule": rule, "message": message, "fieldPath": field}))
    }

    /// Two rules: an optional field below this node neither comes nor goes, nor changes, after creation.
    pub(super) fn frozen(&mut self, field: &str, message: &str) -> &mut Self {
        let about = format!(".{field}");
        // One rule each, because a person who reads "removed" looks elsewhere than one who reads "changed".
        self.at(field);
        self.push_rule(json!({
            "rule": format!("has(oldSelf.{field}) ? has(self.{field}) : !has(self.{field})"),
            "message": format!("cannot be added or removed after creation: {message}"),
            "fieldPath": about,
        }));
        self.push_rule(json!({
            "rule": format!("!(has(oldSelf.{field}) && has(self.{field})) || oldSelf.{field} == self.{field}"),
            "message": format!("cannot be changed after creation: {message}"),
            "fieldPath": about,
        }))
    }

    fn push_rule(&mut self, rule: Value) -> &mut Self {
        match self.schema.entry("x-kubernetes-validations").or_insert_with(|| json!([])) {
            Value::Array(rules) => rules.push(rule),
            other => unreachable!("{}: validation rules are a list, not {other}", self.path),
        }
        self
    }
}

fn step<'a>(
    schema: &'a mut Map<String, Value>,
    key: &str,
    name: Option<&str>,
    path: &str,
) -> &'a mut Map<String, Value> {
    let inner = schema.get_mut(key).and_then(|inner| match name {
        Some(name) => inner.get_mut(name),
        None => Some(inner),
    });
    match inner.and_then(Value::as_object_mut) {
        Some(inner) => inner,
        None => unreachable!("no such field: {path} ({key} {})", name.unwrap_or_default()),
    }
}
