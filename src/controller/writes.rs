//! What every controller of ours does when it writes, and what that may fail with.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::access;
use super::frame::Failure;
use crate::k8s::apply::replace_status;
use crate::k8s::error::{Class, class};

/// Why a look at an object did not end well. Everything is retried: what the API server or etcd refuses now may be
/// granted once a person has acted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error("cannot {doing}")]
    Api {
        /// What was tried.
        doing: &'static str,
        /// What the API server said.
        source: kube::Error,
    },
    /// etcd refused or did not answer.
    #[error("etcd cannot be asked")]
    Etcd(#[from] access::Error),
}

impl Failure for Error {
    fn is_retried(&self) -> bool {
        match self {
            Self::Api { .. } | Self::Etcd(_) => true,
        }
    }
}

/// The objects of a kind in the namespace of another object.
pub fn beside<K>(client: &Client, object: &impl ResourceExt) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// There was nothing to write, or the object is gone.
    Nothing,
    /// It is written.
    Done,
    /// The copy that it was computed from is not the newest: a newer one is on its way to us, and with it the next look.
    Behind,
}

/// Writes the status of an object as it was read plus its new status.
pub async fn status<K>(api: &Api<K>, updated: &K) -> Result<Written, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    match replace_status(api, updated).await {
        Ok(_) => Ok(Written::Done),
        Err(error) => match class(&error) {
            Class::NotFound => Ok(Written::Nothing),
            Class::Conflict => Ok(Written::Behind),
            Class::AlreadyExists | Class::Forbidden | Class::Invalid | Class::Transient => {
                Err(Error::Api { doing: "write the status", source: error })
            }
        },
    }
}
