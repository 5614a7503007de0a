//! What a restore's next step depends on. Everything is read from the API server itself: what is deleted and created
//! here must not hang on a copy that lags behind.

pub mod live;
mod remains;
pub mod volumes;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, Error, ResourceExt};

use self::live::{Live, live};
use self::remains::remains;
use self::volumes::{Standing, volumes};
use super::records::{Facts, Unreadable, restore_uid};
use super::{build, lost, preflight, release, sweep};
use crate::api::agent::Rehearsal;
use crate::api::backup::Backup;
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdsnapshot::EtcdSnapshot;
use crate::api::names::warden;
use crate::api::restorejob::RestoreJob;
use crate::checks::Known;
use crate::k8s::apply::FIELD_MANAGER;
use crate::k8s::error::{Class, class, is_not_found, message};

/// Everything that was seen. What could not be read says so.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The job.
    pub job: RestoreJob,
    /// What is on record.
    pub facts: Facts,
    /// The Backup; read only until the inputs are recorded.
    pub backup: Known<Backup>,
    /// The RestoreJobs of this namespace; read only until the inputs are recorded.
    pub others: Known<Vec<RestoreJob>>,
    /// UIDs of the restores in this namespace that are on record as begun and not as ended; read after the RestoreJobs,
    /// and only until the inputs are recorded.
    pub open: Known<BTreeSet<String>>,
    /// The application's EtcdCluster, whole.
    pub cluster: Known<DynamicObject>,
    /// The application's HelmRelease; read from the recorded inputs on, until it was put back.
    pub release: Known<Release>,
    /// The newest preflight Job that has not passed; read only until nothing can be taken back.
    pub rehearsal: Known<Rehearsed>,
    /// The snapshot of the old cluster; read only until it is recorded.
    pub snapshot: Known<EtcdSnapshot>,
    /// Whether the new cluster would be accepted; tried only right before the old one is deleted.
    pub recreation: Known<Recreation>,
    /// What is left of the cluster's members; read only while a cluster goes.
    pub remains: Known<Remains>,
    /// What the members of the cluster that stands there tell; asked only where something depends on it.
    pub live: Known<Live>,
    /// How the volumes stand that were chosen to be kept, in the order of the record.
    pub volumes: Known<Vec<Standing>>,
    /// What a missing cluster was, from the last record or from Helm; read only where it is missing.
    pub lost: Known<Lost>,
    /// Whether the whole namespace is going; asked only of a job that was deleted.
    pub namespace_goes: bool,
    /// Why the rules refuse the job; only asked for until its inputs are recorded.
    pub refused: Option<String>,
}

/// A cluster that is not there, as something else remembers it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// The object.
    pub object: serde_json::Value,
    /// Who remembers.
    pub found_in: String,
}

/// A rehearsal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsed {
    /// How far it raises the revision.
    pub bump: i64,
    /// The etcd version that boots on the data.
    pub version: Option<String>,
    /// How it stands.
    pub how: Rehearsing,
}

/// A HelmRelease, as far as a restore has to do with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// `spec.suspend`.
    pub suspend: Option<bool>,
    /// What is under way in it: a reconcile, or a Helm revision that has not ended.
    pub busy: Option<String>,
}

/// How the rehearsal stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Rehearsing {
    /// It has not ended.
    Running(String),
    /// It passed.
    Passed(Option<Rehearsal>),
    /// It failed for good, with the agent's reason and words.
    Failed(String),
}

/// What the API server says to a new cluster that is not meant to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recreation {
    /// Only its name is taken, which is checked last.
    Accepted,
    /// Something else is wrong.
    Refused(String),
}

/// What is left of a cluster's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Members.
    pub members: Vec<Remnant>,
    /// Pods of members.
    pub pods: Vec<Remnant>,
    /// Volume claims of members.
    pub claims: Vec<Remnant>,
}

/// One object that is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remnant {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// UID of what controls it.
    pub owner_uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Since when it is going.
    pub going_since: Option<Timestamp>,
    /// What holds it.
    pub finalizers: Vec<String>,
    /// The node that it is going on, if that node is not there to let it go.
    pub lost_on: Option<String>,
}

/// Why nothing could be seen at all.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The job or its records could not be read. Retried.
    #[error("cannot read {what}")]
    Read {
        /// What.
        what: &'static str,
        /// What the API server said.
        source: Error,
    },
    /// A record makes no sense. Retried: another version may read it.
    #[error("records")]
    Records {
        /// The job.
        job: Box<RestoreJob>,
        /// Which, and why.
        #[source]
        why: Unreadable,
    },
}

