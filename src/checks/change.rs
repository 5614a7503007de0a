//! A change to one object, as it is asked about.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::kind::Kind;
use super::view;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It goes.
    Delete,
    /// A stream is opened through it.
    Connect,
}

impl Operation {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    /// The operation of this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect].into_iter().find(|known| known.as_str() == word)
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Our own service account, or one that was declared as trusted.
    Trusted,
    /// Anybody else.
    Other,
    /// Nobody said.
    #[default]
    Unknown,
}

/// A change to one object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Kind.
    pub kind: Kind,
    /// What is done.
    pub operation: Operation,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name; empty where the API server is still to generate it.
    pub name: &'a str,
    /// Name of who asks; empty where nobody said.
    pub user: &'a str,
    /// Who that is to us.
    pub identity: Identity,
    /// The object as it shall be; absent on DELETE.
    pub object: Option<&'a Value>,
    /// The object as it is; absent on CREATE.
    pub old: Option<&'a Value>,
    /// The present, by which schedules are judged.
    pub now: Timestamp,
}

/// Prefix of annotations that carry meaning for us.
const OUR_ANNOTATIONS: &str = "etcd-warden.io/";

impl<'a> Change<'a> {
    /// The object that is judged: the new one, or on DELETE the old one.
    #[must_use]
    pub fn subject(&self) -> Option<&'a Value> {
        match self.operation {
            Operation::Delete => self.old.or(self.object),
            Operation::Create | Operation::Update | Operation::Connect => self.object,
        }
    }

    /// The object's name: from the request, else from the object.
    #[must_use]
    pub fn name_of_subject(&self) -> &'a str {
        if self.name.is_empty() {
            self.subject().map_or("", |object| view::text(object, "/metadata/name"))
        } else {
            self.name
        }
    }

    /// Whether there is nothing to judge: an object on its way out, a status, an update that changes nothing that has
    /// a meaning.
    #[must_use]
    pub fn is_exempt(&self) -> bool {
        let Some(subject) = self.subject() else { return true };
        match self.operation {
            Operation::Connect => true,
            Operation::Delete => false,
            Operation::Create => !self.subresource.is_empty(),
            Operation::Update => {
                self.subresource == "status"
                    || view::at(subject, "/metadata/deletionTimestamp").is_some()
                    || self.old.is_some_and(|old| !self.has_new_meaning(old, subject))
            }
        }
    }

    fn has_new_meaning(&self, old: &Value, new: &Value) -> bool {
        view::at(old, "/spec") != view::at(new, "/spec")
            || our_annotations(old) != our_annotations(new)
            || (self.kind == Kind::Backup && view::at(old, "/status") != view::at(new, "/status"))
    }

    /// The old object, as if it were made now.
    #[must_use]
    pub fn creation_of_old(&self) -> Option<Self> {
        let old = self.old?;
        Some(Self { operation: Operation::Create, object: Some(old), old: None, ..*self })
    }
}

fn our_annotations(object: &Value) -> Vec<(&String, &Value)> {
    let Some(annotations) = view::at(object, "/metadata/annotations").and_then(Value::as_object) else {
        return Vec::new();
    };
    let mut ours: Vec<_> = annotations.iter().filter(|(key, _)| key.starts_with(OUR_ANNOTATIONS)).collect();
    ours.sort_by_key(|(key, _)| *key);
    ours
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update<'a>(kind: Kind, old: &'a Value, new: &'a Value) -> Change<'a> {
        Change {
            kind,
            operation: Operation::Update,
            subresource: "",
            namespace: "t",
            name: "etcd",
            user: "",
            identity: Identity::Unknown,
            object: Some(new),
            old: Some(old),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_update_of_metadata_alone_is_exempt() {
        let old = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"version": "3.4.1"}});
        let new = json!({"metadata": {"labels": {"a": "2"}}, "spec": {"version": "3.4.1"}, "status": {"x": 1}});
        assert!(update(Kind::EtcdCluster, &old, &new).is_exempt());
    }

    #[test]
    fn our_annotations_and_the_status_of_a_backup_have_a_meaning() {
        let old = json!({"metadata": {}, "spec": {}});
        let annotated = json!({"metadata": {"annotations": {"etcd-warden.io/etcdutl-path": "/x"}}, "spec": {}});
        assert!(!update(Kind::EtcdCluster, &old, &annotated).is_exempt());
        let ready = json!({"metadata": {}, "spec": {}, "status": {"phase": "Ready"}});
        assert!(!update(Kind::Backup, &old, &ready).is_exempt());
        assert!(update(Kind::BackupJob, &old, &ready).is_exempt());
    }

    #[test]
    fn an_object_on_its_way_out_is_exempt_whatever_changes() {
        let old =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"]}, "spec": {"v": 1}});
        let new = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"v": 2}});
        assert!(update(Kind::RestoreJob, &old, &new).is_exempt());
    }

    #[test]
    fn a_change_without_an_object_is_exempt() {
        let change = Change { object: None, old: None, ..update(Kind::Plan, &Value::Null, &Value::Null) };
        for operation in [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect] {
            assert!(Change { operation, ..change }.is_exempt());
        }
    }
}
