//! AdmissionReview: from the wire to a request, and from a verdict back to the wire. Objects stay untyped.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thiserror::Error;

use crate::checks::{Operation, Verdict};
use crate::policy::{Action, Finding};

/// Most findings of an action that an answer tells one by one. An object may have as many faults as it has lines, and
/// an answer is held by us, by the API server and in the client's terminal.
const MOST_TOLD: usize = 100;
/// Most characters of a message: it may quote what somebody wrote.
const LONGEST_TOLD: usize = 2000;

/// Why a body is no AdmissionReview that could be answered.
#[derive(Debug, Error)]
pub enum ReviewError {
    /// Nothing was sent.
    #[error("the body is empty: expected an AdmissionReview")]
    Empty,
    /// Not JSON, or not of an AdmissionReview's shape.
    #[error("the body is not an AdmissionReview")]
    Malformed(#[source] serde_json::Error),
    /// Another kind, or a version that is not known.
    #[error("{kind} of {api_version} is not handled: expected AdmissionReview of admission.k8s.io/v1 or v1beta1")]
    Type {
        /// `apiVersion` as sent.
        api_version: String,
        /// `kind` as sent.
        kind: String,
    },
    /// A review without a question in it.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// A request without a uid cannot be answered.
    #[error("the request has no uid")]
    NoUid,
    /// An operation that is not known.
    #[error("operation {0:?} is not known: expected CREATE, UPDATE, DELETE or CONNECT")]
    Operation(String),
}

/// A group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// A group, version and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionResource {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Resource, in the plural.
    pub resource: String,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// User name.
    pub username: String,
}

/// A question of the API server.
#[derive(Clone, Debug)]
pub struct Request {
    /// `apiVersion` of the review, to be answered in.
    pub api_version: String,
    /// Identifies the question.
    pub uid: String,
    /// Kind of the object; of a subresource, the kind that stands for it, such as Scale.
    pub kind: GroupVersionKind,
    /// Resource that is asked about.
    pub resource: GroupVersionResource,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name; empty where it is still to be generated.
    pub name: String,
    /// What is done.
    pub operation: Operation,
    /// Who asks.
    pub user: String,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The object as it shall be.
    pub object: Option<Value>,
    /// The object as it is.
    pub old_object: Option<Value>,
    /// Why an object in the request could not be read; it is then absent above.
    pub unreadable: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(default, borrow)]
    api_version: Cow<'a, str>,
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    request: Option<WireRequest<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRequest<'a> {
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    kind: Option<GroupVersionKind>,
    #[serde(default)]
    resource: Option<GroupVersionResource>,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    operation: Option<String>,
    #[serde(default)]
    user_info: Option<UserInfo>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default, borrow)]
    object: Option<&'a RawValue>,
    #[serde(default, borrow)]
    old_object: Option<&'a RawValue>,
}

impl Request {
    /// Reads an AdmissionReview. Its objects are read one by one, so that a review around an object that cannot be
    /// read (nested too deep, say) can still be answered.
    pub fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        if body.trim_ascii().is_empty() {
            return Err(ReviewError::Empty);
        }
        let review: Envelope<'_> = serde_json::from_slice(body).map_err(ReviewError::Malformed)?;
        let known = matches!(&*review.api_version, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1");
        if !known || review.kind != "AdmissionReview" {
            return Err(ReviewError::Type {
                api_version: review.api_version.into_owned(),
                kind: review.kind.into_owned(),
            });
        }
        let request = review.request.ok_or(ReviewError::NoRequest)?;
        let uid = request.uid.filter(|uid| !uid.is_empty()).ok_or(ReviewError::NoUid)?;
        let operation = request.operation.unwrap_or_default();
        let operation = Operation::of(&operation).ok_or(ReviewError::Operation(operation))?;
        let mut unreadable = None;
        let mut read = |raw: Option<&RawValue>| match raw.map(|raw| serde_json::from_str::<Value>(raw.get())) {
            Some(Ok(object)) => Some(object),
            Some(Err(error)) => {
                unreadable = Some(error.to_string());
                None
            }
            None => None,
        };
        let (object, old_object) = (read(request.object), read(request.old_object));
        Ok(Self {
            api_version: review.api_version.into_owned(),
            uid,
            kind: request.kind.unwrap_or_default(),
            resource: request.resource.unwrap_or_default(),
            subresource: request.sub_resource.unwrap_or_default(),
            namespace: request.namespace.unwrap_or_default(),
            name: request.name.unwrap_or_default(),
            operation,
            user: request.user_info.unwrap_or_default().username,
            dry_run: request.dry_run.unwrap_or_default(),
            object,
            old_object,
            unreadable,
        })
    }

