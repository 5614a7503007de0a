//! Why a call to etcd failed. Kinds come from gRPC codes and from the layer at which a connection failed, never from
//! message texts, which differ between etcd's versions.

use std::time::Duration;

use thiserror::Error;
use tonic::Code;

use crate::net::{Fault, TlsMaterialError, fault_of};

/// Why a call to etcd failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The endpoint is no `http://` or `https://` URL with a host. Terminal.
    #[error("{endpoint:?} is not a client URL of etcd: expected http://HOST:PORT or https://HOST:PORT")]
    Endpoint {
        /// What was given.
        endpoint: String,
    },
    /// No endpoint was given at all. Terminal.
    #[error("no endpoint of etcd is given")]
    NoEndpoint,
    /// The TLS material cannot be used. Terminal.
    #[error("TLS material for {endpoint} cannot be used")]
    Material {
        /// Endpoint for which it was meant.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: TlsMaterialError,
    },
    /// The endpoint could not be reached; `fault` says at which layer.
    #[error("{endpoint} cannot be reached")]
    Unreachable {
        /// Endpoint that was dialled.
        endpoint: String,
        /// The layer that failed.
        fault: Fault,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time. Retried.
    #[error("{endpoint} did not answer {method} within {} s", after.as_secs())]
    Timeout {
        /// Endpoint that was asked.
        endpoint: String,
        /// Method that was called.
        method: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// etcd answered with an error.
    #[error("{endpoint} refused {method}: {code:?}: {message}")]
    Refused {
        /// Endpoint that was asked.
        endpoint: String,
        /// Method that was called.
        method: &'static str,
        /// gRPC code.
        code: Code,
        /// etcd's words, for people only.
        message: String,
    },
}

impl Error {
    /// Sorts a gRPC status: a broken connection is one, whatever code tonic gave it.
    pub(super) fn from_status(endpoint: &str, method: &'static str, status: &tonic::Status) -> Self {
        let cause = std::error::Error::source(status);
        if let Some(fault) = cause.and_then(fault_of) {
            let text = cause.map_or_else(String::new, chain);
            return Self::Unreachable { endpoint: endpoint.to_owned(), fault, source: text.into() };
        }
        Self::Refused {
            endpoint: endpoint.to_owned(),
            method,
            code: status.code(),
            message: status.message().to_owned(),
        }
    }

    /// The gRPC code, where etcd answered.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Endpoint { .. }
            | Self::NoEndpoint
            | Self::Material { .. }
            | Self::Unreachable { .. }
            | Self::Timeout { .. } => None,
        }
    }

    /// Whether the same call may succeed later with nothing changed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Endpoint { .. } | Self::NoEndpoint | Self::Material { .. } => false,
            Self::Unreachable { fault, .. } => *fault != Fault::Tls,
            Self::Timeout { .. } => true,
            Self::Refused { code, .. } => matches!(
                code,
                Code::Unavailable
                    | Code::DeadlineExceeded
                    | Code::ResourceExhausted
                    | Code::Aborted
                    | Code::Cancelled
                    | Code::Unknown
                    | Code::Internal
            ),
        }
    }
}

/// All causes of an error in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}
