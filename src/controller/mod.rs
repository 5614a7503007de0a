//! The controllers: observe, decide, build, apply, status.
//!
//! [`frame`] runs one, [`informer`] watches for all of them, [`metrics`] counts. A controller is started by a function
//! `start(&mut Watches, &Context, stop)` that says what it listens to and gives back the future that is its work.

pub mod access;
pub mod agent_pod;
pub mod backup;
pub mod backupjob;
pub mod etcdcluster;
pub mod etcdmember;
pub mod etcdsnapshot;
pub mod frame;
pub mod informer;
pub mod judgement;
pub mod metrics;
pub mod overview;
pub mod plan;
pub mod pods;
pub mod restorejob;
pub mod seen;
pub mod shape;
pub mod tell;
pub mod watches;
pub mod writes;

use std::collections::BTreeSet;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::judgement::Judgement;
use self::metrics::ControllerMetrics;
use self::watches::Watches;
use crate::checks::upstream;
use crate::k8s::events::Events;
use crate::k8s::leases::Leases;
use crate::rules::s3::Place;

/// The controllers there are, by the names that `--controllers` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum Controller {
    /// EtcdCluster.
    EtcdCluster,
    /// EtcdMember.
    EtcdMember,
    /// EtcdSnapshot.
    EtcdSnapshot,
    /// Plan.
    Plan,
    /// BackupJob.
    BackupJob,
    /// Backup.
    Backup,
    /// RestoreJob.
    RestoreJob,
}

/// What the controllers are told from outside.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which controllers run.
    pub controllers: BTreeSet<Controller>,
    /// Namespaces that are looked at; empty for all.
    pub namespaces: Vec<String>,
    /// Image with the agent: that of this program.
    pub agent_image: Option<String>,
    /// Repository of the etcd images; the tag is `v<version>`.
    pub etcd_image_repository: String,
    /// DNS domain of the cluster, such as `cluster.local`.
    pub cluster_domain: String,
}

/// What every controller works with.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What was told from outside.
    pub settings: Settings,
    /// Where reconciles are counted.
    pub metrics: ControllerMetrics,
    /// Where people are told what happened.
    pub events: Events,
    /// The rules, over what is about to be acted on.
    pub judgement: Judgement,
    /// Leases of upstream's strategy controller: while one is held, jobs over strategies of upstream's group are its own.
    pub upstream: Leases,
    /// Stores that credentials of strategies may be used with, though no strategy yields them.
    pub trusted_stores: Vec<Place>,
}

impl Context {
    /// Who acts on jobs over strategies of upstream's group, if somebody else does.
    #[must_use]
    pub fn upstream_holder(&self, now: Timestamp) -> Option<String> {
        self.upstream.get().and_then(|leases| upstream::holder(&leases, now))
    }
}

/// Runs the controllers until `stop`, the leadership under which they write. What is under way then is dropped within
/// a second, so that nothing is written once another may lead.
pub async fn run_all(context: &Context, stop: CancellationToken) {
    let namespaces: Vec<Option<&str>> = match context.settings.namespaces.as_slice() {
        [] => vec![None],
        named => named.iter().map(|name| Some(name.as_str())).collect(),
    };
    let scopes = namespaces.into_iter().map(|namespace| run_scope(context, namespace, stop.clone()));
    join_all(scopes).await;
}

async fn run_scope(context: &Context, namespace: Option<&str>, stop: CancellationToken) {
    let mut watches = Watches::new(&context.client, namespace);
    let controllers: Vec<BoxFuture<'static, ()>> = context
        .settings
        .controllers
        .iter()
        .map(|controller| start(*controller, &mut watches, context, &stop))
        .collect();
    info!(namespace = namespace.unwrap_or("*"), controllers = controllers.len(), "controllers start");
    // The informers never end: the controllers, which end at `stop`, decide. Dropping an informer loses nothing.
    tokio::select! {
        _ = join_all(controllers) => {}
        () = watches.run() => {}
    }
}

fn start(
    controller: Controller,
    watches: &mut Watches,
    context: &Context,
    stop: &CancellationToken,
) -> BoxFuture<'static, ()> {
    let stop = stop.clone();
    match controller {
        Controller::EtcdSnapshot => Box::pin(etcdsnapshot::start(watches, context, stop)),
        Controller::EtcdCluster => Box::pin(etcdcluster::start(watches, context, stop)),
        Controller::EtcdMember => Box::pin(etcdmember::start(watches, context, stop)),
        Controller::Plan => plan::start(watches, context, stop),
        Controller::BackupJob => backupjob::start(watches, context, stop),
        Controller::Backup => backup::start(watches, context, stop),
        Controller::RestoreJob => restorejob::start(watches, context, stop),
    }
}

/// Whether all local copies are complete; not when an informer was dropped before, which only happens at the end.
fn ready<E>(stores: &[Result<(), E>]) -> bool {
    stores.iter().all(Result::is_ok)
}
