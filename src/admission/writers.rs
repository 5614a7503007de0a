//! Who is trusted to write what only the program itself should.

use crate::checks::Identity;

/// User names that are trusted: our own service account, and those that were declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writers(Vec<String>);

impl Writers {
    /// These user names (`system:serviceaccount:<namespace>:<name>` for service accounts).
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().filter(|name| !name.is_empty()).collect())
    }

    /// What a user name is to us. A request without one tells nothing.
    #[must_use]
    pub fn identity(&self, user: &str) -> Identity {
        if user.is_empty() {
            Identity::Unknown
        } else if self.0.iter().any(|trusted| trusted == user) {
            Identity::Trusted
        } else {
            Identity::Other
        }
    }
}
