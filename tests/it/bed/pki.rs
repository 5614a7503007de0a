//! A private certificate authority and what it signs.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// A certificate authority of one test instance.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// The files a [`Pair`] was written to.
#[derive(Clone, Debug)]
pub struct PairFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Authority {
    /// A new authority with this common name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a self-signed certificate") }
    }

    /// The authority's own certificate as PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's private key as PEM, for daemons that sign by themselves.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate good for servers and clients alike. `names` are DNS names and IP addresses, mixed.
    pub fn issue(&self, common_name: &str, organization: Option<&str>, names: &[&str]) -> Pair {
        self.sign(&leaf(common_name, organization, names))
    }

    /// The same, but it was good in the year 2000 only.
    pub fn issue_expired(&self, common_name: &str, names: &[&str]) -> Pair {
        let mut params = leaf(common_name, None, names);
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signed certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Writes the authority's certificate to a file.
    pub fn write(&self, file: &Path) -> PathBuf {
        std::fs::write(file, self.pem()).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
        file.to_owned()
    }
}

fn leaf(common_name: &str, organization: Option<&str>, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("DNS names and IP addresses");
    params.distinguished_name = distinguished(common_name, organization);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params
}

impl Pair {
    /// Writes `<name>.crt` and `<name>.key` into a folder.
    pub fn write(&self, folder: &Path, name: &str) -> PairFiles {
        let files =
            PairFiles { certificate: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")) };
        for (file, text) in [(&files.certificate, &self.certificate), (&files.key, &self.key)] {
            std::fs::write(file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
        }
        files
    }
}

/// A fresh key pair for signing service account tokens: (private, public) as PEM.
pub fn token_key() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    (key.serialize_pem(), key.public_key_pem())
}

fn distinguished(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}
