//! Many objects at once, as people and pipelines have them: each is judged with the others in sight, and what was found
//! is told in one report.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::defaults;
use crate::api::crd;
use crate::checks::{Change, Identity, Kind, Known, Lookup, Operation, Verdict, judge, value_at, view};
use crate::policy::yaml::{self, Lines};
use crate::policy::{Action, Finding, PolicySet, definition_faults};
use crate::rules::definition;

/// What findings are called that are the definition's own.
const DEFINITION: &str = "definition";

/// An object and where it stands, as people are told.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The file, or what else it came in.
    pub source: String,
    /// On which lines of it; `None` where there are none to point at.
    pub lines: Option<Lines>,
    /// The object.
    pub object: Value,
}

impl Placed {
    /// Where a field stands, or the nearest one above it that there is: the file and the line in it. The empty field is
    /// the object itself.
    #[must_use]
    pub fn place_of(&self, field: &str) -> String {
        match &self.lines {
            Some(lines) => format!("{}:{}", self.source, lines.of_field(field)),
            None => self.source.clone(),
        }
    }
}

/// How objects are judged.
#[derive(Clone, Copy)]
pub struct Examination<'a> {
    /// The rules.
    pub policies: &'a PolicySet,
    /// What is done with them; `None` for UPDATE where the old object is known, else CREATE.
    pub operation: Option<Operation>,
    /// The objects as they are, for UPDATE.
    pub old: &'a [Placed],
    /// Who asks; empty where nobody said.
    pub user: &'a str,
    /// What that user is to us.
    pub identity: Identity,
    /// Other objects.
    pub lookup: &'a dyn Lookup,
    /// The time it is.
    pub now: Timestamp,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Examined<'a> {
    /// Objects that were judged, with the verdict.
    pub judged: Vec<(&'a Placed, Verdict)>,
    /// How many were of kinds that are not ours.
    pub passed_over: usize,
}

impl Examination<'_> {
    /// Judges every object that is of a kind of ours.
    #[must_use]
    pub fn examine<'a>(&self, objects: &'a [Placed]) -> Examined<'a> {
        let mut examined = Examined::default();
        for placed in objects {
            let verdict = match Kind::of_object(&placed.object) {
                Some(kind) => Some(self.verdict(kind, &placed.object)),
                None => self.scaled(&placed.object),
            };
            match verdict {
                Some(verdict) => examined.judged.push((placed, verdict)),
                None => examined.passed_over += 1,
            }
        }
        examined
    }

    /// A Scale is a change of the EtcdCluster of its name, if that is in sight.
    fn scaled(&self, scale: &Value) -> Option<Verdict> {
        if scale["apiVersion"] != "autoscaling/v1" || scale["kind"] != "Scale" {
            return None;
        }
        let (namespace, name) = (text(scale, "namespace"), text(scale, "name"));
        let Known::Found(cluster) = self.lookup.get(Kind::EtcdCluster, Some(&namespace), &name) else { return None };
        let mut before = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": scale["metadata"]});
        for (field, from) in [("spec", "/spec/replicas"), ("status", "/status/readyMembers")] {
            if let Some(replicas) = view::integer(&cluster, from) {
                before[field] = json!({"replicas": replicas});
            }
        }
        let change = Change {
            kind: Kind::EtcdCluster,
            operation: Operation::Update,
            subresource: "scale",
            namespace: &namespace,
            name: &name,
            user: self.user,
            identity: self.identity,
            object: Some(scale),
            old: Some(&before),
            now: self.now,
        };
        Some(judge(&change, self.policies, self.lookup))
    }

    fn verdict(&self, kind: Kind, object: &Value) -> Verdict {
        let key = |object: &Value| (Kind::of_object(object), text(object, "namespace"), text(object, "name"));
        let before = self.old.iter().map(|placed| &placed.object).find(|before| key(before) == key(object));
        let operation = self.operation.unwrap_or(if before.is_some() { Operation::Update } else { Operation::Create });
        // As the API server has them when it asks: completed by the definition first, and a new one by ourselves then.
        let defined = |object: &Value| crd::with_defaults(kind.group(), kind.name(), object.clone());
        let (object, before) = (defined(object), before.map(defined));
        let (new, before) = match operation {
            Operation::Delete => (None, Some(&object)),
            Operation::Create => (Some(&object), None),
            Operation::Update | Operation::Connect => (Some(&object), before.as_ref()),
        };
        let (namespace, name) = (text(&object, "namespace"), text(&object, "name"));
        let change = Change {
            kind,
            operation,
            subresource: "",
            namespace: &namespace,
            name: &name,
            user: self.user,
            identity: self.identity,
            object: new,
            old: before,
            now: self.now,
        };
        let completed = new.map(|object| defaults::completed(&change, object, self.lookup));
        let mut verdict = judge(&Change { object: completed.as_ref(), ..change }, self.policies, self.lookup);
        if let Some(object) = &completed {
            by_definition(kind, object, before, &mut verdict);
        }
        verdict
    }
}

