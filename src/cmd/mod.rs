//! One file for each role of the program: wire and run.

pub mod admission;
pub mod certs;
pub mod check;
pub mod crds;
pub mod output;
pub mod policies;
pub mod render;
pub mod schedule;
pub mod serve;
pub mod snapshot;
mod values;

/// Why a command failed: the boundary type of the program. Each says what a person can do about it in its own words;
/// this one only adds the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something was refused, or could not be read.
    #[error("check")]
    Check(#[from] check::Error),
    /// A schedule is none.
    #[error("schedule")]
    Schedule(#[from] schedule::Error),
    /// The CustomResourceDefinitions could not be written.
    #[error("crds")]
    Crds(#[from] crds::Error),
    /// The serving process could not start, or ended badly.
    #[error("serve")]
    Serve(#[from] serve::Error),
    /// Policies are wrong, or cases do not come out as they say.
    #[error("policies")]
    Policies(#[from] policies::Error),
    /// A strategy yields no destination.
    #[error("render")]
    Render(#[from] render::Error),
    /// A certificate could not be made, or is not valid.
    #[error("certs")]
    Certs(#[from] certs::Error),
    /// A snapshot file is not what it should be.
    #[error("snapshot")]
    Snapshot(#[from] snapshot::Error),
}

impl Error {
    /// The exit code: 1, unless a command has more to say.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Check(error) => error.exit_code(),
            Self::Policies(error) => error.exit_code(),
            Self::Render(error) => error.exit_code(),
            Self::Schedule(_) | Self::Certs(_) | Self::Crds(_) | Self::Serve(_) | Self::Snapshot(_) => 1,
        }
    }
}
