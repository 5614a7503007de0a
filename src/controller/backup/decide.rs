//! What a Backup needs next. Pure.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::build;
use super::observe::{Facts, Observed, Stored};
use crate::api::backup::{Backup, deletion_policy, phase, reason};
use crate::api::common::Artifact;
use crate::api::names::{backups, warden};
use crate::api::s3uri::ArtifactUri;
use crate::checks::Known;
use crate::rules::class::etcd_strategy;

/// How long the object of a Backup that was written by hand may be missing.
pub const FOUND_WITHIN: Duration = Duration::from_mins(30);
/// How long a namespace that goes is held up for an object that cannot be removed.
pub const NAMESPACE_WAITS: Duration = Duration::from_mins(5);
/// How soon a store that did not answer is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(20);
/// Bytes that etcd appends to the pages of a snapshot.
const TRAILER: u64 = 32;
/// bbolt's pages are whole multiples of this.
const SECTOR: u64 = 512;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hold the Backup until its object is gone.
    Hold,
    /// Remove the stored object.
    DeleteObject,
    /// Delete the EtcdSnapshot that wrote it.
    DeleteSnapshot {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Let the Backup go, or stop holding it.
    Release,
}

/// Where the Backup stands once the steps are done.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// As before.
    Unchanged,
    /// It was written by hand, and can be restored from.
    Adopted {
        /// What is stored.
        artifact: Box<Artifact>,
        /// UID of the EtcdSnapshot that wrote it.
        owner: Option<String>,
    },
    /// It was written by hand, and its object is not there, or nobody can tell.
    Checking {
        /// Why it is not adopted yet.
        message: String,
    },
    /// It was written by hand, and cannot be restored from.
    Refused {
        /// Why.
        message: String,
    },
    /// It is to go, and cannot yet.
    Held {
        /// Why: one of condition `Ready`'s reasons.
        reason: &'static str,
        /// What is awaited, and what a person can do.
        message: String,
    },
    /// It goes now.
    Gone {
        /// Whether the object stays although it was to go, and what to tell about it.
        note: Option<(bool, String)>,
    },
}

/// Steps, in order, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is done.
    pub steps: Vec<Step>,
    /// Where the Backup stands then.
    pub verdict: Verdict,
    /// When to look again, if nothing changes before.
    pub again: Option<Duration>,
}

impl Decision {
    fn now(steps: Vec<Step>, verdict: Verdict) -> Self {
        Self { steps, verdict, again: None }
    }

    fn later(verdict: Verdict) -> Self {
        Self { steps: Vec::new(), verdict, again: Some(TRY_AGAIN) }
    }

    fn gone(steps: Vec<Step>, note: Option<(bool, String)>) -> Self {
        Self::now(steps, Verdict::Gone { note })
    }
}

/// What has to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing that is not known already.
    Nothing,
    /// The stored object.
    Object,
    /// The stored object, its EtcdSnapshot and the namespace.
    Everything,
}

/// Whether a Backup is of our driver.
#[must_use]
pub fn is_ours(backup: &Backup) -> bool {
    etcd_strategy(&backup.spec.strategy_ref).is_some()
}

fn takes_object_along(backup: &Backup) -> bool {
    backup.spec.deletion_policy.as_deref() == Some(deletion_policy::DELETE)
}

fn has_finalizer(backup: &Backup, finalizer: &str) -> bool {
    backup.finalizers().iter().any(|held| held == finalizer)
}

/// Whether nobody has said yet what the Backup is worth: it was written by hand.
fn is_unchecked(backup: &Backup) -> bool {
    let phase = backup.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    phase.is_empty() || phase == phase::PENDING
}

fn is_going(backup: &Backup) -> bool {
    backup.metadata.deletion_timestamp.is_some()
}