    /// The object's name as far as it is known: from the request, else from the object, else the prefix that a name
    /// will be generated from.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let metadata = |field: &str| {
            let object = self.object.as_ref().or(self.old_object.as_ref())?;
            object.get("metadata")?.get(field)?.as_str().filter(|text| !text.is_empty())
        };
        if self.name.is_empty() {
            metadata("name").or_else(|| metadata("generateName")).unwrap_or_default()
        } else {
            &self.name
        }
    }

    /// The answer of the validating path.
    #[must_use]
    pub fn answer(&self, verdict: &Verdict) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": verdict.allowed()});
        if !verdict.allowed() {
            response["status"] = self.refusal(verdict);
        }
        let mut warnings: Vec<String> = verdict.with(Action::Warn).take(MOST_TOLD).map(sentence).collect();
        if let Some(more) = left_out(verdict, Action::Warn) {
            warnings.push(more);
        }
        if !warnings.is_empty() {
            response["warnings"] = warnings.into();
        }
        let audit = audit_annotations(verdict);
        if !audit.is_empty() {
            response["auditAnnotations"] = json!(audit);
        }
        self.review(&response)
    }

    /// The answer of the mutating path: the patch, if there is anything to change.
    #[must_use]
    pub fn answer_with_patch(&self, patch: &json_patch::Patch) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": true});
        if !patch.0.is_empty() {
            let text = serde_json::to_vec(patch).unwrap_or_default();
            response["patchType"] = "JSONPatch".into();
            response["patch"] = base64(&text).into();
        }
        self.review(&response)
    }

    /// A refusal that is no rule's: something of the request itself.
    #[must_use]
    pub fn answer_refused(&self, code: u16, reason: &str, message: &str) -> Value {
        self.review(&json!({
            "uid": self.uid,
            "allowed": false,
            "status": {"status": "Failure", "code": code, "reason": reason, "message": one_line(message)},
        }))
    }

    fn review(&self, response: &Value) -> Value {
        json!({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response})
    }

    fn refusal(&self, verdict: &Verdict) -> Value {
        let denials: Vec<&Finding> = verdict.with(Action::Deny).take(MOST_TOLD).collect();
        let causes: Vec<Value> = denials
            .iter()
            .map(
                |finding| json!({"reason": finding.cause.as_str(), "field": finding.field(), "message": told(finding)}),
            )
            .collect();
        let message = match denials.as_slice() {
            [only] => sentence(only),
            several => {
                let listed = several.iter().enumerate().map(|(at, f)| format!("{}) {}", at + 1, sentence(f)));
                let listed: Vec<String> = listed.chain(left_out(verdict, Action::Deny)).collect();
                format!("{} faults: {}", verdict.with(Action::Deny).count(), listed.join("; "))
            }
        };
        json!({
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": message,
            "details": {
                "group": self.kind.group,
                "kind": self.kind.kind,
                "name": self.display_name(),
                "causes": causes,
            },
        })
    }
}

/// A finding's message, with the rule's name to look it up by. kubectl shows causes instead of the message that names
/// the webhook, so that they have to say themselves where they come from.
fn told(finding: &Finding) -> String {
    let mut message = one_line(&finding.message);
    if let Some((end, _)) = message.char_indices().nth(LONGEST_TOLD) {
        message.truncate(end);
        message.push_str("...");
    }
    format!("{message} (etcd-warden: {})", finding.policy)
}

/// How many findings of an action are not told one by one.
fn left_out(verdict: &Verdict, action: Action) -> Option<String> {
    let more = verdict.with(action).count().saturating_sub(MOST_TOLD);
    (more > 0).then(|| format!("and {more} more like these (etcd-warden)"))
}

fn sentence(finding: &Finding) -> String {
    if finding.field().is_empty() { told(finding) } else { format!("{}: {}", finding.field(), told(finding)) }
}

/// Control characters are replaced: the API server drops a warning that has one.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn audit_annotations(verdict: &Verdict) -> BTreeMap<String, String> {
    let mut annotations: BTreeMap<String, String> = BTreeMap::new();
    for finding in verdict.with(Action::Audit).take(MOST_TOLD) {
        let value = annotations.entry(finding.policy.to_string()).or_default();
        if !value.is_empty() {
            value.push_str("; ");
        }
        value.push_str(&sentence(finding));
    }
    annotations
}

/// Standard base64 with padding, as the wire has patches.
fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()))
        .ok()
        .and_then(|value| value.as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
