//! TLS client configurations from PEM material. ring is the only provider of cryptography.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use crate::api::secret::Secret;

/// Which authorities are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Only those in this PEM text.
    Only(Vec<u8>),
    /// Those that the system trusts (`SSL_CERT_FILE`, or the usual places), and those in this PEM text if any.
    System(Option<Vec<u8>>),
}

/// What proves who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// PEM text of the certificate and its intermediates.
    pub certificate: Vec<u8>,
    /// PEM text of the private key.
    pub key: Secret,
}

/// Everything a TLS client needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsMaterial {
    /// Authorities that may have signed the server's certificate.
    pub roots: Roots,
    /// Client certificate, for servers that ask for one.
    pub identity: Option<ClientIdentity>,
    /// Name to find in the server's certificate, where it is not the host that is dialled.
    pub server_name: Option<String>,
}

/// Why TLS material cannot be used. Terminal: the same material fails again.
#[derive(Debug, Error)]
pub enum TlsMaterialError {
    /// The CA text holds no certificate, or one that cannot be read.
    #[error("the CA bundle holds no usable certificate: expected PEM blocks of type CERTIFICATE")]
    Roots,
    /// The system has no trusted authorities and none were given.
    #[error("no trusted authorities: none were given, and the system has none (SSL_CERT_FILE, /etc/ssl/certs)")]
    NoRoots,
    /// The client certificate or key cannot be read.
    #[error("the client certificate or its key is not usable PEM")]
    Identity,
    /// Certificate and key do not belong together, or the algorithm is not known.
    #[error("the client certificate cannot be used")]
    Refused(#[source] rustls::Error),
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|list| !list.is_empty())
}

fn root_store(roots: &Roots) -> Result<RootCertStore, TlsMaterialError> {
    let mut store = RootCertStore::empty();
    let (given, system) = match roots {
        Roots::Only(pem) => (Some(pem), false),
        Roots::System(pem) => (pem.as_ref(), true),
    };
    if let Some(pem) = given {
        let list = certificates(pem).ok_or(TlsMaterialError::Roots)?;
        if store.add_parsable_certificates(list).0 == 0 {
            return Err(TlsMaterialError::Roots);
        }
    }
    if system {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if store.is_empty() { Err(TlsMaterialError::NoRoots) } else { Ok(store) }
}

/// Builds a client configuration (TLS 1.2 and newer) that offers the given ALPN protocols.
///
/// # Errors
/// The material is not usable.
pub fn client_config(material: &TlsMaterial, alpn: &[&str]) -> Result<ClientConfig, TlsMaterialError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsMaterialError::Refused)?
        .with_root_certificates(root_store(&material.roots)?);
    let mut config = match &material.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = certificates(&identity.certificate).ok_or(TlsMaterialError::Identity)?;
            let key = PrivateKeyDer::from_pem_slice(identity.key.expose().as_bytes())
                .map_err(|_| TlsMaterialError::Identity)?;
            builder.with_client_auth_cert(chain, key).map_err(TlsMaterialError::Refused)?
        }
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(config)
}
