//! Metrics of all clusters and snapshots, read at each scrape from local copies of their own. They are kept by every
//! replica, whoever leads: a graph has no gap when the leadership moves.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::future::join;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};
use serde::de::DeserializeOwned;
use tracing::debug;

use super::watches::scoped;
use crate::api::condition::{find, is_true};
use crate::api::etcdcluster::{DEFAULT_REPLICAS, EtcdCluster, condition_type};
use crate::api::etcdsnapshot::{self, EtcdSnapshot, phase};

/// Namespace and name.
type Key = (String, String);

/// What is kept of a cluster.
#[derive(Clone, Debug, PartialEq)]
struct ClusterFacts {
    available: bool,
    progressing: bool,
    degraded: bool,
    wanted: i32,
    ready: i32,
}

impl From<EtcdCluster> for ClusterFacts {
    fn from(cluster: EtcdCluster) -> Self {
        let status = cluster.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        Self {
            available: is_true(&conditions, condition_type::AVAILABLE),
            progressing: is_true(&conditions, condition_type::PROGRESSING),
            degraded: is_true(&conditions, condition_type::DEGRADED),
            wanted: cluster.spec.replicas.unwrap_or(DEFAULT_REPLICAS),
            ready: status.ready_members.unwrap_or(0),
        }
    }
}

/// What is kept of a snapshot.
#[derive(Clone, Debug, PartialEq)]
struct SnapshotFacts {
    cluster: String,
    phase: &'static str,
    created: Option<Timestamp>,
    ended: Option<Timestamp>,
    size: Option<i64>,
}

impl From<EtcdSnapshot> for SnapshotFacts {
    fn from(snapshot: EtcdSnapshot) -> Self {
        let created = snapshot.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let known = [phase::STARTED, phase::COMPLETE, phase::FAILED];
        let phase = known.into_iter().find(|known| snapshot.phase() == Some(known)).unwrap_or(phase::PENDING);
        let status = snapshot.status.unwrap_or_default();
        let ready = find(status.conditions.as_deref().unwrap_or_default(), etcdsnapshot::condition_type::READY);
        Self {
            cluster: snapshot.spec.cluster_ref.name,
            phase,
            created,
            ended: ready.map(|ready| ready.last_transition_time.0),
            size: status.artifact.and_then(|artifact| artifact.size_bytes),
        }
    }
}

/// One kind's facts, by object.
type Facts<F> = Arc<Mutex<HashMap<Key, F>>>;

/// The collector, and the copies that it reads.
#[derive(Clone)]
pub struct Overview {
    clusters: Facts<ClusterFacts>,
    snapshots: Facts<SnapshotFacts>,
    gauges: Arc<Gauges>,
}

impl Overview {
    /// With nothing seen yet.
    pub fn new() -> Result<Self, prometheus::Error> {
        Ok(Self { clusters: Facts::default(), snapshots: Facts::default(), gauges: Arc::new(Gauges::new()?) })
    }

    /// Keeps the copies for ever, of these namespaces or of all.
    pub async fn run(self, client: Client, namespaces: Vec<String>) {
        let scopes: Vec<Option<String>> =
            if namespaces.is_empty() { vec![None] } else { namespaces.into_iter().map(Some).collect() };
        let all = scopes.into_iter().map(|namespace| {
            let clusters = keep::<EtcdCluster, _>(client.clone(), namespace.clone(), self.clusters.clone());
            join(clusters, keep::<EtcdSnapshot, _>(client.clone(), namespace, self.snapshots.clone()))
        });
        futures::future::join_all(all).await;
    }
}

/// Keeps what is to be known of a kind's objects in one namespace, or in all.
async fn keep<K, F>(client: Client, namespace: Option<String>, facts: Facts<F>)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
    F: From<K>,
{
    let api = scoped::<K>(&client, namespace.as_deref());
    let mut events = std::pin::pin!(watcher(api, Config::default()).default_backoff());
    let mut fresh = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => take(event, &mut fresh, &facts, namespace.as_deref()),
            // The controllers' own watch of the kind says it louder.
            Err(error) => debug!(kind = %K::kind(&()), %error, "watch for metrics broke; starting it again"),
        }
    }
}

