//! The functions of slim-sprig, over the engine's values.
//!
//! Arguments are a little more forgiving than Go's types (an `int64` is as good as an `int`), a missing one is an error
//! wherever Go wants a text. Two sorts of functions are refused: those that read what no strategy may read, and the few
//! that these values cannot carry.

mod clock;
mod lists;
mod maps;
mod numbers;
mod texts;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use gotmpl::{FuncMap, Value};

use super::analyse::{PRINTED, STEP};
use super::{MAX_ITEMS, MAX_NESTING, MAX_TEXT, MAX_WEIGHT, Session};

/// Functions of Go's `text/template` itself.
const BUILTIN: [&str; 19] = [
    "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print", "printf",
    "println", "slice", "urlquery",
];

/// What slim-sprig has and strategies may not use, with the reason.
const DENIED: [(&str, &str); 16] = [
    ("call", "there is nothing to call"),
    ("env", "it reads the environment of the controller"),
    ("expandenv", "it reads the environment of the controller"),
    ("getHostByName", "it asks the network"),
    ("hello", "it says nothing"),
    ("mustToDate", "dates cannot be parsed here; pass seconds since 1970"),
    ("set", "maps cannot be changed here; use dict"),
    ("sha1sum", "SHA-1 is not offered; use sha256sum"),
    ("toDate", "dates cannot be parsed here; pass seconds since 1970"),
    ("typeIs", "there are no Go types here; use kindIs"),
    ("typeIsLike", "there are no Go types here; use kindIs"),
    ("typeOf", "there are no Go types here; use kindOf"),
    ("unset", "maps cannot be changed here; use omit"),
    ("urlJoin", "URLs cannot be built here; use printf"),
    ("urlParse", "URLs cannot be parsed here; pass the parts as parameters"),
    ("genPrivateKey", "it makes keys"),
];

/// Why a function stops.
pub(super) enum Fault {
    /// Its result would be too large.
    TooMuch,
    /// Anything else, as a sentence without the function's name.
    Failed(String),
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

type Outcome = Result<Value, Fault>;
type Function = fn(&Call<'_>) -> Outcome;

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Function>> = LazyLock::new(|| {
    [texts::FUNCTIONS, lists::FUNCTIONS, maps::FUNCTIONS, numbers::FUNCTIONS, clock::FUNCTIONS]
        .into_iter()
        .flatten()
        .copied()
        .collect()
});

/// Whether strategies may use this function.
#[must_use]
pub fn is_supported(name: &str) -> bool {
    denied(name).is_none() && (BUILTIN.contains(&name) || FUNCTIONS.contains_key(name))
}

/// Why this function is refused by name, if it is one that exists elsewhere.
#[must_use]
pub fn denied(name: &str) -> Option<&'static str> {
    DENIED.iter().find(|(denied, _)| *denied == name).map(|(_, why)| *why)
}

/// Every function that strategies may use, sorted.
#[must_use]
pub fn supported() -> Vec<&'static str> {
    let mut names: Vec<_> = BUILTIN.into_iter().chain(FUNCTIONS.keys().copied()).collect();
    names.retain(|name| is_supported(name));
    names.sort_unstable();
    names.dedup();
    names
}

/// The functions of one rendering.
pub(super) fn registry(session: &Arc<Session>) -> FuncMap {
    let mut map = FuncMap::new();
    for (name, function) in FUNCTIONS.iter() {
        let (name, function, session) = (*name, *function, Arc::clone(session));
        map.insert(name.to_owned(), Arc::new(move |args: &[Value]| run(name, function, args, &session)));
    }
    let counter = Arc::clone(session);
    map.insert(
        STEP.to_owned(),
        Arc::new(move |args: &[Value]| bounded(args.first().cloned().unwrap_or(Value::Nil), &counter)),
    );
    let printer = Arc::clone(session);
    map.insert(
        PRINTED.to_owned(),
        Arc::new(move |args: &[Value]| match args {
            [Value::Int(offset), Value::Nil] => Err(printer.missing(usize::try_from(*offset).unwrap_or_default())),
            [_, value] => Ok(value.clone()),
            _ => Err(gotmpl::TemplateError::Exec("nothing to print".to_owned())),
        }),
    );
    map
}

fn run(
    name: &'static str,
    function: Function,
    args: &[Value],
    session: &Session,
) -> Result<Value, gotmpl::TemplateError> {
    match function(&Call { args, session }) {
        Ok(value) => {
            // Nobody has to mind how much is below a value: none that is heavier comes into being.
            if matches!(value, Value::List(_) | Value::Map(_)) {
                session.charge(weigh(&value).ok_or_else(|| session.too_much())?)?;
            }
            bounded(value, session)
        }
        Err(Fault::TooMuch) => Err(session.too_much()),
        Err(Fault::Failed(message)) if name == "fail" => Err(gotmpl::TemplateError::Exec(message)),
        Err(Fault::Failed(message)) => Err(gotmpl::TemplateError::Exec(format!("{name}: {message}"))),
    }
}

