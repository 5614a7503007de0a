//! CustomResourceDefinitions, generated: types give the shape, the files below say, one for each kind, what a type
//! cannot (what is required, defaults, limits, validation rules, columns).

mod backup;
mod backupclass;
mod backupjob;
mod core;
mod defaults;
mod definition;
mod etcdcluster;
mod etcddefrag;
mod etcdmember;
mod etcdsnapshot;
mod node;
mod plan;
mod restorejob;
mod schema;
mod shapes;
mod strategy;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use defaults::{schema, with_defaults};

/// Every kind of ours, in the order in which a person would read them.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    [
        etcdcluster::definition as fn() -> definition::Definition,
        etcdmember::definition,
        etcdsnapshot::definition,
        etcddefrag::definition,
        strategy::definition,
        strategy::warden_definition,
        backupclass::definition,
        backupjob::definition,
        backup::definition,
        restorejob::definition,
        plan::definition,
    ]
    .into_iter()
    .map(|definition| definition().build())
    .collect()
}

/// The name of the chart's file that holds a definition: `<group>_<plural>.yaml`.
#[must_use]
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// A definition as a YAML document that `kubectl apply --server-side -f -` takes.
///
/// # Errors
/// Only if the YAML library cannot write what it is given.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = String::from("---\n");
    serde_saphyr::to_fmt_writer(&mut text, crd)?;
    Ok(text)
}
