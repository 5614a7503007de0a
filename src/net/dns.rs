//! Names to addresses, in pure Rust: the agent runs in images whose `nsswitch.conf` and C library are not ours.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use thiserror::Error;

/// A name did not become an address.
#[derive(Debug, Error)]
#[error("cannot resolve {name:?}")]
pub struct DnsError {
    name: String,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Resolves names by `/etc/hosts` first and the servers of `/etc/resolv.conf` then, with its search list.
#[derive(Clone)]
pub struct Resolver {
    inner: Arc<TokioResolver>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    /// Reads the system's configuration. Without a readable `/etc/resolv.conf` only addresses, `localhost` and
    /// `/etc/hosts` resolve.
    ///
    /// # Errors
    /// The configuration is there but cannot be used.
    pub fn from_system() -> Result<Self, DnsError> {
        let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|_| {
            let mut offline = TokioResolver::builder_with_config(
                ResolverConfig::from_parts(None, Vec::new(), Vec::new()),
                TokioRuntimeProvider::default(),
            );
            *offline.options_mut() = ResolverOpts::default();
            offline
        });
        let options = builder.options_mut();
        options.use_hosts_file = ResolveHosts::Always;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.timeout = Duration::from_secs(3);
        options.attempts = 3;
        let inner =
            builder.build().map_err(|error| DnsError { name: "/etc/resolv.conf".into(), source: error.into() })?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// All addresses of a host name or address literal (IPv6 with or without brackets).
    ///
    /// # Errors
    /// No address is known for the name, or no server answered.
    pub async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(vec![address]);
        }
        let found = self
            .inner
            .lookup_ip(bare)
            .await
            .map_err(|error| DnsError { name: host.to_owned(), source: error.into() })?;
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        // IPv4 first: a Pod network without IPv6 would otherwise cost a failed connection each time.
        addresses.sort_by_key(IpAddr::is_ipv6);
        Ok(addresses)
    }
}

impl reqwest::dns::Resolve for Resolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = Self::resolve(&resolver, name.as_str()).await?;
            let sockets: reqwest::dns::Addrs =
                Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(sockets)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn literals_and_localhost_need_no_server() {
        let resolver = Resolver::from_system().unwrap();
        assert_eq!(resolver.resolve("127.0.0.1").await.unwrap(), ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(resolver.resolve("[::1]").await.unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        assert!(resolver.resolve("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
    }
}
