//! What admission would say to a job that is about to begin: it may have come in while nobody was asked.

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::observe::Observed;
use crate::api::backupclass::BackupClass;
use crate::api::common::TypedReference;
use crate::api::names::warden;
use crate::api::strategy;
use crate::checks::{Kind, Known, Objects};
use crate::controller::Context;
use crate::rules::class::{StrategyGroup, etcd_strategy};

/// Whether a job that has not begun with us is over a strategy of upstream's group, on which its own controllers act
/// while they are there.
pub(super) fn is_upstreams(seen: &Observed) -> bool {
    let Known::Found(backup) = &seen.backup else { return false };
    let held = seen.job.finalizers().iter().any(|name| name == warden::RESTORE_FINALIZER);
    seen.facts.inputs.is_none() && !held && etcd_strategy(&backup.spec.strategy_ref) == Some(StrategyGroup::Upstream)
}

/// Why the rules refuse the job. Of two restores of one application the older one goes on, which is decided elsewhere:
/// others are left out here.
pub(super) async fn refused(context: &Context, seen: &Observed, now: Timestamp) -> Option<String> {
    let (None, Known::Found(backup)) = (&seen.facts.inputs, &seen.backup) else { return None };
    let mut around = vec![serde_json::to_value(backup).ok()?];
    if let Known::Found(cluster) = &seen.cluster {
        around.extend(serde_json::to_value(cluster).ok());
    }
    around.extend(strategy(context, &backup.spec.strategy_ref).await);
    // What cannot be read refuses nothing.
    let classes: Api<BackupClass> = Api::all(context.client.clone());
    let classes = classes.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    around.extend(classes.iter().filter_map(|class| serde_json::to_value(class).ok()));
    let around = around.into_iter().collect::<Objects>().trusting(context.trusted_stores.clone());
    context.judgement.of_new(Kind::RestoreJob, &seen.job, &around, now)
}

async fn strategy(context: &Context, reference: &TypedReference) -> Option<serde_json::Value> {
    let name = &reference.name;
    match etcd_strategy(reference)? {
        StrategyGroup::Upstream => {
            let found: strategy::Etcd = Api::all(context.client.clone()).get(name).await.ok()?;
            serde_json::to_value(found).ok()
        }
        StrategyGroup::Warden => {
            let found: strategy::warden::Etcd = Api::all(context.client.clone()).get(name).await.ok()?;
            serde_json::to_value(found).ok()
        }
    }
}
