//! The ways to a bucket: its own host name, a forward proxy, credentials that last an hour or stand in files.

use super::{Agent, Image, bucket_name, filled};
use crate::bed::S3Server;
use crate::bed::etcd::Version;
use crate::bed::fault_proxy::ForwardProxy;
use crate::bed::s3::{OWNER, TemporaryKeys};
use etcd_warden::api::agent::{Reason, env};
use object_store::ObjectStoreExt;
use object_store::path::Path;

#[tokio::test]
async fn a_bucket_may_be_a_host_of_its_own() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("host");
    let bucket = s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    let by_host =
        |agent: Agent| agent.set(env::S3_ENDPOINT, s3.virtual_host_endpoint()).set(env::S3_FORCE_PATH_STYLE, "false");
    let snapshot = by_host(Agent::snapshot(&etcd, "u").s3(s3, &name, "deep/er"));
    let artifact = snapshot.succeed().await.artifact.unwrap();
    assert_eq!(artifact.uri, format!("s3://{name}/deep/er/snap.db"));
    assert_eq!(bucket.head(&Path::from("deep/er/snap.db")).await.unwrap().size, artifact.size_bytes);
    let data = tempfile::tempdir().unwrap();
    let image = Image::of(Version::V3_6);
    let restore = Agent::new("restore").s3(s3, &name, "deep/er/snap.db").image(&image);
    by_host(restore.member(data.path())).succeed().await;
    // The certificate holds the buckets' names alone: what is meant as a path does not get through.
    snapshot.clone().set(env::S3_FORCE_PATH_STYLE, "true").fail(Reason::StoreTlsFailed).await;
    let nowhere = snapshot.set(env::S3_BUCKET, "agents-no-such-host").fail(Reason::BucketNotFound).await;
    assert!(nowhere.message.contains("agents-no-such-host"), "{}", nowhere.message);
}

/// On this port nobody listens: only a proxy can lead further.
const BEHIND: &str = "https://localhost:1";

#[tokio::test]
async fn a_forward_proxy_is_used_as_the_environment_says() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("proxy");
    s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    let proxy = ForwardProxy::start(s3.address(), None);
    let through = |agent: Agent| agent.set("HTTPS_PROXY", format!("http://{}", proxy.address()));
    let snapshot = |endpoint: &str| {
        Agent::snapshot(&etcd, "u").s3(s3, &name, "").set(env::S3_ENDPOINT, endpoint).set(env::DEADLINE_SECONDS, 20)
    };
    snapshot(BEHIND).fail(Reason::StoreUnreachable).await;
    through(snapshot(BEHIND)).succeed().await;
    assert!(!proxy.asked().is_empty());
    assert!(proxy.asked().iter().all(|asked| asked.starts_with("CONNECT localhost:1 ")), "{:?}", proxy.asked());
    // Nor is it in the way of etcd, or of a host that it is not for.
    let before = proxy.asked().len();
    through(snapshot(&s3.endpoint())).set("NO_PROXY", "localhost,127.0.0.0/8").succeed().await;
    assert_eq!(proxy.asked().len(), before);
    let (image, data) = (Image::of(Version::V3_6), tempfile::tempdir().unwrap());
    let restore = Agent::new("restore").s3(s3, &name, "snap.db").set(env::S3_ENDPOINT, BEHIND);
    through(restore.image(&image).member(data.path())).succeed().await;
    assert!(proxy.asked().len() > before);
}

#[tokio::test]
async fn a_proxys_password_is_sent_and_never_told() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("proxy-password");
    s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    // "proxyuser:let-me-through"
    let proxy = ForwardProxy::start(s3.address(), Some("authorization: basic cHJveHl1c2VyOmxldC1tZS10aHJvdWdo"));
    let snapshot = |password: &str| {
        Agent::snapshot(&etcd, "u")
            .s3(s3, &name, "")
            .set(env::S3_ENDPOINT, BEHIND)
            .set(env::DEADLINE_SECONDS, 16)
            .set("HTTPS_PROXY", format!("http://proxyuser:{password}@{}", proxy.address()))
    };
    snapshot("let-me-through").succeed().await;
    let ended = snapshot("wrong-password").run().await;
    let report = ended.report.unwrap();
    assert_eq!((report.reason, report.retryable), (Reason::StoreUnreachable, true), "{report:?}");
    assert!(report.message.contains("proxy"), "{}", report.message);
    assert!(!report.message.contains("wrong-password") && !ended.log.contains("wrong-password"), "{}", ended.log);
}

#[tokio::test]
async fn temporary_credentials_work_with_their_token_alone() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("session");
    let bucket = s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    let TemporaryKeys { access, secret, token } = s3.temporary_keys().await;
    let with = |agent: Agent| agent.set(env::AWS_ACCESS_KEY_ID, &access).set(env::AWS_SECRET_ACCESS_KEY, &secret);
    let snapshot = with(Agent::snapshot(&etcd, "u").s3(s3, &name, ""));
    snapshot.fail(Reason::StoreAuthFailed).await;
    let forged = format!("{}x", &token[..token.len() - 1]);
    snapshot.clone().set(env::AWS_SESSION_TOKEN, forged).fail(Reason::StoreAuthFailed).await;
    assert!(bucket.head(&Path::from("snap.db")).await.is_err());
    snapshot.set(env::AWS_SESSION_TOKEN, &token).succeed().await;
    let (image, data) = (Image::of(Version::V3_6), tempfile::tempdir().unwrap());
    let restore = with(Agent::new("restore").s3(s3, &name, "snap.db"));
    let restore = restore.set(env::AWS_SESSION_TOKEN, &token).image(&image).member(data.path());
    let ended = restore.run().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(![&token, &secret].iter().any(|secret| ended.log.contains(*secret) || ended.stdout.contains(*secret)));
}

#[tokio::test]
async fn credentials_may_stand_in_mounted_files() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("files");
    s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let snapshot = Agent::snapshot(&etcd, "u").s3(s3, &name, "");
    let bare = snapshot.unset(env::AWS_ACCESS_KEY_ID).unset(env::AWS_SECRET_ACCESS_KEY);
    let report = bare.fail(Reason::InvalidConfiguration).await;
    assert!(report.message.contains(env::AWS_ACCESS_KEY_ID), "{}", report.message);
    bare.clone()
        .set("AWS_ACCESS_KEY_ID_FILE", file("id", OWNER.access))
        .set("AWS_SECRET_ACCESS_KEY_FILE", file("key", &format!("{}\n", OWNER.secret)))
        .succeed()
        .await;
    let TemporaryKeys { access, secret, token } = s3.temporary_keys().await;
    bare.set("AWS_ACCESS_KEY_ID_FILE", file("id", &access))
        .set("AWS_SECRET_ACCESS_KEY_FILE", file("key", &secret))
        .set("AWS_SESSION_TOKEN_FILE", file("token", &token))
        .succeed()
        .await;
}
