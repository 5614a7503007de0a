//! The options of an etcd RestoreJob (`spec.options`), held to a JSON Schema.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::api::duration::GoDuration;
use crate::api::restorejob::MAX_RESTORE_TIMEOUT_SECONDS;

/// Something that is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The option; empty when the options as a whole are wrong, or several that nobody knows.
    pub option: String,
    /// What is wrong and what to write.
    pub message: String,
    /// Whether nobody knows the option; it is then ignored, not wrong.
    pub unknown: bool,
}

/// Unknown options that are named; of more there is only the number.
const MOST_NAMED: usize = 10;
/// Characters of a name that are shown.
const MOST_SHOWN: usize = 63;

/// Each option with its schema and what a person should write.
fn known() -> [(&'static str, Value, &'static str); 6] {
    [
        (
            "restoreTimeoutSeconds",
            json!({"type": "integer", "minimum": 0, "maximum": MAX_RESTORE_TIMEOUT_SECONDS}),
            "expected a whole number of seconds from 0 to 86400, where 0 means 1800",
        ),
        ("dryRun", json!({"type": "boolean"}), "expected true or false"),
        ("safetySnapshot", json!({"enum": ["Always", "IfHealthy", "Never"]}), "expected Always, IfHealthy or Never"),
        (
            "revisionBump",
            json!({"anyOf": [{"enum": ["Auto", "Off"]}, {"type": "integer", "minimum": 1}]}),
            "expected Auto, Off or a whole number from 1",
        ),
        ("onFailure", json!({"enum": ["Rollback", "Hold"]}), "expected Rollback or Hold"),
        ("keepOldVolume", json!({"type": "string"}), "expected a duration such as 24h or 90m"),
    ]
}

static SCHEMA: LazyLock<Option<jsonschema::Validator>> = LazyLock::new(|| {
    let properties: serde_json::Map<String, Value> =
        known().into_iter().map(|(name, schema, _)| (name.to_owned(), schema)).collect();
    jsonschema::validator_for(&json!({"type": "object", "properties": properties})).ok()
});

/// Everything that is wrong with the options.
#[must_use]
pub fn faults(options: &Value) -> Vec<Fault> {
    let Some(given) = options.as_object() else {
        let message = "expected a map of options, such as restoreTimeoutSeconds: 1800".to_owned();
        return vec![Fault { option: String::new(), message, unknown: false }];
    };
    let known = known();
    let mut wrong: Vec<String> = SCHEMA
        .iter()
        .flat_map(|schema| schema.iter_errors(options))
        .filter_map(|error| error.instance_path().to_string().split('/').nth(1).map(ToOwned::to_owned))
        .collect();
    if let Some(text) = given.get("keepOldVolume").and_then(Value::as_str)
        && text.parse::<GoDuration>().ok().and_then(GoDuration::to_std).is_none()
    {
        wrong.push("keepOldVolume".to_owned());
    }
    let (mut faults, mut strange) = (Vec::new(), Vec::new());
    for (name, value) in given {
        match known.iter().find(|(known, ..)| known == name) {
            None => strange.push(name.as_str()),
            Some((_, _, expected)) if wrong.contains(name) => {
                let shown: String = value.to_string().chars().take(40).collect();
                faults.push(Fault {
                    option: name.clone(),
                    message: format!("{expected}, not {shown}"),
                    unknown: false,
                });
            }
            Some(_) => {}
        }
    }
    let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
    faults.extend(unknown(&strange, &names.join(", ")));
    faults
}

/// One fault for all options that nobody knows: whoever writes a job may write any number of them.
fn unknown(strange: &[&str], known: &str) -> Option<Fault> {
    let plain = |name: &str| name.len() <= MOST_SHOWN && name.chars().all(|c| c.is_ascii_alphanumeric());
    match strange {
        [] => None,
        [only] if plain(only) => {
            let message = format!("no such option; it is ignored. There are {known}");
            Some(Fault { option: (*only).to_owned(), message, unknown: true })
        }
        several => {
            let shown = |name: &&str| format!("{:?}", name.chars().take(MOST_SHOWN).collect::<String>());
            let mut listed: Vec<String> = several.iter().take(MOST_NAMED).map(shown).collect();
            if several.len() > MOST_NAMED {
                listed.push("...".to_owned());
            }
            let message = format!(
                "{} of them are no options and are ignored: {}. There are {known}",
                several.len(),
                listed.join(", ")
            );
            Some(Fault { option: String::new(), message, unknown: true })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_held_to_its_kind() {
        let good = json!({"restoreTimeoutSeconds": 0, "dryRun": true, "safetySnapshot": "Never", "revisionBump": 5,
            "onFailure": "Hold", "keepOldVolume": "1h30m"});
        assert_eq!(faults(&good), []);
        assert_eq!(faults(&json!({"revisionBump": "Auto", "restoreTimeoutSeconds": 86_400})), []);
        for (option, value) in [
            ("restoreTimeoutSeconds", json!(-1)),
            ("restoreTimeoutSeconds", json!(86_401)),
            ("restoreTimeoutSeconds", json!(1.5)),
            ("restoreTimeoutSeconds", json!("1800")),
            ("dryRun", json!("yes")),
            ("safetySnapshot", json!("never")),
            ("revisionBump", json!(-3)),
            ("onFailure", json!(null)),
            ("keepOldVolume", json!("1d")),
            ("keepOldVolume", json!("-1h")),
        ] {
            let found = faults(&json!({option: value}));
            assert_eq!(found.len(), 1, "{option}: {value}");
            assert!(found[0].option == option && !found[0].unknown, "{found:?}");
        }
        assert!(faults(&json!({"restoretimeoutseconds": 1}))[0].unknown);
        assert_eq!(faults(&json!([1]))[0].option, "");
    }

    #[test]
    fn any_number_of_unknown_options_is_one_short_fault() {
        let many: serde_json::Map<String, Value> =
            (0..100_000).map(|n| (format!("o{n:06}"), Value::Null)).chain([("dryRun".to_owned(), json!(1))]).collect();
        let found = faults(&Value::Object(many));
        assert_eq!(found.len(), 2);
        let unknown = found.iter().find(|fault| fault.unknown).unwrap();
        assert!(unknown.option.is_empty() && unknown.message.starts_with("100000 of them"), "{}", unknown.message);
        assert!(unknown.message.contains("\"o000009\"") && !unknown.message.contains("o000010"));
        let long = faults(&json!({"x".repeat(100_000): 1}));
        assert!(long[0].option.is_empty() && long[0].message.len() < 400, "{}", long[0].message.len());
    }
}
