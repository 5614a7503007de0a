//! The admission server's part of `serve`: its flags, and what is found out before it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::admission::registration::build::Endpoint;
use crate::admission::tls::{Source, Store};
use crate::admission::{Parts, Settings, serve as serve_admission};

/// Name of the Secret that holds the authority, and of the Service by default.
const NAME: &str = "etcd-warden-webhook";

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
    /// Directory with tls.crt, tls.key and ca.crt that somebody else renews, instead of an authority of our own.
    #[arg(long, env = "ETCD_WARDEN_CERTIFICATE_DIR", conflicts_with = "authority_dir")]
    pub certificate_dir: Option<PathBuf>,
    /// User name that may write what only this program should, such as upstream's controllers; may be repeated.
    #[arg(long, env = "ETCD_WARDEN_TRUSTED_WRITERS", value_delimiter = ',')]
    pub trusted_writer: Vec<String>,
    /// Folder with policies besides those that come with the program (ValidatingAdmissionPolicy documents); may be
    /// repeated. They are taken up again when they change.
    #[arg(long, env = "ETCD_WARDEN_POLICY_DIRS", value_name = "FOLDER", value_delimiter = ',')]
    pub policy_dir: Vec<PathBuf>,
    /// ClusterRole of this installation that owns the webhook configurations: deleted together, they never outlive who
    /// would answer.
    #[arg(long, env = "ETCD_WARDEN_WEBHOOK_OWNER", value_name = "CLUSTERROLE")]
    pub webhook_owner: Option<String>,
    /// Seconds without a request after which a stopping admission server closes.
    #[arg(long, default_value_t = 3, env = "ETCD_WARDEN_QUIET_SECONDS")]
    pub quiet_seconds: u64,
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
    /// Settings of the admission server, for a process in this namespace.
    fn settings(&self, client: &Client, namespace: &str, own_user: Option<String>) -> Settings {
        let endpoint = match &self.webhook_url {
            Some(url) => Endpoint::Url(url.clone()),
            None => Endpoint::Service {
                namespace: namespace.to_owned(),
                name: self.webhook_service.name.clone(),
                port: self.webhook_service.port.into(),
            },
        };
        let certificate = match (&self.certificate_dir, &self.authority_dir) {
            (Some(directory), _) => Source::Files {
                certificate: directory.join("tls.crt"),
                key: directory.join("tls.key"),
                bundle: directory.join("ca.crt"),
            },
            (None, Some(directory)) => {
                Source::SelfManaged { store: Store::Directory(directory.clone()), names: endpoint.names() }
            }
            (None, None) => Source::SelfManaged {
                store: Store::Secret { client: client.clone(), namespace: namespace.to_owned(), name: NAME.to_owned() },
                names: endpoint.names(),
            },
        };
        Settings {
            address: self.webhook_address,
            certificate,
            endpoint,
            namespace: namespace.to_owned(),
            own_user,
            owner_role: self.webhook_owner.clone(),
            trusted_writers: self.trusted_writer.clone(),
            policy_folders: self.policy_dir.clone(),
            quiet: Duration::from_secs(self.quiet_seconds),
        }
    }
}

/// Runs the admission server until shutdown.
pub async fn run(
    flags: &Flags,
    namespace: &str,
    parts: Parts,
    stop: tokio_util::sync::CancellationToken,
) -> Result<(), crate::admission::Error> {
    let own_name = own_name(&parts.client).await;
    let account = own_name.clone().filter(|name| name.starts_with("system:serviceaccount:"));
    let mut settings = flags.settings(&parts.client, namespace, account);
    settings.trusted_writers.extend(own_name);
    serve_admission(settings, parts, stop).await
}

/// The user name that the API server knows us by. What we write is trusted; but only a service account's requests need
/// not be asked about: a person whose name we run under does other things, too.
async fn own_name(client: &Client) -> Option<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = match api.create(&PostParams::default(), &SelfSubjectReview::default()).await {
        Ok(review) => review,
        Err(error) => {
            tracing::warn!(error = crate::k8s::error::message(&error), "not found out who we are to the API server");
            return None;
        }
    };
    review.status?.user_info?.username
}
