//! What an EtcdCluster was that is no longer there: from the record of an earlier restore.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::facts::Fact;
use super::observe::Lost;
use super::records::{self, Facts};
use crate::api::names::warden;
use crate::checks::Known;
use crate::k8s::error::message;

/// The newest memory of the application's cluster.
pub(super) async fn read(client: &Client, namespace: &str, facts: &Facts) -> Known<Lost> {
    let Some(inputs) = &facts.inputs else { return Known::Absent };
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let found = match api.list(&ListParams::default().labels(warden::RESTORE_JOB_UID)).await {
        Ok(found) => found.items,
        Err(error) => return Known::Unknown(message(&error)),
    };
    newest(found, &inputs.fact.cluster).map_or(Known::Absent, Known::Found)
}

fn newest(mut records: Vec<ControllerRevision>, cluster: &str) -> Option<Lost> {
    records.sort_by_key(|record| record.creation_timestamp().map(|time| time.0));
    records.iter().rev().find_map(|record| match records::read(record) {
        Ok(Fact::Capture(capture)) => {
            let name = capture.object.pointer("/metadata/name").and_then(serde_json::Value::as_str);
            (name == Some(cluster)).then(|| Lost {
                object: capture.object.clone(),
                found_in: format!("ControllerRevision {}", record.name_any()),
            })
        }
        Ok(_) | Err(_) => None,
    })
}