/// What the API server refuses before it asks anybody, except where we say it in our own words. It asks nobody then; here
/// everything is told at once. What a change left as it was is let be, as there.
fn by_definition(kind: Kind, object: &Value, old: Option<&Value>, verdict: &mut Verdict) {
    let mut faults = definition_of(kind, object, old);
    if let Some(old) = old
        && !faults.is_empty()
    {
        let before = definition_of(kind, old, None);
        faults.retain(|fault| !(before.contains(fault) && is_untouched(&fault.0, old, object)));
    }
    let said: Vec<String> = verdict.with(Action::Deny).map(|finding| finding.field().to_owned()).collect();
    let new = faults.into_iter().filter(|(field, _)| !said.contains(field));
    verdict.findings.splice(0..0, new.map(|(field, message)| Finding::deny(DEFINITION, &field, message)));
}

/// What a kind's definition has against an object: field and message.
fn definition_of(kind: Kind, object: &Value, old: Option<&Value>) -> Vec<(String, String)> {
    let shape = definition::faults(kind.group(), kind.name(), object);
    if shape.is_empty() {
        let schema = crd::schema(kind.group(), kind.name());
        // Rules are about objects of the right shape.
        return schema.map(|schema| definition_faults(schema, object, old)).unwrap_or_default();
    }
    shape.into_iter().map(|fault| (fault.field, fault.message)).collect()
}

/// Whether a change left a field as it was; of one that is not there, what it would stand in.
fn is_untouched(field: &str, old: &Value, new: &Value) -> bool {
    let held = if value_at(new, field).is_some() {
        field
    } else {
        let end = if field.ends_with(']') { field.rfind('[') } else { field.rfind('.') };
        &field[..end.unwrap_or_default()]
    };
    if held.is_empty() { old == new } else { value_at(old, held) == value_at(new, held) }
}

impl Examined<'_> {
    /// How many are refused.
    #[must_use]
    pub fn denied(&self) -> usize {
        self.judged.iter().filter(|(_, verdict)| !verdict.allowed()).count()
    }

    /// The report for programs.
    #[must_use]
    pub fn report(&self) -> Value {
        let objects: Vec<Value> = self
            .judged
            .iter()
            .map(|(placed, verdict)| {
                let findings: Vec<Value> = verdict
                    .findings
                    .iter()
                    .map(|found| {
                        json!({"field": found.field(), "message": found.message, "action": found.action, "policy": found.policy})
                    })
                    .collect();
                json!({
                    "source": placed.place_of(""),
                    "apiVersion": placed.object["apiVersion"],
                    "kind": placed.object["kind"],
                    "namespace": text(&placed.object, "namespace"),
                    "name": text(&placed.object, "name"),
                    "allowed": verdict.allowed(),
                    "findings": findings,
                })
            })
            .collect();
        json!({"objects": objects})
    }
}

/// A text of an object's metadata; empty where there is none.
#[must_use]
pub fn text(object: &Value, field: &str) -> String {
    object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The objects of a text, YAML documents or JSON, Lists taken apart; what cannot be read is told in `unreadable`.
#[must_use]
pub fn read(name: &str, text: &str, unreadable: &mut Vec<String>) -> Vec<Placed> {
    let mut placed = Vec::new();
    for document in yaml::documents(text) {
        match document.read::<Value>() {
            Err(error) => unreadable.push(format!("{name}: {error}")),
            Ok(object) => {
                let lines = Some(document.lines());
                take(Placed { source: name.to_owned(), lines, object }, &mut placed, unreadable);
            }
        }
    }
    placed
}

/// A List is its items; those of a typed list (`EtcdClusterList`) have their type from it.
fn take(mut read: Placed, placed: &mut Vec<Placed>, unreadable: &mut Vec<String>) {
    let of_type = |field: &str| read.object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (of_type("apiVersion"), of_type("kind"));
    if api_version.is_empty() || kind.is_empty() {
        let place = read.place_of("");
        return unreadable.push(format!("{place}: no object: apiVersion and kind are needed"));
    }
    let items = read.object.get_mut("items").and_then(Value::as_array_mut);
    let (Some(of), Some(items)) = (kind.strip_suffix("List"), items) else {
        return placed.push(read);
    };
    for (at, mut item) in std::mem::take(items).into_iter().enumerate() {
        if let (Some(fields), false) = (item.as_object_mut(), of.is_empty()) {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone().into());
            fields.entry("kind").or_insert_with(|| of.into());
        }
        // An item that stands elsewhere, by an alias, is pointed at where the list is.
        let lines = read.lines.as_ref().map(|lines| lines.items("items").get(at).unwrap_or(lines).clone());
        take(Placed { source: read.source.clone(), lines, object: item }, placed, unreadable);
    }
}
