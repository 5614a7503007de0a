//! examples/walkthrough, run as a user runs it, with every version of etcd that can be restored.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::process::Command;
use tokio::sync::RwLockReadGuard;

use crate::bed::Node;
use crate::bed::installation::{CALM, installed, kubectl, restrict};
use crate::bed::node::HOST_NAME;
use crate::bed::pki::Authority;
use crate::bed::s3::OWNER;
use crate::bed::tools::{tool, tree};

/// A namespace with settings of its own, in which the scripts are run.
pub struct Walk<'a> {
    node: &'a Node,
    pub namespace: String,
    bucket: String,
    version: &'static str,
    replicas: u32,
    endpoint: String,
    authority: PathBuf,
    /// Whether the bucket is asked of COSI, and not given to the scripts.
    pub claims_bucket: bool,
    /// The scripts try nothing twice.
    _calm: Option<RwLockReadGuard<'static, ()>>,
}

impl Walk<'static> {
    /// On the node that all tests share.
    async fn start(version: &'static str, replicas: u32) -> Self {
        let node = installed().await;
        let calm = CALM.read().await;
        Self { _calm: Some(calm), ..Self::on(node, version, replicas).await }
    }
}

impl<'a> Walk<'a> {
    pub async fn on(node: &'a Node, version: &'static str, replicas: u32) -> Self {
        let namespace = node.namespace("walk").await;
        restrict(node, &namespace);
        let s3 = node.s3().await;
        let bucket = namespace.clone();
        s3.bucket(&bucket).await;
        Self {
            node,
            version,
            replicas,
            endpoint: s3.endpoint_at(HOST_NAME),
            authority: s3.authority().to_owned(),
            namespace,
            bucket,
            claims_bucket: false,
            _calm: None,
        }
    }

    /// The coordinates of the bucket, as the scripts take them.
    pub fn bucket_given(&self) -> [(&'static str, &str); 4] {
        [
            ("S3_ENDPOINT", &self.endpoint),
            ("S3_BUCKET", &self.bucket),
            ("S3_ACCESS_KEY", OWNER.access),
            ("S3_SECRET_KEY", OWNER.secret),
        ]
    }

    /// Runs one script; gives what it printed.
    pub async fn run(&self, script: &str) -> String {
        let begin = Instant::now();
        let kubectl_in = tool("kubectl").parent().unwrap().display().to_string();
        let mut command = Command::new("bash");
        if !self.claims_bucket {
            command.envs(self.bucket_given());
        }
        let output = command
            .arg(tree().join("examples/walkthrough").join(script))
            .env("PATH", format!("{kubectl_in}:{}", std::env::var("PATH").unwrap()))
            .env("KUBECONFIG", self.node.kubeconfig())
            .env("NAMESPACE", &self.namespace)
            .env("STRATEGY_NAME", &self.namespace)
            .env("BACKUPCLASS_NAME", &self.namespace)
            .env("ETCD_VERSION", self.version)
            .env("ETCD_REPLICAS", self.replicas.to_string())
            .env("ETCD_SIZE", "256Mi")
            .env("WAIT_SECONDS", "300")
            .env("S3_CA_FILE", &self.authority)
            .env("BUCKET_INFO", self.node.folder().join(format!("bucket-info-{}", self.namespace)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_mins(6), output).await.expect("the script ends").unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script} after {:?}:\n{said}\n{}", begin.elapsed(), self.scene());
        assert!(!said.contains(OWNER.secret), "{script} prints the secret key");
        said
    }

    /// What a person would look at first.
    pub fn scene(&self) -> String {
        let namespace = ["--namespace", self.namespace.as_str()];
        let of = |arguments: &[&str]| kubectl(self.node, &[arguments, &namespace].concat());
        [
            of(&[
                "get",
                "etcdclusters,etcdmembers,etcdsnapshots,backupjobs,backups,restorejobs,pods,jobs,pvc",
                "-o",
                "wide",
            ]),
            of(&["get", "events", "--sort-by=.lastTimestamp"]),
            of(&["get", "restorejobs,backupjobs", "-o", "yaml"]),
            kubectl(
                self.node,
                &["logs", "--namespace=etcd-warden-system", "-l", "app.kubernetes.io/name=etcd-warden", "--tail=60"],
            ),
        ]
        .join("\n----\n")
    }
}

async fn the_old_key_comes_back(walk: Walk<'_>) {
    walk.run("01-create-strategy.sh").await;
    walk.run("02-create-bucket.sh").await;
    walk.run("03-create-etcd-src.sh").await;
    walk.run("04-create-backupjob.sh").await;
    let said = walk.run("05-restore-in-place.sh").await;
    assert!(said.contains("the damage: /etcd-warden/walkthrough = written-after-the-backup"), "{said}");
    assert!(said.contains("restored: /etcd-warden/walkthrough = written-before-the-backup"), "{said}");
    // The same Backup once more.
    walk.run("05-restore-in-place.sh").await;
    walk.run("cleanup.sh").await;
    let left = kubectl(
        walk.node,
        &["get", "etcdclusters,etcdsnapshots,backupjobs,backups,restorejobs", "-o", "name", "-n", &walk.namespace],
    );
    assert_eq!(left.trim(), "", "cleanup.sh leaves nothing of the walk");
}

#[tokio::test]
async fn with_etcd_3_5() {
    the_old_key_comes_back(Walk::start("3.5.35", 1).await).await;
}

#[tokio::test]
async fn with_etcd_3_6_and_three_members() {
    the_old_key_comes_back(Walk::start("3.6.16", 3).await).await;
}

#[tokio::test]
async fn with_etcd_3_7() {
    the_old_key_comes_back(Walk::start("3.7.3", 1).await).await;
}

/// The cluster is there before the walk, with certificates and a password; step 3 adds to it what it asks for itself.
#[tokio::test]
async fn with_tls_and_a_password() {
    let walk = Walk::start("3.6.16", 1).await;
    let authority = Authority::new("etcd");
    let (service, headless) = (format!("*.etcd.{}.svc", walk.namespace), format!("etcd-client.{}.svc", walk.namespace));
    // root by its name in the certificate, so that etcdctl in the Pod needs no password.
    let pair = authority.issue("root", None, &[&service, &headless, "localhost", "127.0.0.1"]);
    let secret = |name: &str, data: serde_json::Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
    let tls = json!({"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem()});
    let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster", "metadata": {"name": "etcd"},
        "spec": {"replicas": 1, "version": "3.6.16", "storage": {"size": "256Mi"},
            "auth": {"enabled": true, "rootCredentialsSecretRef": {"name": "root"}},
            "tls": {"client": {"serverSecretRef": {"name": "etcd-tls"}, "operatorClientSecretRef": {"name": "etcd-tls"}},
                "peer": {"secretRef": {"name": "etcd-tls"}}}}});
    let root = secret("root", json!({"username": "root", "password": "s3cret of root"}));
    for object in [secret("etcd-tls", tls), root, cluster] {
        walk.node.apply(&walk.namespace, &object.to_string()).await;
    }
    let namespace = walk.namespace.clone();
    the_old_key_comes_back(walk).await;
    let told = kubectl(installed().await, &["get", "events,pods,jobs", "-n", &namespace, "-o", "yaml"]);
    assert!(!told.contains("s3cret of root"), "a password was told");
}
