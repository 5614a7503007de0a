//! Where the authority is kept. All replicas share one: whoever comes first makes it, the others take what they find.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use thiserror::Error;

use super::authority::{Authority, CertificateError};
use super::bundle::Bundle;
use super::directory;
use crate::k8s;

/// Names of the parts, in a Secret as in a directory.
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
pub(super) const BUNDLE: &str = "ca.crt";

/// Why the authority could not be had.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file could not be read or written.
    #[error("cannot read or write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The Secret could not be read or written.
    #[error("Secret {name} in namespace {namespace} cannot be read or written: {why}")]
    Secret {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// What the API server said.
        why: String,
    },
    /// Something is kept, but not all of it.
    #[error("the kept authority has no {0}; delete it to have a new one made")]
    Incomplete(&'static str),
    /// The authority could not be made or read.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Others changed it whenever we wanted to.
    #[error("the kept authority was changed by others again and again")]
    Contended,
}

/// Where the authority is kept.
#[derive(Clone)]
pub enum Store {
    /// In this process only: gone with it.
    Memory,
    /// In a directory, for a process on a host.
    Directory(PathBuf),
    /// In a Secret that all replicas read.
    Secret {
        /// Reads and writes it.
        client: Client,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("Memory"),
            Self::Directory(path) => write!(f, "Directory({})", path.display()),
            Self::Secret { namespace, name, .. } => write!(f, "Secret({namespace}/{name})"),
        }
    }
}

/// An authority as it is kept, with every authority that is trusted besides.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Signs leaves.
    pub authority: Authority,
    /// What clients shall trust: this authority, and those before it for as long as they have not ended.
    pub bundle: Bundle,
}

impl Kept {
    /// A new authority; those that were trusted so far still are.
    pub fn generate(now: Timestamp, lifetime: std::time::Duration, so_far: &Bundle) -> Result<Self, CertificateError> {
        let authority = Authority::generate(now, lifetime)?;
        let bundle = Bundle::parse(authority.certificate_pem())?.and(&so_far.alive(now));
        Ok(Self { authority, bundle })
    }

    fn parts(&self) -> Parts {
        [
            (CERTIFICATE, self.authority.certificate_pem().to_owned()),
            (KEY, self.authority.key_pem().to_owned()),
            (BUNDLE, self.bundle.pem()),
        ]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text.into_bytes()))
        .collect()
    }
}

/// The parts by name.
pub(super) type Parts = BTreeMap<String, Vec<u8>>;

/// What was found where the authority is kept.
pub struct Found {
    parts: Parts,
    /// The version of the Secret, to change this one and no later one.
    version: Option<String>,
}

impl Found {
    /// The authority in it.
    pub fn kept(&self) -> Result<Kept, StoreError> {
        let part = |name: &'static str| {
            let bytes = self.parts.get(name).ok_or(StoreError::Incomplete(name))?;
            std::str::from_utf8(bytes).map_err(|_| StoreError::Incomplete(name))
        };
        let certificate = part(CERTIFICATE)?;
        let authority = Authority::from_pem(certificate, part(KEY)?)?;
        let bundle = Bundle::parse(certificate)?.and(&Bundle::parse(part(BUNDLE).unwrap_or(certificate))?);
        Ok(Kept { authority, bundle })
    }
}

impl Store {
    /// What is kept, if anything is.
    pub async fn load(&self) -> Result<Option<Found>, StoreError> {
        match self {
            Self::Memory => Ok(None),
            Self::Directory(path) => Ok(directory::read(path)?.map(|parts| Found { parts, version: None })),
            Self::Secret { client, namespace, name } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                let secret = api.get_opt(name).await.map_err(|error| secret_error(namespace, name, &error))?;
                Ok(secret.map(|secret| Found {
                    version: secret.resource_version(),
                    parts: secret.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect(),
                }))
            }
        }
    }

    /// Keeps an authority where there is none; `false` if there is one already.
    pub async fn create(&self, kept: &Kept) -> Result<bool, StoreError> {
        match self {
            Self::Memory => Ok(true),
            Self::Directory(path) => directory::write(path, None, &kept.parts()),
            Self::Secret { client, namespace, name } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                written(namespace, name, k8s::apply::create(&api, &secret(name, kept, None)).await)
            }
        }
    }

    /// Keeps an authority instead of the one that was found; `false` if that has changed since.
    pub async fn replace(&self, kept: &Kept, found: &Found) -> Result<bool, StoreError> {
        match self {
            Self::Memory => Ok(true),
            Self::Directory(path) => directory::write(path, Some(&found.parts), &kept.parts()),
            Self::Secret { client, namespace, name } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                let params =
                    PostParams { field_manager: Some(k8s::apply::FIELD_MANAGER.to_owned()), ..PostParams::default() };
                let secret = secret(name, kept, found.version.clone());
                written(namespace, name, api.replace(name, &params, &secret).await)
            }
        }
    }
}

fn secret(name: &str, kept: &Kept, version: Option<String>) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), resource_version: version, ..ObjectMeta::default() },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(kept.parts().into_iter().map(|(k, v)| (k, ByteString(v))).collect()),
        ..Secret::default()
    }
}

/// Whether it was ours that was written, and not another replica's.
fn written(namespace: &str, name: &str, answer: Result<Secret, kube::Error>) -> Result<bool, StoreError> {
    use k8s::error::Class;
    match answer {
        Ok(_) => Ok(true),
        Err(error) => match k8s::error::class(&error) {
            Class::AlreadyExists | Class::Conflict | Class::NotFound => Ok(false),
            Class::Forbidden | Class::Invalid | Class::Transient => Err(secret_error(namespace, name, &error)),
        },
    }
}

fn secret_error(namespace: &str, name: &str, error: &kube::Error) -> StoreError {
    StoreError::Secret { namespace: namespace.to_owned(), name: name.to_owned(), why: k8s::error::message(error) }
}
