//! The way from a controller to the store that a Backup names: by the Backup's own Secrets, read anew each time.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret as KubeSecret;
use kube::{Api, Client};

use crate::api::agent::env;
use crate::api::common::S3Location;
use crate::api::secret::Secret;
use crate::k8s::error::{is_not_found, message};
use crate::store::{self, Location, S3Credentials, Store};

/// How long a store may be tried in one look, retries included.
const WITHIN: Duration = Duration::from_secs(20);

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// A Secret does not exist. In a namespace that goes it never will again.
    #[error("Secret {0} does not exist")]
    SecretAbsent(String),
    /// A Secret could not be read. Retried.
    #[error("cannot read Secret {name}: {}", message(source))]
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
        key: String,
    },
    /// The coordinates cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Opens the place of one object.
pub async fn open(client: &Client, namespace: &str, s3: &S3Location) -> Result<Store, Closed> {
    let secrets: Api<KubeSecret> = Api::namespaced(client.clone(), namespace);
    let credentials = read(&secrets, &s3.credentials_secret_ref.name).await?;
    let text = |key: &str| value(&credentials, &s3.credentials_secret_ref.name, key).map(|bytes| text(&bytes));
    let ca = match &s3.ca_secret_ref {
        None => None,
        Some(reference) => Some(value(&read(&secrets, &reference.name).await?, &reference.name, reference.key())?),
    };
    let location = store::S3Location {
        endpoint: s3.endpoint.clone(),
        bucket: s3.bucket.clone(),
        key: s3.key.clone().unwrap_or_default(),
        region: s3.region.clone().filter(|region| !region.is_empty()).unwrap_or_else(|| "us-east-1".to_owned()),
        path_style: s3.force_path_style.unwrap_or(false),
        ca,
        credentials: S3Credentials {
            access_key: text(env::AWS_ACCESS_KEY_ID)?,
            secret_key: text(env::AWS_SECRET_ACCESS_KEY)?,
            session_token: text(env::AWS_SESSION_TOKEN).ok(),
        },
    };
    Ok(Store::open(&Location::S3(location), Some(Instant::now() + WITHIN))?)
}

async fn read(secrets: &Api<KubeSecret>, name: &str) -> Result<KubeSecret, Closed> {
    match secrets.get(name).await {
        Ok(secret) => Ok(secret),
        Err(error) if is_not_found(&error) => Err(Closed::SecretAbsent(name.to_owned())),
        Err(source) => Err(Closed::Secret { name: name.to_owned(), source }),
    }
}

fn value(secret: &KubeSecret, name: &str, key: &str) -> Result<Vec<u8>, Closed> {
    let value = secret.data.as_ref().and_then(|data| data.get(key)).filter(|value| !value.0.is_empty());
    value.map(|value| value.0.clone()).ok_or_else(|| Closed::Key { name: name.to_owned(), key: key.to_owned() })
}

fn text(bytes: &[u8]) -> Secret {
    Secret::new(String::from_utf8_lossy(bytes).trim_end_matches(['\r', '\n']))
}
