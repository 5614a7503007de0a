//! The HelmRelease of the application: read and written untyped, for its kind need not be served here.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::{Value, json};

use super::observe::{Release, answer};
use super::records::Facts;
use crate::checks::Known;
use crate::k8s::apply::FIELD_MANAGER;
use crate::k8s::error::{is_missing_kind, message};

fn api(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "helm.toolkit.fluxcd.io".to_owned(),
        version: "v2".to_owned(),
        api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
        kind: "HelmRelease".to_owned(),
        plural: "helmreleases".to_owned(),
    };
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// The HelmRelease of the application, which has its name.
pub(super) async fn read(client: &Client, namespace: &str, facts: &Facts) -> Known<Release> {
    let Some(inputs) = &facts.inputs else { return Known::Absent };
    let had_one = facts.release.as_ref().is_some_and(|release| release.fact.exists);
    let object = match looked_up(api(client, namespace).get(&inputs.fact.application.name).await, had_one) {
        Known::Found(object) => object,
        Known::Absent => return Known::Absent,
        Known::Unknown(why) => return Known::Unknown(why),
    };
    let pending = match facts.suspended {
        Some(_) => Ok(None),
        None => pending(client, namespace, &object.name_any()).await,
    };
    match pending {
        Ok(pending) => Known::Found(release(&object, pending)),
        Err(error) => Known::Unknown(message(&error)),
    }
}

/// A HelmRelease that was there and of which the whole kind is gone was not deleted by the application's owner: its CRD is
/// being replaced, or the API server has only just begun to serve.
fn looked_up<T>(result: Result<T, Error>, had_one: bool) -> Known<T> {
    match result {
        Err(error) if had_one && is_missing_kind(&error) => {
            Known::Unknown("HelmReleases are not served, though there was one".to_owned())
        }
        other => answer(other),
    }
}

fn release(object: &DynamicObject, pending: Option<String>) -> Release {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let reconciling = conditions.into_iter().flatten().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Reconciling")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    });
    Release {
        name: object.name_any(),
        resource_version: object.resource_version().unwrap_or_default(),
        suspend: object.data.pointer("/spec/suspend").and_then(Value::as_bool),
        busy: pending.or_else(|| reconciling.then(|| "it is reconciling".to_owned())),
    }
}

/// A Helm revision of this release that has begun and not ended. Helm keeps each in a Secret.
async fn pending(client: &Client, namespace: &str, name: &str) -> Result<Option<String>, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let status = "status in (pending-install,pending-upgrade,pending-rollback,uninstalling)";
    let selector = format!("owner=helm,name={name},{status}");
    let found = secrets.list_metadata(&ListParams::default().labels(&selector)).await?.items;
    Ok(found.first().map(|secret| format!("Helm revision {} has not ended", secret.name_any())))
}

/// Writes `spec.suspend`, on condition that the release is as it was seen. `None` removes the field.
pub(super) async fn write(
    client: &Client,
    namespace: &str,
    release: &Release,
    suspend: Option<bool>,
) -> Result<(), Error> {
    let patch = json!({
        "metadata": {"resourceVersion": release.resource_version},
        "spec": {"suspend": suspend},
    });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api(client, namespace).patch(&release.name, &params, &Patch::Merge(patch)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_kind_that_is_not_served_is_no_deleted_release() {
        let missing = |of: &str| -> Result<(), Error> {
            let status = json!({"code": 404, "reason": "NotFound", "message": "not found", "details": {"name": of}});
            Err(Error::Api(Box::new(serde_json::from_value::<Status>(status).unwrap())))
        };
        assert!(matches!(looked_up(missing(""), true), Known::Unknown(_)));
        assert!(matches!(looked_up(missing("etcd"), true), Known::Absent));
        assert!(matches!(looked_up(missing(""), false), Known::Absent), "without Flux there is nothing to suspend");
    }
}
