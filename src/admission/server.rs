//! The server as a whole: certificate, listener, caches, registration, and a stop that drops nobody.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use kube::Client;
use prometheus::IntGauge;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::cache::Caches;
use super::connection::Guarded;
use super::metrics::Metrics;
use super::policies::{self, Keeper, ParametersIn};
use super::registration::Registration;
use super::registration::build::Endpoint;
use super::router::{Drain, Service, Turns, router};
use super::tls::{self, Serving, Trust, Trusted};
use super::writers::Writers;
use crate::checks::Lookup;
use crate::k8s::leases::Leases;
use crate::policy::InForce;
use crate::rules::s3::Place;
use crate::runtime::metrics::Metrics as Registry;
use crate::runtime::readiness::{Gate, Readiness};

/// Idle connections are kept for longer than the API server keeps them (90 s): a connection that we close just when it
/// is used again is a failed admission.
const IDLE: Duration = Duration::from_mins(2);
/// A client that has connected must have said hello within this.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long requests that are being answered at the very end may still take.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// The head of a request has come within this, and an answer is taken within it.
const HEAD_AND_ANSWER: Duration = Duration::from_secs(10);
/// Connections at a time. API servers keep a few dozen each.
const CONNECTIONS: usize = 1024;
/// A stop does not wait for longer than this to become quiet: what kills us by force comes later.
const DRAIN: Duration = Duration::from_secs(20);

/// Settings of the admission server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen on.
    pub address: SocketAddr,
    /// The serving certificate.
    pub certificate: tls::Settings,
    /// Others who may write what only we should.
    pub trusted_writers: Vec<String>,
    /// Folders with policies besides our own.
    pub policy_folders: Vec<PathBuf>,
    /// After the signal to stop, requests are answered until none came for this long.
    pub quiet: Duration,
}

/// The cluster that a server is part of.
#[derive(Clone)]
pub struct Cluster {
    /// Reads other objects and writes the registration.
    pub client: Client,
    /// How the API server reaches us.
    pub endpoint: Endpoint,
    /// Namespace of this process, in which the self-check asks.
    pub namespace: String,
    /// Our own service account's user name, if we run under one.
    pub own_user: Option<String>,
    /// Name of the ClusterRole that owns the webhook configurations.
    pub owner_role: Option<String>,
    /// The rollout that this process belongs to, if it belongs to one.
    pub rollout: Option<String>,
    /// Leases of upstream's strategy controller.
    pub leases: Leases,
    /// Stores that credentials of strategies may be used with, though no strategy yields them.
    pub trusted_stores: Vec<Place>,
}

/// What is around the server.
#[derive(Clone)]
pub enum Surroundings {
    /// A cluster, with which it registers.
    Cluster(Box<Cluster>),
    /// Nothing but these objects.
    Objects {
        /// Those of our kinds.
        lookup: Arc<dyn Lookup>,
        /// ConfigMaps that policies take parameters from.
        parameters: Vec<Arc<Value>>,
    },
}

/// The same with the gates of what is peculiar to it.
enum Around {
    Cluster { cluster: Box<Cluster>, cached: Gate, registered: Gate },
    Objects(Arc<dyn Lookup>),
}

/// What the server shares with the rest of the process.
#[derive(Clone)]
pub struct Parts {
    /// Where other objects are.
    pub surroundings: Surroundings,
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
    // All gates of this part are there before it waits for anything: a part that is not known yet would not be missed.
    let gate = |name| parts.readiness.gate(name);
    let (certificate, answering) = (gate("certificate"), gate("serving"));
    let (around, parameters) = match parts.surroundings {
        Surroundings::Cluster(cluster) => {
            let parameters = ParametersIn::Cluster(cluster.client.clone());
            (Around::Cluster { cluster, cached: gate("caches"), registered: gate("registration") }, parameters)
        }
        Surroundings::Objects { lookup, parameters } => (Around::Objects(lookup), ParametersIn::Objects(parameters)),
    };
    let metrics = Metrics::new(&parts.metrics).map_err(Error::Metrics)?;
    let folders = settings.policy_folders.clone();
    let keeper = Keeper::start(folders, parameters, parts.policies.clone(), &parts.metrics, gate("policies"))
        .map_err(Error::Metrics)??;
    let serving = Serving::start(settings.certificate.clone()).await?;
    let listener = listen(settings.address)?;
    info!(address = %settings.address, "admission");

