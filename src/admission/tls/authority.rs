//! A certificate authority of our own: it lives for years and signs leaves that live for days, so that a new leaf
//! never needs a new bundle at the API server.

use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

/// How long an authority lives.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_hours(5 * 365 * 24);
/// How long a leaf lives. It is renewed when a third of that is left.
pub const LEAF_LIFETIME: Duration = Duration::from_hours(7 * 24);
/// Clocks of other machines may be behind by this much.
const SKEW: Duration = Duration::from_mins(5);

/// Why a certificate could not be made or read.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// Keys or certificates could not be made.
    #[error("cannot make a certificate")]
    Make(#[source] rcgen::Error),
    /// The authority's own certificate and key cannot be read.
    #[error("the authority's certificate or key cannot be read; delete it to have a new one made")]
    Authority(#[source] rcgen::Error),
    /// A PEM file holds no certificate.
    #[error("{0} holds no certificate in PEM form")]
    NoCertificate(&'static str),
    /// A PEM file holds no private key.
    #[error("{0} holds no private key in PEM form")]
    NoKey(&'static str),
    /// A certificate cannot be parsed.
    #[error("a certificate cannot be parsed: {0}")]
    Parse(String),
}

/// An authority: a certificate and the key to sign with.
pub struct Authority {
    certificate: String,
    key: KeyPair,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate for serving, with its key.
pub struct Leaf {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
    /// When it ends.
    pub not_after: Timestamp,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority.
    pub fn generate(now: Timestamp) -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(CertificateError::Make)?;
        let mut params = params("etcd-warden-webhook-ca", now, AUTHORITY_LIFETIME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(CertificateError::Make)?.pem();
        Ok(Self { certificate, key })
    }

    /// An authority that was made before.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let read = || KeyPair::from_pem(key).map_err(CertificateError::Authority);
        Issuer::from_ca_cert_pem(certificate, read()?).map_err(CertificateError::Authority)?;
        Ok(Self { certificate: certificate.to_owned(), key: read()? })
    }

    /// The certificate, in PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// The private key, in PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Signs a leaf for these DNS names and addresses.
    pub fn issue(&self, names: &[String], now: Timestamp, lifetime: Duration) -> Result<Leaf, CertificateError> {
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, &self.key).map_err(CertificateError::Authority)?;
        let mut params = params("etcd-warden-webhook", now, lifetime);
        params.subject_alt_names = CertificateParams::new(names).map_err(CertificateError::Make)?.subject_alt_names;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(CertificateError::Make)?;
        let certificate = params.signed_by(&key, &issuer).map_err(CertificateError::Make)?;
        Ok(Leaf {
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            not_after: now + lifetime,
        })
    }
}

fn params(common_name: &str, now: Timestamp, lifetime: Duration) -> CertificateParams {
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, common_name);
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name;
    params.not_before = at(now - SKEW);
    params.not_after = at(now + lifetime);
    params
}

/// When a certificate ends.
pub fn not_after(certificate: &CertificateDer<'_>) -> Result<Timestamp, CertificateError> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|error| CertificateError::Parse(error.to_string()))?;
    Timestamp::from_second(parsed.validity().not_after.timestamp())
        .map_err(|error| CertificateError::Parse(error.to_string()))
}
