//! The policies by which everything is judged at the moment.

use std::sync::{Arc, PoisonError, RwLock};

use super::builtin::builtin;
use super::set::PolicySet;

/// The policies in force, shared by everybody who judges. They are replaced as a whole.
#[derive(Clone, Debug)]
pub struct InForce(Arc<RwLock<Arc<PolicySet>>>);

impl Default for InForce {
    /// The policies that come with the program.
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Arc::new(builtin().clone()))))
    }
}

impl InForce {
    /// What is in force now; a judgement keeps to it to its end.
    #[must_use]
    pub fn get(&self) -> Arc<PolicySet> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these.
    pub fn put(&self, policies: PolicySet) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
    }
}
