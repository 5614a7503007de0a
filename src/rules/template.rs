//! Go templates, as strategies hold them: parsed and judged once, rendered under limits.
//!
//! The language is Go's `text/template` with the functions of slim-sprig, over two variables: `.Application`, the whole
//! application object, and `.Parameters`, the map of the BackupClass entry. Three things are stricter than in Go:
//! - a value that is missing counts as false (`if`, `with`, `default`), but may not be printed: in Go it becomes the text
//!   `<no value>`, and a snapshot would be stored under that name;
//! - functions that read the environment or the network are refused by name, and so are a few that cannot be had here;
//! - nesting, loops, output and work are bounded: a template comes from whoever may write a strategy.
//!
//! The crate that parses and executes is named in this module only.

mod analyse;
mod blocks;
mod functions;
mod strategy;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

pub use functions::{denied, is_supported, supported};
pub use strategy::{RenderError, parse_strategy, render_strategy};

/// Longest template text, in bytes.
pub const MAX_SOURCE: usize = 4096;
/// Longest rendered text, in bytes: eight times the longest S3 key.
pub const MAX_OUTPUT: usize = 8192;
/// Longest text that a function may make, in bytes.
const MAX_TEXT: usize = 65_536;
/// Most items of a list that a function may make.
const MAX_ITEMS: usize = 4096;
/// Heaviest list or map that a function may make, in nodes with everything below them (a text weighs more the longer it
/// is). Lists share what is in them, so that a few short ones can stand for more nodes than there is memory.
const MAX_WEIGHT: usize = 65_536;
/// Deepest nesting of a value: what walks through one does so by recursion.
const MAX_NESTING: usize = 200;
/// Units of work of one rendering: one for each evaluated pipeline and function call, one for each byte made or node
/// looked at.
const MAX_WORK: u64 = 1_000_000;
/// What it costs to make a regular expression of a text.
const REGEX_WORK: usize = 50_000;
/// Iterations of all `range` loops of one rendering together.
const MAX_ITERATIONS: u64 = 10_000;
/// Name under which the parsed text is executed; no text can define it.
const MAIN: &str = "\u{0}main";

/// A place in a template's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a template was refused or could not be rendered. None of these passes by itself: all are terminal until the
/// template, the parameters or the application change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// Longer than [`MAX_SOURCE`].
    #[error("the template has {bytes} bytes, more than the {MAX_SOURCE} that are allowed")]
    TooLong {
        /// Bytes found.
        bytes: usize,
    },
    /// Not a template.
    #[error("{at}: {message}")]
    Syntax {
        /// Where.
        at: Position,
        /// What the parser said.
        message: String,
    },
    /// A function that Go's templates and slim-sprig do not have.
    #[error("{at}: there is no function {name:?}")]
    UnknownFunction {
        /// Where.
        at: Position,
        /// The function.
        name: String,
    },
    /// A function that strategies may not use.
    #[error("{at}: function {name:?} may not be used here: {why}")]
    DeniedFunction {
        /// Where.
        at: Position,
        /// The function.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// A variable other than `.Application` and `.Parameters`.
    #[error("{at}: there is no variable {name}: a strategy's template knows .Application and .Parameters")]
    UnknownVariable {
        /// Where.
        at: Position,
        /// The variable, with its dot or dollar sign.
        name: String,
    },
    /// `{{template "x"}}` without `{{define "x"}}`.
    #[error("{at}: no template {name:?} is defined")]
    UnknownTemplate {
        /// Where.
        at: Position,
        /// The name.
        name: String,
    },
    /// A value that is absent would have been printed.
    #[error("{at}: {expression} has no value")]
    MissingValue {
        /// Where.
        at: Position,
        /// The text of the action.
        expression: String,
    },
    /// The template asks for more text, items, loops or nesting than is allowed.
    #[error("the template asks for more work, text or nesting than is allowed")]
    TooMuch,
    /// A function or an operation failed while rendering; `fail` says so on purpose.
    #[error("{0}")]
    Failed(String),
}

/// Work that renderings may do together, in the units of a single one. Clones share it.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<AtomicU64>);

impl Default for Allowance {
    fn default() -> Self {
        Self::of(1)
    }
}

impl Allowance {
    /// As much as this number of renderings that use all that one may.
    #[must_use]
    pub fn of(renderings: u64) -> Self {
        Self(Arc::new(AtomicU64::new(renderings.saturating_mul(MAX_WORK))))
    }

    /// Takes units of it; whether there were enough.
    fn take(&self, units: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(units)).is_ok()
    }
}

/// What a template is rendered with.
#[derive(Clone, Debug)]
pub struct Data {
    root: gotmpl::Value,
    now: Timestamp,
    seed: u64,
    allowance: Allowance,
}

