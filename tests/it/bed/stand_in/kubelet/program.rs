//! Programs of the host that see the cluster's names, such as our server, which is to be killed now and then.

use super::context::Shared;
use super::runtime::{Exit, Mount, Spec, lock};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// A process of the host, in the host's network and with the host's files, but with the cluster's DNS. It ends with the
/// stand-in at the latest.
#[derive(Debug)]
pub struct Program {
    shared: Arc<Shared>,
    id: String,
    log: PathBuf,
    end: Mutex<watch::Receiver<Option<Exit>>>,
}

impl Program {
    pub(super) async fn start(shared: Arc<Shared>, name: &str, argv: Vec<String>, env: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("host/{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let log = shared.runtime.folder().join("logs").join(format!("{}.log", id.replace('/', "_")));
        let environment = std::env::vars()
            .filter(|(key, _)| !env.iter().any(|(own, _)| own == key))
            .map(|(key, value)| format!("{key}={value}"))
            .chain(env.iter().map(|(key, value)| format!("{key}={value}")));
        let spec = Spec {
            mounts: resolver(&shared),
            argv,
            env: environment.collect(),
            dir: "/".to_owned(),
            log: log.clone(),
            ..Spec::default()
        };
        let exit = shared.runtime.run(&id, &spec).await.unwrap_or_else(|e| panic!("start {name}: {e}"));
        let (send, end) = watch::channel(None);
        std::thread::spawn(move || {
            if let Ok(exit) = exit.blocking_recv() {
                send.send_replace(Some(exit));
            }
        });
        Self { shared, id, log, end: Mutex::new(end) }
    }

    /// Sends a signal (9 is SIGKILL, 15 SIGTERM, 19 SIGSTOP, 18 SIGCONT).
    pub async fn signal(&self, number: i32) {
        self.shared.runtime.signal(&self.id, number).await.unwrap_or_else(|e| panic!("signal {}: {e}", self.id));
    }

    /// Kills it with SIGKILL and returns when it is gone.
    pub async fn kill(&self) {
        self.signal(9).await;
        self.ended().await;
    }

    /// Returns when it has ended.
    pub async fn ended(&self) -> Exit {
        let mut end = lock(&self.end).clone();
        let exit = end.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        exit.unwrap_or_else(|| panic!("{} went away with its node", self.id))
    }

    /// Whether it is running.
    pub fn running(&self) -> bool {
        lock(&self.end).borrow().is_none()
    }

    /// Where its output is.
    pub fn log(&self) -> &Path {
        &self.log
    }
}

/// The cluster's DNS instead of the host's.
fn resolver(shared: &Shared) -> Vec<Mount> {
    let file = shared.runtime.folder().join("resolv.conf");
    let text =
        format!("search svc.cluster.local cluster.local\nnameserver {}\noptions ndots:5\n", shared.runtime.address());
    std::fs::write(&file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
    vec![Mount { from: file, to: "/etc/resolv.conf".into(), read_only: true }]
}
