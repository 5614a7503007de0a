//! One thing that is wrong, or doubtful, about an object.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What becomes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Admitted; noted in the audit log.
    Audit,
    /// Admitted; the client is told.
    Warn,
    /// Refused.
    Deny,
}

/// The cause's reason, in the API server's own words (`status.details.causes[].reason`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Cause {
    /// The value is malformed or out of range.
    #[default]
    FieldValueInvalid,
    /// The value may not stand here, or may not change.
    FieldValueForbidden,
    /// A value is missing.
    FieldValueRequired,
    /// The value names something that does not exist.
    FieldValueNotFound,
    /// The value is not one of those that are known.
    FieldValueNotSupported,
    /// The value stands twice.
    FieldValueDuplicate,
}

impl Cause {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FieldValueInvalid => "FieldValueInvalid",
            Self::FieldValueForbidden => "FieldValueForbidden",
            Self::FieldValueRequired => "FieldValueRequired",
            Self::FieldValueNotFound => "FieldValueNotFound",
            Self::FieldValueNotSupported => "FieldValueNotSupported",
            Self::FieldValueDuplicate => "FieldValueDuplicate",
        }
    }
}

/// What a finding rests on; it decides when an UPDATE may still be blamed for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// The object alone: an old object can be asked whether it had the same fault.
    #[default]
    Object,
    /// Other objects: they bind what is new in this one, and nothing else.
    Others,
    /// This very change, whatever fields it touches: never dropped.
    Change,
}

/// One thing that is wrong, or doubtful, about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule, the same in messages, metrics and documentation.
    pub policy: Cow<'static, str>,
    /// Paths of the fields that are to blame (`spec.strategies[2].parameters`); the first is the one shown.
    pub fields: Vec<String>,
    /// What is wrong, where, and what to do; one line, without the field.
    pub message: String,
    /// What becomes of the request.
    pub action: Action,
    /// The cause's reason.
    pub cause: Cause,
    /// What it rests on.
    pub basis: Basis,
}

impl Finding {
    /// A refusal on the object alone.
    #[must_use]
    pub fn deny(policy: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self::new(Action::Deny, policy, field, message.into())
    }

    /// A warning on the object alone.
    #[must_use]
    pub fn warn(policy: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self::new(Action::Warn, policy, field, message.into())
    }

    fn new(action: Action, policy: &'static str, field: &str, message: String) -> Self {
        Self {
            policy: Cow::Borrowed(policy),
            fields: vec![field.to_owned()],
            message,
            action,
            cause: Cause::default(),
            basis: Basis::default(),
        }
    }

    /// The same with another reason.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// The same resting on something else.
    #[must_use]
    pub fn based_on(mut self, basis: Basis) -> Self {
        self.basis = basis;
        self
    }

    /// The same with one more field to blame.
    #[must_use]
    pub fn and_field(mut self, field: &str) -> Self {
        self.fields.push(field.to_owned());
        self
    }

    /// The field shown; empty for the object as a whole.
    #[must_use]
    pub fn field(&self) -> &str {
        self.fields.first().map_or("", String::as_str)
    }
}
