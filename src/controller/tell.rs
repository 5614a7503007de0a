//! What of a change is worth an event: a condition that turned, or trouble that it names anew. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::condition::find;
use crate::k8s::events::Note;

/// What the conditions `after` tell that `before` did not. A reason among `troubles` is told as a warning each time it
/// comes up; any other only when the condition's status turned, or was True from the start. Conditions that give the
/// same reason speak once.
#[must_use]
pub fn changes(before: &[Condition], after: &[Condition], troubles: &[&str], action: &'static str) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for new in after {
        let old = find(before, &new.type_);
        let turned = old.map_or(new.status == "True", |old| old.status != new.status);
        let renamed = old.is_none_or(|old| old.reason != new.reason);
        let warning = troubles.contains(&new.reason.as_str());
        let worth = turned || (warning && renamed);
        if worth && !notes.iter().any(|note| note.reason == new.reason) {
            notes.push(Note { warning, reason: new.reason.clone(), action, text: new.message.clone() });
        }
    }
    notes
}

/// A clause as a sentence.
#[must_use]
pub fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: format!("{type_} is {status}."),
            last_transition_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
            observed_generation: None,
        }
    }

    fn told(before: &[Condition], after: &[Condition]) -> Vec<(bool, String)> {
        let notes = changes(before, after, &["QuorumLost", "SecretMissing"], "Reconcile");
        notes.into_iter().map(|note| (note.warning, note.reason)).collect()
    }

    #[test]
    fn a_condition_is_told_when_it_turns_and_not_while_it_waits() {
        let waits = condition("Available", "False", "WaitingForSeed");
        assert!(told(&[], std::slice::from_ref(&waits)).is_empty());
        assert_eq!(told(std::slice::from_ref(&waits), &[condition("Available", "False", "Forming")]), []);
        let up = condition("Available", "True", "QuorumHealthy");
        assert_eq!(told(&[waits], std::slice::from_ref(&up)), [(false, "QuorumHealthy".to_owned())]);
        assert_eq!(told(std::slice::from_ref(&up), std::slice::from_ref(&up)), []);
        // The status stays, and only the words around it change.
        assert_eq!(told(&[up], &[condition("Available", "True", "QuorumAvailable")]), []);
    }

    #[test]
    fn trouble_is_a_warning_each_time_it_comes_up_and_speaks_once() {
        let waits = condition("Ready", "False", "PodNotReady");
        let trouble = condition("Ready", "False", "SecretMissing");
        assert_eq!(told(&[waits], std::slice::from_ref(&trouble)), [(true, "SecretMissing".to_owned())]);
        assert_eq!(told(&[], std::slice::from_ref(&trouble)), [(true, "SecretMissing".to_owned())]);
        assert_eq!(told(std::slice::from_ref(&trouble), std::slice::from_ref(&trouble)), []);
        let before = [condition("Available", "True", "QuorumHealthy"), condition("Degraded", "False", "QuorumHealthy")];
        let after = [condition("Available", "False", "QuorumLost"), condition("Degraded", "True", "QuorumLost")];
        assert_eq!(told(&before, &after), [(true, "QuorumLost".to_owned())]);
    }
}
