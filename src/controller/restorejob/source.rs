//! Which stored object a Backup stands for.

use serde::{Deserialize, Serialize};

use crate::api::backup::{Backup, driver_metadata, phase};
use crate::api::common::{Artifact, S3Location};
use crate::api::s3uri::{ArtifactUri, snapshot_key};
use crate::controller::backup::payload::{self, PayloadError};

/// The stored snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// The object; its key is exact.
    pub s3: S3Location,
    /// SHA-256 of all its bytes, 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// Revision of the key space in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// etcd version that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
}

/// Why a Backup cannot be restored from, now or ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Nothing is stored yet. Waited for.
    #[error("Backup {0} has nothing stored yet")]
    NotYet(String),
    /// It has failed. Terminal.
    #[error("Backup {0} has failed")]
    Failed(String),
    /// It is being deleted, and what it stands for may go with it. Terminal.
    #[error("Backup {0} is being deleted")]
    Terminating(String),
    /// It does not say where the snapshot is stored. Terminal.
    #[error("Backup {name}: {fault}")]
    Payload {
        /// Its name.
        name: String,
        /// What is wrong.
        fault: PayloadError,
    },
}

impl Unusable {
    /// Whether waiting may help.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        match self {
            Self::NotYet(_) => true,
            Self::Failed(_) | Self::Terminating(_) | Self::Payload { .. } => false,
        }
    }
}

/// The object that a Backup stands for: the artefact's URI where it lies in the bucket that the Backup names, else the
/// key made of prefix and snapshot name.
pub fn source(backup: &Backup) -> Result<Source, Unusable> {
    let name = backup.metadata.name.clone().unwrap_or_default();
    let status = backup.status.clone().unwrap_or_default();
    if backup.metadata.deletion_timestamp.is_some() {
        return Err(Unusable::Terminating(name));
    }
    if status.phase.as_deref() == Some(phase::FAILED) {
        return Err(Unusable::Failed(name));
    }
    let artifact = status.artifact.filter(|artifact| !artifact.uri.is_empty());
    let Some(artifact) = artifact.filter(|_| status.phase.as_deref() == Some(phase::READY)) else {
        return Err(Unusable::NotYet(name));
    };
    let mut s3 = payload::destination(&backup.spec, status.underlying_resources.as_ref())
        .map_err(|fault| Unusable::Payload { name: name.clone(), fault })?;
    let key = match artifact.uri.parse() {
        Ok(ArtifactUri::S3 { bucket, key }) if bucket == s3.bucket => Some(key),
        Ok(ArtifactUri::S3 { .. } | ArtifactUri::File { .. }) | Err(_) => {
            let metadata = backup.spec.driver_metadata.as_ref();
            let snapshot = metadata.and_then(|metadata| metadata.get(driver_metadata::BACKUP_NAME));
            snapshot.map(|snapshot| snapshot_key(s3.key.as_deref().unwrap_or_default(), snapshot))
        }
    };
    let Some(key) = key else {
        return Err(Unusable::Payload { name, fault: PayloadError::NoDestination });
    };
    s3.key = Some(key);
    Ok(Source::recorded(&artifact, s3))
}

impl Source {
    /// What an artefact records of an object that lies there; `None` where it does not name one in that bucket.
    #[must_use]
    pub fn of(artifact: &Artifact, destination: S3Location) -> Option<Self> {
        match artifact.uri.parse() {
            Ok(ArtifactUri::S3 { bucket, key }) if bucket == destination.bucket => {
                Some(Self::recorded(artifact, S3Location { key: Some(key), ..destination }))
            }
            Ok(ArtifactUri::S3 { .. } | ArtifactUri::File { .. }) | Err(_) => None,
        }
    }

    fn recorded(artifact: &Artifact, s3: S3Location) -> Self {
        let sum = artifact.checksum.as_deref().and_then(|sum| sum.strip_prefix("sha256:"));
        Self {
            s3,
            sha256: sum.map(ToOwned::to_owned),
            size_bytes: artifact.size_bytes,
            revision: artifact.revision,
            etcd_version: artifact.etcd_version.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn backup(uri: &str, payload: &serde_json::Value) -> Backup {
        serde_json::from_value(json!({
            "metadata": {"name": "b"},
            "spec": {"driverMetadata": {"etcd.aenix.io/backup-name": "snap", "etcd.aenix.io/bucket": "bucket",
                "etcd.aenix.io/endpoint": "s3:9000", "etcd.aenix.io/key": "pre/fix/",
                "etcd.aenix.io/credentials-secret-name": "creds"}},
            "status": {"phase": "Ready", "artifact": {"uri": uri, "sizeBytes": 5, "checksum": "sha256:ab"},
                "underlyingResources": payload},
        }))
        .unwrap()
    }

    fn key(backup: &Backup) -> String {
        source(backup).unwrap().s3.key.unwrap()
    }

    #[test]
    fn the_artefacts_uri_wins_where_it_is_in_the_same_bucket() {
        assert_eq!(key(&backup("s3://bucket/else where/x.db", &json!(null))), "else where/x.db");
        assert_eq!(key(&backup("s3://other/x.db", &json!(null))), "pre/fix/snap.db");
        assert_eq!(key(&backup("file:///x.db", &json!(null))), "pre/fix/snap.db");
        assert_eq!(key(&backup("nonsense", &json!(null))), "pre/fix/snap.db");
    }

    #[test]
    fn what_was_recorded_of_the_object_travels_along() {
        let found = source(&backup("s3://bucket/x.db", &json!(null))).unwrap();
        assert_eq!((found.sha256.as_deref(), found.size_bytes), (Some("ab"), Some(5)));
        assert_eq!(found.s3.credentials_secret_ref.name, "creds");
    }

    #[test]
    fn a_backup_that_is_not_ready_is_waited_for_and_one_that_never_will_be_is_not() {
        let mut early = backup("s3://bucket/x.db", &json!(null));
        early.status.as_mut().unwrap().phase = None;
        assert!(source(&early).unwrap_err().is_waited_for());
        early.status = None;
        assert!(source(&early).unwrap_err().is_waited_for());
        let mut failed = backup("s3://bucket/x.db", &json!(null));
        failed.status.as_mut().unwrap().phase = Some("Failed".to_owned());
        assert!(!source(&failed).unwrap_err().is_waited_for());
        let foreign = json!({"kind": "Other", "apiVersion": "x/v1"});
        assert!(!source(&backup("s3://bucket/x.db", &foreign)).unwrap_err().is_waited_for());
    }
}
