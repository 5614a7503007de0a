//! Of several restores of one application, one at a time.

use kube::ResourceExt;

use super::{is_finished, is_held};
use crate::api::names::warden;
use crate::api::restorejob::RestoreJob;
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
        let why = format!("a restore whose RestoreJob (UID {uid}) was deleted by force is brought to an end first");
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
        about_to_begin.then(|| Rival::Waits(format!("RestoreJob {name}, which is younger, is to end first")))
    };
    let found: Vec<Rival> = others.iter().filter(|job| job.uid() != seen.job.uid()).filter_map(standing).collect();
    let ends = |rival: &Rival| matches!(rival, Rival::Ends(_));
    let (ends, waits): (Vec<Rival>, Vec<Rival>) = found.into_iter().partition(ends);
    ends.into_iter().chain(waits).next()
}
