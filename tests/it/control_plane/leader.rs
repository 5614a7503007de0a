//! The lease: one leader at a time, a quick hand-over after a clean stop, a bounded one after a crash.

use std::time::{Duration, Instant};

use etcd_warden::runtime::leader::{Leadership, Settings, acquire};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use crate::bed::ControlPlane;

struct Candidates {
    client: Client,
    namespace: String,
}

impl Candidates {
    async fn new() -> Self {
        let plane = ControlPlane::shared().await;
        Self { client: plane.client().await, namespace: plane.namespace("leader").await }
    }

    fn settings(&self, identity: &str) -> Settings {
        Settings::new(&self.namespace, "lease", identity)
    }

    async fn acquire(&self, identity: &str, stop: &CancellationToken) -> Option<Leadership> {
        acquire(self.client.clone(), self.settings(identity), stop.clone()).await
    }

    async fn holder(&self) -> Option<String> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        api.get("lease").await.unwrap().spec.unwrap().holder_identity
    }
}

/// N5: a leader that stops makes way at once.
#[tokio::test]
async fn a_second_candidate_waits_until_the_first_gives_up_and_then_leads_at_once() {
    let candidates = Candidates::new().await;
    let stop = CancellationToken::new();
    let first = candidates.acquire("first", &stop).await.expect("the lease is free");

    let waiting = candidates.acquire("second", &stop);
    let waited = tokio::time::timeout(Duration::from_secs(9), waiting).await;
    assert!(waited.is_err(), "two leaders at once: the first renews, so the second may not lead");
    assert!(!first.lost().is_cancelled());

    first.ended().await;
    assert_eq!(candidates.holder().await, None);
    let handed = Instant::now();
    let second = candidates.acquire("second", &stop).await.expect("the lease was given up");
    assert!(handed.elapsed() < Duration::from_secs(3), "took {:?}", handed.elapsed());
    assert_eq!(candidates.holder().await.as_deref(), Some("second"));
    second.ended().await;
}

/// N5: and one that is killed, soon.
#[tokio::test]
async fn a_leader_that_vanished_is_followed_within_ten_seconds() {
    let candidates = Candidates::new().await;
    let stop = CancellationToken::new();
    // A crash, as the others see it: the lease is held and never renewed again.
    let mut lease = Lease::default();
    lease.metadata.name = Some("lease".to_owned());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some("vanished".to_owned()),
        lease_duration_seconds: Some(7),
        ..LeaseSpec::default()
    });
    let api: Api<Lease> = Api::namespaced(candidates.client.clone(), &candidates.namespace);
    api.create(&kube::api::PostParams::default(), &lease).await.unwrap();
    assert_eq!(candidates.holder().await.as_deref(), Some("vanished"));
    let crashed = Instant::now();
    let next = candidates.acquire("next", &stop).await.unwrap();
    assert!(crashed.elapsed() < Duration::from_secs(10), "took {:?}", crashed.elapsed());
    assert!(crashed.elapsed() > Duration::from_secs(5), "took over while the lease was still to be respected");
    next.ended().await;
}

#[tokio::test]
async fn a_leader_whose_lease_was_taken_stops_and_does_not_give_it_up_for_the_other() {
    let candidates = Candidates::new().await;
    let stop = CancellationToken::new();
    let deposed = candidates.acquire("deposed", &stop).await.unwrap();
    let api: Api<Lease> = Api::namespaced(candidates.client.clone(), &candidates.namespace);
    let patch = serde_json::json!({"spec": {"holderIdentity": "usurper"}});
    api.patch("lease", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();

    tokio::time::timeout(Duration::from_secs(5), deposed.lost().cancelled()).await.expect("stops leading");
    deposed.ended().await;
    assert_eq!(candidates.holder().await.as_deref(), Some("usurper"));
}

#[tokio::test]
async fn a_candidate_that_is_told_to_stop_does_not_lead() {
    let candidates = Candidates::new().await;
    let stop = CancellationToken::new();
    let leader = candidates.acquire("leader", &stop).await.unwrap();
    let told = CancellationToken::new();
    told.cancel();
    assert!(candidates.acquire("late", &told).await.is_none());
    leader.ended().await;
}
