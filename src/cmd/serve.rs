//! `etcd-warden serve`: admission, controllers and admin endpoints in one process.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use clap::{Args, ValueEnum};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::admission;
use super::values::{namespace, namespace_or_nothing, object_name, without_blanks, word};
use crate::admission::{Error as AdmissionError, Parts, serve as serve_admission};
use crate::api::names::upstream::STRATEGY_LEASE;
use crate::controller::judgement::Judgement;
use crate::controller::metrics::ControllerMetrics;
use crate::controller::overview::Overview;
use crate::controller::{self, Controller};
use crate::k8s::events::Events;
use crate::k8s::leases::Leases;
use crate::policy::InForce;
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
    #[arg(long, default_value = "etcd-warden-system", env = "POD_NAMESPACE", value_parser = namespace)]
    pub namespace: String,
    /// What this process calls itself; unique among replicas.
    #[arg(long, env = "POD_NAME", default_value_t = identity(), value_parser = word)]
    pub identity: String,
    /// Settings of the admission server.
    #[command(flatten)]
    pub admission: admission::Flags,
    /// Controllers that run, by kind; all of them where absent. Clusters that another operator runs can still be backed
    /// up and restored by the rest.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub controllers: Vec<Controller>,
    /// Namespaces that the controllers look at; all of them where absent.
    #[arg(long, value_delimiter = ',', env = "WATCH_NAMESPACE", value_parser = namespace_or_nothing)]
    pub watch_namespace: Vec<String>,
    /// Image of the agents that run in Pods: the one that this program came in.
    #[arg(long, env = "OPERATOR_IMAGE", value_parser = without_blanks)]
    pub agent_image: Option<String>,
    /// Repository of the etcd images; the tag is v and the version.
    #[arg(long, default_value = "quay.io/coreos/etcd", env = "ETCD_IMAGE_REPOSITORY", value_parser = word)]
    pub etcd_image_repository: String,
    /// DNS domain of the cluster; where absent it is read from /etc/resolv.conf, and cluster.local if that does not say.
    #[arg(long, value_parser = object_name)]
    pub cluster_domain: Option<String>,
}

impl Settings {
    fn controllers(&self) -> controller::Settings {
        let trimmed = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        };
        let chosen: BTreeSet<Controller> = match self.controllers.as_slice() {
            [] => Controller::value_variants().iter().copied().collect(),
            named => named.iter().copied().collect(),
        };
        controller::Settings {
            controllers: chosen,
            namespaces: trimmed(&self.watch_namespace),
            agent_image: self.agent_image.clone().filter(|image| !image.is_empty()),
            etcd_image_repository: self.etcd_image_repository.clone(),
            cluster_domain: self.cluster_domain.clone().unwrap_or_else(|| {
                let resolver = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
                cluster_domain(&resolver).unwrap_or("cluster.local").to_owned()
            }),
        }
    }
}

/// The cluster's domain as a Pod's resolver settings tell it: the search entry `svc.<domain>`.
fn cluster_domain(resolver: &str) -> Option<&str> {
    resolver
        .lines()
        .map(|line| line.split(['#', ';']).next().unwrap_or_default())
        .filter_map(|line| line.trim().strip_prefix("search"))
        .flat_map(str::split_whitespace)
        .find_map(|entry| entry.strip_prefix("svc."))
        .map(|domain| domain.trim_end_matches('.'))
        .filter(|domain| !domain.is_empty())
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
    /// The objects that a standalone server shall know could not be read.
    #[error("--context cannot be read: {}", .0.join("; "))]
    Context(Vec<String>),
    /// The admission server could not start, or ended badly.
    #[error("admission")]
    Admission(#[source] AdmissionError),
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
    let listener = admin::listen(settings.admin_address).await.map_err(Error::Listen)?;
    info!(address = %settings.admin_address, "admin endpoints");
    // The admin endpoints outlive the signal: they tell that we are no longer ready while admission falls quiet.
    let ended = CancellationToken::new();
    let admin = admin::serve(listener, admin::router(readiness.clone(), metrics.clone()), ended.clone());
    let work = async {
        let done = if settings.admission.standalone {
            alone(&settings, readiness, metrics, stop).await
        } else {
            in_cluster(settings, readiness, metrics, stop).await
        };
        ended.cancel();
        done
    };
    let (admin, work) = tokio::join!(admin, work);
    work?;
    admin.map_err(Error::Admin)
}

/// Admission and nothing else.
async fn alone(
    settings: &Settings,
    readiness: Readiness,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (admission, surroundings) = settings.admission.standalone().map_err(Error::Context)?;
    let parts = Parts { surroundings, readiness, metrics, policies: InForce::default() };
    serve_admission(admission, parts, stop).await.map_err(Error::Admission)
}

/// Admission on every replica, and the controllers on the one that leads.
async fn in_cluster(
    settings: Settings,
    readiness: Readiness,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), Error> {
    let client = Client::try_default().await.map_err(Error::Kubeconfig)?;
    let policies = InForce::default();
    let leases = Leases::default();
    // Ends with this function.
    let mut watches = JoinSet::new();
    watches.spawn(leases.clone().watch(client.clone(), STRATEGY_LEASE));
    let context = controller::Context {
        client: client.clone(),
        settings: settings.controllers(),
        metrics: ControllerMetrics::new(&metrics).map_err(Error::Metrics)?,
        events: Events::new(client.clone(), "etcd-warden", Some(settings.identity.clone())),
        judgement: Judgement::new(policies.clone()),
        upstream: leases.clone(),
        trusted_stores: settings.admission.trusted_store.clone(),
    };
    let overview = metrics.register(Overview::new().map_err(Error::Metrics)?).map_err(Error::Metrics)?;
    let overview =
        AbortOnDropHandle::new(tokio::spawn(overview.run(client.clone(), context.settings.namespaces.clone())));
    // Admission makes this gate again; until then a process that only knows its name is not ready.
    let _serving = readiness.gate("serving");
    let identity = readiness.gate("identity");
    let found = settings.admission.in_cluster(&client, &settings.namespace, leases.clone(), &identity);
    // Finding out only reads: it can be given up at any point.
    let (admission, surroundings) = tokio::select! {
        found = found => found,
        () = stop.cancelled() => return Ok(()),
    };
    let parts = Parts { surroundings, readiness, metrics, policies };
    let controllers = lead(context, settings, stop.clone());
    let admission = async {
        let result = serve_admission(admission, parts, stop.clone()).await;
        stop.cancel();
        result
    };
    let (admission, ()) = tokio::join!(admission, controllers);
    drop(overview);
    admission.map_err(Error::Admission)
}

/// Runs the controllers whenever this process leads; a lost leadership ends them and waits for the next one.
async fn lead(context: controller::Context, settings: Settings, stop: CancellationToken) {
    let lease = leader::Settings::new(&settings.namespace, LEASE, &settings.identity);
    while let Some(leadership) = leader::acquire(context.client.clone(), lease.clone(), stop.clone()).await {
        controller::run_all(&context, leadership.lost()).await;
        leadership.ended().await;
        if stop.is_cancelled() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cluster_domain;

    #[test]
    fn the_cluster_domain_comes_from_the_search_list() {
        let resolver = "nameserver 10.96.0.10 # svc.wrong\nsearch ns.svc.corp.example svc.corp.example corp.example\n";
        assert_eq!(cluster_domain(resolver), Some("corp.example"));
        assert_eq!(cluster_domain("options ndots:5 svc.no\nsearch example.org\n"), None);
        assert_eq!(cluster_domain(""), None);
    }
}
