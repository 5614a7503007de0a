//! RestoreJob.

use std::sync::Arc;

use serde_json::Value;

use super::backup::{self, Usable};
use super::change::{Change, Operation};
use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::view::{self, Application};
use super::{name, store, upstream};
use crate::api::backupjob::phase;
use crate::api::common::{APP_CLUSTER_NAME, APP_KIND_ETCD, APPS_GROUP};
use crate::api::names::warden::{ETCDUTL_PATH, GUARDS};
use crate::api::version::EtcdVersion;
use crate::policy::{Basis, Cause, Finding};
use crate::rules::options;

/// Names of the rules.
pub(super) const SPEC: &str = "restorejob-spec";
pub(super) const IN_PLACE: &str = "restorejob-in-place";
pub(super) const TARGET_KIND: &str = "restorejob-target-kind";
pub(super) const BACKUP_USABLE: &str = "restorejob-backup";
pub(super) const OPTIONS: &str = "restorejob-options";
pub(super) const ONE_RESTORE: &str = "restorejob-one-at-a-time";
pub(super) const VERSION: &str = "restorejob-version";
pub(super) const ETCDUTL: &str = "restorejob-target-needs-etcdutl";
pub(super) const FROZEN: &str = "restorejob-frozen";
pub(super) const IN_FLIGHT: &str = "restorejob-in-flight";

const TARGET: &str = "spec.targetApplicationRef";
const BACKUP: &str = "spec.backupRef.name";

/// Whether a RestoreJob has come to its end.
pub(super) fn is_terminal(job: &Value) -> bool {
    matches!(view::text(job, "/status/phase"), phase::SUCCEEDED | phase::FAILED)
}

pub(super) fn check(change: &Change<'_>, lookup: &dyn Lookup, findings: &mut Vec<Finding>) {
    let Some(object) = change.subject() else { return };
    if change.operation == Operation::Delete {
        findings.extend(in_flight(object));
        return;
    }
    findings.extend(frozen(change, object));
    findings.extend(name::check(change, lookup));
    if view::at(object, "/spec").is_none() {
        let missing = Finding::deny(SPEC, "spec", "a RestoreJob needs one: backupRef.name is the least that it says");
        return findings.push(missing.because(Cause::FieldValueRequired));
    }
    if view::text(object, "/spec/backupRef/name").is_empty() {
        let missing = Finding::deny(SPEC, BACKUP, "name the Backup to restore");
        return findings.push(missing.because(Cause::FieldValueRequired));
    }
    let target = Application::at(object, "/spec/targetApplicationRef");
    let backup = lookup.get(Kind::Backup, Some(change.namespace), view::text(object, "/spec/backupRef/name"));
    findings.extend(target.and_then(foreign_target));
    if let (Some(target), Known::Found(backup)) = (target, &backup) {
        findings.extend(to_copy(target, backup));
    }
    findings.extend(backup_unusable(object, &backup));
    findings.extend(options_faults(object));
    findings.extend(another(change, lookup));
    if let Known::Found(backup) = &backup {
        findings.extend(version_faults(change, backup, lookup));
        findings.extend(store::check(backup, change.namespace, lookup));
        findings.extend(upstream::check(backup, lookup, change.now));
    }
}

/// Deleting a job at work leaves it to the finalizer to bring things to an end.
fn in_flight(job: &Value) -> Option<Finding> {
    let at_work = job.pointer("/metadata/labels").and_then(|labels| labels.get(GUARDS)).is_some();
    (at_work && !is_terminal(job)).then(|| {
        let step = view::text(job, "/status/step");
        Finding::warn(
            IN_FLIGHT,
            "",
            format!("this restore is at work (step {step:?}); it is brought to an end before it goes"),
        )
    })
}

