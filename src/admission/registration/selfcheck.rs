//! The self-check: a dry-run creation that only our own server refuses, so that the refusal proves that the API server
//! reaches us.

use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;

use super::build::SELF_CHECK;
use crate::admission::review::Request;
use crate::api::etcdcluster::{EtcdCluster, EtcdClusterSpec};
use crate::checks::Operation;
use crate::k8s;

/// Annotation that carries the word to be said back.
const WORD: &str = "etcd-warden.io/self-check";

/// Asks the API server to create what our server refuses. An error says what came instead.
pub(super) async fn ask(client: &Client, namespace: &str) -> Result<(), String> {
    let word = format!("{:016x}", rand_word());
    let mut cluster = EtcdCluster::new(
        SELF_CHECK,
        EtcdClusterSpec { version: "3.6.0".to_owned(), replicas: Some(1), ..EtcdClusterSpec::default() },
    );
    cluster.metadata.annotations = Some([(WORD.to_owned(), word.clone())].into());
    let params = PostParams { dry_run: true, field_manager: Some(k8s::apply::FIELD_MANAGER.to_owned()) };
    let api: Api<EtcdCluster> = Api::namespaced(client.clone(), namespace);
    match api.create(&params, &cluster).await {
        Ok(_) => Err("the API server did not ask us".to_owned()),
        Err(kube::Error::Api(status)) if status.message.contains(&answer(&word)) => Ok(()),
        Err(error) => Err(k8s::error::message(&error)),
    }
}

/// The refusal, if this request is a self-check.
pub(in crate::admission) fn question(request: &Request) -> Option<String> {
    let object = request.object.as_ref()?;
    let asked = request.dry_run && request.operation == Operation::Create && request.display_name() == SELF_CHECK;
    let word = object.get("metadata")?.get("annotations")?.get(WORD).and_then(Value::as_str)?;
    asked.then(|| answer(word))
}

fn answer(word: &str) -> String {
    format!("self-check {word} reached the admission server")
}

/// A word that no earlier self-check had.
fn rand_word() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