    let mut tasks = JoinSet::new();
    let mut trusted_writers = settings.trusted_writers;
    let (lookup, client): (Arc<dyn Lookup>, _) = match around {
        Around::Objects(objects) => {
            serving.trusted().send_replace(Trusted::Nobody);
            (objects, None)
        }
        Around::Cluster { cluster, cached, registered } => {
            let caches = Caches::new(cluster.leases.clone(), &cluster.trusted_stores);
            tasks.spawn(caches.clone().run(cluster.client.clone(), cached));
            let registration =
                registration(&cluster, &serving, settings.certificate.times, registered, metrics.enforcing.clone());
            tasks.spawn(registration.keep());
            trusted_writers.extend(cluster.own_user);
            (Arc::new(caches), Some(cluster.client))
        }
    };
    tasks.spawn(tell_expiry(metrics.clone(), serving.trust()));
    tasks.spawn(keeper.keep());
    let config = serving.config();
    certificate.ready();
    tasks.spawn(serving.keep());

    let service = Service {
        policies: parts.policies,
        lookup,
        client,
        writers: Arc::new(Writers::new(trusted_writers)),
        metrics,
        turns: Turns::default(),
        drain: Drain::default(),
    };
    let handle = Handle::new();
    tasks.spawn(stop_when_quiet(stop, settings.quiet, service.drain.clone(), answering, handle.clone()));
    answer(listener, settings.address, service, config, handle).await
}

/// Answers until the handle is told to close.
async fn answer(
    listener: TcpListener,
    address: SocketAddr,
    service: Service,
    config: RustlsConfig,
    handle: Handle<SocketAddr>,
) -> Result<(), Error> {
    let acceptor = RustlsAcceptor::new(config).handshake_timeout(HANDSHAKE);
    let mut server = axum_server::from_tcp(listener)
        .map_err(|source| Error::Listen { address, source })?
        .acceptor(Guarded::new(acceptor, CONNECTIONS, HEAD_AND_ANSWER, service.metrics.clone()))
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

fn registration(
    cluster: &Cluster,
    serving: &Serving,
    times: tls::Times,
    gate: Gate,
    enforcing: IntGauge,
) -> Registration {
    Registration {
        client: cluster.client.clone(),
        endpoint: cluster.endpoint.clone(),
        own_user: cluster.own_user.clone(),
        owner_role: cluster.owner_role.clone(),
        namespace: cluster.namespace.clone(),
        rollout: cluster.rollout.clone(),
        trust: serving.trust(),
        trusted: serving.trusted(),
        times,
        enforcing,
        gate,
    }
}

async fn tell_expiry(metrics: Metrics, mut trust: watch::Receiver<Trust>) {
    loop {
        let (leaf, authority) = {
            let trust = trust.borrow_and_update();
            let authority = trust.bundle.certificates().next().and_then(|first| tls::Validity::of(first).ok());
            (trust.not_after, authority)
        };
        metrics.certificate_end.set(leaf.as_second());
        if let Some(authority) = authority {
            metrics.authority_end.set(authority.not_after.as_second());
        }
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
    if tokio::time::timeout(DRAIN, drain.quiet_for(quiet)).await.is_ok() {
        info!("admission is quiet; closing");
    } else {
        warn!("requests keep coming; closing all the same");
    }
    handle.graceful_shutdown(Some(LAST_ANSWERS));
}
