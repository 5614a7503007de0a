//! The serving certificate: where it comes from, how it is renewed, and which bundle lets the API server trust it.
//!
//! A certificate of another authority is served only once every API server trusts that authority: its bundle is
//! published first, next to the one before, and only when the live configurations have carried it for a while does the
//! certificate change. So it does not matter who changed what first: the authority's end, another replica, a person who
//! edits the Secret, cert-manager.

mod authority;
mod bundle;
mod describe;
mod directory;
mod source;
mod store;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

use self::source::Loaded;

pub use authority::{AUTHORITY_LIFETIME, Authority, CertificateError, LEAF_LIFETIME, Leaf, Validity};
pub use bundle::Bundle;
pub use describe::Description;
pub use source::{Source, Times};
pub use store::{Kept, Store, StoreError};

/// Settings of the serving certificate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it comes from.
    pub source: Source,
    /// What callers call us: DNS names and addresses.
    pub names: Vec<String>,
    /// How long things live and take.
    pub times: Times,
    /// PEM file of the authorities that sign callers' certificates; without it callers need none.
    pub client_authorities: Option<PathBuf>,
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
    /// The files were being written whenever they were read.
    #[error("the certificate in {0} is being written by somebody else again and again")]
    Changing(PathBuf),
    /// The certificate and key do not make a TLS server.
    #[error("the certificate and key cannot be served")]
    Tls(#[source] rustls::Error),
    /// The authorities of callers cannot be used.
    #[error("{path} holds no authorities that callers' certificates could be checked against: {why}")]
    ClientAuthorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// What callers have to trust, and until when the present certificate lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The authorities.
    pub bundle: Bundle,
    /// When the present leaf ends.
    pub not_after: Timestamp,
}

/// What the API servers are known to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trusted {
    /// Not known.
    #[default]
    Unknown,
    /// Nobody has us asked: there is no configuration.
    Nobody,
    /// The live configurations carry this bundle.
    Bundle(Bundle),
}

/// A certificate that is being served, and renewed while it is.
pub struct Serving {
    settings: Settings,
    config: RustlsConfig,
    trust: watch::Sender<Trust>,
    trusted: watch::Sender<Trusted>,
    present: Loaded,
    next: Option<Next>,
    /// The file of callers' authorities as it is in use.
    clients: Option<Vec<u8>>,
}

/// A certificate that waits until callers trust its authority.
struct Next {
    loaded: Loaded,
    trusted_since: Option<Instant>,
}

impl Serving {
    /// Gets a certificate, making what is missing.
    pub async fn start(settings: Settings) -> Result<Self, Error> {
        let now = Timestamp::now();
        let present = settings.source.load(None, &settings.names, &settings.times, now).await?;
        let present = present.ok_or(Error::Store(StoreError::Contended))?;
        let clients = settings.read_client_authorities()?;
        let config = RustlsConfig::from_config(server_config(&settings, &present, clients.as_deref())?);
        let trust = watch::Sender::new(Trust { bundle: present.bundle.clone(), not_after: present.validity.not_after });
        Ok(Self { settings, config, trust, trusted: watch::Sender::default(), present, next: None, clients })
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

    /// To be told what the live configurations trust.
    #[must_use]
    pub fn trusted(&self) -> watch::Sender<Trusted> {
        self.trusted.clone()
    }

    /// Renews for ever. Connections that stand are not touched; what cannot be renewed now is tried again.
    pub async fn keep(mut self) {
        let mut told = String::new();
        let mut trusted = self.trusted.subscribe();
        loop {
            let pause = self.pause();
            // Both branches only wait; what changed is read from its source afterwards.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = trusted.changed() => {}
            }
            match self.renew(Timestamp::now()).await {
                Ok(()) => told.clear(),
                Err(error) => {
                    let why = chain(&error);
                    if told != why {
                        warn!(error = why, not_after = %self.present.validity.not_after, "serving certificate not renewed");
                        told = why;
                    }
                }
            }
        }
    }

