//! How the rehearsed member is made and booted. Pure.

use std::ffi::OsString;
use std::path::Path;

use crate::agent::settings::MemberSettings;

/// The member that the real restore makes, or one that stands for it: neither name, token nor peer URLs are part of
/// the hash that is compared later.
pub(super) fn member(given: Option<MemberSettings>) -> MemberSettings {
    given.unwrap_or_else(|| MemberSettings {
        name: "rehearsal".into(),
        initial_cluster: "rehearsal=http://127.0.0.1:2380".into(),
        token: None,
        peer_urls: Some("http://127.0.0.1:2380".into()),
    })
}

/// Arguments of an etcd that serves rebuilt data on loopback only. What it is called and who its peers are stands in
/// the data.
pub(super) fn arguments(name: &str, data_dir: &Path, client_port: u16, peer_port: u16) -> Vec<OsString> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let initial = format!("{name}={peer}");
    let mut arguments: Vec<OsString> = vec!["--data-dir".into(), data_dir.into()];
    for (option, value) in [
        ("--name", name),
        ("--listen-client-urls", &client),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
        ("--initial-cluster", &initial),
        ("--quota-backend-bytes", "17179869184"),
        ("--log-outputs", "stderr"),
    ] {
        arguments.push(option.into());
        arguments.push(value.into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rehearsal_listens_on_loopback_only() {
        let arguments = arguments("m", Path::new("/scratch/data"), 1, 2);
        let text: Vec<_> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
        assert!(text.iter().filter(|argument| argument.contains("://")).all(|argument| argument.contains("127.0.0.1")));
        assert!(text.windows(2).any(|pair| pair == ["--data-dir", "/scratch/data"]));
    }
}
