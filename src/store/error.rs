//! Why a store did not do what it was asked, and what to check. No error holds a credential.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::api::agent::Reason;
use crate::net::{Fault, TlsMaterialError};

/// Why a store did not do what it was asked.
#[derive(Debug, Error)]
pub enum Error {
    /// The coordinates cannot be used. Terminal.
    #[error("the object cannot be addressed: {0}")]
    Coordinates(String),
    /// The CA bundle for the store cannot be used. Terminal.
    #[error("the trusted authorities for the store cannot be used")]
    Material(#[from] TlsMaterialError),
    /// No answer from the store. Retried, except when the handshake fails.
    #[error("{endpoint} cannot be reached ({}): check {}", layer(*fault), remedy(*fault))]
    Unreachable {
        /// The store's address.
        endpoint: String,
        /// The layer that failed.
        fault: Fault,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store cannot take requests now: it throttles or has a fault of its own. Retried.
    #[error("{endpoint} answered {status} {code} for longer than retries last")]
    Busy {
        /// The store's address.
        endpoint: String,
        /// HTTP status.
        status: u16,
        /// S3 error code, empty where the store told none.
        code: String,
    },
    /// The credentials are not accepted. Terminal.
    #[error(
        "{endpoint} does not accept the credentials ({code}): check access key, secret key, session token and region"
    )]
    Credentials {
        /// The store's address.
        endpoint: String,
        /// S3 error code.
        code: String,
    },
    /// The credentials may not do this. Terminal.
    #[error("{endpoint} does not let these credentials {action} {uri}: check the bucket's policy")]
    Permission {
        /// The store's address.
        endpoint: String,
        /// What was tried, as an infinitive.
        action: &'static str,
        /// The object.
        uri: String,
    },
    /// The clocks differ too much. Retried.
    #[error("{endpoint} finds the request's time too far from its own: check the clocks of node and store")]
    ClockSkewed {
        /// The store's address.
        endpoint: String,
    },
    /// No such bucket. Terminal.
    #[error("bucket {bucket:?} does not exist at {endpoint}: check bucket, endpoint and addressing style")]
    BucketMissing {
        /// The store's address.
        endpoint: String,
        /// Bucket name.
        bucket: String,
    },
    /// No such object. Terminal.
    #[error("{uri} does not exist")]
    ObjectMissing {
        /// The object.
        uri: String,
    },
    /// The name is taken by an object that is not the caller's. Terminal.
    #[error("{uri} exists already and belongs to {}: choose another name or prefix", owner.as_deref().unwrap_or("nobody we know"))]
    Taken {
        /// The object.
        uri: String,
        /// UID that owns it, where one is recorded.
        owner: Option<String>,
    },
    /// The object was replaced while it was read or written. Retried.
    #[error("{uri} was changed by somebody else meanwhile")]
    Changed {
        /// The object.
        uri: String,
    },
    /// What is stored differs from what was sent. Retried.
    #[error("{uri} holds {found} bytes, {sent} were sent")]
    Mismatch {
        /// The object.
        uri: String,
        /// Bytes that were sent.
        sent: u64,
        /// Bytes that the store tells.
        found: u64,
    },
    /// Any other refusal. Terminal.
    #[error("{endpoint} refused the request: {status} {code} {message}")]
    Refused {
        /// The store's address.
        endpoint: String,
        /// HTTP status, 0 where the answer could not be understood.
        status: u16,
        /// S3 error code, empty where the store told none.
        code: String,
        /// The store's words.
        message: String,
    },
    /// The time given ran out. Retried.
    #[error("the time given for {endpoint} ran out")]
    Deadline {
        /// The store's address.
        endpoint: String,
    },
    /// A file or directory could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as an infinitive.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn layer(fault: Fault) -> &'static str {
    match fault {
        Fault::Dns => "its name has no address",
        Fault::Connect => "no connection",
        Fault::Tls => "TLS handshake failed",
        Fault::Timeout => "no answer in time",
    }
}

fn remedy(fault: Fault) -> &'static str {
    match fault {
        Fault::Dns => "the endpoint's spelling and the cluster's DNS",
        Fault::Connect => "endpoint, port, proxy and network policies",
        Fault::Tls => "the CA bundle, the certificate's names and dates, and http against https",
        Fault::Timeout => "network policies, proxy and the store's load",
    }
}

impl Error {
    /// The word of the contract for this error.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Coordinates(_) | Self::Material(_) => Reason::InvalidConfiguration,
            Self::Unreachable { fault: Fault::Tls, .. } => Reason::StoreTlsFailed,
            Self::Unreachable { .. } | Self::Busy { .. } | Self::Deadline { .. } => Reason::StoreUnreachable,
            Self::Credentials { .. } => Reason::StoreAuthFailed,
            Self::Permission { .. } => Reason::StorePermissionDenied,
            Self::ClockSkewed { .. } => Reason::StoreClockSkewed,
            Self::BucketMissing { .. } => Reason::BucketNotFound,
            Self::ObjectMissing { .. } => Reason::ObjectNotFound,
            Self::Taken { .. } => Reason::ObjectOwnedByAnother,
            Self::Changed { .. } | Self::Mismatch { .. } => Reason::StoredObjectMismatch,
            Self::Refused { .. } => Reason::StoreRefused,
            Self::File { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    Reason::InsufficientSpace
                }
                _ => Reason::FilesystemFailed,
            },
        }
    }

    /// Whether the same call may succeed later with nothing changed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.reason().is_retryable()
    }
}
