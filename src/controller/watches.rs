//! What is watched: one informer for each kind, in one namespace or in all of them.

use futures::future::{BoxFuture, join_all};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};

use super::informer::Informer;
use crate::api::backup::Backup;
use crate::api::backupclass::BackupClass;
use crate::api::backupjob::BackupJob;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::names::{operator, warden};
use crate::api::plan::Plan;
use crate::api::restorejob::RestoreJob;
use crate::api::strategy;

/// The informers of one scope. A controller takes the stores that it reads and says what it wants to be told; an
/// informer that nobody listens to is not run.
pub struct Watches {
    /// The namespace that is watched; absent for all.
    pub namespace: Option<String>,
    /// Clusters.
    pub clusters: Informer<EtcdCluster>,
    /// Members.
    pub members: Informer<EtcdMember>,
    /// Snapshots.
    pub snapshots: Informer<EtcdSnapshot>,
    /// Pods of members.
    pub member_pods: Informer<Pod>,
    /// Volume claims of members.
    pub claims: Informer<PersistentVolumeClaim>,
    /// Services of clusters.
    pub services: Informer<Service>,
    /// Disruption budgets of clusters.
    pub budgets: Informer<PodDisruptionBudget>,
    /// Pods of our Jobs.
    pub job_pods: Informer<Pod>,
    /// Our Jobs.
    pub jobs: Informer<Job>,
    /// Backup classes.
    pub classes: Informer<BackupClass>,
    /// Strategies in upstream's group.
    pub strategies: Informer<strategy::Etcd>,
    /// Strategies in our own group.
    pub warden_strategies: Informer<strategy::warden::Etcd>,
    /// Backups.
    pub backups: Informer<Backup>,
    /// Backup jobs.
    pub backup_jobs: Informer<BackupJob>,
    /// Restore jobs.
    pub restore_jobs: Informer<RestoreJob>,
    /// Plans.
    pub plans: Informer<Plan>,
}

impl Watches {
    /// Watches of one namespace, or of all.
    #[must_use]
    pub fn new(client: &Client, namespace: Option<&str>) -> Self {
        let of_cluster = || Config::default().labels(operator::CLUSTER);
        let of_snapshot = || Config::default().labels(warden::SNAPSHOT);
        Self {
            namespace: namespace.map(ToOwned::to_owned),
            clusters: Informer::new(scoped(client, namespace), Config::default()),
            members: Informer::new(scoped(client, namespace), Config::default()),
            snapshots: Informer::new(scoped(client, namespace), Config::default()),
            member_pods: Informer::new(scoped(client, namespace), of_cluster()),
            claims: Informer::new(scoped(client, namespace), of_cluster()),
            services: Informer::new(scoped(client, namespace), of_cluster()),
            budgets: Informer::new(scoped(client, namespace), of_cluster()),
            job_pods: Informer::new(scoped(client, namespace), of_snapshot()),
            jobs: Informer::new(scoped(client, namespace), of_snapshot()),
            classes: Informer::new(Api::all(client.clone()), Config::default()),
            strategies: Informer::new(Api::all(client.clone()), Config::default()),
            warden_strategies: Informer::new(Api::all(client.clone()), Config::default()),
            backups: Informer::new(scoped(client, namespace), Config::default()),
            backup_jobs: Informer::new(scoped(client, namespace), Config::default()),
            restore_jobs: Informer::new(scoped(client, namespace), Config::default()),
            plans: Informer::new(scoped(client, namespace), Config::default()),
        }
    }

    /// Runs every informer that somebody listens to, until dropped.
    pub async fn run(self) {
        let all: [BoxFuture<'static, ()>; 16] = [
            self.clusters.run(),
            self.members.run(),
            self.snapshots.run(),
            self.member_pods.run(),
            self.claims.run(),
            self.services.run(),
            self.budgets.run(),
            self.job_pods.run(),
            self.jobs.run(),
            self.classes.run(),
            self.strategies.run(),
            self.warden_strategies.run(),
            self.backups.run(),
            self.backup_jobs.run(),
            self.restore_jobs.run(),
            self.plans.run(),
        ];
        join_all(all).await;
    }
}

/// The objects of a namespaced kind in one namespace, or in all.
#[must_use]
pub fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
