//! A stand-in for kubelet, scheduler, volume provisioner and DNS, on a control plane with its controllers
//! (`controllers: vec!["*".into()]`), for tests in which Pods matter but a whole node takes too long.
//!
//! What is real: every container's command runs, as a process of its own with its own root, mounts, user, process IDs
//! and host name; every Pod has an address at which others and the test reach it; volumes keep their content; exit
//! codes, termination messages, probes and signals are what the processes make of them. No report is canned.
//!
//! What is different from a node:
//! - images are programs of this host ([`Images`]); there are no cgroups: limits on memory and CPU do nothing;
//! - there is no kube-proxy: the name of a Service stands for the addresses of its ready Pods, port for port;
//! - a volume is a folder of the host: its size is not enforced (that of a memory volume is, and that of a claim of
//!   StorageClass [`node::LIMITED_CLASS`]);
//! - Secrets and ConfigMaps in volumes are read once, when a Pod starts; Services leave no environment variables;
//! - delays and periods of probes are divided by [`PROBE_DIVISOR`], and the pauses between restarts are short;
//! - affinity, taints and resources are not looked at: there is one node, called `stand-in`;
//! - what a Pod may ask for and is not known here (sidecars, exec probes, hooks, host namespaces, other volumes) fails
//!   it with reason `BeyondStandIn`.
//!
//! It needs root, as a node does. Processes, mounts and networks live in namespaces of one process (see
//! tests/cluster/tools/stand-in-runtime), which ends with this value and with the test's process at the latest.

mod cluster;
pub mod context;
mod dns;
pub mod images;
pub mod node;
mod pod;
pub mod program;
mod provisioner;
pub mod runtime;

use crate::bed::{ControlPlane, api_server};
use context::{Container, Context, Shared};
use images::Images;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use program::Program;
use runtime::Runtime;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// By how much delays and periods of probes are shortened.
pub const PROBE_DIVISOR: u32 = 10;

/// A node that is none; it lives as long as this value, which must be dropped before its control plane.
#[derive(Debug)]
pub struct StandInKubelet {
    shared: Arc<Shared>,
    kubeconfig: Kubeconfig,
    thread: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl StandInKubelet {
    /// Starts it. When it returns, Pods are cared for.
    ///
    /// # Panics
    /// When it cannot: this is not root, or a program has not been built (the message says how to).
    pub async fn start(control_plane: &ControlPlane, images: Images) -> Self {
        let kubeconfig = Kubeconfig::read_from(control_plane.kubeconfig()).expect("the control plane's kubeconfig");
        let shared = Arc::new(Shared::new(Runtime::start(), images, PROBE_DIVISOR));
        let stop = CancellationToken::new();
        let (send, ready) = oneshot::channel();
        let thread = {
            let (shared, kubeconfig, stop) = (Arc::clone(&shared), kubeconfig.clone(), stop.clone());
            std::thread::Builder::new()
                .name("stand-in-kubelet".to_owned())
                .spawn(move || cluster::run(shared, kubeconfig, send, &stop))
                .expect("a thread")
        };
        let this = Self { shared, kubeconfig, thread: Some(thread), stop };
        let started = ready.await.unwrap_or_else(|_| Err("its thread has ended".to_owned()));
        started.unwrap_or_else(|why| panic!("the stand-in kubelet could not start: {why}"));
        this
    }

    /// The host's address as Pods see it: where a server of the test must listen to be reached by them. Every name that
    /// ends in `.bed` stands for it.
    pub fn host(&self) -> Ipv4Addr {
        self.shared.runtime.address()
    }

    /// What runs now: each container and its command.
    pub fn running(&self) -> BTreeMap<Container, Vec<String>> {
        self.shared.running().into_iter().map(|(container, running)| (container, running.argv)).collect()
    }

    /// Kills a container's process with SIGKILL, as the machine would.
    ///
    /// # Panics
    /// When it is not running.
    pub async fn kill(&self, namespace: &str, pod: &str, container: &str) {
        self.signal(namespace, pod, container, 9).await;
    }

    /// Sends a signal to a container's process (19 is SIGSTOP, 18 SIGCONT).
    ///
    /// # Panics
    /// When it is not running.
    pub async fn signal(&self, namespace: &str, pod: &str, container: &str, number: i32) {
        let key = key(namespace, pod, container);
        let all = self.shared.running();
        let running = all.get(&key).unwrap_or_else(|| panic!("{key:?} is not running; there are {:?}", all.keys()));
        self.shared.runtime.signal(&running.id, number).await.unwrap_or_else(|e| panic!("signal {key:?}: {e}"));
    }

    /// What a container has written to its output so far, over all of its restarts.
    pub fn log(&self, namespace: &str, pod: &str, container: &str) -> String {
        let file = self.shared.log(&key(namespace, pod, container));
        String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
    }

    /// The folder behind a claim.
    ///
    /// # Panics
    /// When the claim has no volume.
    pub async fn volume(&self, namespace: &str, claim: &str) -> PathBuf {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client().await, namespace);
        let found = claims.get(claim).await.unwrap_or_else(|e| panic!("claim {namespace}/{claim}: {e}"));
        let volume = found.spec.and_then(|s| s.volume_name);
        self.shared.volumes().join(volume.unwrap_or_else(|| panic!("claim {namespace}/{claim} has no volume")))
    }

