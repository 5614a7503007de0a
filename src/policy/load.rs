//! From policy files to a set of policies that can be evaluated. Everything that could go wrong later goes wrong here,
//! with the file, the document and the place in it.

use std::sync::Arc;

use thiserror::Error;

use super::allow::{self, Names, Refused};
use super::cel::{Program, SyntaxError, Tree};
use super::document::{self, Document};
use super::projection::Wanted;
use super::set::{Bound, Parameters, Policy, PolicySet, Validation};
use super::yaml::{self, Unreadable};
use super::{Action, Cause};

/// Where something stands: file, document, and the field in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The document in it, from 1.
    pub document: usize,
    /// The field, empty for the document as a whole.
    pub field: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)?;
        if self.field.is_empty() { Ok(()) } else { write!(f, ": {}", self.field) }
    }
}

/// Why policies were not loaded. Terminal: the file has to be put right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The document is no YAML, or not of its kind's shape.
    #[error("{place}: {error}")]
    Unreadable {
        /// Where.
        place: Place,
        /// What is wrong, with line and column of the file.
        error: Unreadable,
    },
    /// The document is of a kind that has no place among policies.
    #[error(
        "{place}: {kind} of {api_version} is no policy: expected ValidatingAdmissionPolicy, \
             ValidatingAdmissionPolicyBinding or ConfigMap"
    )]
    Kind {
        /// Where.
        place: Place,
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// An expression does not parse.
    #[error("{place}: {error}")]
    Syntax {
        /// Where.
        place: Place,
        /// Line and column of the expression, and what is wrong.
        error: String,
    },
    /// An expression uses what policies may not use.
    #[error("{place}: {refused}")]
    Refused {
        /// Where.
        place: Place,
        /// What.
        refused: Refused,
    },
    /// A field has a value that is not handled.
    #[error("{place}: {what}")]
    Value {
        /// Where.
        place: Place,
        /// What is wrong and what to write instead.
        what: String,
    },
}

/// A policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What to call it in messages.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Loads files into one set, or says everything that is wrong with them.
pub fn load(files: &[File]) -> Result<PolicySet, Vec<LoadError>> {
    let mut errors = Vec::new();
    let mut read = Vec::new();
    for file in files {
        for document in yaml::documents(&file.text) {
            let place = Place { file: file.name.clone(), document: document.number, field: String::new() };
            match parse(&document, &place) {
                Ok(parsed) => read.push((place, parsed)),
                Err(error) => errors.push(error),
            }
        }
    }
    let set = assemble(read, &mut errors);
    if errors.is_empty() { Ok(set) } else { Err(errors) }
}

fn parse(document: &yaml::Document<'_>, place: &Place) -> Result<Document, LoadError> {
    let unreadable = |error| LoadError::Unreadable { place: place.clone(), error };
    let value: serde_json::Value = document.read().map_err(unreadable)?;
    let text = |field: &str| value.get(field).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let admission =
        matches!(api_version.as_str(), "admissionregistration.k8s.io/v1" | "admissionregistration.k8s.io/v1beta1");
    match kind.as_str() {
        "ValidatingAdmissionPolicy" if admission => document.read().map(Document::Policy).map_err(unreadable),
        "ValidatingAdmissionPolicyBinding" if admission => document.read().map(Document::Binding).map_err(unreadable),
        "ConfigMap" if api_version == "v1" => Ok(Document::Parameters(value)),
        _ => Err(LoadError::Kind { place: place.clone(), api_version, kind }),
    }
}

fn assemble(read: Vec<(Place, Document)>, errors: &mut Vec<LoadError>) -> PolicySet {
    let (mut policies, mut parameters): (Vec<Policy>, _) = (Vec::new(), Vec::new());
    let mut bindings = Vec::new();
    for (place, document) in read {
        match document {
            Document::Policy(policy) => {
                if let Some(other) = policies.iter().find(|known| known.name == policy.metadata.name) {
                    let what = format!("the policy at {} has this name already", other.place);
                    errors.push(value(&place, "metadata.name", what));
                }
                policies.extend(compile(&policy, &place, errors));
            }
            Document::Binding(binding) => bindings.push((place, binding)),
            Document::Parameters(object) => parameters.push(Arc::new(object)),
        }
    }
    for (place, binding) in bindings {
        bind(&mut policies, &place, &binding, errors);
    }
    PolicySet { policies: Arc::new(policies), parameters }
}

