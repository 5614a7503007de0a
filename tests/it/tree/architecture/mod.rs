//! The rules of the house, read from the parsed sources: which rooms are pure, which room may use which, how a
//! controller is laid out, how large a file and a function may grow.

mod arrows;
mod purity;
mod size;
mod source;

use std::path::Path;

use source::Source;

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources: Vec<Source> = walkdir::WalkDir::new(&root)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.expect("src can be read").into_path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| Source::read(&root, &path))
        .collect();
    assert!(sources.len() > 30, "only {} source files found below {}", sources.len(), root.display());
    sources
}

fn none(violations: &[String]) {
    assert!(violations.is_empty(), "{} against the rules of the house:\n{}", violations.len(), violations.join("\n"));
}

fn violations(check: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    sources().iter().flat_map(check).collect()
}

#[test]
fn pure_files_have_no_effects() {
    none(&violations(purity::check));
}

#[test]
fn rooms_use_only_the_floors_below() {
    none(&violations(arrows::check));
}

#[test]
fn the_cel_crates_are_named_in_one_file_only() {
    let named: Vec<String> = sources()
        .iter()
        .filter(|source| source.paths.iter().any(|path| path.starts_with(&["kube_cel"]) || path.starts_with(&["cel"])))
        .map(|source| source.file.clone())
        .collect();
    assert!(named.len() <= 1, "the CEL crates are named in {named:?}");
}

#[test]
fn every_controller_is_five_calls() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/controller");
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(&root).expect("src/controller can be read") {
        let kind = entry.expect("src/controller can be read").path();
        if !kind.is_dir() || !kind.join("decide.rs").exists() && !kind.join("observe.rs").exists() {
            continue;
        }
        for step in ["observe", "decide", "build", "apply", "status"] {
            if !kind.join(step).with_extension("rs").exists() && !kind.join(step).is_dir() {
                missing.push(format!("{} has no {step}", kind.display()));
            }
        }
    }
    none(&missing);
}

#[test]
fn files_and_functions_stay_small() {
    none(&violations(size::check));
}
