//! What there is to know about a member before anything is decided. What could not be read is a value, too.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use sha2::{Digest, Sha256};

use super::{Reader, build};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::names;
use crate::controller::access::{self, Door};
use crate::controller::frame::chain;
use crate::controller::seen::{Asked, Owned, hex};
use crate::controller::{pods, shape};
use crate::k8s::{error as api_error, owner};

/// The cluster that a member belongs to.
#[derive(Clone, Debug)]
pub enum Parent {
    /// It is there, and it is the very one that made the member.
    Alive(Arc<EtcdCluster>),
    /// It is gone, going, or another cluster has its name now.
    Going,
    /// It could not be read.
    Unknown(String),
}

impl Parent {
    /// The cluster, if it is alive.
    #[must_use]
    pub fn alive(&self) -> Option<&EtcdCluster> {
        match self {
            Self::Alive(cluster) => Some(cluster),
            Self::Going | Self::Unknown(_) => None,
        }
    }
}

/// What the etcd in a member's Pod tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Myself {
    /// Member id.
    pub member_id: u64,
    /// Version; a learner that could not be asked itself does not tell.
    pub version: Option<String>,
    /// Whether it does not vote.
    pub is_learner: bool,
    /// What it complains about, such as a quota that is used up.
    pub errors: Vec<String>,
}

/// What the other members tell about one that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// Its id, if etcd still lists it.
    pub listed: Option<u64>,
    /// Whether it leads.
    pub leads: bool,
    /// A voter that could lead instead.
    pub heir: Option<u64>,
}

/// Everything that decides about a member.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The member.
    pub member: Arc<EtcdMember>,
    /// Its cluster.
    pub parent: Parent,
    /// Its Pod.
    pub pod: Owned<Pod>,
    /// Its volume claim.
    pub claim: Owned<PersistentVolumeClaim>,
    /// The other members of its cluster.
    pub siblings: Vec<Arc<EtcdMember>>,
    /// What its etcd tells of itself.
    pub myself: Asked<Myself>,
    /// What its siblings tell, when it leaves.
    pub roster: Asked<Roster>,
    /// How many other voters answer and follow a leader, when it crashes over and over.
    pub others_healthy: Asked<usize>,
    /// Secrets that its Pod needs and that are not there or not complete; only looked at while it has no Pod.
    pub missing: Vec<String>,
    /// Digest of the Secrets that its restore uses; only looked at when there is a restore to do.
    pub restore_inputs: Option<String>,
}

/// The member's status field, or nothing.
#[must_use]
pub fn member_id(member: &EtcdMember) -> Option<&str> {
    member.status.as_ref()?.member_id.as_deref().filter(|id| !id.is_empty())
}

/// Whether the member took part in a formed cluster. Its data is then worth what the cluster is worth: a volume that
/// vanishes is not replaced by an empty one.
#[must_use]
pub fn has_joined(member: &EtcdMember, parent: Option<&EtcdCluster>) -> bool {
    let formed = parent.and_then(|parent| parent.status.as_ref()).is_some_and(|status| status.cluster_id.is_some());
    member_id(member).is_some() || (member.spec.bootstrap == Some(true) && formed)
}

/// Looks.
pub async fn observe(reader: &Reader, member: Arc<EtcdMember>) -> Observed {
    let namespace = member.namespace().unwrap_or_default();
    let name = member.name_any();
    let leaving = member.metadata.deletion_timestamp.is_some();
    let pod = Owned::of(reader.pods.get(&ObjectRef::new(&name).within(&namespace)), &member.metadata);
    let claim_name = names::data_claim(&name);
    let claim = Owned::of(reader.claims.get(&ObjectRef::new(&claim_name).within(&namespace)), &member.metadata);
    let parent = if leaving { live_parent(reader, &member).await } else { cached_parent(reader, &member) };
    let mut observed = Observed {
        siblings: siblings(reader, &member),
        member,
        parent,
        pod,
        claim,
        myself: Asked::No,
        roster: Asked::No,
        others_healthy: Asked::No,
        missing: Vec::new(),
        restore_inputs: None,
    };
    if leaving {
        observed.roster = roster(reader, &observed).await;
        return observed;
    }
    observed.myself = myself(reader, &observed).await;
    observed.others_healthy = others_healthy(reader, &observed).await;
    if build::wants_restore(&observed.member, observed.parent.alive()) {
        observed.restore_inputs = Some(restore_inputs(reader, &observed.member).await);
    }
    if matches!(observed.pod, Owned::Absent) {
        observed.missing = missing(reader, &observed.member).await;
    }
    observed
}

fn cached_parent(reader: &Reader, member: &EtcdMember) -> Parent {
    let place = ObjectRef::new(&member.spec.cluster_name).within(&member.namespace().unwrap_or_default());
    sort_parent(reader.clusters.get(&place), member)
}

