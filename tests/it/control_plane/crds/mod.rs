//! Our definitions on a real API server: accepted, and doing what they say.

mod behaviour;
mod core_types;
mod rules;

use std::time::Duration;

use etcd_warden::api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::bed::control_plane::Options;
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, wait_for};

/// A control plane with our definitions and nothing else: no webhook may answer for them.
async fn installed() -> &'static ControlPlane {
    static INSTALLED: tokio::sync::OnceCell<ControlPlane> = tokio::sync::OnceCell::const_new();
    INSTALLED
        .get_or_init(|| async {
            let bed = ControlPlane::start(Options::default()).await;
            install_crds(&bed).await;
            bed
        })
        .await
}

fn definition(kind: &str) -> CustomResourceDefinition {
    crd::all()
        .into_iter()
        .find(|crd| format!("{}.{}", crd.spec.names.kind, crd.spec.group) == kind)
        .unwrap_or_else(|| panic!("no kind {kind}"))
}

/// Objects of a kind, in this namespace if the kind has namespaces.
async fn objects(bed: &ControlPlane, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let crd = definition(kind);
    let version = crd.spec.versions[0].name.clone();
    let resource = ApiResource {
        api_version: format!("{}/{version}", crd.spec.group),
        group: crd.spec.group,
        version,
        kind: crd.spec.names.kind,
        plural: crd.spec.names.plural,
    };
    let client = bed.client().await;
    match crd.spec.scope.as_str() {
        "Cluster" => Api::all_with(client, &resource),
        _ => Api::namespaced_with(client, namespace, &resource),
    }
}

/// An object of a kind with this content.
#[expect(clippy::needless_pass_by_value, reason = "written as json! at the call")]
fn object(kind: &str, name: &str, content: Value) -> DynamicObject {
    let crd = definition(kind);
    let mut object = json!({
        "apiVersion": format!("{}/{}", crd.spec.group, crd.spec.versions[0].name),
        "kind": crd.spec.names.kind,
        "metadata": {"name": name},
    });
    json_patch::merge(&mut object, &content);
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn definitions_are_accepted_without_a_warning_in_their_conditions() {
    let bed = installed().await;
    let live: Api<CustomResourceDefinition> = Api::all(bed.client().await);
    for crd in crd::all() {
        let name = crd.metadata.name.unwrap();
        let live = live.get(&name).await.unwrap();
        for condition in live.status.unwrap().conditions.unwrap() {
            // NonStructuralSchema would be true here, and KubernetesAPIApprovalPolicyConformant false.
            let good = ["NamesAccepted", "Established"].contains(&condition.type_.as_str());
            assert!(good && condition.status == "True", "{name}: {condition:?}");
        }
    }
}

#[tokio::test]
async fn a_new_control_plane_lists_every_kind() {
    let bed = installed().await;
    for crd in crd::all() {
        let kind = format!("{}.{}", crd.spec.names.kind, crd.spec.group);
        let api = objects(bed, &kind, "default").await;
        wait_for(format!("{kind} to be listed"), Duration::from_secs(10), async || {
            api.list(&ListParams::default()).await.map_err(|error| error.to_string())
        })
        .await;
    }
}
