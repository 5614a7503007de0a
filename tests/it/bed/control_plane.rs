//! A Kubernetes without nodes: etcd, kube-apiserver and, on request, kube-controller-manager.

use super::leash::Leash;
use super::pki::{Authority, PairFiles, token_key};
use super::ports::Port;
use super::tools::tool;
use super::{use_ring, wait_for};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const START_WITHIN: Duration = Duration::from_secs(90);
const FIELD_MANAGER: &str = "test-bed";

/// What is wanted beyond etcd and kube-apiserver.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Controllers of kube-controller-manager to run, such as `garbage-collector-controller`, `namespace-controller`,
    /// `job-controller`, or `*` for all that are on by default. None: it is not started.
    pub controllers: Vec<String>,
    /// More flags for kube-apiserver, such as `--audit-policy-file=...`.
    pub apiserver_flags: Vec<String>,
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A member of system:masters.
    Admin,
    /// A user with groups; what it may do is what RBAC gives it.
    User {
        /// The name.
        name: String,
        /// The groups besides system:authenticated.
        groups: Vec<String>,
    },
    /// A service account, which must exist; the client gets a token of it.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// A control plane that lives as long as this value.
#[derive(Debug)]
pub struct ControlPlane {
    leash: Leash,
    port: Port,
    other_ports: Vec<Port>,
    admin: PairFiles,
    authority: PathBuf,
    kubeconfig: PathBuf,
    kinds: Mutex<HashMap<GroupVersionKind, (kube::core::ApiResource, bool)>>,
}

impl ControlPlane {
    /// Starts one of its own for the caller. Ready when it returns.
    ///
    /// # Panics
    /// When a program is missing (the message says how to build it) or does not become ready.
    pub async fn start(options: Options) -> Self {
        use_ring();
        let leash = Leash::new("control-plane");
        let (port, etcd, peer) = (Port::take(), Port::take(), Port::take());
        start_etcd(&leash, etcd.number(), peer.number());
        let pki = Pki::make(&leash.folder().join("pki"));
        start_apiserver(&leash, &pki, port.number(), etcd.number(), &options.apiserver_flags);
        let this = Self {
            kubeconfig: leash.folder().join("kubeconfig"),
            leash,
            port,
            other_ports: vec![etcd, peer],
            admin: pki.admin,
            authority: pki.authority,
            kinds: Mutex::default(),
        };
        write_kubeconfig(&this.kubeconfig, &this.file_config(this.admin_auth()));
        this.wait_ready().await;
        if options.controllers.is_empty() {
            return this;
        }
        this.start_controllers(&options.controllers, &pki.token_key, &pki.authority_key).await
    }

