//! What there is to know about a snapshot before anything is decided. What could not be read is a value, too.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};

use super::{Reader, decide};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::etcdsnapshot::{EtcdSnapshot, phase};
use crate::api::names;
use crate::checks::{Kind, Nothing};
use crate::controller::agent_pod::{Ended, ended};
use crate::controller::pods;
use crate::controller::seen::Owned;
use crate::k8s::{error as api_error, owner};

/// The cluster that is snapshot.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is there.
    Found(Arc<EtcdCluster>),
    /// The API server itself said that it is not there.
    Absent,
    /// It could not be read.
    Unknown(String),
}

/// What the Pods of the Job tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tries {
    /// How the agent's runs ended, the newest last.
    pub ended: Vec<Ended>,
    /// What keeps the newest Pod from running, or that it runs.
    pub trouble: Option<String>,
}

/// Everything that decides about a snapshot.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The snapshot.
    pub snapshot: Arc<EtcdSnapshot>,
    /// Its cluster; only asked for while there is no Job.
    pub source: Source,
    /// The cluster's members, for their addresses.
    pub members: Vec<Arc<EtcdMember>>,
    /// Its Job; absent only when the API server itself said so, where that matters.
    pub job: Result<Owned<Job>, String>,
    /// What the Job's Pods tell.
    pub tries: Tries,
    /// Another snapshot of the cluster whose turn it is.
    pub before: Option<String>,
    /// Why the rules refuse the snapshot; only asked for before it begins.
    pub refused: Option<String>,
}

/// Looks.
pub async fn observe(reader: &Reader, snapshot: Arc<EtcdSnapshot>, now: Timestamp) -> Observed {
    let job = job(reader, &snapshot).await;
    let absent = matches!(job, Ok(Owned::Absent));
    let source = if absent && !decide::has_ended(snapshot.phase()) {
        source(reader, &snapshot).await
    } else {
        Source::Unknown("not asked".to_owned())
    };
    let members = match &source {
        Source::Found(cluster) => members(reader, cluster),
        Source::Absent | Source::Unknown(_) => Vec::new(),
    };
    let tries = match &job {
        Ok(Owned::Ours(job)) => tries(reader, job),
        Ok(Owned::Absent | Owned::Foreign) | Err(_) => Tries::default(),
    };
    let before = before(reader, &snapshot);
    let begins = absent && snapshot.phase() != Some(phase::STARTED) && !decide::has_ended(snapshot.phase());
    let judgement = &reader.context.judgement;
    let refused = begins
        .then(|| judgement.of_new(Kind::EtcdSnapshot, snapshot.as_ref(), &Nothing, now))
        .and_then(|refused| refused);
    Observed { snapshot, source, members, job, tries, before, refused }
}

/// That a Job is gone is only believed when the API server itself says it: a local copy may not have it yet.
async fn job(reader: &Reader, snapshot: &EtcdSnapshot) -> Result<Owned<Job>, String> {
    let name = names::snapshot_job(&snapshot.name_any());
    let place = ObjectRef::new(&name).within(&snapshot.namespace().unwrap_or_default());
    let known = Owned::of(reader.jobs.get(&place), &snapshot.metadata);
    if !matches!(known, Owned::Absent) || snapshot.phase() != Some(phase::STARTED) {
        return Ok(known);
    }
    let api: Api<Job> = reader.api(snapshot);
    match api.get_opt(&name).await {
        Ok(found) => Ok(Owned::of(found.map(Arc::new), &snapshot.metadata)),
        Err(error) => Err(api_error::message(&error)),
    }
}

async fn source(reader: &Reader, snapshot: &EtcdSnapshot) -> Source {
    let name = &snapshot.spec.cluster_ref.name;
    if name.is_empty() {
        return Source::Absent;
    }
    let place = ObjectRef::new(name).within(&snapshot.namespace().unwrap_or_default());
    if let Some(cluster) = reader.clusters.get(&place) {
        return Source::Found(cluster);
    }
    let api: Api<EtcdCluster> = reader.api(snapshot);
    match api.get_opt(name).await {
        Ok(Some(cluster)) => Source::Found(Arc::new(cluster)),
        Ok(None) => Source::Absent,
        Err(error) => Source::Unknown(api_error::message(&error)),
    }
}

fn members(reader: &Reader, cluster: &EtcdCluster) -> Vec<Arc<EtcdMember>> {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let mut members = reader.members.state();
    members.retain(|member| {
        member.metadata.namespace == cluster.metadata.namespace
            && owner::is_controlled_by(&member.metadata, uid)
            && member.metadata.deletion_timestamp.is_none()
            && member.spec.dormant != Some(true)
    });
    members.sort_by_key(|member| member.name_any());
    members
}

fn tries(reader: &Reader, job: &Job) -> Tries {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let mut of_job: Vec<Arc<Pod>> = reader.pods.state();
    of_job.retain(|pod| owner::is_controlled_by(&pod.metadata, uid));
    of_job.sort_by_key(|pod| (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.name_any()));
    let newest = of_job.last().filter(|pod| !pods::has_ended(pod));
    Tries {
        ended: of_job.iter().filter_map(|pod| pods::container(pod, super::build::CONTAINER).and_then(ended)).collect(),
        trouble: newest.map(|pod| {
            if pods::is_running(pod, super::build::CONTAINER) {
                "the agent runs".to_owned()
            } else {
                pods::trouble(pod)
            }
        }),
    }
}

/// One at a time for each cluster: a snapshot makes the member that it is taken from slow. Those that have a Job go
/// first, then the older ones.
fn before(reader: &Reader, snapshot: &EtcdSnapshot) -> Option<String> {
    let turn = |one: &EtcdSnapshot| {
        let started = one.phase() == Some(phase::STARTED);
        (!started, one.metadata.creation_timestamp.as_ref().map(|time| time.0), one.name_any())
    };
    let ours = turn(snapshot);
    let all = reader.snapshots.state();
    let others = all.iter().filter(|other| {
        other.metadata.uid != snapshot.metadata.uid
            && other.metadata.namespace == snapshot.metadata.namespace
            && other.metadata.deletion_timestamp.is_none()
            && other.spec.cluster_ref.name == snapshot.spec.cluster_ref.name
            && !decide::has_ended(other.phase())
    });
    others.map(|other| turn(other)).filter(|other| *other < ours).min().map(|(_, _, name)| name)
}
