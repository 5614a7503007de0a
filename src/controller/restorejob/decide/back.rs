//! When an attempt fails after the purge was decided: the old data is put back, or a person has to decide.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::begin::HEADROOM;
use super::{Action, LOOK_AGAIN, Plan, Verdict, left, options, remaining, uid, unwanted};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::names::warden;
use crate::api::restorejob::reason;
use crate::checks::Known;
use crate::controller::restorejob::facts::{Abandoned, Fact, OldData, RollBack, Verified};
use crate::controller::restorejob::observe::Observed;
use crate::controller::restorejob::observe::volumes::Standing;
use crate::controller::restorejob::options::{OnFailure, RevisionBump};
use crate::controller::restorejob::records::restore_uid;

/// Why the attempt under way is to end, if it is: the deadline and a person's wish end the restore, but nothing except
/// its own failure ends the putting back of old data, for what comes after it is older.
pub(super) enum Ending {
    /// A person wants it.
    Wish(String),
    /// It failed, or the restore's time is over.
    Failure(String),
    /// Old data takes long to come back.
    Late(String),
}

impl Ending {
    fn why(&self) -> &str {
        match self {
            Self::Wish(why) | Self::Failure(why) | Self::Late(why) => why,
        }
    }
}

/// What a person decided about a restore that is blocked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Retry,
    Abandon,
}

fn answer(seen: &Observed) -> Option<Answer> {
    match seen.job.annotations().get(warden::UNBLOCK).map(String::as_str) {
        Some("Retry") => Some(Answer::Retry),
        Some("Abandon") => Some(Answer::Abandon),
        Some(_) | None => None,
    }
}

/// Whether the attempt under way has run out of time, or of favour.
pub(super) fn ending(seen: &Observed, now: Timestamp) -> Option<Ending> {
    if let Some(rollback) = seen.facts.rollback() {
        let since = rollback.at.as_ref().map_or(now, |at| at.0);
        let seconds = u64::try_from(options(seen).timeout_seconds).unwrap_or_default();
        let over = remaining(since, seconds, now).is_zero();
        return over.then(|| Ending::Late(format!("the old data was not back within {seconds} s")));
    }
    if let Some(why) = unwanted(&seen.job) {
        return Some(Ending::Wish(why.to_owned()));
    }
    let inputs = seen.facts.inputs.as_ref()?;
    let seconds = inputs.fact.options.timeout_seconds;
    left(inputs, now).is_zero().then(|| Ending::Failure(format!("the restore did not end within {seconds} s")))
}

/// The plan of an attempt, as long as the attempt goes on; its end where it does not. `state` says how it stands.
pub(super) fn unless_over(seen: &Observed, now: Timestamp, plan: Plan, state: &str) -> Plan {
    match ending(seen, now) {
        None => plan,
        Some(ending) => {
            let told = |why: &str| if state.is_empty() { why.to_owned() } else { format!("{why}: {state}") };
            let ending = match ending {
                Ending::Wish(why) => Ending::Wish(told(&why)),
                Ending::Failure(why) => Ending::Failure(told(&why)),
                Ending::Late(why) => Ending::Late(told(&why)),
            };
            give_up(seen, plan, ending)
        }
    }
}

/// The attempt failed for good.
pub(super) fn failed(seen: &Observed, why: String) -> Plan {
    let plan = Plan::wait(reason::ROLLING_BACK, why.clone(), LOOK_AGAIN);
    // To go on is no way out here: without old data a person has to decide.
    let wished = seen.facts.attempt() == 0 && unwanted(&seen.job).is_some() && !matches!(old_data(seen), Ok(None));
    give_up(seen, plan, if wished { Ending::Wish(why) } else { Ending::Failure(why) })
}

