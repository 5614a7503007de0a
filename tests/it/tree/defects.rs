//! What is known to go wrong with such controllers, one line each in `defects.tsv`, and what keeps it from going wrong here:
//! a test that names the entry, or a sentence of `docs/compatibility.md` that says how far it is left alone.
//!
//! A test names entries at the beginning of its documentation (`/// R1, S1: ...`, `/// B8 and B11: ...`) or of its name
//! (`fn o1_...`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::Visit;
use syn::{Attribute, Expr, ExprLit, ItemFn, Lit, Meta};

/// One line of `defects.tsv`.
struct Entry {
    id: &'static str,
    /// Words of the page that speak of it.
    page: Option<&'static str>,
}

fn entries() -> Vec<Entry> {
    let lines = include_str!("defects.tsv").lines();
    lines
        .map(|line| {
            let mut fields = line.split('\t');
            let (Some(id), Some(_)) = (fields.next(), fields.next()) else { panic!("{line:?} has no words") };
            Entry { id, page: fields.next() }
        })
        .collect()
}

/// Names of tests, by the entries that they name.
#[derive(Default)]
struct Named(BTreeMap<String, Vec<String>>);

impl<'ast> Visit<'ast> for Named {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let is_test = |attribute: &Attribute| attribute.path().segments.last().is_some_and(|last| last.ident == "test");
        if function.attrs.iter().any(is_test) {
            let name = function.sig.ident.to_string();
            let first = function.attrs.iter().find_map(documentation).unwrap_or_default();
            let by_name = name.split('_').next().map(str::to_uppercase);
            for id in at_the_beginning(&first).into_iter().chain(by_name) {
                self.0.entry(id).or_default().push(name.clone());
            }
        }
        syn::visit::visit_item_fn(self, function);
    }
}

fn documentation(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The entries that a text begins with, up to its colon.
fn at_the_beginning(text: &str) -> Vec<String> {
    let Some((list, _)) = text.split_once(':') else { return Vec::new() };
    let words = list.split([',', ' ']).filter(|word| !word.is_empty() && *word != "and");
    words.take_while(|word| is_id(word)).map(ToOwned::to_owned).collect()
}

fn is_id(word: &str) -> bool {
    word.strip_prefix(['R', 'B', 'P', 'S', 'O', 'M', 'N'])
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

fn tests() -> Named {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = Named::default();
    for folder in ["src", "tests/it"] {
        for entry in walkdir::WalkDir::new(root.join(folder)).sort_by_file_name() {
            let path = entry.expect("the tree can be read").into_path();
            if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file can be read");
                let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                named.visit_file(&file);
            }
        }
    }
    named
}

#[test]
fn every_known_defect_has_a_test_or_a_sentence() {
    let page = include_str!("../../../docs/compatibility.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let tests = tests().0;
    let mut wrong = Vec::new();
    for Entry { id, page: words } in entries() {
        match words {
            Some(words) if !page.contains(words) => {
                wrong.push(format!("{id}: docs/compatibility.md does not say {words:?}"));
            }
            None if !tests.contains_key(id) => {
                wrong.push(format!("{id}: no test names it, and the page does not speak of it"));
            }
            Some(_) | None => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tests_name_only_what_is_in_the_table() {
    let known: BTreeSet<&str> = entries().iter().map(|entry| entry.id).collect();
    let strange: Vec<_> = tests().0.into_iter().filter(|(id, _)| is_id(id) && !known.contains(id.as_str())).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn entries_are_read_from_the_beginning_only() {
    assert_eq!(at_the_beginning(" R1, S1: what"), ["R1", "S1"]);
    assert_eq!(at_the_beginning(" B8 and B11: what"), ["B8", "B11"]);
    assert_eq!(at_the_beginning(" P1, P4 and a lost answer: what"), ["P1", "P4"]);
    assert_eq!(at_the_beginning(" with a real S3 server: what"), Vec::<String>::new());
    assert_eq!(at_the_beginning(" S3 is a store"), Vec::<String>::new());
}
