//! Events: what a person sees under `kubectl describe`.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tracing::warn;

/// What one event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether it needs a person's eyes.
    pub warning: bool,
    /// One CamelCase word: what happened.
    pub reason: String,
    /// One CamelCase word: what was being done.
    pub action: &'static str,
    /// One sentence.
    pub text: String,
}

/// Tells events about objects. An event that cannot be told is logged and never fails the work that it is about.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Events told by `controller`, such as `etcd-warden/etcdcluster`, of the process called `instance`.
    #[must_use]
    pub fn new(client: Client, controller: &str, instance: Option<String>) -> Self {
        Self { recorder: Recorder::new(client, Reporter { controller: controller.to_owned(), instance }) }
    }

    /// Something went as it should.
    pub async fn normal<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, action: &str, note: String) {
        self.publish(EventType::Normal, &object.object_ref(&()), reason, action, note).await;
    }

    /// Something needs a person's eyes.
    pub async fn warning<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, action: &str, note: String) {
        self.publish(EventType::Warning, &object.object_ref(&()), reason, action, note).await;
    }

    /// Tells these, one after the other.
    pub async fn tell<K: Resource<DynamicType = ()>>(&self, object: &K, notes: Vec<Note>) {
        let object = object.object_ref(&());
        for note in notes {
            let type_ = if note.warning { EventType::Warning } else { EventType::Normal };
            self.publish(type_, &object, &note.reason, note.action, note.text).await;
        }
    }

    async fn publish(&self, type_: EventType, object: &ObjectReference, reason: &str, action: &str, note: String) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(truncated(note)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, object).await {
            warn!(%reason, error = %super::error::message(&error), "event not recorded");
        }
    }
}

/// The API server refuses notes of 1,024 bytes and more.
fn truncated(mut note: String) -> String {
    const LIMIT: usize = 1000;
    if note.len() > LIMIT {
        let cut = (0..=LIMIT).rev().find(|at| note.is_char_boundary(*at)).unwrap_or(0);
        note.truncate(cut);
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use super::truncated;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let note = truncated("é".repeat(900));
        assert!(note.len() < 1024);
        assert!(note.ends_with('…'));
        assert_eq!(truncated("short".into()), "short");
    }
}