/// What has to be read before this Backup can be decided about.
#[must_use]
pub fn need(seen: &Observed, _now: Timestamp) -> Need {
    let backup = &seen.backup;
    match (is_going(backup), takes_object_along(backup), is_unchecked(backup)) {
        (true, true, _) if has_finalizer(backup, warden::BACKUP_FINALIZER) => Need::Everything,
        (false, _, true) => Need::Object,
        (true | false, true | false, true | false) => Need::Nothing,
    }
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let backup = &seen.backup;
    if is_going(backup) {
        return going(seen, now);
    }
    let held = has_finalizer(backup, warden::BACKUP_FINALIZER);
    let mut decision =
        if is_unchecked(backup) { checked(seen, now) } else { Decision::now(Vec::new(), Verdict::Unchanged) };
    match (takes_object_along(backup), held) {
        (true, false) => decision.steps.push(Step::Hold),
        (false, true) => decision.steps.push(Step::Release),
        (true, true) | (false, false) => {}
    }
    decision
}

/// A Backup that was written by hand.
fn checked(seen: &Observed, now: Timestamp) -> Decision {
    let place = match &seen.place {
        Ok(place) => place,
        Err(error) => return Decision::now(Vec::new(), Verdict::Refused { message: error.to_string() }),
    };
    let key = place.key.clone().unwrap_or_default();
    let uri = ArtifactUri::S3 { bucket: place.bucket.clone(), key }.to_string();
    let missing = match &seen.stored {
        Stored::Found(facts) => return found(&uri, facts),
        Stored::Absent => format!("{uri} does not exist"),
        Stored::Unknown(why) | Stored::Closed(why) => format!("{uri} cannot be looked at: {why}"),
        Stored::NotAsked => format!("{uri} was not looked at"),
    };
    let created = seen.backup.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    if waited(created, now) >= FOUND_WITHIN {
        let message = format!("{missing}; given up after {} min", FOUND_WITHIN.as_secs() / 60);
        return Decision::now(Vec::new(), Verdict::Refused { message });
    }
    Decision::later(Verdict::Checking { message: missing })
}

/// What etcd appends makes a snapshot's size tell whether it was cut; what is inside is checked by each preflight.
fn found(uri: &str, facts: &Facts) -> Decision {
    if facts.size <= TRAILER || facts.size % SECTOR != TRAILER {
        let message = format!("{uri} has {} bytes, which no whole etcd snapshot has", facts.size);
        return Decision::now(Vec::new(), Verdict::Refused { message });
    }
    let artifact = build::artifact(uri, facts);
    Decision::now(Vec::new(), Verdict::Adopted { artifact: Box::new(artifact), owner: facts.owner.clone() })
}

