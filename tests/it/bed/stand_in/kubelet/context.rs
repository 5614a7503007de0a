//! What the parts of the stand-in share, the faults that a test has asked for among it.

use super::images::{Image, Images};
use super::runtime::{Runtime, lock};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::runtime::reflector::Store;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// What is shared between the handle and the parts.
#[derive(Debug)]
pub struct Shared {
    pub runtime: Runtime,
    pub images: Images,
    /// Delays and periods of probes are divided by it.
    pub probe_divisor: u32,
    pub paused: watch::Sender<bool>,
    /// Held while a volume is made: a claim is heard of more than once.
    pub making_volumes: tokio::sync::Mutex<()>,
    withdrawn: Mutex<HashSet<String>>,
    slow: Mutex<Vec<Slow>>,
    running: Mutex<BTreeMap<Container, Running>>,
    addresses: Mutex<VecDeque<u8>>,
}

/// A container of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod's name.
    pub pod: String,
    /// The container's name.
    pub name: String,
}

/// A container's process.
#[derive(Clone, Debug)]
pub struct Running {
    /// What the runtime calls it.
    pub id: String,
    /// Its command.
    pub argv: Vec<String>,
}

#[derive(Clone, Debug)]
struct Slow {
    pod: String,
    container: String,
    by: Duration,
}

impl Shared {
    pub fn new(runtime: Runtime, images: Images, probe_divisor: u32) -> Self {
        Self {
            runtime,
            images,
            probe_divisor: probe_divisor.max(1),
            paused: watch::Sender::new(false),
            making_volumes: tokio::sync::Mutex::default(),
            withdrawn: Mutex::default(),
            slow: Mutex::default(),
            running: Mutex::default(),
            addresses: Mutex::new((2..=254).collect()),
        }
    }

    /// What an image holds, or why it cannot be pulled.
    pub fn image(&self, reference: &str) -> Result<&Image, String> {
        if lock(&self.withdrawn).contains(reference) {
            return Err(format!("{reference:?} was withdrawn from the registry"));
        }
        self.images.find(reference)
    }

    pub fn withdraw(&self, reference: &str) {
        lock(&self.withdrawn).insert(reference.to_owned());
    }

    pub fn offer(&self, reference: &str) {
        lock(&self.withdrawn).remove(reference);
    }

    /// How long the start of a container is held back.
    pub fn delay(&self, pod: &str, container: &str) -> Duration {
        let slow = lock(&self.slow);
        slow.iter().find(|s| pod.starts_with(&s.pod) && s.container == container).map_or(Duration::ZERO, |s| s.by)
    }

    pub fn slow_down(&self, pod: &str, container: &str, by: Duration) {
        let mut slow = lock(&self.slow);
        slow.retain(|s| s.pod != pod || s.container != container);
        slow.push(Slow { pod: pod.to_owned(), container: container.to_owned(), by });
    }

    pub fn started(&self, container: Container, running: Running) {
        lock(&self.running).insert(container, running);
    }

    /// Forgets a process, unless the name stands for another one by now.
    pub fn ended(&self, container: &Container, id: &str) {
        let mut running = lock(&self.running);
        if running.get(container).is_some_and(|r| r.id == id) {
            running.remove(container);
        }
    }

    pub fn running(&self) -> BTreeMap<Container, Running> {
        lock(&self.running).clone()
    }

    /// An address for a Pod; the one that has been free for the longest time.
    pub fn take_address(&self) -> Option<Ipv4Addr> {
        let [a, b, c, _] = self.runtime.address().octets();
        lock(&self.addresses).pop_front().map(|last| Ipv4Addr::new(a, b, c, last))
    }

    pub fn give_back(&self, address: Ipv4Addr) {
        lock(&self.addresses).push_back(address.octets()[3]);
    }

    /// Where the volumes of claims are.
    pub fn volumes(&self) -> PathBuf {
        self.runtime.folder().join("volumes")
    }

    /// Where the output of a container is, over all of its restarts.
    pub fn log(&self, Container { namespace, pod, name }: &Container) -> PathBuf {
        self.runtime.folder().join("logs").join(format!("{namespace}_{pod}_{name}.log"))
    }

    /// Notes what goes wrong in a log of the stand-in's own, beside those of the containers.
    pub fn note(&self, what: impl Display) {
        let file = self.runtime.folder().join("logs/stand-in-kubelet.log");
        if let Ok(mut log) = OpenOptions::new().create(true).append(true).open(file) {
            let _ = writeln!(log, "{} {what}", Timestamp::now());
        }
    }

    /// Returns at once unless the kubelet is paused, and else when that ends.
    pub async fn resumed(&self) {
        // The sender is a field of this: it cannot be gone.
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
    }
}

/// What each part works with.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub shared: Arc<Shared>,
    pub claims: Store<PersistentVolumeClaim>,
}

impl Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
