//! Where snapshots go to: S3 coordinates, judged alike wherever they stand.

use serde_json::{Value, json};

use super::view;
use crate::api::common::S3Location;
use crate::api::s3endpoint::S3Endpoint;
use crate::policy::{Cause, Finding};
use crate::rules::s3;

/// Name of the rule.
pub(super) const COORDINATES: &str = "s3-coordinates";

/// What is wrong with the S3 destination at a JSON pointer. Texts with templates in them are left to their rendering.
pub(super) fn check(object: &Value, pointer: &str, findings: &mut Vec<Finding>) {
    let Some(s3) = view::at(object, pointer) else { return };
    let field = |name: &str| format!("{}.{name}", pointer.trim_start_matches('/').replace('/', "."));
    let text = |name: &str| view::at(s3, name).and_then(Value::as_str).filter(|text| !text.contains("{{"));
    if let Some(endpoint) = text("/endpoint") {
        findings.extend(endpoint_fault(&field("endpoint"), endpoint));
    }
    if let Some(fault) = text("/bucket").and_then(|bucket| s3::bucket(bucket).err()) {
        findings.push(Finding::deny(COORDINATES, &field("bucket"), fault.to_string()));
    }
    if let Some(fault) = text("/key").and_then(|key| s3::prefix(key).err()) {
        findings.push(Finding::deny(COORDINATES, &field("key"), fault.to_string()));
    }
    if view::text(s3, "/credentialsSecretRef/name").is_empty() {
        let message = "name the Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
        findings.push(
            Finding::deny(COORDINATES, &field("credentialsSecretRef.name"), message).because(Cause::FieldValueRequired),
        );
    }
}

/// What is wrong with a destination in its final form.
#[must_use]
pub fn rendered(destination: &S3Location) -> Vec<Finding> {
    let mut findings = Vec::new();
    check(&json!({"destination": {"s3": destination}}), "/destination/s3", &mut findings);
    findings
}

fn endpoint_fault(field: &str, text: &str) -> Option<Finding> {
    match text.parse::<S3Endpoint>() {
        // The error never repeats a user name or a password.
        Err(error) => Some(Finding::deny(COORDINATES, field, error.to_string())),
        Ok(endpoint) if !endpoint.is_secure() => Some(Finding::warn(
            COORDINATES,
            field,
            "http:// sends credentials' signatures and every key of the cluster in clear; use https:// where you can",
        )),
        Ok(_) => None,
    }
}
