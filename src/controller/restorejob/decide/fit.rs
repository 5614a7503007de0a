//! Whether a cluster of some spec can be restored from a snapshot of some size.

use crate::api::common::APP_CLUSTER_NAME;
use crate::api::etcdcluster::{EtcdCluster, Storage};
use crate::controller::restorejob::facts::Capture;
use crate::controller::restorejob::observe::Observed;

/// etcd's `--quota-backend-bytes` where none is given.
const DEFAULT_QUOTA_BYTES: i64 = 2 * 1024 * 1024 * 1024;

/// Why the cluster cannot be restored, as far as its spec and the size of the snapshot tell.
pub(super) fn unfit(seen: &Observed, cluster: &EtcdCluster) -> Option<String> {
    asleep_or_forgetful(cluster).or_else(|| too_small(cluster, needed(seen)?))
}

/// The same of what was captured, which may have been edited after the rehearsal.
pub(super) fn unfit_capture(seen: &Observed, capture: &Capture) -> Option<String> {
    match serde_json::from_value::<EtcdCluster>(capture.object.clone()) {
        Ok(cluster) => unfit(seen, &cluster),
        Err(error) => Some(format!("EtcdCluster {APP_CLUSTER_NAME} makes no sense: {error}")),
    }
}

/// Bytes that the database takes at least: as recorded of the snapshot, and as rehearsed.
fn needed(seen: &Observed) -> Option<i64> {
    let recorded = seen.facts.inputs.as_ref().and_then(|inputs| inputs.fact.source.size_bytes);
    let rehearsal = seen.facts.preflight().and_then(|preflight| preflight.fact.rehearsal.as_ref());
    let rehearsed = rehearsal.map(|rehearsal| i64::try_from(rehearsal.db_bytes).unwrap_or(i64::MAX));
    recorded.max(rehearsed)
}

fn asleep_or_forgetful(cluster: &EtcdCluster) -> Option<String> {
    let spec = &cluster.spec;
    if spec.replicas == Some(0) {
        return Some(format!(
            "EtcdCluster {APP_CLUSTER_NAME} is paused (replicas 0), so that nothing would start from the snapshot; set \
             replicas first"
        ));
    }
    if spec.storage.as_ref().is_some_and(Storage::in_memory) {
        return Some(format!(
            "EtcdCluster {APP_CLUSTER_NAME} keeps its data in memory (storage.medium), where a restored member would \
             lose it with its Pod; give it a volume first"
        ));
    }
    None
}

/// Why a database of so many bytes has no room.
fn too_small(cluster: &EtcdCluster, bytes: i64) -> Option<String> {
    let size = cluster.spec.storage.clone().unwrap_or_default().size();
    // A size that is no quantity is the API server's to refuse.
    if let Ok(amount) = size.amount()
        && bytes > amount.to_i64()
    {
        return Some(format!(
            "the snapshot has {bytes} bytes, and storage.size of EtcdCluster {APP_CLUSTER_NAME} is {} ({} bytes): the \
             restored data would not fit into its volume. Make storage.size larger first; new volumes have the new size",
            size.0,
            amount.to_i64()
        ));
    }
    let set = cluster.spec.options.as_ref().and_then(|options| options.quota_backend_bytes).filter(|quota| *quota != 0);
    let quota = set.unwrap_or(DEFAULT_QUOTA_BYTES);
    // etcd has no quota where it is negative.
    (quota > 0 && bytes > quota).then(|| {
        let whose = if set.is_some() { "is" } else { "is not set, which means" };
        format!(
            "the snapshot has {bytes} bytes, and options.quotaBackendBytes of EtcdCluster {APP_CLUSTER_NAME} {whose} \
             {quota}: etcd would refuse every write. Raise the quota first"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(spec: &Value, bytes: i64) -> String {
        let mut cluster = EtcdCluster::new("etcd", serde_json::from_value(spec.clone()).unwrap());
        cluster.spec.version = "3.6.16".to_owned();
        too_small(&cluster, bytes).unwrap_or_default()
    }

    /// R3: volume and quota are compared with the snapshot, and the message has both numbers.
    #[test]
    fn a_snapshot_that_does_not_fit_is_refused_with_both_numbers() {
        let sized = json!({"storage": {"size": "512Mi"}});
        let fault = said(&sized, 536_870_913);
        assert!(fault.contains("536870913 bytes") && fault.contains("512Mi (536870912 bytes)"), "{fault}");
        assert_eq!(said(&sized, 536_870_912), "");
        // Without a size it is the default one.
        assert!(said(&json!({}), 1_073_741_825).contains("1Gi"));

        let quota = json!({"storage": {"size": "8Gi"}, "options": {"quotaBackendBytes": 1000}});
        let fault = said(&quota, 1001);
        assert!(fault.contains("1001 bytes") && fault.contains("is 1000:"), "{fault}");
        assert_eq!(said(&quota, 1000), "");
        let unset = json!({"storage": {"size": "8Gi"}, "options": {"quotaBackendBytes": 0}});
        assert!(said(&unset, 2_147_483_649).contains("not set, which means 2147483648"));
        let none = json!({"storage": {"size": "8Gi"}, "options": {"quotaBackendBytes": -1}});
        assert_eq!(said(&none, 4_000_000_000), "");
    }
}
