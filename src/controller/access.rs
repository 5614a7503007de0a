//! How controllers reach etcd: by the Pod's address, with the name that the certificate covers, the operator's client
//! certificate where etcd asks for one, and root's password once authentication is on. Material is read anew each time,
//! so that a rotated Secret is used at once.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret as KubeSecret;
use kube::{Api, Client, ResourceExt};
use tonic::Code;

use super::shape;
use crate::api::etcdcluster::EtcdCluster;
use crate::api::etcdmember::EtcdMember;
use crate::api::names;
use crate::api::secret::Secret;
use crate::etcd::{self, ClientIdentity, Credentials, Options, Roots, TlsMaterial};

/// How long a connection may take. Short: a member that does not answer must hold nobody up.
const CONNECT: Duration = Duration::from_secs(2);
/// How long an answer may take; a membership change waits for a quorum to write it.
const CALL: Duration = Duration::from_secs(5);

/// Why etcd could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A Secret could not be read. Retried.
    #[error("cannot read Secret {name}")]
    Secret {
        /// Its name.
        name: String,
        /// What the API server said.
        source: kube::Error,
    },
    /// A Secret lacks what is needed. Retried, for it may be completed.
    #[error("Secret {name} has no key {key}")]
    Key {
        /// Its name.
        name: String,
        /// The key that it lacks.
        key: &'static str,
    },
    /// No member has an address to dial. Retried.
    #[error("no member of the cluster has a running Pod")]
    Nobody,
    /// etcd did not answer, or refused.
    #[error("etcd")]
    Etcd(#[from] etcd::Error),
}

impl Error {
    /// Whether etcd did not take our password, or asks for one that we do not have.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        match self {
            Self::Etcd(error) => matches!(error.code(), Some(Code::Unauthenticated | Code::PermissionDenied)),
            Self::Secret { .. } | Self::Key { .. } | Self::Nobody => false,
        }
    }

    /// Whether etcd answered that it lets nobody in without a password.
    #[must_use]
    pub fn asks_for_password(&self) -> bool {
        match self {
            Self::Etcd(error) => asks_for_password(error),
            Self::Secret { .. } | Self::Key { .. } | Self::Nobody => false,
        }
    }
}

/// Whether etcd answered that it lets nobody in without a password.
#[must_use]
pub fn asks_for_password(error: &etcd::Error) -> bool {
    matches!(error.code(), Some(Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated))
}

/// Everything but the address that it takes to speak to a cluster's members.
#[derive(Clone, Debug)]
pub struct Material {
    tls: Option<TlsMaterial>,
    credentials: Option<Credentials>,
}

impl Material {
    /// The same with other credentials.
    #[must_use]
    pub fn with(self, credentials: Credentials) -> Self {
        Self { credentials: Some(credentials), ..self }
    }
}

/// A member and the address of its Pod.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// The member.
    pub member: &'a EtcdMember,
    /// The address of its Pod.
    pub address: &'a str,
}

/// Names of the Secrets that a cluster's client TLS uses: of the servers, and of the operator as a client.
#[must_use]
pub fn client_tls_secrets(cluster: &EtcdCluster) -> Option<(String, Option<String>)> {
    let client = cluster.spec.tls.as_ref()?.client.as_ref()?;
    let name = cluster.name_any();
    if let Some(managed) = &client.cert_manager {
        let operator = managed.operator_client_issuer_ref.as_ref().map(|_| names::operator_client_tls_secret(&name));
        return Some((names::server_tls_secret(&name), operator));
    }
    let named = |reference: &Option<k8s_openapi::api::core::v1::LocalObjectReference>| {
        reference.as_ref().map(|reference| reference.name.clone()).filter(|name| !name.is_empty())
    };
    Some((named(&client.server_secret_ref)?, named(&client.operator_client_secret_ref)))
}

/// Reads what it takes to speak to a cluster.
pub async fn material(client: &Client, cluster: &EtcdCluster) -> Result<Material, Error> {
    let secrets: Api<KubeSecret> =
        Api::namespaced(client.clone(), cluster.metadata.namespace.as_deref().unwrap_or_default());
    let tls = match client_tls_secrets(cluster) {
        None => None,
        Some((server, operator)) => {
            let roots = value(&read(&secrets, &server).await?, &server, "ca.crt")?;
            let identity = match operator {
                None => None,
                Some(name) => {
                    let secret = read(&secrets, &name).await?;
                    let key = text(&value(&secret, &name, "tls.key")?);
                    Some(ClientIdentity { certificate: value(&secret, &name, "tls.crt")?, key: Secret::new(key) })
                }
            };
            Some(TlsMaterial { roots: Roots::Only(roots), identity, server_name: None })
        }
    };
    let latched = cluster.status.as_ref().and_then(|status| status.auth_enabled).unwrap_or(false);
    let credentials = if latched { Some(root_credentials(&secrets, cluster).await?) } else { None };
    Ok(Material { tls, credentials })
}

/// Root's password, as the cluster's Secret holds it.
pub async fn root(client: &Client, cluster: &EtcdCluster) -> Result<Credentials, Error> {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    root_credentials(&Api::namespaced(client.clone(), namespace), cluster).await
}

async fn root_credentials(secrets: &Api<KubeSecret>, cluster: &EtcdCluster) -> Result<Credentials, Error> {
    let auth = cluster.spec.auth.as_ref();
    let name = auth.and_then(|auth| auth.root_credentials_secret_ref.as_ref()).map(|reference| reference.name.clone());
    let name = name.unwrap_or_default();
    let password = text(&value(&read(secrets, &name).await?, &name, "password")?);
    Ok(Credentials { user: "root".to_owned(), password: Secret::new(password) })
}

async fn read(secrets: &Api<KubeSecret>, name: &str) -> Result<KubeSecret, Error> {
    secrets.get(name).await.map_err(|source| Error::Secret { name: name.to_owned(), source })
}

fn value(secret: &KubeSecret, name: &str, key: &'static str) -> Result<Vec<u8>, Error> {
    let value = secret.data.as_ref().and_then(|data| data.get(key)).filter(|value| !value.0.is_empty());
    value.map(|value| value.0.clone()).ok_or_else(|| Error::Key { name: name.to_owned(), key })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Connects to one member.
pub async fn dial(door: Door<'_>, material: &Material) -> Result<etcd::Client, Error> {
    let tls = material.tls.clone().map(|tls| TlsMaterial { server_name: Some(shape::host(door.member)), ..tls });
    let options = Options {
        tls,
        credentials: material.credentials.clone(),
        connect_timeout: Some(CONNECT),
        call_timeout: Some(CALL),
    };
    let url = shape::client_url_at(shape::client_scheme(door.member), door.address);
    Ok(etcd::dial(&[url], &options).await?)
}

/// Connects to the first of these members that accepts a connection.
pub async fn dial_any(doors: &[Door<'_>], material: &Material) -> Result<etcd::Client, Error> {
    let mut last = Error::Nobody;
    for door in doors {
        match dial(*door, material).await {
            Ok(client) => return Ok(client),
            Err(error) => last = error,
        }
    }
    Err(last)
}
