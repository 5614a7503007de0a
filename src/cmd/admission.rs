//! The admission server's part of `serve`: its flags, and what is found out before it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;

use super::check;
use super::values::without_blanks;
use crate::admission::registration::build::Endpoint;
use crate::admission::tls::{self, Source, Store, Times};
use crate::admission::{Cluster, Settings, Surroundings};
use crate::checks::Objects;
use crate::k8s::leases::Leases;
use crate::rules::s3::Place;
use crate::runtime::readiness::Gate;

/// Name of the Secret that holds the authority, and of the Service by default.
const NAME: &str = "etcd-warden-webhook";

/// Pause before the API server is asked again who we are, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Flags of the admission server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Admission")]
pub struct Flags {
    /// Address of the admission server.
    #[arg(long, default_value = "0.0.0.0:9443", env = "ETCD_WARDEN_WEBHOOK_ADDRESS")]
    pub webhook_address: SocketAddr,
    /// How the API server reaches this process when it runs outside the cluster: https://HOST:PORT.
    #[arg(long, env = "ETCD_WARDEN_WEBHOOK_URL", conflicts_with = "webhook_service", value_parser = webhook_url)]
    pub webhook_url: Option<String>,
    /// Service through which the API server reaches this process: NAME[:PORT], in this process' namespace.
    #[arg(long, default_value = NAME, env = "ETCD_WARDEN_WEBHOOK_SERVICE", value_parser = webhook_service)]
    pub webhook_service: ServiceName,
    /// Where the authority is kept when this process runs outside the cluster; made where there is none.
    #[arg(long, env = "ETCD_WARDEN_AUTHORITY_DIR", requires = "webhook_url")]
    pub authority_dir: Option<PathBuf>,
    /// Directory with tls.crt, tls.key and, unless a public authority signed them, ca.crt, which somebody else renews,
    /// instead of an authority of our own: given files, or a mounted Secret of cert-manager's.
    #[arg(long, env = "ETCD_WARDEN_CERTIFICATE_DIR", conflicts_with = "authority_dir")]
    pub certificate_dir: Option<PathBuf>,
    /// PEM file of the authorities that sign the API servers' client certificates; callers without such a certificate
    /// are then turned away.
    #[arg(long, env = "ETCD_WARDEN_WEBHOOK_CLIENT_CA", value_name = "FILE")]
    pub webhook_client_ca: Option<PathBuf>,
    /// User name that may write what only this program should, such as upstream's controllers; may be repeated.
    #[arg(long, env = "ETCD_WARDEN_TRUSTED_WRITERS", value_delimiter = ',', value_parser = without_blanks)]
    pub trusted_writer: Vec<String>,
    /// Folder with policies besides those that come with the program (ValidatingAdmissionPolicy documents); may be
    /// repeated. They are taken up again when they change.
    #[arg(long, env = "ETCD_WARDEN_POLICY_DIRS", value_name = "FOLDER", value_delimiter = ',')]
    pub policy_dir: Vec<PathBuf>,
    /// S3 store that credentials which a strategy names may be used with, though the strategy does not yield it: where
    /// older backups lie, for one. May be repeated.
    #[arg(long, env = "ETCD_WARDEN_TRUSTED_STORES", value_name = "ENDPOINT[/BUCKET]", value_delimiter = ',')]
    pub trusted_store: Vec<Place>,
    /// ClusterRole of this installation that owns the webhook configurations: deleted together, they never outlive who
    /// would answer.
    #[arg(long, env = "ETCD_WARDEN_WEBHOOK_OWNER", value_name = "CLUSTERROLE", value_parser = without_blanks)]
    pub webhook_owner: Option<String>,
    /// What the rollout is called that this process belongs to. Webhook configurations that somebody deleted are not made
    /// again by another process of the same rollout; without it by none before the next start.
    #[arg(long, env = "ETCD_WARDEN_ROLLOUT", value_name = "NAME")]
    pub rollout: Option<String>,
    /// Seconds without a request after which a stopping admission server closes.
    #[arg(long, default_value_t = 5, env = "ETCD_WARDEN_QUIET_SECONDS")]
    pub quiet_seconds: u64,
    /// Serve without a cluster: no registration and no controllers. Other objects are those of --context.
    #[arg(long, conflicts_with_all = ["webhook_owner", "rollout"])]
    pub standalone: bool,
    /// File or directory of the other objects that a standalone server knows, ConfigMaps for the parameters of policies
    /// among them; may be repeated.
    #[arg(long, value_name = "PATH", requires = "standalone")]
    pub context: Vec<PathBuf>,
    /// Seconds that an authority lives, that a leaf lives, that a bundle takes to every API server, and between two looks
    /// at the source: for tests that cannot wait for days.
    #[arg(long, hide = true, value_parser = times, default_value = "")]
    pub certificate_times: Times,
}

fn times(text: &str) -> Result<Times, String> {
    if text.is_empty() {
        return Ok(Times::default());
    }
    let seconds: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
    match seconds.as_deref() {
        Ok(&[authority, leaf, spread, recheck]) => Ok(Times {
            authority: Duration::from_secs(authority),
            leaf: Duration::from_secs(leaf),
            spread: Duration::from_secs(spread),
            recheck: Duration::from_secs(recheck),
        }),
        _ => Err("expected four numbers of seconds".to_owned()),
    }
}

/// A Service and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    name: String,
    port: u16,
}

fn webhook_url(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', '@']) => Ok(text.to_owned()),
        _ => Err("expected https://HOST:PORT".to_owned()),
    }
}

