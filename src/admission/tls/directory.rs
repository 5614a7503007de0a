//! The authority in a directory, shared by processes of one host: a lock file beside it keeps them apart.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::store::{BUNDLE, CERTIFICATE, KEY, Parts, StoreError};

/// The three files, or nothing where one of them is not there.
pub(super) fn read(directory: &Path) -> Result<Option<Parts>, StoreError> {
    if !directory.is_dir() {
        return Ok(None);
    }
    let _lock = lock(directory)?;
    read_locked(directory)
}

/// Writes the files if what is there is still what was expected.
pub(super) fn write(directory: &Path, expected: Option<&Parts>, parts: &Parts) -> Result<bool, StoreError> {
    std::fs::create_dir_all(directory).map_err(at(directory))?;
    let _lock = lock(directory)?;
    if read_locked(directory)?.as_ref() != expected {
        return Ok(false);
    }
    for (name, bytes) in parts {
        let (staged, path) = (directory.join(format!(".{name}")), directory.join(name));
        let mode = if name == KEY { 0o600 } else { 0o644 };
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&staged).map_err(at(&staged))?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(at(&staged))?;
        std::fs::rename(&staged, &path).map_err(at(&path))?;
    }
    Ok(true)
}

fn read_locked(directory: &Path) -> Result<Option<Parts>, StoreError> {
    let mut parts = Parts::new();
    for name in [BUNDLE, CERTIFICATE, KEY] {
        let path = directory.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => parts.insert(name.to_owned(), bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::File { path, source }),
        };
    }
    Ok(Some(parts))
}

/// Held until the file is closed, also by a crash.
fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join(".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
    file.lock().map_err(at(&path))?;
    Ok(file)
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| StoreError::File { path: path.clone(), source }
}