/// Nodes of a value with everything below it, as often as they are met; `None` if there are more than may be, or if they
/// are nested deeper.
fn weigh(value: &Value) -> Option<usize> {
    fn below(value: &Value, left: usize, depth: usize) -> Option<usize> {
        let mut left = left.checked_sub(1)?;
        if depth > MAX_NESTING {
            return None;
        }
        match value {
            Value::String(text) => left.checked_sub(text.len() / 16),
            Value::List(items) => {
                for item in items.iter() {
                    left = below(item, left, depth + 1)?;
                }
                Some(left)
            }
            Value::Map(entries) => {
                for (key, item) in entries.iter() {
                    left = below(item, left.checked_sub(key.len() / 16)?, depth + 1)?;
                }
                Some(left)
            }
            Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_) | Value::Function(_) => {
                Some(left)
            }
        }
    }
    below(value, MAX_WEIGHT, 0).map(|left| MAX_WEIGHT - left)
}

/// Charges for a value and refuses one that is too large.
fn bounded(value: Value, session: &Session) -> Result<Value, gotmpl::TemplateError> {
    let (size, most) = match &value {
        Value::String(text) => (text.len(), MAX_TEXT),
        Value::List(items) => (items.len(), MAX_ITEMS),
        Value::Map(entries) => (entries.len(), MAX_ITEMS),
        Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Float(_) | Value::Function(_) => (0, 0),
    };
    if size > most {
        return Err(session.too_much());
    }
    session.charge(size)?;
    Ok(value)
}

/// A function call: its arguments, as Go's types would take them.
pub(super) struct Call<'a> {
    args: &'a [Value],
    session: &'a Session,
}

impl<'a> Call<'a> {
    /// Refuses any other number of arguments.
    fn exactly(&self, count: usize) -> Result<(), Fault> {
        if self.args.len() == count {
            return Ok(());
        }
        Err(Fault::Failed(format!("takes {count} arguments, got {}", self.args.len())))
    }

    /// Refuses fewer arguments.
    fn at_least(&self, count: usize) -> Result<(), Fault> {
        if self.args.len() >= count {
            return Ok(());
        }
        Err(Fault::Failed(format!("takes at least {count} arguments, got {}", self.args.len())))
    }

    /// Counts work that shows in no result.
    fn charge(&self, units: usize) -> Result<(), Fault> {
        self.session.charge(units).map_err(|_| Fault::TooMuch)
    }

    /// Counts the work of comparing a value with others, this many times.
    fn charge_comparing(&self, value: &Value, times: usize) -> Result<(), Fault> {
        self.charge(weigh(value).ok_or(Fault::TooMuch)?.saturating_mul(times))
    }

    fn any(&self, index: usize) -> Result<&'a Value, Fault> {
        self.args.get(index).ok_or_else(|| Fault::Failed(format!("takes more than {} arguments", self.args.len())))
    }

    fn text(&self, index: usize) -> Result<&'a str, Fault> {
        match self.any(index)? {
            Value::String(text) => Ok(text),
            other => Err(wrong(index, "a text", other)),
        }
    }

    fn int(&self, index: usize) -> Result<i64, Fault> {
        match self.any(index)? {
            Value::Int(integer) => Ok(*integer),
            Value::Uint(natural) => Ok(i64::try_from(*natural).unwrap_or(i64::MAX)),
            Value::Float(float) => {
                super::value::whole(*float).ok_or_else(|| wrong(index, "an integer", &Value::Float(*float)))
            }
            other => Err(wrong(index, "an integer", other)),
        }
    }

    fn list(&self, index: usize) -> Result<&'a [Value], Fault> {
        match self.any(index)? {
            Value::List(items) => Ok(items),
            other => Err(wrong(index, "a list", other)),
        }
    }

    fn map(&self, index: usize) -> Result<&'a BTreeMap<Arc<str>, Value>, Fault> {
        match self.any(index)? {
            Value::Map(entries) => Ok(entries),
            other => Err(wrong(index, "a map", other)),
        }
    }
}

/// An argument of the wrong type.
fn wrong(index: usize, wanted: &str, found: &Value) -> Fault {
    let found = match found {
        Value::Nil => "nothing",
        other => super::value::kind(other),
    };
    Fault::Failed(format!("argument {} must be {wanted}, got {found}", index + 1))
}

/// Go's `fmt.Sprint` of one value.
fn shown(value: &Value) -> String {
    value.to_string()
}

/// What slim-sprig calls empty: the zero value of its type, or nothing.
fn is_empty(value: &Value) -> bool {
    !value.is_truthy()
}
