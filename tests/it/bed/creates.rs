//! EtcdClusters created without a pause, without being stored: of every two, admission must refuse one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use etcd_warden::api::etcdcluster::{EtcdCluster, EtcdClusterSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::task::JoinSet;

/// How many ask at a time.
const WORKERS: usize = 3;

/// Creations that go on until they are ended.
#[derive(Debug)]
pub struct Creates {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    tasks: JoinSet<Vec<String>>,
}

impl Creates {
    /// Starts in this namespace.
    pub fn start(client: &Client, namespace: &str) -> Self {
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..WORKERS {
            let api: Api<EtcdCluster> = Api::namespaced(client.clone(), namespace);
            tasks.spawn(keep_creating(api, stop.clone(), asked.clone()));
        }
        Self { stop, asked, tasks }
    }

    /// Ends them, and returns how many there were.
    ///
    /// # Panics
    /// If a single one was not answered by admission, with what came instead.
    pub async fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        while let Some(found) = self.tasks.join_next().await {
            failures.extend(found.expect("a worker"));
        }
        let asked = self.asked.load(Ordering::Relaxed);
        assert!(failures.is_empty(), "{} of {asked} failed, the first: {}", failures.len(), failures[0]);
        asked
    }
}

async fn keep_creating(api: Api<EtcdCluster>, stop: Arc<AtomicBool>, asked: Arc<AtomicUsize>) -> Vec<String> {
    let mut failures = Vec::new();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    while !stop.load(Ordering::Relaxed) {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let good = number.is_multiple_of(2);
        match api.create(&dry, &cluster(number, good)).await {
            Ok(_) if good => {}
            Err(kube::Error::Api(status)) if !good && status.message.contains("denied the request") => {}
            Ok(_) => failures.push(format!("{number} was admitted")),
            Err(error) => failures.push(format!("{number}: {error}")),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    failures
}

fn cluster(number: usize, good: bool) -> EtcdCluster {
    let mut spec = EtcdClusterSpec { version: "3.6.0".to_owned(), replicas: Some(1), ..EtcdClusterSpec::default() };
    if !good {
        // A restore into an etcd that has no etcdutl.
        "3.4.0".clone_into(&mut spec.version);
        let restore = json!({"restore": {"source": {"s3": {
            "endpoint": "https://s3.example", "bucket": "b", "key": "k", "credentialsSecretRef": {"name": "c"}}}}});
        spec.bootstrap = serde_json::from_value(restore).expect("a bootstrap");
    }
    EtcdCluster::new(&format!("c{number}"), spec)
}