/// Whether a member that leaves has to be taken out of etcd is decided on a fresh look only.
async fn live_parent(reader: &Reader, member: &EtcdMember) -> Parent {
    let api: Api<EtcdCluster> = Api::namespaced(reader.context.client.clone(), &member.namespace().unwrap_or_default());
    match api.get_opt(&member.spec.cluster_name).await {
        Ok(found) => sort_parent(found.map(Arc::new), member),
        Err(error) => Parent::Unknown(api_error::message(&error)),
    }
}

fn sort_parent(found: Option<Arc<EtcdCluster>>, member: &EtcdMember) -> Parent {
    match found {
        Some(cluster)
            if cluster.metadata.deletion_timestamp.is_none()
                && owner::is_controlled_by(&member.metadata, cluster.metadata.uid.as_deref().unwrap_or_default()) =>
        {
            Parent::Alive(cluster)
        }
        Some(_) | None => Parent::Going,
    }
}

fn siblings(reader: &Reader, member: &EtcdMember) -> Vec<Arc<EtcdMember>> {
    let owner = owner::controller_uid(&member.metadata).unwrap_or_default();
    let mut siblings = reader.members.state();
    siblings.retain(|other| {
        other.metadata.uid != member.metadata.uid
            && other.metadata.namespace == member.metadata.namespace
            && owner::is_controlled_by(&other.metadata, owner)
    });
    siblings.sort_by_key(|other| other.name_any());
    siblings
}

/// Asks the member's own etcd, when there is something to learn: after a start, until it votes, and while it is not
/// Ready.
async fn myself(reader: &Reader, observed: &Observed) -> Asked<Myself> {
    let (Some(cluster), Some(pod)) = (observed.parent.alive(), observed.pod.ours()) else { return Asked::No };
    let status = observed.member.status.clone().unwrap_or_default();
    let known = status.member_id.is_some()
        && status.is_voter == Some(true)
        && status.version.is_some()
        && status.pod_uid == pod.metadata.uid
        && pods::is_ready(pod)
        && build::initial_state_of(pod) != Some(build::InitialState::New);
    let Some(address) = pods::address(pod).filter(|_| !known && pods::is_running(pod, build::CONTAINER)) else {
        return Asked::No;
    };
    let door = Door { member: &observed.member, address };
    let kube = &reader.context.client;
    let answer = match access::material(kube, cluster).await {
        Ok(material) => tell(door, &material).await.map_err(|error| (error, material)),
        Err(error) => return Asked::Failed(chain(&error)),
    };
    match answer {
        // Alone, and before anybody has switched authentication on: its users were restored with its data.
        Err((error, material)) if error.asks_for_password() && founds(observed) && shape::wants_auth(cluster) => {
            asked(async { tell(door, &material.with(access::root(kube, cluster).await?)).await }.await)
        }
        // It answers, but lets nobody in whom it does not know yet: learners take no logins.
        Err((error, _)) if error.asks_for_password() && !founds(observed) => asked(by_siblings(reader, observed).await),
        answer => asked(answer.map_err(|(error, _)| error)),
    }
}

/// Whether it is there before all others.
fn founds(observed: &Observed) -> bool {
    observed.member.spec.bootstrap == Some(true) && observed.siblings.is_empty()
}

async fn tell(door: Door<'_>, material: &access::Material) -> Result<Myself, access::Error> {
    let status = access::dial(door, material).await?.status().await?;
    Ok(Myself {
        member_id: status.header.map_or(0, |header| header.member_id),
        version: Some(status.version),
        is_learner: status.is_learner,
        errors: status.errors,
    })
}

/// What the voters tell of this member.
async fn by_siblings(reader: &Reader, observed: &Observed) -> Result<Myself, access::Error> {
    let members = dial_sibling(reader, observed).await?.member_list(true).await?;
    let url = shape::peer_url(&observed.member);
    let me = members.into_iter().find(|listed| !listed.name.is_empty() && listed.peer_urls.contains(&url));
    let me = me.ok_or(access::Error::Nobody)?;
    Ok(Myself { member_id: me.id, version: None, is_learner: me.is_learner, errors: Vec::new() })
}

fn asked<T>(answer: Result<T, access::Error>) -> Asked<T> {
    match answer {
        Ok(answer) => Asked::Answered(answer),
        Err(error) => Asked::Failed(chain(&error)),
    }
}

/// The siblings that can be dialled, with their addresses.
fn doors<'a>(reader: &Reader, siblings: &'a [Arc<EtcdMember>]) -> Vec<(&'a EtcdMember, String)> {
    let address = |sibling: &EtcdMember| {
        let place = ObjectRef::new(&sibling.name_any()).within(&sibling.namespace().unwrap_or_default());
        match Owned::of(reader.pods.get(&place), &sibling.metadata) {
            Owned::Ours(pod) if !pods::is_going(&pod) => pods::address(&pod).map(ToOwned::to_owned),
            Owned::Ours(_) | Owned::Absent | Owned::Foreign => None,
        }
    };
    let staying = siblings.iter().filter(|sibling| sibling.metadata.deletion_timestamp.is_none());
    staying.filter_map(|sibling| Some((sibling.as_ref(), address(sibling)?))).collect()
}

