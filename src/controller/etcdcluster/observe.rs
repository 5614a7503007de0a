//! What there is to know about a cluster before anything is decided. What could not be read is a value, too.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};

use super::certificates::{self, Role};
use super::{Reader, build, decide};
use crate::api::certmanager::Certificate;
use crate::api::condition;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::{EtcdMember, condition_type};
use crate::api::names;
use crate::checks::{Kind, Nothing};
use crate::controller::access::{self, Door};
use crate::controller::frame::chain;
use crate::controller::seen::{Asked, Owned};
use crate::controller::{pods, shape};
use crate::etcd::Credentials;
use crate::k8s::{error as api_error, owner};

/// A member with its Pod.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The member.
    pub member: Arc<EtcdMember>,
    /// Its Pod, if it has one.
    pub pod: Option<Arc<Pod>>,
}

impl Seen {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.member.name_any()
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.member.metadata.deletion_timestamp.is_some()
    }

    /// Whether its Pod is stopped on purpose.
    #[must_use]
    pub fn is_dormant(&self) -> bool {
        self.member.spec.dormant == Some(true)
    }

    /// Whether it was made but not added to etcd yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.member.spec.bootstrap != Some(true) && self.member.spec.initial_cluster.is_empty()
    }

    /// Whether it forms the cluster.
    #[must_use]
    pub fn is_seed(&self) -> bool {
        self.member.spec.bootstrap == Some(true)
    }

    /// Whether its condition Ready is True.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let status = self.member.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        !self.is_going() && condition::is_true(conditions, condition_type::READY)
    }

    /// Whether it votes, as far as is known.
    #[must_use]
    pub fn is_voter(&self) -> bool {
        self.member.status.as_ref().and_then(|status| status.is_voter) == Some(true)
    }

    /// Whether its etcd has answered in the Pod that it has now.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        let status = self.member.status.as_ref();
        let pod = self.pod.as_ref().filter(|pod| !pods::is_going(pod));
        self.id().is_some()
            && pod.is_some_and(|pod| status.and_then(|status| status.pod_uid.as_ref()) == pod.metadata.uid.as_ref())
    }

    /// Its id in etcd, once it told.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        u64::from_str_radix(self.member.status.as_ref()?.member_id.as_deref()?, 16).ok()
    }

    /// What its condition Ready says when it is not.
    #[must_use]
    pub fn trouble(&self) -> Option<(String, String)> {
        let conditions = self.member.status.as_ref()?.conditions.as_deref()?;
        let ready = condition::find(conditions, condition_type::READY).filter(|ready| ready.status != "True")?;
        Some((ready.reason.clone(), ready.message.clone()))
    }

    fn door(&self) -> Option<Door<'_>> {
        let pod = self.pod.as_ref().filter(|pod| !pods::is_going(pod))?;
        Some(Door { member: &self.member, address: pods::address(pod)? })
    }
}

/// A member as etcd lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Id.
    pub id: u64,
    /// Name; empty until it has started.
    pub name: String,
    /// Peer URLs.
    pub peer_urls: Vec<String>,
    /// Whether it does not vote.
    pub is_learner: bool,
}

/// The certificates that the cluster asks cert-manager for.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// It brings its own Secrets, or speaks no TLS.
    NotWanted,
    /// The API server does not know the kind.
    NotInstalled,
    /// They could not be read.
    Unknown(String),
    /// What is there.
    Seen(Vec<(Role, Owned<Certificate>)>),
}

/// What etcd tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// Cluster id.
    pub cluster_id: u64,
    /// Members.
    pub members: Vec<Listed>,
    /// Whether it asks for a password; only asked of one that is about to form a cluster.
    pub auth_is_on: bool,
    /// Whether it asks for a password and the spec names none, so that it told nothing else.
    pub locked: bool,
}

/// Everything that decides about a cluster.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The cluster.
    pub cluster: Arc<EtcdCluster>,
    /// Its members, oldest first.
    pub members: Vec<Seen>,
    /// The headless Service.
    pub headless: Owned<Service>,
    /// The Service for clients.
    pub client: Owned<Service>,
    /// The disruption budget.
    pub budget: Owned<PodDisruptionBudget>,
    /// What etcd tells, when there is something to change.
    pub etcd: Asked<Etcd>,
    /// Why the rules refuse the cluster before it begins, or the change that its spec asks for.
    pub refused: Option<String>,
    /// Whether etcd did not answer because it did not take our password.
    pub rejected: bool,
    /// The certificates from cert-manager.
    pub certificates: Certificates,
    /// DNS domain of the Kubernetes cluster.
    pub cluster_domain: String,
}

/// Looks.
pub async fn observe(reader: &Reader, cluster: Arc<EtcdCluster>, now: Timestamp) -> Observed {
    let meta = &cluster.metadata;
    let name = cluster.name_any();
    let mut observed = Observed {
        members: members(reader, &cluster),
        headless: Owned::of(named(&reader.services, &cluster, &names::headless_service(&name)), meta),
        client: Owned::of(named(&reader.services, &cluster, &names::client_service(&name)), meta),
        budget: Owned::of(named(&reader.budgets, &cluster, &name), meta),
        etcd: Asked::No,
        refused: None,
        rejected: false,
        certificates: certificates(reader, &cluster).await,
        cluster_domain: reader.context.settings.cluster_domain.clone(),
        cluster: cluster.clone(),
    };
    observed.refused = refused(reader, &observed, now);
    if decide::wants_etcd(&observed) {
        observed.etcd = match ask(reader, &observed).await {
            Ok(etcd) => Asked::Answered(etcd),
            Err(error) => {
                observed.rejected = error.is_rejected();
                Asked::Failed(chain(&error))
            }
        };
    }
    observed
}

