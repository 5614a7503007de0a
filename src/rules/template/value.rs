//! Between JSON and the template engine's values.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::Value;

/// A text value.
pub(super) fn text(text: impl AsRef<str>) -> Value {
    Value::String(Arc::from(text.as_ref()))
}

/// A list value.
pub(super) fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

/// A map value.
pub(super) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Map(Arc::new(entries.into_iter().map(|(key, value)| (Arc::from(key), value)).collect::<BTreeMap<_, _>>()))
}

/// JSON as a template sees it.
pub(super) fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(bit) => Value::Bool(*bit),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Value::Int(integer),
            (None, Some(natural)) => Value::Uint(natural),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(string) => text(string),
        serde_json::Value::Array(items) => list(items.iter().map(from_json)),
        serde_json::Value::Object(entries) => map(entries.iter().map(|(key, value)| (key.as_str(), from_json(value)))),
    }
}

/// A template's value as JSON; functions have no JSON form.
pub(super) fn to_json(value: &Value) -> Result<serde_json::Value, String> {
    Ok(match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(bit) => (*bit).into(),
        Value::Int(integer) => (*integer).into(),
        Value::Uint(natural) => (*natural).into(),
        // Go prints a whole float without a fraction.
        Value::Float(float) => match whole(*float) {
            Some(integer) => integer.into(),
            None => serde_json::Number::from_f64(*float)
                .map(serde_json::Value::Number)
                .ok_or_else(|| format!("{float} has no JSON form"))?,
        },
        Value::String(string) => string.as_ref().into(),
        Value::List(items) => serde_json::Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Value::Map(entries) => serde_json::Value::Object(
            entries.iter().map(|(key, value)| Ok((key.to_string(), to_json(value)?))).collect::<Result<_, String>>()?,
        ),
        Value::Function(_) => return Err("a function has no JSON form".to_owned()),
    })
}

/// The integer that a float is, where it is one that an `f64` holds exactly.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
pub(super) fn whole(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() < EXACT).then_some(float as i64)
}

/// Go's kind of a value.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Uint(_) => "uint",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Function(_) => "func",
    }
}
