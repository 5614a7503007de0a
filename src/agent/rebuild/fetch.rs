//! A stored snapshot, read once: into a file, or only through the hash.

use std::path::Path;

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use crate::agent::digest::{Digested, SnapshotDigest};
use crate::agent::failure::Failure;
use crate::agent::stop::Stop;
use crate::store::{Head, Store};

/// How much is written at a time.
const PIECE: usize = 1 << 20;

/// Hashes the snapshot where it is.
pub(super) async fn read(store: &Store, head: &Head, stop: &Stop) -> Result<Digested, Failure> {
    let mut download = stop.unless(store.get(head)).await?;
    let mut digest = SnapshotDigest::default();
    while let Some(piece) = stop.unless(download.next()).await? {
        digest.update(&piece);
    }
    tracing::info!(step = "snapshot-read", bytes = digest.size());
    Ok(digest.finish())
}

/// Hashes the snapshot while writing it to a new file.
pub(super) async fn download(store: &Store, head: &Head, path: &Path, stop: &Stop) -> Result<Digested, Failure> {
    let mut download = stop.unless(store.get(head)).await?;
    let failed = |error| Failure::file("write", path, error);
    let mut file = File::create_new(path).await.map_err(failed)?;
    tracing::info!(step = "download-started", file = %path.display());
    let mut digest = SnapshotDigest::default();
    let mut buffer = Vec::with_capacity(2 * PIECE);
    while let Some(piece) = stop.unless(download.next()).await? {
        digest.update(&piece);
        buffer.extend_from_slice(&piece);
        if buffer.len() >= PIECE {
            file.write_all(&buffer).await.map_err(failed)?;
            buffer.clear();
        }
    }
    file.write_all(&buffer).await.map_err(failed)?;
    // tokio's file hands writes to a thread: without this the last one's error would be lost.
    file.flush().await.map_err(failed)?;
    tracing::info!(step = "downloaded", bytes = digest.size());
    Ok(digest.finish())
}
