//! Volumes: a folder for every claim of the stand-in's StorageClasses, gone when its PersistentVolume is released. The
//! rest (binding, protection, release) is the real controllers' work.

use super::context::Context;
use super::node::{LIMITED_CLASS, PROVISIONER, STORAGE_CLASS};
use super::pod::bytes;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Makes the volume of a claim that has none.
pub async fn provision(context: &Context, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
    let Some(spec) = &claim.spec else { return Ok(()) };
    let Some(class @ (STORAGE_CLASS | LIMITED_CLASS)) = spec.storage_class_name.as_deref() else { return Ok(()) };
    if spec.volume_name.is_some() || claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let uid = claim.uid().unwrap_or_default();
    let name = format!("pvc-{uid}");
    let folder = context.volumes().join(&name);
    make(context, class, spec, &folder).await.unwrap_or_else(|e| panic!("make the volume {}: {e}", folder.display()));
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "storageClassName": class,
            "capacity": spec.resources.as_ref().and_then(|r| r.requests.clone()),
            "accessModes": spec.access_modes,
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": folder},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(), "name": claim.name_any(), "uid": uid,
            },
        },
    }))
    .expect("a PersistentVolume");
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    match volumes.create(&PostParams::default(), &volume).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Removes a volume that its claim has left behind.
pub async fn reclaim(context: &Context, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let released = volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Released");
    let spec = volume.spec.as_ref();
    let delete = spec.and_then(|s| s.persistent_volume_reclaim_policy.as_deref()) == Some("Delete");
    let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
    if !(released && delete && ours) || volume.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    if let Some(folder) = spec.and_then(|s| s.host_path.as_ref()) {
        // Already gone: somebody else's copy of this event, or ours before a restart of the watch.
        let _ = std::fs::remove_dir_all(&folder.path);
    }
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    match volumes.delete(&volume.name_any(), &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(|_| ()),
    }
}

async fn make(context: &Context, class: &str, spec: &PersistentVolumeClaimSpec, folder: &Path) -> Result<(), String> {
    let _alone = context.making_volumes.lock().await;
    if folder.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).map_err(|e| e.to_string())?;
    if class != LIMITED_CLASS {
        return Ok(());
    }
    let size = spec.resources.as_ref().and_then(|r| r.requests.as_ref()?.get("storage")).ok_or("no size")?;
    let size = bytes(&size.0).map_err(|problem| format!("{problem:?}"))?;
    context.runtime.memory(folder, size, None).await
}
