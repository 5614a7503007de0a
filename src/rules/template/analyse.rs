//! Parsing a template and judging its tree before anything is rendered.
//!
//! The walk also rewrites the tree: every pipeline ends in [`STEP`], which counts work, and what would be printed passes
//! through [`PRINTED`], which refuses a missing value and knows where the pipeline stands.

use std::sync::Arc;

use gotmpl::TemplateError as EngineError;
use gotmpl::parse::{
    ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, Number, Parser, PipeNode, Pos, SmolStr, TemplateNode,
};

use super::{MAIN, Position, TemplateError, blocks, functions};

/// Counts work and passes its argument on. Not a name that a template can spell.
pub(super) const STEP: &str = "\u{0}step";
/// Refuses a missing value and passes any other on; its first argument is where the pipeline starts.
pub(super) const PRINTED: &str = "\u{0}printed";
/// Functions of Go's own whose arguments end up in text.
const PRINTERS: [&str; 6] = ["print", "printf", "println", "html", "js", "urlquery"];
/// Deepest nesting of branches and parentheses.
const MAX_DEPTH: usize = 40;

/// Parses a text; the trees come by name, the text's own first.
pub(super) fn parse(source: &str) -> Result<Vec<(String, ListNode)>, TemplateError> {
    let (main, defines) =
        Parser::new(source, "{{", "}}").and_then(Parser::parse).map_err(|error| syntax(source, &error))?;
    blocks::check(source)?;
    let names: Vec<SmolStr> = defines.iter().map(|define| define.name.clone()).collect();
    let walk = |list: &ListNode, root: bool| {
        let mut walk = Walk {
            source,
            names: &names,
            scopes: vec![vec![SmolStr::new("$")]],
            dot_is_root: root,
            root,
            loops: 0,
            depth: 0,
        };
        walk.list(list)
    };
    let mut trees = vec![(MAIN.to_owned(), walk(&main, true)?)];
    for (index, define) in defines.iter().enumerate() {
        if names[..index].contains(&define.name) {
            return Err(TemplateError::Syntax {
                at: position(source, define.pos.offset),
                message: format!("template {:?} is defined twice", define.name.as_str()),
            });
        }
        trees.push((define.name.to_string(), walk(&define.body, false)?));
    }
    Ok(trees)
}

/// Line and column of a byte offset.
pub(super) fn position(source: &str, offset: usize) -> Position {
    let before = source.get(..offset).unwrap_or(source);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position { line: before.matches('\n').count() + 1, column: before[start..].chars().count() + 1 }
}

/// The text of the action in which this byte stands, without its braces.
pub(super) fn action_at(source: &str, offset: usize) -> String {
    let rest = source.get(offset..).unwrap_or_default();
    let end = rest.find("}}").unwrap_or(rest.len());
    rest[..end].trim_end_matches('-').trim().to_owned()
}

fn syntax(source: &str, error: &EngineError) -> TemplateError {
    match error {
        EngineError::Parse { line, col, message, .. } | EngineError::Lex { line, col, message, .. } => {
            TemplateError::Syntax {
                at: Position { line: (*line).max(1), column: (*col).max(1) },
                message: message.clone(),
            }
        }
        other => TemplateError::Syntax { at: position(source, 0), message: other.to_string() },
    }
}

struct Walk<'a> {
    source: &'a str,
    names: &'a [SmolStr],
    /// Declared variables, innermost scope last.
    scopes: Vec<Vec<SmolStr>>,
    /// Whether dot still is what the template was given.
    dot_is_root: bool,
    /// Whether what the template was given is the root (not so in a `define`).
    root: bool,
    loops: usize,
    depth: usize,
}

