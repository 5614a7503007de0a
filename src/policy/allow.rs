//! The language that policies may use: the part of CEL on which our engine and the API server agree, with costs that
//! grow no faster than the object. Everything else is refused when a policy is loaded.

use regex::Regex;
use thiserror::Error;

use super::cel::{Literal, Tree};

/// Something in an expression that policies may not use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// A function that is not among those that are known to agree.
    #[error("function {0}() may not be used")]
    Function(String),
    /// A name that stands for nothing.
    #[error("{0} is not known here")]
    Name(String),
    /// A kind of literal.
    #[error("{0} may not be used")]
    Syntax(&'static str),
    /// A list of values of several types, which the API server refuses.
    #[error("the items of a list must be of one type")]
    MixedList,
    /// A pattern that is put together at run time.
    #[error("the pattern of matches() must be a literal")]
    Pattern,
    /// A pattern that is no regular expression.
    #[error("pattern {0:?} is no regular expression")]
    BadPattern(String),
    /// Something in a pattern that the API server's regular expressions do not have, or read differently.
    #[error("pattern {0:?} uses {1}, which not every engine reads alike")]
    UnportablePattern(String, &'static str),
    /// A loop in a loop: its cost grows with the square of the object.
    #[error("a loop in a loop may not be used: its cost would grow with the square of the object")]
    Nested,
    /// A list that grows in a loop: each step copies what there is already.
    #[error("map() and filter() may only be used on lists that are written out")]
    Growing,
    /// Something that is copied each time it is read, within a loop.
    #[error("{0} may not be read within a loop: compare with the loop's own variable, literals, request or params")]
    InLoop(String),
    /// The old object is absent unless the request is an UPDATE or a DELETE.
    #[error("oldObject may only be read by policies for UPDATE and DELETE, or after oldObject == null ||")]
    OldObject,
    /// The object is absent on DELETE.
    #[error("object may not be read by policies for DELETE")]
    Object,
}

/// Functions on which the engines agree.
const FUNCTIONS: [&str; 15] = [
    "size",
    "startsWith",
    "endsWith",
    "contains",
    "matches",
    "string",
    "int",
    "lowerAscii",
    "upperAscii",
    "trim",
    "split",
    "join",
    "replace",
    "substring",
    "indexOf",
];
/// Operators, and what macros are made of.
const OPERATORS: [&str; 17] = [
    "_&&_", "_||_", "!_", "-_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_+_", "_-_", "_*_", "_/_", "_%_", "@in",
    "_[_]",
];
const CONDITIONAL: &str = "_?_:_";
const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";

/// What an expression may name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Variables that were declared before.
    pub(super) variables: Vec<String>,
    /// Whether there are parameters.
    pub(super) params: bool,
    /// Whether the object is always there.
    pub(super) object: bool,
    /// Whether the old object is always there.
    pub(super) old_object: bool,
}

/// Checks an expression.
pub(super) fn check(tree: &Tree, names: &Names) -> Result<(), Refused> {
    Walk { names, local: Vec::new(), depth: 0, old_object: names.old_object }.walk(tree)
}

struct Walk<'a> {
    names: &'a Names,
    local: Vec<String>,
    depth: usize,
    /// Whether an operand before this one has made sure that there is an old object.
    old_object: bool,
}