    /// The one that tests of this process share; started by whoever asks first. It has no kube-controller-manager, so
    /// a deleted namespace stays in Terminating: give every test a [`ControlPlane::namespace`] of its own.
    pub async fn shared() -> &'static Self {
        static SHARED: tokio::sync::OnceCell<ControlPlane> = tokio::sync::OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(Options::default())).await
    }

    /// The path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The address of the API server.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port.number())
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

    /// A client as the administrator. Clients belong to the runtime they are made in, so every test makes its own.
    pub async fn client(&self) -> Client {
        client(self.file_config(self.admin_auth())).await
    }

    /// A client as somebody.
    pub async fn client_as(&self, who: &Identity) -> Client {
        client(self.kubeconfig_of(who).await).await
    }

    /// Writes a kubeconfig for somebody, for use by another process.
    pub async fn kubeconfig_as(&self, who: &Identity) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let file = self.folder().join(format!("kubeconfig-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        write_kubeconfig(&file, &self.kubeconfig_of(who).await);
        file
    }

    /// Creates a namespace whose name starts with `prefix` and is used by nobody else.
    pub async fn namespace(&self, prefix: &str) -> String {
        let object = k8s_openapi::api::core::v1::Namespace {
            metadata: kube::core::ObjectMeta { generate_name: Some(format!("{prefix}-")), ..Default::default() },
            ..Default::default()
        };
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client().await);
        let created = api.create(&PostParams::default(), &object).await.expect("create a namespace");
        created.metadata.name.expect("a created object has a name")
    }

    /// Applies every object of a YAML text (server-side, as the administrator). Objects without a namespace go to
    /// `namespace`.
    ///
    /// # Panics
    /// When one is refused.
    pub async fn apply(&self, namespace: &str, yaml: &str) -> Vec<DynamicObject> {
        self.try_apply(&self.client().await, namespace, yaml).await.expect("apply")
    }

    /// As [`ControlPlane::apply`] with a client of choice, giving the first refusal to the caller.
    pub async fn try_apply(
        &self,
        client: &Client,
        namespace: &str,
        yaml: &str,
    ) -> Result<Vec<DynamicObject>, kube::Error> {
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(yaml).expect("YAML objects");
        let mut applied = Vec::new();
        for object in objects {
            let types = object.types.clone().expect("apiVersion and kind");
            let gvk = GroupVersionKind::try_from(&types).expect("apiVersion as group/version");
            let (resource, namespaced) = self.kind(client, &gvk).await;
            let namespace = object.metadata.namespace.clone().unwrap_or_else(|| namespace.to_owned());
            let api: Api<DynamicObject> = if namespaced {
                Api::namespaced_with(client.clone(), &namespace, &resource)
            } else {
                Api::all_with(client.clone(), &resource)
            };
            let name = object.metadata.name.clone().expect("metadata.name");
            applied.push(api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&object)).await?);
        }
        Ok(applied)
    }

    /// Ends it; the same as dropping, but visible in the test.
    pub fn stop(self) {
        drop(self);
    }

    /// What a kind is called on the wire; waits a moment for a CustomResourceDefinition that was just applied.
    async fn kind(&self, client: &Client, gvk: &GroupVersionKind) -> (kube::core::ApiResource, bool) {
        let known = self.kinds.lock().expect("no panic while locked").get(gvk).cloned();
        if let Some(known) = known {
            return known;
        }
        let what = format!("{} {} to be served", gvk.api_version(), gvk.kind);
        let (resource, capabilities) = wait_for(what, Duration::from_secs(20), async || {
            kube::discovery::pinned_kind(client, gvk).await.map_err(|e| e.to_string())
        })
        .await;
        let found = (resource, capabilities.scope == kube::discovery::Scope::Namespaced);
        self.kinds.lock().expect("no panic while locked").insert(gvk.clone(), found.clone());
        found
    }

    async fn wait_ready(&self) {
        let client = self.client().await;
        wait_for("kube-apiserver to be ready", START_WITHIN, async || {
            self.leash.check();
            get_text(&client, "/readyz").await
        })
        .await;
    }

    async fn start_controllers(mut self, names: &[String], token_key: &Path, authority_key: &Path) -> Self {
        let port = Port::take();
        let flags = [
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", port.number()),
            format!("--tls-cert-file={}", self.admin.certificate.display()),
            format!("--tls-private-key-file={}", self.admin.key.display()),
            "--authentication-skip-lookup=true".to_owned(),
            "--authorization-always-allow-paths=/healthz".to_owned(),
            "--leader-elect=false".to_owned(),
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-account-private-key-file={}", token_key.display()),
            format!("--root-ca-file={}", self.authority.display()),
            format!("--cluster-signing-cert-file={}", self.authority.display()),
            format!("--cluster-signing-key-file={}", authority_key.display()),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--profiling=false".to_owned(),
            format!("--controllers={}", names.join(",")),
        ];
        self.leash.start("kube-controller-manager", &tool("kube-controller-manager"), &flags, &[]);
        let mut config = self.file_config(self.admin_auth());
        for cluster in &mut config.clusters {
            if let Some(cluster) = &mut cluster.cluster {
                cluster.server = Some(format!("https://127.0.0.1:{}", port.number()));
            }
        }
        let client = client(config).await;
        wait_for("kube-controller-manager to be healthy", START_WITHIN, async || {
            self.leash.check();
            get_text(&client, "/healthz").await
        })
        .await;
        self.other_ports.push(port);
        self
    }

    async fn kubeconfig_of(&self, who: &Identity) -> Kubeconfig {
        let auth = match who {
            Identity::Admin => self.admin_auth(),
            Identity::User { name, groups } => AuthInfo {
                impersonate: Some(name.clone()),
                impersonate_groups: Some(groups.clone()),
                ..self.admin_auth()
            },
            Identity::ServiceAccount { namespace, name } => {
                AuthInfo { token: Some(self.token(namespace, name).await.into()), ..AuthInfo::default() }
            }
        };
        self.file_config(auth)
    }

    async fn token(&self, namespace: &str, name: &str) -> String {
        use k8s_openapi::api::authentication::v1::TokenRequest;
        let api: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(self.client().await, namespace);
        let request = TokenRequest::default();
        let answer = api
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .unwrap_or_else(|e| panic!("a token of service account {namespace}/{name}: {e}"));
        answer.status.expect("a token request is answered in its status").token
    }

    fn admin_auth(&self) -> AuthInfo {
        AuthInfo {
            client_certificate: Some(self.admin.certificate.display().to_string()),
            client_key: Some(self.admin.key.display().to_string()),
            ..AuthInfo::default()
        }
    }

    fn file_config(&self, auth: AuthInfo) -> Kubeconfig {
        let name = "bed".to_owned();
        Kubeconfig {
            kind: Some("Config".to_owned()),
            api_version: Some("v1".to_owned()),
            current_context: Some(name.clone()),
            clusters: vec![NamedCluster {
                name: name.clone(),
                cluster: Some(Cluster {
                    server: Some(self.url()),
                    certificate_authority: Some(self.authority.display().to_string()),
                    ..Cluster::default()
                }),
                other: BTreeMap::default(),
            }],
            auth_infos: vec![NamedAuthInfo { name: name.clone(), auth_info: Some(auth), other: BTreeMap::default() }],
            contexts: vec![NamedContext {
                name: name.clone(),
                context: Some(Context { cluster: name.clone(), user: Some(name), ..Context::default() }),
                other: BTreeMap::default(),
            }],
            ..Kubeconfig::default()
        }
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

async fn client(kubeconfig: Kubeconfig) -> Client {
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a kubeconfig");
    // Loopback: a proxy from the environment would only be in the way.
    config.proxy_url = None;
    Client::try_from(config).expect("a client")
}

async fn get_text(client: &Client, path: &str) -> Result<String, String> {
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    client.request_text(request).await.map_err(|e| e.to_string())
}

fn write_kubeconfig(file: &Path, config: &Kubeconfig) {
    // JSON is YAML.
    let text = serde_json::to_string_pretty(config).expect("a kubeconfig as JSON");
    std::fs::write(file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
}
