//! The authorities that callers trust.

use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::authority::{CertificateError, Validity};

const END: &str = "-----END CERTIFICATE-----";

/// Certificates of authorities, each once, in the order in which they were first named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(Vec<Trusted>);

/// One of them, as it is compared and as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trusted {
    der: CertificateDer<'static>,
    pem: String,
}

impl Bundle {
    /// Reads PEM. Text without a certificate in it is an empty bundle.
    pub fn parse(pem: &str) -> Result<Self, CertificateError> {
        let mut bundle = Self::default();
        for block in pem.split_inclusive(END) {
            let Some(start) = block.find("-----BEGIN CERTIFICATE-----") else { continue };
            let block = &block[start..];
            let der = CertificateDer::from_pem_slice(block.as_bytes())
                .map_err(|error| CertificateError::Parse(error.to_string()))?;
            bundle.add(Trusted { der, pem: format!("{block}\n") });
        }
        Ok(bundle)
    }

    fn add(&mut self, one: Trusted) {
        if !self.0.iter().any(|known| known.der == one.der) {
            self.0.push(one);
        }
    }

    /// Both, this one's first.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        other.0.iter().for_each(|one| self.add(one.clone()));
        self
    }

    /// Whether everything in the other one is in this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|wanted| self.0.iter().any(|known| known.der == wanted.der))
    }

    /// Those for which this holds.
    #[must_use]
    pub fn filter(&self, mut keep: impl FnMut(&CertificateDer<'static>) -> bool) -> Self {
        Self(self.0.iter().filter(|one| keep(&one.der)).cloned().collect())
    }

    /// Those that have not ended. What cannot be read is kept: somebody meant it.
    #[must_use]
    pub fn alive(&self, now: Timestamp) -> Self {
        self.filter(|der| Validity::of(der).map_or(true, |validity| validity.not_after > now))
    }

    /// The certificates.
    pub fn certificates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.0.iter().map(|one| &one.der)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.iter().map(|one| one.pem.as_str()).collect()
    }
}
