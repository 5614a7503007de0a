//! Whether our definitions are upstream's, but for what is meant to differ: tables of upstream's fields and kinds are
//! compared with what the code generates, and every difference must be listed with its reason.

use std::collections::{BTreeMap, BTreeSet};

use etcd_warden::api::crd;
use etcd_warden::api::quantity::QUANTITY_PATTERN;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// The strategy of our own group has upstream's schema.
const OWN_STRATEGY: &str = "Etcd.strategy.etcd-warden.io";
const STRATEGY: &str = "Etcd.strategy.backups.cozystack.io";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    type_: String,
    required: bool,
    default: String,
    constraints: BTreeSet<String>,
}

type Fields = BTreeMap<String, Field>;

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn column(row: &[&'static str], index: usize) -> &'static str {
    row.get(index).copied().unwrap_or_default()
}

/// Upstream's fields by kind, condition lists written out.
fn upstream() -> BTreeMap<&'static str, Fields> {
    let mut kinds: BTreeMap<&str, Fields> = BTreeMap::new();
    for row in rows(include_str!("wire_fields.tsv")) {
        let field = Field {
            type_: row[2].to_owned(),
            required: column(&row, 3) == "required",
            default: column(&row, 4).to_owned(),
            constraints: column(&row, 5).split("; ").filter(|text| !text.is_empty()).map(str::to_owned).collect(),
        };
        kinds.entry(row[0]).or_default().insert(row[1].to_owned(), field);
    }
    let condition = kinds.remove("metav1.Condition").unwrap();
    for fields in kinds.values_mut() {
        let lists: Vec<String> = with_type(fields, |type_| type_ == "[]metav1.Condition");
        for list in lists {
            "[]object".clone_into(&mut fields.get_mut(&list).unwrap().type_);
            fields.extend(condition.iter().map(|(name, field)| (format!("{list}[].{name}"), field.clone())));
        }
    }
    let strategy = kinds[STRATEGY].clone();
    kinds.insert(OWN_STRATEGY, strategy);
    kinds
}

fn with_type(fields: &Fields, is: impl Fn(&str) -> bool) -> Vec<String> {
    fields.iter().filter(|(_, field)| is(&field.type_)).map(|(path, _)| path.clone()).collect()
}

fn kind_of(crd: &CustomResourceDefinition) -> String {
    format!("{}.{}", crd.spec.names.kind, crd.spec.group)
}

/// Our fields, from the generated definition.
fn ours(crd: &CustomResourceDefinition) -> Fields {
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
    let root = &schema["openAPIV3Schema"];
    let mut fields = Fields::new();
    for top in ["spec", "status"] {
        flatten(&root["properties"][top], top, is_required(root, top), &mut fields);
    }
    fields
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|entry| entry == name))
}

fn flatten(schema: &Value, path: &str, required: bool, fields: &mut Fields) {
    let field =
        Field { type_: type_of(schema), required, default: default_of(schema), constraints: constraints_of(schema) };
    // The entries of a list are worth a line only where more is said of them than that they are objects.
    if !path.ends_with("[]") || !field.constraints.is_empty() {
        fields.insert(path.to_owned(), field);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        flatten(property, &format!("{path}.{name}"), is_required(schema, name), fields);
    }
    if schema["items"]["type"] == "object" {
        flatten(&schema["items"], &format!("{path}[]"), false, fields);
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        assert_eq!(schema["pattern"], QUANTITY_PATTERN);
        return "quantity".to_owned();
    }
    let name = schema["type"].as_str().unwrap_or("?");
    match (name, schema["format"].as_str()) {
        ("array", _) => format!("[]{}", type_of(&schema["items"])),
        ("object", _) if schema["additionalProperties"].is_object() => {
            format!("map[string]{}", type_of(&schema["additionalProperties"]))
        }
        (name, Some(format)) => format!("{name}/{format}"),
        (name, None) => name.to_owned(),
    }
}

fn default_of(schema: &Value) -> String {
    schema.get("default").map(Value::to_string).unwrap_or_default()
}

