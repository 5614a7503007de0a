//! The driver's options of a RestoreJob.

use serde_json::Value;

use crate::api::restorejob::{DEFAULT_RESTORE_TIMEOUT_SECONDS, MAX_RESTORE_TIMEOUT_SECONDS};

/// What the job's `spec.options` say. Unknown keys are ignored, as upstream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seconds that a restore may take.
    pub timeout_seconds: i64,
    /// Whether to stop after the rehearsal.
    pub dry_run: bool,
}

/// An option that makes no sense. Terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Not an object.
    #[error("spec.options is no object")]
    NotAnObject,
    /// No integer, or out of range.
    #[error("spec.options.restoreTimeoutSeconds is {0}: expected an integer from 0 to {MAX_RESTORE_TIMEOUT_SECONDS}")]
    Timeout(Value),
    /// No boolean.
    #[error("spec.options.dryRun is {0}: expected true or false")]
    DryRun(Value),
}

impl Options {
    /// Reads them; absent ones have their defaults.
    pub fn parse(options: Option<&Value>) -> Result<Self, OptionsError> {
        let options = match options {
            None | Some(Value::Null) => {
                return Ok(Self { timeout_seconds: DEFAULT_RESTORE_TIMEOUT_SECONDS, dry_run: false });
            }
            Some(Value::Object(options)) => options,
            Some(_) => return Err(OptionsError::NotAnObject),
        };
        let timeout_seconds = match options.get("restoreTimeoutSeconds") {
            None | Some(Value::Null) => DEFAULT_RESTORE_TIMEOUT_SECONDS,
            Some(value) => match value.as_i64() {
                Some(0) => DEFAULT_RESTORE_TIMEOUT_SECONDS,
                Some(seconds) if (1..=MAX_RESTORE_TIMEOUT_SECONDS).contains(&seconds) => seconds,
                _ => return Err(OptionsError::Timeout(value.clone())),
            },
        };
        let dry_run = match options.get("dryRun") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(bit)) => *bit,
            Some(other) => return Err(OptionsError::DryRun(other.clone())),
        };
        Ok(Self { timeout_seconds, dry_run })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_and_zero_are_the_default_and_nonsense_is_refused() {
        let seconds = |options: Value| Options::parse(Some(&options)).map(|options| options.timeout_seconds);
        assert_eq!(Options::parse(None).map(|options| options.timeout_seconds), Ok(1800));
        for (options, expected) in [
            (json!({}), 1800),
            (json!({"restoreTimeoutSeconds": 0, "unknown": true}), 1800),
            (json!({"restoreTimeoutSeconds": 60}), 60),
        ] {
            assert_eq!(seconds(options), Ok(expected));
        }
        for bad in [json!(-1), json!(86_401), json!("60"), json!(1.5)] {
            assert!(seconds(json!({"restoreTimeoutSeconds": bad})).is_err(), "{bad}");
        }
        assert_eq!(seconds(json!([])), Err(OptionsError::NotAnObject));
        assert!(Options::parse(Some(&json!({"dryRun": true}))).unwrap().dry_run);
        assert!(Options::parse(Some(&json!({"dryRun": "yes"}))).is_err());
    }
}
