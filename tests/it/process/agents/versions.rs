//! A snapshot of every version, restored into every version that may have it.

use super::{Agent, Image, bucket_name, client, filled, keys_of};
use crate::bed::etcd::{Options, Version};
use crate::bed::{Etcd, S3Server};
use etcd_warden::api::agent::{Artifact, Consistency, Reason, env};

const BUMP: i64 = 1_000_000;

#[tokio::test]
async fn snapshots_of_3_4_restore_into_3_5_3_6_and_3_7() {
    walk(Version::V3_4).await;
}

#[tokio::test]
async fn snapshots_of_3_5_restore_into_3_5_3_6_and_3_7() {
    walk(Version::V3_5).await;
}

#[tokio::test]
async fn snapshots_of_3_6_restore_into_3_6_and_3_7() {
    walk(Version::V3_6).await;
}

#[tokio::test]
async fn snapshots_of_3_7_restore_into_3_7() {
    walk(Version::V3_7).await;
}

async fn walk(origin: Version) {
    let s3 = S3Server::shared().await;
    let bucket = bucket_name("versions");
    s3.bucket(&bucket).await;
    let source = filled(origin).await;
    let before = keys_of(&source);
    let artifact = snapshot(&source, s3, &bucket).await;
    let plain_hash = client(&source).await.hash_kv(artifact.revision.unwrap()).await.unwrap().hash;
    drop(source);
    for target in Version::ALL {
        let image = Image::of(target);
        let stored = |task| {
            Agent::new(task)
                .s3(s3, &bucket, "prefix/snap.db")
                .image(&image)
                .set(env::ORIGIN_ETCD_VERSION, origin.number())
                .set(env::EXPECTED_SHA256, &artifact.sha256)
                .set(env::EXPECTED_SIZE, artifact.size_bytes)
        };
        let refusal = match target {
            Version::V3_4 => Some(Reason::EtcdutlNotFound),
            _ if target < origin => Some(Reason::OriginNewerThanTarget),
            _ => None,
        };
        let data = tempfile::tempdir().unwrap();
        let restore = stored("restore").member(data.path());
        if let Some(reason) = refusal {
            restore.fail(reason).await;
            assert!(super::names(data.path()).is_empty());
            continue;
        }
        // Once as it was, which keeps the hash, and once with the revision raised, which every key survives.
        rebuild(&stored("preflight"), &restore, target, &before, Some(plain_hash)).await;
        let raised = |agent: Agent| agent.set(env::REVISION_BUMP, BUMP);
        let data = tempfile::tempdir().unwrap();
        rebuild(&raised(stored("preflight")), &raised(stored("restore").member(data.path())), target, &before, None)
            .await;
    }
}

async fn snapshot(source: &Etcd, s3: &S3Server, bucket: &str) -> Artifact {
    let ended = Agent::snapshot(source, "uid-1").s3(s3, bucket, "prefix").run().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let artifact = ended.report.unwrap().artifact.unwrap();
    assert_eq!(artifact.uri, format!("s3://{bucket}/prefix/snap.db"));
    let line = format!(
        "snapshot uploaded: uri=\"{}\" size={} sha256={}\n",
        artifact.uri, artifact.size_bytes, artifact.sha256
    );
    assert!(ended.stdout.ends_with(&line), "{}", ended.stdout);
    assert_eq!(artifact.etcd_version.as_deref(), Some(source.version().number()));
    assert_eq!(artifact.storage_version.is_some(), source.version() >= Version::V3_6);
    assert_eq!(artifact.consistency, Some(Consistency::Linearizable));
    let status = client(source).await.status().await.unwrap();
    let header = status.header.unwrap();
    assert_eq!(artifact.revision, Some(header.revision));
    assert_eq!(artifact.cluster_id, Some(format!("{:016x}", header.cluster_id)));
    assert_eq!(artifact.member_id, Some(format!("{:016x}", header.member_id)));
    artifact
}

async fn rebuild(preflight: &Agent, restore: &Agent, target: Version, before: &[String], hash: Option<u32>) {
    let scratch = tempfile::tempdir().unwrap();
    let preflight = preflight.clone().set(env::SCRATCH_DIR, scratch.path().display());
    let rehearsal = preflight.succeed().await.rehearsal.unwrap();
    assert!(super::names(scratch.path()).is_empty(), "the rehearsal left something");
    assert_eq!(rehearsal.etcdutl_version, target.number());
    assert_eq!(rehearsal.keys, 35);
    assert!(!rehearsal.auth_enabled);
    assert!(hash.is_none_or(|hash| hash == rehearsal.hash_kv));

    let restored = restore.succeed().await.restore.unwrap();
    let data_dir = std::path::PathBuf::from(restore.vars[env::ETCD_DATA_DIR].clone());
    assert_eq!(super::names(&data_dir), ["member"]);
    assert_eq!(restored.bump, if hash.is_some() { 0 } else { BUMP });
    if let Some(revision) = restored.revision {
        assert_eq!(revision + restored.bump, rehearsal.revision);
    }

    let reborn = Etcd::start(target, Options { data_dir: Some(data_dir), ..Options::default() }).await;
    assert_eq!(keys_of(&reborn), before);
    let client = client(&reborn).await;
    let status = client.status().await.unwrap();
    assert_eq!(status.header.unwrap().revision, rehearsal.revision);
    assert_eq!(client.hash_kv(rehearsal.hash_revision).await.unwrap().hash, rehearsal.hash_kv);
}
