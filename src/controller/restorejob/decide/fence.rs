//! The HelmRelease: suspended while the cluster is made anew, and put back as it was found.

use k8s_openapi::jiff::Timestamp;

use super::{Action, LOOK_AGAIN, Plan, fail, out_of_time};
use crate::api::restorejob::reason;
use crate::checks::Known;
use crate::controller::restorejob::facts::{self, Fact, Resumed, Suspended};
use crate::controller::restorejob::observe::Observed;

/// The fence: nothing may render the application's objects while they are captured, deleted and made again.
pub(super) fn suspend(seen: &Observed, now: Timestamp) -> Plan {
    if let Some(plan) = out_of_time(seen, now, "the cluster was not touched") {
        return plan;
    }
    let holds = || Plan::act([Action::Record(Fact::Suspended(Suspended {}))], reason::SUSPENDING, "the suspend holds");
    let found = match &seen.release {
        Known::Unknown(why) => {
            return Plan::wait(reason::API_UNAVAILABLE, format!("cannot read the HelmRelease: {why}"), LOOK_AGAIN);
        }
        Known::Absent => None,
        Known::Found(found) => Some(found),
    };
    match (&seen.facts.release, found) {
        (None, found) => {
            let release = facts::Release { exists: found.is_some(), suspend: found.and_then(|found| found.suspend) };
            Plan::act([Action::Record(Fact::Release(release))], reason::SUSPENDING, "the HelmRelease is recorded")
        }
        (Some(_), None) => holds(),
        // One that came after the look was nobody's to suspend.
        (Some(recorded), Some(_)) if !recorded.fact.exists => {
            fail(seen, "a HelmRelease was made while the restore began; the cluster was not touched".to_owned())
        }
        (Some(_), Some(found)) if found.suspend != Some(true) => {
            Plan::act([Action::Suspend(found.clone())], reason::SUSPENDING, "the HelmRelease is suspended")
        }
        (Some(_), Some(found)) => match &found.busy {
            Some(busy) => {
                Plan::wait(reason::SUSPENDING, format!("the HelmRelease is suspended, but {busy}"), LOOK_AGAIN)
            }
            None => holds(),
        },
    }
}

/// What is to be done where somebody lifted the suspend again.
pub(super) fn fence(seen: &Observed) -> Option<Plan> {
    let suspended = seen.facts.release.as_ref().is_some_and(|release| release.fact.exists);
    match &seen.release {
        Known::Found(found) if suspended && found.suspend != Some(true) => {
            let suspend = Action::Suspend(found.clone());
            Some(Plan::act([suspend], reason::SUSPENDING, "the HelmRelease is suspended again: somebody resumed it"))
        }
        Known::Found(_) | Known::Absent | Known::Unknown(_) => None,
    }
}

/// What is still to be done until the HelmRelease is as it was found.
pub(super) fn put_back(seen: &Observed) -> Option<Plan> {
    let recorded = seen.facts.release.as_ref().filter(|release| release.fact.exists && seen.facts.resumed.is_none())?;
    match &seen.release {
        Known::Absent => None,
        Known::Unknown(why) => {
            let message = format!("cannot read the HelmRelease, to put it back: {why}");
            Some(Plan::wait(reason::API_UNAVAILABLE, message, LOOK_AGAIN))
        }
        Known::Found(found) if found.suspend == recorded.fact.suspend => None,
        Known::Found(found) => {
            let resume = Action::Resume { release: found.clone(), suspend: recorded.fact.suspend };
            Some(Plan::act([resume], reason::SUSPENDING, "the HelmRelease is put back"))
        }
    }
}

pub(super) fn resume(seen: &Observed) -> Plan {
    put_back(seen).unwrap_or_else(|| {
        let resumed = Action::Record(Fact::Resumed(Resumed {}));
        Plan::act([resumed], reason::BOOTSTRAPPING, "the HelmRelease is as it was found")
    })
}
