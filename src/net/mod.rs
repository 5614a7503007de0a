//! What both etcd and the stores need of the network: names resolved without the image's C library, TLS from PEM
//! material, and one vocabulary for why a connection did not come about.

mod connect;
mod dns;
mod failure;
mod tls;

pub use connect::{ConnectError, Stream, connect};
pub use dns::{DnsError, Resolver};
pub use failure::{Fault, fault_of};
pub use tls::{ClientIdentity, Roots, TlsMaterial, TlsMaterialError, client_config};
