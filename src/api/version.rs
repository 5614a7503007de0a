//! etcd versions: `MAJOR.MINOR.PATCH`, as `spec.version` holds them and etcd tells them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An etcd version. Pre-release and build parts, which etcd's own builds may tell, are not kept: they do not decide
/// compatibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EtcdVersion {
    /// First number.
    pub major: u64,
    /// Second number: the data format may change with it.
    pub minor: u64,
    /// Third number.
    pub patch: u64,
}

/// Why a text is no etcd version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not an etcd version: expected MAJOR.MINOR.PATCH, such as 3.6.16")]
pub struct InvalidVersion {
    text: String,
}

impl EtcdVersion {
    /// The oldest version whose image carries etcdutl, and so the oldest that can restore by itself.
    pub const FIRST_WITH_ETCDUTL: Self = Self { major: 3, minor: 5, patch: 0 };

    /// Major and minor, which decide compatibility.
    #[must_use]
    pub fn minor_pair(self) -> (u64, u64) {
        (self.major, self.minor)
    }
}

impl FromStr for EtcdVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (version, build) = split(text.strip_prefix('v').unwrap_or(text), '+');
            let (core, pre_release) = split(version, '-');
            let mut numbers = core.split('.').map(number);
            let version = Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next()?? };
            (numbers.next().is_none() && is_tail(pre_release) && is_tail(build)).then_some(version)
        };
        read().ok_or_else(|| InvalidVersion { text: text.to_owned() })
    }
}

fn split(text: &str, mark: char) -> (&str, &str) {
    text.split_once(mark).unwrap_or((text, ""))
}

/// A number as semver writes it: without a sign or a leading zero.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let value: i64 = if plain { text.parse().ok()? } else { return None };
    u64::try_from(value).ok()
}

/// A pre-release or build part: words of letters, digits and dashes between dots.
fn is_tail(text: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    text.is_empty() || text.split('.').all(word)
}

impl TryFrom<String> for EtcdVersion {
    type Error = InvalidVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EtcdVersion> for String {
    fn from(version: EtcdVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for EtcdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_read_as_etcd_reads_them() {
        // Stricter than etcd's own library in one thing: no image has a tag with leading zeros.
        let refused_by_us = ["03.6.16", "3.06.16", "3.6.016"];
        for line in include_str!("../../tests/golden/version.tsv").lines() {
            let (text, expected) = line.split_once('\t').unwrap();
            let text: String = serde_json::from_str(text).unwrap();
            let read = text.parse::<EtcdVersion>().map(|version| version.to_string().replace('.', "\t"));
            if expected == "error" || refused_by_us.contains(&text.as_str()) {
                assert!(read.is_err(), "{text:?} was read");
            } else {
                assert_eq!(read.as_deref(), Ok(expected), "{text:?}");
            }
        }
    }

    #[test]
    fn the_tag_of_an_image_is_read_too() {
        assert_eq!("v3.6.16".parse::<EtcdVersion>().unwrap().to_string(), "3.6.16");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(major in 0..100_u64, minor in 0..100_u64, patch in 0..100_u64) {
            let version = EtcdVersion { major, minor, patch };
            prop_assert_eq!(version.to_string().parse(), Ok(version));
        }

        #[test]
        fn numbers_are_compared_as_numbers(one in [0..30_u64, 0..30, 0..30], other in [0..30_u64, 0..30, 0..30]) {
            let version = |[major, minor, patch]: [u64; 3]| format!("{major}.{minor}.{patch}").parse::<EtcdVersion>().unwrap();
            prop_assert_eq!(version(one).cmp(&version(other)), one.cmp(&other));
        }

        #[test]
        fn any_text_is_survived(text in ".{0,40}") {
            let _ = text.parse::<EtcdVersion>();
        }
    }
}
