//! The one place that knows which CEL crate is used: expressions are parsed, shown as a tree of our own for checking,
//! and evaluated over values converted from JSON.
//!
//! What the crate does differently from the API server is put right here or refused by the allow-list: `size()` of text
//! counts characters, regular expressions are compiled once, JSON integers are signed, and `null` in a map is absent.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value};
use kube_cel::{ErrorKind, KubeCelExt};
use regex::Regex;
use serde_json::Value as Json;

use super::projection::Wanted;

/// An expression that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) message: String,
}

/// A parsed expression.
pub(super) struct Program(IdedExpr);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Program")
    }
}

/// A parsed expression as others may look at it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Literal(Literal),
    Ident(String),
    Select { of: Box<Tree>, field: String, presence: bool },
    Call { name: String, target: Option<Box<Tree>>, args: Vec<Tree> },
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    Each { range: Box<Tree>, variables: Vec<String>, parts: Vec<Tree> },
    Other(&'static str),
}

/// A literal; texts are kept, since patterns have to be looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Bool,
    Int,
    Text(String),
    Null,
    Uint,
    Double,
    Bytes,
}

impl Program {
    /// Parses an expression.
    pub(super) fn parse(text: &str) -> Result<(Self, Tree), SyntaxError> {
        let expression = Parser::default().parse(text).map_err(|errors| {
            let number = |n: isize| usize::try_from(n).unwrap_or_default();
            match errors.errors.first() {
                Some(first) => {
                    SyntaxError { line: number(first.pos.0), column: number(first.pos.1), message: first.msg.clone() }
                }
                None => SyntaxError { line: 1, column: 1, message: "not an expression".to_owned() },
            }
        })?;
        let tree = tree(&expression);
        Ok((Self(expression), tree))
    }

    /// Evaluates to a truth; an error says why there is none.
    pub(super) fn truth(&self, scope: &Scope<'_>) -> Result<bool, String> {
        match self.evaluate(scope)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(format!("the expression gives a {} and no bool", other.type_of())),
        }
    }

    /// Evaluates to a text.
    pub(super) fn text(&self, scope: &Scope<'_>) -> Result<String, String> {
        match self.evaluate(scope)? {
            Value::String(text) => Ok(text.to_string()),
            other => Err(format!("the expression gives a {} and no string", other.type_of())),
        }
    }

    /// Evaluates to a value that later expressions can use.
    pub(super) fn value(&self, scope: &Scope<'_>) -> Result<Computed, String> {
        self.evaluate(scope).map(Computed)
    }

    fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, String> {
        Value::resolve(&self.0, &scope.0).map_err(|error| error.to_string())
    }
}

/// A value that an expression gave.
pub(super) struct Computed(Value);

/// Names and what they stand for.
pub(super) struct Scope<'a>(Context<'a>);

/// Contexts with all functions are expensive to make and cannot be shared between threads, so that finished ones wait
/// here for the next evaluation.
static IDLE: Mutex<Vec<Context<'static>>> = Mutex::new(Vec::new());

/// Runs `work` in a scope of its own.
pub(super) fn in_scope<T>(work: impl FnOnce(Scope<'_>) -> T) -> T {
    let waiting = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let root = waiting.unwrap_or_else(root);
    let result = work(Scope(root.new_inner_scope()));
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(root);
    result
}

impl Scope<'_> {
    /// Binds a name to what is wanted of a JSON value.
    pub(super) fn bind(&mut self, name: &str, value: &Json, wanted: &Wanted) {
        self.0.add_variable_from_value(name, convert(value, wanted));
    }

    /// Binds a name to a map of computed values.
    pub(super) fn bind_computed(&mut self, name: &str, values: &HashMap<String, Computed>) {
        let map: HashMap<Key, Value> =
            values.iter().map(|(name, value)| (Key::from(name.as_str()), value.0.clone())).collect();
        self.0.add_variable_from_value(name, Value::Map(Map { map: Arc::new(map) }));
    }

    /// A scope within this one.
    pub(super) fn within(&self) -> Scope<'_> {
        Scope(self.0.new_inner_scope())
    }
}

fn root() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("size", size);
    context.add_function("matches", matches);
    context
}

