//! `etcd-warden check`: what admission would say to files, without a cluster.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use super::output::Output;
use super::policies::From;
use crate::admission::Writers;
use crate::admission::examine::{self, Examination, Examined, Placed, text};
use crate::admission::policies::{self, ENDINGS};
use crate::checks::{Objects, Operation};
use crate::policy::Action;
use crate::rules::s3::Place;
use crate::runtime::folder;

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
    /// S3 store that credentials which a strategy names may be used with, though the strategy does not yield it; may be
    /// repeated.
    #[arg(long, value_name = "ENDPOINT[/BUCKET]")]
    pub trusted_store: Vec<Place>,
    /// Further policies; ConfigMaps for their parameters are taken from what is in sight.
    #[command(flatten)]
    pub policies: From,
    /// How to say what was found.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
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
    /// Policies are wrong.
    #[error("--policy-dir")]
    Policies(#[from] policies::Error),
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
            Self::Unreadable(_) | Self::Policies(_) | Self::Output(_) => 2,
        }
    }
}

/// Checks, and says what was found.
pub fn run(settings: &Settings) -> Result<(), Error> {
    let (_, policies) = settings.policies.load()?;
    let mut unreadable = Vec::new();
    let mut read =
        |paths: &[PathBuf]| -> Vec<Placed> { paths.iter().flat_map(|path| read_path(path, &mut unreadable)).collect() };
    let subjects = read(&settings.filename);
    let context = read(&settings.context);
    let old = read(settings.old.as_slice());
    let all = || context.iter().chain(&subjects).map(|placed| placed.object.clone());
    let around = all().collect::<Objects>().trusting(settings.trusted_store.clone());
    let policies = policies.with_parameters(all().filter(is_config_map).map(Arc::new));
    let user = settings.user.as_deref().unwrap_or_default();
    let examination = Examination {
        policies: &policies,
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
        Output::Text => {
            let paint = Paint(out.is_terminal() && wants_colour());
            tell(&mut out, &examined, paint)?;
        }
    }
    if !unreadable.is_empty() {
        return Err(Error::Unreadable(unreadable));
    }
    match examined.denied() {
        0 => Ok(()),
        denied => Err(Error::Denied(denied, examined.judged.len())),
    }
}

fn tell(out: &mut dyn Write, examined: &Examined<'_>, paint: Paint) -> io::Result<()> {
    for (placed, verdict) in &examined.judged {
        let kind = placed.object["kind"].as_str().unwrap_or_default();
        let word = if verdict.allowed() { paint.green("allowed") } else { paint.red("refused") };
        writeln!(out, "{}: {kind} {}: {word}", placed.place_of(""), text(&placed.object, "name"))?;
        for found in &verdict.findings {
            let action = match found.action {
                Action::Deny => paint.red("Deny"),
                Action::Warn => paint.yellow("Warn"),
                Action::Audit => "Audit".to_owned(),
            };
            let (place, field) = (placed.place_of(found.field()), paint.bold(found.field()));
            let colon = if field.is_empty() { "" } else { ": " };
            writeln!(out, "  {place}: {action}: {field}{colon}{} ({})", found.message, found.policy)?;
        }
    }
    if examined.passed_over > 0 {
        writeln!(out, "{} objects of other kinds passed over", examined.passed_over)?;
    }
    Ok(())
}

/// Whether people want colours, by what is agreed on (NO_COLOR, TERM=dumb).
fn wants_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// Colours, or none.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }
}

/// Whether policies can take parameters from it.
pub(super) fn is_config_map(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "ConfigMap"
}

/// The objects of a file, of the files of a directory, or of standard input.
pub(super) fn read_path(path: &Path, unreadable: &mut Vec<String>) -> Vec<Placed> {
    let texts = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| vec![("-".to_owned(), text)])
    } else {
        folder::texts(path, &ENDINGS)
    };
    match texts {
        Ok(texts) => texts.iter().flat_map(|(name, text)| examine::read(name, text, unreadable)).collect(),
        Err(error) => {
            unreadable.push(format!("{}: {error}", path.display()));
            Vec::new()
        }
    }
}
