//! Directories made durable, moved, measured and removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::agent::failure::Failure;

/// Bytes that an unprivileged process may still write to the filesystem of a path.
pub(super) fn free(path: &Path) -> Result<u64, Failure> {
    let stat = rustix::fs::statvfs(path).map_err(|error| Failure::file("measure the room of", path, error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether two paths share a filesystem, and so its room.
pub(super) fn same_device(one: &Path, other: &Path) -> Result<bool, Failure> {
    let device = |path: &Path| {
        fs::metadata(path).map(|metadata| metadata.dev()).map_err(|error| Failure::file("look at", path, error))
    };
    Ok(device(one)? == device(other)?)
}

/// Makes a directory that only its owner may enter.
pub(super) fn create(path: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| Failure::file("create", path, error))
}

/// Removes a file or a whole directory; what is not there is removed already.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::file("remove", path, error)),
        _ => Ok(()),
    }
}

/// Syncs a directory, so that what was renamed into it stays after a power loss.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Failure> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|error| Failure::file("sync", path, error))
}

/// Makes every file and directory below a path durable, and its owner the only one who may enter: etcd insists on it.
pub(crate) fn adopt(path: &Path) -> Result<(), Failure> {
    let failed = |action: &'static str| move |error| Failure::file(action, path, error);
    let metadata = fs::symlink_metadata(path).map_err(failed("look at"))?;
    if metadata.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed("set the mode of"))?;
        for entry in fs::read_dir(path).map_err(failed("list"))? {
            adopt(&entry.map_err(failed("list"))?.path())?;
        }
        return sync_folder(path);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed("set the mode of"))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(failed("sync"))
}
