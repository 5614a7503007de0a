//! The contract between controllers and agents: what goes in through the environment, what comes out through the
//! termination message and the exit code. Both sides import these names; nothing of Kubernetes is needed to compile
//! them.

use serde::{Deserialize, Serialize};

/// Longest termination message the kubelet keeps, in bytes (Kubernetes, `terminationMessagePath`).
pub const TERMINATION_MESSAGE_LIMIT: usize = 4096;

/// Where the kubelet reads a container's termination message.
pub const TERMINATION_MESSAGE_PATH: &str = "/dev/termination-log";

/// Environment variable that overrides [`TERMINATION_MESSAGE_PATH`], for agents that run outside a Pod.
pub const TERMINATION_MESSAGE_PATH_ENV: &str = "TERMINATION_MESSAGE_PATH";

/// File name under which `install-tools` leaves the agent in [`env::TOOLS_DEST_DIR`].
pub const TOOL_NAME: &str = "etcd-warden-agent";

/// Names of the environment variables that agents read.
pub mod env {
    /// Comma-separated client URLs of the cluster to snapshot.
    pub const ETCD_ENDPOINTS: &str = "ETCD_ENDPOINTS";
    /// PEM file with the CA that signed etcd's server certificates.
    pub const ETCD_TLS_CA_PATH: &str = "ETCD_TLS_CA_PATH";
    /// PEM file with the client certificate, for clusters that ask for one.
    pub const ETCD_TLS_CERT_PATH: &str = "ETCD_TLS_CERT_PATH";
    /// PEM file with the client certificate's key.
    pub const ETCD_TLS_KEY_PATH: &str = "ETCD_TLS_KEY_PATH";
    /// User name for etcd's password authentication.
    pub const ETCD_USERNAME: &str = "ETCD_USERNAME";
    /// Password for etcd's password authentication.
    pub const ETCD_PASSWORD: &str = "ETCD_PASSWORD";
    /// Directory of the member whose data is restored.
    pub const ETCD_DATA_DIR: &str = "ETCD_DATA_DIR";
    /// Name of the member whose data is restored.
    pub const ETCD_MEMBER_NAME: &str = "ETCD_MEMBER_NAME";
    /// `--initial-cluster` of the restored member.
    pub const ETCD_INITIAL_CLUSTER: &str = "ETCD_INITIAL_CLUSTER";
    /// `--initial-cluster-token` of the restored member.
    pub const ETCD_INITIAL_CLUSTER_TOKEN: &str = "ETCD_INITIAL_CLUSTER_TOKEN";
    /// `--initial-advertise-peer-urls` of the restored member.
    pub const ETCD_PEER_URLS: &str = "ETCD_PEER_URLS";
    /// Restore: `existing` once the restored cluster has formed. Nothing is restored from then on, whatever the data
    /// directory looks like.
    pub const INITIAL_CLUSTER_STATE: &str = "INITIAL_CLUSTER_STATE";
    /// Name of the EtcdSnapshot, which names the stored object.
    pub const SNAPSHOT_NAME: &str = "SNAPSHOT_NAME";
    /// UID of the EtcdSnapshot: the mark of ownership on the stored object.
    pub const SNAPSHOT_UID: &str = "SNAPSHOT_UID";
    /// `s3` or `pvc`.
    pub const SNAPSHOT_DEST_KIND: &str = "SNAPSHOT_DEST_KIND";
    /// Host or URL of the S3 server.
    pub const S3_ENDPOINT: &str = "S3_ENDPOINT";
    /// Bucket name.
    pub const S3_BUCKET: &str = "S3_BUCKET";
    /// Prefix (snapshot) or exact object key (preflight, restore).
    pub const S3_KEY: &str = "S3_KEY";
    /// Region; `us-east-1` where empty.
    pub const S3_REGION: &str = "S3_REGION";
    /// `true` for path-style addressing.
    pub const S3_FORCE_PATH_STYLE: &str = "S3_FORCE_PATH_STYLE";
    /// PEM file with the CA that signed the S3 server's certificate.
    pub const S3_CA_FILE: &str = "S3_CA_FILE";
    /// Access key of the S3 credentials.
    pub const AWS_ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";
    /// Secret key of the S3 credentials.
    pub const AWS_SECRET_ACCESS_KEY: &str = "AWS_SECRET_ACCESS_KEY";
    /// Session token of temporary S3 credentials.
    pub const AWS_SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
    /// Directory where a volume destination or source is mounted.
    pub const PVC_MOUNT_PATH: &str = "PVC_MOUNT_PATH";
    /// Directory (snapshot) or file (restore) below [`PVC_MOUNT_PATH`].
    pub const PVC_SUBPATH: &str = "PVC_SUBPATH";
    /// Directory into which `install-tools` copies the agent.
    pub const TOOLS_DEST_DIR: &str = "TOOLS_DEST_DIR";
    /// Path of etcdutl in the etcd image, tried before `/usr/local/bin/etcdutl` and `PATH`.
    pub const ETCDUTL_PATH: &str = "ETCDUTL_PATH";
    /// Recorded SHA-256 of the object, 64 hex digits.
    pub const EXPECTED_SHA256: &str = "EXPECTED_SHA256";
    /// Recorded size of the object in bytes.
    pub const EXPECTED_SIZE: &str = "EXPECTED_SIZE";
    /// etcd version that made the snapshot.
    pub const ORIGIN_ETCD_VERSION: &str = "ORIGIN_ETCD_VERSION";
    /// etcd version that will boot on the restored data.
    pub const TARGET_ETCD_VERSION: &str = "TARGET_ETCD_VERSION";
    /// How far the revision is raised at restore; absent or 0 leaves it.
    pub const REVISION_BUMP: &str = "REVISION_BUMP";
    /// Directory for staging when the data volume lacks room.
    pub const SCRATCH_DIR: &str = "SCRATCH_DIR";
    /// `linearizable` (where empty) or `serializable`: what a snapshot may be taken from when no quorum answers.
    pub const SNAPSHOT_CONSISTENCY: &str = "SNAPSHOT_CONSISTENCY";
    /// Seconds after which the task gives up by itself; absent leaves that to the Job.
    pub const DEADLINE_SECONDS: &str = "DEADLINE_SECONDS";
    /// Suffix by which any of the credentials ([`AWS_ACCESS_KEY_ID`], [`AWS_SECRET_ACCESS_KEY`],
    /// [`AWS_SESSION_TOKEN`], [`ETCD_USERNAME`], [`ETCD_PASSWORD`]) is read from a mounted file instead.
    pub const FILE_SUFFIX: &str = "_FILE";
}

