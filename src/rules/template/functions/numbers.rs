//! Numbers: conversion, arithmetic, rounding and ranges.

use std::num::IntErrorKind;

use gotmpl::Value;

use super::super::MAX_ITEMS;
use super::super::value::{list, text};
use super::{Call, Fault, Function, Outcome, shown};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("atoi", |c| {
        c.exactly(1)?;
        Ok(Value::Int(match c.text(0)?.parse::<i64>() {
            Ok(number) => number,
            Err(error) => match error.kind() {
                IntErrorKind::PosOverflow => i64::MAX,
                IntErrorKind::NegOverflow => i64::MIN,
                _ => 0,
            },
        }))
    }),
    ("int", |c| one(c, to_int)),
    ("int64", |c| one(c, to_int)),
    ("float64", |c| {
        c.exactly(1)?;
        Ok(Value::Float(to_float(c.any(0)?)))
    }),
    ("toDecimal", |c| one(c, |v| i64::from_str_radix(&shown(v), 8).unwrap_or(0))),
    ("seq", seq),
    ("until", |c| {
        c.exactly(1)?;
        let stop = c.int(0)?;
        Ok(list(steps(0, stop, if stop < 0 { -1 } else { 1 })?.into_iter().map(Value::Int)))
    }),
    ("untilStep", |c| {
        c.exactly(3)?;
        Ok(list(steps(c.int(0)?, c.int(1)?, c.int(2)?)?.into_iter().map(Value::Int)))
    }),
    ("add1", |c| one(c, |v| to_int(v).wrapping_add(1))),
    ("add", |c| Ok(Value::Int(c.args.iter().fold(0i64, |sum, v| sum.wrapping_add(to_int(v)))))),
    ("sub", |c| two(c, |a, b| Some(a.wrapping_sub(b)))),
    ("div", |c| two(c, |a, b| if b == 0 { None } else { Some(a.wrapping_div(b)) })),
    ("mod", |c| two(c, |a, b| if b == 0 { None } else { Some(a.wrapping_rem(b)) })),
    ("mul", |c| fold(c, i64::wrapping_mul)),
    ("max", |c| fold(c, i64::max)),
    ("biggest", |c| fold(c, i64::max)),
    ("min", |c| fold(c, i64::min)),
    ("maxf", |c| fold_float(c, f64::max)),
    ("minf", |c| fold_float(c, f64::min)),
    ("ceil", |c| rounded(c, f64::ceil)),
    ("floor", |c| rounded(c, f64::floor)),
    ("round", round),
    ("randInt", rand_int),
];

fn one(call: &Call<'_>, convert: fn(&Value) -> i64) -> Outcome {
    call.exactly(1)?;
    Ok(Value::Int(convert(call.any(0)?)))
}

fn two(call: &Call<'_>, work: fn(i64, i64) -> Option<i64>) -> Outcome {
    call.exactly(2)?;
    work(to_int(call.any(0)?), to_int(call.any(1)?))
        .map(Value::Int)
        .ok_or_else(|| Fault::Failed("cannot divide by 0".to_owned()))
}

fn fold(call: &Call<'_>, work: fn(i64, i64) -> i64) -> Outcome {
    call.at_least(1)?;
    Ok(Value::Int(call.args[1..].iter().map(to_int).fold(to_int(&call.args[0]), work)))
}

fn fold_float(call: &Call<'_>, work: fn(f64, f64) -> f64) -> Outcome {
    call.at_least(1)?;
    Ok(Value::Float(call.args[1..].iter().map(to_float).fold(to_float(&call.args[0]), work)))
}

fn rounded(call: &Call<'_>, work: fn(f64) -> f64) -> Outcome {
    call.exactly(1)?;
    Ok(Value::Float(work(to_float(call.any(0)?))))
}

/// slim-sprig's forgiving conversion: what is no number is 0.
#[expect(clippy::cast_possible_truncation, reason = "Go truncates, and so does the template's author")]
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().unwrap_or(0),
        Value::Int(integer) => *integer,
        Value::Uint(natural) => i64::try_from(*natural).unwrap_or(i64::MAX),
        Value::Float(float) => *float as i64,
        Value::Bool(bit) => i64::from(*bit),
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Function(_) => 0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "Go converts the same way")]
fn to_float(value: &Value) -> f64 {
    match value {
        Value::String(text) => text.parse().unwrap_or(0.0),
        Value::Int(integer) => *integer as f64,
        Value::Uint(natural) => *natural as f64,
        Value::Float(float) => *float,
        Value::Bool(bit) => f64::from(u8::from(*bit)),
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Function(_) => 0.0,
    }
}

fn round(call: &Call<'_>) -> Outcome {
    call.at_least(2)?;
    let places = i32::try_from(call.int(1)?).map_err(|_| Fault::Failed("too many places".to_owned()))?;
    let turn = call.args.get(2).map_or(0.5, to_float);
    let power = 10f64.powi(places);
    let digits = power * to_float(call.any(0)?);
    let rounded = if digits.fract() >= turn { digits.ceil() } else { digits.floor() };
    Ok(Value::Float(rounded / power))
}

/// From `start` to before `end`; empty where the step leads away from it.
fn steps(start: i64, end: i64, step: i64) -> Result<Vec<i64>, Fault> {
    let down = end < start;
    if (down && step >= 0) || (!down && step <= 0) {
        return Ok(Vec::new());
    }
    let (mut numbers, mut next) = (Vec::new(), start);
    while if down { next > end } else { next < end } {
        if numbers.len() >= MAX_ITEMS {
            return Err(Fault::TooMuch);
        }
        numbers.push(next);
        next = next.checked_add(step).ok_or(Fault::TooMuch)?;
    }
    Ok(numbers)
}

fn seq(call: &Call<'_>) -> Outcome {
    let params = (0..call.args.len()).map(|index| call.int(index)).collect::<Result<Vec<_>, _>>()?;
    let (start, end, step) = match params.as_slice() {
        [end] => (1, *end, None),
        [start, end] => (*start, *end, None),
        [start, step, end] => (*start, *end, Some(*step)),
        _ => return Ok(text("")),
    };
    let direction = if end < start { -1 } else { 1 };
    if direction < 0 && step.is_some_and(|step| step > 0) {
        return Ok(text(""));
    }
    let numbers = steps(start, end.saturating_add(direction), step.unwrap_or(direction))?;
    Ok(text(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")))
}

fn rand_int(call: &Call<'_>) -> Outcome {
    call.exactly(2)?;
    let (low, high) = (call.int(0)?, call.int(1)?);
    let range = high
        .checked_sub(low)
        .and_then(|range| u64::try_from(range).ok())
        .filter(|range| *range > 0)
        .ok_or_else(|| Fault::Failed(format!("there is no number from {low} to before {high}")))?;
    Ok(Value::Int(low.wrapping_add_unsigned(call.session.random() % range)))
}
