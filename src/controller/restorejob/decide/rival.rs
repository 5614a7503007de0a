//! Of several restores of one application, one at a time.

use kube::ResourceExt;

use super::{Plan, Step, Verdict, clean_up, is_finished, is_held};
use crate::api::condition;
use crate::api::names::warden;
use crate::api::restorejob::{RestoreJob, reason};
use crate::checks::Known;
use crate::controller::restorejob::observe::Observed;
use crate::controller::restorejob::records::restore_uid;

/// What keeps a job from beginning: another restore of the same application.
pub(super) enum Rival {
    /// It cannot be told whether there is one.
    Unknown(String),
    /// It ends soon, so that it is worth while to wait.
    Waits(String),
    /// It goes on, so that this one ends.
    Ends(String),
}

/// Another restore of the same application. One that has begun goes on, whatever its age and whatever its phase says; of
/// two that are about to begin, the older one does, once the younger has ended.
pub(super) fn rival(seen: &Observed) -> Option<Rival> {
    let (others, open) = match (&seen.others, &seen.open) {
        (Known::Unknown(why), _) => return Some(Rival::Unknown(format!("cannot list RestoreJobs: {why}"))),
        (_, Known::Unknown(why)) => return Some(Rival::Unknown(format!("cannot list records of restores: {why}"))),
        (others, open) => (others.clone().found().unwrap_or_default(), open.clone().found().unwrap_or_default()),
    };
    let known: Vec<String> = others.iter().chain([&seen.job]).map(restore_uid).collect();
    if let Some(uid) = open.iter().find(|uid| !known.contains(uid)) {
        let why = format!(
            "a restore whose RestoreJob (UID {uid}) was deleted by force is brought to an end first; should it not end, \
                           look at its records: kubectl get controllerrevisions -l {}={uid}",
            warden::RESTORE_JOB_UID
        );
        return Some(Rival::Waits(why));
    }
    let age = |job: &RestoreJob| (job.metadata.creation_timestamp.clone().map(|time| time.0), job.uid());
    let begun = |job: &RestoreJob| open.contains(&restore_uid(job));
    let mine = age(&seen.job);
    let standing = |job: &RestoreJob| {
        let name = job.name_any();
        if begun(job) && job.annotations().contains_key(warden::CONTINUES) {
            let why = format!("RestoreJob {name} brings a restore whose own RestoreJob is gone to an end first");
            return Some(Rival::Waits(why));
        }
        let about_to_begin = is_held(job) && !is_finished(job);
        if begun(job) || (about_to_begin && age(job) < mine) {
            let why = format!("RestoreJob {name} restores the same application; only one can at a time");
            return Some(Rival::Ends(why));
        }
        if is_half_through_elsewhere(job) {
            let why = format!("RestoreJob {name} is being carried out by another program, which is to end first");
            return Some(Rival::Waits(why));
        }
        about_to_begin.then(|| Rival::Waits(format!("RestoreJob {name}, which is younger, is to end first")))
    };
    let found: Vec<Rival> = others.iter().filter(|job| job.uid() != seen.job.uid()).filter_map(standing).collect();
    let ends = |rival: &Rival| matches!(rival, Rival::Ends(_));
    let (ends, waits): (Vec<Rival>, Vec<Rival>) = found.into_iter().partition(ends);
    ends.into_iter().chain(waits).next()
}

/// Whether a job that has not begun here carries what is written only once work on it has begun.
pub(super) fn is_begun_elsewhere(job: &RestoreJob) -> bool {
    let Some(status) = &job.status else { return false };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let said = condition::find(conditions, reason::READY).map(|ready| ready.reason.as_str());
    let ours = matches!(said, Some(reason::BACKUP_NOT_READY | reason::API_UNAVAILABLE | reason::RESTORE_IN_PROGRESS));
    let says_something = said.is_some() || status.phase.as_ref().is_some_and(|phase| !phase.is_empty());
    conditions.iter().any(|condition| condition.type_ != reason::READY) || (says_something && !ours)
}

/// Whether another program has captured this job's EtcdCluster, and has not come to an end.
fn is_half_through_elsewhere(job: &RestoreJob) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    !is_finished(job) && condition::is_true(conditions, Step::EtcdClusterSpecCaptured.word())
}

/// Keeps out of what another program has begun: what it did is not known here, and to do it again may be to capture, and
/// to delete, what it made.
pub(super) fn leave(seen: &Observed) -> Plan {
    let message =
        "another program has begun this restore, so that it is left alone: let that program end it, or delete \
                   this RestoreJob, look after the EtcdCluster and its HelmRelease, and make another"
            .to_owned();
    let Plan { actions, .. } = clean_up(seen);
    Plan { actions, verdict: Verdict::Elsewhere { message }, again: None }
}
