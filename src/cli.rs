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
    /// Show the destination that a strategy yields.
    Render(cmd::render::Settings),
    /// List, show, test or export the rules.
    Policies {
        /// What to do with them.
        #[command(subcommand)]
        command: cmd::policies::Command,
    },
    /// Print the CustomResourceDefinitions as YAML.
    Crds {
        /// Write one file for each into this directory instead.
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
    },
    /// Make and look at serving certificates.
    Certs {
        /// What is done with them.
        #[command(subcommand)]
        command: cmd::certs::Command,
    },
    /// Look at a snapshot file.
    Snapshot {
        /// What is done with it.
        #[command(subcommand)]
        command: cmd::snapshot::Command,
    },
    /// Print what makes a shell complete this command line.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}
