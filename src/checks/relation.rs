//! Whether an object is about etcd, and so ours to judge.

use serde_json::Value;

use super::change::Change;
use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::view::{self, Application, Leads};

/// Whether an object is ours to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is about etcd.
    Ours,
    /// It is about something else, and passes untouched.
    Foreign,
    /// Nothing in it says what it is about.
    Undetermined,
}

/// Whether the object of a change is ours to judge: as it shall be, or as it is.
#[must_use]
pub fn relation(change: &Change<'_>, lookup: &dyn Lookup) -> Relation {
    let of = |object: Option<&Value>| object.map(|object| of_object(change, object, lookup));
    match (of(change.subject()), of(change.old)) {
        (Some(Relation::Ours), _) | (_, Some(Relation::Ours)) => Relation::Ours,
        (Some(relation), _) | (None, Some(relation)) => relation,
        (None, None) => Relation::Foreign,
    }
}

fn of_object(change: &Change<'_>, object: &Value, lookup: &dyn Lookup) -> Relation {
    match change.kind {
        Kind::EtcdCluster | Kind::EtcdMember | Kind::EtcdSnapshot | Kind::Strategy | Kind::WardenStrategy => {
            Relation::Ours
        }
        Kind::BackupClass => of_class(object),
        Kind::BackupJob | Kind::Plan => of_job(object, lookup),
        Kind::Backup => of_backup(object),
        Kind::RestoreJob => of_restore(object, change.namespace, lookup),
    }
}

/// Whether a class has an entry of ours.
fn of_class(class: &Value) -> Relation {
    let entries = view::at(class, "/spec/strategies").and_then(Value::as_array);
    match entries {
        Some(entries) if entries.iter().any(is_our_entry) => Relation::Ours,
        Some(entries) if !entries.is_empty() => Relation::Foreign,
        _ => Relation::Undetermined,
    }
}

/// Whether an entry of a class has a strategy of ours.
#[must_use]
pub(super) fn is_our_entry(entry: &Value) -> bool {
    matches!(view::leads(entry, "/strategyRef"), Leads::Etcd(_))
}

/// The first entry of a class that is for this application, with its place in the list.
#[must_use]
pub(super) fn entry_for<'a>(class: &'a Value, application: Application<'_>) -> Option<(usize, &'a Value)> {
    let entries = view::at(class, "/spec/strategies")?.as_array()?;
    entries.iter().enumerate().find(|(_, entry)| {
        Application::at(entry, "/application")
            .is_some_and(|entry| entry.group == application.group && entry.kind == application.kind)
    })
}

pub(super) fn of_job(job: &Value, lookup: &dyn Lookup) -> Relation {
    let application = Application::at(job, "/spec/applicationRef");
    let class = lookup.get(Kind::BackupClass, None, view::text(job, "/spec/backupClassName"));
    if let (Some(application), Known::Found(class)) = (application, class)
        && let Some((_, entry)) = entry_for(&class, application)
    {
        return match view::leads(entry, "/strategyRef") {
            Leads::Etcd(_) => Relation::Ours,
            Leads::Elsewhere => Relation::Foreign,
            Leads::Nowhere => of_application(Some(application)),
        };
    }
    of_application(application)
}

pub(super) fn of_backup(backup: &Value) -> Relation {
    match view::leads(backup, "/spec/strategyRef") {
        Leads::Etcd(_) => Relation::Ours,
        Leads::Elsewhere => Relation::Foreign,
        Leads::Nowhere => of_application(Application::at(backup, "/spec/applicationRef")),
    }
}

fn of_restore(job: &Value, namespace: &str, lookup: &dyn Lookup) -> Relation {
    let name = view::text(job, "/spec/backupRef/name");
    match lookup.get(Kind::Backup, Some(namespace), name) {
        Known::Found(backup) => of_backup(&backup),
        Known::Absent | Known::Unknown(_) => of_application(Application::at(job, "/spec/targetApplicationRef")),
    }
}

fn of_application(application: Option<Application<'_>>) -> Relation {
    match application {
        Some(application) if application.is_etcd() => Relation::Ours,
        Some(application) if !application.kind.is_empty() => Relation::Foreign,
        _ => Relation::Undetermined,
    }
}
