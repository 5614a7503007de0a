//! The server as a whole: certificate, listener, caches, registration, and a stop that drops nobody.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum_server::Handle;
use axum_server::tls_rustls::RustlsAcceptor;
use kube::Client;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::cache::Caches;
use super::metrics::Metrics;
use super::policies::{self, Keeper};
use super::registration::Registration;
use super::registration::build::Endpoint;
use super::router::{Drain, Service, router};
use super::tls::{self, Serving, Trust};
use super::writers::Writers;
use crate::policy::InForce;
use crate::runtime::metrics::Metrics as Registry;
use crate::runtime::readiness::{Gate, Readiness};

/// Idle connections are kept for longer than the API server keeps them (90 s): a connection that we close just when it
/// is used again is a failed admission.
const IDLE: Duration = Duration::from_mins(2);
/// A client that has connected must have said hello within this.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long requests that are being answered at the very end may still take.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// Large reviews judged at a time.
const LARGE_AT_A_TIME: usize = 4;

/// Settings of the admission server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Where the serving certificate comes from.
    pub certificate: tls::Source,
    /// How the API server reaches us.
    pub endpoint: Endpoint,
    /// Namespace of this process, in which the self-check asks.
    pub namespace: String,
    /// Our own service account's user name, if we run under one.
    pub own_user: Option<String>,
    /// Name of the ClusterRole that owns the webhook configurations.
    pub owner_role: Option<String>,
    /// Others who may write what only we should.
    pub trusted_writers: Vec<String>,
    /// Folders with policies besides our own.
    pub policy_folders: Vec<PathBuf>,
    /// After the signal to stop, requests are answered until none came for this long.
    pub quiet: Duration,
}

/// What the server shares with the rest of the process.
#[derive(Clone)]
pub struct Parts {
    /// Reads other objects and writes the registration.
    pub client: Client,
    /// Told when the server is ready.
    pub readiness: Readiness,
    /// Told what the server does.
    pub metrics: Registry,
    /// The policies by which everything is judged; the server keeps them up to date.
    pub policies: InForce,
}

/// Why the server could not start, or ended badly.
#[derive(Debug, Error)]
pub enum Error {
    /// No certificate to serve.
    #[error("admission has no certificate to serve")]
    Certificate(#[from] tls::Error),
    /// The address could not be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Policies could not be taken up.
    #[error("--policy-dir")]
    Policies(#[from] policies::Error),
    /// A metric could not be registered.
    #[error("cannot register metrics")]
    Metrics(#[source] prometheus::Error),
    /// The listener ended.
    #[error("the admission listener ended")]
    Serve(#[source] std::io::Error),
}

/// Serves until shutdown, and then until it is quiet.
pub async fn serve(settings: Settings, parts: Parts, stop: CancellationToken) -> Result<(), Error> {
    // All gates are there before anything is waited for: a part that is not known yet would not be missed.
    let gate = |name| parts.readiness.gate(name);
    let (certificate, caches_gate) = (gate("certificate"), gate("caches"));
    let (registered, answering) = (gate("registration"), gate("serving"));
    let metrics = Metrics::new(&parts.metrics).map_err(Error::Metrics)?;
    let folders = settings.policy_folders.clone();
    let keeper =
        Keeper::start(folders, Some(parts.client.clone()), parts.policies.clone(), &parts.metrics, gate("policies"))
            .map_err(Error::Metrics)??;
    let serving = Serving::start(settings.certificate.clone()).await?;
    let listener = listen(settings.address)?;
    info!(address = %settings.address, "admission");

    let mut tasks = JoinSet::new();
    let caches = Caches::default();
    tasks.spawn(caches.clone().run(parts.client.clone(), caches_gate));
    tasks.spawn(tell_expiry(metrics.clone(), serving.trust()));
    tasks.spawn(registration(&settings, &parts, serving.trust(), registered).keep());
    tasks.spawn(keeper.keep());
    let config = serving.config();
    certificate.ready();
    tasks.spawn(serving.keep());

    let writers = settings.trusted_writers.iter().cloned().chain(settings.own_user.clone());
    let service = Service {
        policies: parts.policies.clone(),
        lookup: Arc::new(caches),
        client: Some(parts.client.clone()),
        writers: Arc::new(Writers::new(writers)),
        metrics,
        large: Arc::new(Semaphore::new(LARGE_AT_A_TIME)),
        drain: Drain::default(),
    };
    let handle = Handle::new();
    tasks.spawn(stop_when_quiet(stop, settings.quiet, service.drain.clone(), answering, handle.clone()));

    let acceptor = RustlsAcceptor::new(config).handshake_timeout(HANDSHAKE);
    let mut server = axum_server::from_tcp(listener)
        .map_err(|source| Error::Listen { address: settings.address, source })?
        .acceptor(acceptor)
        .http1_only()
        .first_request_timeout(IDLE)
        .handle(handle);
    server.http_builder().http1().header_read_timeout(IDLE);
    server.serve(router(service).into_make_service()).await.map_err(Error::Serve)
}

fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let at = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(at)?;
    listener.set_nonblocking(true).map_err(at)?;
    Ok(listener)
}

fn registration(settings: &Settings, parts: &Parts, trust: watch::Receiver<Trust>, gate: Gate) -> Registration {
    Registration {
        client: parts.client.clone(),
        endpoint: settings.endpoint.clone(),
        own_user: settings.own_user.clone(),
        owner_role: settings.owner_role.clone(),
        namespace: settings.namespace.clone(),
        trust,
        gate,
    }
}

async fn tell_expiry(metrics: Metrics, mut trust: watch::Receiver<Trust>) {
    loop {
        metrics.certificate_end.set(trust.borrow_and_update().not_after.as_second());
        if trust.changed().await.is_err() {
            return;
        }
    }
}

/// From the signal on we are not ready, so that nobody new is sent here; those who still come are answered, and told
/// to connect anew next time. The listener closes when nobody has come for a while.
async fn stop_when_quiet(
    stop: CancellationToken,
    quiet: Duration,
    drain: Drain,
    gate: Gate,
    handle: Handle<SocketAddr>,
) {
    gate.ready();
    stop.cancelled().await;
    gate.not_ready("shutting down");
    drain.quiet_for(quiet).await;
    info!("admission is quiet; closing");
    handle.graceful_shutdown(Some(LAST_ANSWERS));
}
