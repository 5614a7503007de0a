//! The certificates that a cluster asks cert-manager for, and what is to be done about them. Pure.

use kube::ResourceExt;

use super::build;
use super::decide::{Planned, Situation, Step};
use super::observe::{Certificates, Observed};
use crate::api::certmanager::{self, Certificate, CertificateIssuer, CertificateSpec, PrivateKey};
use crate::api::etcdcluster::{EtcdCluster, IssuerRef};
use crate::api::names;
use crate::controller::seen::Owned;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Members as servers of clients.
    Server,
    /// Us as a client of members.
    OperatorClient,
    /// Members among each other.
    Peer,
}

/// The certificates that the cluster wants; none where it brings its own Secrets.
#[must_use]
pub fn wanted(cluster: &EtcdCluster, domain: &str) -> Vec<(Role, Certificate)> {
    let Some(tls) = &cluster.spec.tls else { return Vec::new() };
    let mut wanted = Vec::new();
    if let Some(client) = tls.client.as_ref().and_then(|client| client.cert_manager.as_ref()) {
        wanted.push((Role::Server, &client.server_issuer_ref));
        if let Some(issuer) = &client.operator_client_issuer_ref {
            wanted.push((Role::OperatorClient, issuer));
        }
    }
    if let Some(peer) = tls.peer.as_ref().and_then(|peer| peer.cert_manager.as_ref()) {
        wanted.push((Role::Peer, &peer.issuer_ref));
    }
    wanted.into_iter().map(|(role, issuer)| (role, certificate(cluster, domain, role, issuer))).collect()
}

fn certificate(cluster: &EtcdCluster, domain: &str, role: Role, issuer: &IssuerRef) -> Certificate {
    let of = cluster.name_any();
    let (name, secret) = match role {
        Role::Server => (names::server_certificate(&of), names::server_tls_secret(&of)),
        Role::OperatorClient => (names::operator_client_certificate(&of), names::operator_client_tls_secret(&of)),
        Role::Peer => (names::peer_certificate(&of), names::peer_tls_secret(&of)),
    };
    let spec = CertificateSpec {
        common_name: name.clone(),
        dns_names: dns_names(cluster, domain, role),
        ip_addresses: if role == Role::Server { vec!["127.0.0.1".to_owned()] } else { Vec::new() },
        secret_name: secret,
        issuer_ref: CertificateIssuer {
            name: issuer.name.clone(),
            kind: issuer.kind.clone().filter(|kind| !kind.is_empty()).unwrap_or_else(|| "Issuer".to_owned()),
            group: certmanager::GROUP.to_owned(),
        },
        private_key: Some(PrivateKey { algorithm: "RSA".to_owned(), size: Some(2048) }),
        usages: usages(role),
    };
    Certificate { metadata: build::metadata(cluster, &name), spec, status: None }
}

/// Members are reached by their own names, below the headless Service's, and by both Services' names.
fn dns_names(cluster: &EtcdCluster, domain: &str, role: Role) -> Vec<String> {
    let namespace = cluster.namespace().unwrap_or_default();
    let headless = names::headless_service(&cluster.name_any());
    let client = names::client_service(&cluster.name_any());
    let both = |name: String| {
        let short = format!("{name}.{namespace}.svc");
        [short.clone(), format!("{short}.{domain}")]
    };
    let members = both(format!("*.{headless}"));
    match role {
        Role::Server => {
            let services = [both(headless), both(client)].into_iter().flatten();
            members.into_iter().chain(services).chain(["localhost".to_owned()]).collect()
        }
        Role::Peer => members.into(),
        Role::OperatorClient => Vec::new(),
    }
}

fn usages(role: Role) -> Vec<String> {
    let all = ["server auth", "client auth", "digital signature", "key encipherment"];
    let for_clients_only = usize::from(role == Role::OperatorClient);
    all.into_iter().skip(for_clients_only).map(ToOwned::to_owned).collect()
}

/// What is to be done. Members of a cluster that has formed have their Secrets, whatever became of cert-manager.
pub(super) fn steps(seen: &Observed) -> Result<Vec<Planned>, Situation> {
    let found = match &seen.certificates {
        Certificates::NotWanted => return Ok(Vec::new()),
        Certificates::NotInstalled => return Err(Situation::NoCertManager),
        Certificates::Unknown(why) => return Err(Situation::Forming(format!("Certificates cannot be read: {why}"))),
        Certificates::Seen(found) => found,
    };
    let mut steps = Vec::new();
    for (role, wanted) in wanted(&seen.cluster, &seen.cluster_domain) {
        let because = match found.iter().find(|(of, _)| *of == role).map(|(_, found)| found) {
            None | Some(Owned::Absent) => "it does not exist",
            Some(Owned::Ours(live)) if build::covers(live.as_ref(), &wanted) => continue,
            Some(Owned::Ours(_)) => "it is not as it should be",
            Some(Owned::Foreign) => {
                return Err(Situation::Blocked(format!("Certificate {} belongs to another owner", wanted.name_any())));
            }
        };
        steps.push(Planned { step: Step::ApplyCertificate(role), because: because.to_owned() });
    }
    Ok(steps)
}
