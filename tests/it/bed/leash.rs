//! Daemons that cannot outlive this process.
//!
//! They are children of a small program (tests/cluster/tools/leash) that waits for the end of its standard input. That
//! end comes when a [`Leash`] is dropped, and also when this process is killed without a chance to clean up.

use super::tools::{run_root, tool};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A group of daemons with a folder of their own; both are gone when this is dropped.
#[derive(Debug)]
pub struct Leash {
    name: String,
    folder: PathBuf,
    keeper: Mutex<Option<Child>>,
    requests: Mutex<Option<ChildStdin>>,
    daemons: Arc<Daemons>,
}

#[derive(Debug, Default)]
struct Daemons {
    known: Mutex<HashMap<String, Daemon>>,
    changed: Condvar,
}

#[derive(Clone, Debug, Default)]
struct Daemon {
    command: Vec<String>,
    environment: Vec<String>,
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum State {
    #[default]
    Starting,
    Running(u32),
    Ended(String),
}

#[derive(serde::Deserialize)]
struct Event {
    #[serde(rename = "event")]
    what: String,
    name: String,
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: String,
}

impl Leash {
    /// A new group. `kind` is for people: the folder is called `<kind>-<pid>-<count>`.
    pub fn new(kind: &str) -> Self {
        Self::with_last_act(kind, "")
    }

    /// The same, with a shell command to be run at the very end, after all daemons are gone.
    pub fn with_last_act(kind: &str, command: &str) -> Self {
        static SWEPT: Once = Once::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = run_root().join("instances");
        std::fs::create_dir_all(&root).unwrap_or_else(|e| panic!("create {}: {e}", root.display()));
        SWEPT.call_once(|| sweep(&root));
        let name = format!("{kind}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = root.join(&name);
        std::fs::create_dir_all(folder.join("logs")).unwrap_or_else(|e| panic!("create {}: {e}", folder.display()));

        let mut keeper = Command::new(tool("leash"))
            .arg("-remove")
            .arg(&folder)
            .args(["-then", command])
            .arg("-keep")
            .arg(kept_logs().join(kind))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start leash");
        let requests = keeper.stdin.take();
        let events = BufReader::new(keeper.stdout.take().expect("leash's standard output"));
        let daemons = Arc::new(Daemons::default());
        let listener = Arc::clone(&daemons);
        std::thread::spawn(move || {
            for line in events.lines().map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    listener.hear(event);
                }
            }
        });
        Self { name, folder, keeper: Mutex::new(Some(keeper)), requests: Mutex::new(requests), daemons }
    }

    /// The group's folder: state, certificates, logs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log file of a daemon.
    pub fn log(&self, daemon: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{daemon}.log"))
    }

