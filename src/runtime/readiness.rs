//! Readiness: a process is ready when every part of it says so, and each part says why not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const NOT_STARTED: &str = "has not started yet";

/// Collects what each part says of itself.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    gates: Arc<Mutex<BTreeMap<&'static str, Option<String>>>>,
}

/// One part's say. Not ready until it says that it is.
#[derive(Clone, Debug)]
pub struct Gate {
    name: &'static str,
    gates: Arc<Mutex<BTreeMap<&'static str, Option<String>>>>,
}

impl Readiness {
    /// A gate under this name, closed until its part opens it.
    #[must_use]
    pub fn gate(&self, name: &'static str) -> Gate {
        let gate = Gate { name, gates: self.gates.clone() };
        gate.not_ready(NOT_STARTED);
        gate
    }

    /// What is not ready, by part, with the reason; empty when the process is ready. A process of which no part has a
    /// gate yet is still starting.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if gates.is_empty() {
            return vec![("process", NOT_STARTED.to_owned())];
        }
        gates.iter().filter_map(|(name, why)| why.clone().map(|why| (*name, why))).collect()
    }
}

impl Gate {
    /// This part is ready.
    pub fn ready(&self) {
        self.set(None);
    }

    /// This part is not ready, and why.
    pub fn not_ready(&self, why: impl Into<String>) {
        self.set(Some(why.into()));
    }

    fn set(&self, why: Option<String>) {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).insert(self.name, why);
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness;

    #[test]
    fn one_closed_gate_keeps_the_process_unready_and_is_named() {
        let readiness = Readiness::default();
        assert_eq!(readiness.missing().len(), 1, "nobody has said anything yet");
        let (first, second) = (readiness.gate("certificate"), readiness.gate("caches"));
        first.ready();
        assert_eq!(readiness.missing(), [("caches", "has not started yet".to_owned())]);
        second.ready();
        assert!(readiness.missing().is_empty());
        first.not_ready("expired");
        assert_eq!(readiness.missing(), [("certificate", "expired".to_owned())]);
    }
}
