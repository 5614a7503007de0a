//! Where a job's snapshot goes: class, strategy, and what its templates come to. Pure.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{Plan, Waits};
use crate::api::backupclass::BackupClassStrategy;
use crate::api::backupjob::{BackupJob, reason};
use crate::api::common::S3Location;
use crate::api::strategy::EtcdStrategySpec;
use crate::checks::Known;
use crate::controller::backupjob::observe::{Application, Inputs};
use crate::rules::class::{Resolution, StrategyGroup, resolve};
use crate::rules::template::{Data, RenderError, render_strategy};

/// A class as the store shares it.
pub type BackupClassView = std::sync::Arc<crate::api::backupclass::BackupClass>;

/// The group of the strategy that a class gives to a job, to know where to look for it.
#[must_use]
pub fn strategy_of<'a>(
    job: &BackupJob,
    class: &'a Known<BackupClassView>,
) -> Option<(StrategyGroup, &'a BackupClassStrategy)> {
    match class {
        Known::Found(class) => match resolve(class, &job.spec.application_ref) {
            Resolution::Etcd(group, entry) => Some((group, entry)),
            Resolution::Elsewhere | Resolution::NoEntry => None,
        },
        Known::Absent | Known::Unknown(_) => None,
    }
}

/// The class's entry and its strategy, or what is to do without them.
pub(super) fn strategy<'a>(
    job: &BackupJob,
    inputs: &'a Inputs,
    waits: &Waits,
) -> Result<(&'a BackupClassStrategy, &'a EtcdStrategySpec), Plan> {
    let class = &job.spec.backup_class_name;
    let entry = match &inputs.class {
        Known::Unknown(why) => return Err(waits.unreadable("the BackupClass", why)),
        Known::Absent => {
            return Err(waits.pending(reason::BACKUP_CLASS_NOT_FOUND, format!("BackupClass {class} does not exist")));
        }
        Known::Found(found) => match resolve(found, &job.spec.application_ref) {
            Resolution::Etcd(_, entry) => entry,
            Resolution::Elsewhere | Resolution::NoEntry => {
                let application = &job.spec.application_ref;
                return Err(Plan::failed(format!(
                    "BackupClass {class} has no etcd strategy for {}.{}",
                    application.kind,
                    application.application_group()
                )));
            }
        },
    };
    if !job.spec.application_ref.is_etcd_application() {
        return Err(Plan::failed(format!(
            "the Etcd strategy backs up applications of kind Etcd, not {}.{}",
            job.spec.application_ref.kind,
            job.spec.application_ref.application_group()
        )));
    }
    match &inputs.strategy {
        Known::Unknown(why) => Err(waits.unreadable("the strategy", why)),
        Known::Absent => Err(waits
            .pending(reason::STRATEGY_NOT_READY, format!("strategy Etcd {} does not exist", entry.strategy_ref.name))),
        Known::Found(spec) => Ok((entry, spec)),
    }
}

/// The strategy's destination for this job, rendered. The seed is the job's own, so that a second look renders the same.
pub fn render(
    job: &BackupJob,
    entry: &BackupClassStrategy,
    spec: &EtcdStrategySpec,
    application: &Application,
    now: Timestamp,
) -> Result<S3Location, RenderFault> {
    let s3 = spec.template.destination.s3.as_ref().ok_or(RenderFault::NoS3)?;
    let object = match application {
        Application::Served(object) => object.clone(),
        Application::NotServed => minimal_application(job),
    };
    let seed = job.uid().unwrap_or_default().bytes().fold(0u64, |seed, byte| seed.rotate_left(7) ^ u64::from(byte));
    let parameters = entry.parameters.iter().flatten();
    render_strategy(s3, &Data::new(&object, parameters, now, seed)).map_err(RenderFault::Render)
}

/// Why a strategy gives no destination. Terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderFault {
    /// Only S3 can be restored from.
    #[error("spec.template.destination.s3 is missing; etcd backups go to S3 only")]
    NoS3,
    /// A template failed.
    #[error(transparent)]
    Render(RenderError),
}

/// Stands in for the application where nobody serves its API: the EtcdCluster is all there is then.
fn minimal_application(job: &BackupJob) -> serde_json::Value {
    let application = &job.spec.application_ref;
    serde_json::json!({
        "apiVersion": format!("{}/v1alpha1", application.application_group()),
        "kind": application.kind,
        "metadata": {"name": application.name, "namespace": job.namespace()},
    })
}
