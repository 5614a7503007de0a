//! One file in a directory, which is usually a mounted volume. Ownership stands in `<file>.uid` before the file itself
//! shows, so that a crash between the two never makes a retry refuse its own file.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{DirLocation, Error, Head, Ownership};
use crate::api::s3uri::ArtifactUri;

/// How much is read and written at a time.
const PIECE: usize = 1 << 20;

/// A file in a directory.
#[derive(Clone, Debug)]
pub struct FileObject {
    root: PathBuf,
    path: PathBuf,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

impl FileObject {
    pub(super) fn open(location: &DirLocation) -> Result<Self, Error> {
        let below = Path::new(&location.path);
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        if location.path.is_empty() || !plain {
            return Err(Error::Coordinates(format!(
                "path {:?} below the volume must not be empty, absolute, or contain ..",
                location.path
            )));
        }
        Ok(Self { root: location.root.clone(), path: location.root.join(below) })
    }

    pub(super) fn uri(&self) -> ArtifactUri {
        ArtifactUri::File { path: self.path.to_string_lossy().into_owned() }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn owner_file(&self) -> PathBuf {
        self.beside(".uid")
    }

    pub(super) async fn head(&self) -> Result<Option<Head>, Error> {
        let metadata = match tokio::fs::metadata(&self.path).await {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("look at", &self.path)(error)),
        };
        if !metadata.is_file() {
            return Err(Error::Coordinates(format!("{} is not a regular file", self.path.display())));
        }
        let owner = match tokio::fs::read_to_string(self.owner_file()).await {
            Ok(text) => Some(text.trim().to_owned()).filter(|uid| !uid.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", &self.owner_file())(error)),
        };
        Ok(Some(Head {
            size: metadata.len(),
            version: Some(version_of(&metadata)),
            owner,
            details: BTreeMap::new(),
            attempt: None,
        }))
    }
}

impl FileObject {
    /// The file goes first: one without an owner belongs to nobody, and would never be replaced.
    pub(super) async fn delete(&self) -> Result<(), Error> {
        for path in [self.path.clone(), self.owner_file()] {
            match tokio::fs::remove_file(&path).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path)(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Changes whenever the file is replaced or written.
fn version_of(metadata: &fs::Metadata) -> String {
    format!("{}-{}-{}.{}", metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// A stream into a file.
#[derive(Debug)]
pub struct FileUpload {
    object: FileObject,
    temporary: PathBuf,
    file: tokio::fs::File,
    buffer: Vec<u8>,
    sent: u64,
    /// Held while writing, so that two writers of one name see each other.
    _claim: File,
}

impl FileUpload {
    pub(super) async fn begin(object: &FileObject, ownership: &Ownership) -> Result<Self, Error> {
        let (object, ownership) = (object.clone(), ownership.clone());
        let claimed = {
            let (object, ownership) = (object.clone(), ownership.clone());
            tokio::task::spawn_blocking(move || claim(&object, &ownership)).await
        };
        let claim = claimed.map_err(|error| failed("claim", &object.path)(io::Error::other(error)))??;
        let temporary = object.beside(&format!(".{}.tmp", ownership.attempt));
        let file = tokio::fs::File::create_new(&temporary).await.map_err(failed("create", &temporary))?;
        Ok(Self { object, temporary, file, buffer: Vec::with_capacity(PIECE), sent: 0, _claim: claim })
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        self.sent += bytes.len() as u64;
        if self.buffer.len() >= PIECE { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        self.file.write_all(&self.buffer).await.map_err(failed("write", &self.temporary))?;
        self.buffer.clear();
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<Head, Error> {
        match self.make_visible().await {
            Ok(head) => Ok(head),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    async fn make_visible(&mut self) -> Result<Head, Error> {
        self.flush().await?;
        // tokio's file hands writes to a thread: without this the last of them could be lost, or its error.
        self.file.flush().await.map_err(failed("write", &self.temporary))?;
        self.file.sync_all().await.map_err(failed("sync", &self.temporary))?;
        tokio::fs::rename(&self.temporary, &self.object.path).await.map_err(failed("rename to", &self.object.path))?;
        let folder = self.object.path.parent().unwrap_or(&self.object.root);
        sync_folder(folder).await?;
        let uri = || self.object.uri().to_string();
        let head = self.object.head().await?.ok_or_else(|| Error::Changed { uri: uri() })?;
        if head.size == self.sent {
            Ok(head)
        } else {
            Err(Error::Mismatch { uri: uri(), sent: self.sent, found: head.size })
        }
    }

    pub(super) async fn abort(self) {
        if let Err(error) = tokio::fs::remove_file(&self.temporary).await {
            tracing::warn!(path = %self.temporary.display(), %error, "an unfinished file is left behind");
        }
    }
}

async fn sync_folder(folder: &Path) -> Result<(), Error> {
    let handle = tokio::fs::File::open(folder).await.map_err(failed("open", folder))?;
    handle.sync_all().await.map_err(failed("sync", folder))
}

/// Makes the name the caller's: takes the lock on `<file>.uid`, refuses if the file is there and somebody else's,
/// writes the UID and makes it durable. Leftovers of killed writers are removed, since the lock says that none lives.
fn claim(object: &FileObject, ownership: &Ownership) -> Result<File, Error> {
    let folder = object.path.parent().unwrap_or(&object.root);
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let path = object.owner_file();
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(&path).map_err(failed("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Taken { uri: object.uri().to_string(), owner: None }),
        // Some network filesystems have no locks; the check below still stands.
        Err(TryLockError::Error(error)) => tracing::warn!(%error, "the volume has no locks"),
    }
    let recorded = io::read_to_string(&file).map_err(failed("read", &path))?;
    let recorded = recorded.trim();
    let there = object.path.try_exists().map_err(failed("look at", &object.path))?;
    if there && recorded != ownership.uid {
        let owner = Some(recorded.to_owned()).filter(|uid| !uid.is_empty());
        if owner.is_none() {
            // The file was there without an owner: the empty record is ours to take away again.
            let _ = fs::remove_file(&path);
        }
        return Err(Error::Taken { uri: object.uri().to_string(), owner });
    }
    remove_leftovers(object, folder);
    if recorded != ownership.uid {
        record(&file, &ownership.uid).map_err(failed("write", &path))?;
        File::open(folder).and_then(|handle| handle.sync_all()).map_err(failed("sync", folder))?;
    }
    Ok(file)
}

fn record(mut file: &File, uid: &str) -> io::Result<()> {
    use std::io::{Seek, Write};
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(uid.as_bytes())?;
    file.sync_all()
}

fn remove_leftovers(object: &FileObject, folder: &Path) {
    let Some(name) = object.path.file_name().and_then(|name| name.to_str()) else { return };
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let leftover = entry.file_name().to_str().is_some_and(|other| {
            let middle = other.strip_prefix(name).and_then(|rest| rest.strip_suffix(".tmp"));
            middle.is_some_and(|middle| middle.starts_with('.'))
        });
        if leftover {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A stream out of a file.
#[derive(Debug)]
pub struct FileDownload {
    uri: String,
    path: PathBuf,
    file: tokio::fs::File,
    left: u64,
}

impl FileDownload {
    pub(super) async fn begin(object: &FileObject, head: &Head) -> Result<Self, Error> {
        let uri = object.uri().to_string();
        let file = match tokio::fs::File::open(&object.path).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::ObjectMissing { uri }),
            Err(error) => return Err(failed("open", &object.path)(error)),
        };
        let metadata = file.metadata().await.map_err(failed("look at", &object.path))?;
        if head.version.as_deref() != Some(&version_of(&metadata)) {
            return Err(Error::Changed { uri });
        }
        Ok(Self { uri, path: object.path.clone(), file, left: head.size })
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; PIECE.min(usize::try_from(self.left).unwrap_or(PIECE))];
        let read = self.file.read(&mut piece).await.map_err(failed("read", &self.path))?;
        if read == 0 {
            return Err(Error::Changed { uri: self.uri.clone() });
        }
        piece.truncate(read);
        self.left -= read as u64;
        Ok(Some(piece.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Location, Store};
    use super::*;

    fn store(root: &Path) -> Store {
        let location = DirLocation { root: root.to_owned(), path: "deep/s.db".into() };
        Store::open(&Location::Dir(location), None).unwrap()
    }

    fn ownership(uid: &str, attempt: &str) -> Ownership {
        Ownership { uid: uid.into(), attempt: attempt.into(), details: std::collections::BTreeMap::new() }
    }

    async fn write(store: &Store, uid: &str, attempt: &str, content: &[u8]) -> Result<Head, Error> {
        let mut upload = store.put(&ownership(uid, attempt), 0).await?;
        upload.write(content).await?;
        upload.finish().await
    }

    async fn content(store: &Store) -> Vec<u8> {
        let head = store.head().await.unwrap().unwrap();
        let mut download = store.get(&head).await.unwrap();
        let mut all = Vec::new();
        while let Some(piece) = download.next().await.unwrap() {
            all.extend_from_slice(&piece);
        }
        all
    }

    #[tokio::test]
    async fn an_owner_replaces_its_own_and_nobody_elses() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        assert_eq!(store.head().await.unwrap(), None);
        write(&store, "a", "1", b"first").await.unwrap();
        write(&store, "a", "2", b"second").await.unwrap();
        assert!(
            matches!(write(&store, "b", "3", b"x").await, Err(Error::Taken { owner: Some(owner), .. }) if owner == "a")
        );
        assert_eq!(content(&store).await, b"second");
        let head = store.head().await.unwrap().unwrap();
        assert_eq!((head.size, head.owner.as_deref()), (6, Some("a")));
        for _ in 0..2 {
            store.delete().await.unwrap();
            assert_eq!(fs::read_dir(root.path().join("deep")).unwrap().count(), 0);
        }
    }

    /// S10: a writer that died leaves nothing that would refuse the next one.
    #[tokio::test]
    async fn an_aborted_or_killed_upload_shows_nothing_and_blocks_nobody() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let mut upload = store.put(&ownership("a", "1"), 0).await.unwrap();
        upload.write(b"half").await.unwrap();
        upload.abort().await;
        // Dropped without a word, as a killed process does.
        drop(store.put(&ownership("a", "2"), 0).await.unwrap());
        assert_eq!(store.head().await.unwrap(), None);
        write(&store, "b", "3", b"whole").await.unwrap();
        let names: Vec<_> = fs::read_dir(root.path().join("deep")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[tokio::test]
    async fn two_writers_of_one_name_see_each_other() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let first = store.put(&ownership("a", "1"), 0).await.unwrap();
        assert!(matches!(store.put(&ownership("b", "2"), 0).await, Err(Error::Taken { .. })));
        first.finish().await.unwrap();
    }

    #[tokio::test]
    async fn a_file_without_an_owner_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("deep")).unwrap();
        fs::write(root.path().join("deep/s.db"), b"theirs").unwrap();
        let store = store(root.path());
        assert!(matches!(write(&store, "a", "1", b"x").await, Err(Error::Taken { owner: None, .. })));
        assert_eq!(content(&store).await, b"theirs");
        assert_eq!(fs::read_dir(root.path().join("deep")).unwrap().count(), 1);
    }

    #[test]
    fn paths_stay_below_the_volume() {
        for path in ["", "/etc/passwd", "../x", "a/../../x"] {
            let location = DirLocation { root: "/mnt".into(), path: path.into() };
            assert!(FileObject::open(&location).is_err(), "{path}");
        }
    }
}
