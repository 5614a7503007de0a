//! What goes wrong, and where.

use crate::bed::fault_proxy::{HttpFault, On};
use serde_json::json;
use std::fmt;

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Our server is killed when it sends it: the API server never sees it.
    KilledBefore,
    /// Our server is killed before it learns that the API server has done it.
    KilledAfter,
    /// It is done, and the connection breaks before the answer.
    AnswerLost,
    /// It is done twice, and our server learns of the second time.
    Twice,
    /// 504: the API server gave up.
    Timeout,
    /// 409: somebody else was quicker.
    Conflict,
    /// 403: the permission is missing.
    Forbidden,
    /// 403: the namespace's quota is used up.
    Quota,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::KilledBefore,
        Self::KilledAfter,
        Self::AnswerLost,
        Self::Twice,
        Self::Timeout,
        Self::Conflict,
        Self::Forbidden,
        Self::Quota,
    ];

    /// Whether our server is to be killed once the fault has been met.
    pub fn kills(self) -> bool {
        matches!(self, Self::KilledBefore | Self::KilledAfter)
    }

    /// What the proxy does.
    pub fn at_the_proxy(self) -> HttpFault {
        match self {
            Self::KilledBefore => HttpFault::Hang,
            Self::KilledAfter => HttpFault::WithholdAnswer,
            Self::AnswerLost => HttpFault::LoseAnswer,
            Self::Twice => HttpFault::Twice,
            Self::Timeout => answer(504, "Timeout", "the request did not complete within the allotted time"),
            Self::Conflict => {
                answer(409, "Conflict", "the object has been modified; try again with the latest version")
            }
            Self::Forbidden => answer(403, "Forbidden", "the user may not do this"),
            Self::Quota => answer(403, "Forbidden", "exceeded quota: small, used and limited alike"),
        }
    }
}

/// An answer as the API server gives it.
fn answer(code: u16, reason: &str, message: &str) -> HttpFault {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    HttpFault::Answer(code, status.to_string())
}

/// A fault at the nth write, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Which write.
    pub write: usize,
    /// What happens to it.
    pub fault: Fault,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at write {}", self.fault, self.write)
    }
}

/// The writes that count: those in the story's namespace. Events do no harm and come at any time; leases are elsewhere.
pub fn writes(namespace: &str) -> On {
    On::write(&format!("/namespaces/{namespace}/")).without("/events")
}
