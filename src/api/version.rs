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
        let invalid = || InvalidVersion { text: text.to_owned() };
        let number = |part: &str| {
            let plain =
                !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            if plain { part.parse().map_err(|_| invalid()) } else { Err(invalid()) }
        };
        let core = text.strip_prefix('v').unwrap_or(text);
        let core = core.split(['-', '+']).next().unwrap_or(core);
        let parts: Vec<&str> = core.split('.').collect();
        let [major, minor, patch] = parts.as_slice() else { return Err(invalid()) };
        Ok(Self { major: number(major)?, minor: number(minor)?, patch: number(patch)? })
    }
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
