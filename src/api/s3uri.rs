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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        let read = |text: &str| text.parse::<ArtifactUri>();
        for text in ["", "s3", "s3:/b/k", "http://b/k", "S3://b/k", "/var/x.db"] {
            assert!(matches!(read(text), Err(InvalidUri::Scheme(_))), "{text:?}");
        }
        for text in ["s3://", "s3://b", "s3://b/", "s3:///k"] {
            assert!(matches!(read(text), Err(InvalidUri::Incomplete(_))), "{text:?}");
        }
        for text in ["file://", "file:///", "file://x/y"] {
            assert!(matches!(read(text), Err(InvalidUri::Path(_))), "{text:?}");
        }
    }

    #[test]
    fn a_key_is_taken_to_the_letter() {
        let uri: ArtifactUri = "s3://b/a%20b//c?d#e f/".parse().unwrap();
        assert_eq!(uri, ArtifactUri::S3 { bucket: "b".to_owned(), key: "a%20b//c?d#e f/".to_owned() });
    }

    #[test]
    fn a_prefix_and_a_name_are_joined_by_one_slash() {
        assert_eq!(snapshot_key("", "n"), "n.db");
        assert_eq!(snapshot_key("/", "n"), "n.db");
        assert_eq!(snapshot_key("a", "n"), "a/n.db");
        assert_eq!(snapshot_key("a/b/", "n"), "a/b/n.db");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(bucket in "[a-z0-9.-]{3,63}", key in "[^\u{0}]{1,100}", path in "/[^\u{0}]{1,100}") {
            for uri in [ArtifactUri::S3 { bucket, key }, ArtifactUri::File { path }] {
                prop_assert_eq!(uri.to_string().parse(), Ok(uri));
            }
        }
    }
}
