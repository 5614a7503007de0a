//! Patches of volume claims: taken out of a member's hands, given back, and marked for the sweeper. Each tests the UID,
//! so that a namesake is never hit, and each can be done again.

use std::collections::BTreeMap;

use json_patch::Patch as JsonPatch;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use super::facts::Volume;
use crate::api::names::{operator, warden};
use crate::k8s::apply::FIELD_MANAGER;

/// Without its owners, and with whose restore keeps it. Its cluster's labels stay: a member that still lives would else
/// take it for lost and give itself up.
#[must_use]
pub fn keep(volume: &Volume, restore: &str) -> Value {
    let mut labels = volume.labels.clone();
    labels.insert(warden::RESTORE_JOB_UID.to_owned(), restore.to_owned());
    json!([
        {"op": "test", "path": "/metadata/uid", "value": volume.uid},
        {"op": "add", "path": "/metadata/labels", "value": labels},
        {"op": "add", "path": "/metadata/ownerReferences", "value": []},
    ])
}

/// As it was found.
#[must_use]
pub fn give_back(volume: &Volume) -> Value {
    json!([
        {"op": "test", "path": "/metadata/uid", "value": volume.uid},
        {"op": "add", "path": "/metadata/labels", "value": volume.labels},
        {"op": "add", "path": "/metadata/ownerReferences", "value": volume.owners},
    ])
}

/// With the time at which it may go, and found by no cluster any more.
#[must_use]
pub fn expire(volume: &Volume, until: Timestamp) -> Value {
    let of_cluster = |key: &&String| key.starts_with(operator::PREFIX) || key.starts_with("app.kubernetes.io/");
    let labels: BTreeMap<&String, Value> =
        volume.labels.keys().filter(of_cluster).map(|key| (key, Value::Null)).collect();
    json!({"metadata": {
        "uid": volume.uid,
        "annotations": {warden::KEEP_UNTIL: until.to_string()},
        "labels": labels,
    }})
}

/// Writes a patch: a list of operations, or an object that is merged.
pub(super) async fn write(client: &Client, namespace: &str, claim: &str, patch: Value) -> Result<(), Error> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = match patch {
        Value::Array(_) => Patch::Json(serde_json::from_value::<JsonPatch>(patch).map_err(Error::SerdeError)?),
        merged => Patch::Merge(merged),
    };
    claims.patch_metadata(claim, &params, &patch).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_volume_is_nobodys_and_at_the_end_found_by_no_cluster() {
        let volume = Volume {
            uid: "u".to_owned(),
            labels: [("etcd-operator.cozystack.io/cluster", "etcd"), ("app.kubernetes.io/name", "etcd"), ("team", "a")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Volume::default()
        };
        let patch = keep(&volume, "r");
        assert_eq!(patch[0], json!({"op": "test", "path": "/metadata/uid", "value": "u"}));
        assert_eq!(patch[1]["value"]["etcd-warden.io/restore-job-uid"], "r");
        assert_eq!(patch[2]["value"], json!([]));
        assert_eq!(give_back(&volume)[1]["value"], json!(volume.labels));
        let expired = expire(&volume, Timestamp::UNIX_EPOCH);
        let labels = json!({"etcd-operator.cozystack.io/cluster": null, "app.kubernetes.io/name": null});
        assert_eq!(expired["metadata"]["labels"], labels);
        assert_eq!(expired["metadata"]["annotations"], json!({"etcd-warden.io/keep-until": "1970-01-01T00:00:00Z"}));
    }
}
