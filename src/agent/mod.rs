//! The agent: the only code that moves data. It runs in Pods as `etcd-warden-agent snapshot|preflight|restore|
//! install-tools`, reads its settings from the environment, and ends with the report of [`crate::api::agent`].

mod digest;
mod etcdutl;
mod failure;
mod install;
mod preflight;
mod rebuild;
mod report;
mod restore;
mod settings;
mod snapshot;
mod stop;

/// What a snapshot file is held to, for those who hold one in their hands.
pub mod offline {
    pub use super::digest::{Digested, SnapshotDigest, Trailer};
    pub use super::rebuild::decide::{Recorded, Refusal, content};
}

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};

use self::failure::Failure;
use self::settings::Vars;
use self::stop::Stop;
use crate::api::agent::{Reason, Report, Task, exit};

/// Moves etcd snapshots between members, stores and data directories. Settings come from the environment.
#[derive(Debug, Parser)]
#[command(name = "etcd-warden-agent", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Command {
    /// Stream a member's database into a store, verified on the way
    Snapshot,
    /// Rehearse a restore in scratch space, and boot etcd on the result
    Preflight,
    /// Rebuild a member's data directory from a snapshot
    Restore,
    /// Copy this program to where another image's container will run it
    InstallTools,
}

/// What `--version` prints.
fn version_line() -> &'static str {
    concat!("etcd-warden-agent ", env!("CARGO_PKG_VERSION"))
}

/// Runs the agent: parses the arguments, does the task, reports, and gives the exit code of the contract.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { exit::CONFIGURATION } else { exit::DONE };
            // Closed standard streams leave nobody to tell.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let log = tracing_subscriber::fmt().json().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO);
    log.flatten_event(true).with_target(false).init();
    let task = match arguments.command {
        Command::Snapshot => Task::Snapshot,
        Command::Preflight => Task::Preflight,
        Command::Restore => Task::Restore,
        Command::InstallTools => Task::InstallTools,
    };
    ExitCode::from(perform(task))
}

fn perform(task: Task) -> u8 {
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = match runtime {
        // A task of its own, so that even a fault of ours ends with a report.
        Ok(runtime) => runtime.block_on(async { tokio::spawn(Ended::of(task)).await }).unwrap_or_else(|error| {
            Ended::failed(Failure::new(Reason::Internal, "the agent has a fault").because(error))
        }),
        Err(error) => Ended::failed(Failure::new(Reason::Internal, "cannot start").because(error)),
    };
    let (report, code) = ended.report(task, begun.elapsed().as_secs_f64());
    if report.ok {
        tracing::info!(step = "done", reason = report.reason.as_str(), seconds = report.duration_seconds);
    } else {
        tracing::error!(
            step = "failed",
            reason = report.reason.as_str(),
            retryable = report.retryable,
            message = report.message
        );
    }
    if let Err(error) = report::write(&report) {
        tracing::error!(%error, "the termination message cannot be written");
    }
    if let Err(error) = report::print_success(&report).and_then(|()| std::io::stdout().flush()) {
        tracing::error!(%error, "standard output cannot be written");
    }
    code
}

/// How a task ended: what it made, and why it failed if it did.
#[derive(Debug, Default)]
struct Ended {
    artifact: Option<crate::api::agent::Artifact>,
    rehearsal: Option<crate::api::agent::Rehearsal>,
    restore: Option<crate::api::agent::Restored>,
    nothing_to_do: bool,
    failure: Option<Failure>,
}

impl Ended {
    fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    async fn of(task: Task) -> Self {
        Self::try_of(task).await.unwrap_or_else(Self::failed)
    }

    async fn try_of(task: Task) -> Result<Self, Failure> {
        let vars = Vars(&|name| std::env::var(name).ok());
        let stop = Stop::install(settings::common(&vars)?.deadline)?;
        tracing::info!(step = "started", ?task, version = env!("CARGO_PKG_VERSION"));
        let mut ended = Self::default();
        match task {
            Task::Snapshot => {
                let settings = settings::snapshot(&vars)?;
                ended.artifact = Some(snapshot::run(&settings, &stop).await?);
            }
            Task::Preflight => {
                let rehearsed = preflight::run(&settings::preflight(&vars)?, &stop).await;
                ended.rehearsal = rehearsed.rehearsal;
                ended.failure = rehearsed.failure;
            }
            Task::Restore => {
                ended.restore = restore::run(&vars, &stop).await?;
                ended.nothing_to_do = ended.restore.is_none();
            }
            Task::InstallTools => {
                install::run(&settings::tools_dir(&vars)?).await?;
            }
        }
        Ok(ended)
    }

    fn report(self, task: Task, duration_seconds: f64) -> (Report, u8) {
        let (reason, message, retryable, code) = match &self.failure {
            Some(failure) => (failure.reason, failure.full_message(), failure.retryable, failure.exit_code()),
            None if self.nothing_to_do => {
                let text = "the data directory holds a member already: nothing was done";
                (Reason::AlreadyInitialised, text.to_owned(), false, exit::DONE)
            }
            None => (Reason::Completed, self.summary(), false, exit::DONE),
        };
        let report = Report {
            task,
            ok: self.failure.is_none(),
            reason,
            message,
            retryable,
            artifact: self.artifact,
            rehearsal: self.rehearsal,
            restore: self.restore,
            duration_seconds,
        };
        (report, code)
    }

    fn summary(&self) -> String {
        match (&self.artifact, &self.rehearsal, &self.restore) {
            (Some(artifact), ..) => format!("{} bytes stored at {}", artifact.size_bytes, artifact.uri),
            (_, Some(rehearsal), _) => {
                format!("rehearsed: revision {}, {} keys", rehearsal.revision, rehearsal.keys)
            }
            (.., Some(restored)) => format!("restored from {} bytes", restored.bytes),
            _ => "done".into(),
        }
    }
}
