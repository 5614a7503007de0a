//! BackupJob and Plan: both name an application and a class.

use serde_json::Value;

use super::change::{Change, Operation};
use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::name;
use super::relation::{Relation, entry_for, of_job};
use super::view::{self, Application};
use crate::api::common::{APP_CLUSTER_NAME, APP_KIND_ETCD, APPS_GROUP};
use crate::policy::{Basis, Cause, Finding};
use crate::rules::cron::Schedule;

/// Names of the rules.
pub(super) const SPEC: &str = "job-spec";
pub(super) const APPLICATION: &str = "job-application";
pub(super) const CLASS: &str = "job-class";
pub(super) const FROZEN: &str = "backupjob-frozen";
pub(super) const SCHEDULE: &str = "plan-schedule";
pub(super) const CRON: &str = "plan-cron";

/// The only type of schedule that there is.
const CRON_TYPE: &str = "cron";

pub(super) fn check(change: &Change<'_>, lookup: &dyn Lookup, findings: &mut Vec<Finding>) {
    let (Operation::Create | Operation::Update, Some(object)) = (change.operation, change.subject()) else { return };
    if change.kind == Kind::BackupJob {
        findings.extend(frozen(change, object));
    }
    findings.extend(name::check(change, lookup));
    if view::at(object, "/spec").is_none() {
        let message = format!("a {} needs one: applicationRef and backupClassName", change.kind.name());
        return findings.push(Finding::deny(SPEC, "spec", message).because(Cause::FieldValueRequired));
    }
    let application = Application::at(object, "/spec/applicationRef");
    // An object that was ours and is moved away from etcd is asked about too, but is no longer ours to refuse.
    match of_job(object, lookup) {
        Relation::Ours => findings.extend(application.and_then(foreign)),
        Relation::Undetermined => {}
        Relation::Foreign => return,
    }
    findings.extend(class_faults(object, application, lookup));
    if let Some(application) = application.filter(Application::is_etcd)
        && matches!(lookup.get(Kind::EtcdCluster, Some(change.namespace), APP_CLUSTER_NAME), Known::Absent)
    {
        let message =
            format!("application {:?} has no EtcdCluster {APP_CLUSTER_NAME:?} in this namespace yet", application.name);
        findings.push(absent(APPLICATION, "spec.applicationRef", message));
    }
    if change.kind == Kind::Plan {
        findings.extend(schedule(change, object));
    }
}

fn absent(policy: &'static str, field: &str, message: String) -> Finding {
    Finding::warn(policy, field, message).because(Cause::FieldValueNotFound).based_on(Basis::Others)
}

/// The class leads to the etcd strategy, and the application is something else.
fn foreign(application: Application<'_>) -> Option<Finding> {
    (!application.is_etcd()).then(|| {
        let message = format!(
            "{}.{} cannot be backed up by the etcd strategy, which the class gives it: expected {APP_KIND_ETCD}.{APPS_GROUP}",
            application.kind, application.group
        );
        Finding::deny(APPLICATION, "spec.applicationRef", message)
            .because(Cause::FieldValueNotSupported)
            .based_on(Basis::Others)
    })
}

/// A class may come later: GitOps applies in any order.
fn class_faults(object: &Value, application: Option<Application<'_>>, lookup: &dyn Lookup) -> Option<Finding> {
    const FIELD: &str = "spec.backupClassName";
    let name = view::text(object, "/spec/backupClassName");
    match lookup.get(Kind::BackupClass, None, name) {
        Known::Unknown(_) => None,
        Known::Absent => Some(absent(CLASS, FIELD, format!("BackupClass {name:?} does not exist yet"))),
        Known::Found(class) => {
            let application = application?;
            let entry = entry_for(&class, application);
            entry.is_none().then(|| {
                let message =
                    format!("BackupClass {name:?} has no entry for {}.{}", application.kind, application.group);
                absent(CLASS, FIELD, message)
            })
        }
    }
}

/// What a job was asked for is read when it begins; a later change would be ignored in silence.
fn frozen(change: &Change<'_>, object: &Value) -> Option<Finding> {
    let old = change.old?;
    let begun = !view::text(old, "/status/phase").is_empty();
    (begun && view::at(old, "/spec") != view::at(object, "/spec")).then(|| {
        Finding::deny(FROZEN, "spec", "this backup has begun and does what it was asked for; make another BackupJob")
            .because(Cause::FieldValueForbidden)
            .based_on(Basis::Change)
    })
}

fn schedule(change: &Change<'_>, plan: &Value) -> Vec<Finding> {
    const FIELD: &str = "spec.schedule.cron";
    let mut findings = Vec::new();
    if !matches!(view::text(plan, "/spec/schedule/type"), "" | CRON_TYPE) {
        let message = format!("the only type is {CRON_TYPE}");
        findings.push(Finding::deny(SCHEDULE, "spec.schedule.type", message).because(Cause::FieldValueNotSupported));
    }
    let text = view::text(plan, "/spec/schedule/cron");
    if text.trim().is_empty() {
        let missing = Finding::deny(SCHEDULE, FIELD, "a Plan without one would never make a backup");
        findings.push(missing.because(Cause::FieldValueRequired));
    } else if let Err(error) = Schedule::parse_useful(text, change.now) {
        findings.push(Finding::deny(CRON, FIELD, format!("{text:?} is no schedule: {error}")));
    }
    findings
}
