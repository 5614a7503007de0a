//! The volumes that outlive the old cluster.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, Client, ResourceExt};

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

/// How each of these volumes stands, in their order.
pub async fn volumes(client: &Client, namespace: &str, chosen: &[Volume]) -> Known<Vec<Standing>> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let mut found = Vec::with_capacity(chosen.len());
    for volume in chosen {
        match claims.get_metadata(&volume.claim).await {
            Ok(claim) if claim.uid().as_ref() != Some(&volume.uid) || claim.metadata.deletion_timestamp.is_some() => {
                found.push(Standing::Gone);
            }
            Ok(claim) if claim.annotations().contains_key(warden::KEEP_UNTIL) => found.push(Standing::Expiring),
            Ok(claim) if claim.labels().contains_key(warden::RESTORE_JOB_UID) => found.push(Standing::Kept),
            Ok(_) => found.push(Standing::Owned),
            Err(error) if is_not_found(&error) => found.push(Standing::Gone),
            Err(error) => return Known::Unknown(message(&error)),
        }
    }
    Known::Found(found)
}
