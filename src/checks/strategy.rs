//! The `Etcd` strategy.

use super::change::{Change, Operation};
use super::view;
use crate::policy::{Cause, Finding};

/// Name of the rule.
const S3_ONLY: &str = "strategy-s3-only";
const DESTINATION: &str = "spec.template.destination";

pub(super) fn check(change: &Change<'_>, findings: &mut Vec<Finding>) {
    let (Operation::Create | Operation::Update, Some(object)) = (change.operation, change.subject()) else { return };
    let destination = view::at(object, "/spec/template/destination");
    if destination.is_some_and(|destination| view::at(destination, "/pvc").is_some()) {
        findings.push(
            Finding::deny(
                S3_ONLY,
                &format!("{DESTINATION}.pvc"),
                "a volume is no destination for etcd backups: a snapshot is written to <subPath>/<name>.db and read \
                 back from <subPath> itself, so it could not be restored; use destination.s3",
            )
            .because(Cause::FieldValueForbidden),
        );
    }
    if destination.is_none_or(|destination| view::at(destination, "/s3").is_none()) {
        findings.push(
            Finding::deny(
                S3_ONLY,
                &format!("{DESTINATION}.s3"),
                "an S3 destination is needed: endpoint, bucket and credentialsSecretRef.name",
            )
            .because(Cause::FieldValueRequired),
        );
    }
    for other in destination.and_then(serde_json::Value::as_object).into_iter().flat_map(serde_json::Map::keys) {
        if other != "s3" && other != "pvc" {
            findings.push(
                Finding::deny(
                    S3_ONLY,
                    &format!("{DESTINATION}.{other}"),
                    "no such destination: etcd backups go to S3 only, use destination.s3",
                )
                .because(Cause::FieldValueNotSupported),
            );
        }
    }
}
