//! The members of a cluster as etcd itself tells them, and their volumes.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt};
use tonic::Code;

use crate::api::common::APP_CLUSTER_NAME;
use crate::api::condition;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::{EtcdMember, condition_type};
use crate::api::names::{self, operator};
use crate::checks::Known;
use crate::controller::access::{self, Door, Material};
use crate::controller::frame::chain;
use crate::controller::pods;
use crate::controller::restorejob::facts::Volume;
use crate::etcd;
use crate::etcd::wire::AlarmType;
use crate::k8s::error::message;
use crate::k8s::owner;

/// The members of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// All of them.
    pub members: Vec<LiveMember>,
    /// Alarms that are raised, each in etcd's word; `None` where no quorum told.
    pub alarms: Option<Vec<String>>,
}

/// One member.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveMember {
    /// Its name.
    pub name: String,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// What its etcd told, or why it told nothing.
    pub told: Result<Told, String>,
    /// Its volume, if it has one.
    pub volume: Option<Volume>,
}

/// What one etcd told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Revision of the key space.
    pub revision: i64,
    /// Raft's applied index.
    pub applied: u64,
    /// Whether it does not vote.
    pub is_learner: bool,
    /// Its HashKV.
    pub hash: Hash,
}

/// HashKV at a fixed revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hash {
    /// There was no need to ask.
    #[default]
    NotAsked,
    /// The hash.
    Is(u32),
    /// The revision is compacted away, so that nobody can tell any more.
    Compacted,
    /// The member has not come so far yet.
    Behind,
}

impl Live {
    /// The highest revision that a member told.
    #[must_use]
    pub fn revision(&self) -> Option<i64> {
        self.members.iter().filter_map(|member| member.told.as_ref().ok()).map(|told| told.revision).max()
    }

    /// The volume of the voter that has applied most, where a majority of the voters answers: only among so many is
    /// all that was committed. Else all volumes, for a member that answers alone may lag behind those that do not.
    #[must_use]
    pub fn volumes_to_keep(&self) -> Vec<Volume> {
        let answer = |member: &LiveMember| member.told.as_ref().ok().map(|told| (told.is_learner, told.applied));
        // One that does not answer may well be a voter.
        let voters =
            self.members.iter().filter(|member| answer(member).is_none_or(|(is_learner, _)| !is_learner)).count();
        let answered: Vec<(u64, &LiveMember)> = self
            .members
            .iter()
            .filter_map(|member| {
                answer(member).filter(|(is_learner, _)| !is_learner).map(|(_, applied)| (applied, member))
            })
            .collect();
        let most = answered.iter().map(|(applied, _)| *applied).max();
        let best = answered
            .iter()
            .filter(|(applied, _)| answered.len() > voters / 2 && Some(*applied) == most)
            .find_map(|(_, member)| member.volume.clone());
        match best {
            Some(volume) => vec![volume],
            None => self.members.iter().filter_map(|member| member.volume.clone()).collect(),
        }
    }
}

/// Looks at the members of the cluster that stands there, and asks each; for its hash at a revision, where one is given.
pub async fn live(client: &Client, cluster: &EtcdCluster, hash_at: Option<i64>) -> Known<Live> {
    match members(client, cluster).await {
        Err(error) => Known::Unknown(message(&error)),
        Ok(found) => {
            let material = access::material(client, cluster).await;
            let asked = found.into_iter().map(|seen| ask(seen, material.as_ref(), hash_at));
            let members = join_all(asked).await;
            let alarms = members.iter().find_map(|(_, alarms)| alarms.clone());
            Known::Found(Live { members: members.into_iter().map(|(member, _)| member).collect(), alarms })
        }
    }
}

struct Seen {
    member: EtcdMember,
    address: Option<String>,
    volume: Option<Volume>,
}

