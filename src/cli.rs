//! The command line: what can be asked, and the settings of each role. Parsing only; [`crate::cmd`] does the work.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::cmd;

/// Keeps an etcd fleet on Kubernetes restorable.
#[derive(Debug, Parser)]
#[command(name = "etcd-warden", version, about, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run admission, the controllers and the admin endpoints in one process.
    Serve(Box<cmd::serve::Settings>),
    /// Say what admission would say to files, without a cluster.
    Check(Box<cmd::check::Settings>),
    /// Show when a schedule is due next.
    Schedule(cmd::schedule::Settings),
    /// Print the CustomResourceDefinitions as YAML.
    Crds {
        /// Write one file for each into this directory instead.
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
    },
    /// Look at a snapshot file.
    Snapshot {
        /// What is done with it.
        #[command(subcommand)]
        command: cmd::snapshot::Command,
    },
}
