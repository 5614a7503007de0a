//! The bed's own tests: control planes come, serve and go.

use crate::bed::api_server::ApiServer;
use crate::bed::fault_proxy::{HttpFault, On};
use crate::bed::{ControlPlane, Identity};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

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
