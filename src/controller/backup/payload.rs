//! What a Backup of etcd says about where its snapshot is stored: the driver's metadata and the payload among the
//! underlying resources. Both are written as upstream writes them, and both of upstream's are read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use serde::{Deserialize, Serialize};

use crate::api::backup::{BackupSpec, driver_metadata};
use crate::api::common::{BACKUPS_GROUP, S3Location, SnapshotLocation};

/// Kind of the payload.
pub const KIND: &str = "EtcdBackupSnapshot";

/// The payload: where the snapshot went, with every template rendered, and the parameters that it was rendered with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Payload {
    /// Always [`KIND`].
    pub kind: String,
    /// Always `backups.cozystack.io/v1alpha1`.
    pub api_version: String,
    /// Destination of the snapshot; its key is a prefix.
    pub destination: SnapshotLocation,
    /// Parameters of the BackupClass entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
}

/// Why a Backup's payload cannot be used. Terminal: a Backup does not mend itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// It is another driver's.
    #[error("status.underlyingResources is {kind} of {api_version}, not {KIND} of {}", payload_version())]
    Foreign {
        /// Kind found.
        kind: String,
        /// API version found.
        api_version: String,
    },
    /// Neither the payload nor the driver's metadata name a place.
    #[error("neither status.underlyingResources nor spec.driverMetadata say where the snapshot is stored")]
    NoDestination,
}

fn payload_version() -> String {
    format!("{BACKUPS_GROUP}/v1alpha1")
}

impl Payload {
    /// The payload for a destination.
    #[must_use]
    pub fn new(destination: S3Location, parameters: Option<BTreeMap<String, String>>) -> Self {
        Self {
            kind: KIND.to_owned(),
            api_version: payload_version(),
            destination: SnapshotLocation { s3: Some(destination), pvc: None },
            parameters,
        }
    }
}

/// The driver's metadata for a snapshot of this name at this destination.
#[must_use]
pub fn driver_metadata(snapshot: &str, destination: &S3Location) -> BTreeMap<String, String> {
    let path_style = destination.force_path_style.unwrap_or(false).to_string();
    let mut metadata: BTreeMap<String, String> = [
        (driver_metadata::BACKUP_NAME, snapshot),
        (driver_metadata::BUCKET, &destination.bucket),
        (driver_metadata::ENDPOINT, &destination.endpoint),
        (driver_metadata::FORCE_PATH_STYLE, &path_style),
        (driver_metadata::CREDENTIALS_SECRET_NAME, &destination.credentials_secret_ref.name),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let optional = [(driver_metadata::KEY, &destination.key), (driver_metadata::REGION, &destination.region)];
    for (key, value) in optional {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            metadata.insert(key.to_owned(), value.to_owned());
        }
    }
    metadata
}

/// Where a Backup's snapshot was sent to: the payload, or the driver's metadata where there is none that can be read.
/// The key is the prefix.
pub fn destination(spec: &BackupSpec, payload: Option<&serde_json::Value>) -> Result<S3Location, PayloadError> {
    let text = |value: Option<&serde_json::Value>| value.and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    if let Some(payload) = payload {
        let (kind, version) = (text(payload.get("kind")), text(payload.get("apiVersion")));
        let blank = kind.is_empty() && version.is_empty();
        if !blank && (kind != KIND || version != payload_version()) {
            return Err(PayloadError::Foreign { kind, api_version: version });
        }
        let decoded = Payload::deserialize(payload).ok().and_then(|payload| payload.destination.s3);
        if let Some(s3) = decoded.filter(|s3| !s3.bucket.is_empty() && !s3.endpoint.is_empty()) {
            return Ok(s3);
        }
    }
    from_metadata(spec.driver_metadata.as_ref()).ok_or(PayloadError::NoDestination)
}

fn from_metadata(metadata: Option<&BTreeMap<String, String>>) -> Option<S3Location> {
    let metadata = metadata?;
    let get = |key: &str| metadata.get(key).filter(|value| !value.is_empty()).cloned();
    Some(S3Location {
        endpoint: get(driver_metadata::ENDPOINT)?,
        bucket: get(driver_metadata::BUCKET)?,
        key: get(driver_metadata::KEY),
        region: get(driver_metadata::REGION),
        force_path_style: get(driver_metadata::FORCE_PATH_STYLE).and_then(|value| value.parse().ok()),
        credentials_secret_ref: LocalObjectReference { name: get(driver_metadata::CREDENTIALS_SECRET_NAME)? },
        ca_secret_ref: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn location() -> S3Location {
        S3Location {
            endpoint: "https://s3.example.org".to_owned(),
            bucket: "b".to_owned(),
            key: Some("ns/etcd/".to_owned()),
            region: None,
            force_path_style: Some(true),
            credentials_secret_ref: LocalObjectReference { name: "creds".to_owned() },
            ca_secret_ref: None,
        }
    }

    #[test]
    fn the_payload_is_upstreams() {
        let payload = serde_json::to_value(Payload::new(location(), Some(BTreeMap::new()))).unwrap();
        assert_eq!(
            payload,
            json!({
                "kind": "EtcdBackupSnapshot",
                "apiVersion": "backups.cozystack.io/v1alpha1",
                "destination": {"s3": {"endpoint": "https://s3.example.org", "bucket": "b", "key": "ns/etcd/",
                    "forcePathStyle": true, "credentialsSecretRef": {"name": "creds"}}},
                "parameters": {},
            })
        );
    }

    #[test]
    fn what_is_written_is_read_back_from_either_place() {
        let payload = serde_json::to_value(Payload::new(location(), None)).unwrap();
        let spec = BackupSpec { driver_metadata: Some(driver_metadata("snap", &location())), ..BackupSpec::default() };
        assert_eq!(destination(&spec, Some(&payload)), Ok(location()));
        assert_eq!(destination(&spec, None), Ok(location()));
        // A payload that cannot be read is as good as none.
        assert_eq!(destination(&spec, Some(&json!({"destination": 3}))), Ok(location()));
        assert_eq!(destination(&BackupSpec::default(), None), Err(PayloadError::NoDestination));
    }

    #[test]
    fn another_drivers_payload_is_refused() {
        let spec = BackupSpec { driver_metadata: Some(driver_metadata("snap", &location())), ..BackupSpec::default() };
        let foreign = json!({"kind": "RedisBackup", "apiVersion": "backups.cozystack.io/v1alpha1"});
        assert!(matches!(destination(&spec, Some(&foreign)), Err(PayloadError::Foreign { .. })));
    }

    #[test]
    fn an_empty_key_is_left_out() {
        let metadata = driver_metadata("snap", &S3Location { key: Some(String::new()), ..location() });
        assert_eq!(metadata.get(driver_metadata::KEY), None);
        assert_eq!(metadata["etcd.aenix.io/force-path-style"], "true");
        assert_eq!(metadata["etcd.aenix.io/backup-name"], "snap");
    }
}
