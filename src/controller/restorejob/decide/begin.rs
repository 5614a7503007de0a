//! Before anything is touched: what is restored, and whether that would work.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::fit::{unfit, unfit_capture};
use super::rival::{Rival, rival};
use super::{Action, LOOK_AGAIN, Plan, Verdict, clean_up, fail, is_held, out_of_time, remaining};
use crate::api::common::{APP_CLUSTER_NAME, TypedReference};
use crate::api::etcdcluster::EtcdCluster;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;
use crate::controller::restorejob::build::Rehearse;
use crate::controller::restorejob::facts::{Capture, Fact, Inputs, Preflight};
use crate::controller::restorejob::observe::{Observed, Rehearsed, Rehearsing};
use crate::controller::restorejob::options::{Options, RevisionBump};
use crate::controller::restorejob::source::{self, Source, Unusable};
use crate::controller::restorejob::status::rehearsed;

pub(super) fn validate(seen: &Observed, now: Timestamp) -> Plan {
    let options = match Options::parse(seen.job.spec.options.as_ref()) {
        Ok(options) => options,
        Err(error) => return fail(seen, error.to_string()),
    };
    let started = seen.job.status.as_ref().and_then(|status| status.started_at.as_ref()).map_or(now, |time| time.0);
    let left = remaining(started, u64::try_from(options.timeout_seconds).unwrap_or_default(), now);
    let wait = |reason: &'static str, message: String| {
        if left.is_zero() {
            return fail(seen, format!("gave up after {} s: {message}", options.timeout_seconds));
        }
        Plan::wait(reason, message, LOOK_AGAIN.min(left))
    };
    // A held one stands in the other's way, which is not to depend on how its Backup fares.
    if is_held(&seen.job)
        && let Some(Rival::Ends(why)) = rival(seen)
    {
        return fail(seen, why);
    }
    let name = &seen.job.spec.backup_ref.name;
    let backup = match &seen.backup {
        Known::Unknown(why) => return wait(reason::API_UNAVAILABLE, format!("cannot read Backup {name}: {why}")),
        Known::Absent => return wait(reason::BACKUP_NOT_READY, format!("Backup {name} does not exist")),
        Known::Found(backup) => backup,
    };
    let application = &backup.spec.application_ref;
    if let Some(message) = foreign_target(&seen.job, application) {
        return fail(seen, message);
    }
    let source = match source::source(backup) {
        Ok(source) => source,
        Err(unusable @ Unusable::NotYet(_)) => return wait(reason::BACKUP_NOT_READY, unusable.to_string()),
        Err(unusable) => return fail(seen, unusable.to_string()),
    };
    if let Some(why) = &seen.refused {
        return fail(seen, format!("refused: {why}"));
    }
    if let Some(standing) = rival(seen) {
        return match standing {
            Rival::Unknown(why) => wait(reason::API_UNAVAILABLE, why),
            Rival::Waits(why) => wait(reason::RESTORE_IN_PROGRESS, why),
            Rival::Ends(why) => fail(seen, why),
        };
    }
    // Two that are held see each other, so that only the look after the hold tells whether this one may begin.
    if !is_held(&seen.job) {
        return Plan::act([Action::Hold], reason::BOOTSTRAPPING, "the restore is about to begin");
    }
    begin(seen, options, application, source)
}

/// Records what the job was asked for.
fn begin(seen: &Observed, options: Options, application: &TypedReference, source: Source) -> Plan {
    let inputs = Inputs {
        job: seen.job.name_any(),
        backup: seen.job.spec.backup_ref.name.clone(),
        source,
        application: TypedReference {
            api_group: Some(application.application_group().to_owned()),
            ..application.clone()
        },
        cluster: APP_CLUSTER_NAME.to_owned(),
        options,
    };
    let record = Action::Record(Fact::Inputs(Box::new(inputs)));
    Plan::act([record], reason::BOOTSTRAPPING, "the restore begins")
}

/// Why the target is not the application that was backed up.
fn foreign_target(job: &RestoreJob, source: &TypedReference) -> Option<String> {
    if !source.is_etcd_application() {
        let (kind, group) = (&source.kind, source.application_group());
        return Some(format!("the Backup is of {kind}.{group}, not of an etcd application"));
    }
    let target = job.spec.target_application_ref.as_ref()?;
    if target.is_etcd_application() && target.name == source.name {
        return None;
    }
    Some(format!(
        "an etcd Backup is restored in place only: targetApplicationRef has no namespace, so a restore lands in the \
         Backup's own namespace, and there the chart accepts no release but {APP_CLUSTER_NAME:?}. The target is {} {}, \
         the Backup is of Etcd {}",
        target.kind, target.name, source.name
    ))
}

/// The rehearsal: nothing is deleted before it has passed.
pub(super) fn preflight(seen: &Observed, now: Timestamp) -> Plan {
    out_of_time(seen, now, "the cluster was not touched").unwrap_or_else(|| rehearse(seen, 0))
}

