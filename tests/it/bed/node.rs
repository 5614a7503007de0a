//! A whole Kubernetes with one node, in namespaces of its own, brought up by tests/cluster/node.

use super::api_server::ApiServer;
use super::leash::{Leash, kept_logs};
use super::programs;
use super::s3::{self, S3Server};
use super::tools::{run_root, tree};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

/// The name under which Pods find servers that run on this host.
pub const HOST_NAME: &str = "host.bed.test";

/// A node. What can be done with its API server is in [`ApiServer`].
#[derive(Debug)]
pub struct Node {
    name: String,
    api: ApiServer,
    host_ip: String,
    // Takes the node down when this process ends; absent when it is to be kept.
    _leash: Option<Leash>,
}

impl Node {
    /// The one that tests of this process share: with all images, ours included, built from this tree. Started by
    /// whoever asks first, and gone with this process.
    ///
    /// With `ETCD_WARDEN_KEEP=1` it stays up, and the next process with that setting takes it over.
    ///
    /// # Panics
    /// When it cannot be brought up; the message says what to do.
    pub async fn shared() -> &'static Self {
        static SHARED: tokio::sync::OnceCell<Node> = tokio::sync::OnceCell::const_new();
        SHARED.get_or_init(|| async { tokio::task::spawn_blocking(Self::start).await.expect("bring a node up") }).await
    }

    /// Brings one up for the caller alone; gone when dropped.
    ///
    /// # Panics
    /// When it cannot be brought up, or has a name that is in use.
    pub fn named(name: &str, images: &[&str]) -> Self {
        let (state, logs) = (run_root().join("nodes").join(name), kept_logs().join("node"));
        let keep_logs = format!("rm -rf '{0}'; cp -r '{1}/logs' '{0}'", logs.display(), state.display());
        let down = format!("'{}/tests/cluster/node' -n {name} down >/dev/null", tree().display());
        Self::up(name, images, Some(Leash::with_last_act("node", &format!("{keep_logs}; {down}"))))
    }

    fn start() -> Self {
        if std::env::var_os("ETCD_WARDEN_KEEP").is_some_and(|v| v == "1") {
            let name = format!("keep-{}", short_hash(&tree().display().to_string()));
            return Self::up(&name, &[], None);
        }
        Self::named(&format!("t{}", std::process::id()), &[])
    }

    fn up(name: &str, images: &[&str], leash: Option<Leash>) -> Self {
        let mut arguments = vec!["up"];
        arguments.extend_from_slice(images);
        run(name, &arguments).unwrap_or_else(|e| panic!("bring up node {name}: {e}"));
        let folder = run_root().join("nodes").join(name);
        Self {
            api: ApiServer::new(&folder.join("kubeconfig"), &folder),
            host_ip: run(name, &["host-ip"]).expect("the host's address").trim().to_owned(),
            name: name.to_owned(),
            _leash: leash,
        }
    }

    /// The name for tests/cluster/node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This host's address as Pods and the API server see it; webhooks by URL go there.
    pub fn host_ip(&self) -> &str {
        &self.host_ip
    }

    /// The folder with state and logs.
    pub fn folder(&self) -> PathBuf {
        run_root().join("nodes").join(&self.name)
    }

    /// Runs a program in the node's namespaces, where Pod and Service addresses and `ctr` work.
    pub fn exec(&self, command: &[&str]) -> Result<String, String> {
        let mut arguments = vec!["exec"];
        arguments.extend_from_slice(command);
        run(&self.name, &arguments)
    }

    /// Kills a daemon (`kubelet`, `kube-apiserver`, `containerd`, ...) with SIGKILL and starts it again after a pause.
    ///
    /// # Panics
    /// When it cannot be started again.
    pub fn restart(&self, daemon: &str, after_seconds: u32) {
        run(&self.name, &["restart", daemon, &after_seconds.to_string()])
            .unwrap_or_else(|e| panic!("restart {daemon}: {e}"));
    }

    /// The S3 server that tests of this process share on this node; Pods reach it at
    /// `S3Server::endpoint_at(HOST_NAME)`, this process at `S3Server::endpoint()`.
    pub async fn s3(&self) -> &'static S3Server {
        static SHARED: tokio::sync::OnceCell<S3Server> = tokio::sync::OnceCell::const_new();
        SHARED
            .get_or_init(|| {
                S3Server::start(s3::Options {
                    listen: "0.0.0.0".to_owned(),
                    names: vec![self.host_ip.clone(), HOST_NAME.to_owned(), "s3.bed.test".to_owned()],
                })
            })
            .await
    }
}

impl Deref for Node {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.api
    }
}

fn run(name: &str, arguments: &[&str]) -> Result<String, String> {
    let script = tree().join("tests/cluster/node");
    let mut command = Command::new(&script);
    // The image holds what these tests were built with, so nothing is built twice.
    command.env("ETCD_WARDEN_SERVER", programs::server());
    let output = command.args(["-n", name]).args(arguments).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Four hex digits: tells apart the trees of one machine.
fn short_hash(text: &str) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text.as_bytes());
    format!("{:02x}{:02x}", digest[0], digest[1])
}
