//! What a certificate says, for people who look at one.

use std::net::{Ipv4Addr, Ipv6Addr};

use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use serde::Serialize;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::authority::{CertificateError, Validity};

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Whose it is.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// DNS names and addresses that it is good for.
    pub names: Vec<String>,
    /// Whether it may sign others.
    pub authority: bool,
    /// From when it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// SHA-256 of the certificate, in hex.
    pub sha256: String,
}

impl Description {
    /// Of this certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| CertificateError::Parse(error.to_string()))?;
        let validity = Validity::of(certificate)?;
        let alternative = parsed.subject_alternative_name().ok().flatten();
        Ok(Self {
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            names: alternative.iter().flat_map(|names| &names.value.general_names).filter_map(name).collect(),
            authority: parsed.is_ca(),
            not_before: validity.not_before,
            not_after: validity.not_after,
            sha256: Sha256::digest(certificate).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
        })
    }

    /// Whether it is valid at this time.
    #[must_use]
    pub fn is_valid(&self, at: Timestamp) -> bool {
        self.not_before <= at && at < self.not_after
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match *bytes {
            [a, b, c, d] => Some(Ipv4Addr::new(*a, *b, *c, *d).to_string()),
            bytes => <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}
