//! What a Plan's next run depends on.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt};

use super::decide::{Due, Trouble, due, schedule};
use crate::api::backupclass::BackupClass;
use crate::api::backupjob::BackupJob;
use crate::api::names;
use crate::api::plan::Plan;
use crate::checks::Known;
use crate::controller::backupjob::observe::{answer, application};
use crate::k8s::owner::is_controlled_by;
use crate::rules::cron::Schedule;

/// A BackupJob of the name that a slot's job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// It is this Plan's.
    Ours,
    /// It is somebody else's, or a namesake's that is gone.
    Foreign,
}

/// Everything that was seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Plan.
    pub plan: Arc<Plan>,
    /// Its schedule.
    pub schedule: Result<Schedule, Trouble>,
    /// The slots since the last look; only with a schedule.
    pub due: Option<Due>,
    /// The BackupJob of the slot that is due; absent where none is.
    pub job: Known<Named>,
    /// Whether the application exists, as far as applications are served; absent where no slot is due.
    pub application: Known<()>,
}

/// The copies that are kept.
#[derive(Clone)]
pub struct Stores {
    /// Classes.
    pub classes: Store<BackupClass>,
    /// Backup jobs.
    pub jobs: Store<BackupJob>,
}

impl Stores {
    /// The class that a Plan names.
    #[must_use]
    pub fn class(&self, plan: &Plan) -> Option<Arc<BackupClass>> {
        self.classes.get(&ObjectRef::new(&plan.spec.backup_class_name))
    }

    /// The newest slot, not after `now`, whose BackupJob exists.
    fn ran(&self, plan: &Plan, now: Timestamp) -> Option<Timestamp> {
        let namespace = plan.namespace();
        let jobs = self.jobs.state();
        let of_plan = jobs.iter().filter(|job| {
            job.namespace() == namespace
                && job.spec.plan_ref.as_ref().is_some_and(|reference| reference.name == plan.name_any())
        });
        of_plan.filter_map(|job| slot_of(job, plan)).filter(|slot| *slot <= now).max()
    }
}

/// The minute of the slot that a BackupJob's name tells.
fn slot_of(job: &BackupJob, plan: &Plan) -> Option<Timestamp> {
    let name = job.name_any();
    let minutes: i64 = name.rsplit_once('-')?.1.parse().ok()?;
    let seconds = minutes.checked_mul(60)?;
    let slot = Timestamp::from_second(seconds).ok()?;
    (names::backup_job(&plan.name_any(), seconds) == name).then_some(slot)
}

/// Looks. The copy lags behind our own writes, so the slot's job is asked for.
pub async fn observe(client: &Client, stores: &Stores, plan: Arc<Plan>, now: Timestamp) -> Observed {
    let schedule = schedule(&plan, now);
    let due = schedule.as_ref().ok().map(|schedule| due(&plan, schedule, stores.ran(&plan, now), now));
    let name = due.as_ref().and_then(|due| due.slot.as_ref()).map(|(_, name)| name.clone());
    let (job, application) = match name {
        None => (Known::Absent, Known::Absent),
        Some(name) => tokio::join!(job(client, &plan, &name), exists(client, &plan)),
    };
    Observed { plan, schedule, due, job, application }
}

async fn job(client: &Client, plan: &Plan, name: &str) -> Known<Named> {
    let api: Api<BackupJob> = Api::namespaced(client.clone(), &plan.namespace().unwrap_or_default());
    let ours = |job: &BackupJob| is_controlled_by(&job.metadata, plan.uid().as_deref().unwrap_or_default());
    match answer(api.get(name).await) {
        Known::Found(job) => Known::Found(if ours(&job) { Named::Ours } else { Named::Foreign }),
        Known::Absent => Known::Absent,
        Known::Unknown(why) => Known::Unknown(why),
    }
}

async fn exists(client: &Client, plan: &Plan) -> Known<()> {
    let namespace = plan.namespace().unwrap_or_default();
    match application(client, &namespace, &plan.spec.application_ref.name).await {
        Known::Found(_) => Known::Found(()),
        Known::Absent => Known::Absent,
        Known::Unknown(why) => Known::Unknown(why),
    }
}
