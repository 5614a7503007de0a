//! The kinds that are judged.

use crate::api::common::{BACKUPS_GROUP, OPERATOR_GROUP};
use crate::api::strategy::{STRATEGY_GROUP, STRATEGY_KIND, WARDEN_STRATEGY_GROUP};

/// A kind that is judged. All others pass unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// EtcdCluster.
    EtcdCluster,
    /// EtcdMember.
    EtcdMember,
    /// EtcdSnapshot.
    EtcdSnapshot,
    /// The `Etcd` strategy in upstream's group.
    Strategy,
    /// The `Etcd` strategy in our own group.
    WardenStrategy,
    /// BackupClass.
    BackupClass,
    /// BackupJob.
    BackupJob,
    /// Backup.
    Backup,
    /// RestoreJob.
    RestoreJob,
    /// Plan.
    Plan,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::EtcdCluster,
        Self::EtcdMember,
        Self::EtcdSnapshot,
        Self::Strategy,
        Self::WardenStrategy,
        Self::BackupClass,
        Self::BackupJob,
        Self::Backup,
        Self::RestoreJob,
        Self::Plan,
    ];

    /// The kind of this group and name, in any version.
    #[must_use]
    pub fn of(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.group() == group && known.name() == kind)
    }

    /// The kind of this group and resource (in the plural), in any version.
    #[must_use]
    pub fn of_resource(group: &str, resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.group() == group && known.plural() == resource)
    }

    /// The kind of an object that carries `apiVersion` and `kind`.
    #[must_use]
    pub fn of_object(object: &serde_json::Value) -> Option<Self> {
        let (group, _) = object.get("apiVersion")?.as_str()?.split_once('/')?;
        Self::of(group, object.get("kind")?.as_str()?)
    }

    /// API group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::EtcdCluster | Self::EtcdMember | Self::EtcdSnapshot => OPERATOR_GROUP,
            Self::Strategy => STRATEGY_GROUP,
            Self::WardenStrategy => WARDEN_STRATEGY_GROUP,
            Self::BackupClass | Self::BackupJob | Self::Backup | Self::RestoreJob | Self::Plan => BACKUPS_GROUP,
        }
    }

    /// API version.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::EtcdCluster | Self::EtcdMember | Self::EtcdSnapshot => "v1alpha2",
            Self::Strategy
            | Self::WardenStrategy
            | Self::BackupClass
            | Self::BackupJob
            | Self::Backup
            | Self::RestoreJob
            | Self::Plan => "v1alpha1",
        }
    }

    /// Kind, as objects carry it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EtcdCluster => "EtcdCluster",
            Self::EtcdMember => "EtcdMember",
            Self::EtcdSnapshot => "EtcdSnapshot",
            Self::Strategy | Self::WardenStrategy => STRATEGY_KIND,
            Self::BackupClass => "BackupClass",
            Self::BackupJob => "BackupJob",
            Self::Backup => "Backup",
            Self::RestoreJob => "RestoreJob",
            Self::Plan => "Plan",
        }
    }

    /// Resource, as requests name it.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::EtcdCluster => "etcdclusters",
            Self::EtcdMember => "etcdmembers",
            Self::EtcdSnapshot => "etcdsnapshots",
            Self::Strategy | Self::WardenStrategy => "etcds",
            Self::BackupClass => "backupclasses",
            Self::BackupJob => "backupjobs",
            Self::Backup => "backups",
            Self::RestoreJob => "restorejobs",
            Self::Plan => "plans",
        }
    }

    /// Whether objects live in a namespace.
    #[must_use]
    pub fn namespaced(self) -> bool {
        !matches!(self, Self::Strategy | Self::WardenStrategy | Self::BackupClass)
    }

    /// Whether it is the strategy, in either group.
    #[must_use]
    pub fn is_strategy(self) -> bool {
        matches!(self, Self::Strategy | Self::WardenStrategy)
    }
}
