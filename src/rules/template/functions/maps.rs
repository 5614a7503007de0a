//! Maps and JSON.

use gotmpl::Value;

use super::super::value::{from_json, list, map, text, to_json};
use super::{Call, Fault, Function, Outcome, shown};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("dict", |c| Ok(dict(c))),
    ("get", |c| {
        c.exactly(2)?;
        Ok(c.map(0)?.get(c.text(1)?).cloned().unwrap_or_else(|| text("")))
    }),
    ("hasKey", |c| {
        c.exactly(2)?;
        Ok(Value::Bool(c.map(0)?.contains_key(c.text(1)?)))
    }),
    ("pluck", |c| {
        c.at_least(1)?;
        let key = c.text(0)?;
        let found = (1..c.args.len()).map(|index| c.map(index).map(|entries| entries.get(key).cloned()));
        Ok(list(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten()))
    }),
    // Go's order is random; a sorted one is one of those.
    ("keys", |c| {
        let mut names = Vec::new();
        for index in 0..c.args.len() {
            names.extend(c.map(index)?.keys().map(text));
        }
        Ok(list(names))
    }),
    ("values", |c| {
        c.exactly(1)?;
        Ok(list(c.map(0)?.values().cloned()))
    }),
    ("pick", |c| choose(c, true)),
    ("omit", |c| choose(c, false)),
    ("dig", dig),
    ("fromJson", |c| {
        c.exactly(1)?;
        Ok(serde_json::from_str(c.text(0)?).map_or(Value::Nil, |json: serde_json::Value| from_json(&json)))
    }),
    ("mustFromJson", |c| {
        c.exactly(1)?;
        let parsed = serde_json::from_str::<serde_json::Value>(c.text(0)?);
        parsed.map(|json| from_json(&json)).map_err(|error| Fault::Failed(format!("the text is not JSON: {error}")))
    }),
    ("toJson", |c| json(c, false, true)),
    ("mustToJson", |c| json(c, false, true)),
    ("toPrettyJson", |c| json(c, true, true)),
    ("mustToPrettyJson", |c| json(c, true, true)),
    ("toRawJson", |c| json(c, false, false)),
    ("mustToRawJson", |c| json(c, false, false)),
];

fn dict(call: &Call<'_>) -> Value {
    let keys: Vec<String> = call.args.chunks(2).map(|pair| shown(&pair[0])).collect();
    let values = call.args.chunks(2).map(|pair| pair.get(1).cloned().unwrap_or_else(|| text("")));
    map(keys.iter().map(String::as_str).zip(values))
}

fn choose(call: &Call<'_>, keep: bool) -> Outcome {
    call.at_least(1)?;
    let names = (1..call.args.len()).map(|index| call.text(index)).collect::<Result<Vec<_>, _>>()?;
    let entries = call.map(0)?.iter().filter(|(key, _)| names.contains(&key.as_ref()) == keep);
    Ok(map(entries.map(|(key, value)| (key.as_ref(), value.clone()))))
}

fn dig(call: &Call<'_>) -> Outcome {
    call.at_least(3)?;
    let last = call.args.len() - 1;
    let mut entries = call.map(last)?;
    for index in 0..last - 1 {
        match entries.get(call.text(index)?) {
            None => break,
            Some(value) if index == last - 2 => return Ok(value.clone()),
            Some(Value::Map(inner)) => entries = inner,
            Some(other) => {
                return Err(Fault::Failed(format!(
                    "{:?} is no map but {}",
                    call.text(index)?,
                    super::super::value::kind(other)
                )));
            }
        }
    }
    Ok(call.args[last - 1].clone())
}

fn json(call: &Call<'_>, pretty: bool, html: bool) -> Outcome {
    call.exactly(1)?;
    let value = to_json(call.any(0)?)?;
    let written = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
    let written = written.map_err(|error| Fault::Failed(error.to_string()))?;
    if !html {
        return Ok(text(written));
    }
    // Outside of texts, JSON has none of these.
    let mut escaped = String::with_capacity(written.len());
    for c in written.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    Ok(text(escaped))
}
