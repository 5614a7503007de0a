//! A Kubernetes without nodes: etcd, kube-apiserver and, on request, kube-controller-manager.

use super::api_server::{ApiServer, Identity, client, get, write_kubeconfig};
use super::fault_proxy::{HttpProxy, Protocol, Upstream};
use super::leash::Leash;
use super::pki::{Authority, PairFiles, token_key};
use super::ports::Port;
use super::tools::tool;
use super::wait_for;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

const START_WITHIN: Duration = Duration::from_secs(90);

/// What is wanted beyond etcd and kube-apiserver.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Controllers of kube-controller-manager to run, such as `garbage-collector-controller`, `namespace-controller`,
    /// `job-controller`, or `*` for all that are on by default. None: it is not started.
    pub controllers: Vec<String>,
    /// More flags for kube-apiserver, such as `--audit-policy-file=...`.
    pub apiserver_flags: Vec<String>,
}

/// A control plane that lives as long as this value. What can be done with its API server is in [`ApiServer`].
#[derive(Debug)]
pub struct ControlPlane {
    leash: Leash,
    api: ApiServer,
    authority: PathBuf,
    admin: PairFiles,
    ports: Vec<Port>,
}

impl ControlPlane {
    /// Starts one of its own for the caller. Ready when it returns.
    ///
    /// # Panics
    /// When a program is missing (the message says how to build it) or does not become ready.
    pub async fn start(options: Options) -> Self {
        let leash = Leash::new("control-plane");
        let ports: Vec<Port> = (0..4).map(|_| Port::take()).collect();
        let (port, controllers_port) = (ports[0].number(), ports[3].number());
        start_etcd(&leash, ports[1].number(), ports[2].number());
        let pki = Pki::make(&leash.folder().join("pki"));
        start_apiserver(&leash, &pki, port, ports[1].number(), &options.apiserver_flags);

        let kubeconfig = leash.folder().join("kubeconfig");
        write_kubeconfig(&kubeconfig, &admin_config(&pki, port));
        let api = ApiServer::new(&kubeconfig, leash.folder());
        wait_for("kube-apiserver to be ready", START_WITHIN, async || {
            leash.check();
            api.get("/readyz").await
        })
        .await;
        if !options.controllers.is_empty() {
            start_controllers(&leash, &pki, &kubeconfig, controllers_port, &options.controllers);
            // A client per probe: one that was refused once waits before it tries again.
            wait_for("kube-controller-manager to be healthy", START_WITHIN, async || {
                leash.check();
                get(&client(admin_config(&pki, controllers_port)).await, "/healthz").await
            })
            .await;
        }
        Self { leash, api, authority: pki.authority, admin: pki.admin, ports }
    }

    /// The one that tests of this process share; started by whoever asks first. It has no kube-controller-manager, so
    /// a deleted namespace stays in Terminating: give every test a [`ApiServer::namespace`] of its own.
    pub async fn shared() -> &'static Self {
        static SHARED: tokio::sync::OnceCell<ControlPlane> = tokio::sync::OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(Options::default())).await
    }

    /// The authority that signed the API server's certificate, as a PEM file.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// The folder of this instance: free for the caller's own files, which go away with it.
    pub fn folder(&self) -> &Path {
        self.leash.folder()
    }

    /// The daemons (`etcd`, `kube-apiserver`, `kube-controller-manager`), to kill and restart them.
    pub fn daemons(&self) -> &Leash {
        &self.leash
    }

    /// A proxy in front of the API server, and a kubeconfig of `who` that leads through it.
    pub async fn behind_proxy(&self, who: &Identity) -> (HttpProxy, PathBuf) {
        // A certificate goes before a token, so a service account's requests must be forwarded without one.
        let certificate = (!matches!(who, Identity::ServiceAccount { .. })).then(|| self.admin.clone());
        let proxy = HttpProxy::start(Upstream {
            address: self.address(),
            protocol: Protocol::Http1,
            authority: Some(self.authority.clone()),
            certificate,
        });
        let kubeconfig = self.api.kubeconfig_through(who, &proxy.url(), proxy.authority_pem()).await;
        (proxy, kubeconfig)
    }

    /// The API server's address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports[0].number()).into()
    }

    /// The ports that its daemons listen on.
    pub fn ports(&self) -> Vec<u16> {
        self.ports.iter().map(Port::number).collect()
    }

    /// Ends it; the same as dropping, but visible in the test.
    pub fn stop(self) {
        drop(self);
    }
}