fn waited(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// A Backup that is to go.
fn going(seen: &Observed, now: Timestamp) -> Decision {
    let backup = &seen.backup;
    let held = has_finalizer(backup, warden::BACKUP_FINALIZER);
    // Upstream's finalizer stands for nothing where the driver is etcd's, and its controller may be gone.
    if !held && !has_finalizer(backup, backups::CLEANUP) {
        return Decision::now(Vec::new(), Verdict::Unchanged);
    }
    if !held || !takes_object_along(backup) {
        return Decision::gone(vec![Step::Release], None);
    }
    let since = backup.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    let namespace_going = matches!(seen.namespace_going, Known::Found(true));
    let patient = !namespace_going || waited(since, now) < NAMESPACE_WAITS;
    if let Some(job) = seen.restoring.as_ref().filter(|_| patient) {
        let message = format!("RestoreJob {job} restores from it: it is removed when that has ended");
        return Decision::later(Verdict::Held { reason: reason::IN_USE, message });
    }
    if let Some(other) = &seen.shared_with {
        return kept(format!("Backup {other} stands for the same object, which stays for it"));
    }
    match removal(seen) {
        Removal::Steps(steps, note) => Decision::gone(steps, Some((false, note))),
        Removal::Kept(why) => kept(why),
        Removal::Waits(why) if patient => {
            let message = format!(
                "the stored object cannot be removed: {why}. Tried again; set spec.deletionPolicy to Retain to let the Backup go \
                 without it"
            );
            Decision::later(Verdict::Held { reason: reason::DELETION_PENDING, message })
        }
        Removal::Waits(why) => kept(format!("its namespace goes, and the stored object could not be removed: {why}")),
        Removal::Impossible(why) if namespace_going => {
            kept(format!("its namespace goes, and the stored object can no longer be removed: {why}"))
        }
        Removal::Impossible(why) => {
            let message = format!(
                "the stored object cannot be removed: {why}. Create it again, or set spec.deletionPolicy to Retain to let the Backup \
                 go without it"
            );
            Decision::later(Verdict::Held { reason: reason::DELETION_PENDING, message })
        }
    }
}

fn kept(why: String) -> Decision {
    Decision::gone(vec![Step::Release], Some((true, why)))
}

enum Removal {
    Steps(Vec<Step>, String),
    Kept(String),
    Waits(String),
    Impossible(String),
}

/// What it takes to remove the object, which has to be the one that was recorded.
fn removal(seen: &Observed) -> Removal {
    let place = match &seen.place {
        Ok(place) => place,
        Err(error) => return Removal::Kept(error.to_string()),
    };
    let uri = format!("s3://{}/{}", place.bucket, place.key.as_deref().unwrap_or_default());
    let snapshot = match &seen.snapshot {
        Known::Found(snapshot) => Some(snapshot),
        Known::Absent => None,
        Known::Unknown(why) => return Removal::Waits(format!("cannot read its EtcdSnapshot: {why}")),
    };
    let recorded = seen.backup.annotations().get(warden::SNAPSHOT_UID).cloned();
    // A namesake that was made later is another snapshot.
    let snapshot = snapshot.filter(|found| recorded.is_none() || found.uid() == recorded);
    let owner = recorded.or_else(|| snapshot.and_then(|found| found.uid()));
    let mut steps = Vec::new();
    match &seen.stored {
        Stored::Found(facts) => {
            if let Err(why) = is_the_recorded(seen, facts, owner.as_deref()) {
                return Removal::Kept(format!("{uri} {why}: it is not the object that was stored, and stays"));
            }
            steps.push(Step::DeleteObject);
        }
        Stored::Absent => {}
        Stored::Unknown(why) => return Removal::Waits(why.clone()),
        Stored::Closed(why) => return Removal::Impossible(why.clone()),
        Stored::NotAsked => return Removal::Waits("it was not looked at".to_owned()),
    }
    let note = if steps.is_empty() { format!("{uri} was gone already") } else { format!("{uri} is removed") };
    if let Some(snapshot) = snapshot {
        let uid = snapshot.uid().unwrap_or_default();
        steps.push(Step::DeleteSnapshot { name: snapshot.name_any(), uid });
    }
    steps.push(Step::Release);
    Removal::Steps(steps, note)
}

fn is_the_recorded(seen: &Observed, facts: &Facts, owner: Option<&str>) -> Result<(), String> {
    if let (Some(found), Some(owner)) = (facts.owner.as_deref(), owner)
        && found != owner
    {
        return Err(format!("belongs to EtcdSnapshot {found}, not {owner}"));
    }
    let artifact = seen.backup.status.as_ref().and_then(|status| status.artifact.as_ref());
    match artifact.and_then(|artifact| artifact.size_bytes) {
        Some(recorded) if u64::try_from(recorded).ok() != Some(facts.size) => {
            Err(format!("has {} bytes, {recorded} are recorded", facts.size))
        }
        Some(_) | None => Ok(()),
    }
}

/// Where the Backup stands when a step failed.
#[must_use]
pub fn after_fault(seen: &Observed, step: &Step, told: String) -> Verdict {
    match (is_going(&seen.backup), step) {
        (true, Step::DeleteObject | Step::DeleteSnapshot { .. } | Step::Release | Step::Hold) => {
            Verdict::Held { reason: reason::DELETION_PENDING, message: told }
        }
        (false, Step::DeleteObject | Step::DeleteSnapshot { .. } | Step::Release | Step::Hold) => Verdict::Unchanged,
    }
}
