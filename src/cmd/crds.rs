//! `etcd-warden crds`: the CustomResourceDefinitions as YAML.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::api::crd;

/// Why the definitions could not be written. Nothing of it passes by itself.
#[derive(Debug, Error)]
pub enum Error {
    /// The YAML library refused a definition.
    #[error("cannot write a CustomResourceDefinition as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// The output could not be written.
    #[error("cannot write the CustomResourceDefinitions")]
    Output(#[from] io::Error),
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Writes every definition: to standard output, or into a file of its own in this directory.
pub fn run(directory: Option<&Path>) -> Result<(), Error> {
    match directory {
        Some(directory) => write_files(directory),
        None => print(&mut io::stdout().lock()),
    }
}

fn print(out: &mut dyn Write) -> Result<(), Error> {
    for crd in crd::all() {
        out.write_all(crd::to_yaml(&crd)?.as_bytes())?;
    }
    Ok(())
}

fn write_files(directory: &Path) -> Result<(), Error> {
    for crd in crd::all() {
        let path = directory.join(crd::file_name(&crd));
        fs::write(&path, crd::to_yaml(&crd)?).map_err(|source| Error::File { path, source })?;
    }
    Ok(())
}