/// Ends an attempt: with the next that puts old data back, else with a question to a person. What the attempt would do
/// goes on meanwhile, and what comes right is taken.
pub(super) fn give_up(seen: &Observed, plan: Plan, ending: Ending) -> Plan {
    let held = options(seen).on_failure == OnFailure::Hold && seen.facts.attempt() == 0;
    let found = match &ending {
        Ending::Late(_) => Ok(None),
        Ending::Failure(_) if held || answer(seen) == Some(Answer::Retry) => Ok(None),
        Ending::Failure(_) | Ending::Wish(_) => old_data(seen),
    };
    let source = match found {
        Ok(source) => source,
        Err(why) => {
            let message = format!("{}; what there is of the old data cannot be told: {why}", ending.why());
            return Plan::wait(reason::API_UNAVAILABLE, message, LOOK_AGAIN);
        }
    };
    match (source, ending) {
        (Some(source), ending) => {
            let attempt = seen.facts.attempt().saturating_add(1);
            let fact = RollBack { attempt, why: ending.why().to_owned(), source, bump: bump(seen) };
            Plan::act([Action::Record(Fact::RollBack(fact))], reason::ROLLING_BACK, "the old data is put back")
        }
        // Nothing could be put back: to go on is the way to a cluster.
        (None, Ending::Wish(_)) if answer(seen) != Some(Answer::Abandon) => plan,
        (None, ending) => {
            let why_now = match &ending {
                Ending::Late(_) => {
                    "it goes on. To have older data put back instead, if there is any, delete the EtcdCluster"
                }
                Ending::Failure(_) | Ending::Wish(_) if held => "options.onFailure is Hold",
                Ending::Failure(_) | Ending::Wish(_) => {
                    "there is no old data, or no more of it, that could be put back"
                }
            };
            blocked(seen, plan, &format!("{}, and {why_now}", ending.why()))
        }
    }
}

/// With the old cluster given up and no new one proven, to end the restore would be to leave an empty or stranded
/// cluster: a person has to decide.
pub(super) fn blocked(seen: &Observed, plan: Plan, why: &str) -> Plan {
    match answer(seen) {
        Some(Answer::Retry) => return plan,
        Some(Answer::Abandon) => {
            let attempt = seen.facts.attempt();
            let fact = Abandoned { attempt, message: format!("abandoned on request: {why}") };
            return Plan::act([Action::Record(Fact::Abandoned(fact))], reason::BLOCKED, "abandoned on request");
        }
        None => {}
    }
    let unblock = warden::UNBLOCK;
    let message = format!(
        "{why}. The cluster stays guarded and its HelmRelease suspended. To go on waiting, annotate \
         this RestoreJob with {unblock}=Retry; to end it as things are, with {unblock}=Abandon"
    );
    Plan { verdict: Verdict::Waiting { reason: reason::BLOCKED, message }, ..plan }
}

/// The next place to put old data back from: the old cluster where it still stands, a kept volume, the safety snapshot;
/// each once. An error says what could not be read: what is newer must not be passed over for that.
fn old_data(seen: &Observed) -> Result<Option<OldData>, String> {
    let facts = &seen.facts;
    let Some(intent) = facts.purge_intent.as_ref().map(|intent| &intent.fact) else { return Ok(None) };
    let tried = |source: &OldData| facts.rollbacks.values().any(|rollback| rollback.fact.source == *source);
    if let Known::Unknown(why) = &seen.cluster {
        return Err(why.clone());
    }
    let standing = OldData::Standing { cluster_uid: intent.cluster_uid.clone() };
    if stands(seen, &intent.cluster_uid).is_some() && !tried(&standing) {
        return Ok(Some(standing));
    }
    let mut sources = Vec::new();
    if let Known::Unknown(why) = &seen.volumes
        && !intent.volumes.is_empty()
    {
        return Err(why.clone());
    }
    if let Known::Found(found) = &seen.volumes {
        let kept = intent
            .volumes
            .iter()
            .zip(found)
            .filter(|(_, standing)| matches!(standing, Standing::Kept | Standing::Expiring));
        sources.extend(
            kept.map(|(volume, _)| OldData::Volume { claim: volume.claim.clone(), sub_path: volume.sub_path.clone() }),
        );
    }
    let safety = facts.safety.as_ref().and_then(|safety| safety.fact.source.clone());
    sources.extend(safety.map(|source| OldData::Snapshot(Box::new(source))));
    Ok(sources.into_iter().find(|source| !tried(source)))
}

/// The old cluster, where it is there and stays.
fn stands<'a>(seen: &'a Observed, cluster_uid: &str) -> Option<&'a DynamicObject> {
    match &seen.cluster {
        Known::Found(cluster) if !cluster_uid.is_empty() && uid(cluster) == cluster_uid => {
            Some(cluster).filter(|cluster| cluster.metadata.deletion_timestamp.is_none())
        }
        Known::Found(_) | Known::Absent | Known::Unknown(_) => None,
    }
}

