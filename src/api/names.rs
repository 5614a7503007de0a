//! Names, labels and annotations on the wire, and the names that are derived from others.

use sha2::{Digest, Sha256};

/// What upstream's programs call theirs.
pub mod upstream {
    /// Lease of the strategy controller: whoever holds it acts on jobs over strategies of upstream's group.
    pub const STRATEGY_LEASE: &str = "strategy.backups.cozystack.io";
}

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
    /// Annotation from cluster to member: SHA-256 that the restored snapshot must have, 64 hex digits.
    pub const SNAPSHOT_SHA256: &str = "etcd-warden.io/snapshot-sha256";
    /// Annotation on an EtcdCluster that is made in the middle of a restore on purpose: the RestoreJob.
    pub const IGNORE_RESTORE: &str = "etcd-warden.io/ignore-restore";
    /// Label on a RestoreJob: the EtcdCluster that it guards.
    pub const GUARDS: &str = "etcd-warden.io/guards";
    /// Finalizer of RestoreJobs.
    pub const RESTORE_FINALIZER: &str = "etcd-warden.io/restore";
    /// Annotation on a re-created EtcdCluster: UID of the RestoreJob that made it.
    pub const RESTORED_BY: &str = "etcd-warden.io/restored-by";
    /// Label on what was made for a BackupJob: the job's UID. A job of the same name has another.
    pub const BACKUP_JOB_UID: &str = "etcd-warden.io/backup-job-uid";
    /// Annotation on the EtcdSnapshot of a BackupJob: what the Backup will say of it, as read when it was made.
    pub const BACKUP_RECORD: &str = "etcd-warden.io/backup-record";
    /// Annotation on a seed's Pod: `new` until etcd has formed, `existing` from then on. The container reads it at every
    /// start, so that a seed that lost its data cannot form a second, empty cluster.
    pub const INITIAL_CLUSTER_STATE: &str = "etcd-warden.io/initial-cluster-state";
    /// Readiness gate of such a Pod, set once that annotation says `existing`. The kubelet calls the Pod Ready only when
    /// it has seen the gate open, and so the annotation: nobody is sent to an etcd that could still start anew.
    pub const SEALED: &str = "etcd-warden.io/sealed";
    /// Annotation on a RestoreJob: `Retry` or `Abandon`, the ways out of a restore that is blocked.
    pub const UNBLOCK: &str = "etcd-warden.io/unblock";
    /// Annotation on a RestoreJob: `true` ends it. What was done is undone.
    pub const ABORT: &str = "etcd-warden.io/abort";
    /// Annotation on a RestoreJob: UID of the RestoreJob, deleted by force, whose restore this one brings to an end.
    pub const CONTINUES: &str = "etcd-warden.io/continues";
    /// Annotation on a re-created EtcdCluster: which of the restore's attempts made it, from 0.
    pub const RESTORE_ATTEMPT: &str = "etcd-warden.io/restore-attempt";
    /// Annotation on an EtcdCluster that was about to be deleted: UID of the RestoreJob that thought better of it. With
    /// this write a deletion that is still on its way meets another resourceVersion.
    pub const SPARED_BY: &str = "etcd-warden.io/spared-by";
    /// Annotation on a kept volume claim: when it may be deleted, as RFC 3339.
    pub const KEEP_UNTIL: &str = "etcd-warden.io/keep-until";
    /// Annotation on a Plan: how late a run may begin, in seconds.
    pub const STARTING_DEADLINE_SECONDS: &str = "etcd-warden.io/starting-deadline-seconds";
    /// Finalizer of Backups whose stored object goes with them.
    pub const BACKUP_FINALIZER: &str = "etcd-warden.io/backup";
    /// Annotation on a Backup: UID of the EtcdSnapshot that its stored object names as its owner.
    pub const SNAPSHOT_UID: &str = "etcd-warden.io/snapshot-uid";
    /// Label on what was made for a RestoreJob: the job's UID.
    pub const RESTORE_JOB_UID: &str = "etcd-warden.io/restore-job-uid";
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

/// Greatest length of a label value, and of the names that Kubernetes turns into one (Services, Jobs).
pub const LABEL_LIMIT: usize = 63;

/// Greatest length of an EtcdCluster's name: with `-client` it is still a Service's.
pub const CLUSTER_NAME_LIMIT: usize = LABEL_LIMIT - "-client".len();

