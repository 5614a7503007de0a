//! The stream of a member's database.

use std::time::Duration;

use bytes::Bytes;

use super::client::Client;
use super::error::Error;
use super::wire::{SnapshotRequest, SnapshotResponse};

const METHOD: &str = "/etcdserverpb.Maintenance/Snapshot";

/// How long the member may send nothing before the stream counts as broken.
const SILENCE: Duration = Duration::from_mins(1);

/// A member's database, in pieces of at most a few dozen KiB.
#[derive(Debug)]
pub struct SnapshotStream {
    inner: tonic::Streaming<SnapshotResponse>,
    endpoint: String,
    remaining: Option<u64>,
    storage_version: Option<String>,
}

impl Client {
    /// Opens the stream of this member's database. What it holds is settled when the member opens it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn snapshot(&self) -> Result<SnapshotStream, Error> {
        let inner = self.call_streaming(METHOD, SnapshotRequest {}).await?;
        Ok(SnapshotStream { inner, endpoint: self.endpoint().to_owned(), remaining: None, storage_version: None })
    }
}

impl SnapshotStream {
    /// The next piece; `None` at the end of the stream.
    ///
    /// # Errors
    /// The stream broke, or nothing came for a minute.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let message = tokio::time::timeout(SILENCE, self.inner.message())
            .await
            .map_err(|_| Error::Timeout { endpoint: self.endpoint.clone(), method: METHOD, after: SILENCE })?
            .map_err(|status| Error::from_status(&self.endpoint, METHOD, &status))?;
        Ok(message.map(|piece| {
            self.remaining = Some(piece.remaining_bytes);
            if !piece.version.is_empty() {
                self.storage_version = Some(piece.version);
            }
            piece.blob
        }))
    }

    /// Bytes of the database that the member said were still to come with the last piece; 0 at a proper end.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// Storage version that the stream told (etcd 3.6 and newer).
    #[must_use]
    pub fn storage_version(&self) -> Option<&str> {
        self.storage_version.as_deref()
    }
}
