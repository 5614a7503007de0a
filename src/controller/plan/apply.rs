//! Carrying out a Plan's step.

use kube::{Api, Client, ResourceExt};

use super::build;
use super::decide::Step;
use super::observe::Observed;
use crate::api::backupjob::BackupJob;
use crate::k8s::apply::create;
use crate::k8s::error::{Class, class};

/// Makes the slot's BackupJob. Its name is the slot's: a second attempt, from here or from another replica, finds it
/// taken, and the next look sees by whom.
pub async fn apply(client: &Client, seen: &Observed, step: &Step) -> Result<(), kube::Error> {
    match step {
        Step::CreateJob { name, .. } => {
            let api: Api<BackupJob> = Api::namespaced(client.clone(), &seen.plan.namespace().unwrap_or_default());
            create(&api, &build::job(&seen.plan, name)).await.map(drop)
        }
    }
}

/// Whether a failed attempt is repeated at once by the frame, or told and left to the next slot: an object that is
/// refused by validation or admission stays refused.
#[must_use]
pub fn is_refused(error: &kube::Error) -> bool {
    match class(error) {
        Class::Invalid => true,
        Class::NotFound | Class::AlreadyExists | Class::Conflict | Class::Forbidden | Class::Transient => false,
    }
}
