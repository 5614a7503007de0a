//! The client's side of tests/cluster/tools/stand-in-runtime: networks, containers and their ends.

use crate::bed::leash::Leash;
use crate::bed::tools::tool;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const START_WITHIN: Duration = Duration::from_secs(20);
const DAEMON: &str = "stand-in-runtime";

/// How a container is run; the fields are explained where they are acted upon, in container.go.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub network: String,
    pub root: PathBuf,
    pub mounts: Vec<Mount>,
    pub read_only_root: bool,
    pub hostname: String,
    pub argv: Vec<String>,
    pub env: Vec<String>,
    pub dir: String,
    pub uid: i64,
    pub gid: i64,
    pub groups: Vec<i64>,
    pub no_new_privs: bool,
    pub log: PathBuf,
}

/// A file or folder of the host that appears in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    pub from: PathBuf,
    pub to: PathBuf,
    pub read_only: bool,
}

/// How a container's process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Exit {
    /// The exit code; 128 and the signal's number after a signal.
    #[serde(default)]
    pub code: i32,
    /// The signal that ended it, or 0.
    #[serde(default)]
    pub signal: i32,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "event")]
    what: String,
    #[serde(default)]
    request: u64,
    #[serde(default)]
    id: String,
    ip: Option<Ipv4Addr>,
    #[serde(default)]
    error: String,
    #[serde(flatten)]
    exit: Exit,
}

/// A node: Pods' networks and containers exist in it, and end with it.
#[derive(Debug)]
pub struct Runtime {
    leash: Leash,
    address: Ipv4Addr,
    requests: Mutex<UnixStream>,
    next: AtomicU64,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    answers: Mutex<HashMap<u64, oneshot::Sender<Result<(), String>>>>,
    exits: Mutex<HashMap<String, oneshot::Sender<Exit>>>,
}

impl Runtime {
    /// Starts one.
    ///
    /// # Panics
    /// When it does not come up; the usual reason is that this is not root.
    pub fn start() -> Self {
        let leash = Leash::new("stand-in-kubelet");
        let folder = leash.folder().display().to_string();
        leash.start(DAEMON, &tool(DAEMON), &[folder], &[]);
        let end = Instant::now() + START_WITHIN;
        let socket = loop {
            leash.check();
            match UnixStream::connect(leash.folder().join("runtime.sock")) {
                Ok(socket) => break socket,
                Err(e) => assert!(Instant::now() < end, "{DAEMON} did not come up: {e}{}", leash.tail(DAEMON)),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut events = BufReader::new(socket.try_clone().expect("a second handle of the socket"));
        let mut line = String::new();
        events.read_line(&mut line).expect("the first event");
        let ready: Event = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{DAEMON} said {line:?}: {e}"));
        let heard = Arc::new(Heard::default());
        let listener = Arc::clone(&heard);
        std::thread::spawn(move || {
            for line in events.lines().map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    listener.hear(event);
                }
            }
            // Whoever waits for an answer learns that there will be none.
            lock(&listener.answers).clear();
            lock(&listener.exits).clear();
        });
        Self {
            address: ready.ip.expect("the host's address"),
            leash,
            requests: Mutex::new(socket),
            next: AtomicU64::new(1),
            heard,
        }
    }

    /// The host's address on the Pods' network, a /24 of which it is the first.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A folder that lives as long as the node.
    pub fn folder(&self) -> &Path {
        self.leash.folder()
    }

    /// Ends the node with all that is in it, and returns when nothing is left.
    pub fn stop(&self) {
        self.leash.stop();
    }

    /// The process that holds the node; to be killed by those who test what is left then.
    pub fn pid(&self) -> Option<u32> {
        self.leash.pid(DAEMON)
    }

    /// The node's first process: what it sees under `/proc/PID/root` is what containers are given.
    pub fn node(&self) -> Option<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()?)).ok()?;
        let children = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("children")));
        children.flatten().find_map(|pids| pids.split_whitespace().next()?.parse().ok())
    }

    /// Makes a Pod's network.
    pub async fn network(&self, pod: &str, address: Ipv4Addr) -> Result<(), String> {
        self.ask(serde_json::json!({"op": "network", "id": pod, "ip": address})).await
    }

    /// Ends a Pod's network and its memory volumes.
    pub async fn release(&self, pod: &str, unmount: &[PathBuf]) -> Result<(), String> {
        self.ask(serde_json::json!({"op": "release", "id": pod, "unmount": unmount})).await
    }

    /// Makes a memory volume of a folder, seen in the node only; new files are the group's. 0 bytes: no limit.
    pub async fn memory(&self, folder: &Path, bytes: u64, group: Option<i64>) -> Result<(), String> {
        let group = group.unwrap_or_default();
        self.ask(serde_json::json!({"op": "memory", "path": folder, "bytes": bytes, "group": group})).await
    }

    /// Runs a container. Its end comes through the receiver.
    pub async fn run(&self, container: &str, spec: &Spec) -> Result<oneshot::Receiver<Exit>, String> {
        let (send, exit) = oneshot::channel();
        lock(&self.heard.exits).insert(container.to_owned(), send);
        let started = self.ask(serde_json::json!({"op": "start", "id": container, "spec": spec})).await;
        if started.is_err() {
            lock(&self.heard.exits).remove(container);
        }
        started.map(|()| exit)
    }

    /// Sends a signal; one that has ended meanwhile does not matter.
    pub async fn signal(&self, container: &str, number: i32) -> Result<(), String> {
        self.ask(serde_json::json!({"op": "signal", "id": container, "number": number})).await
    }

    async fn ask(&self, mut request: serde_json::Value) -> Result<(), String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        request["request"] = number.into();
        let (send, answer) = oneshot::channel();
        lock(&self.heard.answers).insert(number, send);
        {
            // A line is far smaller than the socket's buffer, and the other side reads at once.
            let mut socket = lock(&self.requests);
            writeln!(socket, "{request}").map_err(|e| format!("{DAEMON} is gone: {e}"))?;
        }
        answer.await.unwrap_or_else(|_| Err(format!("{DAEMON} is gone")))
    }
}

impl Heard {
    fn hear(&self, event: Event) {
        match event.what.as_str() {
            "exited" => {
                if let Some(exit) = lock(&self.exits).remove(&event.id) {
                    let _ = exit.send(event.exit);
                }
            }
            what => {
                let answer = if what == "done" { Ok(()) } else { Err(event.error) };
                if let Some(waiting) = lock(&self.answers).remove(&event.request) {
                    let _ = waiting.send(answer);
                }
            }
        }
    }
}

/// Locks, also after a panic elsewhere: what is guarded here is valid between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
