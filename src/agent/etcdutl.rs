//! etcdutl of the image that we run in: found, asked what it is, and run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::failure::Failure;
use crate::api::agent::Reason;
use crate::api::version::EtcdVersion;

/// Where etcd's own images keep their programs.
const USUAL: &str = "/usr/local/bin";

/// How much of a failed program's output is quoted, in characters.
const QUOTED: usize = 1_200;

/// etcdutl, as it described itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Etcdutl {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it calls itself.
    pub(crate) version: EtcdVersion,
    /// Whether it can raise the revision and mark it compacted; it has either both options or none.
    pub(crate) can_bump: bool,
}

/// What a restore is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rebuild<'a> {
    /// The snapshot.
    pub(crate) snapshot: &'a Path,
    /// Directory to make; must not exist.
    pub(crate) data_dir: &'a Path,
    /// Member name.
    pub(crate) name: &'a str,
    /// `--initial-cluster`.
    pub(crate) initial_cluster: &'a str,
    /// `--initial-cluster-token`.
    pub(crate) token: Option<&'a str>,
    /// `--initial-advertise-peer-urls`.
    pub(crate) peer_urls: Option<&'a str>,
    /// Only for a member's own database file, which carries no hash.
    pub(crate) skip_hash_check: bool,
    /// How far the revision is raised; 0 leaves it.
    pub(crate) bump: i64,
}

/// The first executable regular file of that name: the configured path, the usual place, then the search path.
///
/// # Errors
/// The places that were tried, where none of them has it.
pub(crate) fn find(name: &str, configured: Option<&Path>, search: Option<&str>) -> Result<PathBuf, Vec<PathBuf>> {
    let searched = search.unwrap_or_default().split(':').filter(|folder| !folder.is_empty());
    let mut tried: Vec<PathBuf> = Vec::new();
    let places = configured
        .map(Path::to_owned)
        .into_iter()
        .chain(std::iter::once(Path::new(USUAL).join(name)))
        .chain(searched.map(|folder| Path::new(folder).join(name)));
    for place in places {
        if is_program(&place) {
            return Ok(place);
        }
        if !tried.contains(&place) {
            tried.push(place);
        }
    }
    Err(tried)
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Finds etcdutl and asks it for version and options.
///
/// # Errors
/// There is none, or it does not run.
pub(crate) async fn discover(configured: Option<&Path>, search: Option<&str>) -> Result<Etcdutl, Failure> {
    let path = find("etcdutl", configured, search).map_err(|tried| {
        let tried: Vec<String> = tried.iter().map(|place| place.display().to_string()).collect();
        Failure::new(
            Reason::EtcdutlNotFound,
            format!(
                "this image has no runnable etcdutl: tried {}. Images of etcd before 3.5 ship none",
                tried.join(", ")
            ),
        )
    })?;
    let told = ask(&path, &["version"]).await?;
    let version = told
        .lines()
        .find_map(|line| line.split_once("etcdutl version:"))
        .and_then(|(_, version)| version.trim().parse().ok())
        .ok_or_else(|| Failure::new(Reason::EtcdutlFailed, format!("{} does not tell its version", path.display())))?;
    let help = ask(&path, &["snapshot", "restore", "--help"]).await?;
    let can_bump = help.contains("--bump-revision") && help.contains("--mark-compacted");
    Ok(Etcdutl { path, version, can_bump })
}

/// Runs a program for its standard output.
pub(crate) async fn ask(program: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await.map_err(
        |error| Failure::new(Reason::EtcdutlFailed, format!("cannot run {}", program.display())).because(error),
    )?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(refused(program, &output))
    }
}

impl Etcdutl {
    /// Rebuilds a data directory, and tells the snapshot's own revision where the tool says it.
    ///
    /// # Errors
    /// The tool refused the snapshot, or failed; its last words are quoted.
    pub(crate) async fn restore(&self, rebuild: &Rebuild<'_>) -> Result<Option<i64>, Failure> {
        let mut command = Command::new(&self.path);
        command.args(["snapshot", "restore"]).arg(rebuild.snapshot);
        command.arg("--data-dir").arg(rebuild.data_dir);
        command.args(["--name", rebuild.name, "--initial-cluster", rebuild.initial_cluster]);
        if let Some(token) = rebuild.token {
            command.args(["--initial-cluster-token", token]);
        }
        if let Some(urls) = rebuild.peer_urls {
            command.args(["--initial-advertise-peer-urls", urls]);
        }
        if rebuild.skip_hash_check {
            command.arg("--skip-hash-check");
        }
        if rebuild.bump > 0 && self.can_bump {
            command.args(["--bump-revision", &rebuild.bump.to_string(), "--mark-compacted"]);
        }
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.map_err(|error| {
            Failure::new(Reason::EtcdutlFailed, format!("cannot run {}", self.path.display())).because(error)
        })?;
        if output.status.success() { Ok(told_revision(&output.stderr)) } else { Err(refused(&self.path, &output)) }
    }
}

/// The revision that etcdutl logs when it raises it.
fn told_revision(log: &[u8]) -> Option<i64> {
    String::from_utf8_lossy(log)
        .lines()
        .filter_map(|line| line.split_once("\"latest-revision\":"))
        .find_map(|(_, rest)| rest.trim_start().split([',', '}']).next()?.trim().parse().ok())
}

fn refused(program: &Path, output: &std::process::Output) -> Failure {
    let text = [String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout)].concat();
    let message = format!("{} failed ({}): {}", program.display(), output.status, tail(&text));
    let full = text.contains("no space left on device");
    Failure::new(if full { Reason::InsufficientSpace } else { Reason::EtcdutlFailed }, message)
}

/// The end of a program's output, in one line.
#[must_use]
pub(crate) fn tail(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let skip = line.chars().count().saturating_sub(QUOTED);
    line.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_first_executable_regular_file_is_taken_and_all_tried_places_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, good) = (folder.path().join("plain"), folder.path().join("x-tool"));
        program(&plain, 0o644);
        let search = folder.path().to_str().unwrap();
        assert_eq!(
            find("x-tool", Some(&plain), Some(search)),
            Err(vec![plain.clone(), "/usr/local/bin/x-tool".into(), good.clone()])
        );
        program(&good, 0o755);
        assert_eq!(find("x-tool", Some(&plain), Some(search)), Ok(good.clone()));
        assert_eq!(find("x-tool", Some(folder.path()), Some(search)), Ok(good));
    }

    #[test]
    fn the_revision_is_read_from_the_log() {
        let log = br#"{"level":"info","msg":"bumping latest revision","latest-revision":403,"bump-amount":1000}"#;
        assert_eq!(told_revision(log), Some(403));
        assert_eq!(told_revision(b"2024 restored snapshot"), None);
    }
}