fn constraints_of(schema: &Value) -> BTreeSet<String> {
    let mut constraints = BTreeSet::new();
    for key in ["minLength", "maxLength", "minimum", "maximum"] {
        if let Some(number) = schema[key].as_f64() {
            constraints.insert(format!("{key} {number}"));
        }
    }
    if schema["enum"].is_array() {
        constraints.insert(format!("enum {}", schema["enum"]));
    }
    if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| *pattern != QUANTITY_PATTERN) {
        constraints.insert(format!("pattern {pattern}"));
    }
    if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
        constraints.insert(format!("map-type {map_type}"));
    }
    match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            for key in schema["x-kubernetes-list-map-keys"].as_array().unwrap() {
                constraints.insert(format!("list-by {}", key.as_str().unwrap()));
            }
        }
        Some(other) => {
            constraints.insert(format!("list-type {other}"));
        }
        None => {}
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        constraints.insert("preserve-unknown-fields".to_owned());
    }
    constraints
}

/// What differs between our kind and upstream's: path and change.
fn differences(mut ours: Fields, mut upstream: Fields) -> BTreeSet<(String, String)> {
    for path in with_type(&upstream, |type_| type_.contains("core/v1.")) {
        let list = upstream[&path].type_.starts_with("[]");
        let type_ = if list { "[]object" } else { "object" };
        type_.clone_into(&mut upstream.get_mut(&path).unwrap().type_);
        let inner = |other: &String| other.starts_with(&format!("{path}.")) || other.starts_with(&format!("{path}["));
        assert!(ours.keys().any(inner), "{path} has no schema of its own");
        ours.retain(|other, _| !inner(other));
    }
    let mut found = BTreeSet::new();
    let paths: BTreeSet<String> = ours.keys().chain(upstream.keys()).cloned().collect();
    for path in paths {
        let mut change = |text: String| {
            found.insert((path.clone(), text));
        };
        match (ours.get(&path), upstream.get(&path)) {
            (Some(ours), None) => {
                change(format!("added, {}{}", ours.type_, if ours.required { ", required" } else { "" }));
            }
            (None, Some(_)) => change("missing".to_owned()),
            (Some(ours), Some(theirs)) => compare(ours, theirs, &mut change),
            (None, None) => unreachable!("the path came from one of them"),
        }
    }
    found
}

fn compare(ours: &Field, theirs: &Field, change: &mut dyn FnMut(String)) {
    if ours.type_ != theirs.type_ {
        change(format!("type {} instead of {}", ours.type_, theirs.type_));
    }
    match (ours.required, theirs.required) {
        (true, false) => change("required".to_owned()),
        (false, true) => change("not required".to_owned()),
        _ => {}
    }
    if ours.default != theirs.default {
        change(format!("default {:?} instead of {:?}", ours.default, theirs.default));
    }
    for more in ours.constraints.difference(&theirs.constraints) {
        change(format!("with {more}"));
    }
    for less in theirs.constraints.difference(&ours.constraints) {
        change(format!("without {less}"));
    }
}

#[test]
fn fields_are_upstreams_but_for_what_is_meant_to_differ() {
    let upstream = upstream();
    let mut listed = BTreeSet::new();
    for row in rows(include_str!("wire_differences.tsv")) {
        assert!(!column(&row, 3).is_empty(), "{row:?} has no reason");
        assert!(listed.insert((row[0].to_owned(), row[1].to_owned(), row[2].to_owned())), "{row:?} is listed twice");
    }
    let mut found = BTreeSet::new();
    for crd in crd::all() {
        let kind = kind_of(&crd);
        let theirs = upstream.get(kind.as_str()).unwrap_or_else(|| panic!("no table for {kind}"));
        for (path, change) in differences(ours(&crd), theirs.clone()) {
            found.insert((kind.clone(), path, change));
        }
    }
    let lines = |set: Vec<&(String, String, String)>| {
        let lines: Vec<_> = set.iter().map(|(kind, path, change)| format!("{kind}\t{path}\t{change}")).collect();
        lines.join("\n")
    };
    let unlisted = lines(found.difference(&listed).collect());
    let stale = lines(listed.difference(&found).collect());
    assert!(unlisted.is_empty(), "differences that wire_differences.tsv does not give a reason for:\n{unlisted}");
    assert!(stale.is_empty(), "differences in wire_differences.tsv that are none any more:\n{stale}");
}

