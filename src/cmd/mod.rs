//! One file for each role of the program: wire and run.

pub mod admission;
pub mod crds;
pub mod serve;
pub mod snapshot;

/// Why a command failed: the boundary type of the program. Each says what a person can do about it in its own words;
/// this one only adds the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The CustomResourceDefinitions could not be written.
    #[error("crds")]
    Crds(#[from] crds::Error),
    /// The serving process could not start, or ended badly.
    #[error("serve")]
    Serve(#[from] serve::Error),
    /// A snapshot file is not what it should be.
    #[error("snapshot")]
    Snapshot(#[from] snapshot::Error),
}

impl Error {
    /// The exit code: 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        1
    }
}
