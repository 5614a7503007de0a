//! Volumes that are full, read-only, or small beside a scratch volume.

use super::{Agent, Image, bucket_name, client, fatten, filled, names};
use crate::bed::S3Server;
use crate::bed::etcd::Version;
use etcd_warden::api::agent::{Reason, env};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A filesystem in memory, gone with this value.
struct Volume {
    folder: tempfile::TempDir,
}

impl Volume {
    fn new(mebibytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"], folder.path());
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn read_only(&self) {
        mount(&["-o", "remount,ro"], self.folder.path());
    }
}

fn mount(arguments: &[&str], at: &Path) {
    let output = Command::new("mount").args(arguments).arg(at).output().unwrap();
    assert!(output.status.success(), "mount needs root: {}", String::from_utf8_lossy(&output.stderr));
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

#[tokio::test]
async fn room_is_looked_for_where_the_bytes_will_go() {
    let s3 = S3Server::shared().await;
    let etcd = filled(Version::V3_6).await;
    fatten(&client(&etcd).await, 20).await;
    let name = bucket_name("room");
    s3.bucket(&name).await;
    let size = Agent::snapshot(&etcd, "u").s3(s3, &name, "").succeed().await.artifact.unwrap().size_bytes;
    assert!(size > 20 << 20);
    let image = Image::of(Version::V3_6);
    let restore = |data: &Path| Agent::new("restore").s3(s3, &name, "snap.db").image(&image).member(data);

    // Room for the rebuilt data alone: the download needs a scratch volume, and a scratch folder on the same volume is
    // none.
    let data = Volume::new(115);
    let report = restore(&data.path()).fail(Reason::InsufficientSpace).await;
    assert!(report.message.contains("free"), "{}", report.message);
    let beside = data.path().join("scratch");
    std::fs::create_dir(&beside).unwrap();
    restore(&data.path()).set(env::SCRATCH_DIR, beside.display()).fail(Reason::InsufficientSpace).await;
    let scratch = Volume::new(40);
    restore(&data.path()).set(env::SCRATCH_DIR, scratch.path().display()).succeed().await;
    assert_eq!(names(&data.path()), ["member", "scratch"]);
    assert!(names(&scratch.path()).is_empty());

    let (data, tiny) = (Volume::new(115), Volume::new(10));
    restore(&data.path()).set(env::SCRATCH_DIR, tiny.path().display()).fail(Reason::InsufficientSpace).await;
    assert!(names(&data.path()).is_empty() && names(&tiny.path()).is_empty());
    // A rehearsal needs room, too, and says so before it fetches anything.
    let preflight = Agent::new("preflight").s3(s3, &name, "snap.db").image(&image);
    let ended = preflight.set(env::SCRATCH_DIR, data.path().display()).run().await;
    assert_eq!(ended.report.unwrap().reason, Reason::InsufficientSpace);
    assert!(!ended.steps.iter().any(|step| step == "download-started"));
}

#[tokio::test]
async fn a_volume_that_fills_up_on_the_way_is_told_and_cleaned() {
    let etcd = filled(Version::V3_6).await;
    fatten(&client(&etcd).await, 8).await;
    let full = Volume::new(4);
    let report = Agent::snapshot(&etcd, "u").volume(&full.path(), "").fail(Reason::InsufficientSpace).await;
    assert!(report.message.contains("No space left") || report.message.contains("storage"), "{}", report.message);
    assert_eq!(names(&full.path()), ["snap.db.uid"]);
}

#[tokio::test]
async fn a_read_only_volume_is_told() {
    let etcd = filled(Version::V3_6).await;
    let volume = Volume::new(200);
    let stored = tempfile::tempdir().unwrap();
    Agent::snapshot(&etcd, "u").volume(stored.path(), "").succeed().await;
    volume.read_only();
    Agent::snapshot(&etcd, "u").volume(&volume.path(), "").fail(Reason::FilesystemFailed).await;
    let image = Image::of(Version::V3_6);
    let restore = Agent::new("restore").volume(stored.path(), "snap.db").image(&image).member(&volume.path());
    restore.fail(Reason::FilesystemFailed).await;
    // A source that cannot be written to is all that a restore needs.
    let source = Volume::new(200);
    std::fs::copy(stored.path().join("snap.db"), source.path().join("snap.db")).unwrap();
    source.read_only();
    let data = tempfile::tempdir().unwrap();
    Agent::new("restore").volume(&source.path(), "snap.db").image(&image).member(data.path()).succeed().await;
}
