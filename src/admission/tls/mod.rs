//! The serving certificate: where it comes from, how it is renewed, and which bundle lets the API server trust it.

mod authority;
mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::jiff::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

pub use authority::{AUTHORITY_LIFETIME, Authority, CertificateError, LEAF_LIFETIME, Leaf, not_after};
pub use store::{Kept, Store, StoreError};

/// How often the source is looked at again. Files are read, not watched for events: an event can be missed.
const RECHECK: Duration = Duration::from_secs(10);

/// Where the serving certificate comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An authority of our own signs it, for these DNS names and addresses.
    SelfManaged {
        /// Where the authority is kept.
        store: Store,
        /// What callers call us.
        names: Vec<String>,
    },
    /// Files that somebody else renews, such as cert-manager through a mounted Secret.
    Files {
        /// Certificate chain, PEM.
        certificate: PathBuf,
        /// Private key, PEM.
        key: PathBuf,
        /// Authorities that callers shall trust, PEM.
        bundle: PathBuf,
    },
}

/// Why no certificate can be served.
#[derive(Debug, Error)]
pub enum Error {
    /// The authority could not be had.
    #[error("no authority to sign the serving certificate")]
    Store(#[from] StoreError),
    /// A certificate could not be made or read.
    #[error("no serving certificate")]
    Certificate(#[from] CertificateError),
    /// A file could not be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The certificate and key do not make a TLS server.
    #[error("the certificate and key cannot be served")]
    Tls(#[source] rustls::Error),
}

/// What callers have to trust, and until when the present certificate lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// PEM certificates of authorities.
    pub bundle: String,
    /// When the present leaf ends.
    pub not_after: Timestamp,
}

/// A certificate that is being served, and renewed while it is.
pub struct Serving {
    source: Source,
    config: RustlsConfig,
    trust: watch::Sender<Trust>,
    loaded: Loaded,
}

/// What was last read or made.
struct Loaded {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    trust: Trust,
    /// What the source held, to see that it changed.
    origin: Vec<u8>,
    renew_at: Timestamp,
}

impl Serving {
    /// Gets a certificate, making what is missing.
    pub async fn start(source: Source) -> Result<Self, Error> {
        let loaded = load(&source, Timestamp::now()).await?;
        let config = RustlsConfig::from_config(server_config(&loaded)?);
        Ok(Self { source, config, trust: watch::Sender::new(loaded.trust.clone()), loaded })
    }

    /// What to serve with; follows renewals by itself.
    #[must_use]
    pub fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// What callers have to trust; follows renewals by itself.
    #[must_use]
    pub fn trust(&self) -> watch::Receiver<Trust> {
        self.trust.subscribe()
    }

    /// Renews for ever. Connections that stand are not touched; what cannot be renewed now is tried again.
    pub async fn keep(mut self) {
        loop {
            tokio::time::sleep(RECHECK).await;
            if let Err(error) = self.renew(Timestamp::now()).await {
                warn!(error = chain(&error), not_after = %self.loaded.trust.not_after, "serving certificate not renewed");
            }
        }
    }

    async fn renew(&mut self, now: Timestamp) -> Result<(), Error> {
        if now < self.loaded.renew_at && origin(&self.source).await? == self.loaded.origin {
            return Ok(());
        }
        let loaded = load(&self.source, now).await?;
        self.config.reload_from_config(server_config(&loaded)?);
        info!(not_after = %loaded.trust.not_after, "serving certificate renewed");
        self.trust.send_replace(loaded.trust.clone());
        self.loaded = loaded;
        Ok(())
    }
}

/// What the source holds now, as bytes to compare; empty where there is nothing that others could change.
async fn origin(source: &Source) -> Result<Vec<u8>, Error> {
    match source {
        Source::SelfManaged { store, .. } => {
            let parts = store.load().await?.unwrap_or_default();
            Ok(parts.into_values().flatten().collect())
        }
        Source::Files { certificate, key, bundle } => {
            let mut bytes = Vec::new();
            for path in [certificate, key, bundle] {
                bytes.extend(read(path)?);
            }
            Ok(bytes)
        }
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::File { path: path.clone(), source })
}

async fn load(source: &Source, now: Timestamp) -> Result<Loaded, Error> {
    match source {
        Source::SelfManaged { store, names } => {
            let kept = store.load_or_create(now).await?;
            let leaf = kept.authority.issue(names, now, LEAF_LIFETIME)?;
            Ok(Loaded {
                chain: vec![leaf.certificate],
                key: leaf.key,
                trust: Trust { bundle: kept.bundle, not_after: leaf.not_after },
                origin: origin(source).await?,
                renew_at: leaf.not_after - LEAF_LIFETIME / 3,
            })
        }
        Source::Files { certificate, key, bundle } => {
            let certificates = CertificateDer::pem_slice_iter(&read(certificate)?)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|_| CertificateError::NoCertificate("the certificate file"))?;
            let first = certificates.first().ok_or(CertificateError::NoCertificate("the certificate file"))?;
            let end = not_after(first)?;
            let key =
                PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| CertificateError::NoKey("the key file"))?;
            let bundle =
                String::from_utf8(read(bundle)?).map_err(|_| CertificateError::NoCertificate("the bundle file"))?;
            Ok(Loaded {
                chain: certificates,
                key,
                trust: Trust { bundle, not_after: end },
                origin: origin(source).await?,
                // Somebody else renews: only a change of the files is a reason to read them again.
                renew_at: Timestamp::MAX,
            })
        }
    }
}

fn server_config(loaded: &Loaded) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_no_client_auth()
        .with_single_cert(loaded.chain.clone(), loaded.key.clone_key())
        .map_err(Error::Tls)?;
    // The API server speaks HTTP/1.1 to webhooks; HTTP/2 would only be one more thing to attack.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// An error and everything behind it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
