//! The EtcdCluster that takes the place of the old one.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use super::facts::{Capture, Inputs};
use crate::api::common::SnapshotLocation;
use crate::api::etcdcluster::{Bootstrap, RestoreSource};
use crate::api::names::warden;
use crate::api::restorejob::RestoreJob;

/// The captured cluster as a new object that starts from the snapshot: all its spec, labels, annotations and managed
/// fields, without what only the old object could have. `None` where the capture is no object.
#[must_use]
pub fn cluster(job: &RestoreJob, capture: &Capture, inputs: &Inputs) -> Option<DynamicObject> {
    let mut object: DynamicObject = serde_json::from_value(capture.object.clone()).ok()?;
    let metadata = &mut object.metadata;
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.generation = None;
    metadata.creation_timestamp = None;
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.self_link = None;
    metadata.owner_references = None;
    metadata.finalizers = None;
    object.annotations_mut().insert(warden::RESTORED_BY.to_owned(), job.uid().unwrap_or_default());
    let restore = RestoreSource { source: SnapshotLocation { s3: Some(inputs.source.s3.clone()), pvc: None } };
    let data = object.data.as_object_mut()?;
    data.remove("status");
    let spec = data.entry("spec").or_insert_with(|| json!({})).as_object_mut()?;
    let bootstrap = serde_json::to_value(Bootstrap { restore: Some(restore) }).ok()?;
    spec.insert("bootstrap".to_owned(), bootstrap);
    Some(object)
}
