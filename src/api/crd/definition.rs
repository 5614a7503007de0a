//! What a kind's definition says outside its schema, and how the whole becomes a CustomResourceDefinition.

use std::any::TypeId;
use std::collections::BTreeMap;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceScale,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, SelectableField,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::node::Node;
use super::schema;

/// A kind's definition in the making.
pub(super) struct Definition {
    crd: CustomResourceDefinition,
    version: CustomResourceDefinitionVersion,
    schema: Map<String, Value>,
}

impl Definition {
    /// The kind with the shapes of its spec and status, and nothing else yet. `spec` is not required: upstream's
    /// definitions admit objects without it.
    pub(super) fn of<K, Spec, Status>(description: &str) -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: 'static,
        Spec: JsonSchema,
        Status: JsonSchema,
    {
        let cluster_scoped = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        let kind = K::kind(&()).into_owned();
        let crd = CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", K::plural(&()), K::group(&()))),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: K::group(&()).into_owned(),
                names: CustomResourceDefinitionNames {
                    singular: Some(kind.to_lowercase()),
                    list_kind: Some(format!("{kind}List")),
                    plural: K::plural(&()).into_owned(),
                    kind,
                    ..CustomResourceDefinitionNames::default()
                },
                scope: if cluster_scoped { "Cluster" } else { "Namespaced" }.to_owned(),
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        };
        let version = CustomResourceDefinitionVersion {
            name: K::version(&()).into_owned(),
            served: true,
            storage: true,
            ..CustomResourceDefinitionVersion::default()
        };
        let schema = json!({
            "description": description,
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string", "description": "Group and version of the kind."},
                "kind": {"type": "string", "description": "The kind."},
                "metadata": {"type": "object"},
                "spec": schema::of::<Spec>(),
                "status": schema::of::<Status>(),
            },
        });
        let Value::Object(schema) = schema else { unreachable!("an object was just written") };
        Self { crd, version, schema }
    }

    /// A printer column; `type_` is one of `string`, `integer`, `boolean`, `date`.
    pub(super) fn column(mut self, name: &str, type_: &str, json_path: &str) -> Self {
        self.version.additional_printer_columns.get_or_insert_default().push(CustomResourceColumnDefinition {
            name: name.to_owned(),
            type_: type_.to_owned(),
            json_path: json_path.to_owned(),
            ..CustomResourceColumnDefinition::default()
        });
        self
    }

    /// The column that every kind ends with.
    pub(super) fn age(self) -> Self {
        self.column("Age", "date", ".metadata.creationTimestamp")
    }

    /// Serves `/status`: a write to the main resource leaves status alone, and the other way round.
    pub(super) fn status_subresource(mut self) -> Self {
        self.subresources().status = Some(CustomResourceSubresourceStatus(json!({})));
        self
    }

    /// Serves `/scale`.
    pub(super) fn scale_subresource(mut self, spec: &str, status: &str, selector: &str) -> Self {
        self.subresources().scale = Some(CustomResourceSubresourceScale {
            spec_replicas_path: spec.to_owned(),
            status_replicas_path: status.to_owned(),
            label_selector_path: Some(selector.to_owned()),
        });
        self
    }

    fn subresources(&mut self) -> &mut CustomResourceSubresources {
        self.version.subresources.get_or_insert_default()
    }

    /// Fields that field selectors can name.
    pub(super) fn selectable(mut self, json_paths: &[&str]) -> Self {
        self.version.selectable_fields =
            Some(json_paths.iter().map(|path| SelectableField { json_path: (*path).to_owned() }).collect());
        self
    }

    /// Annotations that the platform's dashboard reads: where the choices for a field come from.
    pub(super) fn dashboard_options(mut self, options: &[(&str, &str)]) -> Self {
        let annotations: BTreeMap<_, _> = options
            .iter()
            .map(|(field, source)| (format!("options.cozystack.io/source.{field}"), (*source).to_owned()))
            .collect();
        self.crd.metadata.annotations = Some(annotations);
        self
    }

    /// The schema's root, to say more about it.
    pub(super) fn root(&mut self) -> Node<'_> {
        Node::root(&mut self.schema)
    }

    /// The finished CustomResourceDefinition.
    pub(super) fn build(mut self) -> CustomResourceDefinition {
        let schema = match serde_json::from_value(Value::Object(self.schema)) {
            Ok(schema) => schema,
            Err(error) => unreachable!("{:?} has no valid schema: {error}", self.crd.metadata.name),
        };
        self.version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema) });
        self.crd.spec.versions.push(self.version);
        self.crd
    }
}