async fn members(client: &Client, cluster: &EtcdCluster) -> Result<Vec<Seen>, Error> {
    let namespace = cluster.namespace().unwrap_or_default();
    let of_cluster = ListParams::default().labels(&format!("{}={APP_CLUSTER_NAME}", operator::CLUSTER));
    let members: Api<EtcdMember> = Api::namespaced(client.clone(), &namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let (members, pods, claims) =
        tokio::try_join!(members.list(&of_cluster), pods.list(&of_cluster), claims.list(&of_cluster))?;
    let uid = cluster.uid().unwrap_or_default();
    let ours = members.items.into_iter().filter(|member| owner::is_controlled_by(&member.metadata, &uid));
    Ok(ours
        .map(|member| {
            let uid = member.uid().unwrap_or_default();
            let pod = pods.items.iter().find(|pod| owner::is_controlled_by(&pod.metadata, &uid));
            let address = pod.filter(|pod| !pods::is_going(pod)).and_then(pods::address).map(ToOwned::to_owned);
            let claim = claims.items.iter().find(|claim| {
                owner::is_controlled_by(&claim.metadata, &uid)
                    && claim.metadata.deletion_timestamp.is_none()
                    && claim.name_any() == names::data_claim(&member.name_any())
            });
            Seen { volume: claim.map(|claim| volume(&member, claim)), address, member }
        })
        .collect())
}

fn volume(member: &EtcdMember, claim: &PersistentVolumeClaim) -> Volume {
    let below = member.annotations().get(operator::DATA_DIR_SUBPATH).map(|sub| format!("{sub}/")).unwrap_or_default();
    Volume {
        claim: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        member: member.name_any(),
        sub_path: format!("{below}member/snap/db"),
        owners: claim.metadata.owner_references.clone().unwrap_or_default(),
        labels: claim.metadata.labels.clone().unwrap_or_default(),
    }
}

async fn ask(
    seen: Seen,
    material: Result<&Material, &access::Error>,
    hash_at: Option<i64>,
) -> (LiveMember, Option<Vec<String>>) {
    let Seen { member, address, volume } = seen;
    let conditions = member.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = member.metadata.deletion_timestamp.is_none() && condition::is_true(conditions, condition_type::READY);
    let (told, alarms) = match (material, &address) {
        (Err(error), _) => (Err(chain(error)), None),
        (Ok(_), None) => (Err("its Pod has no address".to_owned()), None),
        (Ok(material), Some(address)) => match tell(Door { member: &member, address }, material, hash_at).await {
            Ok((told, alarms)) => (Ok(told), alarms),
            Err(error) => (Err(chain(&error)), None),
        },
    };
    (LiveMember { name: member.name_any(), ready, told, volume }, alarms)
}

async fn tell(
    door: Door<'_>,
    material: &Material,
    hash_at: Option<i64>,
) -> Result<(Told, Option<Vec<String>>), access::Error> {
    let client = access::dial(door, material).await?;
    let status = client.status().await?;
    let revision = status.header.as_ref().map_or(0, |header| header.revision);
    let (hash, alarms) = match hash_at {
        None => (Hash::NotAsked, None),
        Some(at) if revision < at => (Hash::Behind, None),
        Some(at) => (hash(&client, at).await?, alarms(&client).await),
    };
    let told = Told { revision, applied: status.raft_applied_index, is_learner: status.is_learner, hash };
    Ok((told, alarms))
}

async fn hash(client: &etcd::Client, at: i64) -> Result<Hash, etcd::Error> {
    match client.hash_kv(at).await {
        Ok(answer) => Ok(Hash::Is(answer.hash)),
        // The revision is not ahead of the member's own.
        Err(error) if error.code() == Some(Code::OutOfRange) => Ok(Hash::Compacted),
        Err(error) => Err(error),
    }
}

/// The alarms in etcd's words; a learner, or a member without a quorum, does not tell.
async fn alarms(client: &etcd::Client) -> Option<Vec<String>> {
    let found = client.alarms().await.ok()?;
    let mut words: Vec<String> = found.iter().map(|alarm| word(alarm.alarm)).collect();
    words.sort();
    words.dedup();
    Some(words)
}

fn word(alarm: i32) -> String {
    AlarmType::try_from(alarm).map_or_else(|_| format!("alarm {alarm}"), |alarm| format!("{alarm:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, told: Option<(u64, bool)>) -> LiveMember {
        let told = told.map(|(applied, is_learner)| Told { applied, is_learner, ..Told::default() });
        LiveMember {
            name: name.to_owned(),
            ready: told.is_some(),
            told: told.ok_or_else(|| "connection refused".to_owned()),
            volume: Some(Volume { claim: name.to_owned(), ..Volume::default() }),
        }
    }

    fn kept(members: &[LiveMember]) -> Vec<String> {
        let live = Live { members: members.to_vec(), alarms: None };
        live.volumes_to_keep().into_iter().map(|volume| volume.claim).collect()
    }

    #[test]
    fn one_volume_is_kept_only_where_a_majority_of_the_voters_says_which() {
        let (a, b, c) = (member("a", Some((9, false))), member("b", Some((7, false))), member("c", None));
        assert_eq!(kept(&[a.clone(), b.clone(), c.clone()]), ["a"]);
        assert_eq!(kept(&[b.clone(), a.clone(), member("c", Some((8, false)))]), ["a"]);
        assert_eq!(kept(std::slice::from_ref(&a)), ["a"]);
        // A straggler that answers alone does not decide.
        assert_eq!(kept(&[member("a", None), b, c.clone()]), ["a", "b", "c"]);
        assert_eq!(kept(&[member("a", None), member("b", None), c.clone()]), ["a", "b", "c"]);
        // Neither does a learner, however far it says to be.
        let learner = member("l", Some((99, true)));
        assert_eq!(kept(&[a.clone(), learner.clone()]), ["a"]);
        assert_eq!(kept(&[a, c.clone(), learner.clone()]), ["a", "c", "l"]);
        assert_eq!(kept(&[c, learner]), ["c", "l"]);
    }

    #[test]
    fn of_voters_that_are_equally_far_one_with_a_volume_is_kept() {
        let mut bare = member("a", Some((9, false)));
        bare.volume = None;
        let behind = member("c", Some((7, false)));
        assert_eq!(kept(&[member("b", Some((9, false))), bare.clone(), behind.clone()]), ["b"]);
        assert_eq!(kept(&[bare, behind.clone(), member("d", Some((8, false)))]), ["c", "d"]);
    }
}
