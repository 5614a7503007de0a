//! `etcd-warden snapshot`: what a snapshot file is, and whether it is whole, by the rules that agents hold it to.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use thiserror::Error;

use crate::agent::offline::{self, Digested, Recorded, Refusal, SnapshotDigest, Trailer};

/// How much is read at a time.
const PIECE: usize = 1 << 20;

/// What is done with a snapshot file.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print size, SHA-256, and whether the SHA-256 that etcd appends is there and right.
    Inspect {
        /// The snapshot.
        file: PathBuf,
    },
    /// End well only if the file is a whole etcd snapshot, and the one that was recorded.
    Verify(Verify),
}

/// What a snapshot file is held to.
#[derive(Debug, Args)]
pub struct Verify {
    /// The snapshot.
    file: PathBuf,
    /// Recorded SHA-256, as in the Backup's or EtcdSnapshot's status; a leading `sha256:` is allowed.
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// Recorded size in bytes.
    #[arg(long, value_name = "BYTES")]
    size: Option<u64>,
    /// The file is a member's own database (member/snap/db), to which etcd appends no SHA-256.
    #[arg(long)]
    member_database: bool,
}

/// Why a snapshot file is not what it should be.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is not a whole snapshot, or not the recorded one.
    #[error("{} must not be restored", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Refusal,
    },
    /// The result cannot be written to standard output.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
}

/// Does what was asked, and writes the result to standard output.
///
/// # Errors
/// [`Error`].
pub fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Inspect { file } => {
            let digested = digest(file)?;
            print(&described(file, &digested))
        }
        Command::Verify(wanted) => {
            let digested = digest(&wanted.file)?;
            let sha256 = wanted.sha256.as_deref().map(str::to_ascii_lowercase);
            let sha256 = sha256.as_deref().map(|text| text.strip_prefix("sha256:").unwrap_or(text));
            let recorded = Recorded { size: wanted.size, sha256 };
            offline::content(&digested, &recorded, wanted.member_database)
                .map_err(|source| Error::Refused { path: wanted.file.clone(), source })?;
            print(&format!("{}: whole, {} bytes, sha256 {}\n", wanted.file.display(), digested.size, digested.sha256))
        }
    }
}

fn print(text: &str) -> Result<(), Error> {
    io::stdout().write_all(text.as_bytes()).map_err(Error::Output)
}

fn digest(path: &Path) -> Result<Digested, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut digest = SnapshotDigest::default();
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece).map_err(failed)?;
        if read == 0 {
            return Ok(digest.finish());
        }
        digest.update(&piece[..read]);
    }
}

fn described(path: &Path, digested: &Digested) -> String {
    let trailer = match digested.trailer {
        Trailer::Matches => "matches the content",
        Trailer::Differs => "does not match the content",
        Trailer::Absent => "absent",
    };
    let database = if digested.is_database { "yes" } else { "no" };
    format!(
        "file: {}\nsize: {}\nsha256: {}\netcd database: {database}\nappended sha256: {trailer}\n",
        path.display(),
        digested.size,
        digested.sha256
    )
}
