//! Names, labels and annotations on the wire, and the names that are derived from others.

/// Labels, annotations and finalizers of upstream's etcd-operator, which ours shares.
pub mod operator {
    /// Prefix of all keys of the operator.
    pub const PREFIX: &str = "etcd-operator.cozystack.io/";
    /// Label: the EtcdCluster that an object belongs to.
    pub const CLUSTER: &str = "etcd-operator.cozystack.io/cluster";
    /// Label: `voter` on the Pods of voting members.
    pub const ROLE: &str = "etcd-operator.cozystack.io/role";
    /// Value of [`ROLE`].
    pub const ROLE_VOTER: &str = "voter";
    /// Finalizer of EtcdMembers: the member leaves etcd before its object goes.
    pub const MEMBER_CLEANUP: &str = "etcd-operator.cozystack.io/member-cleanup";
    /// Annotation: peers run with `--peer-auto-tls`.
    pub const PEER_AUTO_TLS: &str = "etcd-operator.cozystack.io/peer-auto-tls";
    /// Annotation on members: Service name used for DNS identity.
    pub const HEADLESS_SERVICE_NAME: &str = "etcd-operator.cozystack.io/headless-service-name";
    /// Annotation on members: directory below `/var/lib/etcd`.
    pub const DATA_DIR_SUBPATH: &str = "etcd-operator.cozystack.io/data-dir-subpath";
}

/// Labels, annotations and finalizers of our own.
pub mod warden {
    /// Annotation on an EtcdCluster: where its image has etcdutl, for versions that ship none.
    pub const ETCDUTL_PATH: &str = "etcd-warden.io/etcdutl-path";
    /// Annotation from cluster to member: how far the restore raises the revision.
    pub const REVISION_BUMP: &str = "etcd-warden.io/revision-bump";
    /// Label on a RestoreJob: the EtcdCluster that it guards.
    pub const GUARDS: &str = "etcd-warden.io/guards";
    /// Finalizer of RestoreJobs.
    pub const RESTORE_FINALIZER: &str = "etcd-warden.io/restore";
    /// Annotation on a re-created EtcdCluster: UID of the RestoreJob that made it.
    pub const RESTORED_BY: &str = "etcd-warden.io/restored-by";
    /// Label on Pods of snapshot Jobs: the EtcdSnapshot. Deliberately not a label that a Service selects.
    pub const SNAPSHOT: &str = "etcd-warden.io/snapshot";
}

/// Labels and finalizers of the backup controllers.
pub mod backups {
    /// Label: the BackupJob that an object was made for.
    pub const OWNED_BY_JOB_NAME: &str = "backups.cozystack.io/owned-by.BackupJobName";
    /// Label: the namespace of that BackupJob.
    pub const OWNED_BY_JOB_NAMESPACE: &str = "backups.cozystack.io/owned-by.BackupJobNamespace";
    /// Finalizer that upstream puts on RestoreJobs and Backups.
    pub const CLEANUP: &str = "backups.cozystack.io/cleanup";
}

/// The client Service of a cluster.
#[must_use]
pub fn client_service(cluster: &str) -> String {
    format!("{cluster}-client")
}

/// The volume claim of a member.
#[must_use]
pub fn data_claim(member: &str) -> String {
    format!("data-{member}")
}

/// The Job that takes a snapshot.
#[must_use]
pub fn snapshot_job(snapshot: &str) -> String {
    format!("{snapshot}-snapshot")
}
