//! Talking to an etcd cluster: dial, members, status, snapshot stream, authentication.
//!
//! [`dial`] gives a [`Client`] for one member; its methods are etcd's own. Errors are sorted by gRPC code and by the
//! layer at which a connection failed ([`Error`]), never by message text.

mod calls;
mod client;
mod error;
mod snapshot;
pub mod wire;

pub use client::{Client, Credentials, Options, dial};
pub use error::Error;
pub use snapshot::SnapshotStream;

pub use crate::net::{ClientIdentity, Fault, Roots, TlsMaterial};
