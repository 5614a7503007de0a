//! A set of policies, and what they find in a request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::cel::{Computed, Program, Scope, in_scope};
use super::document::{FailurePolicy, MatchConstraints, ResourceRule};
use super::finding::{Action, Basis, Cause, Finding};
use super::load::Place;
use super::message;
use super::projection::Wanted;

/// A request as policies see it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// API group of the resource.
    pub group: &'a str,
    /// API version of the resource.
    pub version: &'a str,
    /// Resource, in the plural.
    pub resource: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'a str,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name; empty where it is still to be generated.
    pub name: &'a str,
    /// Who asks; empty if nobody said.
    pub user: &'a str,
    /// The object as it shall be.
    pub object: Option<&'a Value>,
    /// The object as it is.
    pub old: Option<&'a Value>,
}

/// Policies that were loaded, and the ConfigMaps that they take parameters from.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    pub(super) policies: Arc<Vec<Policy>>,
    pub(super) parameters: Vec<Arc<Value>>,
}

/// ConfigMaps that a binding takes parameters from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParameterSource {
    /// Their namespace; `None` is that of the object that is judged, whichever that is.
    pub namespace: Option<String>,
    /// The one of this name; `None` is any with the labels.
    pub name: Option<String>,
    /// Labels that they have.
    pub labels: Vec<(String, String)>,
}

/// A policy, compiled.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) failure: FailurePolicy,
    pub(super) constraints: MatchConstraints,
    pub(super) conditions: Vec<(String, Program)>,
    pub(super) variables: Vec<(String, Program)>,
    pub(super) validations: Vec<Validation>,
    pub(super) bindings: Vec<Bound>,
    pub(super) takes_parameters: bool,
    pub(super) object: Wanted,
    pub(super) old_object: Wanted,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) program: Program,
    pub(super) expression: String,
    pub(super) message: Option<String>,
    pub(super) message_program: Option<Program>,
    pub(super) cause: Cause,
}

impl Validation {
    /// What it says, before anything is known of an object.
    fn message(&self) -> String {
        self.message.clone().unwrap_or_else(|| format!("failed expression: {}", self.expression.trim()))
    }
}

/// A binding: with what effect and which parameters a policy applies.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) name: String,
    /// What becomes of a request in which something is found; a finding for each.
    pub(super) actions: Vec<Action>,
    pub(super) parameters: Option<Parameters>,
}

/// Which ConfigMaps a policy takes parameters from.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) labels: Vec<(String, String)>,
    /// Whether a request is refused where there is none.
    pub(super) deny: bool,
}

/// A policy, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Where it was loaded from.
    pub place: Place,
    /// Resources that it applies to, as `operations resources.group`.
    pub applies_to: Vec<String>,
    /// Its bindings and what each does.
    pub bindings: Vec<(String, Vec<Action>)>,
    /// What it says when something is found, rule by rule.
    pub messages: Vec<String>,
}

impl PolicySet {
    /// What there is.
    #[must_use]
    pub fn summaries(&self) -> Vec<Summary> {
        self.policies.iter().map(Policy::summary).collect()
    }

    /// The same policies with these ConfigMaps to take parameters from, besides those that came with them.
    #[must_use]
    pub fn with_parameters(&self, more: impl IntoIterator<Item = Arc<Value>>) -> Self {
        let parameters = self.parameters.iter().cloned().chain(more).collect();
        Self { policies: self.policies.clone(), parameters }
    }

    /// Where the policies take parameters from, each place once.
    #[must_use]
    pub fn parameter_sources(&self) -> Vec<ParameterSource> {
        let bound = self.policies.iter().flat_map(|policy| &policy.bindings);
        let mut sources: Vec<ParameterSource> =
            bound.filter_map(|bound| bound.parameters.as_ref()).map(Parameters::source).collect();
        sources.sort();
        sources.dedup();
        sources
    }

    /// Everything that the policies find in a request.
    #[must_use]
    pub fn evaluate(&self, input: &Input<'_>) -> Vec<Finding> {
        let applying: Vec<&Policy> =
            self.policies.iter().filter(|policy| !policy.bindings.is_empty() && policy.applies(input)).collect();
        if applying.is_empty() {
            return Vec::new();
        }
        let request = request(input);
        let mut findings = Vec::new();
        in_scope(|mut scope| {
            scope.bind("request", &request, &Wanted::Whole);
            for policy in applying {
                policy.evaluate(input, &self.parameters, &scope, &mut findings);
            }
        });
        findings
    }
}

/// What is empty is absent, as it is for the API server.
fn request(input: &Input<'_>) -> Value {
    let mut request = json!({
        "operation": input.operation,
        "kind": {"group": input.group, "version": input.version, "kind": input.kind},
        "resource": {"group": input.group, "version": input.version, "resource": input.resource},
        "userInfo": {"username": input.user},
    });
    for (field, value) in [("name", input.name), ("namespace", input.namespace), ("subResource", input.subresource)] {
        if !value.is_empty() {
            request[field] = value.into();
        }
    }
    request
}

/// Suffix of our own policies' names, which would only be noise in messages.
const OWN: &str = ".etcd-warden.io";

impl Policy {
    /// The name in findings.
    fn id(&self) -> &str {
        self.name.strip_suffix(OWN).unwrap_or(&self.name)
    }

    fn summary(&self) -> Summary {
        let rule = |rule: &ResourceRule| {
            format!("{} {}.{}", rule.operations.join(","), rule.resources.join(","), rule.api_groups.join(","))
        };
        Summary {
            name: self.name.clone(),
            place: self.place.clone(),
            applies_to: self.constraints.resource_rules.iter().map(rule).collect(),
            bindings: self.bindings.iter().map(|bound| (bound.name.clone(), bound.actions.clone())).collect(),
            messages: self.validations.iter().map(Validation::message).collect(),
        }
    }

