//! All that a story with Pods needs in one value: a control plane with its controllers, our CustomResourceDefinitions,
//! the stand-in kubelet, an S3 server that Pods reach, and `etcd-warden serve` with the cluster's names.

use super::kubelet::StandInKubelet;
use super::kubelet::images::Images;
use super::kubelet::program::Program;
use crate::bed::etcd::Version;
use crate::bed::ports::Port;
use crate::bed::s3::{self, S3Server};
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, control_plane, wait_for};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use std::path::Path;
use std::time::Duration;

/// The reference of our image.
pub const OUR_IMAGE: &str = "etcd-warden:test";
/// The S3 server's name for Pods.
pub const S3_HOST: &str = "s3.bed";
/// The Secret with the S3 server's keys, in every namespace of [`Plane::namespace_with_store`].
pub const S3_SECRET: &str = "s3-keys";
/// The Secret with the authority of the S3 server's certificate, key `ca.crt`, in the same.
pub const S3_AUTHORITY: &str = "s3-authority";
const START_WITHIN: Duration = Duration::from_mins(1);

/// All of it, for as long as this value lives.
#[derive(Debug)]
pub struct Plane {
    /// Pods.
    pub kubelet: StandInKubelet,
    /// The API server and its controllers.
    pub api: ControlPlane,
    /// The namespace of our server.
    pub system: String,
}

/// `etcd-warden serve`, as a process that can be killed.
#[derive(Debug)]
pub struct Serve {
    /// The process.
    pub process: Program,
    admin: Port,
    _webhook: Port,
}

impl Plane {
    /// Starts it without our server, with etcd in these versions.
    pub async fn start(versions: &[Version]) -> Self {
        let options = control_plane::Options { controllers: vec!["*".to_owned()], ..Default::default() };
        let control_plane = ControlPlane::start(options).await;
        install_crds(&control_plane).await;
        let images = versions.iter().fold(Images::none().ours(OUR_IMAGE), |images, &version| images.etcd(version));
        let kubelet = StandInKubelet::start(&control_plane, images).await;
        let system = control_plane.namespace("system").await;
        Self { kubelet, api: control_plane, system }
    }

    /// Starts `etcd-warden serve` as the control plane's administrator, and returns when it is ready.
    pub async fn serve(&self, flags: &[&str]) -> Serve {
        let serve = self.serve_by(self.api.kubeconfig(), flags).await;
        serve.wait_ready().await;
        serve
    }

    /// The same with another way to the API server, and without waiting.
    pub async fn serve_by(&self, kubeconfig: &Path, flags: &[&str]) -> Serve {
        let (webhook, admin) = (Port::take(), Port::take());
        let authority = self.api.folder().join("warden-authority");
        let own = [
            env!("CARGO_BIN_EXE_etcd-warden").to_owned(),
            "serve".to_owned(),
            format!("--webhook-address=127.0.0.1:{}", webhook.number()),
            format!("--webhook-url=https://127.0.0.1:{}", webhook.number()),
            format!("--authority-dir={}", authority.display()),
            format!("--admin-address=127.0.0.1:{}", admin.number()),
            format!("--namespace={}", self.system),
            format!("--agent-image={OUR_IMAGE}"),
            "--quiet-seconds=0".to_owned(),
        ];
        let argv: Vec<&str> = own.iter().map(String::as_str).chain(flags.iter().copied()).collect();
        let kubeconfig = kubeconfig.display().to_string();
        let env = [("KUBECONFIG", kubeconfig.as_str()), ("RUST_BACKTRACE", "1")];
        Serve { process: self.kubelet.run("etcd-warden", &argv, &env).await, admin, _webhook: webhook }
    }

    /// Gives the lease of a server that was killed to the next one, which would otherwise wait for it to run out.
    pub async fn release_lease(&self) {
        let leases: Api<Lease> = Api::namespaced(self.client().await, &self.system);
        let all = leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
        all.unwrap_or_else(|e| panic!("delete the leases of {}: {e}", self.system));
    }

    /// A client as the administrator.
    pub async fn client(&self) -> Client {
        self.api.client().await
    }

    /// A namespace of one's own with the Secrets [`S3_SECRET`] and [`S3_AUTHORITY`], for Pods that reach [`s3`].
    pub async fn namespace_with_store(&self, prefix: &str) -> String {
        let namespace = self.api.namespace(prefix).await;
        let keys = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": S3_SECRET},
            "stringData": {"AWS_ACCESS_KEY_ID": s3::OWNER.access, "AWS_SECRET_ACCESS_KEY": s3::OWNER.secret},
        });
        let authority = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": S3_AUTHORITY},
            "stringData": {"ca.crt": s3().await.authority_pem()},
        });
        self.api.apply(&namespace, &format!("{keys}\n---\n{authority}")).await;
        namespace
    }

    /// The Pods of an EtcdCluster, by name.
    pub async fn members(&self, namespace: &str, cluster: &str) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client().await, namespace);
        let of_cluster = ListParams::default().labels(&format!("etcd-operator.cozystack.io/cluster={cluster}"));
        let mut found = pods.list(&of_cluster).await.expect("list Pods").items;
        // The agents of snapshots carry the same label; members have a container called etcd.
        found.retain(|pod| pod.spec.iter().flat_map(|spec| &spec.containers).any(|c| c.name == "etcd"));
        found.sort_by_key(ResourceExt::name_any);
        found
    }

    /// Runs etcdctl of the host against one member, at its Pod's address; gives its output, or what it complains about.
    pub async fn etcdctl(&self, pod: &Pod, arguments: &[&str]) -> Result<String, String> {
        let address = pod.status.as_ref().and_then(|s| s.pod_ip.as_ref()).ok_or("the Pod has no address")?;
        let secured = serde_json::to_string(&pod.spec).is_ok_and(|spec| spec.contains("client-urls=https:"));
        let endpoint = format!("{}://{address}:2379", if secured { "https" } else { "http" });
        let mut command = tokio::process::Command::new(Version::V3_6.etcdctl());
        command.args(["--endpoints", &endpoint, "--command-timeout=5s"]).args(arguments).kill_on_drop(true);
        if secured {
            command.args(["--insecure-transport=false", "--insecure-skip-tls-verify"]);
        }
        let output = command.output().await.map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// The S3 server of this process' planes.
pub async fn s3() -> &'static S3Server {
    static SHARED: tokio::sync::OnceCell<S3Server> = tokio::sync::OnceCell::const_new();
    let options = || s3::Options { listen: "0.0.0.0".to_owned(), names: vec![S3_HOST.to_owned()] };
    SHARED.get_or_init(|| S3Server::start(options())).await
}

impl Serve {
    /// Waits until it is ready.
    ///
    /// # Panics
    /// With what is missing, or when it has ended.
    pub async fn wait_ready(&self) {
        wait_for("etcd-warden to be ready", START_WITHIN, async || {
            assert!(self.process.running(), "etcd-warden has ended: {}", self.last_words());
            let (status, body) = self.admin("/readyz").await?;
            if status == 200 { Ok(()) } else { Err(body) }
        })
        .await;
    }

    /// What an admin endpoint answers.
    pub async fn admin(&self, path: &str) -> Result<(u16, String), String> {
        let url = format!("http://127.0.0.1:{}{path}", self.admin.number());
        let answer = reqwest::get(url).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        Ok((status, answer.text().await.map_err(|error| error.to_string())?))
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.process.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}
