//! Policy documents as they are written: ValidatingAdmissionPolicy and its binding. Whatever our engine does not do is
//! an error here, not a field that is read and forgotten.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A document of a policy file.
#[derive(Clone, Debug)]
pub(super) enum Document {
    /// A policy.
    Policy(Box<Policy>),
    /// A binding of a policy.
    Binding(Box<Binding>),
    /// A ConfigMap to take parameters from.
    Parameters(Value),
}

/// ValidatingAdmissionPolicy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Policy {
    #[serde(rename = "apiVersion")]
    pub(super) _api_version: String,
    #[serde(rename = "kind")]
    pub(super) _kind: String,
    pub(super) metadata: Metadata,
    pub(super) spec: PolicySpec,
}

/// What is read of an object's metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) name: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PolicySpec {
    #[serde(default)]
    pub(super) failure_policy: FailurePolicy,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) match_constraints: MatchConstraints,
    #[serde(default)]
    pub(super) match_conditions: Vec<Named>,
    #[serde(default)]
    pub(super) variables: Vec<Named>,
    #[serde(default)]
    pub(super) validations: Vec<Validation>,
}

/// What an expression that cannot be evaluated does to the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum FailurePolicy {
    /// It is refused.
    #[default]
    Fail,
    /// It passes.
    Ignore,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ParamKind {
    pub(super) api_version: String,
    pub(super) kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MatchConstraints {
    #[serde(default)]
    pub(super) resource_rules: Vec<ResourceRule>,
    #[serde(default)]
    pub(super) exclude_resource_rules: Vec<ResourceRule>,
    #[serde(rename = "matchPolicy")]
    pub(super) _match_policy: Option<String>,
    /// Selects everything; the API server writes it so.
    #[serde(rename = "namespaceSelector")]
    pub(super) _namespace_selector: Option<Everything>,
    /// Selects everything.
    #[serde(rename = "objectSelector")]
    pub(super) _object_selector: Option<Everything>,
}

/// A selector without conditions: any other is not handled.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Everything {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResourceRule {
    #[serde(default)]
    pub(super) api_groups: Vec<String>,
    #[serde(default)]
    pub(super) api_versions: Vec<String>,
    #[serde(default)]
    pub(super) operations: Vec<String>,
    #[serde(default)]
    pub(super) resources: Vec<String>,
    #[serde(default)]
    pub(super) resource_names: Vec<String>,
    #[serde(rename = "scope")]
    pub(super) _scope: Option<String>,
}

/// A named expression: a variable, or a condition for the policy to apply.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) expression: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Validation {
    pub(super) expression: String,
    pub(super) message: Option<String>,
    pub(super) message_expression: Option<String>,
    pub(super) reason: Option<String>,
}

/// ValidatingAdmissionPolicyBinding.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Binding {
    #[serde(rename = "apiVersion")]
    pub(super) _api_version: String,
    #[serde(rename = "kind")]
    pub(super) _kind: String,
    pub(super) metadata: Metadata,
    pub(super) spec: BindingSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BindingSpec {
    pub(super) policy_name: String,
    pub(super) validation_actions: Vec<super::Action>,
    pub(super) param_ref: Option<ParamRef>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ParamRef {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) selector: Option<Selector>,
    pub(super) parameter_not_found_action: Option<NotFound>,
}

/// Labels that a parameter object must have.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Selector {
    #[serde(default)]
    pub(super) match_labels: BTreeMap<String, String>,
}

/// What a missing parameter object does to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum NotFound {
    /// The policy does not apply.
    Allow,
    /// The policy cannot be evaluated.
    Deny,
}
