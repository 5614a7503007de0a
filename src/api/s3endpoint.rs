//! Addresses of S3 servers, with or without a scheme: `[http://|https://]HOST[:PORT][/]`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Where an S3 server listens. Without a scheme it is https.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct S3Endpoint {
    secure: bool,
    authority: String,
}

/// Why a text is no S3 endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidEndpoint {
    /// A scheme that S3 is not spoken over.
    #[error("{0:?} has an unknown scheme: expected http:// or https://, or none for https")]
    Scheme(String),
    /// No host at all.
    #[error("{0:?} has no host")]
    Host(String),
    /// A path, query or fragment; the bucket goes in its own field.
    #[error("{0:?} has more than a host and a port: the bucket and the key go in their own fields")]
    Path(String),
    /// User name or password in the address.
    #[error("the S3 endpoint holds a user name or password: credentials go in a Secret")]
    UserInfo,
    /// The port is no number from 1 to 65535.
    #[error("{0:?} has no usable port: expected 1 to 65535")]
    Port(String),
}

impl S3Endpoint {
    /// Whether TLS is spoken.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether two addresses lead to the same server, by what they say.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let plain = |endpoint: &Self| {
            let default = if endpoint.secure { ":443" } else { ":80" };
            let authority = endpoint.authority.to_ascii_lowercase();
            authority.strip_suffix(default).map(ToOwned::to_owned).unwrap_or(authority)
        };
        self.secure == other.secure && plain(self) == plain(other)
    }

    /// The address under which a bucket's objects live: as a path below the host, or as a part of the host's name.
    /// Buckets of address literals are always a path.
    #[must_use]
    pub fn bucket_url(&self, bucket: &str, path_style: bool) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let host = split_port(&self.authority).0;
        if path_style || host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok() {
            format!("{scheme}://{}/{bucket}", self.authority)
        } else {
            format!("{scheme}://{bucket}.{}", self.authority)
        }
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

impl FromStr for S3Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (secure, rest) = match text.split_once("://") {
            None => (true, text),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some(_) => return Err(InvalidEndpoint::Scheme(text.to_owned())),
        };
        if rest.contains('@') {
            return Err(InvalidEndpoint::UserInfo);
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '\\']) || authority.chars().any(char::is_whitespace) {
            return Err(InvalidEndpoint::Path(text.to_owned()));
        }
        let (host, port) = split_port(authority);
        let bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || bare_v6 {
            return Err(InvalidEndpoint::Host(text.to_owned()));
        }
        if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|number| number > 0)) {
            return Err(InvalidEndpoint::Port(text.to_owned()));
        }
        Ok(Self { secure, authority: authority.to_owned() })
    }
}

impl fmt::Display for S3Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_optional_and_of_any_case() {
        for (text, shown) in [
            ("s3.example.org", "https://s3.example.org"),
            ("HTTP://s3.example.org:8333/", "http://s3.example.org:8333"),
            ("https://[2001:db8::1]:9000", "https://[2001:db8::1]:9000"),
        ] {
            assert_eq!(text.parse::<S3Endpoint>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn the_same_server_is_known_by_any_spelling() {
        let same =
            |one: &str, other: &str| one.parse::<S3Endpoint>().unwrap().is_same(&other.parse::<S3Endpoint>().unwrap());
        assert!(same("s3.example", "https://S3.example:443/") && same("http://a", "http://a:80"));
        assert!(!same("s3.example", "http://s3.example") && !same("a", "a:80") && !same("a", "b"));
    }

    #[test]
    fn buckets_stand_in_the_path_or_in_the_name() {
        let named: S3Endpoint = "s3.example.org".parse().unwrap();
        assert_eq!(named.bucket_url("b", true), "https://s3.example.org/b");
        assert_eq!(named.bucket_url("b", false), "https://b.s3.example.org");
        let literal: S3Endpoint = "http://127.0.0.1:8333".parse().unwrap();
        assert_eq!(literal.bucket_url("b", false), "http://127.0.0.1:8333/b");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "https://", "ftp://x", "https://u:p@x", "x/bucket", "x?y", "x:0", "x:99999", "2001:db8::1"] {
            assert!(text.parse::<S3Endpoint>().is_err(), "{text}");
        }
    }
}
