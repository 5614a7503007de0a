//! What a BackupJob's next step depends on.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Error, ResourceExt};

use super::decide::{self, BackupClassView};
use crate::api::backup::Backup;
use crate::api::backupclass::BackupClass;
use crate::api::backupjob::BackupJob;
use crate::api::common::{APP_CLUSTER_NAME, APP_KIND_ETCD, APPS_GROUP};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdsnapshot::{EtcdSnapshot, phase as snapshot_phase};
use crate::api::names::{self, warden};
use crate::api::restorejob::RestoreJob;
use crate::api::strategy::{self, EtcdStrategySpec};
use crate::checks::{Kind, Known, Objects};
use crate::controller::judgement::Judgement;
use crate::k8s::error::{is_not_found, message};
use crate::rules::class::StrategyGroup;

/// Everything that was seen. What could not be read says so.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The job.
    pub job: BackupJob,
    /// Its EtcdSnapshot, which has one name that it can have.
    pub snapshot: Known<EtcdSnapshot>,
    /// What it takes to begin; read only while there is no snapshot.
    pub inputs: Option<Inputs>,
    /// The Backups of the two names that the job's Backup can have; read only once the snapshot is stored.
    pub backups: Option<(Known<Backup>, Known<Backup>)>,
    /// The RestoreJob that works on the same cluster.
    pub restoring: Option<String>,
    /// Why the rules refuse the job; only asked for while there is no snapshot.
    pub refused: Option<String>,
}

/// What it takes to begin.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The class that the job names.
    pub class: Known<BackupClassView>,
    /// The strategy that the class leads to.
    pub strategy: Known<EtcdStrategySpec>,
    /// The application.
    pub application: Known<Application>,
    /// The application's EtcdCluster.
    pub cluster: Known<EtcdCluster>,
    /// The Secret with the S3 credentials; only whether it exists.
    pub credentials: Known<()>,
}

/// The application's object.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// As the API server has it.
    Served(serde_json::Value),
    /// Nobody serves applications here.
    NotServed,
}

/// The copies that are kept of what is read often.
#[derive(Clone)]
pub struct Stores {
    /// Classes.
    pub classes: Store<BackupClass>,
    /// Strategies in upstream's group.
    pub strategies: Store<strategy::Etcd>,
    /// Strategies in our own group.
    pub warden_strategies: Store<strategy::warden::Etcd>,
    /// Snapshots.
    pub snapshots: Store<EtcdSnapshot>,
    /// Clusters.
    pub clusters: Store<EtcdCluster>,
    /// Restore jobs.
    pub restore_jobs: Store<RestoreJob>,
}

impl Stores {
    /// The class that a job names.
    #[must_use]
    pub fn class(&self, job: &BackupJob) -> Known<BackupClassView> {
        known(self.classes.get(&ObjectRef::new(&job.spec.backup_class_name)))
    }

    fn strategy(&self, group: StrategyGroup, name: &str) -> Known<EtcdStrategySpec> {
        known(match group {
            StrategyGroup::Upstream => self.strategies.get(&ObjectRef::new(name)).map(|found| found.spec.clone()),
            StrategyGroup::Warden => self.warden_strategies.get(&ObjectRef::new(name)).map(|found| found.spec.clone()),
        })
    }

    /// The RestoreJob that guards the application's cluster in a namespace.
    fn restoring(&self, namespace: &str) -> Option<String> {
        let guards = |job: &Arc<RestoreJob>| {
            job.namespace().as_deref() == Some(namespace)
                && job.labels().get(warden::GUARDS).is_some_and(|cluster| cluster == APP_CLUSTER_NAME)
        };
        self.restore_jobs.state().into_iter().find(guards).map(|job| job.name_any())
    }
}

fn known<T>(found: Option<T>) -> Known<T> {
    found.map_or(Known::Absent, Known::Found)
}

/// What an answer of the API server says about an object.
pub(in crate::controller) fn answer<T>(result: Result<T, Error>) -> Known<T> {
    match result {
        Ok(found) => Known::Found(found),
        Err(error) if is_not_found(&error) => Known::Absent,
        Err(error) => Known::Unknown(message(&error)),
    }
}

