//! Many objects at once, as people and pipelines have them: each is judged with the others in sight, and what was found
//! is told in one report.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Change, Identity, Kind, Lookup, Operation, Verdict, judge};
use crate::policy::{PolicySet, yaml};

/// An object and where it stands, as people are told: a file and the line in it.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Where it stands.
    pub source: String,
    /// The object.
    pub object: Value,
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
            match Kind::of_object(&placed.object) {
                Some(kind) => examined.judged.push((placed, self.verdict(kind, &placed.object))),
                None => examined.passed_over += 1,
            }
        }
        examined
    }

    fn verdict(&self, kind: Kind, object: &Value) -> Verdict {
        let key = |object: &Value| (Kind::of_object(object), text(object, "namespace"), text(object, "name"));
        let before = self.old.iter().map(|placed| &placed.object).find(|before| key(before) == key(object));
        let operation = self.operation.unwrap_or(if before.is_some() { Operation::Update } else { Operation::Create });
        let (new, before) = match operation {
            Operation::Delete => (None, Some(object)),
            Operation::Create => (Some(object), None),
            Operation::Update | Operation::Connect => (Some(object), before),
        };
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
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
        judge(&change, self.policies, self.lookup)
    }
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
                    "source": placed.source,
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
        let source = format!("{name}:{}", document.line);
        match document.read::<Value>() {
            Err(error) => unreadable.push(format!("{name}: {error}")),
            Ok(mut list) if is_list(&list) => {
                let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
                placed.extend(items.into_iter().map(|object| Placed { source: source.clone(), object }));
            }
            Ok(object) => placed.push(Placed { source, object }),
        }
    }
    placed
}

fn is_list(object: &Value) -> bool {
    object["kind"] == "List" && object["items"].is_array()
}
