//! What there is to know about a Backup before anything is decided. What could not be read is a value, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};

use super::decide::{self, Need};
use super::door::{Closed, open};
use super::payload::PayloadError;
use super::place;
use crate::api::backup::Backup;
use crate::api::backupjob::phase as job_phase;
use crate::api::common::S3Location;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::restorejob::RestoreJob;
use crate::checks::Known;
use crate::controller::backupjob::observe::answer;
use crate::store::Head;

/// The stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// There was no need to look.
    NotAsked,
    /// It is there.
    Found(Facts),
    /// It is not.
    Absent,
    /// Nobody could tell, and why.
    Unknown(String),
    /// Nobody can tell any more: the credentials are gone.
    Closed(String),
}

/// What is known of it without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes.
    pub size: u64,
    /// UID of the EtcdSnapshot that wrote it.
    pub owner: Option<String>,
    /// What its metadata says besides.
    pub details: BTreeMap<String, String>,
}

/// Everything that was seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Backup.
    pub backup: Arc<Backup>,
    /// Where its object is.
    pub place: Result<S3Location, PayloadError>,
    /// The object.
    pub stored: Stored,
    /// The EtcdSnapshot behind it; only asked for when the Backup goes.
    pub snapshot: Known<Arc<EtcdSnapshot>>,
    /// The unfinished RestoreJob that uses it.
    pub restoring: Option<String>,
    /// Another Backup that stands for the same object.
    pub shared_with: Option<String>,
    /// Whether the namespace is going; only asked for when the Backup goes.
    pub namespace_going: Known<bool>,
}

/// The copies that are kept.
#[derive(Clone)]
pub struct Stores {
    /// Backups.
    pub backups: Store<Backup>,
    /// Snapshots.
    pub snapshots: Store<EtcdSnapshot>,
    /// Restore jobs.
    pub restore_jobs: Store<RestoreJob>,
}

impl Stores {
    fn restoring(&self, backup: &Backup) -> Option<String> {
        let uses = |job: &Arc<RestoreJob>| {
            let phase = job.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
            job.namespace() == backup.namespace()
                && job.spec.backup_ref.name == backup.name_any()
                && phase != job_phase::SUCCEEDED
                && phase != job_phase::FAILED
        };
        self.restore_jobs.state().into_iter().find(uses).map(|job| job.name_any())
    }

    fn shared_with(&self, backup: &Backup, place: &S3Location) -> Option<String> {
        let shares = |other: &Arc<Backup>| {
            other.uid() != backup.uid()
                && other.metadata.deletion_timestamp.is_none()
                && place::object(other).is_ok_and(|other| place::is_shared(place, &other))
        };
        self.backups.state().into_iter().find(shares).map(|other| place::full_name(&other))
    }
}

/// Reads what the Backup's next step depends on, and nothing else.
pub async fn observe(client: &Client, stores: &Stores, backup: Arc<Backup>, now: Timestamp) -> Observed {
    let place = place::object(&backup);
    let restoring = stores.restoring(&backup);
    let shared_with = place.as_ref().ok().and_then(|place| stores.shared_with(&backup, place));
    let mut seen = Observed {
        backup,
        place,
        stored: Stored::NotAsked,
        snapshot: Known::Absent,
        restoring,
        shared_with,
        namespace_going: Known::Found(false),
    };
    let namespace = seen.backup.namespace().unwrap_or_default();
    match decide::need(&seen, now) {
        Need::Nothing => {}
        Need::Object => seen.stored = stored(client, &namespace, &seen.place).await,
        Need::Everything => {
            seen.namespace_going = going(client, &namespace).await;
            seen.snapshot = snapshot(client, stores, &namespace, &seen.backup).await;
            seen.stored = stored(client, &namespace, &seen.place).await;
        }
    }
    seen
}

async fn stored(client: &Client, namespace: &str, place: &Result<S3Location, PayloadError>) -> Stored {
    let Ok(place) = place else { return Stored::NotAsked };
    let store = match open(client, namespace, place).await {
        Ok(store) => store,
        Err(Closed::SecretAbsent(name)) => return Stored::Closed(format!("Secret {name} does not exist")),
        Err(error) => return Stored::Unknown(error.to_string()),
    };
    match store.head().await {
        Ok(Some(Head { size, owner, details, .. })) => Stored::Found(Facts { size, owner, details }),
        Ok(None) => Stored::Absent,
        Err(error) => Stored::Unknown(crate::controller::frame::chain(&error)),
    }
}

async fn going(client: &Client, namespace: &str) -> Known<bool> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match answer(namespaces.get_metadata(namespace).await) {
        Known::Found(namespace) => Known::Found(namespace.metadata.deletion_timestamp.is_some()),
        Known::Absent => Known::Found(true),
        Known::Unknown(why) => Known::Unknown(why),
    }
}

async fn snapshot(client: &Client, stores: &Stores, namespace: &str, backup: &Backup) -> Known<Arc<EtcdSnapshot>> {
    let Some(name) = place::snapshot_name(backup) else { return Known::Absent };
    if let Some(found) = stores.snapshots.get(&ObjectRef::new(name).within(namespace)) {
        return Known::Found(found);
    }
    match answer(Api::<EtcdSnapshot>::namespaced(client.clone(), namespace).get(name).await) {
        Known::Found(found) => Known::Found(Arc::new(found)),
        Known::Absent => Known::Absent,
        Known::Unknown(why) => Known::Unknown(why),
    }
}
