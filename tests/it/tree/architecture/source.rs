//! A source file, parsed: the paths that it names outside of its tests, and its functions.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};

/// A path that a file names, with the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPath {
    /// Its segments; `crate`, `self` and `super` are resolved, so that a path into our own crate starts with `crate`.
    pub segments: Vec<String>,
    /// Line in the file.
    pub line: usize,
}

impl NamedPath {
    pub fn starts_with(&self, start: &[&str]) -> bool {
        self.segments.len() >= start.len() && self.segments.iter().zip(start).all(|(ours, theirs)| ours == theirs)
    }

    pub fn ends_with(&self, end: &[&str]) -> bool {
        self.segments.len() >= end.len()
            && self.segments[self.segments.len() - end.len()..].iter().zip(end).all(|(ours, theirs)| ours == theirs)
    }
}

/// A function with the lines that it takes.
pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

/// A source file without its tests.
pub struct Source {
    /// Path below `src`, with `/`.
    pub file: String,
    pub paths: Vec<NamedPath>,
    /// Lines on which something asynchronous stands.
    pub asynchronous: Vec<usize>,
    pub functions: Vec<Function>,
    /// Lines that hold code: not blank, not comment, not test.
    pub code_lines: usize,
}

impl Source {
    pub fn read(root: &Path, path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a source file can be read");
        let file = path.strip_prefix(root).expect("below src").to_string_lossy().replace('\\', "/");
        Self::parse(&file, &text)
    }

    pub fn parse(file: &str, text: &str) -> Self {
        let mut tree = syn::parse_file(text).unwrap_or_else(|error| panic!("{file} does not parse: {error}"));
        let mut test_lines = vec![false; text.lines().count() + 2];
        tree.items.retain(|item| {
            let tested = attributes(item).iter().any(is_cfg_test);
            if tested {
                let (start, end) = lines_of(&item.to_token_stream());
                test_lines[start..=end].iter_mut().for_each(|line| *line = true);
            }
            !tested
        });
        // A file that is only compiled for tests says so at its top.
        let only_tests = tree.attrs.iter().any(is_cfg_test) || file.ends_with("/tests.rs") || file.contains("/tests/");
        let mut source = Self {
            file: file.to_owned(),
            paths: Vec::new(),
            asynchronous: Vec::new(),
            functions: Vec::new(),
            code_lines: 0,
        };
        if only_tests {
            return source;
        }
        source.code_lines = code_lines(text, &test_lines);
        let module = module_of(file);
        source.collect(tree.to_token_stream(), &module);
        Uses { module: &module, paths: &mut source.paths }.visit_file(&tree);
        source.paths.sort();
        source.paths.dedup();
        Functions { functions: &mut source.functions }.visit_file(&tree);
        source
    }

    /// Every `a::b::c` among the tokens, also those inside macros; `use` trees are added by [`Uses`].
    fn collect(&mut self, tokens: TokenStream, module: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.collect(group.stream(), module),
                TokenTree::Ident(ident) => {
                    let word = ident.to_string();
                    let line = ident.span().start().line;
                    if word == "async" || word == "await" {
                        self.asynchronous.push(line);
                    }
                    let mut segments = vec![word];
                    while let Some(next) = joined(&tokens[at + 1..]) {
                        segments.push(next);
                        at += 3;
                    }
                    if segments.len() > 1 {
                        self.paths.push(NamedPath { segments: resolve(module, segments), line });
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }
}

/// The identifier after `::`, if that is what comes next.
fn joined(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [TokenTree::Punct(first), TokenTree::Punct(second), TokenTree::Ident(ident), ..]
            if first.as_char() == ':' && second.as_char() == ':' =>
        {
            Some(ident.to_string())
        }
        _ => None,
    }
}

/// The module path of a file: `controller/etcdcluster/mod.rs` is `crate::controller::etcdcluster`.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    let mut module = vec!["crate".to_owned()];
    if !matches!(stem, "lib" | "main") {
        module.extend(stem.split('/').map(ToOwned::to_owned));
    }
    module
}

fn resolve(module: &[String], segments: Vec<String>) -> Vec<String> {
    let mut base = module.to_vec();
    let mut rest = segments.as_slice();
    match rest.first().map(String::as_str) {
        Some("self") => rest = &rest[1..],
        Some("super") => {
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        // A program names its own library as any other crate would.
        Some("etcd_warden") => {
            base = vec!["crate".to_owned()];
            rest = &rest[1..];
        }
        _ => return segments,
    }
    base.extend_from_slice(rest);
    base
}

struct Uses<'a> {
    module: &'a [String],
    paths: &'a mut Vec<NamedPath>,
}

impl Uses<'_> {
    fn walk(&mut self, tree: &syn::UseTree, prefix: &[String]) {
        let mut path = prefix.to_vec();
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.walk(&step.tree, &path);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.walk(item, prefix)),
            syn::UseTree::Name(name) => self.leaf(path, &name.ident),
            syn::UseTree::Rename(rename) => self.leaf(path, &rename.ident),
            syn::UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.paths.push(NamedPath { segments: resolve(self.module, path), line });
            }
        }
    }

    fn leaf(&mut self, mut path: Vec<String>, ident: &proc_macro2::Ident) {
        path.push(ident.to_string());
        self.paths.push(NamedPath { segments: resolve(self.module, path), line: ident.span().start().line });
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.walk(&item.tree, &[]);
    }
}

struct Functions<'a> {
    functions: &'a mut Vec<Function>,
}

impl Functions<'_> {
    fn add(&mut self, name: &proc_macro2::Ident, block: &syn::Block) {
        let (start, end) = lines_of(&block.to_token_stream());
        self.functions.push(Function { name: name.to_string(), line: name.span().start().line, lines: end - start });
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        _ => &[],
    }
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.to_token_stream().to_string().replace(' ', "").contains("(test)")
}

fn lines_of(tokens: &TokenStream) -> (usize, usize) {
    let (mut first, mut last) = (usize::MAX, 0);
    for token in tokens.clone() {
        first = first.min(token.span().start().line);
        last = last.max(token.span().end().line);
    }
    (first, last)
}

fn code_lines(text: &str, left_out: &[bool]) -> usize {
    text.lines()
        .enumerate()
        .filter(|(at, line)| !left_out[at + 1] && !line.trim().is_empty() && !line.trim_start().starts_with("//"))
        .count()
}

#[test]
fn tests_are_left_out_and_macros_are_read() {
    let source = Source::parse(
        "rules/example.rs",
        r"
        use crate::{api::names, k8s::{self, apply as put}};
        fn f() { println!(1, tokio::time::sleep(x)); super::super::store::open(); }
        #[cfg(test)]
        mod tests { use axum::Router; }
        ",
    );
    let paths: Vec<String> = source.paths.iter().map(|path| path.segments.join("::")).collect();
    assert!(paths.contains(&"crate::k8s::apply".to_owned()), "{paths:?}");
    assert!(paths.contains(&"tokio::time::sleep".to_owned()), "{paths:?}");
    assert!(paths.contains(&"crate::store::open".to_owned()), "{paths:?}");
    assert!(!paths.iter().any(|path| path.starts_with("axum")), "{paths:?}");
    assert_eq!(source.functions.len(), 1);
}
