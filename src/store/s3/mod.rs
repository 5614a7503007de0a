//! One object in a bucket of an S3 server.

mod download;
mod upload;

use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::path::Path;
use object_store::{Attribute, BackoffConfig, GetOptions, GetResult, ObjectStore, ObjectStoreExt, RetryConfig};

pub(super) use download::S3Download;
pub(super) use upload::S3Upload;

use super::wire::{Connector, DeadlinePassed, Refusal, Trouble, Wire, last_cause};
use super::{ATTEMPT, Error, Head, OWNER, S3Location};
use crate::api::s3endpoint::S3Endpoint;
use crate::api::s3uri::ArtifactUri;
use crate::net::{Fault, Resolver, Roots, TlsMaterial, client_config, fault_of};

/// How often one request is repeated, and for how long. Signatures are made once for all tries, and stores take them
/// for some minutes.
const RETRIES: usize = 40;
const RETRY_WINDOW: Duration = Duration::from_secs(90);

/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// An object in a bucket.
#[derive(Clone, Debug)]
pub struct S3Object {
    client: Arc<AmazonS3>,
    path: Path,
    wire: Wire,
    endpoint: S3Endpoint,
    bucket: String,
    key: String,
    deadline: Option<Instant>,
}

impl S3Object {
    pub(super) fn open(location: &S3Location, deadline: Option<Instant>) -> Result<Self, Error> {
        let endpoint: S3Endpoint =
            location.endpoint.parse().map_err(|error| Error::Coordinates(format!("endpoint: {error}")))?;
        let (folder, path) = split_key(&location.key)?;
        let mut base = endpoint.bucket_url(&location.bucket, location.path_style);
        if let Some(folder) = folder {
            base.push('/');
            base.push_str(&encode(folder));
        }
        let wire = Wire::new(http_client(location)?, deadline);
        let mut builder = AmazonS3Builder::new()
            // The address holds the bucket and the folder already, so that any key can be reached to the letter.
            .with_virtual_hosted_style_request(true)
            .with_endpoint(base)
            .with_bucket_name(&location.bucket)
            .with_region(&location.region)
            .with_access_key_id(location.credentials.access_key.expose())
            .with_secret_access_key(location.credentials.secret_key.expose())
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_disable_tagging(true)
            // One object is deleted by its own address, which every server knows.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
            .with_http_connector(Connector(wire.clone()))
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(100),
                    max_backoff: Duration::from_secs(8),
                    base: 3.0,
                },
                max_retries: RETRIES,
                retry_timeout: RETRY_WINDOW,
            });
        if let Some(token) = &location.credentials.session_token {
            builder = builder.with_token(token.expose());
        }
        let client = builder.build().map_err(|error| Error::Coordinates(error.to_string()))?;
        Ok(Self {
            client: Arc::new(client),
            path,
            wire,
            endpoint,
            bucket: location.bucket.clone(),
            key: location.key.clone(),
            deadline,
        })
    }

    pub(super) fn uri(&self) -> ArtifactUri {
        ArtifactUri::S3 { bucket: self.bucket.clone(), key: self.key.clone() }
    }

    pub(super) async fn head(&self) -> Result<Option<Head>, Error> {
        let answer = self.client.get_opts(&self.path, GetOptions::new().with_head(true)).await;
        match answer.map_err(|error| self.explain("read", &error)) {
            Ok(found) => Ok(Some(head_of(&found))),
            // An answer to HEAD has no body, so it tells neither a missing bucket from a missing object, nor why
            // something is forbidden. The first byte, asked for by GET, does.
            Err(Error::ObjectMissing { .. } | Error::Permission { .. } | Error::Refused { .. }) => {
                let first = GetOptions::new().with_range(Some(0..1));
                match self.client.get_opts(&self.path, first).await.map_err(|error| self.explain("read", &error)) {
                    Ok(found) => Ok(Some(head_of(&found))),
                    Err(Error::ObjectMissing { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn delete(&self) -> Result<(), Error> {
        match self.client.delete(&self.path).await.map_err(|error| self.explain("delete", &error)) {
            Ok(()) | Err(Error::ObjectMissing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sorts an error of `object_store`: by layer if the connection failed, by the store's own code if it answered. When
    /// the deadline ended the retries, what they were for is the cause.
    fn explain(&self, action: &'static str, error: &object_store::Error) -> Error {
        let endpoint = self.endpoint.to_string();
        let trouble = self.wire.trouble();
        let fault = if is_deadline(error) { None } else { fault_of(error) };
        match (fault, trouble) {
            (Some(fault), _) => Error::Unreachable { endpoint, fault, source: last_cause(error).into() },
            (None, Some(Trouble::Refused(refusal))) => self.explain_refusal(action, refusal),
            (None, Some(Trouble::Unreachable(fault, words))) => {
                Error::Unreachable { endpoint, fault, source: words.into() }
            }
            (None, None) if is_deadline(error) => Error::Deadline { endpoint },
            (None, None) => Error::Refused {
                endpoint,
                status: 0,
                code: String::new(),
                message: format!("an answer that cannot be understood: {}", last_cause(error)),
            },
        }
    }

    fn explain_refusal(&self, action: &'static str, refusal: Refusal) -> Error {
        let endpoint = self.endpoint.to_string();
        let uri = self.uri().to_string();
        let Refusal { status, code, message } = refusal;
        match (code.as_str(), status) {
            ("NoSuchBucket", _) => Error::BucketMissing { endpoint, bucket: self.bucket.clone() },
            (
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "ExpiredToken"
                | "InvalidToken"
                | "TokenRefreshRequired"
                | "InvalidSecurity"
                | "AuthorizationHeaderMalformed"
                | "AuthorizationQueryParametersError"
                | "NotSignedUp",
                _,
            )
            | (_, 401) => Error::Credentials { endpoint, code },
            ("RequestTimeTooSkewed" | "RequestExpired", _) => Error::ClockSkewed { endpoint },
            ("PreconditionFailed" | "ConditionalRequestConflict", _) | (_, 409 | 412) => Error::Changed { uri },
            ("SlowDown" | "Throttling" | "RequestLimitExceeded", _) | (_, 408 | 429 | 500..=599) => {
                Error::Busy { endpoint, status, code }
            }
            (_, 403) => Error::Permission { endpoint, action, uri },
            (_, 404) => Error::ObjectMissing { uri },
            _ => Error::Refused { endpoint, status, code, message },
        }
    }
}

fn is_deadline(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        if cause.is::<DeadlinePassed>() {
            return true;
        }
        next = cause.source();
    }
    false
}

fn head_of(found: &GetResult) -> Head {
    let metadata = |name: &'static str| {
        found.attributes.get(&Attribute::Metadata(name.into())).map(|value| value.as_ref().to_owned())
    };
    let details = found.attributes.iter().filter_map(|(attribute, value)| match attribute {
        Attribute::Metadata(name) => Some((name.to_string(), value.as_ref().to_owned())),
        _ => None,
    });
    Head {
        size: found.meta.size,
        version: found.meta.e_tag.clone(),
        owner: metadata(OWNER),
        details: details.collect(),
        attempt: metadata(ATTEMPT),
    }
}

/// Splits a key into what goes into the base address and the last part.
fn split_key(key: &str) -> Result<(Option<&str>, Path), Error> {
    let (folder, name) = match key.rsplit_once('/') {
        Some((folder, name)) => (Some(folder), name),
        None => (None, key),
    };
    let dots = |part: &str| part == "." || part == "..";
    if name.is_empty() || key.split('/').any(dots) {
        return Err(Error::Coordinates(format!("key {key:?} ends in a slash or has a part that is a dot or two")));
    }
    let path = Path::parse(name).map_err(|error| Error::Coordinates(format!("key: {error}")))?;
    Ok((folder, path))
}

/// Percent-encodes all but what RFC 3986 leaves unreserved, and slashes: the form that signatures are made over.
fn encode(folder: &str) -> String {
    use std::fmt::Write;
    folder.bytes().fold(String::with_capacity(folder.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

fn http_client(location: &S3Location) -> Result<reqwest::Client, Error> {
    let material = TlsMaterial { roots: Roots::System(location.ca.clone()), identity: None, server_name: None };
    // An http endpoint needs no authorities; a proxy may still be https, so they are used where there are any.
    let insecure = location.endpoint.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let resolver = Resolver::from_system().map_err(|error| Error::Unreachable {
        endpoint: location.endpoint.clone(),
        fault: Fault::Dns,
        source: error.into(),
    })?;
    let mut builder = reqwest::Client::builder()
        .dns_resolver(resolver)
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(SILENCE)
        .redirect(reqwest::redirect::Policy::none())
        .http1_only();
    match client_config(&material, &["http/1.1"]) {
        Ok(config) => builder = builder.tls_backend_preconfigured(config),
        Err(_) if insecure && location.ca.is_none() => {
            let empty = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| Error::Coordinates(error.to_string()))?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder = builder.tls_backend_preconfigured(empty);
        }
        Err(error) => return Err(error.into()),
    }
    builder.build().map_err(|error| Error::Coordinates(last_cause(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_to_the_letter() {
        assert_eq!(split_key("a/b.db").unwrap().0, Some("a"));
        assert_eq!(split_key("/a//b.db").unwrap().0, Some("/a/"));
        assert_eq!(split_key("b.db").unwrap().0, None);
        for key in ["", "a/", "../b", "a/./b"] {
            assert!(split_key(key).is_err(), "{key}");
        }
        assert_eq!(encode("a b/c+d/ü%"), "a%20b/c%2Bd/%C3%BC%25");
    }
}
