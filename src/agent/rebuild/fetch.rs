//! A stored snapshot, read once: into a file, or only through the hash.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::agent::digest::{Digested, SnapshotDigest};
use crate::agent::failure::Failure;
use crate::agent::stop::Stop;
use crate::store::{Head, Store};

/// How much is written at a time.
const PIECE: usize = 1 << 20;

/// How many pieces may wait for the disk.
const AHEAD: usize = 4;

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

/// Hashes the snapshot while writing it to a new file. Receiving and hashing go on while the disk is busy.
pub(super) async fn download(store: &Store, head: &Head, path: &Path, stop: &Stop) -> Result<Digested, Failure> {
    let mut download = stop.unless(store.get(head)).await?;
    let failed = |error| Failure::file("write", path, error);
    let file = File::create_new(path).map_err(failed)?;
    tracing::info!(step = "download-started", file = %path.display());
    let mut digest = SnapshotDigest::default();
    let mut writer = Writer::start(file);
    while let Some(piece) = stop.unless(download.next()).await? {
        digest.update(&piece);
        if !writer.write(&piece).await {
            break;
        }
    }
    writer.finish().await.map_err(failed)?;
    tracing::info!(step = "downloaded", bytes = digest.size());
    Ok(digest.finish())
}

/// Writes a file on a thread of its own, a few pieces behind.
struct Writer {
    full: mpsc::Sender<Vec<u8>>,
    empty: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    thread: JoinHandle<io::Result<()>>,
}

impl Writer {
    fn start(mut file: File) -> Self {
        let (full, mut pieces) = mpsc::channel::<Vec<u8>>(AHEAD);
        let (used, empty) = mpsc::channel(AHEAD + 2);
        let thread = tokio::task::spawn_blocking(move || {
            while let Some(mut piece) = pieces.blocking_recv() {
                file.write_all(&piece)?;
                piece.clear();
                // Nobody takes it back once all is received.
                let _ = used.try_send(piece);
            }
            Ok(())
        });
        Self { full, empty, piece: Vec::with_capacity(PIECE), thread }
    }

    /// Takes the next bytes; `false` once the file can no longer be written, which [`Writer::finish`] explains.
    async fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE {
                let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(PIECE));
                if self.full.send(std::mem::replace(&mut self.piece, next)).await.is_err() {
                    return false;
                }
            }
        }
        true
    }

    /// Returns when everything is written.
    async fn finish(self) -> io::Result<()> {
        // Refused only where the thread has ended with an error, which is what it gives back below.
        let _ = self.full.send(self.piece).await;
        drop(self.full);
        self.thread.await.map_err(io::Error::other)?
    }
}
