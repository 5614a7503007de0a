//! A certificate authority of our own: it lives for years and signs leaves that live for days, so that a new leaf
//! never needs a new bundle at the API server.

use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

/// How long an authority lives. It is succeeded when a third of that is left.
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
    /// The authority's certificate and key are not of each other.
    #[error("the authority's key is not that of its certificate; delete it to have a new one made")]
    Mismatch,
    /// A PEM file holds no certificate.
    #[error("{0} holds no certificate in PEM form")]
    NoCertificate(&'static str),
    /// A PEM file holds no private key.
    #[error("{0} holds no private key in PEM form")]
    NoKey(&'static str),
    /// A certificate cannot be parsed.
    #[error("a certificate cannot be parsed: {0}")]
    Parse(String),
    /// A certificate would not be accepted by those who call.
    #[error("callers would not accept the certificate for {name}")]
    Unaccepted {
        /// What they call us.
        name: String,
        /// Why they would not.
        source: rustls::Error,
    },
}

/// An authority: a certificate and the key to sign with.
#[derive(Clone)]
pub struct Authority {
    certificate: String,
    key: String,
    validity: Validity,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("validity", &self.validity).finish_non_exhaustive()
    }
}

/// A certificate for serving, with its key.
pub struct Leaf {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The same in PEM.
    pub certificate_pem: String,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
    /// The same in PEM.
    pub key_pem: String,
    /// When it is valid.
    pub validity: Validity,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").field("validity", &self.validity).finish_non_exhaustive()
    }
}

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From when.
    pub not_before: Timestamp,
    /// Until when.
    pub not_after: Timestamp,
}

impl Validity {
    /// That of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| CertificateError::Parse(error.to_string()))?;
        let at = |time: x509_parser::time::ASN1Time| {
            Timestamp::from_second(time.timestamp()).map_err(|error| CertificateError::Parse(error.to_string()))
        };
        Ok(Self { not_before: at(parsed.validity().not_before)?, not_after: at(parsed.validity().not_after)? })
    }

    /// When it is time for the next one: with a third of its life left.
    #[must_use]
    pub fn renew_at(&self) -> Timestamp {
        self.not_after - self.not_after.duration_since(self.not_before) / 3
    }
}

impl Authority {
    /// A new authority.
    pub fn generate(now: Timestamp, lifetime: Duration) -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(CertificateError::Make)?;
        let mut params = params("etcd-warden-webhook-ca", now, lifetime);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(CertificateError::Make)?;
        Ok(Self {
            validity: Validity::of(certificate.der())?,
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// An authority that was made before.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let pair = KeyPair::from_pem(key).map_err(CertificateError::Authority)?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|_| CertificateError::NoCertificate("the authority"))?;
        let (_, parsed) =
            X509Certificate::from_der(&der).map_err(|error| CertificateError::Parse(error.to_string()))?;
        if parsed.public_key().raw != pair.subject_public_key_info() {
            return Err(CertificateError::Mismatch);
        }
        Issuer::from_ca_cert_pem(certificate, pair).map_err(CertificateError::Authority)?;
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), validity: Validity::of(&der)? })
    }

    /// The certificate, in PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// The private key, in PEM.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key
    }

    /// When it is valid.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Signs a leaf for these DNS names and addresses. It ends no later than the authority does.
    pub fn issue(&self, names: &[String], now: Timestamp, lifetime: Duration) -> Result<Leaf, CertificateError> {
        let signer = KeyPair::from_pem(&self.key).map_err(CertificateError::Authority)?;
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, signer).map_err(CertificateError::Authority)?;
        let left = Duration::try_from(self.validity.not_after.duration_since(now)).unwrap_or_default();
        let mut params = params("etcd-warden-webhook", now, lifetime.min(left));
        params.subject_alt_names = CertificateParams::new(names).map_err(CertificateError::Make)?.subject_alt_names;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(CertificateError::Make)?;
        let certificate = params.signed_by(&key, &issuer).map_err(CertificateError::Make)?;
        Ok(Leaf {
            validity: Validity::of(certificate.der())?,
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
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
    // A certificate that lives for less than the skew is a test's, and its renewal is reckoned from its own times.
    params.not_before = at(now - SKEW.min(lifetime / 10));
    params.not_after = at(now + lifetime);
    params
}
