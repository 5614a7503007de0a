//! Buckets and directories: what is written, under which name, and whose it is.

use super::{Agent, bucket_name, client, fatten, filled};
use crate::bed::S3Server;
use crate::bed::etcd::Version;
use etcd_warden::api::agent::{Reason, Report, env};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Attribute, ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};

fn is_what_was_stored(bytes: &[u8], report: &Report) {
    let artifact = report.artifact.as_ref().unwrap();
    let sum = Sha256::digest(bytes).iter().fold(String::new(), |sum, byte| sum + &format!("{byte:02x}"));
    assert_eq!((bytes.len() as u64, &sum), (artifact.size_bytes, &artifact.sha256));
    assert_eq!(bytes.len() % 512, 32);
}

async fn all(bucket: &dyn ObjectStore) -> Vec<String> {
    let mut names: Vec<String> =
        bucket.list(None).map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
    names.sort();
    names
}

/// S16, S17: the object itself says what it is of; its owner may replace it, and the artefact is the last one.
#[tokio::test]
async fn an_object_is_whole_says_whose_it_is_and_is_only_replaced_by_its_owner() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("owner");
    let bucket = s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    let key = Path::from("deep/er/snap.db");
    // Small, in one request; then larger, in several parts. Each by a first try, a retry, and somebody else.
    for size in [0, 12] {
        fatten(&client(&etcd).await, size).await;
        let snapshot = |uid: &str| Agent::snapshot(&etcd, uid).s3(s3, &name, "deep/er/");
        if size == 0 {
            snapshot("mine").succeed().await;
        }
        let report = snapshot("mine").succeed().await;
        let stored = bucket.get(&key).await.unwrap();
        assert_eq!(stored.attributes.get(&Attribute::Metadata("etcd-snapshot-uid".into())).unwrap().as_ref(), "mine");
        let version = stored.attributes.get(&Attribute::Metadata("etcd-version".into())).unwrap();
        assert_eq!(version.as_ref(), Version::V3_6.number());
        let bytes = stored.bytes().await.unwrap();
        is_what_was_stored(&bytes, &report);
        assert_eq!(bytes.len() > 12 << 20, size > 0);
        let refused = snapshot("theirs").fail(Reason::ObjectOwnedByAnother).await;
        assert!(refused.message.contains("mine") && !refused.retryable, "{}", refused.message);
        assert_eq!(bucket.get(&key).await.unwrap().bytes().await.unwrap(), bytes);
        assert_eq!(all(&*bucket).await, [key.to_string()]);
    }
}

#[tokio::test]
async fn a_foreign_object_without_an_owner_is_never_touched() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("foreign");
    let bucket = s3.bucket(&name).await;
    bucket.put(&Path::from("snap.db"), "theirs".into()).await.unwrap();
    let etcd = filled(Version::V3_5).await;
    Agent::snapshot(&etcd, "mine").s3(s3, &name, "").fail(Reason::ObjectOwnedByAnother).await;
    assert_eq!(bucket.get(&Path::from("snap.db")).await.unwrap().bytes().await.unwrap(), "theirs");
}

#[tokio::test]
async fn of_two_agents_that_race_for_a_name_one_wins_whole() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("race");
    let bucket = s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    fatten(&client(&etcd).await, 6).await;
    let volume = tempfile::tempdir().unwrap();
    let in_bucket = |uid: &str| Agent::snapshot(&etcd, uid).s3(s3, &name, "");
    let in_volume = |uid: &str| Agent::snapshot(&etcd, uid).volume(volume.path(), "");
    for (one, other, is_bucket) in [(in_bucket("a"), in_bucket("b"), true), (in_volume("a"), in_volume("b"), false)] {
        let (one, other) = tokio::join!(one.run(), other.run());
        let (one, other) = (one.report.unwrap(), other.report.unwrap());
        let (winner, loser) = if one.ok { (one, other) } else { (other, one) };
        assert!(winner.ok && loser.reason == Reason::ObjectOwnedByAnother, "{winner:?} {loser:?}");
        let bytes = if is_bucket {
            bucket.get(&Path::from("snap.db")).await.unwrap().bytes().await.unwrap()
        } else {
            std::fs::read(volume.path().join("snap.db")).unwrap().into()
        };
        is_what_was_stored(&bytes, &winner);
    }
    assert_eq!(super::names(volume.path()), ["snap.db", "snap.db.uid"]);
}

#[tokio::test]
async fn endpoints_keys_and_names_of_every_form_are_reached() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("forms");
    s3.bucket(&name).await;
    let etcd = filled(Version::V3_7).await;
    let snapshot = |prefix: &str| Agent::snapshot(&etcd, "u").s3(s3, &name, prefix);
    let port = s3.endpoint().rsplit(':').next().unwrap().to_owned();
    for (i, endpoint) in
        [format!("localhost:{port}"), format!("HTTPS://127.0.0.1:{port}/"), s3.plain_endpoint()].into_iter().enumerate()
    {
        snapshot(&format!("form-{i}")).set(env::S3_ENDPOINT, endpoint).succeed().await;
    }
    for (i, prefix) in ["with space", "ümlaut+plus&and%percent", "a/b/c/"].into_iter().enumerate() {
        let report = snapshot(prefix).set(env::SNAPSHOT_UID, i).succeed().await;
        let uri = format!("s3://{name}/{}/snap.db", prefix.trim_end_matches('/'));
        assert_eq!(report.artifact.unwrap().uri, uri);
        snapshot(prefix).set(env::SNAPSHOT_UID, "other").fail(Reason::ObjectOwnedByAnother).await;
    }
    for (variable, value) in [
        (env::S3_ENDPOINT, "ftp://x"),
        (env::S3_ENDPOINT, "http://user:password@x"),
        (env::S3_KEY, "../up"),
        (env::S3_CA_FILE, "/nowhere"),
        (env::SNAPSHOT_DEST_KIND, "tape"),
    ] {
        snapshot("x").set(variable, value).fail(Reason::InvalidConfiguration).await;
    }
}
