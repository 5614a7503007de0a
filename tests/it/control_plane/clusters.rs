//! Clusters with real etcd processes: what keeps one from working is named where a person looks, and once it is put
//! right the cluster goes on by itself.

use crate::bed::etcd::Version;
use crate::bed::pki::Authority;
use crate::bed::stand_in::Plane;
use crate::bed::stand_in::cert_manager::StandInCertManager;
use crate::bed::stand_in::kubelet::node::LIMITED_CLASS;
use crate::bed::stand_in::plane::Serve;
use crate::bed::wait_for;
use etcd_warden::api::condition;
use etcd_warden::api::etcdcluster::EtcdCluster;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_mins(2);

struct Scene {
    plane: Plane,
    serve: Serve,
}

impl Scene {
    async fn start() -> Self {
        let plane = Plane::start(&[Version::V3_6]).await;
        let serve = plane.serve(&["--controllers=etcdcluster,etcdmember"]).await;
        Self { plane, serve }
    }

    /// A cluster in a namespace of its own.
    async fn cluster(&self, replicas: i32, more: &Value) -> Place<'_> {
        let namespace = self.plane.api.namespace("clusters").await;
        let place = Place { scene: self, namespace };
        place.make(replicas, more).await;
        place
    }
}

struct Place<'a> {
    scene: &'a Scene,
    namespace: String,
}

impl Place<'_> {
    async fn make(&self, replicas: i32, more: &Value) {
        let mut spec = json!({"version": Version::V3_6.number(), "replicas": replicas, "storage": {"size": "1Gi"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.apply(&json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "etcd"}, "spec": spec}))
            .await;
    }

    async fn apply(&self, object: &Value) {
        self.scene.plane.api.apply(&self.namespace, &object.to_string()).await;
    }

    async fn patch(&self, spec: &Value) {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.scene.plane.client().await, &self.namespace);
        clusters.patch("etcd", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.unwrap();
    }

    async fn delete(&self) {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.scene.plane.client().await, &self.namespace);
        clusters.delete("etcd", &DeleteParams::background()).await.unwrap();
    }

    async fn secret(&self, name: &str, data: &Value) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        self.apply(&secret).await;
    }

    async fn conditions(&self) -> Result<Vec<(String, String, String)>, String> {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.scene.plane.client().await, &self.namespace);
        let status = clusters.get("etcd").await.map_err(|e| e.to_string())?.status.unwrap_or_default();
        let conditions = status.conditions.into_iter().flatten();
        Ok(conditions.map(|c| (format!("{}={}", c.type_, c.status), c.reason, c.message)).collect())
    }

    /// Waits until a condition of the cluster says so.
    async fn says(&self, condition: &str, reason: &str, text: &str) {
        wait_for(format!("{condition} for {reason} with {text:?}"), WITHIN, async || {
            let conditions = self.conditions().await?;
            let said = conditions.iter().any(|(c, r, m)| c == condition && r == reason && m.contains(text));
            if said { Ok(()) } else { Err(format!("{conditions:#?}\n{}", self.scene.serve.last_words())) }
        })
        .await;
    }

    async fn reconciled(&self) {
        self.says("Progressing=False", "Reconciled", "").await;
        self.says("Available=True", "QuorumHealthy", "").await;
        self.says("Degraded=False", "QuorumHealthy", "").await;
    }

    /// The reasons of all Events, in no order.
    async fn events(&self) -> Vec<String> {
        let events: Api<v1::Event> = Api::namespaced(self.scene.plane.client().await, &self.namespace);
        let all = events.list(&ListParams::default()).await.expect("Events").items;
        all.into_iter().filter_map(|event| event.reason).collect()
    }
}

