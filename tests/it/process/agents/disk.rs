//! Volumes that are full, read-only, or small beside a scratch volume.

use super::{AGENT, Agent, Image, bucket_name, client, fatten, filled, names};
use crate::bed::S3Server;
use crate::bed::etcd::Version;
use etcd_warden::api::agent::{Reason, env};
use std::os::unix::fs::PermissionsExt;
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

/// Runs an agent and gives what it made durable (`sync PATH`) and renamed (`name PATH`), in this order. With `last`, only
/// what the thread did that gave this name at the end: etcdutl, another process, syncs what it likes.
async fn traced(agent: Agent, last: Option<&Path>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (script, log) = (folder.path().join("agent"), folder.path().join("log"));
    let trace = "trace=fsync,fdatasync,rename,renameat,renameat2";
    let line = format!("exec /usr/bin/strace -f -y -s 4096 -e {trace} -o {} {AGENT} \"$@\"", log.display());
    std::fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Path::new("/usr/bin/strace").exists(), "this needs strace: apt-get install strace");
    agent.program(&script).succeed().await;
    let log = std::fs::read_to_string(&log).unwrap();
    let named = last.map(|name| format!("\"{}\"", name.display()));
    let at_end = named.and_then(|name| log.lines().find(|line| line.contains("rename") && line.contains(&name)));
    let thread = at_end.and_then(|line| line.split_whitespace().next()).unwrap_or_default();
    let calls = log.lines().filter(|line| last.is_none() || line.split_whitespace().next() == Some(thread));
    let call = |line: &str| {
        let (_, call) = line.split_once(' ')?;
        let call = call.trim_start();
        if call.starts_with("fsync(") || call.starts_with("fdatasync(") {
            return Some(format!("sync {}", call.split_once('<')?.1.split_once('>')?.0));
        }
        // The last text in quotes is the new name.
        call.starts_with("rename").then(|| call.rsplit('"').nth(1).map(|name| format!("name {name}")))?
    };
    calls.filter_map(call).collect()
}

fn at(calls: &[String], call: &str, path: &Path) -> usize {
    let wanted = format!("{call} {}", path.display());
    calls.iter().position(|call| *call == wanted).unwrap_or_else(|| panic!("no {wanted} in {calls:#?}"))
}

/// O2, S10: a power loss leaves either nothing under the name, or all of it: content first, then the name, then the
/// folder that holds the name. The owner of a file is known before the file shows.
#[tokio::test]
async fn nothing_has_its_name_before_it_is_durable() {
    let etcd = filled(Version::V3_6).await;
    let volume = tempfile::tempdir().unwrap();
    let calls = traced(Agent::snapshot(&etcd, "u").volume(volume.path(), "deep"), None).await;
    let folder = volume.path().join("deep");
    let named = at(&calls, "name", &folder.join("snap.db"));
    assert!(at(&calls, "sync", &folder.join("snap.db.uid")) < at(&calls, "sync", &folder));
    assert!(at(&calls, "sync", &folder) < named);
    // What is written first has a name of its own: the file's, the attempt's, and an ending.
    let temporary = format!("sync {}.", folder.join("snap.db").display());
    let content = |call: &String| call.starts_with(&temporary) && !call.contains(".uid");
    assert!(calls.iter().position(content).is_some_and(|content| content < named), "{calls:#?}");
    assert!(calls[named..].contains(&format!("sync {}", folder.display())), "{calls:#?}");

    let image = Image::of(Version::V3_6);
    let data = tempfile::tempdir().unwrap();
    let restore = Agent::new("restore").volume(volume.path(), "deep/snap.db").image(&image).member(data.path());
    let member = data.path().join("member");
    let calls = traced(restore, Some(&member)).await;
    let named = at(&calls, "name", &member);
    let staged = data.path().join(".etcd-warden-restore/data/member");
    let all = walkdir::WalkDir::new(&member).into_iter().map(Result::unwrap);
    let below = all.map(|entry| entry.path().strip_prefix(&member).unwrap().to_owned());
    let below: Vec<PathBuf> = below.filter(|path| !path.as_os_str().is_empty()).collect();
    assert!(below.contains(&"snap/db".into()) && below.len() >= 4, "{below:?}");
    for path in below.iter().map(|path| staged.join(path)).chain([staged.clone()]) {
        assert!(at(&calls, "sync", &path) < named, "{}: {calls:#?}", path.display());
    }
    assert!(at(&calls, "sync", data.path()) > named);
}
