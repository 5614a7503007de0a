//! Clusters on a node: they come up without flickering, keep their data through what happens to members, and never
//! start anew with less than they had.

use std::time::{Duration, Instant};

use etcd_warden::api::condition;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::scene::{READY_WITHIN, Scene, told};
use crate::bed::wait_for;

#[tokio::test]
async fn three_members_come_up_and_available_never_flickers() {
    let scene = Scene::start(3, &json!({})).await;
    let started = Instant::now();
    let mut since = None;
    while started.elapsed() < READY_WITHIN {
        let status = scene.status().await;
        let available = condition::is_true(status.conditions.as_deref().unwrap_or_default(), "Available");
        assert!(available || since.is_none(), "Available went away: {:?}", told(&status));
        since = since.or_else(|| available.then(|| started.elapsed()));
        if status.ready_members == Some(3) {
            println!("Available after {:.1?}, all Ready after {:.1?}", since.unwrap(), started.elapsed());
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not Ready in time: {:?}", told(&scene.status().await));
}

#[tokio::test]
async fn data_survives_1_3_1_0_1_and_the_loss_of_one_volume_of_three() {
    let scene = Scene::start(1, &json!({})).await;
    scene.reconciled(1).await;
    scene.etcdctl(&["put", "key", "kept"]).await.unwrap();
    scene.scale(3).await;
    scene.reconciled(3).await;

    let lost = scene.members().await.remove(0).name_any();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(scene.node.client().await, &scene.namespace);
    claims.delete(&format!("data-{lost}"), &DeleteParams::default()).await.unwrap();
    scene.delete_pod(&lost).await;
    wait_for("the member's replacement", READY_WITHIN, async || {
        let names: Vec<String> = scene.members().await.iter().map(ResourceExt::name_any).collect();
        if names.len() == 3 && !names.contains(&lost) { Ok(()) } else { Err(format!("{names:?}, lost {lost}")) }
    })
    .await;
    scene.reconciled(3).await;
    assert!(scene.etcdctl(&["get", "key"]).await.unwrap().contains("kept"));

    scene.scale(1).await;
    scene.reconciled(1).await;
    scene.scale(0).await;
    wait_for("the pause", READY_WITHIN, async || {
        let told = told(&scene.status().await);
        if told.get("Available").is_some_and(|(_, reason)| reason == "Paused") {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
    scene.scale(1).await;
    scene.reconciled(1).await;
    assert!(scene.etcdctl(&["get", "key"]).await.unwrap().contains("kept"));
}

#[tokio::test]
async fn a_wiped_seed_never_becomes_a_fresh_cluster() {
    let scene = Scene::start(1, &json!({})).await;
    scene.reconciled(1).await;
    scene.etcdctl(&["put", "key", "precious"]).await.unwrap();
    let seed = scene.members().await.remove(0).name_any();

    // The data goes, and the container starts again in the very Pod that formed the cluster.
    scene.with_process_of(&seed, "rm -rf /proc/$p/root/var/lib/etcd/member && kill -9 $p");
    refused_for(&scene, Duration::from_secs(15)).await;
    // And in a new Pod.
    scene.delete_pod(&seed).await;
    refused_for(&scene, Duration::from_secs(15)).await;
    let told = told(&scene.status().await);
    assert_eq!(told.get("Available"), Some(&("False".to_owned(), "QuorumLost".to_owned())));
}

/// Nobody may get an answer from an empty etcd.
async fn refused_for(scene: &Scene, time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        if let Ok(answer) = scene.etcdctl(&["get", "key", "--command-timeout=1s"]).await {
            assert!(answer.contains("precious"), "an empty etcd answered {answer:?}; {}", scene.describe_pods().await);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn a_restore_of_what_is_not_there_is_named_and_given_up() {
    let source = json!({"bootstrap": {"restore": {"source": {"s3": {
        "endpoint": "http://192.0.2.1:9", "bucket": "none", "key": "k.db", "credentialsSecretRef": {"name": "absent"}}}}}});
    let scene = Scene::start(1, &source).await;
    wait_for("the missing Secret to be named", READY_WITHIN, async || {
        let members = scene.members().await;
        let status = members.first().and_then(|member| member.status.clone()).unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        match condition::find(&conditions, "Ready") {
            Some(ready) if ready.reason == "SecretMissing" && ready.message.contains("absent") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