/// The EtcdCluster, untyped: fields that we do not know come back after the restore, too.
#[must_use]
pub fn clusters(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<EtcdCluster>(&()))
}

/// Reads what the job's next step depends on; `None` where the job is gone.
pub async fn observe(client: &Client, namespace: &str, name: &str) -> Result<Option<Observed>, ObserveError> {
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), namespace);
    let read = |what: &'static str| move |source: Error| ObserveError::Read { what, source };
    let Some(job) = jobs.get_opt(name).await.map_err(read("the RestoreJob"))? else { return Ok(None) };
    let records: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let restore = restore_uid(&job);
    let selector = format!("{}={restore}", warden::RESTORE_JOB_UID);
    let records = records.list(&ListParams::default().labels(&selector)).await.map_err(read("the records"))?;
    let facts = match Facts::read(&records.items) {
        Ok(facts) => facts,
        Err(why) => return Err(ObserveError::Records { job: Box::new(job), why }),
    };
    let needs = Needs::of(&job, &facts);
    let api = clusters(client, namespace);
    let backups: Api<Backup> = Api::namespaced(client.clone(), namespace);
    let snapshots: Api<EtcdSnapshot> = Api::namespaced(client.clone(), namespace);
    let safety = build::safety_snapshot_name(&job);
    let (backup, others, cluster, release, rehearsal, snapshot, remains, namespace_goes) = tokio::join!(
        when(needs.has(Need::Backup), async { answer(backups.get(&job.spec.backup_ref.name).await) }),
        when(needs.has(Need::Backup), async { listed(jobs.list(&ListParams::default()).await.map(|list| list.items)) }),
        async { answer(api.get(APP_CLUSTER_NAME).await) },
        when(needs.has(Need::Release), release::read(client, namespace, &facts)),
        when(needs.has(Need::Rehearsal), rehearsal(client, &job, &facts)),
        when(needs.has(Need::Snapshot), async { answer(snapshots.get(&safety).await) }),
        when(needs.has(Need::Remains), async { listed(remains(client, namespace).await) }),
        goes(client, &job),
    );
    let chosen = facts.purge_intent.as_ref().map(|intent| intent.fact.volumes.clone()).unwrap_or_default();
    let absent = matches!(cluster, Known::Absent);
    let open = when(needs.has(Need::Backup), open(client, namespace)).await;
    let (recreation, live, volumes, lost) = tokio::join!(
        when(needs.has(Need::Recreation), recreation(client, &job, &facts)),
        when(needs.has(Need::Live), members(client, &cluster, needs.hash_at)),
        when(needs.has(Need::Volumes), volumes(client, namespace, &restore, &chosen)),
        when(needs.has(Need::Target) && absent, lost::read(client, namespace, &facts)),
    );
    Ok(Some(Observed {
        job,
        facts,
        backup,
        others,
        open,
        cluster,
        release,
        rehearsal,
        snapshot,
        recreation,
        remains,
        live,
        volumes,
        lost,
        namespace_goes,
        refused: None,
    }))
}

/// What may have to be read for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Backup,
    Target,
    Release,
    Rehearsal,
    Snapshot,
    Recreation,
    Remains,
    Live,
    Volumes,
}

/// What has to be read.
struct Needs {
    all: Vec<Need>,
    hash_at: Option<i64>,
}

impl Needs {
    fn of(job: &RestoreJob, facts: &Facts) -> Self {
        let begun = facts.inputs.is_some();
        let intent = facts.purge_intent.is_some();
        let captured = facts.capture.is_some();
        let attempt = facts.attempt();
        let purged = facts.purged.contains_key(&attempt);
        let created = facts.created.contains_key(&attempt);
        let open = facts.verified.is_none() && !super::decide::is_over(job, facts);
        let to_rehearse = begun && !intent && (facts.preflights.is_empty() || captured);
        let needs = [
            (Need::Backup, !begun),
            (Need::Target, begun && !captured),
            (Need::Release, begun && facts.resumed.is_none()),
            (Need::Rehearsal, to_rehearse),
            (Need::Snapshot, !facts.preflights.is_empty() && facts.safety.is_none()),
            (Need::Recreation, captured && !intent && facts.failing.is_none()),
            (Need::Remains, intent && !purged && open),
            (Need::Live, open && (to_rehearse || intent)),
            (Need::Volumes, intent),
        ];
        let expected = facts.preflight().filter(|_| attempt == 0 && created);
        let rehearsed = expected.and_then(|preflight| preflight.fact.rehearsal.as_ref());
        Self {
            all: needs.into_iter().filter_map(|(need, is_needed)| is_needed.then_some(need)).collect(),
            hash_at: rehearsed.map(|rehearsal| rehearsal.hash_revision),
        }
    }

