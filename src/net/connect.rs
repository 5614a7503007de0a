//! One TCP connection, with TLS on it where asked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::dns::{DnsError, Resolver};
use super::failure::Fault;

/// A connection that bytes go through.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Why a connection did not come about.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("the name has no address")]
    Dns(#[from] DnsError),
    /// No address of the host accepted a connection.
    #[error("no connection to {host}:{port}")]
    Tcp {
        /// Host that was dialled.
        host: String,
        /// Port that was dialled.
        port: u16,
        /// What the last address answered.
        #[source]
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {host}:{port} as {name:?} failed")]
    Tls {
        /// Host that was dialled.
        host: String,
        /// Port that was dialled.
        port: u16,
        /// Name that the certificate must hold.
        name: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// Not connected in time.
    #[error("no connection to {host}:{port} within {} s", after.as_secs())]
    Timeout {
        /// Host that was dialled.
        host: String,
        /// Port that was dialled.
        port: u16,
        /// How long was waited.
        after: Duration,
    },
}

impl ConnectError {
    /// The layer that failed.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Dns(_) => Fault::Dns,
            Self::Tcp { .. } => Fault::Connect,
            Self::Tls { .. } => Fault::Tls,
            Self::Timeout { .. } => Fault::Timeout,
        }
    }
}

/// Connects to the first address of the host that accepts, and does the TLS handshake if a configuration is given.
///
/// # Errors
/// [`ConnectError`], saying which layer failed.
pub async fn connect(
    resolver: &Resolver,
    host: &str,
    port: u16,
    tls: Option<(Arc<ClientConfig>, &str)>,
    within: Duration,
) -> Result<Box<dyn Stream>, ConnectError> {
    tokio::time::timeout(within, establish(resolver, host, port, tls))
        .await
        .unwrap_or_else(|_| Err(ConnectError::Timeout { host: host.to_owned(), port, after: within }))
}

async fn establish(
    resolver: &Resolver,
    host: &str,
    port: u16,
    tls: Option<(Arc<ClientConfig>, &str)>,
) -> Result<Box<dyn Stream>, ConnectError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut tcp = None;
    for address in resolver.resolve(host).await? {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(stream) => {
                tcp = Some(stream);
                break;
            }
            Err(error) => last = error,
        }
    }
    let Some(tcp) = tcp else { return Err(ConnectError::Tcp { host: host.to_owned(), port, source: last }) };
    // Small requests must not wait for more; a socket that refuses the option still works.
    let _ = tcp.set_nodelay(true);
    let Some((config, name)) = tls else { return Ok(Box::new(tcp)) };
    let failed = |source| ConnectError::Tls { host: host.to_owned(), port, name: name.to_owned(), source };
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let server = ServerName::try_from(bare.to_owned()).map_err(|error| failed(io::Error::other(error)))?;
    let stream = TlsConnector::from(config).connect(server, tcp).await.map_err(failed)?;
    Ok(Box::new(stream))
}
