//! The `Etcd` strategy, and the BackupClass entries that lead to it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::change::{Change, Operation};
use super::coordinates;
use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::relation::is_our_entry;
use super::view::{self, Application, Leads};
use crate::api::common::{APP_CLUSTER_NAME, APP_KIND_ETCD, APPS_GROUP};
use crate::api::strategy::StrategyS3;
use crate::policy::{Basis, Cause, Finding};
use crate::rules::template::{Allowance, Data, parse_strategy, render_strategy};

/// Names of the rules.
pub(super) const TEMPLATE: &str = "strategy-template";
pub(super) const ENTRY: &str = "backupclass-entry";
pub(super) const AMBIGUOUS: &str = "backupclass-ambiguous";
pub(super) const RENDERING: &str = "backupclass-rendering";

const S3: &str = "/spec/template/destination/s3";

/// Templates parse and use only what there is; what is no template is judged as it stands.
pub(super) fn check(change: &Change<'_>, findings: &mut Vec<Finding>) {
    let (Operation::Create | Operation::Update, Some(object)) = (change.operation, change.subject()) else { return };
    coordinates::check(object, S3, findings);
    let Some(s3) = typed(object) else { return };
    let faults = parse_strategy(&s3);
    findings.extend(faults.iter().map(|fault| {
        let text = fault.to_string();
        let field = fault.field();
        let message = text.strip_prefix(&field).map_or(text.as_str(), |rest| rest.trim_start_matches(": "));
        Finding::deny(TEMPLATE, &field, message)
    }));
}

pub(super) fn typed(strategy: &Value) -> Option<StrategyS3> {
    view::at(strategy, S3).and_then(|s3| serde_json::from_value(s3.clone()).ok())
}

/// Of a class only the entries with our strategy are judged.
pub(super) fn check_class(change: &Change<'_>, lookup: &dyn Lookup, findings: &mut Vec<Finding>) {
    let (Operation::Create | Operation::Update, Some(class)) = (change.operation, change.subject()) else { return };
    let entries = view::at(class, "/spec/strategies").and_then(Value::as_array);
    let entries: &[Value] = entries.map_or(&[], Vec::as_slice);
    // One for all entries: there may be any number of them.
    let allowance = lookup.allowance();
    let mut first: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        let Some(application) = Application::at(entry, "/application") else { continue };
        let before = *first.entry((application.group, application.kind)).or_insert(at);
        if before != at && (is_our_entry(entry) || is_our_entry(&entries[before])) {
            let message = format!(
                "{}.{} has an entry already (spec.strategies[{before}]), and the first one counts: this one would never be \
                 used",
                application.kind, application.group
            );
            let field = format!("spec.strategies[{at}].application");
            findings.push(Finding::deny(AMBIGUOUS, &field, message).because(Cause::FieldValueDuplicate));
        }
        if is_our_entry(entry) {
            check_entry(at, entry, application, (lookup, &allowance), findings);
        }
    }
}

fn check_entry(
    at: usize,
    entry: &Value,
    application: Application<'_>,
    (lookup, allowance): (&dyn Lookup, &Allowance),
    findings: &mut Vec<Finding>,
) {
    if !application.is_etcd() {
        let message = format!(
            "the etcd strategy backs up {APP_KIND_ETCD}.{APPS_GROUP} and nothing else, not {}.{}",
            application.kind, application.group
        );
        let field = format!("spec.strategies[{at}].application");
        findings.push(Finding::deny(ENTRY, &field, message).because(Cause::FieldValueNotSupported));
    }
    let Leads::Etcd(kind) = view::leads(entry, "/strategyRef") else { return };
    let name = view::text(entry, "/strategyRef/name");
    match lookup.get(kind, None, name) {
        Known::Unknown(_) => {}
        Known::Absent => {
            let message = format!("strategy {}.{} {name:?} does not exist yet", Kind::Strategy.name(), kind.group());
            let field = format!("spec.strategies[{at}].strategyRef.name");
            let finding = Finding::warn(ENTRY, &field, message).because(Cause::FieldValueNotFound);
            findings.push(finding.based_on(Basis::Others));
        }
        Known::Found(strategy) => rendering((at, entry), &strategy, allowance, findings),
    }
}

/// An application that stands for all of them.
#[must_use]
pub fn stand_in_application() -> Value {
    json!({
        "apiVersion": format!("{APPS_GROUP}/v1alpha1"),
        "kind": APP_KIND_ETCD,
        "metadata": {"name": APP_CLUSTER_NAME, "namespace": "tenant-example", "labels": {}, "annotations": {}},
        "spec": {},
    })
}

/// With its parameters an entry can be rendered, for an application that stands for all.
fn rendering((at, entry): (usize, &Value), strategy: &Value, allowance: &Allowance, findings: &mut Vec<Finding>) {
    let Some(s3) = typed(strategy) else { return };
    if !parse_strategy(&s3).is_empty() {
        return;
    }
    let parameters: BTreeMap<String, String> = view::at(entry, "/parameters")
        .and_then(|parameters| serde_json::from_value(parameters.clone()).ok())
        .unwrap_or_default();
    let application = stand_in_application();
    let data = Data::new(&application, &parameters, k8s_openapi::jiff::Timestamp::UNIX_EPOCH, 0);
    let data = data.within(allowance.clone());
    let field = format!("spec.strategies[{at}].parameters");
    // Another strategy may not take the parameters that the one before it took.
    let strategy = format!("spec.strategies[{at}].strategyRef");
    let told = |message: String| format!("with these parameters the strategy's destination is not usable: {message}");
    let mut faults = Vec::new();
    match render_strategy(&s3, &data) {
        // What an application of its own would have may be missing in the one that stands for all.
        Err(error) => {
            faults.push(Finding::warn(RENDERING, &field, told(error.to_string())).and_field(&strategy));
        }
        Ok(rendered) => {
            faults = coordinates::rendered(&rendered);
            for fault in &mut faults {
                fault.message = told(format!("{}: {}", fault.field(), fault.message));
                fault.policy = RENDERING.into();
                fault.fields = vec![field.clone(), strategy.clone()];
            }
        }
    }
    findings.extend(faults.into_iter().map(|fault| fault.based_on(Basis::Others)));
}