    fn has(&self, need: Need) -> bool {
        self.all.contains(&need)
    }
}

/// The restores of a namespace that have begun and not ended, whether or not a RestoreJob stands for them.
async fn open(client: &Client, namespace: &str) -> Known<BTreeSet<String>> {
    let records: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let found = records.list(&ListParams::default().labels(warden::RESTORE_JOB_UID)).await;
    listed(found.map(|records| sweep::open(&records.items).into_keys().collect()))
}

/// Whether the namespace is on its way out, and the job with it.
async fn goes(client: &Client, job: &RestoreJob) -> bool {
    if job.metadata.deletion_timestamp.is_none() {
        return false;
    }
    is_going(client, &job.namespace().unwrap_or_default()).await
}

/// Whether a namespace is on its way out.
pub(super) async fn is_going(client: &Client, namespace: &str) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get_metadata(namespace).await;
    found.is_ok_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
}

async fn members(client: &Client, cluster: &Known<DynamicObject>, hash_at: Option<i64>) -> Known<Live> {
    let object = match cluster {
        Known::Found(object) => object,
        Known::Absent => return Known::Absent,
        Known::Unknown(why) => return Known::Unknown(why.clone()),
    };
    let typed = serde_json::to_value(object).and_then(serde_json::from_value::<EtcdCluster>);
    match typed {
        Ok(cluster) => live(client, &cluster, hash_at).await,
        Err(error) => Known::Unknown(error.to_string()),
    }
}

async fn when<T>(needed: bool, read: impl Future<Output = Known<T>>) -> Known<T> {
    if needed { read.await } else { Known::Unknown("not read: not needed now".to_owned()) }
}

pub(super) fn answer<T>(result: Result<T, Error>) -> Known<T> {
    match result {
        Ok(found) => Known::Found(found),
        Err(error) if is_not_found(&error) => Known::Absent,
        Err(error) => Known::Unknown(message(&error)),
    }
}

/// A list that is not served is not an empty one.
fn listed<T>(result: Result<T, Error>) -> Known<T> {
    match result {
        Ok(found) => Known::Found(found),
        Err(error) => Known::Unknown(message(&error)),
    }
}

/// The rehearsal that has not passed: the first, or one that repeats the others.
async fn rehearsal(client: &Client, job: &RestoreJob, facts: &Facts) -> Known<Rehearsed> {
    let namespace = job.namespace().unwrap_or_default();
    let jobs: Api<Job> = Api::namespaced(client.clone(), &namespace);
    let round = facts.preflights.keys().last().map_or(0, |round| round.saturating_add(1));
    let name = build::preflight_name(job, round);
    let run = match answer(jobs.get(&name).await) {
        Known::Found(run) => run,
        Known::Absent => return Known::Absent,
        Known::Unknown(why) => return Known::Unknown(why),
    };
    let bump = run.annotations().get(warden::REVISION_BUMP).and_then(|bump| bump.parse().ok()).unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
    match pods.list(&of_job).await {
        Ok(pods) => {
            let version = preflight::target_version(&run);
            Known::Found(Rehearsed { bump, version, how: preflight::outcome(&run, &pods.items) })
        }
        Err(error) => Known::Unknown(message(&error)),
    }
}

/// Tries the new cluster under its real name, without keeping it. Existence is checked after everything else, so that a
/// taken name means that all the rest passed.
async fn recreation(client: &Client, job: &RestoreJob, facts: &Facts) -> Known<Recreation> {
    let (Some(capture), Some(start)) = (&facts.capture, build::Start::of(facts)) else { return Known::Absent };
    let Some(cluster) = build::cluster(job, &capture.fact, &start) else {
        return Known::Found(Recreation::Refused("what was captured is no EtcdCluster".to_owned()));
    };
    let api = clusters(client, &job.namespace().unwrap_or_default());
    let params = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
    match api.create(&params, &cluster).await {
        Ok(_) => Known::Found(Recreation::Accepted),
        Err(error) => match class(&error) {
            Class::AlreadyExists => Known::Found(Recreation::Accepted),
            Class::Invalid | Class::Forbidden => Known::Found(Recreation::Refused(message(&error))),
            Class::NotFound => Known::Absent,
            Class::Conflict | Class::Transient => Known::Unknown(message(&error)),
        },
    }
}