/// Keys of a stored object's metadata, beside its owner's UID.
pub mod object {
    /// Name of the EtcdSnapshot.
    pub const SNAPSHOT_NAME: &str = "etcd-snapshot-name";
    /// Revision of the key space.
    pub const REVISION: &str = "etcd-revision";
    /// etcd version of the member.
    pub const ETCD_VERSION: &str = "etcd-version";
    /// Cluster id, 16 hex digits.
    pub const CLUSTER_ID: &str = "etcd-cluster-id";
    /// Member id, 16 hex digits.
    pub const MEMBER_ID: &str = "etcd-member-id";
    /// When the snapshot was begun.
    pub const STARTED: &str = "etcd-snapshot-started";
}

/// Exit codes of the agent.
pub mod exit {
    /// Done, or nothing to do.
    pub const DONE: u8 = 0;
    /// Failed in a way that may pass by itself.
    pub const RETRYABLE: u8 = 1;
    /// Wrong configuration: the environment or the arguments.
    pub const CONFIGURATION: u8 = 2;
    /// Failed for good; the report's reason says why.
    pub const TERMINAL: u8 = 3;
}

/// What an agent was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Stream a snapshot into a store.
    Snapshot,
    /// Rehearse a restore without changing anything.
    Preflight,
    /// Rebuild a member's data directory from a snapshot.
    Restore,
    /// Copy the agent into another image's volume.
    InstallTools,
}

