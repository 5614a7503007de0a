//! TLS, client certificates and passwords, between agent and etcd.

use super::{Agent, Image, fill};
use crate::bed::Etcd;
use crate::bed::etcd::{Options, Tls, Version};
use etcd_warden::api::agent::{Reason, env};
use etcd_warden::api::secret::Secret;
use etcd_warden::etcd::{self, Credentials};

const PASSWORD: &str = "correct horse";

#[tokio::test]
async fn a_server_certificate_is_checked() {
    let etcd = Etcd::start(Version::V3_6, Options { tls: Tls::Server, ..Options::default() }).await;
    let volume = tempfile::tempdir().unwrap();
    let snapshot = Agent::snapshot(&etcd, "u").volume(volume.path(), "a");
    snapshot.succeed().await;
    // The system's authorities have not signed it.
    let report = snapshot.clone().unset(env::ETCD_TLS_CA_PATH).fail(Reason::EtcdTlsFailed).await;
    assert!(report.message.contains("certificate") || report.message.contains("authorities"), "{}", report.message);
    // The same server under a name that the certificate holds, and under one that it does not.
    let named = |host: &str| etcd.endpoints()[0].replace("127.0.0.1", host);
    snapshot.clone().set(env::ETCD_ENDPOINTS, named("localhost")).succeed().await;
    let report = snapshot.clone().set(env::ETCD_ENDPOINTS, named("other.localhost")).fail(Reason::EtcdTlsFailed).await;
    assert!(report.message.contains("other.localhost"), "{}", report.message);
    // TLS where there is none.
    let plain = etcd.endpoints()[0].replace("https", "http");
    let report = snapshot.clone().set(env::ETCD_ENDPOINTS, plain).run().await.report.unwrap();
    assert!(!report.ok && report.reason == Reason::EtcdUnreachable, "{report:?}");
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let etcd = Etcd::start(Version::V3_5, Options { tls: Tls::Mutual, ..Options::default() }).await;
    let volume = tempfile::tempdir().unwrap();
    let bare = Agent::snapshot(&etcd, "u").volume(volume.path(), "a");
    let pair = etcd.client_certificate().unwrap();
    let shown = bare
        .clone()
        .set(env::ETCD_TLS_CERT_PATH, pair.certificate.display())
        .set(env::ETCD_TLS_KEY_PATH, pair.key.display());
    shown.succeed().await;
    let report = bare.run().await.report.unwrap();
    assert!(matches!(report.reason, Reason::EtcdTlsFailed | Reason::EtcdUnreachable), "{report:?}");
    bare.set(env::ETCD_TLS_CERT_PATH, pair.certificate.display()).fail(Reason::InvalidConfiguration).await;
}

/// O6: that a snapshot asks for a password is found out in the rehearsal, before anything is deleted.
#[tokio::test]
async fn a_password_opens_etcd_and_its_snapshot() {
    let options = Options { root_password: Some(PASSWORD.into()), ..Options::default() };
    let etcd = Etcd::start(Version::V3_6, options).await;
    let credentials = Credentials { user: "root".into(), password: Secret::new(PASSWORD) };
    let options = etcd::Options { credentials: Some(credentials), ..etcd::Options::default() };
    fill(&etcd::dial(&etcd.endpoints(), &options).await.unwrap()).await;

    let volume = tempfile::tempdir().unwrap();
    let bare = Agent::snapshot(&etcd, "u").volume(volume.path(), "a");
    bare.fail(Reason::EtcdAuthFailed).await;
    let with = |password: &str| bare.clone().set(env::ETCD_USERNAME, "root").set(env::ETCD_PASSWORD, password);
    with("wrong").fail(Reason::EtcdAuthFailed).await;
    with(PASSWORD).succeed().await;

    for target in [Version::V3_6, Version::V3_7] {
        let image = Image::of(target);
        let scratch = tempfile::tempdir().unwrap();
        let preflight = Agent::new("preflight")
            .volume(volume.path(), "a/snap.db")
            .image(&image)
            .set(env::SCRATCH_DIR, scratch.path().display());
        let rehearsal = preflight.clone().set(env::ETCD_PASSWORD, PASSWORD).succeed().await.rehearsal.unwrap();
        assert!(rehearsal.auth_enabled && rehearsal.keys == 35, "{rehearsal:?}");
        // Without the password it is at least known that there is one.
        for wrong in [preflight.clone(), preflight.set(env::ETCD_PASSWORD, "wrong")] {
            let report = wrong.fail(Reason::EtcdAuthFailed).await;
            assert!(report.rehearsal.unwrap().auth_enabled);
        }
        assert!(super::names(scratch.path()).is_empty());
    }
}

#[tokio::test]
async fn a_password_is_no_hindrance_where_authentication_is_off() {
    let etcd = super::filled(Version::V3_4).await;
    let volume = tempfile::tempdir().unwrap();
    Agent::snapshot(&etcd, "u").volume(volume.path(), "a").set(env::ETCD_PASSWORD, "any").succeed().await;
}