    /// The folders of all volumes that exist, whoever claims them.
    pub fn volumes(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(self.shared.volumes()).into_iter().flatten();
        folders.filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    /// Removes everything that a claim's volume holds, under whatever is running.
    pub async fn empty_volume(&self, namespace: &str, claim: &str) {
        let folder = self.volume(namespace, claim).await;
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten() {
            let path = entry.path();
            let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.unwrap_or_else(|e| panic!("remove {}: {e}", path.display()));
        }
    }

    /// The folder behind a claim of [`node::LIMITED_CLASS`], which only the node itself sees.
    pub async fn limited_volume(&self, namespace: &str, claim: &str) -> PathBuf {
        let folder = self.volume(namespace, claim).await;
        let node = self.shared.runtime.node().expect("the node's process");
        let below_root = folder.strip_prefix("/").expect("an absolute path");
        Path::new("/proc").join(node.to_string()).join("root").join(below_root)
    }

    /// Makes an image unavailable to containers that start from now on (ErrImagePull).
    pub fn withdraw_image(&self, reference: &str) {
        self.shared.withdraw(reference);
    }

    /// Makes a withdrawn image available again.
    pub fn offer_image(&self, reference: &str) {
        self.shared.offer(reference);
    }

    /// Holds back every start of a container, in Pods whose name begins with `pod`; zero ends that.
    pub fn slow_down(&self, pod: &str, container: &str, by: Duration) {
        self.shared.slow_down(pod, container, by);
    }

    /// Stops acting and reporting, as on a node that is cut off: what runs goes on, Pods are bound but not started, not
    /// stopped, and their status stays as it is. Names and new volumes are not the kubelet's: they go on as well.
    pub fn pause(&self) {
        self.shared.paused.send_replace(true);
    }

    /// Ends [`StandInKubelet::pause`]: all that has happened meanwhile is caught up with.
    pub fn resume(&self) {
        self.shared.paused.send_replace(false);
    }

    /// Says that the Node is ready or not known to be, at once; by itself the node controller takes 40 seconds.
    pub async fn set_node_ready(&self, ready: bool) {
        let claims = kube::runtime::reflector::store().0;
        let context = Context { client: self.client().await, shared: Arc::clone(&self.shared), claims };
        node::set_ready(&context, ready).await.unwrap_or_else(|e| panic!("write the Node's status: {e}"));
    }

    /// Runs a program of this host that sees the cluster's names, with this process' environment and more.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn run(&self, name: &str, argv: &[&str], env: &[(&str, &str)]) -> Program {
        let argv = argv.iter().map(|&word| word.to_owned()).collect();
        Program::start(Arc::clone(&self.shared), name, argv, env).await
    }

    /// The folder of this instance, and the process that holds all others.
    pub fn anchor(&self) -> (PathBuf, Option<u32>) {
        (self.shared.runtime.folder().to_owned(), self.shared.runtime.pid())
    }

    async fn client(&self) -> Client {
        api_server::client(self.kubeconfig.clone()).await
    }
}

fn key(namespace: &str, pod: &str, container: &str) -> Container {
    Container { namespace: namespace.to_owned(), pod: pod.to_owned(), name: container.to_owned() }
}

impl Drop for StandInKubelet {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
        self.shared.runtime.stop();
    }
}
