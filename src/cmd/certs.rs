//! `etcd-warden certs`: makes serving certificates for whoever gives files instead of letting the server sign for itself,
//! and says what is in certificates.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use thiserror::Error;

use super::output::Output;
use crate::admission::tls::{AUTHORITY_LIFETIME, Authority, Bundle, CertificateError, Description, Kept};

const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const LEAF: &str = "tls.crt";
const LEAF_KEY: &str = "tls.key";

/// What is done with certificates.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Make a serving certificate, and the authority that signs it where there is none: ca.crt, ca.key, tls.crt and
    /// tls.key in a directory. All but ca.key are what `serve --certificate-dir` takes.
    Issue(Issue),
    /// Say what is in certificates; fails when one of them is not valid now.
    Inspect(Inspect),
}

/// What to issue.
#[derive(Clone, Debug, Args)]
pub struct Issue {
    /// Directory for the files. An authority that is there already signs again, until a third of its life is left; its
    /// successor is then trusted beside it.
    #[arg(long, value_name = "DIRECTORY")]
    pub directory: PathBuf,
    /// DNS name or address of the server, such as etcd-warden-webhook.etcd-warden-system.svc; may be repeated.
    #[arg(long = "name", value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Days that the certificate is valid.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
}

/// What to look at.
#[derive(Clone, Debug, Args)]
pub struct Inspect {
    /// PEM files, or directories with ca.crt and tls.crt.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// How to say what is in them.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Why nothing was issued, or what is wrong with what was looked at.
#[derive(Debug, Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot read or write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A certificate could not be made or read.
    #[error("{path}")]
    Certificate {
        /// Where.
        path: PathBuf,
        /// Why.
        source: CertificateError,
    },
    /// A file has no certificate in it.
    #[error("{0} holds no certificate in PEM form")]
    Empty(PathBuf),
    /// Something is out of its time.
    #[error("not valid now: {}", .0.join(", "))]
    OutOfTime(Vec<String>),
    /// The output could not be written.
    #[error("cannot write")]
    Output(#[from] io::Error),
}

/// Issues or inspects.
pub fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Issue(settings) => issue(settings),
        Command::Inspect(settings) => inspect(settings, Timestamp::now()),
    }
}

fn issue(settings: &Issue) -> Result<(), Error> {
    let directory = &settings.directory;
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Certificate { path, source }
    };
    fs::create_dir_all(directory).map_err(|source| Error::File { path: directory.clone(), source })?;
    let now = Timestamp::now();
    let kept = authority(directory, now)?;
    let life = Duration::from_hours(u64::from(settings.days) * 24);
    let leaf = kept.authority.issue(&settings.names, now, life).map_err(at(directory))?;
    // What is trusted first, then what needs the trust.
    let files = [
        (AUTHORITY_KEY, kept.authority.key_pem().to_owned(), 0o600),
        (AUTHORITY, kept.bundle.pem(), 0o644),
        (LEAF_KEY, leaf.key_pem, 0o600),
        (LEAF, leaf.certificate_pem, 0o644),
    ];
    let mut out = io::stdout().lock();
    for (name, text, mode) in files {
        let path = directory.join(name);
        write(&path, &text, mode).map_err(|source| Error::File { path: path.clone(), source })?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

/// The authority in the directory, its successor, or a first one.
fn authority(directory: &Path, now: Timestamp) -> Result<Kept, Error> {
    let (path, key_path) = (directory.join(AUTHORITY), directory.join(AUTHORITY_KEY));
    let wrong = |source| Error::Certificate { path: path.clone(), source };
    let read = |path: &Path| match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    };
    let (Some(certificates), Some(key)) = (read(&path)?, read(&key_path)?) else {
        return Kept::generate(now, AUTHORITY_LIFETIME, &Bundle::default()).map_err(wrong);
    };
    let bundle = Bundle::parse(&certificates).map_err(wrong)?;
    let authority = Authority::from_pem(&certificates, &key).map_err(wrong)?;
    if now < authority.validity().renew_at() {
        return Ok(Kept { authority, bundle });
    }
    Kept::generate(now, AUTHORITY_LIFETIME, &bundle).map_err(wrong)
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let staged = path.with_file_name(format!(".{name}"));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&staged)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&staged, path)
}

fn inspect(settings: &Inspect, now: Timestamp) -> Result<(), Error> {
    let mut found = Vec::new();
    for path in settings.paths.iter().flat_map(|path| files_of(path)) {
        let bytes = fs::read(&path).map_err(|source| Error::File { path: path.clone(), source })?;
        let certificates: Vec<_> =
            CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(|_| Error::Empty(path.clone()))?;
        if certificates.is_empty() {
            return Err(Error::Empty(path));
        }
        for (at, certificate) in certificates.iter().enumerate() {
            let description =
                Description::of(certificate).map_err(|source| Error::Certificate { path: path.clone(), source })?;
            found.push((format!("{}[{at}]", path.display()), description));
        }
    }
    let mut out = io::stdout().lock();
    match settings.output {
        Output::Json => {
            let told: Vec<_> = found
                .iter()
                .map(|(source, of)| json!({"source": source, "valid": of.is_valid(now), "certificate": of}))
                .collect();
            writeln!(out, "{}", json!({"certificates": told}))?;
        }
        Output::Text => found.iter().try_for_each(|(source, of)| tell(&mut out, source, of, now))?,
    }
    let wrong: Vec<String> =
        found.iter().filter(|(_, of)| !of.is_valid(now)).map(|(source, _)| source.clone()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Error::OutOfTime(wrong)) }
}

fn files_of(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() { [AUTHORITY, LEAF].map(|name| path.join(name)).to_vec() } else { vec![path.to_owned()] }
}

fn tell(out: &mut dyn Write, source: &str, of: &Description, now: Timestamp) -> io::Result<()> {
    let hours = of.not_after.duration_since(now).as_hours();
    writeln!(out, "{source}: {}{}", of.subject, if of.authority { ", an authority" } else { "" })?;
    writeln!(out, "  signed by {}", of.issuer)?;
    if !of.names.is_empty() {
        writeln!(out, "  for {}", of.names.join(", "))?;
    }
    let left = if of.is_valid(now) { format!("{} days left", hours / 24) } else { "not valid now".to_owned() };
    writeln!(out, "  from {} to {}, {left}", of.not_before, of.not_after)?;
    writeln!(out, "  sha256 {}", of.sha256)
}