/// A rollback must exceed what the restored cluster has told its clients, too. How far the old data goes is not known,
/// so nothing of it is counted.
fn bump(seen: &Observed) -> i64 {
    let facts = &seen.facts;
    if options(seen).revision_bump == RevisionBump::Off {
        return 0;
    }
    let old = facts.purge_intent.as_ref().and_then(|intent| intent.fact.revision);
    let rehearsed = facts.preflight().and_then(|preflight| preflight.fact.rehearsal.as_ref());
    let live = match &seen.live {
        Known::Found(live) => live.revision(),
        Known::Absent | Known::Unknown(_) => None,
    };
    let earlier = facts.rollbacks.values().map(|rollback| rollback.fact.bump).max();
    let seen_alive = [old, rehearsed.map(|rehearsal| rehearsal.revision), live, earlier];
    seen_alive.into_iter().flatten().max().unwrap_or_default().saturating_add(HEADROOM)
}

/// The end of the duty: whoever deleted the application's HelmRelease wants none of this any more.
pub(super) fn orphaned(seen: &Observed) -> Option<Plan> {
    let facts = &seen.facts;
    let had_one = facts.release.as_ref().is_some_and(|release| release.fact.exists);
    let open = facts.purge_intent.is_some() && facts.verified.is_none();
    if !(had_one && open && matches!(seen.release, Known::Absent)) {
        return None;
    }
    let message = "the application's HelmRelease was deleted meanwhile, so that there is nothing to restore into; what is \
                   kept of the old data stays until somebody deletes it";
    let fact = Abandoned { attempt: facts.attempt(), message: message.to_owned() };
    Some(Plan::act([Action::Record(Fact::Abandoned(fact))], reason::RESTORE_FAILED, "the application was deleted"))
}

/// Whether the attempt under way leaves the old cluster standing.
pub(super) fn is_spared(seen: &Observed) -> bool {
    seen.facts.rollback().is_some_and(|rollback| matches!(rollback.fact.source, OldData::Standing { .. }))
}

/// Leaves the old cluster standing. A deletion that is still on its way, of a leader that was deposed, is made to fail
/// first; only then are volumes given back.
pub(super) fn spare(seen: &Observed, now: Timestamp) -> Plan {
    let Some(intent) = &seen.facts.purge_intent else {
        return super::fail(seen, "the records of this restore are incomplete".to_owned());
    };
    if let Known::Unknown(why) = &seen.cluster {
        return Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN);
    }
    let Some(cluster) = stands(seen, &intent.fact.cluster_uid) else {
        return failed(seen, format!("EtcdCluster {APP_CLUSTER_NAME} was deleted before it could be spared"));
    };
    if let Some(plan) = hand_back(seen, cluster) {
        return if plan.actions.is_empty() { unless_over(seen, now, plan, "its volumes cannot be read") } else { plan };
    }
    let fact = Verified { attempt: seen.facts.attempt(), ..Verified::default() };
    Plan::act([Action::Record(Fact::Verified(fact))], reason::ROLLING_BACK, "the old cluster stands as it stood")
}

/// What is to be done until the old cluster, which stands, has its volumes again.
fn hand_back(seen: &Observed, cluster: &DynamicObject) -> Option<Plan> {
    if cluster.annotations().get(warden::SPARED_BY) != Some(&restore_uid(&seen.job)) {
        let spare = Action::SpareCluster { uid: uid(cluster) };
        return Some(Plan::act([spare], reason::ROLLING_BACK, "the old cluster is left standing"));
    }
    let found = match &seen.volumes {
        Known::Unknown(why) => {
            return Some(Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the volumes: {why}"), LOOK_AGAIN));
        }
        Known::Found(found) => found.as_slice(),
        Known::Absent => &[],
    };
    let volumes = seen.facts.purge_intent.iter().flat_map(|intent| &intent.fact.volumes);
    let kept = volumes.zip(found).filter(|(_, standing)| **standing == Standing::Kept);
    let returned: Vec<Action> = kept.map(|(volume, _)| Action::ReturnVolume(Box::new(volume.clone()))).collect();
    (!returned.is_empty())
        .then(|| Plan::act(returned, reason::ROLLING_BACK, "the volumes are given back to their members"))
}

/// The end as things are; but an old cluster that stands has its volumes again, or its members would never come back.
pub(super) fn abandon(seen: &Observed, message: String) -> Plan {
    let intent = seen.facts.purge_intent.as_ref().filter(|_| seen.facts.resumed.is_none());
    if let (Some(_), Known::Unknown(why)) = (intent, &seen.cluster) {
        return Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN);
    }
    let standing = intent.and_then(|intent| stands(seen, &intent.fact.cluster_uid));
    standing.and_then(|cluster| hand_back(seen, cluster)).unwrap_or_else(|| super::failed(seen, message))
}

/// How long nothing may be heard of something that is going, before it is helped.
pub(super) const STUCK: Duration = Duration::from_mins(1);