impl Data {
    /// `application` is the whole object; `now` is what clock functions tell, `seed` what random ones start from. The
    /// same arguments always render the same text.
    #[must_use]
    pub fn new<'a>(
        application: &serde_json::Value,
        parameters: impl IntoIterator<Item = (&'a String, &'a String)>,
        now: Timestamp,
        seed: u64,
    ) -> Self {
        let parameters = value::map(
            parameters.into_iter().map(|(key, text)| (key.as_str(), gotmpl::Value::String(Arc::from(text.as_str())))),
        );
        let root = value::map([("Application", value::from_json(application)), ("Parameters", parameters)]);
        Self { root, now, seed, allowance: Allowance::default() }
    }

    /// The same, where all renderings together may do this much work. Otherwise those with the same data may do as much
    /// as one.
    #[must_use]
    pub fn within(self, allowance: Allowance) -> Self {
        Self { allowance, ..self }
    }
}

/// A template that parsed, names only known functions and variables, and can be rendered any number of times.
#[derive(Clone, Debug)]
pub struct Template {
    source: String,
    trees: Vec<(String, gotmpl::parse::ListNode)>,
}

impl Template {
    /// Parses and judges a template's text.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError::TooLong { bytes: source.len() });
        }
        Ok(Self { source: source.to_owned(), trees: analyse::parse(source)? })
    }

    /// Whether the text has no action at all, so that it renders to itself.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        !self.source.contains("{{")
    }

    /// Renders the template.
    pub fn render(&self, data: &Data) -> Result<String, TemplateError> {
        let session = Arc::new(Session::new(data));
        let mut template =
            gotmpl::Template::new("").max_range_iters(MAX_ITERATIONS).funcs(functions::registry(&session));
        for (name, tree) in &self.trees {
            template = template.add_parse_tree(name, tree.clone());
        }
        let mut output = Bounded { text: String::new() };
        match template.execute_template_fmt(&mut output, MAIN, &data.root) {
            Ok(()) => Ok(output.text),
            Err(error) => Err(session.explain(&self.source, error)),
        }
    }
}

/// Output that refuses to grow without limit.
struct Bounded {
    text: String,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > MAX_OUTPUT {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Why a function stopped the rendering, for what the engine's own error cannot carry.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The pipeline that starts at this byte has no value to print.
    Missing(usize),
    TooMuch,
}

/// One rendering's shared state.
struct Session {
    now: Timestamp,
    allowance: Allowance,
    state: Mutex<State>,
}

struct State {
    work: u64,
    random: u64,
    /// Regular expressions by their text, so that a loop makes each of them once; `None` for what is none.
    patterns: BTreeMap<String, Option<regex::Regex>>,
    stop: Option<Stop>,
}

impl Session {
    fn new(data: &Data) -> Self {
        let state = State { work: 0, random: data.seed, patterns: BTreeMap::new(), stop: None };
        Self { now: data.now, allowance: data.allowance.clone(), state: Mutex::new(state) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Counts work; refuses when the rendering has done too much of it.
    fn charge(&self, units: usize) -> Result<(), gotmpl::TemplateError> {
        let mut state = self.state();
        let units = (units as u64).saturating_add(1);
        state.work = state.work.saturating_add(units);
        if state.work > MAX_WORK || !self.allowance.take(units) {
            return Err(stop(&mut state, Stop::TooMuch));
        }
        Ok(())
    }

    /// The regular expression of a text, if it is one.
    fn pattern(&self, source: &str) -> Result<Option<regex::Regex>, gotmpl::TemplateError> {
        if let Some(known) = self.state().patterns.get(source) {
            return Ok(known.clone());
        }
        self.charge(REGEX_WORK)?;
        let pattern = regex::RegexBuilder::new(source).size_limit(1 << 20).build().ok();
        self.state().patterns.insert(source.to_owned(), pattern.clone());
        Ok(pattern)
    }

    fn missing(&self, offset: usize) -> gotmpl::TemplateError {
        stop(&mut self.state(), Stop::Missing(offset))
    }

    fn too_much(&self) -> gotmpl::TemplateError {
        stop(&mut self.state(), Stop::TooMuch)
    }

    /// The next pseudo-random number (SplitMix64).
    fn random(&self) -> u64 {
        let mut state = self.state();
        state.random = state.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn explain(&self, source: &str, error: gotmpl::TemplateError) -> TemplateError {
        match self.state().stop {
            Some(Stop::Missing(offset)) => {
                return TemplateError::MissingValue {
                    at: analyse::position(source, offset),
                    expression: analyse::action_at(source, offset),
                };
            }
            Some(Stop::TooMuch) => return TemplateError::TooMuch,
            None => {}
        }
        match error {
            gotmpl::TemplateError::Write
            | gotmpl::TemplateError::RangeIterLimit
            | gotmpl::TemplateError::RecursionLimit => TemplateError::TooMuch,
            gotmpl::TemplateError::Exec(message) => TemplateError::Failed(message),
            other => TemplateError::Failed(other.to_string()),
        }
    }
}

fn stop(state: &mut State, why: Stop) -> gotmpl::TemplateError {
    state.stop.get_or_insert(why);
    gotmpl::TemplateError::Exec(String::new())
}

#[cfg(test)]
mod tests;
