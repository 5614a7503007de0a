//! Where stories are told: a plane whose API server our server reaches through a proxy that can fail.

use crate::bed::api_server::Identity;
use crate::bed::etcd::Version;
use crate::bed::fault_proxy::HttpProxy;
use crate::bed::stand_in::Plane;
use crate::bed::stand_in::plane::Serve;
use crate::bed::wait_for;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Mutex;

/// The version of etcd in all stories.
pub const VERSION: Version = Version::V3_6;

/// A plane, and our server on it.
pub struct Scene {
    pub plane: Plane,
    pub proxy: HttpProxy,
    kubeconfig: PathBuf,
    controllers: String,
    serve: Mutex<Option<Serve>>,
}

impl Scene {
    /// Sets it up, with our server running these controllers.
    pub async fn start(controllers: &str) -> Self {
        let plane = Plane::start(&[VERSION]).await;
        let (proxy, kubeconfig) = plane.api.behind_proxy(&Identity::Admin).await;
        let controllers = format!("--controllers={controllers}");
        let this = Self { plane, proxy, kubeconfig, controllers, serve: Mutex::new(None) };
        *this.serve.lock().await = Some(this.another_server().await);
        this
    }

    /// Kills our server, and starts another one that may lead at once.
    pub async fn replace_server(&self) {
        let mut serve = self.serve.lock().await;
        if let Some(serve) = serve.take() {
            serve.process.kill().await;
        }
        self.plane.release_lease().await;
        *serve = Some(self.another_server().await);
    }

    /// The end of our server's log, for messages.
    pub async fn last_words(&self) -> String {
        self.serve.lock().await.as_ref().map(Serve::last_words).unwrap_or_default()
    }

    /// Whether our server is running.
    pub async fn is_served(&self) -> bool {
        self.serve.lock().await.as_ref().is_some_and(|serve| serve.process.running())
    }

    /// Applies objects; our server, whom the API server asks about them, may be on its way.
    pub async fn apply(&self, namespace: &str, yaml: &str) {
        let client = self.plane.client().await;
        wait_for("objects to be applied", Duration::from_mins(1), async || {
            self.plane.api.try_apply(&client, namespace, yaml).await.map(drop).map_err(|e| e.to_string())
        })
        .await;
    }

    /// Lets a namespace go, with all that is in it; does not wait for that.
    pub async fn strike(&self, namespace: &str) {
        let namespaces: Api<Namespace> = Api::all(self.plane.client().await);
        let deleted = namespaces.delete(namespace, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|e| panic!("delete namespace {namespace}: {e}"));
    }

    async fn another_server(&self) -> Serve {
        let serve = self.plane.serve_by(&self.kubeconfig, &[&self.controllers]).await;
        serve.wait_ready().await;
        serve
    }
}
