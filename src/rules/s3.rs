//! Names in S3: buckets and the prefixes that snapshots are stored under.

use std::str::FromStr;

use thiserror::Error;

use crate::api::s3endpoint::{InvalidEndpoint, S3Endpoint};

/// Longest object key that S3 takes, in bytes.
const MAX_KEY: usize = 1024;

/// Why a text is no bucket's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidBucket {
    /// Too short or too long.
    #[error("{0:?} is no bucket name: 3 to 63 characters are needed")]
    Length(String),
    /// A character that may not stand there.
    #[error("{0:?} is no bucket name: lower-case letters, digits, '.' and '-', with a letter or digit at both ends")]
    Characters(String),
    /// It reads like an IP address.
    #[error("{0:?} is no bucket name: it reads like an IP address")]
    Address(String),
}

/// Why a text is no prefix for keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidPrefix {
    /// A slash in front, which clients treat differently.
    #[error("{0:?} begins with '/': keys do not, and clients disagree on what such a key names")]
    Absolute(String),
    /// A step upwards.
    #[error("{0:?} has a \"..\" in it, which some clients resolve and others do not")]
    Upwards(String),
    /// Control characters.
    #[error("the key has a control character in it")]
    Control,
    /// Too long.
    #[error("the key has {0} bytes, and S3 takes 1024 for the whole of it")]
    Length(usize),
}

/// A store: a server, and one bucket of it or all. Written `ENDPOINT[/BUCKET]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    endpoint: S3Endpoint,
    bucket: Option<String>,
}

impl Place {
    /// Whether a bucket of a server is in it.
    #[must_use]
    pub fn covers(&self, endpoint: &S3Endpoint, bucket: &str) -> bool {
        self.endpoint.is_same(endpoint) && self.bucket.as_deref().is_none_or(|known| known == bucket)
    }
}

/// Why a text is no store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidPlace {
    /// The server.
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpoint),
    /// The bucket.
    #[error(transparent)]
    Bucket(#[from] InvalidBucket),
}

impl FromStr for Place {
    type Err = InvalidPlace;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let host = text.find("://").map_or(0, |at| at + 3);
        let (endpoint, name) = match text[host..].find('/') {
            Some(at) => (&text[..host + at], &text[host + at + 1..]),
            None => (text, ""),
        };
        let name = name.strip_suffix('/').unwrap_or(name);
        if !name.is_empty() {
            bucket(name)?;
        }
        Ok(Self { endpoint: endpoint.parse()?, bucket: Some(name.to_owned()).filter(|name| !name.is_empty()) })
    }
}

/// Whether this is a bucket's name.
pub fn bucket(text: &str) -> Result<(), InvalidBucket> {
    let owned = || text.to_owned();
    if !(3..=63).contains(&text.len()) {
        return Err(InvalidBucket::Length(owned()));
    }
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let ends = text.starts_with(letter) && text.ends_with(letter);
    let inside = text.chars().all(|c| letter(c) || c == '.' || c == '-');
    if !ends || !inside || text.contains("..") {
        return Err(InvalidBucket::Characters(owned()));
    }
    if text.parse::<std::net::Ipv4Addr>().is_ok() {
        return Err(InvalidBucket::Address(owned()));
    }
    Ok(())
}

/// Whether snapshots can be stored under this prefix.
pub fn prefix(text: &str) -> Result<(), InvalidPrefix> {
    if text.len() > MAX_KEY {
        return Err(InvalidPrefix::Length(text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidPrefix::Control);
    }
    if text.starts_with('/') {
        return Err(InvalidPrefix::Absolute(text.to_owned()));
    }
    if text.split('/').any(|part| part == "..") {
        return Err(InvalidPrefix::Upwards(text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores() {
        let covers = |place: &str, endpoint: &str, bucket: &str| {
            place.parse::<Place>().unwrap().covers(&endpoint.parse().unwrap(), bucket)
        };
        assert!(covers("https://s3.example/etcd", "s3.example", "etcd"));
        assert!(covers("s3.example", "https://s3.example/", "etcd"));
        assert!(!covers("s3.example/etcd", "s3.example", "other"));
        assert!(!covers("s3.example/etcd", "http://s3.example", "etcd"));
        for wrong in ["", "ftp://x", "s3.example/No_Bucket", "s3.example/a/b"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn buckets() {
        for good in ["abc", "etcd-backups", "bucket-4f1d2c3b-0001", "a.b.c", &"a".repeat(63)] {
            assert_eq!(bucket(good), Ok(()), "{good}");
        }
        for bad in
            ["", "ab", "Abc", "a_b_c", "-abc", "abc-", ".abc", "a..b", "10.0.0.1", "a b", &"a".repeat(64), "müll"]
        {
            assert!(bucket(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixes() {
        for good in ["", "tenant-a/etcd/", "a..b/c", "a/./b", "ä/"] {
            assert_eq!(prefix(good), Ok(()), "{good}");
        }
        for bad in ["/a", "../a", "a/../b", "a/..", "a\nb", &"a".repeat(1025)] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }
}