fn webhook_service(text: &str) -> Result<ServiceName, String> {
    let (name, port) = text.split_once(':').unwrap_or((text, "443"));
    let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
    if name.is_empty() {
        return Err("expected NAME or NAME:PORT".to_owned());
    }
    Ok(ServiceName { name: name.to_owned(), port })
}

impl Flags {
    /// Settings of a server in this namespace of a cluster.
    ///
    /// Who we are to the API server is asked until it says so, and told to the gate meanwhile: a process that does not
    /// know its own name takes itself for a stranger.
    pub async fn in_cluster(
        &self,
        client: &Client,
        namespace: &str,
        leases: Leases,
        gate: &Gate,
    ) -> (Settings, Surroundings) {
        let endpoint = match &self.webhook_url {
            Some(url) => Endpoint::Url(url.clone()),
            None => Endpoint::Service {
                namespace: namespace.to_owned(),
                name: self.webhook_service.name.clone(),
                port: self.webhook_service.port.into(),
            },
        };
        let shared = Store::Secret { client: client.clone(), namespace: namespace.to_owned(), name: NAME.to_owned() };
        let own_name = own_name(client, gate).await;
        let mut settings = self.settings(shared, endpoint.names());
        settings.trusted_writers.extend(own_name.clone());
        let cluster = Cluster {
            client: client.clone(),
            endpoint,
            namespace: namespace.to_owned(),
            own_user: own_name.filter(|name| name.starts_with("system:serviceaccount:")),
            owner_role: self.webhook_owner.clone(),
            rollout: self.rollout.clone().filter(|rollout| !rollout.is_empty()),
            leases,
            trusted_stores: self.trusted_store.clone(),
        };
        (settings, Surroundings::Cluster(Box::new(cluster)))
    }

    /// Settings of a server that knows no cluster. An error says which of the context could not be read.
    pub fn standalone(&self) -> Result<(Settings, Surroundings), Vec<String>> {
        let names = match &self.webhook_url {
            Some(url) => Endpoint::Url(url.clone()).names(),
            None => ["localhost", "127.0.0.1", "::1"].map(ToOwned::to_owned).to_vec(),
        };
        let mut unreadable = Vec::new();
        let read = self.context.iter().flat_map(|path| check::read_path(path, &mut unreadable));
        let objects: Vec<Value> = read.map(|placed| placed.object).collect();
        if !unreadable.is_empty() {
            return Err(unreadable);
        }
        let (parameters, objects): (Vec<_>, Vec<_>) = objects.into_iter().partition(check::is_config_map);
        let lookup = objects.into_iter().collect::<Objects>().trusting(self.trusted_store.clone());
        let surroundings = Surroundings::Objects {
            lookup: Arc::new(lookup),
            parameters: parameters.into_iter().map(Arc::new).collect(),
        };
        Ok((self.settings(Store::Memory, names), surroundings))
    }

    fn settings(&self, store: Store, names: Vec<String>) -> Settings {
        let source = match (&self.certificate_dir, &self.authority_dir) {
            (Some(directory), _) => Source::Files(directory.clone()),
            (None, Some(directory)) => Source::SelfManaged(Store::Directory(directory.clone())),
            (None, None) => Source::SelfManaged(store),
        };
        Settings {
            address: self.webhook_address,
            certificate: tls::Settings {
                source,
                names,
                times: self.certificate_times,
                client_authorities: self.webhook_client_ca.clone(),
            },
            trusted_writers: self.trusted_writer.clone(),
            policy_folders: self.policy_dir.clone(),
            quiet: Duration::from_secs(self.quiet_seconds),
        }
    }
}

/// The user name that the API server knows us by. What we write is trusted; but only a service account's requests need
/// not be asked about: a person whose name we run under does other things, too.
async fn own_name(client: &Client, gate: &Gate) -> Option<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match api.create(&PostParams::default(), &SelfSubjectReview::default()).await {
            Ok(review) => {
                gate.ready();
                return review.status?.user_info?.username;
            }
            Err(error) => error,
        };
        let why = crate::k8s::error::message(&error);
        // An API server that will not say so today will not tomorrow.
        if matches!(&error, kube::Error::Api(status) if matches!(status.code, 403..=405)) {
            tracing::warn!(
                error = why,
                "the API server does not tell who we are; our own writes are judged like others'"
            );
            gate.ready();
            return None;
        }
        tracing::warn!(error = why, "not found out yet who we are to the API server; trying again");
        gate.not_ready(format!("the API server has not told who we are: {why}"));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use crate::runtime::readiness::Readiness;

    /// An API server that fails so often, each time with this status, and then says who we are.
    async fn asked(failures: usize, code: u16) -> (Option<String>, usize) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let fails = counted.fetch_add(1, Ordering::SeqCst) < failures;
            let (code, body) = if fails {
                (code, serde_json::json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"}))
            } else {
                (201, serde_json::json!({"status": {"userInfo": {"username": "system:serviceaccount:a:b"}}}))
            };
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        let readiness = Readiness::default();
        let gate = readiness.gate("identity");
        let name = own_name(&Client::new(service, "default"), &gate).await;
        assert_eq!(readiness.missing(), []);
        (name, count.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn who_we_are_is_asked_until_it_is_answered() {
        let ours = Some("system:serviceaccount:a:b".to_owned());
        assert_eq!(asked(2, 503).await, (ours, 3));
        assert_eq!(asked(9, 403).await, (None, 1));
    }
}
