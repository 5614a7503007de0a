//! What an instance left behind: the bed's tests of itself.

use super::tools::run_root;
use super::wait_for;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Processes, mounts, network links, cgroups and files that have this text in their command line or name.
pub fn of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let own = std::process::id().to_string();
    for name in names(Path::new("/proc")) {
        let command = std::fs::read(format!("/proc/{name}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(text) && name != own {
            found.push(format!("process {name}: {command}"));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("the mounts of this process");
    found.extend(mounts.lines().filter(|line| line.contains(text)).map(|line| format!("mount {line}")));
    let mut folders = vec!["/sys/class/net".into(), "/run/netns".into(), run_root().join("instances")];
    folders.push(run_root().join("nodes"));
    folders.extend(names(Path::new("/sys/fs/cgroup")).iter().map(|name| Path::new("/sys/fs/cgroup").join(name)));
    folders.push("/sys/fs/cgroup".into());
    for folder in folders {
        let left = names(&folder).into_iter().filter(|name| name.contains(text));
        found.extend(left.map(|name| format!("{}/{name}", folder.display())));
    }
    found
}

/// Waits until nothing has this text any more.
///
/// # Panics
/// When something stays.
pub async fn none_of(text: &str) {
    wait_for(format!("nothing of {text} to be left"), Duration::from_mins(1), async || {
        let found = of(text);
        if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
    })
    .await;
}

/// Whether nobody listens on a port.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// A second process of this test binary that runs one test only, and runs it as the victim.
#[derive(Debug)]
pub struct Victim(Child);

const ROLE: &str = "ETCD_WARDEN_TEST_VICTIM";

impl Victim {
    /// Starts it for the test of this full name.
    pub fn start(test: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the path of this binary"));
        command.args(["--exact", test, "--nocapture"]).env(ROLE, "1").stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("start the victim"))
    }

    /// Whether this process is one; the test then starts what it has to, and waits to be killed.
    pub fn is_me() -> bool {
        std::env::var_os(ROLE).is_some()
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.0.kill().expect("kill the victim");
        self.0.wait().expect("bury the victim");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