fn take<K, F>(event: Event<K>, fresh: &mut HashMap<Key, F>, facts: &Facts<F>, namespace: Option<&str>)
where
    K: Resource<DynamicType = ()>,
    F: From<K>,
{
    let entry = |object: K| (key(&object), F::from(object));
    match event {
        Event::Init => fresh.clear(),
        Event::InitApply(object) => fresh.extend([entry(object)]),
        Event::InitDone => {
            let mut facts = lock(facts);
            facts.retain(|(of, _), _| namespace.is_some_and(|namespace| namespace != of));
            facts.extend(std::mem::take(fresh));
        }
        Event::Apply(object) => lock(facts).extend([entry(object)]),
        Event::Delete(object) => {
            lock(facts).remove(&key(&object));
        }
    }
}

fn key<K: Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Gauges {
    available: GaugeVec,
    progressing: GaugeVec,
    degraded: GaugeVec,
    wanted: GaugeVec,
    ready: GaugeVec,
    snapshots: GaugeVec,
    succeeded_at: GaugeVec,
    failed_at: GaugeVec,
    size: GaugeVec,
    duration: GaugeVec,
    /// One scrape at a time: gauges are filled and read.
    scrape: Mutex<()>,
}

impl Gauges {
    fn new() -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            GaugeVec::new(Opts::new(format!("etcd_warden_{name}"), help), labels)
        };
        let of_cluster = |name: &str, help: &str| gauge(&format!("cluster_{name}"), help, &["namespace", "name"]);
        let of_snapshots = |name: &str, help: &str| gauge(&format!("snapshot_{name}"), help, &["namespace", "cluster"]);
        Ok(Self {
            available: of_cluster("available", "Whether clients can read and write, by condition Available.")?,
            progressing: of_cluster("progressing", "Whether it is on its way to its spec, by condition Progressing.")?,
            degraded: of_cluster("degraded", "Whether something is wrong with it, by condition Degraded.")?,
            wanted: of_cluster("members_wanted", "Members that the spec asks for.")?,
            ready: of_cluster("members_ready", "Members that are Ready.")?,
            snapshots: gauge(
                "snapshot_objects",
                "EtcdSnapshots of the cluster that exist, by phase.",
                &["namespace", "cluster", "phase"],
            )?,
            succeeded_at: of_snapshots(
                "last_success_timestamp_seconds",
                "When the newest snapshot was stored and verified, Unix time.",
            )?,
            failed_at: of_snapshots(
                "last_failure_timestamp_seconds",
                "When the newest failed snapshot was given up, Unix time.",
            )?,
            size: of_snapshots("last_size_bytes", "Size of the newest stored snapshot.")?,
            duration: of_snapshots(
                "last_duration_seconds",
                "From the newest stored snapshot's creation as an object to its end.",
            )?,
            scrape: Mutex::new(()),
        })
    }

    fn all(&self) -> [&GaugeVec; 10] {
        [
            &self.available,
            &self.progressing,
            &self.degraded,
            &self.wanted,
            &self.ready,
            &self.snapshots,
            &self.succeeded_at,
            &self.failed_at,
            &self.size,
            &self.duration,
        ]
    }

    fn set_clusters(&self, clusters: &HashMap<Key, ClusterFacts>) {
        for ((namespace, name), facts) in clusters {
            let set = |gauge: &GaugeVec, value: f64| gauge.with_label_values(&[namespace, name]).set(value);
            set(&self.available, f64::from(u8::from(facts.available)));
            set(&self.progressing, f64::from(u8::from(facts.progressing)));
            set(&self.degraded, f64::from(u8::from(facts.degraded)));
            set(&self.wanted, f64::from(facts.wanted));
            set(&self.ready, f64::from(facts.ready));
        }
    }

    fn set_snapshots(&self, snapshots: &HashMap<Key, SnapshotFacts>) {
        let mut newest: BTreeMap<(&str, &str, &str), &SnapshotFacts> = BTreeMap::new();
        for ((namespace, _), facts) in snapshots {
            let labels = [namespace.as_str(), facts.cluster.as_str(), facts.phase];
            self.snapshots.with_label_values(&labels).inc();
            let known = newest.entry((namespace, &facts.cluster, facts.phase)).or_insert(facts);
            if facts.ended > known.ended {
                *known = facts;
            }
        }
        for ((namespace, cluster, of_phase), facts) in newest {
            let set = |gauge: &GaugeVec, value: f64| gauge.with_label_values(&[namespace, cluster]).set(value);
            let Some(ended) = facts.ended else { continue };
            match of_phase {
                phase::COMPLETE => {
                    set(&self.succeeded_at, seconds(ended));
                    if let Some(created) = facts.created {
                        set(&self.duration, seconds(ended) - seconds(created));
                    }
                    // Exact up to 8 PiB.
                    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
                    if let Some(size) = facts.size {
                        set(&self.size, size as f64);
                    }
                }
                phase::FAILED => set(&self.failed_at, seconds(ended)),
                _ => {}
            }
        }
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

impl Collector for Overview {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _alone = lock(&self.gauges.scrape);
        self.gauges.all().into_iter().for_each(GaugeVec::reset);
        self.gauges.set_clusters(&lock(&self.clusters));
        self.gauges.set_snapshots(&lock(&self.snapshots));
        self.gauges.all().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::metrics::Metrics;

    fn snapshot(name: &str, phase: &str, ended: &str, size: i64) -> EtcdSnapshot {
        let condition =
            json!({"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": ended});
        let artifact = if size > 0 { json!({"uri": "s3://b/k", "sizeBytes": size}) } else { Value::Null };
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"clusterRef": {"name": "c"}, "destination": {}},
            "status": {"phase": phase, "conditions": [condition], "artifact": artifact}}))
        .unwrap()
    }

    fn cluster() -> EtcdCluster {
        let condition = json!({"type": "Available", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {"replicas": 3},
            "status": {"readyMembers": 2, "conditions": [condition]}}))
        .unwrap()
    }

    /// S19: snapshots have metrics.
    #[test]
    fn a_scrape_tells_of_what_there_is_and_of_nothing_that_went() {
        let metrics = Metrics::new("etcd_warden", "1").unwrap();
        let overview = metrics.register(Overview::new().unwrap()).unwrap();
        assert!(!metrics.render().unwrap().contains("etcd_warden_cluster"));

        let mut fresh = HashMap::new();
        take(Event::Apply(cluster()), &mut fresh, &overview.clusters, None);
        let snapshots = [
            snapshot("old", "Complete", "2026-01-01T00:00:03Z", 10),
            snapshot("new", "Complete", "2026-01-01T00:00:05Z", 20),
            snapshot("bad", "Failed", "2026-01-01T00:00:09Z", 0),
            snapshot("odd", "Unheard", "2026-01-01T00:00:09Z", 0),
        ];
        let mut fresh = HashMap::new();
        for snapshot in snapshots {
            take(Event::Apply(snapshot), &mut fresh, &overview.snapshots, None);
        }
        let text = metrics.render().unwrap();
        for line in [
            r#"etcd_warden_cluster_available{name="c",namespace="ns"} 1"#,
            r#"etcd_warden_cluster_degraded{name="c",namespace="ns"} 0"#,
            r#"etcd_warden_cluster_members_wanted{name="c",namespace="ns"} 3"#,
            r#"etcd_warden_cluster_members_ready{name="c",namespace="ns"} 2"#,
            r#"etcd_warden_snapshot_objects{cluster="c",namespace="ns",phase="Complete"} 2"#,
            r#"etcd_warden_snapshot_objects{cluster="c",namespace="ns",phase="Pending"} 1"#,
            r#"etcd_warden_snapshot_last_success_timestamp_seconds{cluster="c",namespace="ns"} 1767225605"#,
            r#"etcd_warden_snapshot_last_failure_timestamp_seconds{cluster="c",namespace="ns"} 1767225609"#,
            r#"etcd_warden_snapshot_last_size_bytes{cluster="c",namespace="ns"} 20"#,
            r#"etcd_warden_snapshot_last_duration_seconds{cluster="c",namespace="ns"} 5"#,
        ] {
            assert!(text.contains(line), "{line} not in:\n{text}");
        }

        let mut fresh = HashMap::new();
        take(Event::<EtcdCluster>::Init, &mut fresh, &overview.clusters, None);
        take(Event::<EtcdCluster>::InitDone, &mut fresh, &overview.clusters, None);
        assert!(!metrics.render().unwrap().contains("etcd_warden_cluster"));
    }
}
