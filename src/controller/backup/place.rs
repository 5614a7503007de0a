//! Which stored object a Backup stands for. Pure.

use kube::ResourceExt;

use super::payload::{self, PayloadError};
use crate::api::backup::{Backup, driver_metadata};
use crate::api::common::S3Location;
use crate::api::s3uri::{ArtifactUri, snapshot_key};

/// The object, its key exact: the artefact's URI where it lies in the bucket that the Backup names, else the key made of
/// prefix and snapshot name.
///
/// # Errors
/// The Backup does not say, or is another driver's.
pub fn object(backup: &Backup) -> Result<S3Location, PayloadError> {
    let status = backup.status.clone().unwrap_or_default();
    let mut s3 = payload::destination(&backup.spec, status.underlying_resources.as_ref())?;
    let recorded = status.artifact.and_then(|artifact| artifact.uri.parse().ok());
    let key = match recorded {
        Some(ArtifactUri::S3 { bucket, key }) if bucket == s3.bucket => Some(key),
        Some(ArtifactUri::S3 { .. } | ArtifactUri::File { .. }) | None => {
            snapshot_name(backup).map(|name| snapshot_key(s3.key.as_deref().unwrap_or_default(), name))
        }
    };
    s3.key = Some(key.ok_or(PayloadError::NoDestination)?);
    Ok(s3)
}

/// Name of the EtcdSnapshot behind a Backup.
#[must_use]
pub fn snapshot_name(backup: &Backup) -> Option<&str> {
    let name = backup.spec.driver_metadata.as_ref()?.get(driver_metadata::BACKUP_NAME)?;
    Some(name.as_str()).filter(|name| !name.is_empty())
}

/// Whether two Backups stand for the same object. In doubt they do: what is shared is not deleted. So neither the scheme
/// nor a port that some scheme has anyway tells two servers apart.
#[must_use]
pub fn is_shared(one: &S3Location, other: &S3Location) -> bool {
    let endpoint = |location: &S3Location| {
        let bare = location.endpoint.to_ascii_lowercase();
        let bare = bare.strip_prefix("https://").or_else(|| bare.strip_prefix("http://")).unwrap_or(&bare).to_owned();
        let bare = bare.trim_end_matches('/');
        bare.strip_suffix(":443").or_else(|| bare.strip_suffix(":80")).unwrap_or(bare).to_owned()
    };
    one.bucket == other.bucket && one.key == other.key && endpoint(one) == endpoint(other)
}

/// `namespace/name` of a Backup.
#[must_use]
pub fn full_name(backup: &Backup) -> String {
    format!("{}/{}", backup.namespace().unwrap_or_default(), backup.name_any())
}
