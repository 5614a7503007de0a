//! Names in S3: buckets and the prefixes that snapshots are stored under.

use thiserror::Error;

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