/// Why a task ended as it did. The same words stand in conditions and Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The task did what it was asked.
    Completed,
    /// Restore only: the data directory holds a member already, so nothing was done.
    AlreadyInitialised,
    /// A setting is missing or malformed.
    InvalidConfiguration,
    /// etcd could not be reached.
    EtcdUnreachable,
    /// The TLS handshake with etcd failed.
    EtcdTlsFailed,
    /// etcd refused the credentials.
    EtcdAuthFailed,
    /// No quorum confirmed the source's state, and a serializable snapshot was not asked for.
    EtcdNoQuorum,
    /// No endpoint may be snapshot: only learners, or members with a CORRUPT alarm.
    NoSnapshotSource,
    /// The snapshot stream broke before its end.
    SnapshotStreamBroken,
    /// The snapshot lacks the SHA-256 that etcd appends to it.
    TrailerMissing,
    /// The SHA-256 that etcd appended to the snapshot does not match its content.
    TrailerMismatch,
    /// The store's name could not be resolved, connected to, or spoken to in time.
    StoreUnreachable,
    /// The TLS handshake with the store failed.
    StoreTlsFailed,
    /// The store refused the credentials.
    StoreAuthFailed,
    /// The credentials are valid, but may not do this.
    StorePermissionDenied,
    /// The store's clock and ours differ too much for signed requests.
    StoreClockSkewed,
    /// The store refused the request in a way that none of the others covers.
    StoreRefused,
    /// The bucket does not exist.
    BucketNotFound,
    /// The object does not exist.
    ObjectNotFound,
    /// An object that is not ours has the name already.
    ObjectOwnedByAnother,
    /// What was stored is not what was sent.
    StoredObjectMismatch,
    /// The object's size is not the recorded one.
    SizeMismatch,
    /// The object's SHA-256 is not the recorded one.
    ChecksumMismatch,
    /// The file is not an etcd snapshot.
    NotASnapshot,
    /// No runnable etcdutl in this image.
    EtcdutlNotFound,
    /// etcdutl refused the snapshot or failed.
    EtcdutlFailed,
    /// The snapshot was made by a newer etcd minor than would boot on it.
    OriginNewerThanTarget,
    /// Not enough room for the snapshot and the rebuilt data.
    InsufficientSpace,
    /// Reading or writing a file failed.
    FilesystemFailed,
    /// The rehearsal's etcd did not come up on the rebuilt data.
    RehearsalFailed,
    /// The task was told to stop, or its time ran out.
    Interrupted,
    /// A fault of the agent itself.
    Internal,
}

impl Reason {
    /// The word as it stands in conditions and Events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::AlreadyInitialised => "AlreadyInitialised",
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::EtcdUnreachable => "EtcdUnreachable",
            Self::EtcdTlsFailed => "EtcdTlsFailed",
            Self::EtcdAuthFailed => "EtcdAuthFailed",
            Self::EtcdNoQuorum => "EtcdNoQuorum",
            Self::NoSnapshotSource => "NoSnapshotSource",
            Self::SnapshotStreamBroken => "SnapshotStreamBroken",
            Self::TrailerMissing => "TrailerMissing",
            Self::TrailerMismatch => "TrailerMismatch",
            Self::StoreUnreachable => "StoreUnreachable",
            Self::StoreTlsFailed => "StoreTlsFailed",
            Self::StoreAuthFailed => "StoreAuthFailed",
            Self::StorePermissionDenied => "StorePermissionDenied",
            Self::StoreClockSkewed => "StoreClockSkewed",
            Self::StoreRefused => "StoreRefused",
            Self::BucketNotFound => "BucketNotFound",
            Self::ObjectNotFound => "ObjectNotFound",
            Self::ObjectOwnedByAnother => "ObjectOwnedByAnother",
            Self::StoredObjectMismatch => "StoredObjectMismatch",
            Self::SizeMismatch => "SizeMismatch",
            Self::ChecksumMismatch => "ChecksumMismatch",
            Self::NotASnapshot => "NotASnapshot",
            Self::EtcdutlNotFound => "EtcdutlNotFound",
            Self::EtcdutlFailed => "EtcdutlFailed",
            Self::OriginNewerThanTarget => "OriginNewerThanTarget",
            Self::InsufficientSpace => "InsufficientSpace",
            Self::FilesystemFailed => "FilesystemFailed",
            Self::RehearsalFailed => "RehearsalFailed",
            Self::Interrupted => "Interrupted",
            Self::Internal => "Internal",
        }
    }
}

