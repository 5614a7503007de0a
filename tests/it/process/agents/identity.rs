//! The agent as the unprivileged user that it is in a Pod, on a volume that the kubelet gave to its group.

use super::{AGENT, Agent, Image, bucket_name, filled, names};
use crate::bed::S3Server;
use crate::bed::etcd::Version;
use etcd_warden::api::agent::env;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// User and group of distroless images.
const NONROOT: u32 = 65532;

/// A volume as with `fsGroup`: root's, writable for the group, which what is made in it inherits.
fn volume(below: &Path, name: &str) -> PathBuf {
    let volume = below.join(name);
    std::fs::create_dir(&volume).unwrap();
    std::os::unix::fs::chown(&volume, Some(0), Some(NONROOT)).expect("chown needs root");
    std::fs::set_permissions(&volume, std::fs::Permissions::from_mode(0o2775)).unwrap();
    volume
}

/// A copy that everybody may run: where the originals are, only we may look.
fn copied(file: &Path, to: PathBuf) -> PathBuf {
    std::fs::copy(file, &to).unwrap();
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
    to
}

#[tokio::test]
async fn what_an_unprivileged_agent_makes_is_its_own_and_nobody_elses() {
    let s3 = S3Server::shared().await;
    let name = bucket_name("nonroot");
    s3.bucket(&name).await;
    let etcd = filled(Version::V3_6).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = copied(Path::new(AGENT), folder.path().join("agent"));
    let authority = copied(s3.authority(), folder.path().join("ca.crt"));
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    copied(&Version::V3_6.etcd(), folder.path().join("bin/etcd"));
    copied(&Version::V3_6.etcdutl().unwrap(), folder.path().join("bin/etcdutl"));
    let ours = |agent: Agent| {
        agent
            .program(&program)
            .user(NONROOT)
            .set(env::S3_CA_FILE, authority.display())
            .set("PATH", folder.path().join("bin").display())
    };
    let (tools, stored, data, scratch) = (
        volume(folder.path(), "tools"),
        volume(folder.path(), "stored"),
        volume(folder.path(), "data"),
        volume(folder.path(), "scratch"),
    );
    ours(Agent::new("install-tools").set(env::TOOLS_DEST_DIR, tools.display())).succeed().await;
    ours(Agent::snapshot(&etcd, "u").s3(s3, &name, "")).succeed().await;
    ours(Agent::snapshot(&etcd, "u").volume(&stored, "")).succeed().await;
    let image = Image::of(Version::V3_6);
    let stages =
        |task| Agent::new(task).s3(s3, &name, "snap.db").image(&image).set(env::SCRATCH_DIR, scratch.display());
    ours(stages("preflight")).succeed().await;
    assert!(names(&scratch).is_empty());
    ours(stages("restore").member(&data)).succeed().await;
    assert_eq!(names(&data), ["member"]);
    for entry in walkdir::WalkDir::new(data.join("member")) {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let mode = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!((metadata.uid(), metadata.mode() & 0o777), (NONROOT, mode), "{}", entry.path().display());
    }
}