/// What has begun is not stopped by a rule: only what was never adopted is judged as a whole, and a changed spec by what
/// it changes.
fn refused(reader: &Reader, seen: &Observed, now: Timestamp) -> Option<String> {
    let (judgement, cluster) = (&reader.context.judgement, seen.cluster.as_ref());
    match decide::target(seen) {
        None if seen.members.is_empty() && decide::cluster_id(seen).is_none() => {
            judgement.of_new(Kind::EtcdCluster, cluster, &Nothing, now)
        }
        None => None,
        Some(target) if build::same_target(target, &build::target(cluster)) => None,
        Some(target) => {
            let mut old = cluster.clone();
            old.spec.version.clone_from(&target.version);
            old.spec.replicas = Some(target.replicas);
            judgement.of_change(Kind::EtcdCluster, cluster, &old, &Nothing, now)
        }
    }
}

/// Asked of the API server itself: cert-manager may come and go, and a watch of a kind that is not there never begins.
async fn certificates(reader: &Reader, cluster: &EtcdCluster) -> Certificates {
    let wanted = certificates::wanted(cluster, &reader.context.settings.cluster_domain);
    if wanted.is_empty() {
        return Certificates::NotWanted;
    }
    let api: Api<Certificate> = reader.api(cluster);
    let mut found = Vec::new();
    for (role, certificate) in wanted {
        match api.get(&certificate.name_any()).await {
            Ok(live) => found.push((role, Owned::of(Some(Arc::new(live)), &cluster.metadata))),
            Err(error) if api_error::is_missing_kind(&error) => return Certificates::NotInstalled,
            Err(error) if api_error::is_not_found(&error) => found.push((role, Owned::Absent)),
            Err(error) => return Certificates::Unknown(api_error::message(&error)),
        }
    }
    Certificates::Seen(found)
}

fn named<K>(store: &Store<K>, cluster: &EtcdCluster, name: &str) -> Option<Arc<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(&cluster.namespace().unwrap_or_default()))
}

/// The members that this very cluster made; a namesake's are none of its business.
fn members(reader: &Reader, cluster: &EtcdCluster) -> Vec<Seen> {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let mut ours: Vec<Arc<EtcdMember>> = reader.members.state();
    ours.retain(|member| {
        member.metadata.namespace == cluster.metadata.namespace && owner::is_controlled_by(&member.metadata, uid)
    });
    ours.sort_by_key(|member| (member.metadata.creation_timestamp.clone().map(|at| at.0), member.name_any()));
    ours.into_iter()
        .map(|member| {
            let place = ObjectRef::new(&member.name_any()).within(&member.namespace().unwrap_or_default());
            let pod = match Owned::of(reader.pods.get(&place), &member.metadata) {
                Owned::Ours(pod) => Some(pod),
                Owned::Absent | Owned::Foreign => None,
            };
            Seen { member, pod }
        })
        .collect()
}

/// A connection to a voter: a Ready one if there is one.
pub async fn dial_voter(reader: &Reader, seen: &Observed) -> Result<crate::etcd::Client, access::Error> {
    let material = access::material(&reader.context.client, &seen.cluster).await?;
    dial_with(seen, &material).await
}

/// The same, logged in with these credentials whether or not the cluster is known to ask for any.
pub async fn dial_voter_as(
    reader: &Reader,
    seen: &Observed,
    credentials: Credentials,
) -> Result<crate::etcd::Client, access::Error> {
    let material = access::material(&reader.context.client, &seen.cluster).await?;
    dial_with(seen, &material.with(credentials)).await
}

async fn dial_with(seen: &Observed, material: &access::Material) -> Result<crate::etcd::Client, access::Error> {
    // The seed votes from the start, before its status says so.
    let mut voters: Vec<&Seen> = seen
        .members
        .iter()
        .filter(|member| member.is_voter() || member.is_seed())
        .filter(|member| !member.is_going())
        .collect();
    voters.sort_by_key(|member| !member.is_ready());
    let doors: Vec<Door<'_>> = voters.into_iter().filter_map(Seen::door).collect();
    access::dial_any(&doors, material).await
}

/// Data that was restored brings its users along, before this cluster's status says that it has any.
async fn ask(reader: &Reader, seen: &Observed) -> Result<Etcd, access::Error> {
    let mut client = dial_voter(reader, seen).await?;
    let forms = decide::cluster_id(seen).is_none();
    let auth_is_on = forms && client.auth_is_on().await.map_err(access::Error::Etcd)?;
    if auth_is_on {
        if !shape::wants_auth(&seen.cluster) {
            return Ok(Etcd { cluster_id: 0, members: Vec::new(), auth_is_on, locked: true });
        }
        let root = access::root(&reader.context.client, &seen.cluster).await?;
        client = dial_voter_as(reader, seen, root).await?;
    }
    let (cluster_id, members) = client.cluster().await?;
    let members = members
        .into_iter()
        .map(|member| Listed {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_urls,
            is_learner: member.is_learner,
        })
        .collect();
    Ok(Etcd { cluster_id, members, auth_is_on, locked: false })
}

/// The entry of a member in etcd's list: by its id once it told, else by its peer URL.
#[must_use]
pub fn listed<'a>(etcd: &'a Etcd, member: &Seen) -> Option<&'a Listed> {
    let url = shape::peer_url(&member.member);
    let id = member.id();
    etcd.members.iter().find(|listed| id.map_or_else(|| listed.peer_urls.contains(&url), |id| id == listed.id))
}