impl Reason {
    /// Whether another try may succeed with nothing changed. A task may know better and say so in its report.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::EtcdUnreachable
            | Self::EtcdNoQuorum
            | Self::NoSnapshotSource
            | Self::SnapshotStreamBroken
            | Self::StoreUnreachable
            | Self::StoreClockSkewed
            | Self::StoredObjectMismatch
            | Self::Interrupted => true,
            Self::Completed
            | Self::AlreadyInitialised
            | Self::InvalidConfiguration
            | Self::EtcdTlsFailed
            | Self::EtcdAuthFailed
            | Self::TrailerMissing
            | Self::TrailerMismatch
            | Self::StoreTlsFailed
            | Self::StoreAuthFailed
            | Self::StorePermissionDenied
            | Self::StoreRefused
            | Self::BucketNotFound
            | Self::ObjectNotFound
            | Self::ObjectOwnedByAnother
            | Self::SizeMismatch
            | Self::ChecksumMismatch
            | Self::NotASnapshot
            | Self::EtcdutlNotFound
            | Self::EtcdutlFailed
            | Self::OriginNewerThanTarget
            | Self::InsufficientSpace
            | Self::FilesystemFailed
            | Self::RehearsalFailed
            | Self::Internal => false,
        }
    }
}

/// How the source answered before the stream began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// A quorum confirmed the member's state.
    Linearizable,
    /// Only the member itself was asked; it may lag behind.
    Serializable,
}

/// A stored snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// `s3://<bucket>/<key>` or `file://<path>`.
    pub uri: String,
    /// Bytes stored, etcd's 32-byte trailer included.
    pub size_bytes: u64,
    /// SHA-256 of all stored bytes, 64 hex digits.
    pub sha256: String,
    /// Revision of the key space when the stream began, as the member told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Version of the member that was snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
    /// Storage version told by the stream (etcd 3.6 and newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_version: Option<String>,
    /// Cluster id, 16 hex digits.
    #[serde(default, rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Member id, 16 hex digits.
    #[serde(default, rename = "memberID", skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,
    /// How the source answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<Consistency>,
}

/// What the rehearsal's etcd said of the rebuilt data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsal {
    /// Revision of the key space after the rebuild.
    pub revision: i64,
    /// Number of keys.
    pub keys: i64,
    /// etcd's HashKV at [`Rehearsal::hash_revision`].
    #[serde(rename = "hashKV")]
    pub hash_kv: u32,
    /// Revision at which the hash was taken.
    pub hash_revision: i64,
    /// Bytes of the rebuilt database file.
    pub db_bytes: u64,
    /// Whether the snapshot was made with authentication on.
    pub auth_enabled: bool,
    /// What that image's etcdutl calls itself.
    pub etcdutl_version: String,
    /// Alarms that the snapshot carries, in etcd's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// Revision that the snapshot holds, before any bump; absent where etcdutl does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Bytes fetched.
    pub bytes: u64,
    /// What that image's etcdutl calls itself.
    pub etcdutl_version: String,
    /// How far the revision was raised.
    pub bump: i64,
}

/// An agent's last word: one JSON object in the termination message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was asked.
    pub task: Task,
    /// Whether it was done.
    pub ok: bool,
    /// Why it ended as it did.
    pub reason: Reason,
    /// One sentence for a person; never a secret.
    pub message: String,
    /// Whether another try may succeed with nothing changed.
    pub retryable: bool,
    /// Snapshot: what was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Preflight: what the rehearsal found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<Rehearsal>,
    /// Restore: what was rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restored>,
    /// Seconds from start to end.
    pub duration_seconds: f64,
}