impl Deref for ControlPlane {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.api
    }
}

struct Pki {
    authority: PathBuf,
    authority_key: PathBuf,
    admin: PairFiles,
    server: PairFiles,
    token_key: PathBuf,
    token_public: PathBuf,
}

impl Pki {
    fn make(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("create the folder of certificates");
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::write(&file, text).expect("write a certificate or key");
            file
        };
        let authority = Authority::new("bed-authority");
        let server = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let (token_private, token_public) = token_key();
        Self {
            authority: authority.write(&folder.join("ca.crt")),
            authority_key: write("ca.key", &authority.key()),
            // The controller manager serves with this one too, hence the address.
            admin: authority.issue("admin", Some("system:masters"), &["127.0.0.1"]).write(folder, "admin"),
            server: authority.issue("kube-apiserver", None, &server).write(folder, "apiserver"),
            token_key: write("sa.key", &token_private),
            token_public: write("sa.pub", &token_public),
        }
    }
}

fn start_etcd(leash: &Leash, client: u16, peer: u16) {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let flags = [
        "--name=bed".to_owned(),
        format!("--data-dir={}", leash.folder().join("etcd").display()),
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=bed={peer}"),
        "--log-level=warn".to_owned(),
    ];
    leash.start("etcd", &tool("etcd"), &flags, &[]);
}

fn start_apiserver(leash: &Leash, pki: &Pki, port: u16, etcd: u16, more: &[String]) {
    let mut flags = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        // Nobody reaches this API server through a Service, and loopback is no endpoint.
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--tls-cert-file={}", pki.server.certificate.display()),
        format!("--tls-private-key-file={}", pki.server.key.display()),
        format!("--client-ca-file={}", pki.authority.display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", pki.token_public.display()),
        format!("--service-account-signing-key-file={}", pki.token_key.display()),
        "--authorization-mode=RBAC".to_owned(),
        // Pods would wait for service accounts that no controller makes.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--profiling=false".to_owned(),
    ];
    flags.extend_from_slice(more);
    leash.start("kube-apiserver", &tool("kube-apiserver"), &flags, &[]);
}

fn start_controllers(leash: &Leash, pki: &Pki, kubeconfig: &Path, port: u16, names: &[String]) {
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", pki.admin.certificate.display()),
        format!("--tls-private-key-file={}", pki.admin.key.display()),
        "--authentication-skip-lookup=true".to_owned(),
        "--authorization-always-allow-paths=/healthz".to_owned(),
        "--leader-elect=false".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!("--service-account-private-key-file={}", pki.token_key.display()),
        format!("--root-ca-file={}", pki.authority.display()),
        format!("--cluster-signing-cert-file={}", pki.authority.display()),
        format!("--cluster-signing-key-file={}", pki.authority_key.display()),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        "--profiling=false".to_owned(),
        format!("--controllers={}", names.join(",")),
    ];
    leash.start("kube-controller-manager", &tool("kube-controller-manager"), &flags, &[]);
}

/// The administrator's kubeconfig for a server of this control plane.
fn admin_config(pki: &Pki, port: u16) -> Kubeconfig {
    let name = "bed".to_owned();
    let cluster = Cluster {
        server: Some(format!("https://127.0.0.1:{port}")),
        certificate_authority: Some(pki.authority.display().to_string()),
        ..Cluster::default()
    };
    let user = AuthInfo {
        client_certificate: Some(pki.admin.certificate.display().to_string()),
        client_key: Some(pki.admin.key.display().to_string()),
        ..AuthInfo::default()
    };
    let context = Context { cluster: name.clone(), user: Some(name.clone()), ..Context::default() };
    let other = BTreeMap::default();
    Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        current_context: Some(name.clone()),
        clusters: vec![NamedCluster { name: name.clone(), cluster: Some(cluster), other: other.clone() }],
        auth_infos: vec![NamedAuthInfo { name: name.clone(), auth_info: Some(user), other: other.clone() }],
        contexts: vec![NamedContext { name, context: Some(context), other }],
        ..Kubeconfig::default()
    }
}