/// The rehearsal of this round: started, awaited, recorded.
pub(super) fn rehearse(seen: &Observed, round: u32) -> Plan {
    match &seen.rehearsal {
        Known::Unknown(why) => {
            Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the preflight Job: {why}"), LOOK_AGAIN)
        }
        Known::Absent => start_preflight(seen, round),
        Known::Found(rehearsed) => match &rehearsed.how {
            Rehearsing::Running(message) => Plan::wait(reason::PREFLIGHT_RUNNING, message.clone(), LOOK_AGAIN),
            Rehearsing::Passed(rehearsal) => {
                let Rehearsed { bump, version, .. } = rehearsed;
                let fact = Preflight { round, rehearsal: rehearsal.clone(), bump: *bump, version: version.clone() };
                let record = Action::Record(Fact::Preflight(Box::new(fact)));
                Plan::act([record], reason::PREFLIGHT_RUNNING, "the rehearsal passed")
            }
            Rehearsing::Failed(message) => {
                fail(seen, format!("the rehearsal failed: {message}; the cluster was not touched"))
            }
        },
    }
}

fn start_preflight(seen: &Observed, round: u32) -> Plan {
    let Some(inputs) = &seen.facts.inputs else {
        return fail(seen, "the records of this restore are incomplete".to_owned());
    };
    let target = match target(seen) {
        Ok(target) => target,
        Err(plan) => return plan,
    };
    let Ok(cluster) = serde_json::from_value::<EtcdCluster>(target.object) else {
        return fail(seen, format!("EtcdCluster {APP_CLUSTER_NAME} makes no sense"));
    };
    if let Some(why) = unfit(seen, &cluster) {
        return fail(seen, format!("{why}; the cluster was not touched"));
    }
    // Members that do not answer leave the revision unknown: then what the Backup recorded is all there is to exceed.
    let alive = match &seen.live {
        Known::Found(live) => live.revision(),
        Known::Absent | Known::Unknown(_) => None,
    };
    let bump = bump(inputs.fact.options.revision_bump, alive, inputs.fact.source.revision);
    let rehearse = Rehearse { round, cluster, inputs: inputs.fact.clone(), bump };
    Plan::act([Action::StartPreflight(Box::new(rehearse))], reason::PREFLIGHT_RUNNING, "the restore is rehearsed")
}

/// How far the revision is raised: beyond the highest that was seen alive, by so much that what was not seen fits.
pub(super) fn bump(option: RevisionBump, alive: Option<i64>, source: Option<i64>) -> i64 {
    match option {
        RevisionBump::Off => 0,
        RevisionBump::By(by) => by,
        RevisionBump::Auto => {
            let ahead = alive.unwrap_or_default().saturating_sub(source.unwrap_or_default()).max(0);
            ahead.saturating_add(HEADROOM)
        }
    }
}

/// How far beyond the highest revision that was seen alive a restore goes.
pub(super) const HEADROOM: i64 = 1_000_000;

/// The EtcdCluster that is to be restored, or what is to do without it. One that is missing may be remembered.
pub(super) fn target(seen: &Observed) -> Result<Capture, Plan> {
    match &seen.cluster {
        Known::Unknown(why) => {
            Err(Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the EtcdCluster: {why}"), LOOK_AGAIN))
        }
        Known::Absent => match &seen.lost {
            Known::Found(lost) => Ok(Capture { object: lost.object.clone(), found_in: Some(lost.found_in.clone()) }),
            Known::Unknown(why) => {
                let message = format!("cannot find out what the missing EtcdCluster was: {why}");
                Err(Plan::wait(reason::API_UNAVAILABLE, message, LOOK_AGAIN))
            }
            Known::Absent => Err(fail(
                seen,
                format!(
                    "EtcdCluster {APP_CLUSTER_NAME} does not exist, and neither an earlier restore nor a Helm release \
                     remembers it, so that nothing says how to make it again"
                ),
            )),
        },
        Known::Found(cluster) if cluster.metadata.deletion_timestamp.is_some() => {
            Err(fail(seen, format!("EtcdCluster {APP_CLUSTER_NAME} is being deleted by somebody else")))
        }
        Known::Found(cluster) => {
            Ok(Capture { object: serde_json::to_value(cluster).unwrap_or_default(), found_in: None })
        }
    }
}

/// The end of a restore whose rehearsal showed that there is no room for the data.
pub(super) fn misfit(seen: &Observed) -> Option<Plan> {
    let why = unfit_capture(seen, &target(seen).ok()?)?;
    Some(fail(seen, format!("{why}; the cluster was not touched")))
}

/// The end of a dry run.
pub(super) fn succeed_dry(seen: &Observed) -> Plan {
    if let Some(plan) = misfit(seen) {
        return plan;
    }
    let verdict = Verdict::DryRun { message: format!("dry run, nothing was changed: {}", rehearsed(seen)) };
    if seen.job.metadata.deletion_timestamp.is_some() {
        return clean_up(seen);
    }
    Plan { actions: Vec::new(), verdict, again: Some(LOOK_AGAIN) }
}
