//! Where the programs of the test bed are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

static FOUND: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);

/// The root of the source tree.
pub fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The path of a program of the bed, such as `kube-apiserver` or `etcdctl-3.5`.
///
/// # Panics
/// When it has not been built; the message says which command builds it.
pub fn tool(name: &str) -> PathBuf {
    let mut found = FOUND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = found.get_or_insert_default();
    if let Some(path) = found.get(name) {
        return path.clone();
    }
    let script = tree().join("tests/cluster/tools/path");
    let output = Command::new(&script).arg(name).output().unwrap_or_else(|e| panic!("run {}: {e}", script.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    found.insert(name.to_owned(), path.clone());
    path
}

/// Where the state of running instances is kept; the same place as for the scripts in tests/cluster.
pub fn run_root() -> PathBuf {
    if let Some(root) = std::env::var_os("ETCD_WARDEN_RUN") {
        return root.into();
    }
    std::env::temp_dir().join(format!("etcd-warden-{}", rustix::process::getuid().as_raw()))
}