/// A connection to a sibling that stays.
pub async fn dial_sibling(reader: &Reader, observed: &Observed) -> Result<crate::etcd::Client, access::Error> {
    let Some(cluster) = observed.parent.alive() else { return Err(access::Error::Nobody) };
    let material = access::material(&reader.context.client, cluster).await?;
    let doors = doors(reader, &observed.siblings);
    let mut last = access::Error::Nobody;
    for (member, address) in &doors {
        // A learner refuses most calls.
        if member.status.as_ref().and_then(|status| status.is_voter) == Some(false) {
            continue;
        }
        match access::dial(Door { member, address }, &material).await {
            Ok(client) => return Ok(client),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn roster(reader: &Reader, observed: &Observed) -> Asked<Roster> {
    if observed.parent.alive().is_none() || observed.siblings.is_empty() {
        return Asked::No;
    }
    let answer = async {
        let client = dial_sibling(reader, observed).await?;
        let members = client.member_list(true).await?;
        let leader = client.status().await?.leader;
        let url = shape::peer_url(&observed.member);
        let known = member_id(&observed.member).and_then(|id| u64::from_str_radix(id, 16).ok());
        let is_me = |id: u64, urls: &[String]| known.map_or_else(|| urls.contains(&url), |known| known == id);
        let me = members.iter().find(|listed| is_me(listed.id, &listed.peer_urls)).map(|listed| listed.id);
        let heir = members.iter().find(|listed| !listed.is_learner && !listed.name.is_empty() && Some(listed.id) != me);
        Ok(Roster { listed: me, leads: me == Some(leader), heir: heir.map(|heir| heir.id) })
    };
    asked(answer.await)
}

async fn others_healthy(reader: &Reader, observed: &Observed) -> Asked<usize> {
    let (Some(cluster), true) = (observed.parent.alive(), super::decide::looks_beyond_repair(observed)) else {
        return Asked::No;
    };
    let material = match access::material(&reader.context.client, cluster).await {
        Ok(material) => material,
        Err(error) => return Asked::Failed(chain(&error)),
    };
    let mut healthy = 0;
    for (member, address) in doors(reader, &observed.siblings) {
        let answer = async {
            let client = access::dial(Door { member, address: &address }, &material).await.ok()?;
            client.status().await.ok()
        };
        healthy += usize::from(answer.await.is_some_and(|status| status.leader != 0 && !status.is_learner));
    }
    Asked::Answered(healthy)
}

/// Which Secrets the Pod would wait for.
async fn missing(reader: &Reader, member: &EtcdMember) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(reader.context.client.clone(), &member.namespace().unwrap_or_default());
    let mut missing = Vec::new();
    for (name, keys) in build::needed_secrets(member) {
        match secrets.get_opt(&name).await {
            Ok(None) => missing.push(format!("Secret {name} does not exist")),
            Ok(Some(secret)) => {
                let data = secret.data.unwrap_or_default();
                let lacks = keys.into_iter().filter(|key| !data.contains_key(*key));
                missing.extend(lacks.map(|key| format!("Secret {name} has no key {key}")));
                let certificate = data.get("tls.crt").and_then(|pem| expired_at(&pem.0));
                missing.extend(certificate.map(|at| format!("the certificate in Secret {name} expired at {at}")));
            }
            Err(error) => missing.push(format!("Secret {name} cannot be read: {}", api_error::message(&error))),
        }
    }
    missing
}

/// When the first certificate of a PEM file expired; `None` for one that has not, and for what is none: etcd will say.
fn expired_at(pem: &[u8]) -> Option<Timestamp> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem).ok()?;
    let end = pem.parse_x509().ok()?.validity().not_after.timestamp();
    Timestamp::from_second(end).ok().filter(|end| *end < Timestamp::now())
}

/// A digest that changes when a Secret of the restore does. A Secret that cannot be read counts as absent.
async fn restore_inputs(reader: &Reader, member: &EtcdMember) -> String {
    let secrets: Api<Secret> = Api::namespaced(reader.context.client.clone(), &member.namespace().unwrap_or_default());
    let mut hash = Sha256::new();
    for name in build::restore_secrets(member) {
        let version = secrets.get_metadata_opt(&name).await.ok().flatten().and_then(|secret| secret.resource_version());
        hash.update(format!("{name}={}\n", version.unwrap_or_default()));
    }
    hex(&hash.finalize(), 8)
}