/// Greatest length of a Plan's name: with a dash and the minutes of a slot it is still a BackupJob's.
pub const PLAN_NAME_LIMIT: usize = LABEL_LIMIT - 9;

/// The headless Service of a cluster, which gives members their names in DNS.
#[must_use]
pub fn headless_service(cluster: &str) -> String {
    within(cluster, "")
}

/// The client Service of a cluster.
#[must_use]
pub fn client_service(cluster: &str) -> String {
    within(cluster, "-client")
}

/// The cert-manager Certificate of a cluster's servers.
#[must_use]
pub fn server_certificate(cluster: &str) -> String {
    within(cluster, "-server")
}

/// The Secret that cert-manager writes for [`server_certificate`].
#[must_use]
pub fn server_tls_secret(cluster: &str) -> String {
    within(cluster, "-server-tls")
}

/// The cert-manager Certificate with which the operator speaks to a cluster.
#[must_use]
pub fn operator_client_certificate(cluster: &str) -> String {
    within(cluster, "-operator-client")
}

/// The Secret that cert-manager writes for [`operator_client_certificate`].
#[must_use]
pub fn operator_client_tls_secret(cluster: &str) -> String {
    within(cluster, "-operator-client-tls")
}

/// The cert-manager Certificate with which members speak to each other.
#[must_use]
pub fn peer_certificate(cluster: &str) -> String {
    within(cluster, "-peer")
}

/// The Secret that cert-manager writes for [`peer_certificate`].
#[must_use]
pub fn peer_tls_secret(cluster: &str) -> String {
    within(cluster, "-peer-tls")
}

/// The volume claim of a member. Never shortened: a claim's name is no label, and existing volumes must be found.
#[must_use]
pub fn data_claim(member: &str) -> String {
    format!("data-{member}")
}

/// The Job that takes a snapshot.
#[must_use]
pub fn snapshot_job(snapshot: &str) -> String {
    within(snapshot, "-snapshot")
}

/// The BackupJob that a Plan makes for a slot. `slot` is the slot's time in seconds since 1970; two slots are at least a
/// minute apart.
#[must_use]
pub fn backup_job(plan: &str, slot: i64) -> String {
    within(plan, &format!("-{}", slot.div_euclid(60)))
}

/// The EtcdSnapshot of a BackupJob: always the same one, so that a crash between making and recording it makes no
/// second.
#[must_use]
pub fn snapshot(job: &str, job_uid: &str) -> String {
    within(job, &format!("-{}", uid_digits(job_uid)))
}

/// The Backup of a BackupJob.
#[must_use]
pub fn backup(job: &str) -> String {
    within(job, "")
}

/// The Backup of a BackupJob where [`backup`] is the name of another job's already.
#[must_use]
pub fn backup_beside(job: &str, job_uid: &str) -> String {
    snapshot(job, job_uid)
}

/// The record of one fact about a RestoreJob. Always the same one for the same fact, so that none is recorded twice.
#[must_use]
pub fn restore_record(job: &str, job_uid: &str, fact: &str) -> String {
    within(job, &format!("-{}-{fact}", uid_digits(job_uid)))
}

/// An object's name as a label value: the name itself up to 63 characters, else shortened.
#[must_use]
pub fn label_value(name: &str) -> String {
    within(name, "")
}

/// `<base><suffix>` where that has at most 63 characters. Beyond, the base is cut and carries eight hex digits of its
/// hash, so that two long names that begin alike stay apart. A DNS-1123 name stays one.
fn within(base: &str, suffix: &str) -> String {
    if base.len() + suffix.len() <= LABEL_LIMIT {
        return format!("{base}{suffix}");
    }
    let hash = hash_digits(base);
    let room = LABEL_LIMIT.saturating_sub(suffix.len() + hash.len() + 1);
    let head = base.get(..base.floor_char_boundary(room)).unwrap_or_default();
    let head = head.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
    format!("{head}-{hash}{suffix}")
}

/// Eight hex digits of a UID: its first ones, which in a UUID are random. A UID of another make is hashed.
fn uid_digits(uid: &str) -> String {
    match uid.get(..8) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) => {
            digits.to_owned()
        }
        _ => hash_digits(uid),
    }
}

