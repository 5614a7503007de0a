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

use super::facts::Inputs;
use super::records::{Facts, restore_uid};
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
        if let Err(error) = sweep(&client, namespace.as_deref(), Timestamp::now()).await {
            warn!(error = message(&error), "what restores leave behind could not be swept; tried again");
        }
        // Nothing is half done while waiting.
        tokio::select! {
            () = stop.cancelled() => return,
            () = gone.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

async fn sweep(client: &Client, namespace: Option<&str>, now: Timestamp) -> Result<(), Error> {
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
            Err(error) => return Err(error),
        }
    }
    let jobs: Api<RestoreJob> = scoped(client, namespace);
    let records: Api<ControllerRevision> = scoped(client, namespace);
    // Jobs after records: a job that is made meanwhile has no records that were seen.
    let records = records.list(&of_restores).await?.items;
    let jobs = jobs.list(&ListParams::default()).await?.items;
    // One that looks settled does nothing more: where its restore is still open, another program wrote its end.
    let known: BTreeSet<String> = jobs.iter().filter(|job| !is_settled(job)).map(restore_uid).collect();
    for orphan in orphans(&records, &known) {
        let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), &orphan.namespace().unwrap_or_default());
        match create(&jobs, &orphan).await {
            Ok(made) => info!(job = made.name_any(), "a restore whose RestoreJob is gone is brought to an end"),
            // Of a namespace that is going nothing is to be saved.
            Err(error) if matches!(class(&error), Class::AlreadyExists | Class::Forbidden) || is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// UIDs of restores that have begun and not ended, with what is on record about each.
pub(super) fn open(records: &[ControllerRevision]) -> BTreeMap<String, (Option<String>, Facts)> {
    let mut by_restore: BTreeMap<String, Vec<ControllerRevision>> = BTreeMap::new();
    for record in records {
        if let Some(uid) = record.labels().get(warden::RESTORE_JOB_UID) {
            by_restore.entry(uid.clone()).or_default().push(record.clone());
        }
    }
    let read = by_restore.into_iter().filter_map(|(uid, records)| {
        let namespace = records.first().and_then(ResourceExt::namespace);
        Some((uid, (namespace, Facts::read(&records).ok()?)))
    });
    read.filter(|(_, (_, facts))| is_open(facts)).collect()
}

fn is_open(facts: &Facts) -> bool {
    let begun = facts.inputs.as_ref().is_some_and(|inputs| !inputs.fact.options.dry_run);
    begun && facts.resumed.is_none()
}

/// RestoreJobs for the restores that have none any more.
fn orphans(records: &[ControllerRevision], known: &BTreeSet<String>) -> Vec<RestoreJob> {
    let open = open(records).into_iter().filter(|(uid, _)| !known.contains(uid));
    open.filter_map(|(uid, (namespace, facts))| Some(heir(&uid, namespace, &facts.inputs.as_ref()?.fact, &facts)))
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
