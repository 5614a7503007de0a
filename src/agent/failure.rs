//! Why a task failed, in the words of the contract.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use tonic::Code;

use crate::api::agent::{Reason, exit};
use crate::etcd::{self, Fault};
use crate::store;

/// A task's failure: the contract's reason, a sentence for a person, and what lies below it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Reason of the contract.
    pub(crate) reason: Reason,
    /// Whether another try may succeed with nothing changed.
    pub(crate) retryable: bool,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure that is retried or not as its reason says.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, retryable: reason.is_retryable(), message: message.into(), source: None }
    }

    /// Adds what lies below.
    #[must_use]
    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Says that another try may succeed, where the reason alone does not.
    #[must_use]
    pub(crate) fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// A setting that is missing or malformed.
    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidConfiguration, message)
    }

    /// A file or directory that could not be read or written.
    pub(crate) fn file(action: &str, path: &Path, source: io::Error) -> Self {
        let reason = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Reason::InsufficientSpace
            }
            _ => Reason::FilesystemFailed,
        };
        Self::new(reason, format!("cannot {action} {}", path.display())).because(source)
    }

    /// The process's exit code.
    #[must_use]
    pub(crate) fn exit_code(&self) -> u8 {
        match self.reason {
            Reason::InvalidConfiguration => exit::CONFIGURATION,
            _ if self.retryable => exit::RETRYABLE,
            _ => exit::TERMINAL,
        }
    }

    /// The sentence with all its causes, in one line.
    #[must_use]
    pub(crate) fn full_message(&self) -> String {
        let mut text = self.message.clone();
        let mut next: Option<&dyn Error> = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self { retryable: error.is_retryable(), ..Self::new(error.reason(), error.to_string()) }
            .because_source_of(error)
    }
}

impl From<etcd::Error> for Failure {
    fn from(error: etcd::Error) -> Self {
        let reason = match &error {
            etcd::Error::Endpoint { .. } | etcd::Error::NoEndpoint | etcd::Error::Material { .. } => {
                Reason::InvalidConfiguration
            }
            etcd::Error::Unreachable { fault: Fault::Tls, .. } => Reason::EtcdTlsFailed,
            // An invalid argument is etcd's word for a call without a login: nothing else in our calls could be one.
            etcd::Error::Refused {
                code: Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument,
                ..
            } => Reason::EtcdAuthFailed,
            etcd::Error::Unreachable { .. } | etcd::Error::Timeout { .. } | etcd::Error::Refused { .. } => {
                Reason::EtcdUnreachable
            }
        };
        Self { retryable: error.is_retryable(), ..Self::new(reason, error.to_string()) }.because_source_of(error)
    }
}

impl Failure {
    /// Keeps the causes of an error whose own words are the message already.
    fn because_source_of(self, error: impl Error + Send + Sync + 'static) -> Self {
        match error.source() {
            None => self,
            Some(_) => self.because(Below(Box::new(error))),
        }
    }
}

/// Stands for the causes of an error without the error itself.
#[derive(Debug)]
struct Below(Box<dyn Error + Send + Sync>);

impl Below {
    fn first(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().map_or(Ok(()), |cause| write!(f, "{cause}"))
    }
}

impl Error for Below {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.first().and_then(Error::source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_the_sentence_once() {
        let error = store::Error::File {
            action: "write",
            path: "/data/x".into(),
            source: io::Error::from(io::ErrorKind::StorageFull),
        };
        let failure = Failure::from(error);
        assert_eq!(failure.reason, Reason::InsufficientSpace);
        assert_eq!(failure.full_message(), "cannot write /data/x: no storage space");
    }

    #[test]
    fn exit_codes_follow_the_contract() {
        assert_eq!(Failure::configuration("x").exit_code(), exit::CONFIGURATION);
        assert_eq!(Failure::new(Reason::EtcdUnreachable, "x").exit_code(), exit::RETRYABLE);
        assert_eq!(Failure::new(Reason::TrailerMissing, "x").exit_code(), exit::TERMINAL);
        assert_eq!(Failure::new(Reason::TrailerMissing, "x").retryable().exit_code(), exit::RETRYABLE);
    }
}
