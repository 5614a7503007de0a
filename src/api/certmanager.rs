//! cert-manager's Certificate, as much of it as we ask for. The kind is cert-manager's own: it need not be installed.

use serde::{Deserialize, Serialize};

use super::kind::kind;

/// cert-manager's API group.
pub const GROUP: &str = "cert-manager.io";

kind!(
    /// A key pair that cert-manager makes, keeps in a Secret and renews.
    Certificate, CertificateSpec, serde_json::Value, GROUP, "v1", "certificates", NamespaceResourceScope
);

/// What a certificate shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSpec {
    /// Common name of the subject.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub common_name: String,
    /// DNS names that it covers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns_names: Vec<String>,
    /// IP addresses that it covers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<String>,
    /// Secret that it is kept in, with `tls.crt`, `tls.key` and `ca.crt`.
    pub secret_name: String,
    /// Who signs it.
    pub issuer_ref: CertificateIssuer,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<PrivateKey>,
    /// What it may be used for, such as `server auth`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usages: Vec<String>,
}

/// Who signs a certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateIssuer {
    /// Name of the issuer.
    pub name: String,
    /// `Issuer` or `ClusterIssuer`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The issuer's API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
}

/// How a private key is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrivateKey {
    /// Such as `RSA`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub algorithm: String,
    /// In bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
}