    fn applies(&self, input: &Input<'_>) -> bool {
        let matched = |rules: &[ResourceRule]| rules.iter().any(|rule| rule_matches(rule, input));
        matched(&self.constraints.resource_rules) && !matched(&self.constraints.exclude_resource_rules)
    }

    fn evaluate(&self, input: &Input<'_>, known: &[Arc<Value>], scope: &Scope<'_>, findings: &mut Vec<Finding>) {
        let mut scope = scope.within();
        scope.bind("object", input.object.unwrap_or(&Value::Null), &self.object);
        scope.bind("oldObject", input.old.unwrap_or(&Value::Null), &self.old_object);
        for bound in &self.bindings {
            let Some(parameters) = &bound.parameters else {
                self.evaluate_bound(bound, &scope, findings);
                continue;
            };
            let found: Vec<&Arc<Value>> = known.iter().filter(|object| parameters.select(object, input)).collect();
            if found.is_empty() && parameters.deny {
                self.failed(bound, "its parameters (a ConfigMap) were not found", findings);
            }
            for object in found {
                let mut scope = scope.within();
                scope.bind("params", object, &Wanted::Whole);
                self.evaluate_bound(bound, &scope, findings);
            }
        }
    }

    fn evaluate_bound(&self, bound: &Bound, scope: &Scope<'_>, findings: &mut Vec<Finding>) {
        for (name, condition) in &self.conditions {
            match condition.truth(scope) {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => return self.failed(bound, &format!("condition {name}: {why}"), findings),
            }
        }
        let mut scope = scope.within();
        let mut computed: HashMap<String, Computed> = HashMap::new();
        let mut broken: HashMap<&str, String> = HashMap::new();
        for (name, variable) in &self.variables {
            scope.bind_computed("variables", &computed);
            match variable.value(&scope) {
                Ok(value) => {
                    computed.insert(name.clone(), value);
                }
                // A variable that nobody needs may be broken, as it is computed on demand by the API server.
                Err(why) => {
                    broken.insert(name, why);
                }
            }
        }
        scope.bind_computed("variables", &computed);
        for validation in &self.validations {
            match validation.program.truth(&scope) {
                Ok(true) => {}
                Ok(false) => self.found(bound, validation, &scope, findings),
                Err(why) => {
                    let known = broken.iter().map(|(name, why)| format!("; variable {name}: {why}"));
                    let why = format!("{}: {why}{}", validation.expression.trim(), known.collect::<String>());
                    self.failed(bound, &why, findings);
                }
            }
        }
    }

    fn found(&self, bound: &Bound, validation: &Validation, scope: &Scope<'_>, findings: &mut Vec<Finding>) {
        let computed = validation.message_program.as_ref().and_then(|program| program.text(scope).ok());
        // The API server does not take computed messages that are blank or have a line break.
        let usable = computed.filter(|text| !text.trim().is_empty() && !text.contains(['\n', '\r']));
        let text = usable.or_else(|| validation.message.clone());
        let text = text.unwrap_or_else(|| format!("failed expression: {}", validation.expression.trim()));
        let (fields, message) = message::split(&text);
        let finding = Finding {
            policy: Cow::Owned(self.id().to_owned()),
            fields,
            message,
            action: Action::Audit,
            cause: validation.cause,
            basis: Basis::Object,
        };
        findings.extend(bound.actions.iter().map(|action| Finding { action: *action, ..finding.clone() }));
    }

    /// An expression that cannot be evaluated refuses the request, unless the policy says that it does not matter.
    fn failed(&self, bound: &Bound, why: &str, findings: &mut Vec<Finding>) {
        if self.failure == FailurePolicy::Ignore {
            return;
        }
        let finding = Finding {
            policy: Cow::Owned(self.id().to_owned()),
            fields: vec![String::new()],
            message: format!("the rule could not be evaluated: {why}"),
            action: Action::Audit,
            cause: Cause::FieldValueInvalid,
            basis: Basis::Object,
        };
        findings.extend(bound.actions.iter().map(|action| Finding { action: *action, ..finding.clone() }));
    }
}

impl Parameters {
    fn source(&self) -> ParameterSource {
        ParameterSource { namespace: self.namespace.clone(), name: self.name.clone(), labels: self.labels.clone() }
    }

    fn select(&self, object: &Value, input: &Input<'_>) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = self.namespace.as_deref().unwrap_or(input.namespace);
        let named = self.name.as_deref().is_none_or(|name| name == text("/metadata/name"));
        let labelled = self.labels.iter().all(|(key, value)| {
            object.pointer("/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str) == Some(value)
        });
        named && labelled && namespace == text("/metadata/namespace")
    }
}

fn rule_matches(rule: &ResourceRule, input: &Input<'_>) -> bool {
    let has = |list: &[String], value: &str| list.iter().any(|entry| entry == "*" || entry == value);
    let resource = |entry: &String| match entry.split_once('/') {
        None => (entry == "*" || entry == input.resource) && input.subresource.is_empty(),
        Some((resource, sub)) => {
            (resource == "*" || resource == input.resource)
                && (sub == "*" || (sub == input.subresource && !sub.is_empty()))
        }
    };
    has(&rule.api_groups, input.group)
        && has(&rule.api_versions, input.version)
        && has(&rule.operations, input.operation)
        && rule.resources.iter().any(resource)
        && (rule.resource_names.is_empty() || rule.resource_names.iter().any(|name| name == input.name))
}