impl Walk<'_> {
    fn at(&self, pos: Pos) -> Position {
        position(self.source, pos.offset)
    }

    fn deeper(&mut self) -> Result<(), TemplateError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(TemplateError::TooMuch) } else { Ok(()) }
    }

    fn list(&mut self, list: &ListNode) -> Result<ListNode, TemplateError> {
        self.deeper()?;
        self.scopes.push(Vec::new());
        // Even an empty body counts as work: a template may call itself twice and print nothing.
        let mut nodes = vec![tick(list.pos)];
        for node in &list.nodes {
            nodes.push(self.node(node)?);
        }
        self.scopes.pop();
        self.depth -= 1;
        Ok(ListNode { pos: list.pos, nodes })
    }

    fn node(&mut self, node: &Node) -> Result<Node, TemplateError> {
        Ok(match node {
            Node::List(list) => Node::List(self.list(list)?),
            Node::Text(text) => Node::Text(text.clone()),
            Node::Action(action) => {
                let mut pipe = self.pipe(&action.pipe)?;
                if pipe.decl.is_empty() {
                    pipe.commands.push(printed(action.pipe.pos));
                }
                Node::Action(ActionNode { pos: action.pos, pipe })
            }
            Node::If(branch) => Node::If(self.branch(branch, false)?),
            Node::With(branch) => Node::With(self.branch(branch, true)?),
            Node::Range(branch) => {
                self.loops += 1;
                let branch = self.branch(branch, true)?;
                self.loops -= 1;
                Node::Range(branch)
            }
            Node::Template(call) => Node::Template(self.call(call)?),
            Node::Define(_) => return Err(self.misplaced(list_start(), "define may only stand at the top")),
            Node::Break(pos) | Node::Continue(pos) if self.loops == 0 => {
                return Err(self.misplaced(*pos, "break and continue may only stand in a range"));
            }
            Node::Break(pos) => Node::Break(*pos),
            Node::Continue(pos) => Node::Continue(*pos),
        })
    }

    fn misplaced(&self, pos: Pos, message: &str) -> TemplateError {
        TemplateError::Syntax { at: self.at(pos), message: message.to_owned() }
    }

    fn call(&mut self, call: &TemplateNode) -> Result<TemplateNode, TemplateError> {
        if !self.names.contains(&call.name) {
            return Err(TemplateError::UnknownTemplate { at: self.at(call.pos), name: call.name.to_string() });
        }
        let pipe = call.pipe.as_ref().map(|pipe| self.pipe(pipe)).transpose()?;
        Ok(TemplateNode { pos: call.pos, name: call.name.clone(), pipe })
    }

    fn branch(&mut self, branch: &BranchNode, moves_dot: bool) -> Result<BranchNode, TemplateError> {
        // A variable that the pipeline declares lives until the branch ends.
        self.scopes.push(Vec::new());
        let pipe = self.pipe(&branch.pipe)?;
        let was_root = self.dot_is_root;
        self.dot_is_root = was_root && !moves_dot;
        let body = self.list(&branch.body)?;
        self.dot_is_root = was_root;
        let else_body = branch.else_body.as_ref().map(|list| self.list(list)).transpose()?;
        self.scopes.pop();
        Ok(BranchNode { pos: branch.pos, pipe, body, else_body })
    }

    fn pipe(&mut self, pipe: &PipeNode) -> Result<PipeNode, TemplateError> {
        self.deeper()?;
        let mut commands = Vec::with_capacity(pipe.commands.len() + 1);
        for (index, command) in pipe.commands.iter().enumerate() {
            let prints = command.args.first().is_some_and(is_printer);
            if index > 0 && command.args.first().is_some_and(is_constant) {
                return Err(self.misplaced(command.pos, "only a function can take what comes through a pipe"));
            }
            if prints && index > 0 {
                commands.push(printed(pipe.pos));
            }
            commands.push(self.command(command, prints)?);
        }
        commands.push(CommandNode { pos: pipe.pos, args: vec![Expr::Identifier(pipe.pos, SmolStr::new(STEP))] });
        if pipe.is_assign {
            for name in &pipe.decl {
                self.declared(pipe.pos, name)?;
            }
        } else if let Some(scope) = self.scopes.last_mut() {
            scope.extend(pipe.decl.iter().cloned());
        }
        self.depth -= 1;
        Ok(PipeNode { pos: pipe.pos, decl: pipe.decl.clone(), commands, is_assign: pipe.is_assign })
    }

    fn command(&mut self, command: &CommandNode, prints: bool) -> Result<CommandNode, TemplateError> {
        let mut args = Vec::with_capacity(command.args.len());
        for (index, arg) in command.args.iter().enumerate() {
            let arg = self.expr(arg)?;
            args.push(if prints && index > 0 { guarded(arg) } else { arg });
        }
        Ok(CommandNode { pos: command.pos, args })
    }

    fn expr(&mut self, expr: &Expr) -> Result<Expr, TemplateError> {
        match expr {
            Expr::Field(pos, fields) if self.dot_is_root => self.root_field(*pos, ".", fields)?,
            Expr::Variable(pos, name, fields) => {
                self.declared(*pos, name)?;
                if name == "$" && self.root {
                    self.root_field(*pos, "$.", fields)?;
                }
            }
            Expr::Identifier(pos, name) => self.function(*pos, name)?,
            Expr::Pipe(pos, pipe) => return Ok(Expr::Pipe(*pos, self.pipe(pipe)?)),
            Expr::Chain(pos, inner, fields) => {
                return Ok(Expr::Chain(*pos, Box::new(self.expr(inner)?), fields.clone()));
            }
            Expr::Dot(_) | Expr::Field(..) | Expr::String(..) | Expr::Number(..) | Expr::Bool(..) | Expr::Nil(_) => {}
        }
        Ok(expr.clone())
    }

    fn root_field(&self, pos: Pos, sigil: &str, fields: &[SmolStr]) -> Result<(), TemplateError> {
        match fields.first() {
            None => Ok(()),
            Some(first) if first == "Application" || first == "Parameters" => Ok(()),
            Some(first) => Err(TemplateError::UnknownVariable { at: self.at(pos), name: format!("{sigil}{first}") }),
        }
    }

    fn declared(&self, pos: Pos, name: &SmolStr) -> Result<(), TemplateError> {
        if self.scopes.iter().any(|scope| scope.contains(name)) {
            return Ok(());
        }
        Err(TemplateError::UnknownVariable { at: self.at(pos), name: name.to_string() })
    }

    fn function(&self, pos: Pos, name: &SmolStr) -> Result<(), TemplateError> {
        if functions::is_supported(name) {
            return Ok(());
        }
        let at = self.at(pos);
        Err(match functions::denied(name) {
            Some(why) => TemplateError::DeniedFunction { at, name: name.to_string(), why },
            None => TemplateError::UnknownFunction { at, name: name.to_string() },
        })
    }
}

