//! Writes: server-side apply under one field manager, and status under an optimistic lock.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Error, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The one field manager of everything that etcd-warden writes.
pub const FIELD_MANAGER: &str = "etcd-warden";

/// Applies an object that is ours: fields that another manager set differently are taken over.
pub async fn apply<K>(api: &Api<K>, object: &K) -> Result<K, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    api.patch(&object.name_any(), &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object)).await
}

/// Creates an object; a taken name is an error of its own class.
pub async fn create<K>(api: &Api<K>, object: &K) -> Result<K, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    api.create(&params, object).await
}

/// Writes the status of an object as it was read plus its new status. The resourceVersion in it is the lock: a copy
/// that is no longer the newest, and so the late write of a leader that was deposed, is answered with a conflict.
pub async fn replace_status<K>(api: &Api<K>, object: &K) -> Result<K, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    api.replace_status(&object.name_any(), &params, object).await
}

/// Merges a patch into an object that others write to, too, on condition that it is still the one with this UID.
pub async fn merge_into<K>(api: &Api<K>, object: &K, mut patch: serde_json::Value) -> Result<K, Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    with_metadata(&mut patch, "uid", object.uid());
    merge_patch(api, object, patch).await
}

/// Merges a patch into an object, on condition that it is still at this resourceVersion and UID.
pub async fn merge<K>(api: &Api<K>, object: &K, mut patch: serde_json::Value) -> Result<K, Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    with_metadata(&mut patch, "resourceVersion", object.resource_version());
    with_metadata(&mut patch, "uid", object.uid());
    merge_patch(api, object, patch).await
}

/// Sets a readiness gate of a Pod to True, on condition that it is still the Pod with this UID.
pub async fn open_gate(api: &Api<Pod>, pod: &Pod, gate: &str, now: Timestamp) -> Result<Pod, Error> {
    let condition = serde_json::json!({"type": gate, "status": "True", "lastTransitionTime": Time(now)});
    let mut patch = serde_json::json!({"status": {"conditions": [condition]}});
    with_metadata(&mut patch, "uid", pod.uid());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    // A strategic merge adds to the kubelet's conditions; every other patch would replace their list.
    api.patch_status(&pod.name_any(), &params, &Patch::Strategic(patch)).await
}

fn with_metadata(patch: &mut serde_json::Value, key: &str, value: Option<String>) {
    let meta = patch.as_object_mut().map(|root| root.entry("metadata").or_insert_with(|| serde_json::json!({})));
    if let Some(meta) = meta.and_then(serde_json::Value::as_object_mut) {
        meta.insert(key.to_owned(), value.into());
    }
}

async fn merge_patch<K>(api: &Api<K>, object: &K, patch: serde_json::Value) -> Result<K, Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(&object.name_any(), &params, &Patch::Merge(patch)).await
}