#[test]
fn additions_are_explained_to_users() {
    let page = include_str!("../../../../docs/compatibility.md");
    let added: Vec<_> = rows(include_str!("wire_differences.tsv"))
        .filter(|row| row[2].starts_with("added"))
        .map(|row| row[1])
        .collect();
    for field in &added {
        let part_of_another = added.iter().any(|other| field.starts_with(&format!("{other}.")));
        assert!(part_of_another || page.contains(field), "docs/compatibility.md does not mention {field}");
    }
}

#[test]
fn additions_are_optional() {
    // A field of ours that upstream's programs do not write must not make their objects invalid.
    let upstream = upstream();
    for crd in crd::all() {
        let theirs = &upstream[kind_of(&crd).as_str()];
        let ours = ours(&crd);
        for (path, field) in ours.iter().filter(|(path, field)| field.required && !theirs.contains_key(*path)) {
            let parent = path.rsplit_once('.').unwrap().0.trim_end_matches("[]");
            let core = with_type(theirs, |type_| type_.contains("core/v1.")).iter().any(|core| path.starts_with(core));
            assert!(core || !theirs.contains_key(parent), "{}: {path} is required: {field:?}", kind_of(&crd));
        }
    }
}

#[test]
fn kinds_are_upstreams() {
    let crds: BTreeMap<String, CustomResourceDefinition> =
        crd::all().into_iter().map(|crd| (kind_of(&crd), crd)).collect();
    let mut seen = vec![OWN_STRATEGY.to_owned()];
    for row in rows(include_str!("wire_kinds.tsv")) {
        let crd = &crds[row[0]];
        let version = &crd.spec.versions[0];
        let names = &crd.spec.names;
        let kind = row[0].split('.').next().unwrap();
        assert_eq!(crd.spec.versions.len(), 1, "{}", row[0]);
        assert_eq!((version.name.as_str(), version.served, version.storage), (row[1], true, true), "{}", row[0]);
        assert_eq!((names.plural.as_str(), crd.spec.scope.as_str()), (row[2], row[3]), "{}", row[0]);
        assert_eq!(names.singular.as_deref(), Some(kind.to_lowercase().as_str()));
        assert_eq!(names.list_kind.as_deref(), Some(format!("{kind}List").as_str()));
        assert_eq!((&names.short_names, &names.categories), (&None, &None), "{}", row[0]);
        assert_eq!(crd.metadata.name.as_deref(), Some(format!("{}.{}", names.plural, crd.spec.group).as_str()));
        let subresources = version.subresources.as_ref();
        assert_eq!(subresources.is_some_and(|sub| sub.status.is_some()), column(&row, 4) == "status", "{}", row[0]);
        let scale = subresources.and_then(|sub| sub.scale.as_ref()).map(|scale| {
            format!(
                "{} {} {}",
                scale.spec_replicas_path,
                scale.status_replicas_path,
                scale.label_selector_path.as_deref().unwrap_or_default()
            )
        });
        assert_eq!(scale.unwrap_or_default(), column(&row, 5), "{}", row[0]);
        let selectable: Vec<_> =
            version.selectable_fields.iter().flatten().map(|field| field.json_path.as_str()).collect();
        assert_eq!(selectable.join(","), column(&row, 6), "{}", row[0]);
        assert_columns(row[0], version.additional_printer_columns.as_deref().unwrap_or_default(), column(&row, 7));
        let annotations: BTreeMap<_, _> = crd.metadata.annotations.clone().unwrap_or_default();
        let expected: BTreeMap<_, _> = pairs(column(&row, 8))
            .map(|(field, source)| (format!("options.cozystack.io/source.{field}"), source.to_owned()))
            .collect();
        assert_eq!(annotations, expected, "{}", row[0]);
        seen.push(row[0].to_owned());
    }
    seen.sort();
    assert_eq!(seen, crds.into_keys().collect::<Vec<_>>());
}

fn pairs(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split(',').filter_map(|pair| pair.split_once('='))
}

/// Upstream's columns are there, in upstream's order, and the age is the last.
fn assert_columns(
    kind: &str,
    ours: &[k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition],
    upstream: &'static str,
) {
    let mut columns = ours.iter();
    for (name, path) in pairs(upstream) {
        assert!(
            columns.any(|column| column.name == name && column.json_path == path),
            "{kind} lacks the column {name}"
        );
    }
    assert_eq!(ours.last().map(|column| column.name.as_str()), Some("Age"), "{kind}");
}