fn value(place: &Place, field: &str, what: impl Into<String>) -> LoadError {
    LoadError::Value { place: Place { field: field.to_owned(), ..place.clone() }, what: what.into() }
}

/// What compiling one policy collects.
struct Compiler<'a> {
    place: &'a Place,
    errors: &'a mut Vec<LoadError>,
    names: Names,
    object: Wanted,
    old_object: Wanted,
}

impl Compiler<'_> {
    fn program(&mut self, field: &str, text: &str) -> Option<Program> {
        let place = || Place { field: field.to_owned(), ..self.place.clone() };
        let (program, tree) = match Program::parse(text) {
            Ok(parsed) => parsed,
            Err(error @ SyntaxError { .. }) => {
                self.errors.push(LoadError::Syntax { place: place(), error: error.to_string() });
                return None;
            }
        };
        if let Err(refused) = allow::check(&tree, &self.names) {
            self.errors.push(LoadError::Refused { place: place(), refused });
            return None;
        }
        self.note(&tree);
        Some(program)
    }

    fn validations(&mut self, written: &[document::Validation]) -> Vec<Validation> {
        let mut validations = Vec::new();
        for (at, validation) in written.iter().enumerate() {
            let field = format!("spec.validations[{at}]");
            let program = self.program(&format!("{field}.expression"), &validation.expression);
            let message_program = validation
                .message_expression
                .as_ref()
                .map(|text| self.program(&format!("{field}.messageExpression"), text));
            if let Some(program) = program {
                validations.push(Validation {
                    program,
                    expression: validation.expression.clone(),
                    message: validation.message.clone(),
                    message_program: message_program.flatten(),
                    cause: cause(validation.reason.as_deref()),
                });
            }
        }
        validations
    }

    fn note(&mut self, tree: &Tree) {
        self.object.read_by(tree, "object");
        self.old_object.read_by(tree, "oldObject");
    }
}

fn compile(policy: &document::Policy, place: &Place, errors: &mut Vec<LoadError>) -> Option<Policy> {
    let spec = &policy.spec;
    let before = errors.len();
    check_shape(policy, place, errors);
    let only = |allowed: &[&str]| {
        spec.match_constraints
            .resource_rules
            .iter()
            .flat_map(|rule| &rule.operations)
            .all(|operation| allowed.contains(&operation.as_str()))
    };
    let names = Names {
        variables: Vec::new(),
        params: spec.param_kind.is_some(),
        object: only(&["CREATE", "UPDATE"]),
        old_object: only(&["UPDATE", "DELETE"]),
    };
    let mut compiler = Compiler { place, errors, names, object: Wanted::default(), old_object: Wanted::default() };
    let mut conditions = Vec::new();
    for (at, condition) in spec.match_conditions.iter().enumerate() {
        let field = format!("spec.matchConditions[{at}].expression");
        conditions.extend(compiler.program(&field, &condition.expression).map(|p| (condition.name.clone(), p)));
    }
    let mut variables = Vec::new();
    for (at, variable) in spec.variables.iter().enumerate() {
        let field = format!("spec.variables[{at}].expression");
        variables.extend(compiler.program(&field, &variable.expression).map(|p| (variable.name.clone(), p)));
        compiler.names.variables.push(variable.name.clone());
    }
    let validations = compiler.validations(&spec.validations);
    let (object, old_object) = (compiler.object, compiler.old_object);
    (errors.len() == before).then(|| Policy {
        name: policy.metadata.name.clone(),
        place: place.clone(),
        failure: spec.failure_policy,
        constraints: spec.match_constraints.clone(),
        conditions,
        variables,
        validations,
        bindings: Vec::new(),
        takes_parameters: spec.param_kind.is_some(),
        object,
        old_object,
    })
}

