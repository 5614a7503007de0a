//! Addresses of stored snapshots: `s3://<bucket>/<key>` and `file://<path>`, built and parsed in one place.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Where a snapshot is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ArtifactUri {
    /// An object in a bucket.
    S3 {
        /// Bucket name.
        bucket: String,
        /// Exact object key.
        key: String,
    },
    /// A file, as the container that wrote it saw it.
    File {
        /// Absolute path.
        path: String,
    },
}

/// Why a text is no artifact URI.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidUri {
    /// Neither `s3://` nor `file://`.
    #[error("{0:?} has no known scheme: expected s3://BUCKET/KEY or file:///PATH")]
    Scheme(String),
    /// `s3://` without a bucket or without a key.
    #[error("{0:?} lacks a bucket or a key: expected s3://BUCKET/KEY")]
    Incomplete(String),
    /// `file://` without an absolute path.
    #[error("{0:?} has no absolute path: expected file:///PATH")]
    Path(String),
}

impl FromStr for ArtifactUri {
    type Err = InvalidUri;

    /// Keys are taken to the letter: a `%`, a `#` or a blank in a key is part of it, as S3 clients print them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(rest) = text.strip_prefix("s3://") {
            return match rest.split_once('/') {
                Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                    Ok(Self::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
                }
                _ => Err(InvalidUri::Incomplete(text.to_owned())),
            };
        }
        match text.strip_prefix("file://") {
            Some(path) if path.starts_with('/') && path.len() > 1 => Ok(Self::File { path: path.to_owned() }),
            Some(_) => Err(InvalidUri::Path(text.to_owned())),
            None => Err(InvalidUri::Scheme(text.to_owned())),
        }
    }
}

impl fmt::Display for ArtifactUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
            Self::File { path } => write!(f, "file://{path}"),
        }
    }
}

/// The key under which a snapshot of this name is stored below a prefix: `[prefix/]<name>.db`, with exactly one slash
/// between the two.
#[must_use]
pub fn snapshot_key(prefix: &str, name: &str) -> String {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if prefix.is_empty() { format!("{name}.db") } else { format!("{prefix}/{name}.db") }
}
