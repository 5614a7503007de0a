//! The policy files and their cases: every case comes out as it says, and no rule could be taken away unnoticed.

use std::collections::BTreeSet;

use etcd_warden::checks::RULES;
use etcd_warden::checks::cases::{Case, Outcome, read};
use etcd_warden::cmd;
use etcd_warden::policy::{File, PolicySet, builtin_files, load};
use serde_json::Value;

fn cases() -> Vec<(String, Case)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .flat_map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let cases = read(&std::fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
            cases.into_iter().map(move |case| (name.clone(), case))
        })
        .collect()
}

fn failures<'a>(cases: &'a [(String, Case)], policies: &PolicySet) -> Vec<(&'a str, &'a str, Outcome)> {
    cases
        .iter()
        .map(|(file, case)| (file.as_str(), case.case.as_str(), case.run(policies)))
        .filter(|(_, _, outcome)| *outcome != Outcome::Passed)
        .collect()
}

/// M10, S14, S15: bounds of a cluster's spec, snapshots that change, lead out of their volume or are of nothing, and objects without a spec have their cases there.
#[test]
fn every_case_comes_out_as_it_says() {
    let cases = cases();
    assert!(cases.len() > 50, "only {} cases", cases.len());
    let failed = failures(&cases, &load(&builtin_files()).unwrap());
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The policy files without one validation: `None` where there is none of this number.
fn without(number: usize) -> Option<(String, Vec<File>)> {
    let mut seen = 0;
    let mut removed = None;
    let files = builtin_files()
        .into_iter()
        .map(|file| {
            let mut documents: Vec<Value> = etcd_warden::policy::yaml::documents(&file.text)
                .iter()
                .map(|document| document.read().unwrap())
                .collect();
            for document in &mut documents {
                let name = document["metadata"]["name"].as_str().unwrap().to_owned();
                let Some(validations) = document["spec"].get_mut("validations") else { continue };
                for validation in validations.as_array_mut().unwrap() {
                    if seen == number {
                        removed = Some(format!("{name}: {}", validation["expression"]));
                        validation["expression"] = "true".into();
                        validation.as_object_mut().unwrap().remove("messageExpression");
                    }
                    seen += 1;
                }
            }
            let text: Vec<String> = documents.iter().map(ToString::to_string).collect();
            File { name: file.name, text: text.join("\n---\n") }
        })
        .collect();
    removed.map(|removed| (removed, files))
}

#[test]
fn no_rule_can_be_taken_away_unnoticed() {
    let cases = cases();
    assert!(failures(&cases, &load(&builtin_files()).unwrap()).is_empty(), "a case fails with every rule in place");
    let mut unnoticed = Vec::new();
    let mut number = 0;
    while let Some((rule, files)) = without(number) {
        if failures(&cases, &load(&files).unwrap()).is_empty() {
            unnoticed.push(rule);
        }
        number += 1;
    }
    assert!(number > 15, "only {number} rules");
    assert!(unnoticed.is_empty(), "no case shows these rules: {unnoticed:#?}");
}

/// The rules that are no documents cannot be taken away one by one: each must be found by a case with each of its
/// actions, and nothing is found that is no rule.
#[test]
fn every_rule_is_listed_and_has_cases() {
    let cases = cases();
    let found: BTreeSet<(String, String)> = cases
        .iter()
        .flat_map(|(_, case)| &case.findings)
        .map(|finding| (finding.policy.clone(), format!("{:?}", finding.action)))
        .collect();
    let policies = load(&builtin_files()).unwrap();
    let mut listed: BTreeSet<(String, String)> = BTreeSet::new();
    for policy in policies.summaries() {
        let name = policy.name.strip_suffix(".etcd-warden.io").expect("our own policies are called so").to_owned();
        let actions = policy.bindings.iter().flat_map(|(_, actions)| actions);
        listed.extend(actions.map(|action| (name.clone(), format!("{action:?}"))));
    }
    for rule in RULES {
        listed.extend(rule.actions.iter().map(|action| (rule.name.to_owned(), format!("{action:?}"))));
    }
    let missing: Vec<_> = listed.difference(&found).collect();
    assert!(missing.is_empty(), "no case finds these: {missing:#?}");
    let unknown: Vec<_> = found.difference(&listed).collect();
    assert!(unknown.is_empty(), "found, but no rules: {unknown:#?}");
}

/// A message is shown at its field: so it must name one.
#[test]
fn every_message_of_a_policy_begins_with_a_field() {
    for policy in load(&builtin_files()).unwrap().summaries() {
        for message in policy.messages {
            let field = message.split_once(": ").map_or("", |(field, _)| field);
            let path = ["spec", "metadata", "status"].iter().any(|root| field.split(['.', ',']).next() == Some(root));
            assert!(path && !field.contains(' '), "{}: {message}", policy.name);
        }
    }
}

#[test]
fn the_page_about_policies_is_what_they_say() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policies.md")).unwrap();
    let made = cmd::policies::markdown(&load(&builtin_files()).unwrap());
    assert!(page == made, "docs/policies.md is not what policies/ and src/checks say: run `make generate`");
}
