//! What was seen, and what could not be: the values that decisions are made from.

use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::k8s::owner;

/// An answer that had to be asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked<T> {
    /// There was no need to ask.
    No,
    /// Nobody could answer, and why.
    Failed(String),
    /// The answer.
    Answered(T),
}

impl<T> Asked<T> {
    /// The answer, if there is one.
    #[must_use]
    pub fn answer(&self) -> Option<&T> {
        match self {
            Self::Answered(answer) => Some(answer),
            Self::No | Self::Failed(_) => None,
        }
    }
}

/// An object that another owns, by the name that it must have.
#[derive(Clone, Debug)]
pub enum Owned<T> {
    /// Nobody has the name.
    Absent,
    /// It is the owner's.
    Ours(Arc<T>),
    /// Somebody else's: perhaps what is left of a namesake.
    Foreign,
}

impl<T: Resource<DynamicType = ()>> Owned<T> {
    /// Sorts what was found by its owner's UID.
    #[must_use]
    pub fn of(found: Option<Arc<T>>, owner: &ObjectMeta) -> Self {
        match found {
            None => Self::Absent,
            Some(object) if owner::is_controlled_by(object.meta(), owner.uid.as_deref().unwrap_or_default()) => {
                Self::Ours(object)
            }
            Some(_) => Self::Foreign,
        }
    }

    /// The object, if it is ours.
    #[must_use]
    pub fn ours(&self) -> Option<&T> {
        match self {
            Self::Ours(object) => Some(object),
            Self::Absent | Self::Foreign => None,
        }
    }
}

/// The first bytes of a digest, two hex digits each.
#[must_use]
pub fn hex(digest: &[u8], bytes: usize) -> String {
    digest.iter().take(bytes).fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
