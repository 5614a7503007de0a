//! Conditions: found, set and compared the way Kubernetes' own controllers do it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// What a condition's reason must look like, by `metav1.Condition`.
pub const REASON_PATTERN: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// A condition's type, status, reason and message, before it is merged into a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Condition type, such as `Available`.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: bool,
    /// One CamelCase word.
    pub reason: String,
    /// One sentence for a person.
    pub message: String,
}

/// The condition of this type, if it was ever set.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type is `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Puts a finding into the list. `lastTransitionTime` moves only when the status does.
pub fn set(conditions: &mut Vec<Condition>, finding: &Finding, generation: Option<i64>, now: Timestamp) {
    let status = if finding.status { "True" } else { "False" };
    let since = match find(conditions, finding.type_) {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let new = Condition {
        type_: finding.type_.to_owned(),
        status: status.to_owned(),
        reason: finding.reason.clone(),
        message: finding.message.clone(),
        observed_generation: generation,
        last_transition_time: since,
    };
    match conditions.iter_mut().find(|condition| condition.type_ == finding.type_) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}