fn list_start() -> Pos {
    Pos::new(0, 1)
}

fn is_printer(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_, name) if PRINTERS.contains(&name.as_str()))
}

/// Whether nothing can be passed to this through a pipe.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Dot(_) | Expr::Nil(_) | Expr::Bool(..) | Expr::Number(..) | Expr::String(..) => true,
        Expr::Field(..) | Expr::Variable(..) | Expr::Identifier(..) | Expr::Pipe(..) | Expr::Chain(..) => false,
    }
}

/// A command that refuses a missing value from the pipeline that starts here.
fn printed(pos: Pos) -> CommandNode {
    let offset = Number::Int(i64::try_from(pos.offset).unwrap_or_default());
    CommandNode { pos, args: vec![Expr::Identifier(pos, SmolStr::new(PRINTED)), Expr::Number(pos, offset)] }
}

/// An argument that may not be missing.
fn guarded(arg: Expr) -> Expr {
    let pos = arg.pos();
    let commands = vec![CommandNode { pos, args: vec![arg] }, printed(pos)];
    Expr::Pipe(pos, PipeNode { pos, decl: Vec::new(), commands, is_assign: false })
}

/// An action that only counts work.
fn tick(pos: Pos) -> Node {
    let step =
        CommandNode { pos, args: vec![Expr::Identifier(pos, SmolStr::new(STEP)), Expr::String(pos, Arc::from(""))] };
    Node::Action(ActionNode { pos, pipe: PipeNode { pos, decl: Vec::new(), commands: vec![step], is_assign: false } })
}