fn check_shape(policy: &document::Policy, place: &Place, errors: &mut Vec<LoadError>) {
    let spec = &policy.spec;
    if policy.metadata.name.is_empty() {
        errors.push(value(place, "metadata.name", "a policy needs a name"));
    }
    if spec.match_constraints.resource_rules.is_empty() {
        errors.push(value(place, "spec.matchConstraints.resourceRules", "at least one rule is needed"));
    }
    if spec.validations.is_empty() {
        errors.push(value(place, "spec.validations", "at least one validation is needed"));
    }
    if let Some(kind) = &spec.param_kind
        && (kind.api_version != "v1" || kind.kind != "ConfigMap")
    {
        let what = format!("{} of {} is not handled: expected ConfigMap of v1", kind.kind, kind.api_version);
        errors.push(value(place, "spec.paramKind", what));
    }
    for (at, rule) in spec.match_constraints.resource_rules.iter().enumerate() {
        for operation in &rule.operations {
            if !["CREATE", "UPDATE", "DELETE"].contains(&operation.as_str()) {
                let field = format!("spec.matchConstraints.resourceRules[{at}].operations");
                errors.push(value(place, &field, format!("{operation:?} is not CREATE, UPDATE or DELETE")));
            }
        }
    }
    for (at, validation) in spec.validations.iter().enumerate() {
        if validation.message.is_none() && validation.message_expression.is_none() {
            errors.push(value(place, &format!("spec.validations[{at}].message"), "a validation needs a message"));
        }
    }
}

/// The API server knows these reasons; a cause says the same in the words of causes.
fn cause(reason: Option<&str>) -> Cause {
    match reason {
        Some("Forbidden" | "Unauthorized") => Cause::FieldValueForbidden,
        _ => Cause::FieldValueInvalid,
    }
}

fn bind(policies: &mut [Policy], place: &Place, binding: &document::Binding, errors: &mut Vec<LoadError>) {
    let spec = &binding.spec;
    let mut actions = spec.validation_actions.clone();
    actions.sort();
    actions.dedup();
    if actions.is_empty() {
        errors.push(value(place, "spec.validationActions", "at least one of Deny, Warn, Audit is needed"));
    }
    let parameters = match parameters(binding, place) {
        Ok(parameters) => parameters,
        Err(error) => return errors.push(error),
    };
    if spec.validation_actions.contains(&Action::Deny) && spec.validation_actions.contains(&Action::Warn) {
        errors.push(value(place, "spec.validationActions", "Deny and Warn exclude each other"));
    }
    match policies.iter_mut().find(|policy| policy.name == spec.policy_name) {
        Some(policy) => {
            if parameters.is_some() != policy.takes_parameters {
                let what = "needed if the policy has a paramKind, and only then";
                errors.push(value(place, "spec.paramRef", what));
            }
            policy.bindings.push(Bound { name: binding.metadata.name.clone(), actions, parameters });
        }
        None if errors.is_empty() => {
            errors.push(value(place, "spec.policyName", format!("there is no policy {:?}", spec.policy_name)));
        }
        // The policy may be one that was not loaded for errors of its own.
        None => {}
    }
}

fn parameters(binding: &document::Binding, place: &Place) -> Result<Option<Parameters>, LoadError> {
    let Some(reference) = &binding.spec.param_ref else { return Ok(None) };
    let deny = reference.parameter_not_found_action != Some(document::NotFound::Allow);
    let parameters = match (&reference.name, &reference.selector) {
        (Some(name), None) => {
            Parameters { name: Some(name.clone()), namespace: reference.namespace.clone(), labels: Vec::new(), deny }
        }
        (None, Some(selector)) => Parameters {
            name: None,
            namespace: reference.namespace.clone(),
            labels: selector.match_labels.clone().into_iter().collect(),
            deny,
        },
        _ => return Err(value(place, "spec.paramRef", "exactly one of name and selector is needed")),
    };
    Ok(Some(parameters))
}