/// Reads what the job's next step depends on, and nothing else.
pub async fn observe(
    client: &Client,
    stores: &Stores,
    judgement: &Judgement,
    job: &BackupJob,
    now: Timestamp,
) -> Observed {
    let namespace = job.namespace().unwrap_or_default();
    let snapshot = snapshot(client, stores, &namespace, &decide::snapshot_name(job)).await;
    let complete = |snapshot: &EtcdSnapshot| {
        snapshot.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(snapshot_phase::COMPLETE)
    };
    let backups = match &snapshot {
        Known::Found(snapshot) if complete(snapshot) => Some(backups(client, &namespace, job).await),
        Known::Found(_) | Known::Absent | Known::Unknown(_) => None,
    };
    let inputs = match &snapshot {
        Known::Absent => Some(inputs(client, stores, &namespace, job, now).await),
        Known::Found(_) | Known::Unknown(_) => None,
    };
    let refused = match &inputs {
        Some(inputs) => refused(judgement, job, inputs, now),
        None => None,
    };
    Observed { job: job.clone(), snapshot, inputs, backups, restoring: stores.restoring(&namespace), refused }
}

/// What is not there yet is waited for, so that only the class is needed: it says whose job this is.
fn refused(judgement: &Judgement, job: &BackupJob, inputs: &Inputs, now: Timestamp) -> Option<String> {
    let Known::Found(class) = &inputs.class else { return None };
    let class = serde_json::to_value(class.as_ref()).ok()?;
    let around: Objects = [class].into_iter().collect();
    judgement.of_new(Kind::BackupJob, job, &around, now)
}

/// The copy lags behind our own writes: an absent snapshot is asked for.
async fn snapshot(client: &Client, stores: &Stores, namespace: &str, name: &str) -> Known<EtcdSnapshot> {
    match stores.snapshots.get(&ObjectRef::new(name).within(namespace)) {
        Some(found) => Known::Found((*found).clone()),
        None => answer(Api::namespaced(client.clone(), namespace).get(name).await),
    }
}

async fn backups(client: &Client, namespace: &str, job: &BackupJob) -> (Known<Backup>, Known<Backup>) {
    let api: Api<Backup> = Api::namespaced(client.clone(), namespace);
    let (first, beside) = (names::backup(&job.name_any()), decide::snapshot_name(job));
    let (first, beside) = tokio::join!(api.get(&first), api.get(&beside));
    (answer(first), answer(beside))
}

async fn inputs(client: &Client, stores: &Stores, namespace: &str, job: &BackupJob, now: Timestamp) -> Inputs {
    let class = stores.class(job);
    let entry = decide::strategy_of(job, &class);
    let strategy = entry.map_or(Known::Absent, |(group, entry)| stores.strategy(group, &entry.strategy_ref.name));
    let application = application(client, namespace, &job.spec.application_ref.name).await;
    let cluster = known(stores.clusters.get(&ObjectRef::new(APP_CLUSTER_NAME).within(namespace)));
    let credentials = match (entry, &strategy, &application) {
        (Some((_, entry)), Known::Found(spec), Known::Found(application)) => {
            match decide::render(job, entry, spec, application, now) {
                Ok(destination) => secret(client, namespace, &destination.credentials_secret_ref.name).await,
                // Nothing to look for; the decision will name the fault.
                Err(_) => Known::Absent,
            }
        }
        _ => Known::Absent,
    };
    Inputs {
        class,
        strategy,
        application,
        cluster: match cluster {
            Known::Found(cluster) => Known::Found((*cluster).clone()),
            Known::Absent => Known::Absent,
            Known::Unknown(why) => Known::Unknown(why),
        },
        credentials,
    }
}

async fn secret(client: &Client, namespace: &str, name: &str) -> Known<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match answer(secrets.get_metadata(name).await) {
        Known::Found(_) => Known::Found(()),
        Known::Absent => Known::Absent,
        Known::Unknown(why) => Known::Unknown(why),
    }
}

/// The platform's application, whose API is an aggregated one that need not be there.
pub(in crate::controller) async fn application(client: &Client, namespace: &str, name: &str) -> Known<Application> {
    let resource = ApiResource {
        group: APPS_GROUP.to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: format!("{APPS_GROUP}/v1alpha1"),
        kind: APP_KIND_ETCD.to_owned(),
        plural: "etcds".to_owned(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    match api.get(name).await {
        Ok(object) => match serde_json::to_value(object) {
            Ok(object) => Known::Found(Application::Served(object)),
            Err(error) => Known::Unknown(error.to_string()),
        },
        Err(Error::Api(status)) if status.code == 404 && !names_an_object(&status) => {
            Known::Found(Application::NotServed)
        }
        Err(error) => answer(Err(error)),
    }
}

/// Whether a "not found" is about an object, and not about the whole API.
fn names_an_object(status: &kube::core::Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}
