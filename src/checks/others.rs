//! EtcdMember, EtcdSnapshot and Backup.

use serde_json::Value;

use super::backup::in_use;
use super::change::{Change, Identity, Operation};
use super::coordinates;
use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::view;
use crate::policy::{Action, Basis, Cause, Finding};

/// Names of the rules.
pub(super) const MEMBER: &str = "etcdmember-internal";
pub(super) const SNAPSHOT_CLUSTER: &str = "etcdsnapshot-cluster";
pub(super) const BACKUP_SPEC: &str = "backup-spec";
pub(super) const BACKUP_FROZEN: &str = "backup-frozen";
pub(super) const BACKUP_STATUS: &str = "backup-status";
pub(super) const BACKUP_IN_USE: &str = "backup-in-use";

/// Members are the cluster controller's own notes.
pub(super) fn check_member(change: &Change<'_>, findings: &mut Vec<Finding>) {
    if change.identity != Identity::Trusted {
        let message = "EtcdMembers are made and changed by the controller of their EtcdCluster; change that instead";
        findings.push(Finding::warn(MEMBER, "", message).based_on(Basis::Change));
    }
}

pub(super) fn check_snapshot(change: &Change<'_>, lookup: &dyn Lookup, findings: &mut Vec<Finding>) {
    let (Operation::Create | Operation::Update, Some(object)) = (change.operation, change.subject()) else { return };
    coordinates::check(object, "/spec/destination/s3", findings);
    let cluster = view::text(object, "/spec/clusterRef/name");
    if !cluster.is_empty() && matches!(lookup.get(Kind::EtcdCluster, Some(change.namespace), cluster), Known::Absent) {
        let message = format!("EtcdCluster {cluster:?} does not exist in this namespace");
        let finding = Finding::warn(SNAPSHOT_CLUSTER, "spec.clusterRef.name", message);
        findings.push(finding.because(Cause::FieldValueNotFound).based_on(Basis::Others));
    }
}

pub(super) fn check_backup(change: &Change<'_>, lookup: &dyn Lookup, findings: &mut Vec<Finding>) {
    let Some(object) = change.subject() else { return };
    if change.operation == Operation::Delete {
        findings.extend(in_use(change.name_of_subject(), change.namespace, lookup).map(|job| {
            let message = format!("RestoreJob {job:?} restores from this Backup; what it needs is kept until it ends");
            Finding::warn(BACKUP_IN_USE, "", message).based_on(Basis::Change)
        }));
        return;
    }
    if view::at(object, "/spec").is_none() {
        let message = "a Backup needs one: applicationRef, strategyRef and takenAt";
        findings.push(Finding::deny(BACKUP_SPEC, "spec", message).because(Cause::FieldValueRequired));
    }
    if let Some(old) = change.old
        && spec_without_policy(old) != spec_without_policy(object)
    {
        let message = "a Backup says what was stored; only deletionPolicy can be changed";
        let finding = Finding::deny(BACKUP_FROZEN, "spec", message).because(Cause::FieldValueForbidden);
        findings.push(finding.based_on(Basis::Change));
    }
    findings.extend(forged(change, object));
}

fn spec_without_policy(backup: &Value) -> Option<Value> {
    let mut spec = view::at(backup, "/spec")?.clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("deletionPolicy");
    }
    Some(spec)
}

/// What is stored and where is known to those who stored it. Where nobody said who asks, it is only doubted.
fn forged(change: &Change<'_>, object: &Value) -> Option<Finding> {
    let told = |backup: Option<&'_ Value>, field: &str| {
        backup.and_then(|backup| view::at(backup, &format!("/status/{field}"))).cloned()
    };
    let action = match change.identity {
        Identity::Trusted => return None,
        Identity::Other => Action::Deny,
        Identity::Unknown => Action::Warn,
    };
    let changed = ["artifact", "underlyingResources"]
        .into_iter()
        .find(|field| told(Some(object), field) != told(change.old, field))?;
    Some({
        let message = "what is stored is written by the backup controllers, so that nobody can pass off another object as a \
                       backup; a writer of your own is declared with --trusted-writer";
        let field = format!("status.{changed}");
        let finding = Finding::deny(BACKUP_STATUS, &field, message).because(Cause::FieldValueForbidden);
        Finding { action, ..finding.based_on(Basis::Change) }
    })
}
