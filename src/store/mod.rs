//! Where snapshots are kept: an S3 bucket or a directory (a mounted volume), behind one interface.
//!
//! [`Store::open`] takes the exact place of one object. `head` tells what is there, `put` streams into it with
//! ownership and never over what belongs to somebody else, `get` streams out of it and goes on where a connection broke.

mod dir;
mod error;
mod s3;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;

use crate::api::s3uri::ArtifactUri;
use crate::api::secret::Secret;

pub use error::Error;

/// Key under which an object's metadata names its owner: the UID of the EtcdSnapshot.
pub const OWNER: &str = "etcd-snapshot-uid";

/// Key under which an object's metadata names the try that wrote it.
const ATTEMPT: &str = "etcd-snapshot-attempt";

/// Credentials for an S3 server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Credentials {
    /// Access key.
    pub access_key: Secret,
    /// Secret key.
    pub secret_key: Secret,
    /// Session token of temporary credentials.
    pub session_token: Option<Secret>,
}

/// One object in a bucket, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Location {
    /// `[http://|https://]HOST[:PORT]`.
    pub endpoint: String,
    /// Bucket name.
    pub bucket: String,
    /// Exact key.
    pub key: String,
    /// Region that signatures name.
    pub region: String,
    /// Whether the bucket is a path below the endpoint instead of a part of its name.
    pub path_style: bool,
    /// PEM text of authorities to trust beside the system's.
    pub ca: Option<Vec<u8>>,
    /// Credentials.
    pub credentials: S3Credentials,
}

/// One file below a mounted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirLocation {
    /// Where the volume is mounted.
    pub root: PathBuf,
    /// Path of the file below it.
    pub path: String,
}

/// The exact place of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// An object in a bucket.
    S3(S3Location),
    /// A file in a directory.
    Dir(DirLocation),
}

/// What is known of a stored object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes.
    pub size: u64,
    /// Changes when the object does.
    pub version: Option<String>,
    /// UID of the owner, where one is recorded.
    pub owner: Option<String>,
    /// What else the object's metadata says, as [`Ownership::details`].
    pub details: BTreeMap<String, String>,
    attempt: Option<String>,
}

/// Who writes an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// UID of the EtcdSnapshot.
    pub uid: String,
    /// Differs between two tries of the same owner.
    pub attempt: String,
    /// Facts about the content that are known before it streams; keys are lower case with dashes.
    pub details: BTreeMap<String, String>,
}

/// An opened place.
#[derive(Debug)]
pub enum Store {
    /// An object in a bucket.
    S3(s3::S3Object),
    /// A file in a directory.
    Dir(dir::FileObject),
}

/// A stream into a store. Nothing shows under the final name before [`Upload::finish`]; [`Upload::abort`] leaves
/// nothing behind.
#[derive(Debug)]
pub enum Upload {
    /// Into a bucket.
    S3(Box<s3::S3Upload>),
    /// Into a file.
    Dir(Box<dir::FileUpload>),
}

/// A stream out of a store.
#[derive(Debug)]
pub enum Download {
    /// Out of a bucket.
    S3(Box<s3::S3Download>),
    /// Out of a file.
    Dir(Box<dir::FileDownload>),
}

impl Store {
    /// Opens the place; nothing is sent yet. No request begins or is repeated after the deadline.
    ///
    /// # Errors
    /// The coordinates or the CA bundle cannot be used.
    pub fn open(location: &Location, deadline: Option<Instant>) -> Result<Self, Error> {
        match location {
            Location::S3(location) => s3::S3Object::open(location, deadline).map(Self::S3),
            Location::Dir(location) => dir::FileObject::open(location).map(Self::Dir),
        }
    }

    /// The object's address, as it stands in statuses.
    #[must_use]
    pub fn uri(&self) -> ArtifactUri {
        match self {
            Self::S3(object) => object.uri(),
            Self::Dir(object) => object.uri(),
        }
    }

    /// What is there; `None` where nothing is.
    pub async fn head(&self) -> Result<Option<Head>, Error> {
        match self {
            Self::S3(object) => object.head().await,
            Self::Dir(object) => object.head().await,
        }
    }

    /// Removes what is there. Where nothing is, that is done already.
    pub async fn delete(&self) -> Result<(), Error> {
        match self {
            Self::S3(object) => object.delete().await,
            Self::Dir(object) => object.delete().await,
        }
    }

    /// Makes sure that the name is free or the caller's own, and opens a stream into it. The expected size only decides
    /// how large parts are.
    ///
    /// # Errors
    /// [`Error::Taken`] where it is somebody else's.
    pub async fn put(&self, ownership: &Ownership, expected_size: u64) -> Result<Upload, Error> {
        match self {
            Self::S3(object) => {
                s3::S3Upload::begin(object, ownership, expected_size).await.map(|up| Upload::S3(Box::new(up)))
            }
            Self::Dir(object) => dir::FileUpload::begin(object, ownership).await.map(|up| Upload::Dir(Box::new(up))),
        }
    }

    /// Opens a stream of the object that `head` told of; a replaced object is an error, not a mixture.
    pub async fn get(&self, head: &Head) -> Result<Download, Error> {
        match self {
            Self::S3(object) => Ok(Download::S3(Box::new(s3::S3Download::begin(object, head)))),
            Self::Dir(object) => dir::FileDownload::begin(object, head).await.map(|down| Download::Dir(Box::new(down))),
        }
    }
}

impl Upload {
    /// Takes the next bytes, and waits while too many are on their way.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::S3(upload) => upload.write(bytes).await,
            Self::Dir(upload) => upload.write(bytes).await,
        }
    }

    /// Makes the object visible under its name, and reads back what the store has.
    ///
    /// # Errors
    /// [`Error::Taken`] where somebody else was faster, and then nothing of ours stays; [`Error::Mismatch`] where the
    /// store tells another size than was sent, which the owner's next try replaces.
    pub async fn finish(self) -> Result<Head, Error> {
        match self {
            Self::S3(upload) => upload.finish().await,
            Self::Dir(upload) => upload.finish().await,
        }
    }

    /// Throws away what was sent. Best effort: what could not be removed is the store's to expire.
    pub async fn abort(self) {
        match self {
            Self::S3(upload) => upload.abort().await,
            Self::Dir(upload) => upload.abort().await,
        }
    }
}

impl Download {
    /// The next bytes; `None` at the end, which is reached only after as many bytes as the head told.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::S3(download) => download.next().await,
            Self::Dir(download) => download.next().await,
        }
    }
}
