//! Damage of every kind is caught before anything is built on it, in the rehearsal and in the restore, and leaves
//! nothing behind.

use super::{Agent, Image, bucket_name, filled, names};
use crate::bed::S3Server;
use crate::bed::etcd::{Options, Version};
use crate::bed::{Etcd, wait_for};
use etcd_warden::api::agent::{Artifact, Reason, env};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use std::time::Duration;

/// A change that somebody or something made to a stored snapshot.
type Damage = fn(&[u8]) -> Vec<u8>;

/// What is done, and what it is called without a recorded hash.
const DAMAGES: [(&str, Damage, Reason); 9] = [
    ("trailer", |whole| flipped(whole, whole.len() - 5), Reason::TrailerMismatch),
    ("first page's header", |whole| flipped(whole, 8), Reason::TrailerMismatch),
    ("magic number", |whole| flipped(whole, 16), Reason::NotASnapshot),
    ("middle", |whole| flipped(whole, whole.len() / 2), Reason::TrailerMismatch),
    ("cut in the middle", |whole| whole[..whole.len() / 2].to_vec(), Reason::TrailerMissing),
    ("cut by a page, size as of a whole one", |whole| whole[..whole.len() - 4096].to_vec(), Reason::TrailerMismatch),
    ("trailer cut off", |whole| whole[..whole.len() - 32].to_vec(), Reason::TrailerMissing),
    ("empty", |_| Vec::new(), Reason::NotASnapshot),
    ("another file type", |_| b"%PDF-1.7 no snapshot at all".repeat(100), Reason::NotASnapshot),
];

fn flipped(whole: &[u8], at: usize) -> Vec<u8> {
    let mut damaged = whole.to_vec();
    damaged[at] ^= 0x10;
    damaged
}

async fn stored(etcd: &Etcd, s3: &S3Server, bucket: &str) -> (Vec<u8>, Artifact) {
    let report = Agent::snapshot(etcd, "u").s3(s3, bucket, "").succeed().await;
    let whole = s3.store(bucket).get(&Path::from("snap.db")).await.unwrap().bytes().await.unwrap();
    (whole.to_vec(), report.artifact.unwrap())
}

/// S1: a stored snapshot is held to the hash that etcd appended and to what was recorded of it, before data is touched.
#[tokio::test]
async fn damage_of_every_kind_is_caught_and_leaves_nothing() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("damage");
    let bucket = s3.bucket(&name).await;
    let (whole, artifact) = stored(&filled(Version::V3_6).await, s3, &name).await;
    let image = Image::of(Version::V3_6);
    let volume = tempfile::tempdir().unwrap();
    for (what, damage, reason) in DAMAGES {
        let damaged = damage(&whole);
        bucket.put(&Path::from("damaged.db"), damaged.clone().into()).await.unwrap();
        std::fs::write(volume.path().join("damaged.db"), &damaged).unwrap();
        // With what was recorded of the good one, any change is seen by that.
        let recorded = if damaged.len() == whole.len() { Reason::ChecksumMismatch } else { Reason::SizeMismatch };
        for (reason, with_record) in [(reason, false), (recorded, true)] {
            for task in ["preflight", "restore"] {
                let data = tempfile::tempdir().unwrap();
                let scratch = tempfile::tempdir().unwrap();
                let mut agent =
                    Agent::new(task).image(&image).member(data.path()).set(env::SCRATCH_DIR, scratch.path().display());
                if with_record {
                    agent =
                        agent.set(env::EXPECTED_SHA256, &artifact.sha256).set(env::EXPECTED_SIZE, artifact.size_bytes);
                }
                for agent in [agent.clone().s3(s3, &name, "damaged.db"), agent.volume(volume.path(), "damaged.db")] {
                    let report = agent.fail(reason).await;
                    assert!(!report.retryable, "{what}: {report:?}");
                    assert!(names(data.path()).is_empty() && names(scratch.path()).is_empty(), "{what}");
                }
            }
        }
    }
    assert_eq!(names(volume.path()), ["damaged.db"]);
}

#[tokio::test]
async fn an_absent_snapshot_is_named() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("absent");
    s3.bucket(&name).await;
    let image = Image::of(Version::V3_5);
    let data = tempfile::tempdir().unwrap();
    let restore = Agent::new("restore").image(&image).member(data.path());
    let report = restore.clone().s3(s3, &name, "gone.db").fail(Reason::ObjectNotFound).await;
    assert!(report.message.contains(&format!("s3://{name}/gone.db")), "{}", report.message);
    restore.clone().volume(data.path(), "gone.db").fail(Reason::ObjectNotFound).await;
    restore.s3(s3, "agents-no-bucket", "gone.db").fail(Reason::BucketNotFound).await;
    assert!(names(data.path()).is_empty());
}

#[tokio::test]
async fn a_members_own_file_restores_from_a_volume_and_from_nowhere_else() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("raw");
    let bucket = s3.bucket(&name).await;
    for version in [Version::V3_5, Version::V3_6, Version::V3_7] {
        let etcd = filled(version).await;
        let before = super::keys_of(&etcd);
        let data_dir = etcd.data_dir(0).to_owned();
        // Applied entries reach the file within a batch interval; a member that was stopped in order has written all.
        etcd.daemons().signal("m0", 15);
        wait_for("etcd to end", Duration::from_secs(20), async || etcd.daemons().ended("m0").ok_or("runs".to_owned()))
            .await;
        let old = tempfile::tempdir().unwrap();
        let file = old.path().join("member/snap/db");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(data_dir.join("member/snap/db"), &file).unwrap();
        let raw = std::fs::read(&file).unwrap();
        std::fs::write(old.path().join("renamed.db"), &raw).unwrap();
        bucket.put(&Path::from("member/snap/db"), raw.clone().into()).await.unwrap();
        drop(etcd);

        let image = Image::of(version);
        let data = tempfile::tempdir().unwrap();
        let restore = Agent::new("restore").image(&image).member(data.path());
        restore.clone().volume(old.path(), "renamed.db").fail(Reason::TrailerMissing).await;
        restore.clone().s3(s3, &name, "member/snap/db").fail(Reason::TrailerMissing).await;
        restore.volume(old.path(), "member/snap/db").succeed().await;
        assert_eq!(std::fs::read(&file).unwrap(), raw, "the source was changed");
        let options = Options { data_dir: Some(data.path().to_owned()), ..Options::default() };
        assert_eq!(super::keys_of(&Etcd::start(version, options).await), before);
    }
}
