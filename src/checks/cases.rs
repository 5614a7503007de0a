//! Cases: a change and what has to be found in it. They are files, so that policies of others can have theirs, too.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::change::{Change, Identity, Operation};
use super::kind::Kind;
use super::lookup::Objects;
use crate::policy::yaml::{self, Unreadable};
use crate::policy::{Action, PolicySet};
use crate::rules::s3::Place;

/// A change and what has to be found in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows, in words.
    pub case: String,
    /// `CREATE` (where absent), `UPDATE` or `DELETE`.
    #[serde(default)]
    pub operation: Option<String>,
    /// Subresource, such as `scale`; the kind is then that of `of`.
    #[serde(default)]
    pub subresource: String,
    /// Kind whose subresource is asked about.
    #[serde(default)]
    pub of: Option<String>,
    /// The object as it shall be; on DELETE the one that goes.
    pub object: Value,
    /// The object as it is.
    #[serde(default)]
    pub old: Option<Value>,
    /// Other objects that there are; absent means that nothing else is known to exist.
    #[serde(default)]
    pub context: Vec<Value>,
    /// Whether a trusted writer asks.
    #[serde(default)]
    pub trusted: bool,
    /// Whether nobody says who asks, as on a command line.
    #[serde(default)]
    pub anonymous: bool,
    /// Stores that are trusted.
    #[serde(default)]
    pub trusted_stores: Vec<String>,
    /// What has to be found, and nothing else.
    #[serde(default)]
    pub findings: Vec<Expected>,
}

/// A finding to expect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The rule.
    pub policy: String,
    /// The field shown.
    pub field: String,
    /// What becomes of the request.
    pub action: Action,
}

/// How a case came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As expected.
    Passed,
    /// Otherwise.
    Failed {
        /// Expected and not found.
        missing: Vec<Expected>,
        /// Found and not expected.
        unexpected: Vec<Expected>,
    },
    /// The case itself makes no sense.
    Unusable(String),
}

/// The cases of a file.
pub fn read(text: &str) -> Result<Vec<Case>, Unreadable> {
    yaml::documents(text).iter().map(yaml::Document::read).collect()
}

impl Case {
    /// What the case asks, ready to be judged, with the objects around it.
    pub fn change(&self) -> Result<(Change<'_>, Objects), String> {
        let operation = self.operation.as_deref().unwrap_or("CREATE");
        let operation = Operation::of(operation).ok_or_else(|| format!("{operation:?} is no operation"))?;
        let kind = match &self.of {
            Some(of) => Kind::ALL.into_iter().find(|kind| kind.name() == of),
            None => Kind::of_object(&self.object),
        };
        let kind = kind.ok_or("the object's kind is not one that is judged")?;
        let (user, identity) = match (self.trusted, self.anonymous) {
            (true, _) => ("trusted", Identity::Trusted),
            (false, true) => ("", Identity::Unknown),
            (false, false) => ("anna", Identity::Other),
        };
        let text = |pointer: &str| super::view::text(&self.object, pointer);
        let (object, old) = match operation {
            Operation::Delete => (None, Some(&self.object)),
            Operation::Create | Operation::Update | Operation::Connect => (Some(&self.object), self.old.as_ref()),
        };
        let change = Change {
            kind,
            operation,
            subresource: &self.subresource,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            user,
            identity,
            object,
            old,
            now: Timestamp::UNIX_EPOCH,
        };
        let stores = self.trusted_stores.iter().map(|store| store.parse::<Place>().map_err(|why| why.to_string()));
        let objects: Objects = self.context.iter().cloned().collect();
        Ok((change, objects.trusting(stores.collect::<Result<_, _>>()?)))
    }

    /// Judges the change and compares.
    #[must_use]
    pub fn run(&self, policies: &PolicySet) -> Outcome {
        let (change, objects) = match self.change() {
            Ok(ready) => ready,
            Err(why) => return Outcome::Unusable(why),
        };
        let verdict = super::judge(&change, policies, &objects);
        let found: BTreeSet<Expected> = verdict
            .findings
            .iter()
            .map(|finding| Expected {
                policy: finding.policy.to_string(),
                field: finding.field().to_owned(),
                action: finding.action,
            })
            .collect();
        let expected: BTreeSet<Expected> = self.findings.iter().cloned().collect();
        let missing: Vec<Expected> = expected.difference(&found).cloned().collect();
        let unexpected: Vec<Expected> = found.difference(&expected).cloned().collect();
        if missing.is_empty() && unexpected.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed { missing, unexpected }
        }
    }
}
