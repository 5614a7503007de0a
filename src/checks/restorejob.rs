//! RestoreJob.

use std::sync::Arc;

use serde_json::Value;

use super::backup::{self, Usable};
use super::change::{Change, Operation};
use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::view::{self, Application};
use crate::api::common::{APP_CLUSTER_NAME, APP_KIND_ETCD, APPS_GROUP};
use crate::policy::{Basis, Cause, Finding};

/// Names of the rules.
const IN_PLACE: &str = "restorejob-in-place";
const TARGET_KIND: &str = "restorejob-target-kind";
const BACKUP_USABLE: &str = "restorejob-backup";

const TARGET: &str = "spec.targetApplicationRef";
const BACKUP: &str = "spec.backupRef.name";

pub(super) fn check(change: &Change<'_>, lookup: &dyn Lookup, findings: &mut Vec<Finding>) {
    let (Operation::Create | Operation::Update, Some(object)) = (change.operation, change.subject()) else { return };
    let target = Application::at(object, "/spec/targetApplicationRef");
    let backup = lookup.get(Kind::Backup, Some(change.namespace), view::text(object, "/spec/backupRef/name"));
    findings.extend(target.and_then(foreign_target));
    if let (Some(target), Known::Found(backup)) = (target, &backup) {
        findings.extend(to_copy(target, backup));
    }
    findings.extend(backup_unusable(object, &backup));
}

/// The target is no etcd application.
fn foreign_target(target: Application<'_>) -> Option<Finding> {
    (!target.is_etcd()).then(|| {
        Finding::deny(
            TARGET_KIND,
            TARGET,
            format!(
                "{}.{} cannot be restored from an etcd backup: the target is {APP_KIND_ETCD}.{APPS_GROUP}, or left out",
                target.kind, target.group
            ),
        )
        .because(Cause::FieldValueNotSupported)
    })
}

/// The target is an application other than the one that was backed up.
fn to_copy(target: Application<'_>, backup: &Value) -> Option<Finding> {
    let source = backup::application(backup)?;
    (target.is_etcd() && target.name != source.name).then(|| {
        Finding::deny(
            IN_PLACE,
            "spec.targetApplicationRef.name",
            format!(
                "an etcd backup is restored in place only. targetApplicationRef has no namespace, so a restore always \
                 lands in the Backup's own namespace, on the application it was taken of ({source:?}, not {target:?}); \
                 and there the platform's chart accepts no release name but {APP_CLUSTER_NAME:?}, so that a second \
                 application cannot exist. For a copy elsewhere, create an EtcdCluster with spec.bootstrap.restore",
                source = source.name,
                target = target.name,
            ),
        )
        .because(Cause::FieldValueForbidden)
        .and_field(BACKUP)
        .based_on(Basis::Others)
    })
}

/// The Backup is not there, not ready, or no longer usable.
fn backup_unusable(job: &Value, backup: &Known<Arc<Value>>) -> Option<Finding> {
    let name = view::text(job, "/spec/backupRef/name");
    let finding = match backup {
        Known::Unknown(_) => return None,
        Known::Absent => Finding::warn(
            BACKUP_USABLE,
            BACKUP,
            format!("Backup {name:?} does not exist in this namespace yet; the restore waits for it"),
        )
        .because(Cause::FieldValueNotFound),
        Known::Found(backup) => match backup::usable(backup) {
            Usable::Yes => return None,
            Usable::NotYet => Finding::warn(
                BACKUP_USABLE,
                BACKUP,
                format!("Backup {name:?} has nothing stored yet; the restore waits until it is Ready"),
            ),
            Usable::Never(why) => {
                Finding::deny(BACKUP_USABLE, BACKUP, format!("Backup {name:?} {why}; name one that is Ready"))
            }
        },
    };
    Some(finding.based_on(Basis::Others))
}