    /// Starts a daemon under a name that is not in use, and returns its process ID.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&self, daemon: &str, program: &Path, arguments: &[String], environment: &[String]) -> u32 {
        let mut command = vec![program.display().to_string()];
        command.extend_from_slice(arguments);
        self.daemons.lock().insert(
            daemon.to_owned(),
            Daemon { command: command.clone(), environment: environment.to_vec(), state: State::Starting },
        );
        self.ask(&serde_json::json!({"start": {
            "name": daemon, "argv": command, "env": environment, "dir": self.folder, "log": self.log(daemon),
        }}));
        match self.daemons.wait(daemon, |state| *state != State::Starting) {
            State::Running(pid) => pid,
            State::Ended(why) => panic!("{daemon} could not be started: {why}{}", self.tail(daemon)),
            State::Starting => panic!("leash did not answer for {daemon}"),
        }
    }

    /// Sends a signal to a daemon's process group (9 is SIGKILL, 15 SIGTERM, 19 SIGSTOP, 18 SIGCONT).
    pub fn signal(&self, daemon: &str, number: i32) {
        self.ask(&serde_json::json!({"signal": {"name": daemon, "number": number}}));
    }

    /// Kills a daemon with SIGKILL and returns when it is gone.
    pub fn kill(&self, daemon: &str) {
        self.signal(daemon, 9);
        let state = self.daemons.wait(daemon, |state| matches!(state, State::Ended(_)));
        assert!(matches!(state, State::Ended(_)), "{daemon} did not end after SIGKILL");
    }

    /// Starts a daemon that has ended, with the command it had.
    pub fn restart(&self, daemon: &str) -> u32 {
        let Daemon { command, environment, state } =
            self.daemons.lock().get(daemon).cloned().unwrap_or_else(|| panic!("no daemon is called {daemon}"));
        assert!(matches!(state, State::Ended(_)), "{daemon} is still there: {state:?}");
        self.start(daemon, Path::new(&command[0]), &command[1..], &environment)
    }

    /// The process ID of a daemon that is running.
    pub fn pid(&self, daemon: &str) -> Option<u32> {
        match self.daemons.lock().get(daemon)?.state {
            State::Running(pid) => Some(pid),
            State::Starting | State::Ended(_) => None,
        }
    }

    /// How a daemon ended, once it has.
    pub fn ended(&self, daemon: &str) -> Option<String> {
        match &self.daemons.lock().get(daemon)?.state {
            State::Ended(why) => Some(why.clone()),
            State::Starting | State::Running(_) => None,
        }
    }

    /// Fails when a daemon has ended by itself; for use while waiting for one to become ready.
    ///
    /// # Panics
    /// With the daemon's last words.
    pub fn check(&self) {
        let dead = self.daemons.lock().iter().find_map(|(name, daemon)| match &daemon.state {
            State::Ended(why) => Some((name.clone(), why.clone())),
            State::Starting | State::Running(_) => None,
        });
        if let Some((name, why)) = dead {
            panic!("{name} ended ({why}){}", self.tail(&name));
        }
    }

    /// The last lines of a daemon's log, for messages.
    pub fn tail(&self, daemon: &str) -> String {
        let text = std::fs::read(self.log(daemon)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        format!("; its last lines:\n{}", lines[lines.len().saturating_sub(8)..].join("\n"))
    }

    /// Ends the group and returns when processes and folder are gone.
    pub fn stop(&self) {
        if let Some(mut pipe) = lock(&self.requests).take() {
            if std::thread::panicking() {
                self.save_logs();
            }
            // A leash that is gone already has nothing to be told.
            let _ = writeln!(pipe, r#"{{"bye": true}}"#);
        }
        if let Some(mut keeper) = lock(&self.keeper).take() {
            let status = keeper.wait().expect("wait for leash");
            assert!(status.success() || std::thread::panicking(), "leash of {} ended with {status}", self.name);
        }
    }

    /// Copies the logs to where they survive: they are what explains a failed test.
    fn save_logs(&self) {
        let to = kept_logs().join(&self.name);
        let _ = std::fs::create_dir_all(&to);
        for entry in std::fs::read_dir(self.folder.join("logs")).into_iter().flatten().flatten() {
            let _ = std::fs::copy(entry.path(), to.join(entry.file_name()));
        }
        eprintln!("logs of {}: {}", self.name, to.display());
    }

    fn ask(&self, request: &serde_json::Value) {
        let mut requests = lock(&self.requests);
        let pipe = requests.as_mut().unwrap_or_else(|| panic!("{} was stopped", self.name));
        writeln!(pipe, "{request}").unwrap_or_else(|e| panic!("leash of {} is gone: {e}", self.name));
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Daemons {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Daemon>> {
        lock(&self.known)
    }

    fn hear(&self, event: Event) {
        let mut known = self.lock();
        let daemon = known.entry(event.name).or_default();
        daemon.state = match event.what.as_str() {
            "started" => State::Running(event.pid),
            "exited" => State::Ended(event.status),
            _ => State::Ended(event.error),
        };
        self.changed.notify_all();
    }

    fn wait(&self, name: &str, done: impl Fn(&State) -> bool) -> State {
        let end = Instant::now() + Duration::from_secs(20);
        let mut known = self.lock();
        loop {
            let state = known.get(name).map(|d| d.state.clone()).unwrap_or_default();
            let left = end.saturating_duration_since(Instant::now());
            if done(&state) || left.is_zero() {
                return state;
            }
            known = self.changed.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Where logs are that outlive their instance: of a test that failed by the instance's name, of what all tests share (and of
/// a process that was killed) by kind.
pub fn kept_logs() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("logs")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what a killed leash left: folders whose lock nobody holds. Those of the last minute may not be locked yet.
fn sweep(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let young = entry
            .metadata()
            .and_then(|m| m.modified())
            .is_ok_and(|t| SystemTime::now().duration_since(t).unwrap_or_default() < Duration::from_mins(1));
        let held = File::open(entry.path().join(".lock")).is_ok_and(|f| f.try_lock().is_err());
        if !young && !held {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
