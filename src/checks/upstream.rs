//! Upstream's backup controllers beside ours: whoever holds their lease acts on RestoreJobs, too.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::kind::Kind;
use super::lookup::{Known, Lookup};
use super::view::{self, Leads};
use crate::api::names::upstream::STRATEGY_LEASE;
use crate::policy::{Basis, Cause, Finding};

/// Name of the rule.
pub(super) const WHO_ACTS: &str = "restorejob-upstream";

const BACKUP: &str = "spec.backupRef.name";

/// Who holds upstream's lease and is alive, as `<namespace>: <holder>`; `None` if nobody does.
#[must_use]
pub fn holder(leases: &[Arc<Value>], now: Timestamp) -> Option<String> {
    leases.iter().find_map(|lease| {
        let identity = view::text(lease, "/spec/holderIdentity");
        let renewed: Timestamp = view::text(lease, "/spec/renewTime").parse().ok()?;
        let seconds = view::integer(lease, "/spec/leaseDurationSeconds").unwrap_or_default();
        let alive = now.duration_since(renewed) <= SignedDuration::from_secs(seconds);
        let namespace = view::text(lease, "/metadata/namespace");
        (alive && !identity.is_empty()).then(|| format!("{namespace}: {identity}"))
    })
}

/// A restore that upstream's controller would spoil, or carry out in its own way.
pub(super) fn check(backup: &Value, lookup: &dyn Lookup, now: Timestamp) -> Option<Finding> {
    let Leads::Etcd(kind) = view::leads(backup, "/spec/strategyRef") else { return None };
    let Known::Found(leases) = lookup.strategy_leases() else { return None };
    let holder = holder(&leases, now)?;
    let finding = if kind == Kind::WardenStrategy {
        let message = format!(
            "the backup controllers of another program are at work (lease {STRATEGY_LEASE} in {holder}), and fail every \
             RestoreJob over a strategy of etcd-warden's own group. Scale their strategy controller to zero for the \
             restore, or restore into an EtcdCluster by spec.bootstrap.restore"
        );
        Finding::deny(WHO_ACTS, BACKUP, message).because(Cause::FieldValueForbidden)
    } else {
        let message = format!(
            "the backup controllers of another program are at work (lease {STRATEGY_LEASE} in {holder}): they carry out \
             this restore, without a rehearsal and without a way back"
        );
        Finding::warn(WHO_ACTS, BACKUP, message)
    };
    Some(finding.based_on(Basis::Others))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_held_until_it_ends() {
        let lease = |holder: &str| {
            vec![Arc::new(json!({"metadata": {"name": STRATEGY_LEASE, "namespace": "cozy"}, "spec": {
                "holderIdentity": holder, "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}}))]
        };
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(holder(&lease("a"), at("2026-01-01T00:00:15Z")).as_deref(), Some("cozy: a"));
        assert_eq!(holder(&lease("a"), at("2026-01-01T00:00:16Z")), None);
        assert_eq!(holder(&lease(""), at("2026-01-01T00:00:01Z")), None);
        assert_eq!(holder(&[Arc::new(json!({"spec": {"holderIdentity": "a"}}))], at("2026-01-01T00:00:01Z")), None);
    }
}
