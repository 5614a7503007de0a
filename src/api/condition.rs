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

/// Greatest length of a condition's message, in characters.
pub const MESSAGE_LIMIT: usize = 32_768;
/// Greatest length of a condition's reason, in characters.
pub const REASON_LIMIT: usize = 1_024;
/// What stands in for a reason that the API would refuse.
const UNNAMED_REASON: &str = "Unnamed";

/// Puts a finding into the list. `lastTransitionTime` moves only when the status does.
///
/// A reason or message that the API would refuse is made to fit: a refused status write would hide everything else too.
pub fn set(conditions: &mut Vec<Condition>, finding: &Finding, generation: Option<i64>, now: Timestamp) {
    let status = if finding.status { "True" } else { "False" };
    let old = conditions.iter_mut().find(|condition| condition.type_ == finding.type_);
    let since = match &old {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let new = Condition {
        type_: finding.type_.to_owned(),
        status: status.to_owned(),
        reason: if is_reason(&finding.reason) { finding.reason.clone() } else { UNNAMED_REASON.to_owned() },
        message: shortened(&finding.message),
        observed_generation: generation,
        last_transition_time: since,
    };
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// Whether the API takes this as a reason: [`REASON_PATTERN`], 1 to 1024 characters.
#[must_use]
pub fn is_reason(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte);
    text.len() <= REASON_LIMIT
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && text.bytes().all(inner)
        && text.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn shortened(message: &str) -> String {
    const MARK: &str = " [...]";
    if message.chars().count() <= MESSAGE_LIMIT {
        return message.to_owned();
    }
    message.chars().take(MESSAGE_LIMIT - MARK.len()).chain(MARK.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(status: bool, reason: &str, message: &str) -> Finding {
        Finding { type_: "Ready", status, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        set(&mut conditions, &finding(false, "JobRunning", "one"), Some(1), at(10));
        set(&mut conditions, &finding(false, "JobFailed", "two"), Some(2), at(20));
        let condition = find(&conditions, "Ready").unwrap();
        assert_eq!(condition.last_transition_time, Time(at(10)));
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("JobFailed", "two"));
        assert_eq!(condition.observed_generation, Some(2));

        set(&mut conditions, &finding(true, "SnapshotStored", "three"), Some(2), at(30));
        assert_eq!(find(&conditions, "Ready").unwrap().last_transition_time, Time(at(30)));
        assert!(is_true(&conditions, "Ready"));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_condition_of_another_type_is_left_alone() {
        let mut conditions = Vec::new();
        set(&mut conditions, &Finding { type_: "Degraded", ..finding(true, "QuorumLost", "") }, None, at(1));
        set(&mut conditions, &finding(true, "PodReady", ""), None, at(2));
        assert_eq!(find(&conditions, "Degraded").unwrap().last_transition_time, Time(at(1)));
        assert_eq!(conditions.len(), 2);
    }

    #[test]
    fn an_unknown_status_becomes_known_with_a_new_time() {
        let mut conditions = Vec::new();
        set(&mut conditions, &finding(false, "PodNotReady", ""), None, at(1));
        conditions[0].status = "Unknown".to_owned();
        set(&mut conditions, &finding(false, "PodNotReady", ""), None, at(2));
        assert_eq!(conditions[0].last_transition_time, Time(at(2)));
    }

    #[test]
    fn reasons_are_what_the_api_takes() {
        for legal in ["A", "JobRunning", "a1", "A_", "Etcd:Unreachable,Again"] {
            assert!(is_reason(legal), "{legal}");
        }
        for illegal in ["", "Cron spec is valid", "1st", "_A", "A,", "A:", "Caf\u{e9}", &"A".repeat(1025)] {
            assert!(!is_reason(illegal), "{illegal}");
        }
    }

    #[test]
    fn what_the_api_would_refuse_is_made_to_fit() {
        let mut conditions = Vec::new();
        let long = "\u{e9}".repeat(MESSAGE_LIMIT + 1);
        set(&mut conditions, &finding(false, "Failed to parse cron spec", &long), None, at(1));
        assert_eq!(conditions[0].reason, "Unnamed");
        assert_eq!(conditions[0].message.chars().count(), MESSAGE_LIMIT);
        assert!(conditions[0].message.ends_with(" [...]"));
        set(&mut conditions, &finding(false, "A", &long[2..]), None, at(1));
        assert_eq!(conditions[0].message, long[2..]);
    }
}