/// The first eight hex digits of a text's SHA-256.
fn hash_digits(text: &str) -> String {
    let head = Sha256::digest(text.as_bytes()).iter().take(4).fold(0_u32, |head, byte| head << 8 | u32::from(*byte));
    format!("{head:08x}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "0c1d2e3f-4a5b-4c6d-8e7f-8a9b0c1d2e3f";

    #[test]
    fn short_names_are_what_upstream_calls_them() {
        assert_eq!(client_service("etcd"), "etcd-client");
        assert_eq!(headless_service("etcd"), "etcd");
        assert_eq!(operator_client_tls_secret("etcd"), "etcd-operator-client-tls");
        assert_eq!(snapshot_job("nightly-5qk2x"), "nightly-5qk2x-snapshot");
        assert_eq!(backup_job("nightly", 1_700_000_040), "nightly-28333334");
        assert_eq!(backup("nightly-28333334"), "nightly-28333334");
        assert_eq!(snapshot("nightly-28333334", UID), "nightly-28333334-0c1d2e3f");
    }

    /// B6: what is derived from the longest admitted names is still a name.
    #[test]
    fn the_longest_admitted_names_are_not_cut() {
        let cluster = "c".repeat(CLUSTER_NAME_LIMIT);
        assert_eq!(client_service(&cluster), format!("{cluster}-client"));
        let plan = "p".repeat(PLAN_NAME_LIMIT);
        assert_eq!(backup_job(&plan, 1_700_000_040), format!("{plan}-28333334"));
        let job = backup_job(&plan, 1_700_000_040);
        let snapshot = snapshot(&job, UID);
        for derived in [&job, &snapshot, &snapshot_job(&snapshot), &backup_beside(&job, UID), &label_value(&job)] {
            assert!(derived.len() <= LABEL_LIMIT && is_dns_1123(derived), "{derived}");
        }
    }

    #[test]
    fn a_cut_does_not_end_in_a_dot_or_a_dash() {
        let job = format!("{}.-tail-that-is-cut", "j".repeat(44));
        assert!(snapshot(&job, UID).starts_with(&format!("{}-", "j".repeat(44))), "{}", snapshot(&job, UID));
    }

    #[test]
    fn a_uid_that_is_no_uuid_still_gives_eight_digits() {
        for uid in ["", "x", "ABCDEF01-2", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}"] {
            let name = snapshot("job", uid);
            let digits = name.strip_prefix("job-").unwrap();
            assert!(digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{uid:?}: {name}");
        }
    }

    /// A DNS-1123 subdomain, the name of any object of ours.
    fn name() -> impl Strategy<Value = String> {
        proptest::string::string_regex("[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}")
            .unwrap()
    }

    fn derived(base: &str) -> Vec<String> {
        vec![
            headless_service(base),
            client_service(base),
            server_certificate(base),
            server_tls_secret(base),
            operator_client_certificate(base),
            operator_client_tls_secret(base),
            peer_certificate(base),
            peer_tls_secret(base),
            snapshot_job(base),
            backup_job(base, 1_700_000_040),
            snapshot(base, UID),
            backup(base),
            backup_beside(base, UID),
            label_value(base),
        ]
    }

    fn is_dns_1123(name: &str) -> bool {
        name.split('.').all(|label| {
            let plain = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
            !label.is_empty()
                && label.bytes().all(|byte| plain(byte) || byte == b'-')
                && label.bytes().next().is_some_and(plain)
                && label.bytes().last().is_some_and(plain)
        })
    }

    proptest! {
        #[test]
        fn derived_names_fit_and_stay_names(base in name()) {
            for name in derived(&base) {
                prop_assert!(name.len() <= LABEL_LIMIT, "{name}");
                prop_assert!(is_dns_1123(&name), "{name}");
            }
        }

        #[test]
        fn names_that_begin_alike_stay_apart(head in "[a-z0-9]{63}", one in "[a-z0-9]{1,40}", other in "[a-z0-9]{1,40}") {
            prop_assume!(one != other);
            let pairs = derived(&format!("{head}{one}")).into_iter().zip(derived(&format!("{head}{other}")));
            for (one, other) in pairs {
                prop_assert_ne!(one, other);
            }
        }

        #[test]
        fn two_jobs_of_one_name_have_their_own_snapshots(job in name(), one in "[0-9a-f]{8}", other in "[0-9a-f]{8}") {
            prop_assume!(one != other);
            prop_assert_ne!(snapshot(&job, &format!("{one}-4a5b")), snapshot(&job, &format!("{other}-4a5b")));
        }

        #[test]
        fn any_text_is_survived(base in ".{0,100}", uid in ".{0,40}") {
            prop_assert!(snapshot(&base, &uid).len() <= LABEL_LIMIT);
        }
    }
}
