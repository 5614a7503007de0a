//! Whether the cluster that stands there has the data that it was made from: the proof, without which nothing succeeds.

use kube::api::DynamicObject;

use crate::api::agent::Rehearsal;
use crate::api::etcdcluster::DEFAULT_REPLICAS;
use crate::checks::Known;
use crate::controller::restorejob::facts::Verified;
use crate::controller::restorejob::observe::Observed;
use crate::controller::restorejob::observe::live::{Hash, Live, LiveMember, Told};

/// What a look at the members proves.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Proof {
    /// A quorum has the data.
    Complete(Verified),
    /// Not enough members have told; why.
    Open(String),
    /// What was rehearsed cannot be compared any more; why.
    Lost(String),
    /// The data is not what was rehearsed; how it differs.
    Refuted(String),
}

/// Looks for the proof.
pub(super) fn prove(seen: &Observed, cluster: &DynamicObject) -> Proof {
    let live = match &seen.live {
        Known::Unknown(why) => return Proof::Open(format!("the members cannot be looked at: {why}")),
        Known::Absent => return Proof::Open("the new EtcdCluster has no members".to_owned()),
        Known::Found(live) => live,
    };
    let replicas = replicas(cluster);
    let facts = &seen.facts;
    let attempt = facts.attempt();
    let rehearsal = facts.preflight().and_then(|preflight| preflight.fact.rehearsal.as_ref());
    let bump = facts.preflight().map(|preflight| preflight.fact.bump).unwrap_or_default();
    let verified = match (attempt, rehearsal) {
        (0, Some(rehearsal)) => match another(cluster, rehearsal, bump) {
            Some(why) => return Proof::Refuted(why),
            None => compare(live, rehearsal),
        },
        // Old data was not rehearsed. That it is not an empty cluster, and not behind what was there, is seen.
        (0, None) => Ok(count(live, 1, None)),
        _ => Ok(count(live, floor(seen), None)),
    };
    let verified = match verified {
        Ok(verified) => Verified { attempt, replicas, ..verified },
        Err(proof) => return proof,
    };
    let quorum = replicas / 2 + 1;
    if verified.members < quorum {
        let members = verified.members;
        let said = first_trouble(live).map(|said| format!("; {said}")).unwrap_or_default();
        return Proof::Open(format!("{members} of {replicas} members are ready and proven, {quorum} are needed{said}"));
    }
    Proof::Complete(verified)
}

fn replicas(cluster: &DynamicObject) -> i32 {
    let replicas = cluster.data.pointer("/spec/replicas").and_then(serde_json::Value::as_i64);
    replicas.and_then(|replicas| i32::try_from(replicas).ok()).unwrap_or(DEFAULT_REPLICAS)
}

/// The revision that old data cannot be below: where there was any, it is more than an empty etcd's.
fn floor(seen: &Observed) -> i64 {
    let known = seen.facts.purge_intent.as_ref().and_then(|intent| intent.fact.revision);
    if known.is_some_and(|known| known > 1) { 2 } else { 1 }
}

/// How the snapshot that the new cluster was made from differs from the rehearsed one, as far as its own agent told. Where
/// the revision is raised, its history ends at its own last revision, so that there is no hash to compare.
fn another(cluster: &DynamicObject, rehearsal: &Rehearsal, bump: i64) -> Option<String> {
    let restored = cluster.data.pointer("/status/restored/revision").and_then(serde_json::Value::as_i64)?;
    let rehearsed = [rehearsal.revision, rehearsal.revision.saturating_sub(bump)];
    (!rehearsed.contains(&restored)).then(|| {
        let revision = rehearsal.revision;
        format!("it was made from a snapshot of revision {restored}; rehearsed was one that leads to {revision}, raised by {bump}")
    })
}

fn compare(live: &Live, rehearsal: &Rehearsal) -> Result<Verified, Proof> {
    for (member, told) in ready(live) {
        match told.hash {
            Hash::Is(hash) if hash != rehearsal.hash_kv => {
                return Err(Proof::Refuted(format!(
                    "member {} has hash {hash:08x} at revision {}, the rehearsal had {:08x}",
                    member.name, rehearsal.hash_revision, rehearsal.hash_kv
                )));
            }
            Hash::Compacted => {
                return Err(Proof::Lost(format!(
                    "member {} has compacted revision {} away, at which the rehearsal's hash was taken, so that nobody \
                     can tell whether it has that data",
                    member.name, rehearsal.hash_revision
                )));
            }
            Hash::Is(_) | Hash::Behind | Hash::NotAsked => {}
        }
    }
    let raised = live.alarms.iter().flatten().find(|alarm| !rehearsal.alarms.contains(alarm));
    if let Some(alarm) = raised {
        return Err(Proof::Refuted(format!(
            "the restored etcd raises alarm {alarm}, which the snapshot does not carry"
        )));
    }
    if live.alarms.is_none() {
        return Err(Proof::Open("no member has told whether an alarm is raised".to_owned()));
    }
    Ok(count(live, rehearsal.revision, Some(rehearsal.hash_kv)))
}

/// The voters that are ready and have come to a revision, with the hash where one is expected.
fn count(live: &Live, revision: i64, hash: Option<u32>) -> Verified {
    let proven = ready(live).filter(|(_, told)| {
        !told.is_learner && told.revision >= revision && hash.is_none_or(|hash| told.hash == Hash::Is(hash))
    });
    let members = i32::try_from(proven.count()).unwrap_or(i32::MAX);
    Verified { members, revision: live.revision().unwrap_or_default(), hash_kv: hash, ..Verified::default() }
}

fn ready(live: &Live) -> impl Iterator<Item = (&LiveMember, &Told)> {
    let ready = live.members.iter().filter(|member| member.ready);
    ready.filter_map(|member| Some((member, member.told.as_ref().ok()?)))
}

fn first_trouble(live: &Live) -> Option<String> {
    let silent = live.members.iter().find(|member| !member.ready || member.told.is_err())?;
    Some(match &silent.told {
        Err(why) => format!("{} does not answer: {why}", silent.name),
        Ok(_) => format!("{} is not ready", silent.name),
    })
}
