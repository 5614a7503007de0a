//! `install-tools`: this very program, copied to where another image's container will run it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::etcdutl;
use super::failure::Failure;
use super::rebuild::sync_folder;
use crate::api::agent::{Reason, TOOL_NAME};

/// The program that runs now.
const OURSELVES: &str = "/proc/self/exe";

/// Copies the program into the directory and makes sure that the copy runs. A copy that is there already is replaced
/// in one step, so that nobody ever runs half a program.
///
/// # Errors
/// The copy cannot be made, or does not run.
pub(crate) async fn run(folder: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, error))?;
    let (place, temporary) = (folder.join(TOOL_NAME), folder.join(format!(".{TOOL_NAME}.tmp")));
    let outcome = async {
        copy(&temporary).map_err(|error| Failure::file("write", &temporary, error))?;
        tracing::info!(step = "copied");
        verify(&temporary).await?;
        fs::rename(&temporary, &place).map_err(|error| Failure::file("rename to", &place, error))?;
        sync_folder(folder)
    }
    .await;
    match outcome {
        Ok(()) => {
            tracing::info!(step = "installed", path = %place.display());
            Ok(place)
        }
        Err(failure) => {
            let _ = fs::remove_file(&temporary);
            Err(failure)
        }
    }
}

fn copy(to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut target = File::options().write(true).create_new(true).mode(0o755).open(to)?;
    io::copy(&mut File::open(OURSELVES)?, &mut target)?;
    // The mode given at creation is cut by the umask.
    target.set_permissions(fs::Permissions::from_mode(0o755))?;
    target.sync_all()
}

async fn verify(copy: &Path) -> Result<(), Failure> {
    let told = etcdutl::ask(copy, &["--version"]).await.map_err(|failure| {
        Failure::new(Reason::FilesystemFailed, format!("the copy {} does not run", copy.display())).because(failure)
    })?;
    if told.trim() == super::version_line() {
        Ok(())
    } else {
        Err(Failure::new(Reason::FilesystemFailed, format!("the copy {} is not this program", copy.display())))
    }
}