/// A server's Secret for the cluster `etcd` of a namespace.
fn server_secret(authority: &Authority, namespace: &str) -> Value {
    let name = format!("*.etcd.{namespace}.svc");
    let pair = authority.issue("etcd", None, &[&name, "localhost", "127.0.0.1"]);
    json!({"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem()})
}

fn tls() -> Value {
    json!({"client": {"serverSecretRef": {"name": "server"}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trouble_is_named_and_heals_once_it_is_put_right() {
    let scene = Scene::start().await;
    tokio::join!(
        a_missing_secret(&scene),
        an_expired_certificate(&scene),
        an_image_that_is_not_there(&scene),
        a_wrong_password(&scene),
        a_used_up_quota(&scene),
        a_full_volume(&scene),
    );
}

async fn a_missing_secret(scene: &Scene) {
    let place = scene.cluster(1, &json!({"tls": tls()})).await;
    place.says("Progressing=True", "WaitingForSeed", "Secret server does not exist").await;
    place.secret("server", &json!({"tls.crt": "x"})).await;
    place.says("Progressing=True", "WaitingForSeed", "Secret server has no key").await;
    place.secret("server", &server_secret(&Authority::new("ours"), &place.namespace)).await;
    place.reconciled().await;
    let events = place.events().await;
    for reason in ["SecretMissing", "MemberCreated", "Reconciled", "PodReady"] {
        assert!(events.iter().any(|event| event == reason), "{reason} is not among {events:?}");
    }
}

async fn an_expired_certificate(scene: &Scene) {
    let authority = Authority::new("ours");
    let namespace = scene.plane.api.namespace("expired").await;
    let place = Place { scene, namespace };
    let expired = authority.issue_expired("etcd", &[&format!("*.etcd.{}.svc", place.namespace)]);
    let secret = json!({"tls.crt": expired.certificate, "tls.key": expired.key, "ca.crt": authority.pem()});
    place.secret("server", &secret).await;
    place.make(1, &json!({"tls": tls()})).await;
    place.says("Progressing=True", "WaitingForSeed", "the certificate in Secret server expired at").await;
    place.secret("server", &server_secret(&authority, &place.namespace)).await;
    place.reconciled().await;
}

async fn an_image_that_is_not_there(scene: &Scene) {
    let place = scene.cluster(1, &json!({"version": "3.6.99"})).await;
    place.says("Progressing=True", "WaitingForSeed", "ErrImagePull").await;
    place.patch(&json!({"version": Version::V3_6.number()})).await;
    place.reconciled().await;
}

async fn a_wrong_password(scene: &Scene) {
    let authority = Authority::new("ours");
    let namespace = scene.plane.api.namespace("password").await;
    let place = Place { scene, namespace };
    place.secret("server", &server_secret(&authority, &place.namespace)).await;
    let root = |password: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "root"},
            "type": "kubernetes.io/basic-auth", "stringData": {"username": "root", "password": password}})
    };
    place.apply(&root("right")).await;
    let auth = json!({"enabled": true, "rootCredentialsSecretRef": {"name": "root"}});
    place.make(1, &json!({"tls": tls(), "auth": auth})).await;
    place.reconciled().await;
    wait_for("authentication to be latched", WITHIN, async || {
        let events = place.events().await;
        if events.iter().any(|reason| reason == "AuthEnabled") { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await;

    place.apply(&root("wrong")).await;
    place.patch(&json!({"replicas": 3})).await;
    place.says("Degraded=True", "AuthCredentialsRejected", "rootCredentialsSecretRef").await;
    place.says("Available=True", "QuorumAvailable", "").await;
    place.apply(&root("right")).await;
    place.reconciled().await;
}

async fn a_used_up_quota(scene: &Scene) {
    let place = scene.cluster(1, &json!({"options": {"quotaBackendBytes": 2_097_152}})).await;
    place.reconciled().await;
    let pods = scene.plane.members(&place.namespace, "etcd").await;
    let value = "v".repeat(100_000);
    let mut refused = None;
    for number in 0..40 {
        if let Err(why) = scene.plane.etcdctl(&pods[0], &["put", &format!("key{}", number % 3), &value]).await {
            refused = Some(why);
            break;
        }
    }
    assert!(refused.is_some_and(|why| why.contains("space exceeded")));
    place.says("Degraded=True", "QuorumLost", "").await;
    place.says("Available=False", "QuorumLost", "NOSPACE").await;

    let status = scene.plane.etcdctl(&pods[0], &["endpoint", "status", "--write-out=json"]).await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].as_i64().unwrap().to_string();
    for words in [&["compact", revision.as_str()][..], &["defrag"], &["alarm", "disarm"]] {
        scene.plane.etcdctl(&pods[0], words).await.unwrap();
    }
    place.reconciled().await;
}

/// The volume itself is full, by whatever: etcd ends, and its last words say why.
async fn a_full_volume(scene: &Scene) {
    // etcd keeps two files of 64 MiB for its log.
    let storage = json!({"size": "160Mi", "storageClassName": LIMITED_CLASS});
    let place = scene.cluster(1, &json!({ "storage": storage })).await;
    place.reconciled().await;
    let pods = scene.plane.members(&place.namespace, "etcd").await;
    scene.plane.etcdctl(&pods[0], &["put", "key", "kept"]).await.unwrap();
    let claim = format!("data-{}", pods[0].name_any());
    let ballast = scene.plane.kubelet.limited_volume(&place.namespace, &claim).await.join("ballast");
    fill(&ballast);
    // Taken or not: the write that does not fit is the last one.
    for number in 0..8 {
        let key = format!("large{number}");
        if scene.plane.etcdctl(&pods[0], &["put", &key, &"v".repeat(120_000)]).await.is_err() {
            break;
        }
    }
    place.says("Degraded=True", "QuorumLost", "").await;
    place.says("Available=False", "QuorumLost", "no space left on device").await;

    std::fs::remove_file(&ballast).unwrap();
    place.reconciled().await;
    let kept = scene.plane.etcdctl(&pods[0], &["get", "key", "--print-value-only"]).await;
    assert_eq!(kept.as_deref(), Ok("kept\n"));
}

/// Leaves no room beside this file.
fn fill(file: &Path) {
    let mut file = std::fs::File::create(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let full = (0..).find_map(|_| file.write_all(&[0; 4096]).err());
    assert_eq!(full.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
}

/// N2, by every write of the status, not only by those that a poll happens to meet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n2_available_never_goes_away_on_the_way_up() {
    let scene = Scene::start().await;
    let namespace = scene.plane.api.namespace("clusters").await;
    let clusters: Api<EtcdCluster> = Api::namespaced(scene.plane.client().await, &namespace);
    let mut changes = watcher(clusters, Config::default()).boxed();
    while !matches!(changes.next().await, Some(Ok(Event::InitDone))) {}
    let place = Place { scene: &scene, namespace };
    place.make(3, &json!({})).await;
    let mut told: Vec<(String, String)> = Vec::new();
    let came_up = async {
        while let Some(change) = changes.next().await {
            let Event::Apply(cluster) = change.expect("the watch goes on") else { continue };
            let status = cluster.status.unwrap_or_default();
            let available = condition::find(status.conditions.as_deref().unwrap_or_default(), "Available");
            if let Some(now) = available.map(|now| (now.status.clone(), now.reason.clone()))
                && told.last() != Some(&now)
            {
                told.push(now);
            }
            if status.ready_members == Some(3) {
                return;
            }
        }
    };
    tokio::time::timeout(WITHIN, came_up).await.expect("three Ready members");
    println!("Available: {told:?}");
    let went_away = told.windows(2).any(|turn| turn[0].0 == "True" && turn[1].0 != "True");
    assert!(!went_away && told.last().is_some_and(|last| last.0 == "True"), "{told:?}");
}

/// N1: clusters whose restore reaches nobody slow nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n1_broken_restores_beside_it_do_not_slow_a_cluster() {
    let scene = Scene::start().await;
    let before = fastest(&scene).await;
    let source = json!({"s3": {"endpoint": "http://192.0.2.1:9", "bucket": "none", "key": "k.db",
        "credentialsSecretRef": {"name": "creds"}}});
    let mut broken = Vec::new();
    for _ in 0..3 {
        let namespace = scene.plane.api.namespace("broken").await;
        let place = Place { scene: &scene, namespace };
        place.secret("creds", &json!({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})).await;
        place.make(1, &json!({"bootstrap": {"restore": {"source": source}}})).await;
        place.says("Progressing=True", "WaitingForSeed", "restor").await;
        broken.push(place);
    }
    let beside = fastest(&scene).await;
    for place in &broken {
        place.delete().await;
    }
    // The machine may have become busier meanwhile.
    let alone = before.max(fastest(&scene).await);
    println!("alone {alone:?}, beside three broken restores {beside:?}");
    // Where looks wait for each other, one dial that nobody answers costs more than this.
    assert!(beside < alone * 2, "alone {alone:?}, beside three broken restores {beside:?}");
}

/// The shortest of several times that a cluster of one takes: a busy machine makes the others long.
async fn fastest(scene: &Scene) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..4 {
        let begin = Instant::now();
        let place = scene.cluster(1, &json!({})).await;
        place.reconciled().await;
        shortest = shortest.min(begin.elapsed());
        place.delete().await;
    }
    shortest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_asks_cert_manager_for_its_certificates_and_waits_until_there_is_one() {
    let scene = Scene::start().await;
    let issuer = json!({"name": "any"});
    let tls = json!({"client": {"certManager": {"serverIssuerRef": issuer, "operatorClientIssuerRef": issuer}},
        "peer": {"certManager": {"issuerRef": issuer}}});
    let place = scene.cluster(3, &json!({ "tls": tls })).await;
    place.says("Available=False", "CertManagerNotInstalled", "install cert-manager").await;
    let signer = StandInCertManager::start(&scene.plane.api).await;
    place.reconciled().await;

    // By the Service's name, over TLS, with a certificate of the authority: the names that were asked for are enough.
    let secrets: Api<Secret> = Api::namespaced(scene.plane.client().await, &place.namespace);
    let client = secrets.get("etcd-operator-client-tls").await.unwrap().data.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let [ca, certificate, key] = [
        file("ca.crt", signer.authority().as_bytes()),
        file("tls.crt", &client["tls.crt"].0),
        file("tls.key", &client["tls.key"].0),
    ];
    let endpoint = format!("https://etcd-client.{}.svc:2379", place.namespace);
    let program = Version::V3_6.etcdctl().display().to_string();
    let argv =
        [&program, "--endpoints", &endpoint, "--cacert", &ca, "--cert", &certificate, "--key", &key, "put", "k", "v"];
    let run = scene.plane.kubelet.run("etcdctl", &argv, &[]).await;
    let exit = run.ended().await;
    assert_eq!(exit.code, 0, "{}", std::fs::read_to_string(run.log()).unwrap_or_default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_of_clusters_are_told_by_a_replica_that_does_not_lead() {
    let scene = Scene::start().await;
    let place = scene.cluster(1, &json!({})).await;
    let other = scene.plane.serve(&["--controllers=etcdcluster,etcdmember", "--identity=other"]).await;
    place.reconciled().await;
    let wanted = [
        format!(r#"etcd_warden_cluster_available{{name="etcd",namespace="{}"}} 1"#, place.namespace),
        format!(r#"etcd_warden_cluster_members_ready{{name="etcd",namespace="{}"}} 1"#, place.namespace),
    ];
    wait_for("the metrics of the other replica", WITHIN, async || {
        let (_, text) = other.admin("/metrics").await?;
        if wanted.iter().all(|line| text.contains(line)) { Ok(()) } else { Err(text) }
    })
    .await;
}
