//! What restores leave behind: volumes whose time is over, and restores whose RestoreJob was deleted by force. Such a
//! restore is given a RestoreJob again, which takes back what was done and then ends like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{LocalObjectReference, PersistentVolumeClaim};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PropagationPolicy};
use kube::{Api, Client, Error, ResourceExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::facts::{Fact, Inputs};
use super::is_settled;
use super::observe::is_going;
use super::records::{Facts, Unreadable, read, restore_uid};
use crate::api::common::APP_CLUSTER_NAME;
use crate::api::names::{self, warden};
use crate::api::restorejob::{RestoreJob, RestoreJobSpec};
use crate::controller::watches::scoped;
use crate::k8s::apply::create;
use crate::k8s::delete::{Target, delete};
use crate::k8s::error::{Class, class, is_not_found, message};

/// How long between two looks that nothing asked for.
const PERIOD: Duration = Duration::from_mins(5);

/// Sweeps at the start, whenever a RestoreJob has gone, and now and then.
pub(super) async fn run(client: Client, namespace: Option<String>, gone: Arc<Notify>, stop: CancellationToken) {
    loop {
        sweep(&client, namespace.as_deref(), Timestamp::now()).await;
        // Nothing is half done while waiting.
        tokio::select! {
            () = stop.cancelled() => return,
            () = gone.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Each thing by itself: one that cannot be swept holds up no other.
async fn sweep(client: &Client, namespace: Option<&str>, now: Timestamp) {
    if let Err(error) = delete_expired(client, namespace, now).await {
        warn!(error = message(&error), "kept volumes could not be listed; tried again");
    }
    if let Err(error) = continue_orphans(client, namespace).await {
        warn!(error = message(&error), "restores without a RestoreJob could not be looked for; tried again");
    }
}

async fn delete_expired(client: &Client, namespace: Option<&str>, now: Timestamp) -> Result<(), Error> {
    let of_restores = ListParams::default().labels(warden::RESTORE_JOB_UID);
    let claims: Api<PersistentVolumeClaim> = scoped(client, namespace);
    for claim in claims.list_metadata(&of_restores).await?.items {
        let until = claim.annotations().get(warden::KEEP_UNTIL).and_then(|until| until.parse::<Timestamp>().ok());
        if until.is_none_or(|until| until > now) || claim.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let (place, name, uid) =
            (claim.namespace().unwrap_or_default(), claim.name_any(), claim.uid().unwrap_or_default());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &place);
        let target = Target { name: &name, uid: &uid, resource_version: claim.metadata.resource_version.as_deref() };
        match delete(&claims, &target, PropagationPolicy::Background).await {
            Ok(_) => info!(namespace = place, claim = name, "a kept volume whose time is over is deleted"),
            Err(error) if class(&error) == Class::Conflict => {}
            Err(error) => {
                let error = message(&error);
                warn!(namespace = place, claim = name, error, "a kept volume could not be deleted; tried again");
            }
        }
    }
    Ok(())
}

async fn continue_orphans(client: &Client, namespace: Option<&str>) -> Result<(), Error> {
    let of_restores = ListParams::default().labels(warden::RESTORE_JOB_UID);
    let jobs: Api<RestoreJob> = scoped(client, namespace);
    let records: Api<ControllerRevision> = scoped(client, namespace);
    // Jobs after records: a job that is made meanwhile has no records that were seen.
    let records = records.list(&of_restores).await?.items;
    let jobs = jobs.list(&ListParams::default()).await?.items;
    // One that looks settled does nothing more: where its restore is still open, another program wrote its end.
    let known: BTreeSet<String> = jobs.iter().filter(|job| !is_settled(job)).map(restore_uid).collect();
    for (uid, orphan) in orphans(&records, &known) {
        match orphan {
            Ok(orphan) => continue_orphan(client, &uid, orphan).await,
            Err(why) => {
                let error = why.to_string();
                warn!(restore = uid, error, "a restore without a RestoreJob cannot be brought to an end");
            }
        }
    }
    Ok(())
}

async fn continue_orphan(client: &Client, uid: &str, orphan: RestoreJob) {
    let namespace = orphan.namespace().unwrap_or_default();
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), &namespace);
    let error = match is_still_open(client, &namespace, uid).await {
        Ok(false) => return,
        Err(error) => error,
        Ok(true) => match create(&jobs, &orphan).await {
            Ok(made) => {
                info!(namespace, job = made.name_any(), "a restore whose RestoreJob is gone is brought to an end");
                return;
            }
            Err(error) if class(&error) == Class::AlreadyExists || is_not_found(&error) => return,
            // Of a namespace that is going nothing is to be saved.
            Err(error) if class(&error) == Class::Forbidden && is_going(client, &namespace).await => return,
            Err(error) => error,
        },
    };
    let error = message(&error);
    warn!(
        namespace,
        restore = uid,
        error,
        "no RestoreJob could be made for a restore that has lost its own; tried again"
    );
}

/// A restore may have ended, and its job have settled, between the two lists.
async fn is_still_open(client: &Client, namespace: &str, uid: &str) -> Result<bool, Error> {
    let records: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let of_restore = ListParams::default().labels(&format!("{}={uid}", warden::RESTORE_JOB_UID));
    Ok(!open(&records.list(&of_restore).await?.items).is_empty())
}

/// What is on record about a restore that has begun and not ended.
pub(super) struct Open {
    /// Where it is.
    pub(super) namespace: Option<String>,
    /// What is known of it. Of records that cannot be read, nobody can tell that they end it.
    pub(super) facts: Result<Facts, Unreadable>,
}

/// UIDs of restores that have begun and not ended, with what is on record about each.
pub(super) fn open(records: &[ControllerRevision]) -> BTreeMap<String, Open> {
    let mut by_restore: BTreeMap<String, Vec<ControllerRevision>> = BTreeMap::new();
    for record in records {
        if let Some(uid) = record.labels().get(warden::RESTORE_JOB_UID) {
            by_restore.entry(uid.clone()).or_default().push(record.clone());
        }
    }
    // One that came to its end is over, whatever else of it can still be read.
    let is_resumed = |record: &ControllerRevision| matches!(read(record), Ok(Fact::Resumed(_)));
    by_restore.retain(|_, records| !records.iter().any(is_resumed));
    let found = by_restore.into_iter().map(|(uid, records)| {
        let namespace = records.first().and_then(ResourceExt::namespace);
        (uid, Open { namespace, facts: Facts::read(&records) })
    });
    found.filter(|(_, open)| open.facts.as_ref().map_or(true, has_begun)).collect()
}

/// Whether there is anything to bring to an end.
fn has_begun(facts: &Facts) -> bool {
    facts.inputs.as_ref().is_some_and(|inputs| !inputs.fact.options.dry_run)
}

/// RestoreJobs for the restores that have none any more, by the restore's UID; or why none can be made.
fn orphans(records: &[ControllerRevision], known: &BTreeSet<String>) -> Vec<(String, Result<RestoreJob, Unreadable>)> {
    let open = open(records).into_iter().filter(|(uid, _)| !known.contains(uid));
    open.filter_map(|(uid, Open { namespace, facts })| {
        let orphan = match facts {
            Ok(facts) => Ok(heir(&uid, namespace, &facts.inputs.as_ref()?.fact, &facts)),
            Err(why) => Err(why),
        };
        Some((uid, orphan))
    })
    .collect()
}

/// A RestoreJob that takes back what another has done; held and, where that one guarded its cluster, guarding.
pub(super) fn heir(uid: &str, namespace: Option<String>, inputs: &Inputs, facts: &Facts) -> RestoreJob {
    let spec = RestoreJobSpec {
        backup_ref: LocalObjectReference { name: inputs.backup.clone() },
        ..RestoreJobSpec::default()
    };
    let mut job = RestoreJob::new(&names::snapshot(&inputs.job, uid), spec);
    job.metadata.namespace = namespace;
    job.metadata.finalizers = Some(vec![warden::RESTORE_FINALIZER.to_owned()]);
    job.annotations_mut().insert(warden::CONTINUES.to_owned(), uid.to_owned());
    job.annotations_mut().insert(warden::ABORT.to_owned(), "true".to_owned());
    if facts.capture.is_some() && facts.verified.is_none() {
        job.labels_mut().insert(warden::GUARDS.to_owned(), APP_CLUSTER_NAME.to_owned());
    }
    job
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Purged, Resumed};
    use super::super::records::record;
    use super::*;

    fn job(uid: &str) -> RestoreJob {
        let mut job = RestoreJob::new(uid, RestoreJobSpec::default());
        job.metadata.uid = Some(uid.to_owned());
        job
    }

    #[test]
    fn what_cannot_be_read_is_open_and_holds_up_no_other() {
        let begun = |uid: &str| record(&job(uid), &Fact::Inputs(Box::default()));
        let mut newer = record(&job("b"), &Fact::Resumed(Resumed {}));
        if let Some(data) = &mut newer.data {
            data.0 = serde_json::json!({"fact": "ofANewerVersion"});
        }
        let ended = record(&job("d"), &Fact::Resumed(Resumed {}));
        let mut unreadable = record(&job("e"), &Fact::Purged(Purged::default()));
        unreadable.data.clone_from(&newer.data);
        let over = record(&job("e"), &Fact::Resumed(Resumed {}));
        let records = [begun("a"), begun("b"), newer, begun("c"), begun("d"), ended, begun("e"), unreadable, over];
        assert_eq!(open(&records).into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        let found = orphans(&records, &BTreeSet::from(["a".to_owned()]));
        let told: Vec<(&str, bool)> = found.iter().map(|(uid, orphan)| (uid.as_str(), orphan.is_ok())).collect();
        assert_eq!(told, [("b", false), ("c", true)]);
    }
}
