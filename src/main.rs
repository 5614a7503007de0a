//! The etcd-warden program: parse, wire, run.

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, FromArgMatches};
use etcd_warden::cli::{Cli, Command};
use etcd_warden::cmd;

/// The commit that a release was built of; whoever builds it says so in the environment.
const COMMIT: &str = match option_env!("ETCD_WARDEN_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

static VERSION: LazyLock<String> = LazyLock::new(|| format!("{} (commit {COMMIT})", env!("CARGO_PKG_VERSION")));

fn main() -> ExitCode {
    let mut described = Cli::command().version(VERSION.as_str());
    let matches = described.get_matches_mut();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        Command::Serve(settings) => cmd::serve::run(*settings).map_err(cmd::Error::from),
        Command::Check(settings) => cmd::check::run(&settings).map_err(cmd::Error::from),
        Command::Schedule(settings) => cmd::schedule::run(&settings).map_err(cmd::Error::from),
        Command::Crds { directory } => cmd::crds::run(directory.as_deref()).map_err(cmd::Error::from),
        Command::Render(settings) => cmd::render::run(&settings).map_err(cmd::Error::from),
        Command::Policies { command } => cmd::policies::run(&command).map_err(cmd::Error::from),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut described, "etcd-warden", &mut std::io::stdout());
            Ok(())
        }
        Command::Certs { command } => cmd::certs::run(&command).map_err(cmd::Error::from),
        Command::Snapshot { command } => cmd::snapshot::run(&command).map_err(cmd::Error::from),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// The error and everything behind it, one line a cause.
#[expect(clippy::print_stderr, reason = "the last word of a program goes to standard error, logging or not")]
fn report(error: &cmd::Error) {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    let mut text = String::from("etcd-warden");
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    eprintln!("{text}");
}
