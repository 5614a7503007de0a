//! `etcd-warden serve`: admission, controllers and admin endpoints in one process.

use std::net::SocketAddr;

use clap::Args;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::runtime::{admin, leader, metrics::Metrics, readiness::Readiness, shutdown, telemetry};

/// Name of the Lease that the controllers' leader holds.
const LEASE: &str = "etcd-warden";

/// Settings of `serve`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Address of the admin endpoints: /healthz, /readyz, /metrics.
    #[arg(long, default_value = "0.0.0.0:8081", env = "ETCD_WARDEN_ADMIN_ADDRESS")]
    pub admin_address: SocketAddr,
    /// What is logged, in the syntax of RUST_LOG.
    #[arg(long, default_value = "info", env = "ETCD_WARDEN_LOG_LEVEL")]
    pub log_level: String,
    /// How it is logged.
    #[arg(long, value_enum, default_value_t, env = "ETCD_WARDEN_LOG_FORMAT")]
    pub log_format: telemetry::LogFormat,
    /// Namespace of this process: of its Lease and its Secrets.
    #[arg(long, default_value = "etcd-warden-system", env = "POD_NAMESPACE")]
    pub namespace: String,
    /// What this process calls itself; unique among replicas.
    #[arg(long, env = "POD_NAME", default_value_t = identity())]
    pub identity: String,
}

/// Why serving could not start, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime could not start.
    #[error("cannot start the asynchronous runtime")]
    Runtime(#[source] std::io::Error),
    /// Logging could not start.
    #[error("cannot start logging")]
    Logging(#[source] telemetry::InitError),
    /// Signals could not be watched.
    #[error("cannot watch for signals")]
    Signals(#[source] std::io::Error),
    /// The API server's address or credentials could not be found.
    #[error(
        "cannot find out how to reach the API server; inside a cluster a service account is needed, outside set KUBECONFIG"
    )]
    Kubeconfig(#[source] kube::Error),
    /// A metric could not be registered.
    #[error("cannot register metrics")]
    Metrics(#[source] prometheus::Error),
    /// An address could not be listened on.
    #[error("cannot listen")]
    Listen(#[source] admin::ListenError),
    /// The admin endpoints ended.
    #[error("the admin endpoints ended")]
    Admin(#[source] std::io::Error),
}

/// The host's name and the process id: unique enough among processes that no Pod name tells apart.
fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{}", std::process::id())
}

/// Runs until a signal, or until a part fails that the process cannot do without.
pub fn run(settings: Settings) -> Result<(), Error> {
    telemetry::init(&settings.log_level, settings.log_format).map_err(Error::Logging)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Error> {
    let stop = shutdown::on_signal().map_err(Error::Signals)?;
    let metrics = Metrics::new("etcd_warden", env!("CARGO_PKG_VERSION")).map_err(Error::Metrics)?;
    let readiness = Readiness::default();
    let client = Client::try_default().await.map_err(Error::Kubeconfig)?;

    let listener = admin::listen(settings.admin_address).await.map_err(Error::Listen)?;
    info!(address = %settings.admin_address, "admin endpoints");
    let admin = admin::serve(listener, admin::router(readiness.clone(), metrics.clone()), stop.clone());
    let controllers = lead(client, settings, stop.clone());
    let (admin, ()) = tokio::join!(admin, controllers);
    admin.map_err(Error::Admin)
}

/// Runs the controllers whenever this process leads; a lost leadership ends them and waits for the next one.
async fn lead(client: Client, settings: Settings, stop: CancellationToken) {
    let lease = leader::Settings::new(&settings.namespace, LEASE, &settings.identity);
    while let Some(leadership) = leader::acquire(client.clone(), lease.clone(), stop.clone()).await {
        let lost = leadership.lost();
        lost.cancelled().await;
        leadership.ended().await;
        if stop.is_cancelled() {
            return;
        }
    }
}