/// Texts are as long as they have characters.
fn size(This(of): This<Value>) -> Result<i64, ExecutionError> {
    let size = match &of {
        Value::List(list) => list.len(),
        Value::Map(map) => map.map.len(),
        Value::String(text) => text.chars().count(),
        other => return Err(ExecutionError::function_error("size", format!("a {} has no size", other.type_of()))),
    };
    i64::try_from(size).map_err(|error| ExecutionError::function_error("size", error))
}

/// Patterns are literals (the allow-list sees to it), so that there are only as many as were loaded.
static PATTERNS: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);

#[expect(clippy::needless_pass_by_value, reason = "the crate takes functions of owned arguments")]
fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<bool, ExecutionError> {
    let mut known = PATTERNS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = known.get(pattern.as_str()) {
        return Ok(regex.is_match(&text));
    }
    let regex = Regex::new(&pattern).map_err(|error| ExecutionError::function_error("matches", error))?;
    let found = regex.is_match(&text);
    known.insert(pattern.to_string(), regex);
    Ok(found)
}

/// JSON as the API server's CEL sees an untyped object, and no more of it than is asked for.
fn convert(value: &Json, wanted: &Wanted) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Int(integer),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(items) => {
            let whole = Wanted::Whole;
            let inside = if wanted.is_whole() { &whole } else { wanted };
            let kept: Vec<Value> = items.iter().map(|item| convert(item, inside)).collect();
            Value::List(Arc::new(kept))
        }
        Json::Object(fields) => {
            let kept: HashMap<Key, Value> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .filter_map(|(name, value)| {
                    let wanted = wanted.field(name)?;
                    Some((Key::from(name.as_str()), convert(value, wanted)))
                })
                .collect();
            Value::Map(Map { map: Arc::new(kept) })
        }
    }
}

fn tree(expression: &IdedExpr) -> Tree {
    match &expression.expr {
        Expr::Ident(name) => Tree::Ident(name.clone()),
        Expr::Literal(literal) => Tree::Literal(match literal {
            LiteralValue::Boolean(_) => Literal::Bool,
            LiteralValue::Int(_) => Literal::Int,
            LiteralValue::String(text) => Literal::Text(text.inner().to_owned()),
            LiteralValue::Null => Literal::Null,
            LiteralValue::UInt(_) => Literal::Uint,
            LiteralValue::Double(_) => Literal::Double,
            LiteralValue::Bytes(_) => Literal::Bytes,
        }),
        Expr::Select(select) => {
            Tree::Select { of: Box::new(tree(&select.operand)), field: select.field.clone(), presence: select.test }
        }
        Expr::Call(call) => Tree::Call {
            name: call.func_name.clone(),
            target: call.target.as_ref().map(|target| Box::new(tree(target))),
            args: call.args.iter().map(tree).collect(),
        },
        Expr::List(list) if list.optional_indices.is_empty() => Tree::List(list.elements.iter().map(tree).collect()),
        Expr::List(_) => Tree::Other("an optional list element"),
        Expr::Map(map) => Tree::Map(
            map.entries
                .iter()
                .filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some((tree(&entry.key), tree(&entry.value))),
                    EntryExpr::StructField(_) => None,
                })
                .collect(),
        ),
        Expr::Comprehension(each) => {
            let variables = std::iter::once(each.iter_var.clone()).chain(each.iter_var2.clone());
            let parts = [&each.accu_init, &each.loop_cond, &each.loop_step, &each.result];
            Tree::Each {
                range: Box::new(tree(&each.iter_range)),
                variables: variables.chain([each.accu_var.clone()]).collect(),
                parts: parts.into_iter().map(tree).collect(),
            }
        }
        Expr::Struct(_) => Tree::Other("a message literal"),
        Expr::Unspecified => Tree::Other("an empty expression"),
    }
}

/// What the rules of a definition's schema (`x-kubernetes-validations`) have against an object: field and message. Rules
/// that this engine cannot evaluate are left to the API server.
#[must_use]
pub fn definition_faults(
    schema: &serde_json::Value,
    object: &serde_json::Value,
    old: Option<&serde_json::Value>,
) -> Vec<(String, String)> {
    let Err(errors) = kube_cel::validate(schema, object, old) else { return Vec::new() };
    let broken = errors.into_vec().into_iter().filter(|error| error.kind == ErrorKind::ValidationFailure);
    broken.map(|error| (error.field_path, error.message)).collect()
}
