//! `etcd-warden check`: what admission would say to files, without a cluster.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use crate::admission::Writers;
use crate::checks::examine::{self, Examination, Examined, Placed, text};
use crate::checks::{Objects, Operation};
use crate::policy;

/// What to check, and with what in sight.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// File or directory of objects to check, or - for standard input; may be repeated. They see each other.
    #[arg(short, long = "filename", value_name = "PATH", required = true)]
    pub filename: Vec<PathBuf>,
    /// File or directory of other objects that there are; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub context: Vec<PathBuf>,
    /// File or directory of the objects as they are, for UPDATE.
    #[arg(long, value_name = "PATH")]
    pub old: Option<PathBuf>,
    /// What is done; UPDATE where --old has the object, else CREATE.
    #[arg(long, value_parser = ["CREATE", "UPDATE", "DELETE"])]
    pub operation: Option<String>,
    /// Name of the user who asks.
    #[arg(long = "as", value_name = "USER")]
    pub user: Option<String>,
    /// User name that may write what only this program should; may be repeated.
    #[arg(long)]
    pub trusted_writer: Vec<String>,
    /// How to say what was found.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// How to say what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// How a check ended that did not end well.
#[derive(Debug, Error)]
pub enum Error {
    /// Something was refused.
    #[error("{0} of {1} objects are refused")]
    Denied(usize, usize),
    /// Something could not be read; the rest was checked.
    #[error("not everything could be read: {}", .0.join("; "))]
    Unreadable(Vec<String>),
    /// The output could not be written.
    #[error("cannot write")]
    Output(#[from] io::Error),
}

impl Error {
    /// 1 when something was refused, 2 when something could not be read or written.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Denied(..) => 1,
            Self::Unreadable(_) | Self::Output(_) => 2,
        }
    }
}

/// Checks, and says what was found.
pub fn run(settings: &Settings) -> Result<(), Error> {
    let mut unreadable = Vec::new();
    let mut read =
        |paths: &[PathBuf]| -> Vec<Placed> { paths.iter().flat_map(|path| read_path(path, &mut unreadable)).collect() };
    let subjects = read(&settings.filename);
    let context = read(&settings.context);
    let old = read(settings.old.as_slice());
    let around: Objects = context.iter().chain(&subjects).map(|placed| placed.object.clone()).collect();
    let user = settings.user.as_deref().unwrap_or_default();
    let examination = Examination {
        policies: policy::builtin(),
        operation: settings.operation.as_deref().and_then(Operation::of),
        old: &old,
        user,
        identity: Writers::new(settings.trusted_writer.iter().cloned()).identity(user),
        lookup: &around,
        now: Timestamp::now(),
    };
    let examined = examination.examine(&subjects);
    let mut out = io::stdout().lock();
    match settings.output {
        Output::Json => writeln!(out, "{}", examined.report())?,
        Output::Text => tell(&mut out, &examined)?,
    }
    if !unreadable.is_empty() {
        return Err(Error::Unreadable(unreadable));
    }
    match examined.denied() {
        0 => Ok(()),
        denied => Err(Error::Denied(denied, examined.judged.len())),
    }
}

fn tell(out: &mut dyn Write, examined: &Examined<'_>) -> io::Result<()> {
    for (placed, verdict) in &examined.judged {
        let kind = placed.object["kind"].as_str().unwrap_or_default();
        let word = if verdict.allowed() { "allowed" } else { "refused" };
        writeln!(out, "{}: {kind} {}: {word}", placed.source, text(&placed.object, "name"))?;
        for found in &verdict.findings {
            let colon = if found.field().is_empty() { "" } else { ": " };
            writeln!(out, "  {:?}: {}{colon}{} ({})", found.action, found.field(), found.message, found.policy)?;
        }
    }
    if examined.passed_over > 0 {
        writeln!(out, "{} objects of other kinds passed over", examined.passed_over)?;
    }
    Ok(())
}

/// The objects of a file, of the files of a directory, or of standard input.
pub(super) fn read_path(path: &Path, unreadable: &mut Vec<String>) -> Vec<Placed> {
    let shown = path.display().to_string();
    let mut failed = |error: io::Error| {
        unreadable.push(format!("{shown}: {error}"));
        Vec::new()
    };
    if path == Path::new("-") {
        let mut text = String::new();
        return match io::stdin().read_to_string(&mut text) {
            Ok(_) => examine::read("-", &text, unreadable),
            Err(error) => failed(error),
        };
    }
    if path.is_dir() {
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return failed(error),
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json"));
        files.sort();
        return files.iter().flat_map(|file| read_path(file, unreadable)).collect();
    }
    match std::fs::read_to_string(path) {
        Ok(text) => examine::read(&shown, &text, unreadable),
        Err(error) => failed(error),
    }
}
