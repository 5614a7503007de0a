//! Deletions: always of one object by its UID, so that a namesake made meanwhile is never hit.

use std::fmt::Debug;

use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::{Api, Error};
use serde::de::DeserializeOwned;

use super::error::is_not_found;

/// What has to hold at the moment of the deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Name.
    pub name: &'a str,
    /// UID that the object must have.
    pub uid: &'a str,
    /// resourceVersion that the object must have, where an edit since the last look has to stop the deletion.
    pub resource_version: Option<&'a str>,
}

/// Deletes the object; `false` when it is gone already. A namesake with another UID is answered with a conflict.
pub async fn delete<K>(api: &Api<K>, target: &Target<'_>, propagation: PropagationPolicy) -> Result<bool, Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = DeleteParams {
        propagation_policy: Some(propagation),
        preconditions: Some(Preconditions {
            uid: Some(target.uid.to_owned()),
            resource_version: target.resource_version.map(ToOwned::to_owned),
        }),
        ..DeleteParams::default()
    };
    match api.delete(target.name, &params).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