impl Walk<'_> {
    fn walk(&mut self, tree: &Tree) -> Result<(), Refused> {
        match tree {
            Tree::Literal(literal) => literal_allowed(literal),
            Tree::Ident(name) => self.ident(name),
            Tree::Select { of, field, .. } => self.select(of, field),
            Tree::Call { name, target, args } => self.call(name, target.as_deref(), args),
            Tree::List(items) => {
                if !of_one_type(items) {
                    return Err(Refused::MixedList);
                }
                items.iter().try_for_each(|item| self.walk(item))
            }
            Tree::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                self.walk(key)?;
                self.walk(value)
            }),
            Tree::Each { range, variables, parts } => self.each(range, variables, parts),
            Tree::Other(what) => Err(Refused::Syntax(what)),
        }
    }

    fn ident(&self, name: &str) -> Result<(), Refused> {
        match name {
            _ if self.local.iter().any(|local| local == name) => Ok(()),
            "object" | "oldObject" if self.depth > 0 => Err(Refused::InLoop(name.to_owned())),
            "request" => Ok(()),
            "params" if self.names.params => Ok(()),
            "object" if self.names.object => Ok(()),
            "oldObject" if self.old_object => Ok(()),
            "object" => Err(Refused::Object),
            "oldObject" => Err(Refused::OldObject),
            _ => Err(Refused::Name(name.to_owned())),
        }
    }

    /// `variables` is no value of its own: it is only there to be selected from.
    fn select(&mut self, of: &Tree, field: &str) -> Result<(), Refused> {
        match of {
            Tree::Ident(name) if name == "variables" => {
                let name = || format!("variables.{field}");
                if !self.names.variables.iter().any(|variable| variable == field) {
                    return Err(Refused::Name(name()));
                }
                if self.depth > 0 { Err(Refused::InLoop(name())) } else { Ok(()) }
            }
            _ => self.walk(of),
        }
    }

    fn call(&mut self, name: &str, target: Option<&Tree>, args: &[Tree]) -> Result<(), Refused> {
        if let [left, right] = args
            && asks_for_old_object(left, name)
        {
            let before = std::mem::replace(&mut self.old_object, true);
            let result = self.walk(right);
            self.old_object = before;
            return result;
        }
        let known = FUNCTIONS.contains(&name) || OPERATORS.contains(&name);
        let from_macro = name == CONDITIONAL || name == NOT_STRICTLY_FALSE;
        if !known && !from_macro {
            return Err(Refused::Function(name.to_owned()));
        }
        if name == "matches" {
            match args {
                [Tree::Literal(Literal::Text(pattern))] if target.is_some() => pattern_allowed(pattern)?,
                [_, Tree::Literal(Literal::Text(pattern))] => pattern_allowed(pattern)?,
                _ => return Err(Refused::Pattern),
            }
        }
        target.iter().copied().chain(args).try_for_each(|part| self.walk(part))
    }

    fn each(&mut self, range: &Tree, variables: &[String], parts: &[Tree]) -> Result<(), Refused> {
        self.walk(range)?;
        // A list that is written out has no more items than its author wrote.
        let bounded = matches!(range, Tree::List(_));
        if self.depth > 0 && !bounded {
            return Err(Refused::Nested);
        }
        if !bounded && matches!(parts.first(), Some(Tree::List(_))) {
            return Err(Refused::Growing);
        }
        let before = self.local.len();
        self.local.extend(variables.iter().cloned());
        self.depth += usize::from(!bounded);
        let result = parts.iter().try_for_each(|part| self.walk(part));
        self.depth -= usize::from(!bounded);
        self.local.truncate(before);
        result
    }
}

/// Whether, once `left` was asked, what stands right of `operator` is only reached with an old object: `oldObject == null
/// || ...`, `oldObject != null && ...`. Chains are nested to the left or to the right, as the parser likes.
fn asks_for_old_object(left: &Tree, operator: &str) -> bool {
    let comparison = match operator {
        "_||_" => "_==_",
        "_&&_" => "_!=_",
        _ => return false,
    };
    match left {
        Tree::Call { name, target: None, args } if name == operator => {
            args.first().is_some_and(|first| asks_for_old_object(first, operator))
        }
        Tree::Call { name, target: None, args } if name == comparison => matches!(
            args.as_slice(),
            [Tree::Ident(name), Tree::Literal(Literal::Null)] if name == "oldObject"
        ),
        _ => false,
    }
}

/// Integers in JSON are signed, and the API server compares numbers across types while the crate does not: so there is
/// one type of number.
fn literal_allowed(literal: &Literal) -> Result<(), Refused> {
    match literal {
        Literal::Bool | Literal::Int | Literal::Text(_) | Literal::Null => Ok(()),
        Literal::Uint => Err(Refused::Syntax("an unsigned literal")),
        Literal::Double => Err(Refused::Syntax("a floating-point literal")),
        Literal::Bytes => Err(Refused::Syntax("a bytes literal")),
    }
}

fn of_one_type(items: &[Tree]) -> bool {
    let literals: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            Tree::Literal(literal) => Some(std::mem::discriminant(literal)),
            _ => None,
        })
        .collect();
    literals.windows(2).all(|pair| pair[0] == pair[1])
}

/// Patterns are RE2's in the API server and the regex crate's here. What only one of them has is refused.
fn pattern_allowed(pattern: &str) -> Result<(), Refused> {
    let unportable = |what| Err(Refused::UnportablePattern(pattern.to_owned(), what));
    let mut escaped = false;
    let mut class = false;
    let mut previous = ' ';
    for c in pattern.chars() {
        if escaped {
            escaped = false;
            if "dDsSwWbB".contains(c) {
                return unportable("a class that is Unicode here and ASCII there; write it out, as in [0-9]");
            }
            if c.is_ascii_alphanumeric() && !"ntrfvAz".contains(c) {
                return unportable("an escape of a letter or digit");
            }
            previous = ' ';
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' if class => return unportable("a bracket within brackets"),
            '[' => class = true,
            ']' => class = false,
            '&' | '-' | '~' if class && previous == c => return unportable("a set operation within brackets"),
            _ => {}
        }
        previous = c;
    }
    if pattern.replace("(?:", "").contains("(?") {
        return unportable("a group with options");
    }
    Regex::new(pattern).map(|_| ()).map_err(|_| Refused::BadPattern(pattern.to_owned()))
}
