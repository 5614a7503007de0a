//! Where the authority is kept. All replicas share one: whoever comes first makes it, the others take what they find.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use thiserror::Error;

use super::authority::{Authority, CertificateError};
use crate::k8s;

/// Names of the parts, in a Secret as in a directory.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";

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
pub struct Kept {
    /// Signs leaves.
    pub authority: Authority,
    /// PEM certificates that clients shall trust.
    pub bundle: String,
}

type Parts = BTreeMap<String, Vec<u8>>;

impl Store {
    /// The kept authority; one is made and kept where there is none.
    pub async fn load_or_create(&self, now: Timestamp) -> Result<Kept, StoreError> {
        if let Some(parts) = self.load().await? {
            return kept(&parts);
        }
        let made = parts(&Authority::generate(now)?);
        if self.create(&made).await? {
            return kept(&made);
        }
        // Another replica was faster: its authority counts.
        match self.load().await? {
            Some(parts) => kept(&parts),
            None => Err(StoreError::Incomplete(CERTIFICATE)),
        }
    }

    /// The kept authority, if there is one.
    pub async fn load(&self) -> Result<Option<Parts>, StoreError> {
        match self {
            Self::Memory => Ok(None),
            Self::Directory(directory) => read_directory(directory),
            Self::Secret { client, namespace, name } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                let secret = api.get_opt(name).await.map_err(|error| secret_error(namespace, name, &error))?;
                Ok(secret.map(|secret| secret.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect()))
            }
        }
    }

    /// Keeps a new authority; `false` if there is one already.
    async fn create(&self, parts: &Parts) -> Result<bool, StoreError> {
        match self {
            Self::Memory => Ok(true),
            Self::Directory(directory) => create_directory(directory, parts),
            Self::Secret { client, namespace, name } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                let secret = Secret {
                    metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
                    type_: Some("kubernetes.io/tls".to_owned()),
                    data: Some(parts.iter().map(|(k, v)| (k.clone(), ByteString(v.clone()))).collect()),
                    ..Secret::default()
                };
                match k8s::apply::create(&api, &secret).await {
                    Ok(_) => Ok(true),
                    Err(error) if k8s::error::class(&error) == k8s::error::Class::AlreadyExists => Ok(false),
                    Err(error) => Err(secret_error(namespace, name, &error)),
                }
            }
        }
    }
}

fn secret_error(namespace: &str, name: &str, error: &kube::Error) -> StoreError {
    StoreError::Secret { namespace: namespace.to_owned(), name: name.to_owned(), why: k8s::error::message(error) }
}

fn parts(authority: &Authority) -> Parts {
    let certificate = authority.certificate_pem().as_bytes().to_vec();
    [(CERTIFICATE, certificate.clone()), (KEY, authority.key_pem().into_bytes()), (BUNDLE, certificate)]
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect()
}

fn kept(parts: &Parts) -> Result<Kept, StoreError> {
    let part = |name: &'static str| {
        let bytes = parts.get(name).ok_or(StoreError::Incomplete(name))?;
        std::str::from_utf8(bytes).map_err(|_| StoreError::Incomplete(name))
    };
    let certificate = part(CERTIFICATE)?;
    let authority = Authority::from_pem(certificate, part(KEY)?)?;
    let bundle = part(BUNDLE).unwrap_or(certificate).to_owned();
    Ok(Kept { authority, bundle })
}

/// The three files, or nothing where the last one written is not there.
fn read_directory(directory: &Path) -> Result<Option<Parts>, StoreError> {
    let mut parts = Parts::new();
    for name in [BUNDLE, CERTIFICATE, KEY] {
        let path = directory.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => parts.insert(name.to_owned(), bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::File { path, source }),
        };
    }
    Ok(Some(parts))
}

/// A directory appears whole: its files are written beside it and moved in.
fn create_directory(directory: &Path, parts: &Parts) -> Result<bool, StoreError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::File { path, source }
    };
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let staging = parent.join(format!(".{name}.{}", std::process::id()));
    std::fs::create_dir_all(&staging).map_err(at(&staging))?;
    for (name, bytes) in parts {
        let path = staging.join(name);
        let mut options = std::fs::OpenOptions::new();
        let mode = if name == KEY { 0o600 } else { 0o644 };
        let mut file = options.write(true).create(true).truncate(true).mode(mode).open(&path).map_err(at(&path))?;
        io::Write::write_all(&mut file, bytes).map_err(at(&path))?;
    }
    // An empty directory may be replaced, one with something in it may not.
    match std::fs::rename(&staging, directory) {
        Ok(()) => Ok(true),
        Err(error) => {
            let _ = std::fs::remove_dir_all(&staging);
            match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => Ok(false),
                _ => Err(StoreError::File { path: directory.to_owned(), source: error }),
            }
        }
    }
}
