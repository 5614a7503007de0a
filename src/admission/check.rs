//! `/check`: objects in, findings out, for people and pipelines that have no API server at hand.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::examine::{Examination, Placed, read};
use super::writers::Writers;
use crate::checks::{Kind, Known, Lookup, Objects, Operation};
use crate::policy::PolicySet;
use crate::rules::s3::Place;
use crate::rules::template::Allowance;

/// What is asked besides the objects.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Question {
    objects: Vec<Value>,
    /// The objects as they are, for UPDATE.
    old: Vec<Value>,
    /// Further objects that there are.
    context: Vec<Value>,
    operation: Option<String>,
    user: String,
}

/// The report on a body: objects as YAML documents, JSON or Lists, or one JSON object with `objects` and what else there
/// is to say. An error says what could not be read.
pub(super) fn check(
    body: &[u8],
    policies: &PolicySet,
    lookup: &Arc<dyn Lookup>,
    writers: &Writers,
    now: Timestamp,
) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|error| format!("the body is not UTF-8: {error}"))?;
    let (subjects, question) = question(text)?;
    if subjects.is_empty() {
        return Err("there are no objects in the body: send YAML documents, JSON, or {\"objects\": [...]}".to_owned());
    }
    let operation = match &question.operation {
        None => None,
        Some(word) => Some(
            Operation::of(word)
                .ok_or_else(|| format!("operation {word:?} is not known: expected CREATE, UPDATE or DELETE"))?,
        ),
    };
    let old = placed("old", question.old);
    let known = subjects.iter().map(|placed| placed.object.clone()).chain(question.context);
    let lookup = Overlay { near: known.collect(), far: lookup.clone(), allowance: lookup.allowance() };
    let examination = Examination {
        policies,
        operation,
        old: &old,
        user: &question.user,
        identity: writers.identity(&question.user),
        lookup: &lookup,
        now,
    };
    let examined = examination.examine(&subjects);
    let mut report = examined.report();
    report["passedOver"] = json!(examined.passed_over);
    Ok(report)
}

fn question(text: &str) -> Result<(Vec<Placed>, Question), String> {
    // An object of Kubernetes has a kind; a question has none.
    let asked = serde_json::from_str::<Value>(text).ok();
    if let Some(asked) = asked.filter(|asked| asked.get("kind").is_none() && asked.get("objects").is_some()) {
        let mut question: Question =
            serde_json::from_value(asked).map_err(|error| format!("the question cannot be read: {error}"))?;
        let objects = std::mem::take(&mut question.objects);
        return Ok((placed("objects", objects), question));
    }
    let mut unreadable = Vec::new();
    let subjects = read("body", text, &mut unreadable);
    match unreadable.into_iter().next() {
        Some(first) => Err(first),
        None => Ok((subjects, Question::default())),
    }
}

fn placed(list: &str, objects: Vec<Value>) -> Vec<Placed> {
    let named = objects.into_iter().enumerate();
    named.map(|(at, object)| Placed { source: format!("{list}[{at}]"), lines: None, object }).collect()
}

/// Objects that came with the question, before those that are known anyway.
struct Overlay {
    near: Objects,
    far: Arc<dyn Lookup>,
    /// One for the whole question, however many objects it has.
    allowance: Allowance,
}

impl Lookup for Overlay {
    fn get(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Known<Arc<Value>> {
        match self.near.get(kind, namespace, name) {
            Known::Found(object) => Known::Found(object),
            Known::Absent | Known::Unknown(_) => self.far.get(kind, namespace, name),
        }
    }

    fn list(&self, kind: Kind, namespace: Option<&str>) -> Known<Vec<Arc<Value>>> {
        let near = self.near.list(kind, namespace).found().unwrap_or_default();
        let key = |object: &Value| {
            (object.pointer("/metadata/namespace").cloned(), object.pointer("/metadata/name").cloned())
        };
        match self.far.list(kind, namespace) {
            Known::Found(far) => {
                let others = far.into_iter().filter(|there| near.iter().all(|here| key(here) != key(there)));
                Known::Found(others.chain(near.iter().cloned()).collect())
            }
            Known::Absent => Known::Found(near),
            Known::Unknown(why) => Known::Unknown(why),
        }
    }

    fn strategy_leases(&self) -> Known<Vec<Arc<Value>>> {
        self.far.strategy_leases()
    }

    fn trusted_stores(&self) -> &[Place] {
        self.far.trusted_stores()
    }

    fn allowance(&self) -> Allowance {
        self.allowance.clone()
    }
}
