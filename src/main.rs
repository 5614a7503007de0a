//! The etcd-warden program: parse, wire, run.

use std::process::ExitCode;

use clap::Parser;
use etcd_warden::cli::{Cli, Command};
use etcd_warden::cmd;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(settings) => cmd::serve::run(*settings).map_err(cmd::Error::from),
        Command::Check(settings) => cmd::check::run(&settings).map_err(cmd::Error::from),
        Command::Schedule(settings) => cmd::schedule::run(&settings).map_err(cmd::Error::from),
        Command::Crds { directory } => cmd::crds::run(directory.as_deref()).map_err(cmd::Error::from),
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
