//! Where a Backup leads: credentials that the platform gives are only used with the place that the platform's own
//! strategy yields. What a Backup says of endpoint and bucket was written by whoever could write it.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::backup;
use super::lookup::{Known, Lookup};
use super::strategy::{stand_in_application, typed};
use super::view::{self, Application, Leads};
use crate::api::backup::driver_metadata;
use crate::api::common::S3Location;
use crate::api::s3endpoint::S3Endpoint;
use crate::policy::{Basis, Cause, Finding};
use crate::rules::template::{Data, render_strategy};

/// Name of the rule.
pub(super) const STORE: &str = "restorejob-store";

/// The restore would take the platform's credentials elsewhere.
pub(super) fn check(backup: &Value, namespace: &str, lookup: &dyn Lookup) -> Option<Finding> {
    let recorded = Recorded::of(backup)?;
    let yielded = yielded(backup, namespace, lookup)?;
    let own_secret = yielded.iter().all(|s3| s3.credentials_secret_ref.name != recorded.secret);
    let known = yielded.iter().any(|s3| {
        s3.bucket == recorded.bucket && s3.endpoint.parse().is_ok_and(|endpoint| recorded.endpoint.is_same(&endpoint))
    });
    let trusted = || lookup.trusted_stores().iter().any(|place| place.covers(&recorded.endpoint, recorded.bucket));
    if own_secret || known || trusted() {
        return None;
    }
    let message = format!(
        "this Backup lies at {endpoint}, bucket {bucket:?}, which is not where its strategy stores snapshots; Secret \
         {secret:?}, which the strategy names, is only used there. Declare the store with --trusted-store \
         {endpoint}/{bucket}, or give the Backup a Secret of its own",
        endpoint = recorded.endpoint,
        bucket = recorded.bucket,
        secret = recorded.secret,
    );
    let finding = Finding::deny(STORE, "spec.backupRef.name", message).because(Cause::FieldValueForbidden);
    Some(finding.based_on(Basis::Others))
}

/// What a Backup says of its place.
struct Recorded<'a> {
    endpoint: S3Endpoint,
    bucket: &'a str,
    secret: &'a str,
}

impl<'a> Recorded<'a> {
    /// From the payload, or from the driver's metadata where there is none, as a restore reads it.
    fn of(backup: &'a Value) -> Option<Self> {
        const PAYLOAD: &str = "/status/underlyingResources/destination/s3";
        let payload = |field: &str| view::text(backup, &format!("{PAYLOAD}/{field}"));
        let metadata = |key: &str| {
            let metadata = view::at(backup, "/spec/driverMetadata").and_then(|metadata| metadata.get(key));
            metadata.and_then(Value::as_str).unwrap_or_default()
        };
        let (endpoint, bucket, secret) = if payload("endpoint").is_empty() || payload("bucket").is_empty() {
            use driver_metadata::{BUCKET, CREDENTIALS_SECRET_NAME, ENDPOINT};
            (metadata(ENDPOINT), metadata(BUCKET), metadata(CREDENTIALS_SECRET_NAME))
        } else {
            (payload("endpoint"), payload("bucket"), payload("credentialsSecretRef/name"))
        };
        Some(Self { endpoint: endpoint.parse().ok()?, bucket, secret })
    }
}

/// The places that the Backup's strategy yields for its application: one for each class entry that leads to it. `None`
/// where that cannot be told: what is missing must not refuse a restore.
fn yielded(backup: &Value, namespace: &str, lookup: &dyn Lookup) -> Option<Vec<S3Location>> {
    let Leads::Etcd(kind) = view::leads(backup, "/spec/strategyRef") else { return None };
    let name = view::text(backup, "/spec/strategyRef/name");
    let s3 = typed(&*lookup.get(kind, None, name).found()?)?;
    let Known::Found(classes) = lookup.list(super::Kind::BackupClass, None) else { return None };
    let entries = classes.iter().filter_map(|class| view::at(class, "/spec/strategies")?.as_array()).flatten();
    let mut parameters: Vec<BTreeMap<String, String>> = entries
        .filter(|entry| {
            view::leads(entry, "/strategyRef") == Leads::Etcd(kind) && view::text(entry, "/strategyRef/name") == name
        })
        .map(|entry| {
            let given = view::at(entry, "/parameters").cloned();
            given.and_then(|given| serde_json::from_value(given).ok()).unwrap_or_default()
        })
        .collect();
    if parameters.is_empty() {
        parameters.push(BTreeMap::new());
    }
    let application = application(backup::application(backup)?, namespace);
    let allowance = lookup.allowance();
    let render = |parameters: &BTreeMap<String, String>, now: i64, seed: u64| {
        let now = Timestamp::from_second(now).ok()?;
        let data = Data::new(&application, parameters, now, seed).within(allowance.clone());
        render_strategy(&s3, &data).ok()
    };
    // What depends on the time or on chance cannot be rendered again.
    parameters
        .iter()
        .map(|parameters| {
            let (one, other) = (render(parameters, 0, 0)?, render(parameters, 1_700_000_000, 1)?);
            (one.endpoint == other.endpoint && one.bucket == other.bucket).then_some(one)
        })
        .collect()
}

fn application(of: Application<'_>, namespace: &str) -> Value {
    let mut application = stand_in_application();
    application["metadata"]["name"] = of.name.into();
    application["metadata"]["namespace"] = namespace.into();
    application
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::checks::Objects;

    /// R19: the platform's credentials go nowhere but where the platform's strategy leads; with a Secret of its own a
    /// Backup may lie anywhere.
    #[test]
    fn the_platforms_credentials_are_not_taken_to_another_store() {
        let around: Objects = [json!({"apiVersion": "strategy.backups.cozystack.io/v1alpha1", "kind": "Etcd",
            "metadata": {"name": "s"}, "spec": {"template": {"destination": {"s3": {"endpoint": "https://s3.example",
                "bucket": "ours", "credentialsSecretRef": {"name": "platform"}}}}}})]
        .into_iter()
        .collect();
        let backup = |endpoint: &str, bucket: &str, secret: &str| {
            json!({"metadata": {"name": "b", "namespace": "tenant"}, "spec": {
                "applicationRef": {"kind": "Etcd", "name": "etcd"},
                "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s"},
                "driverMetadata": {"etcd.aenix.io/endpoint": endpoint, "etcd.aenix.io/bucket": bucket,
                    "etcd.aenix.io/credentials-secret-name": secret}}})
        };
        let found = |endpoint, bucket, secret| check(&backup(endpoint, bucket, secret), "tenant", &around).is_some();
        assert!(!found("s3.example", "ours", "platform"));
        assert!(found("https://elsewhere.example", "ours", "platform"));
        assert!(found("https://s3.example", "theirs", "platform"));
        assert!(!found("https://elsewhere.example", "theirs", "own"));
    }
}
