//! The volumes that outlive the old cluster.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};

use crate::api::names::warden;
use crate::checks::Known;
use crate::controller::restorejob::facts::Volume;
use crate::k8s::error::{is_not_found, message};

/// How a chosen volume stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is its member's.
    Owned,
    /// It is nobody's, and outlives the member.
    Kept,
    /// It is kept, and when it may go is written on it.
    Expiring,
    /// It is gone, or going.
    Gone,
}

/// How each of these volumes stands, in their order, for this restore.
pub async fn volumes(client: &Client, namespace: &str, restore: &str, chosen: &[Volume]) -> Known<Vec<Standing>> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let mut found = Vec::with_capacity(chosen.len());
    for volume in chosen {
        match claims.get_metadata(&volume.claim).await {
            Ok(claim) => found.push(standing(volume, &claim.metadata, restore)),
            Err(error) if is_not_found(&error) => found.push(Standing::Gone),
            Err(error) => return Known::Unknown(message(&error)),
        }
    }
    Known::Found(found)
}

/// What its claim says. A label alone keeps nothing: with an owner, whoever gave it one, the volume goes when that goes.
fn standing(volume: &Volume, claim: &ObjectMeta, restore: &str) -> Standing {
    let annotated = |key: &str| claim.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let keeper = claim.labels.as_ref().and_then(|labels| labels.get(warden::RESTORE_JOB_UID));
    let is_owned = claim.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    if claim.uid.as_ref() != Some(&volume.uid) || claim.deletion_timestamp.is_some() {
        Standing::Gone
    } else if annotated(warden::KEEP_UNTIL) {
        Standing::Expiring
    } else if keeper.is_some_and(|keeper| keeper == restore) && !is_owned {
        Standing::Kept
    } else {
        Standing::Owned
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_kept_only_by_this_restore_and_without_an_owner() {
        let volume = Volume { uid: "u".to_owned(), ..Volume::default() };
        let owner = json!([{"apiVersion": "v1", "kind": "EtcdMember", "name": "m", "uid": "m"}]);
        for (claim, expected) in [
            (json!({"uid": "u"}), Standing::Owned),
            (json!({"uid": "u", "labels": {"etcd-warden.io/restore-job-uid": "r"}}), Standing::Kept),
            (
                json!({"uid": "u", "labels": {"etcd-warden.io/restore-job-uid": "r"}, "ownerReferences": []}),
                Standing::Kept,
            ),
            (
                json!({"uid": "u", "labels": {"etcd-warden.io/restore-job-uid": "r"}, "ownerReferences": owner}),
                Standing::Owned,
            ),
            (json!({"uid": "u", "labels": {"etcd-warden.io/restore-job-uid": "other"}}), Standing::Owned),
            (json!({"uid": "u", "annotations": {"etcd-warden.io/keep-until": "x"}}), Standing::Expiring),
            (json!({"uid": "another"}), Standing::Gone),
            (json!({"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}), Standing::Gone),
        ] {
            let metadata: ObjectMeta = serde_json::from_value(claim.clone()).unwrap();
            assert_eq!(standing(&volume, &metadata, "r"), expected, "{claim}");
        }
    }
}
