//! `etcd-warden render`: the destination that a strategy yields, as the controllers would have it, or why it yields none.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use crate::api::strategy::StrategyS3;
use crate::checks::{Change, Identity, Kind, Nothing, Operation, judge, rendered, stand_in_application};
use crate::policy::{Action, Finding, builtin, yaml};
use crate::rules::template::{Data, RenderError, render_strategy};

/// What to render.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// File with the strategy, or - for standard input.
    #[arg(long, value_name = "FILE")]
    pub strategy: PathBuf,
    /// File with the application; where absent one that stands for all of them, with nothing but a name.
    #[arg(long, value_name = "FILE")]
    pub application: Option<PathBuf>,
    /// Parameter as the BackupClass would give it; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub parameter: Vec<(String, String)>,
    /// How to print the destination.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// How to print the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// As YAML.
    #[default]
    Yaml,
    /// As JSON.
    Json,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// Why there is no destination. Nothing of it passes by itself.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no YAML, or not what it should be.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The strategy or what it renders to would be refused.
    #[error("{}", .0.iter().map(told).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Finding>),
    /// A template does not render.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The output could not be written.
    #[error("cannot write")]
    Output(#[from] io::Error),
    /// The YAML library refused the destination.
    #[error("cannot write the destination as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

impl Error {
    /// 1 where the strategy is refused, 2 when something could not be read or written.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Render(_) => 1,
            Self::Read { .. } | Self::Malformed { .. } | Self::Output(_) | Self::Yaml(_) => 2,
        }
    }
}

fn told(finding: &Finding) -> String {
    format!("{}: {} ({})", finding.field(), finding.message, finding.policy)
}

/// Prints the destination.
pub fn run(settings: &Settings) -> Result<(), Error> {
    let now = Timestamp::now();
    let (kind, strategy) = strategy(&settings.strategy)?;
    let name = strategy.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let change = Change {
        kind,
        operation: Operation::Create,
        subresource: "",
        namespace: "",
        name,
        user: "",
        identity: Identity::Unknown,
        object: Some(&strategy),
        old: None,
        now,
    };
    refuse(judge(&change, builtin(), &Nothing).findings)?;
    let s3 = strategy.pointer("/spec/template/destination/s3").cloned().unwrap_or_default();
    let s3: StrategyS3 = serde_json::from_value(s3)
        .map_err(|error| Error::Malformed { path: settings.strategy.clone(), what: error.to_string() })?;
    let application = match &settings.application {
        Some(path) => document(path)?,
        None => stand_in_application(),
    };
    let parameters: BTreeMap<String, String> = settings.parameter.iter().cloned().collect();
    let destination = render_strategy(&s3, &Data::new(&application, &parameters, now, 0))?;
    refuse(rendered(&destination))?;
    let shown = json!({"destination": {"s3": destination}});
    let mut out = io::stdout().lock();
    match settings.output {
        Output::Yaml => out.write_all(serde_saphyr::to_string(&shown)?.as_bytes())?,
        Output::Json => writeln!(out, "{shown}")?,
    }
    Ok(())
}

/// Warnings are for `check`: here either there is a destination or there is none.
fn refuse(mut findings: Vec<Finding>) -> Result<(), Error> {
    findings.retain(|finding| finding.action == Action::Deny);
    if findings.is_empty() { Ok(()) } else { Err(Error::Refused(findings)) }
}

fn strategy(path: &Path) -> Result<(Kind, Value), Error> {
    let object = document(path)?;
    match Kind::of_object(&object) {
        Some(kind) if kind.is_strategy() => Ok((kind, object)),
        _ => {
            let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let (kind, version) = (text("kind"), text("apiVersion"));
            let what = format!("{kind:?} of {version:?} is no Etcd strategy");
            Err(Error::Malformed { path: path.to_owned(), what })
        }
    }
}

/// The one document of a file.
fn document(path: &Path) -> Result<Value, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let malformed = |what: String| Error::Malformed { path: path.to_owned(), what };
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin()).map_err(failed)?
    } else {
        std::fs::read_to_string(path).map_err(failed)?
    };
    match yaml::documents(&text).as_slice() {
        [only] => only.read().map_err(|error| malformed(error.to_string())),
        several => Err(malformed(format!("{} documents, where one is expected", several.len()))),
    }
}
