//! Talking to an API server of the bed: clients of different identities, applying manifests.

use super::{use_ring, wait_for};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind, ObjectMeta};
use kube::{Client, Config};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FIELD_MANAGER: &str = "test-bed";

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

/// An API server and the administrator's way to it.
#[derive(Debug)]
pub struct ApiServer {
    file: PathBuf,
    admin: Kubeconfig,
    folder: PathBuf,
    kinds: Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>,
}

impl ApiServer {
    /// From the administrator's kubeconfig; `folder` is where kubeconfigs of others are written.
    pub fn new(kubeconfig: &Path, folder: &Path) -> Self {
        use_ring();
        let admin = Kubeconfig::read_from(kubeconfig).unwrap_or_else(|e| panic!("{}: {e}", kubeconfig.display()));
        Self { file: kubeconfig.to_owned(), admin, folder: folder.to_owned(), kinds: Mutex::default() }
    }

    /// The path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.file
    }

    /// The address of the API server, `https://host:port`.
    pub fn url(&self) -> String {
        let cluster = self.admin.clusters.first().and_then(|c| c.cluster.as_ref());
        cluster.and_then(|c| c.server.clone()).expect("a kubeconfig of the bed names its server")
    }

    /// A client as the administrator. Clients belong to the runtime they are made in, so every test makes its own.
    pub async fn client(&self) -> Client {
        client(self.admin.clone()).await
    }

    /// A client as somebody.
    pub async fn client_as(&self, who: &Identity) -> Client {
        client(self.kubeconfig_of(who).await).await
    }

    /// Writes a kubeconfig for somebody, for use by another process.
    pub async fn kubeconfig_as(&self, who: &Identity) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = self.folder.join(format!("kubeconfig-{}-{count}", std::process::id()));
        write_kubeconfig(&file, &self.kubeconfig_of(who).await);
        file
    }

    /// The same for a way that leads through `url`, whose certificate this authority (PEM) signed.
    pub async fn kubeconfig_through(&self, who: &Identity, url: &str, authority: &str) -> PathBuf {
        let file = self.kubeconfig_as(who).await;
        let authority_file = file.with_extension("crt");
        std::fs::write(&authority_file, authority).expect("write the authority of a proxy");
        let mut config = Kubeconfig::read_from(&file).expect("a kubeconfig that was just written");
        for cluster in config.clusters.iter_mut().filter_map(|c| c.cluster.as_mut()) {
            cluster.server = Some(url.to_owned());
            cluster.certificate_authority_data = None;
            cluster.certificate_authority = Some(authority_file.display().to_string());
        }
        write_kubeconfig(&file, &config);
        file
    }

    /// Creates a namespace whose name starts with `prefix` and is used by nobody else.
    pub async fn namespace(&self, prefix: &str) -> String {
        let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() };
        let object = Namespace { metadata, ..Namespace::default() };
        let api: Api<Namespace> = Api::all(self.client().await);
        let created = api.create(&PostParams::default(), &object).await.expect("create a namespace");
        created.metadata.name.expect("a created object has a name")
    }

    /// Applies every object of a YAML text (server-side, as the administrator). Objects without a namespace go to
    /// `namespace`.
    ///
    /// # Panics
    /// When one is refused.
    pub async fn apply(&self, namespace: &str, yaml: &str) -> Vec<DynamicObject> {
        self.try_apply(&self.client().await, namespace, yaml).await.unwrap_or_else(|e| panic!("apply: {e}"))
    }

    /// As [`ApiServer::apply`] with a client of choice, giving the first refusal to the caller.
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

    /// Gives the answer to a GET of a path, or why there is none.
    pub async fn get(&self, path: &str) -> Result<String, String> {
        get(&self.client().await, path).await
    }

    /// What a kind is called on the wire; waits a moment for a CustomResourceDefinition that was just applied.
    async fn kind(&self, client: &Client, gvk: &GroupVersionKind) -> (ApiResource, bool) {
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

    async fn kubeconfig_of(&self, who: &Identity) -> Kubeconfig {
        let admin = self.admin.auth_infos.first().and_then(|a| a.auth_info.clone()).expect("a user in the kubeconfig");
        let auth = match who {
            Identity::Admin => admin,
            Identity::User { name, groups } => {
                AuthInfo { impersonate: Some(name.clone()), impersonate_groups: Some(groups.clone()), ..admin }
            }
            Identity::ServiceAccount { namespace, name } => {
                AuthInfo { token: Some(self.token(namespace, name).await.into()), ..AuthInfo::default() }
            }
        };
        let mut config = self.admin.clone();
        config.auth_infos[0].auth_info = Some(auth);
        config
    }

    async fn token(&self, namespace: &str, name: &str) -> String {
        let api: Api<ServiceAccount> = Api::namespaced(self.client().await, namespace);
        let answer = api
            .create_token_request(name, &PostParams::default(), &TokenRequest::default())
            .await
            .unwrap_or_else(|e| panic!("a token of service account {namespace}/{name}: {e}"));
        answer.status.expect("a token request is answered in its status").token
    }
}

/// A client by a kubeconfig.
pub async fn client(kubeconfig: Kubeconfig) -> Client {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a kubeconfig of the bed is complete");
    // The bed is on this host: a proxy from the environment would only be in the way.
    config.proxy_url = None;
    Client::try_from(config).expect("a client")
}

/// The answer to a GET of a path, or why there is none.
pub async fn get(client: &Client, path: &str) -> Result<String, String> {
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    client.request_text(request).await.map_err(|e| e.to_string())
}

/// Writes a kubeconfig as JSON, which is YAML too.
pub fn write_kubeconfig(file: &Path, config: &Kubeconfig) {
    let text = serde_json::to_string_pretty(config).expect("a kubeconfig as JSON");
    std::fs::write(file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
}
