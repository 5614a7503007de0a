//! Lists, and the functions that choose among values.

use gotmpl::Value;

use super::super::value::{kind, list, text};
use super::numbers::to_int;
use super::{Call, Fault, Function, Outcome, is_empty, shown, wrong};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("default", |c| {
        c.at_least(1)?;
        Ok(c.args.get(1).filter(|given| !is_empty(given)).unwrap_or(&c.args[0]).clone())
    }),
    ("empty", |c| {
        c.exactly(1)?;
        Ok(Value::Bool(is_empty(c.any(0)?)))
    }),
    ("coalesce", |c| Ok(c.args.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil))),
    ("all", |c| Ok(Value::Bool(!c.args.iter().any(is_empty)))),
    ("any", |c| Ok(Value::Bool(!c.args.iter().all(is_empty)))),
    ("ternary", |c| {
        c.exactly(3)?;
        match c.any(2)? {
            Value::Bool(bit) => Ok(c.args[usize::from(!*bit)].clone()),
            other => Err(wrong(2, "a bool", other)),
        }
    }),
    ("kindOf", |c| {
        c.exactly(1)?;
        Ok(text(kind(c.any(0)?)))
    }),
    ("kindIs", |c| {
        c.exactly(2)?;
        Ok(Value::Bool(c.text(0)? == kind(c.any(1)?)))
    }),
    ("deepEqual", |c| {
        c.exactly(2)?;
        c.charge_comparing(c.any(0)?, 1)?;
        Ok(Value::Bool(c.any(0)? == c.any(1)?))
    }),
    ("list", |c| Ok(list(c.args.iter().cloned()))),
    ("tuple", |c| Ok(list(c.args.iter().cloned()))),
    ("join", |c| {
        c.exactly(2)?;
        Ok(text(texts(c.any(1)?).join(c.text(0)?)))
    }),
    ("toStrings", |c| {
        c.exactly(1)?;
        Ok(list(texts(c.any(0)?).iter().map(text)))
    }),
    ("sortAlpha", |c| {
        c.exactly(1)?;
        let mut sorted = texts(c.any(0)?);
        sorted.sort_unstable();
        Ok(list(sorted.iter().map(text)))
    }),
    ("append", append),
    ("mustAppend", append),
    ("push", append),
    ("mustPush", append),
    ("prepend", prepend),
    ("mustPrepend", prepend),
    ("first", |c| pick(c, <[Value]>::first)),
    ("mustFirst", |c| pick(c, <[Value]>::first)),
    ("last", |c| pick(c, <[Value]>::last)),
    ("mustLast", |c| pick(c, <[Value]>::last)),
    ("rest", |c| part(c, |items| items.get(1..).unwrap_or_default())),
    ("mustRest", |c| part(c, |items| items.get(1..).unwrap_or_default())),
    ("initial", |c| part(c, |items| items.split_last().map_or(&[][..], |(_, before)| before))),
    ("mustInitial", |c| part(c, |items| items.split_last().map_or(&[][..], |(_, before)| before))),
    ("reverse", reverse),
    ("mustReverse", reverse),
    ("uniq", uniq),
    ("mustUniq", uniq),
    ("compact", compact),
    ("mustCompact", compact),
    ("without", without),
    ("mustWithout", without),
    ("has", has),
    ("mustHas", has),
    ("slice", slice),
    ("mustSlice", slice),
    ("concat", |c| {
        let mut items = Vec::new();
        for index in 0..c.args.len() {
            items.extend_from_slice(c.list(index)?);
        }
        Ok(list(items))
    }),
    ("chunk", chunk),
    ("mustChunk", chunk),
];

/// A list's items as texts, without missing ones; anything else as a list of one.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Nil => Vec::new(),
        Value::List(items) => items.iter().filter(|item| !matches!(item, Value::Nil)).map(shown).collect(),
        other => vec![shown(other)],
    }
}

fn append(call: &Call<'_>) -> Outcome {
    call.exactly(2)?;
    Ok(list(call.list(0)?.iter().chain([call.any(1)?]).cloned()))
}

fn prepend(call: &Call<'_>) -> Outcome {
    call.exactly(2)?;
    Ok(list([call.any(1)?].into_iter().chain(call.list(0)?).cloned()))
}

fn pick(call: &Call<'_>, choose: fn(&[Value]) -> Option<&Value>) -> Outcome {
    call.exactly(1)?;
    Ok(choose(call.list(0)?).cloned().unwrap_or(Value::Nil))
}

fn part(call: &Call<'_>, choose: fn(&[Value]) -> &[Value]) -> Outcome {
    call.exactly(1)?;
    Ok(list(choose(call.list(0)?).iter().cloned()))
}

fn reverse(call: &Call<'_>) -> Outcome {
    call.exactly(1)?;
    Ok(list(call.list(0)?.iter().rev().cloned()))
}

fn uniq(call: &Call<'_>) -> Outcome {
    call.exactly(1)?;
    let mut seen: Vec<Value> = Vec::new();
    for item in call.list(0)? {
        call.charge_comparing(item, seen.len())?;
        if !seen.contains(item) {
            seen.push(item.clone());
        }
    }
    Ok(list(seen))
}

fn compact(call: &Call<'_>) -> Outcome {
    call.exactly(1)?;
    Ok(list(call.list(0)?.iter().filter(|item| !is_empty(item)).cloned()))
}

fn without(call: &Call<'_>) -> Outcome {
    call.at_least(1)?;
    for other in &call.args[1..] {
        call.charge_comparing(other, call.list(0)?.len())?;
    }
    Ok(list(call.list(0)?.iter().filter(|item| !call.args[1..].contains(item)).cloned()))
}

fn has(call: &Call<'_>) -> Outcome {
    call.exactly(2)?;
    if matches!(call.any(1)?, Value::Nil) {
        return Ok(Value::Bool(false));
    }
    call.charge_comparing(call.any(0)?, call.list(1)?.len())?;
    Ok(Value::Bool(call.list(1)?.contains(call.any(0)?)))
}

/// slim-sprig's `slice`, which hides Go's own.
fn slice(call: &Call<'_>) -> Outcome {
    call.at_least(1)?;
    let items = call.list(0)?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let bound =
        |index: usize, default: usize| call.args.get(index).map_or(Some(default), |v| usize::try_from(to_int(v)).ok());
    bound(1, 0)
        .zip(bound(2, items.len()))
        .and_then(|(start, end)| items.get(start..end))
        .map(|part| list(part.iter().cloned()))
        .ok_or_else(|| Fault::Failed(format!("the bounds do not lie in a list of {}", items.len())))
}

fn chunk(call: &Call<'_>) -> Outcome {
    call.exactly(2)?;
    let size = usize::try_from(call.int(0)?).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Fault::Failed("a chunk holds at least one item".to_owned()))?;
    Ok(list(call.list(1)?.chunks(size).map(|part| list(part.iter().cloned()))))
}
