//! The bed's own tests: control planes come, serve and go.

use crate::bed::api_server::ApiServer;
use crate::bed::control_plane::Options;
use crate::bed::fault_proxy::{HttpFault, On};
use crate::bed::remains::{self, Victim};
use crate::bed::{ControlPlane, Identity, wait_for};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use std::time::Duration;

#[tokio::test]
async fn a_shared_control_plane_serves_namespaces_objects_and_identities() {
    let bed = ControlPlane::shared().await;
    let namespace = bed.namespace("bed").await;
    let manifest = "
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {key: value}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
";
    bed.apply(&namespace, manifest).await;
    let maps: Api<ConfigMap> = Api::namespaced(bed.client().await, &namespace);
    assert_eq!(maps.get("one").await.unwrap().data.unwrap()["key"], "value");

    let robot = Identity::ServiceAccount { namespace: namespace.clone(), name: "robot".to_owned() };
    let alice = Identity::User { name: "alice".to_owned(), groups: vec!["people".to_owned()] };
    for (who, name) in [(robot, format!("system:serviceaccount:{namespace}:robot")), (alice, "alice".to_owned())] {
        let maps: Api<ConfigMap> = Api::namespaced(bed.client_as(&who).await, &namespace);
        let refusal = maps.get("one").await.unwrap_err().to_string();
        assert!(refusal.contains(&format!("User \"{name}\" cannot get resource")), "{refusal}");
    }
}

#[tokio::test]
async fn a_request_whose_answer_is_lost_has_been_done() {
    let bed = ControlPlane::shared().await;
    let namespace = bed.namespace("bed").await;
    let (proxy, kubeconfig) = bed.behind_proxy(&Identity::Admin).await;
    let through: Api<ConfigMap> = Api::namespaced(ApiServer::new(&kubeconfig, bed.folder()).client().await, &namespace);
    let rule = proxy.inject(On::request("POST", "/configmaps"), HttpFault::LoseAnswer);
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("lost".to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    through.create(&PostParams::default(), &map).await.expect_err("the answer is lost");
    assert_eq!(proxy.applied(rule), 1);
    proxy.clear();
    through.get("lost").await.expect("the object is there");
}

#[tokio::test]
async fn twenty_control_planes_come_and_go_and_nothing_is_left_of_them() {
    for _ in 0..10 {
        let (one, other) =
            tokio::join!(ControlPlane::start(Options::default()), ControlPlane::start(Options::default()));
        for bed in [one, other] {
            bed.namespace("bed").await;
            let (folder, ports) = (bed.folder().display().to_string(), bed.ports());
            assert!(remains::of(&folder).len() > 2, "etcd, kube-apiserver and the folder are there");
            bed.stop();
            remains::none_of(&folder).await;
            assert!(ports.into_iter().all(remains::is_free), "a port of {folder} is still in use");
        }
    }
}

#[tokio::test]
async fn a_control_plane_ends_with_its_killed_owner() {
    if Victim::is_me() {
        let _bed = ControlPlane::start(Options { controllers: vec!["*".to_owned()], ..Options::default() }).await;
        return std::future::pending().await;
    }
    let victim = Victim::start("control_plane::bed::a_control_plane_ends_with_its_killed_owner");
    let instance = format!("control-plane-{}-", victim.pid());
    wait_for("the victim's control plane", Duration::from_secs(90), async || {
        let found = remains::of(&instance);
        if found.iter().any(|f| f.contains("kube-controller-manager")) { Ok(()) } else { Err(format!("{found:#?}")) }
    })
    .await;
    victim.kill();
    remains::none_of(&instance).await;
}
