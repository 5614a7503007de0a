//! Plans against a real API server and its schemas.

use std::time::Duration;

use etcd_warden::api::backupjob::BackupJob;
use etcd_warden::api::condition::find;
use etcd_warden::api::plan::Plan;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::bed::fault_proxy::{HttpFault, On};
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Identity, Warden, control_plane, wait_for};

const WITHIN: Duration = Duration::from_secs(20);
const FLAGS: [&str; 1] = ["--controllers=plan"];

fn plan(name: &str, cron: &str) -> String {
    format!(
        "
apiVersion: backups.cozystack.io/v1alpha1
kind: Plan
metadata: {{name: {name}}}
spec:
  applicationRef: {{kind: Etcd, name: etcd}}
  backupClassName: default
  schedule: {{type: cron, cron: '{cron}'}}
"
    )
}

async fn unserved() -> ControlPlane {
    let bed = ControlPlane::start(control_plane::Options::default()).await;
    install_crds(&bed).await;
    bed
}

async fn jobs_of(client: &Client, namespace: &str, plan: &str) -> Vec<BackupJob> {
    let jobs: Api<BackupJob> = Api::namespaced(client.clone(), namespace);
    let mut all = jobs.list(&ListParams::default()).await.unwrap().items;
    all.retain(|job| job.spec.plan_ref.as_ref().is_some_and(|reference| reference.name == plan));
    all.sort_by_key(ResourceExt::name_any);
    all
}

async fn condition(client: &Client, namespace: &str, plan: &str, type_: &str, reason: &str) -> Condition {
    let plans: Api<Plan> = Api::namespaced(client.clone(), namespace);
    wait_for(format!("Plan {plan} to say {reason}"), WITHIN, async || {
        let status = plans.get(plan).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        match find(status.conditions.as_deref().unwrap_or_default(), type_) {
            Some(found) if found.reason == reason => Ok(found.clone()),
            _ => Err(format!("{status:?}")),
        }
    })
    .await
}

/// P2: each minute, to the second, also by a process that was killed between two of them.
#[tokio::test]
async fn a_slot_is_run_when_it_comes_and_by_one_job() {
    let bed = unserved().await;
    let client = bed.client().await;
    let namespace = bed.namespace("plans").await;
    let warden = Warden::start(&bed, &FLAGS).await;
    warden.wait_ready().await;
    bed.apply(&namespace, &plan("minutely", "* * * * *")).await;
    let wait_jobs = async |count: usize| {
        wait_for(format!("{count} BackupJobs"), Duration::from_secs(90), async || {
            let jobs = jobs_of(&client, &namespace, "minutely").await;
            if jobs.len() >= count { Ok(jobs) } else { Err(format!("{} of them", jobs.len())) }
        })
        .await
    };
    wait_jobs(1).await;
    let (leash, daemon) = warden.daemon();
    leash.kill(daemon);
    leash.restart(daemon);
    let jobs = wait_jobs(2).await;
    assert_eq!(jobs.len(), 2);
    for (place, job) in jobs.iter().enumerate() {
        let minutes: i64 = job.name_any().strip_prefix("minutely-").unwrap().parse().unwrap();
        let slot = Timestamp::from_second(minutes * 60).unwrap();
        let made = job.metadata.creation_timestamp.as_ref().unwrap().0;
        // Times of creation are whole seconds. The new process may have had to wait for the old one's lease.
        let late = made.duration_since(slot);
        let allowed = SignedDuration::from_secs(if place == 0 { 2 } else { 20 });
        assert!((SignedDuration::ZERO..=allowed).contains(&late), "{slot}: {made}");
    }
    let status = Api::<Plan>::namespaced(client, &namespace).get("minutely").await.unwrap().status.unwrap();
    let last = status.last_schedule_time.unwrap().0;
    assert_eq!(status.next_schedule_time.unwrap().0.duration_since(last), SignedDuration::from_mins(1));
}

/// P1, P4, P5 and a lost answer: what was missed is made up for once and told; a schedule that is none is told, in a
/// condition that the schema takes; other drivers' Plans are left alone.
#[tokio::test]
async fn missed_runs_are_made_up_for_and_told() {
    let bed = unserved().await;
    let client = bed.client().await;
    let namespace = bed.namespace("plans").await;
    bed.apply(&namespace, &plan("hourly", "0 * * * *")).await;
    bed.apply(&namespace, &plan("broken", "0 0 31 2 *")).await;
    bed.apply(&namespace, &plan("foreign", "* * * * *").replace("kind: Etcd", "kind: Postgres")).await;
    let plans: Api<Plan> = Api::namespaced(client.clone(), &namespace);
    let (proxy, kubeconfig) = bed.behind_proxy(&Identity::Admin).await;
    let place = bed.namespace("warden").await;
    let warden = Warden::start_as(&bed, &kubeconfig, &place, &FLAGS);
    warden.wait_ready().await;
    condition(&client, &namespace, "hourly", "Error", "ScheduleValid").await;
    let error = condition(&client, &namespace, "broken", "Error", "InvalidSchedule").await;
    assert!(error.message.contains("no such date"), "{}", error.message);
    assert!(jobs_of(&client, &namespace, "hourly").await.is_empty(), "a slot from before the Plan was run");
    let (leash, daemon) = warden.daemon();
    leash.kill(daemon);

    // It was away for five hours and a bit.
    let now = Timestamp::now();
    let hour = Timestamp::from_second(now.as_second() / 3600 * 3600).unwrap();
    let away = hour.checked_sub(SignedDuration::from_mins(5 * 60 + 30)).unwrap();
    let patch = json!({"status": {"settledUntil": away}});
    plans.patch_status("hourly", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let lost = proxy.inject(On::request("POST", "/backupjobs").first(1), HttpFault::LoseAnswer);
    leash.restart(daemon);
    let missed = condition(&client, &namespace, "hourly", "Missed", "RunsMissed").await;
    assert!(missed.message.starts_with("5 runs") && missed.status == "True", "{}", missed.message);
    let jobs: Vec<String> = jobs_of(&client, &namespace, "hourly").await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(jobs, [format!("hourly-{}", hour.as_second() / 60)]);
    assert_eq!(proxy.applied(lost), 1);
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    wait_for("the missed runs to be told", WITHIN, async || {
        let events = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let told = events.iter().any(|event| event.reason.as_deref() == Some("RunsMissed"));
        if told { Ok(()) } else { Err(format!("{} events", events.len())) }
    })
    .await;
    assert!(jobs_of(&client, &namespace, "foreign").await.is_empty());
    assert_eq!(plans.get("foreign").await.unwrap().status, None);
}
