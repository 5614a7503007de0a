//! Why a connection failed, read from an error's chain of causes by type and never by text.

use std::error::Error;
use std::io;

use super::connect::ConnectError;
use super::dns::DnsError;

/// The layer at which a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The name has no address.
    Dns,
    /// Nothing accepted the connection, or it broke.
    Connect,
    /// The handshake failed: an untrusted, expired or wrong certificate, or no TLS at the other end.
    Tls,
    /// Nothing happened in time.
    Timeout,
}

/// Walks the chain of causes and says at which layer it began; `None` where it was no connection failure.
#[must_use]
pub fn fault_of(error: &(dyn Error + 'static)) -> Option<Fault> {
    let mut next = Some(error);
    let mut found = None;
    while let Some(cause) = next {
        if cause.is::<DnsError>() {
            return Some(Fault::Dns);
        }
        if cause.is::<rustls::Error>() {
            return Some(Fault::Tls);
        }
        if let Some(connect) = cause.downcast_ref::<ConnectError>() {
            return Some(connect.fault());
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            // An io::Error hides what it wraps from source(): its own cause is the wrapped error's cause.
            if let Some(inner) = error.get_ref()
                && let Some(fault) = fault_of(inner)
            {
                return Some(fault);
            }
            found = found.or(Some(match error.kind() {
                io::ErrorKind::TimedOut => Fault::Timeout,
                _ => Fault::Connect,
            }));
        }
        if cause.is::<tokio::time::error::Elapsed>() {
            found = found.or(Some(Fault::Timeout));
        }
        next = cause.source();
    }
    found
}