/// Everything is read once, when the restore begins: a later change would be ignored in silence.
fn frozen(change: &Change<'_>, object: &Value) -> Option<Finding> {
    let old = change.old?;
    let begun = !view::text(old, "/status/phase").is_empty();
    (begun && view::at(old, "/spec") != view::at(object, "/spec")).then(|| {
        Finding::deny(FROZEN, "spec", "this restore has begun and does what it was asked for; make another RestoreJob")
            .because(Cause::FieldValueForbidden)
            .based_on(Basis::Change)
    })
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

fn options_faults(job: &Value) -> Vec<Finding> {
    let Some(given) = view::at(job, "/spec/options") else { return Vec::new() };
    options::faults(given)
        .into_iter()
        .map(|fault| {
            let field = if fault.option.is_empty() {
                "spec.options".to_owned()
            } else {
                format!("spec.options.{}", fault.option)
            };
            if fault.unknown {
                Finding::warn(OPTIONS, &field, fault.message).because(Cause::FieldValueNotSupported)
            } else {
                Finding::deny(OPTIONS, &field, fault.message)
            }
        })
        .collect()
}

/// Another restore of the same application that has not come to its end.
fn another(change: &Change<'_>, lookup: &dyn Lookup) -> Option<Finding> {
    let Known::Found(jobs) = lookup.list(Kind::RestoreJob, Some(change.namespace)) else { return None };
    let target = target_of(change.object?, change.namespace, lookup)?;
    let other = jobs.into_iter().find(|job| {
        view::text(job, "/metadata/name") != change.name_of_subject()
            && !is_terminal(job)
            && target_of(job, change.namespace, lookup).as_deref() == Some(&*target)
    })?;
    let (name, step) = (view::text(&other, "/metadata/name"), view::text(&other, "/status/step"));
    let at = if step.is_empty() { "has not begun".to_owned() } else { format!("is at step {step}") };
    let message = format!(
        "RestoreJob {name:?} restores the same application and {at}; wait for it, or abort it: kubectl -n {namespace} \
         annotate restorejob {name} etcd-warden.io/abort=true",
        namespace = change.namespace,
    );
    Some(Finding::deny(ONE_RESTORE, TARGET, message).because(Cause::FieldValueDuplicate).based_on(Basis::Others))
}

/// The etcd application that a job restores: its target, else its Backup's application.
fn target_of(job: &Value, namespace: &str, lookup: &dyn Lookup) -> Option<String> {
    if let Some(target) = Application::at(job, "/spec/targetApplicationRef") {
        return target.is_etcd().then(|| target.name.to_owned());
    }
    let backup = lookup.get(Kind::Backup, Some(namespace), view::text(job, "/spec/backupRef/name")).found()?;
    backup::application(&backup).filter(Application::is_etcd).map(|source| source.name.to_owned())
}

/// What the target's etcd cannot read, or has no tool to restore.
fn version_faults(change: &Change<'_>, backup: &Value, lookup: &dyn Lookup) -> Vec<Finding> {
    let Known::Found(cluster) = lookup.get(Kind::EtcdCluster, Some(change.namespace), APP_CLUSTER_NAME) else {
        return Vec::new();
    };
    let observed = view::text(&cluster, "/status/observed/version");
    let wanted = if observed.is_empty() { view::text(&cluster, "/spec/version") } else { observed };
    let Ok(target) = wanted.parse::<EtcdVersion>() else { return Vec::new() };
    let mut findings = Vec::new();
    if let Ok(origin) = view::text(backup, "/status/artifact/etcdVersion").parse::<EtcdVersion>()
        && origin.minor_pair() > target.minor_pair()
    {
        let message = format!(
            "the snapshot was taken of etcd {origin}, and etcd {target} of EtcdCluster {APP_CLUSTER_NAME:?} cannot be \
             trusted to read it; upgrade the cluster first"
        );
        findings.push(Finding::deny(VERSION, BACKUP, message).based_on(Basis::Others));
    }
    let declared = view::annotation(&cluster, ETCDUTL_PATH).is_some_and(|path| !path.is_empty());
    if target < EtcdVersion::FIRST_WITH_ETCDUTL && !declared {
        let message = format!(
            "EtcdCluster {APP_CLUSTER_NAME:?} runs etcd {target}, whose image ships no etcdutl to restore with: it came \
             with {first}. Upgrade it, or say in its annotation {ETCDUTL_PATH} where the image has one",
            first = EtcdVersion::FIRST_WITH_ETCDUTL,
        );
        findings.push(Finding::deny(ETCDUTL, TARGET, message).based_on(Basis::Others));
    }
    findings
}
