//! The driver's options of a RestoreJob.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::duration::GoDuration;
use crate::api::restorejob::{DEFAULT_RESTORE_TIMEOUT_SECONDS, MAX_RESTORE_TIMEOUT_SECONDS};

/// How long the old volume is kept where nothing is said: a day.
const KEEP_SECONDS: i64 = 24 * 60 * 60;

/// When a snapshot of the old cluster is taken before anything is touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SafetySnapshot {
    /// Without one there is no restore.
    Always,
    /// Where the old cluster can still give one.
    #[default]
    IfHealthy,
    /// Never.
    Never,
}

/// How far the revision is raised, so that clients which remember one never meet it again with other content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RevisionBump {
    /// Beyond every revision that was seen alive.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// By so much.
    By(i64),
}

/// What follows when the restored cluster does not come right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// The old data is put back.
    #[default]
    Rollback,
    /// Everything stays as it is, guarded and suspended, until a person decides.
    Hold,
}

/// What the job's `spec.options` say. Unknown keys are ignored, as upstream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Seconds that a restore may take.
    pub timeout_seconds: i64,
    /// Whether to stop after the rehearsal.
    pub dry_run: bool,
    /// When a snapshot of the old cluster is taken.
    pub safety_snapshot: SafetySnapshot,
    /// How far the revision is raised.
    pub revision_bump: RevisionBump,
    /// What follows when the restored cluster does not come right.
    pub on_failure: OnFailure,
    /// Seconds for which the old volume is kept after the end.
    pub keep_seconds: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout_seconds: DEFAULT_RESTORE_TIMEOUT_SECONDS,
            dry_run: false,
            safety_snapshot: SafetySnapshot::default(),
            revision_bump: RevisionBump::default(),
            on_failure: OnFailure::default(),
            keep_seconds: KEEP_SECONDS,
        }
    }
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
    /// None of the words.
    #[error("spec.options.safetySnapshot is {0}: expected Always, IfHealthy or Never")]
    SafetySnapshot(Value),
    /// Neither a word nor a number from 1.
    #[error("spec.options.revisionBump is {0}: expected Auto, Off or a whole number from 1")]
    RevisionBump(Value),
    /// None of the words.
    #[error("spec.options.onFailure is {0}: expected Rollback or Hold")]
    OnFailure(Value),
    /// No duration.
    #[error("spec.options.keepOldVolume is {0}: expected a duration such as 24h or 90m")]
    Keep(Value),
}

impl Options {
    /// Reads them; absent ones have their defaults.
    pub fn parse(options: Option<&Value>) -> Result<Self, OptionsError> {
        let given = match options {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Object(options)) => options,
            Some(_) => return Err(OptionsError::NotAnObject),
        };
        let mut options = Self::default();
        let present = |name: &str| given.get(name).filter(|value| !value.is_null());
        if let Some(value) = present("restoreTimeoutSeconds") {
            options.timeout_seconds = match value.as_i64() {
                Some(0) => DEFAULT_RESTORE_TIMEOUT_SECONDS,
                Some(seconds) if (1..=MAX_RESTORE_TIMEOUT_SECONDS).contains(&seconds) => seconds,
                _ => return Err(OptionsError::Timeout(value.clone())),
            };
        }
        if let Some(value) = present("dryRun") {
            options.dry_run = value.as_bool().ok_or_else(|| OptionsError::DryRun(value.clone()))?;
        }
        if let Some(value) = present("safetySnapshot") {
            options.safety_snapshot = match value.as_str() {
                Some("Always") => SafetySnapshot::Always,
                Some("IfHealthy") => SafetySnapshot::IfHealthy,
                Some("Never") => SafetySnapshot::Never,
                _ => return Err(OptionsError::SafetySnapshot(value.clone())),
            };
        }
        if let Some(value) = present("revisionBump") {
            options.revision_bump = match (value.as_str(), value.as_i64()) {
                (Some("Auto"), _) => RevisionBump::Auto,
                (Some("Off"), _) => RevisionBump::Off,
                (None, Some(by)) if by >= 1 => RevisionBump::By(by),
                _ => return Err(OptionsError::RevisionBump(value.clone())),
            };
        }
        if let Some(value) = present("onFailure") {
            options.on_failure = match value.as_str() {
                Some("Rollback") => OnFailure::Rollback,
                Some("Hold") => OnFailure::Hold,
                _ => return Err(OptionsError::OnFailure(value.clone())),
            };
        }
        if let Some(value) = present("keepOldVolume") {
            let duration = value.as_str().and_then(|text| text.parse::<GoDuration>().ok()).and_then(GoDuration::to_std);
            let seconds = duration.and_then(|duration| i64::try_from(duration.as_secs()).ok());
            options.keep_seconds = seconds.ok_or_else(|| OptionsError::Keep(value.clone()))?;
        }
        Ok(options)
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

    #[test]
    fn each_option_is_read_and_nonsense_is_refused() {
        let options =
            json!({"safetySnapshot": "Always", "revisionBump": 7, "onFailure": "Hold", "keepOldVolume": "90m"});
        let read = Options::parse(Some(&options)).unwrap();
        assert_eq!((read.safety_snapshot, read.revision_bump), (SafetySnapshot::Always, RevisionBump::By(7)));
        assert_eq!((read.on_failure, read.keep_seconds), (OnFailure::Hold, 5400));
        for (name, bad) in [
            ("safetySnapshot", json!("always")),
            ("revisionBump", json!(0)),
            ("revisionBump", json!("auto")),
            ("onFailure", json!(true)),
            ("keepOldVolume", json!("1d")),
            ("keepOldVolume", json!("-1h")),
        ] {
            let error = Options::parse(Some(&json!({name: bad}))).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