    fn pause(&self) -> Duration {
        let spreading = self.next.as_ref().and_then(|next| next.trusted_since);
        let left = spreading.map(|since| self.settings.times.spread.saturating_sub(since.elapsed()));
        left.map_or(self.settings.times.recheck, |left| left.min(self.settings.times.recheck))
    }

    async fn renew(&mut self, now: Timestamp) -> Result<(), Error> {
        // Whoever may call is another matter than what we are called by.
        let followed = self.follow_client_authorities();
        let held = self.next.as_ref().map_or(&self.present, |next| &next.loaded);
        let found = self.settings.source.load(Some(held), &self.settings.names, &self.settings.times, now).await;
        // What waits to be served must not wait for a source that cannot be read.
        let failed = match found {
            Ok(Some(loaded)) => {
                self.publish(&loaded);
                let same = self.next.take().filter(|next| next.loaded.bundle == loaded.bundle);
                self.next = Some(Next { loaded, trusted_since: same.and_then(|next| next.trusted_since) });
                None
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        self.switch(now)?;
        failed.map_or(followed, Err)
    }

    /// Asks callers to trust the next authority besides the present one.
    fn publish(&self, next: &Loaded) {
        let bundle = next.bundle.clone().and(&self.present.bundle);
        self.trust.send_if_modified(|trust| {
            let changed = trust.bundle != bundle;
            trust.bundle = bundle;
            changed
        });
    }

    /// Serves what waits, if it may be served by now.
    fn switch(&mut self, now: Timestamp) -> Result<(), Error> {
        let Some(next) = &mut self.next else { return Ok(()) };
        let trusted = self.trusted.borrow().clone();
        let known = self.present.bundle.covers(&next.loaded.bundle);
        if let Trusted::Bundle(live) = &trusted {
            if live.covers(&next.loaded.bundle) {
                next.trusted_since.get_or_insert_with(Instant::now);
            } else {
                next.trusted_since = None;
            }
        }
        let spread = next.trusted_since.is_some_and(|since| since.elapsed() >= self.settings.times.spread);
        // With the present one at its end there is nothing to lose.
        let may = known || spread || trusted == Trusted::Nobody || self.present.validity.not_after <= now;
        if !may {
            return Ok(());
        }
        let Some(next) = self.next.take() else { return Ok(()) };
        let config = server_config(&self.settings, &next.loaded, self.clients.as_deref())?;
        self.config.reload_from_config(config);
        let trust = Trust { bundle: next.loaded.bundle.clone(), not_after: next.loaded.validity.not_after };
        info!(not_after = %trust.not_after, "serving certificate renewed");
        self.trust.send_replace(trust);
        self.present = next.loaded;
        Ok(())
    }

    fn follow_client_authorities(&mut self) -> Result<(), Error> {
        let found = self.settings.read_client_authorities()?;
        if found != self.clients {
            self.config.reload_from_config(server_config(&self.settings, &self.present, found.as_deref())?);
            info!("authorities of callers read again");
            self.clients = found;
        }
        Ok(())
    }
}

impl Settings {
    fn read_client_authorities(&self) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = &self.client_authorities else { return Ok(None) };
        std::fs::read(path).map(Some).map_err(|source| Error::File { path: path.clone(), source })
    }
}

fn server_config(settings: &Settings, loaded: &Loaded, clients: Option<&[u8]>) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?;
    let builder = match (&settings.client_authorities, clients) {
        (Some(path), Some(pem)) => {
            let wrong = |why| Error::ClientAuthorities { path: path.clone(), why };
            builder.with_client_cert_verifier(client_verifier(pem, provider).map_err(wrong)?)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(loaded.chain.clone(), loaded.key.clone_key()).map_err(Error::Tls)?;
    // The API server speaks HTTP/1.1 to webhooks; HTTP/2 would only be one more thing to attack.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn client_verifier(
    pem: &[u8],
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|error| error.to_string())
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
