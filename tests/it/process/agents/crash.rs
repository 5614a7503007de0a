//! SIGKILL at every step, and SIGTERM: what is there afterwards, and what the next run makes of it.

use super::{Agent, Image, bucket_name, client, fatten, filled, names};
use crate::bed::S3Server;
use crate::bed::etcd::Version;
use etcd_warden::api::agent::{Reason, env};
use object_store::ObjectStoreExt;
use object_store::path::Path;

/// More steps than any task has.
const MANY: usize = 30;

/// S10: whenever it dies, the same snapshot can be tried again.
#[tokio::test]
async fn a_snapshot_killed_at_any_step_leaves_the_name_free_or_its_own() {
    let s3 = S3Server::shared().await;
    let etcd = filled(Version::V3_6).await;
    fatten(&client(&etcd).await, 11).await;
    let name = bucket_name("killed");
    let bucket = s3.bucket(&name).await;
    let volume = tempfile::tempdir().unwrap();
    for in_bucket in [true, false] {
        let mut ends = 0;
        for n in 1..MANY {
            let key = format!("step-{n}");
            let agent = |uid: &str| {
                let agent = Agent::snapshot(&etcd, uid);
                if in_bucket { agent.s3(s3, &name, &key) } else { agent.volume(volume.path(), &key) }
            };
            let mut running = agent("mine").start();
            let Some(step) = running.step(n).await else {
                ends = n;
                break;
            };
            running.kill().await;
            let file = volume.path().join(&key).join("snap.db");
            let there = if in_bucket {
                bucket.head(&Path::from(format!("{key}/snap.db"))).await.is_ok()
            } else {
                file.exists()
            };
            // The same EtcdSnapshot goes on where it was; another's may have the name only where nothing is stored.
            if there {
                agent("other").fail(Reason::ObjectOwnedByAnother).await;
                agent("mine").succeed().await;
            } else if n % 2 == 0 {
                agent("other").succeed().await;
            } else {
                agent("mine").succeed().await;
            }
            if !in_bucket {
                assert_eq!(names(file.parent().unwrap()), ["snap.db", "snap.db.uid"], "{step}");
            }
        }
        assert!(ends > 6, "only {ends} steps were seen");
    }
}

#[tokio::test]
async fn a_restore_killed_at_any_step_is_finished_by_the_next() {
    let s3 = S3Server::shared().await;
    let etcd = filled(Version::V3_6).await;
    let name = bucket_name("killed-restore");
    s3.bucket(&name).await;
    Agent::snapshot(&etcd, "u").s3(s3, &name, "").succeed().await;
    let image = Image::of(Version::V3_6);
    let mut ends = 0;
    for n in 1..MANY {
        let data = tempfile::tempdir().unwrap();
        let agent = Agent::new("restore").s3(s3, &name, "snap.db").image(&image).member(data.path());
        let mut running = agent.start();
        let Some(step) = running.step(n).await else {
            ends = n;
            break;
        };
        running.kill().await;
        let initialised = data.path().join("member").exists();
        let report = agent.succeed().await;
        let expected = if initialised { Reason::AlreadyInitialised } else { Reason::Completed };
        assert_eq!(report.reason, expected, "{step}");
        assert_eq!(names(data.path()), ["member"], "{step}");
        assert!(data.path().join("member/snap/db").is_file() && data.path().join("member/wal").is_dir(), "{step}");
    }
    assert!(ends > 8, "only {ends} steps were seen");
}

#[tokio::test]
async fn a_preflight_killed_at_any_step_is_done_again_and_leaves_nothing() {
    let s3 = S3Server::shared().await;
    let etcd = filled(Version::V3_6).await;
    let name = bucket_name("killed-preflight");
    s3.bucket(&name).await;
    Agent::snapshot(&etcd, "u").s3(s3, &name, "").succeed().await;
    let image = Image::of(Version::V3_6);
    let mut seen = Vec::new();
    for n in 1..MANY {
        let scratch = tempfile::tempdir().unwrap();
        let agent = Agent::new("preflight").s3(s3, &name, "snap.db").image(&image);
        let agent = agent.set(env::SCRATCH_DIR, scratch.path().display());
        let mut running = agent.start();
        let Some(step) = running.step(n).await else { break };
        running.kill().await;
        let rehearsal = agent.succeed().await.rehearsal.unwrap();
        assert_eq!(rehearsal.keys, 35, "{step}");
        assert!(names(scratch.path()).is_empty(), "{step}: {:?}", names(scratch.path()));
        seen.push(step);
    }
    for step in ["download-started", "snapshot-verified", "rebuilt", "etcd-started", "etcd-ready", "inspected"] {
        assert!(seen.iter().any(|seen| seen == step), "{step} was not among {seen:?}");
    }
}

#[tokio::test]
async fn leftovers_of_other_runs_and_other_agents_are_removed_and_nothing_else() {
    let etcd = filled(Version::V3_6).await;
    let volume = tempfile::tempdir().unwrap();
    Agent::snapshot(&etcd, "u").volume(volume.path(), "").succeed().await;
    let image = Image::of(Version::V3_6);
    let data = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    for folder in [data.path(), scratch.path()] {
        std::fs::create_dir_all(folder.join(".etcd-warden-restore/data/member/snap")).unwrap();
        std::fs::write(folder.join(".etcd-warden-restore/data/member/snap/db"), "half").unwrap();
    }
    std::fs::create_dir_all(data.path().join(".restore/member")).unwrap();
    std::fs::write(data.path().join("etcd-restore-123.db"), "half").unwrap();
    std::fs::create_dir(data.path().join("lost+found")).unwrap();
    std::fs::write(scratch.path().join("theirs"), "kept").unwrap();
    let restore = Agent::new("restore")
        .volume(volume.path(), "snap.db")
        .image(&image)
        .member(data.path())
        .set(env::SCRATCH_DIR, scratch.path().display());
    restore.succeed().await;
    assert_eq!(names(data.path()), ["lost+found", "member"]);
    assert_eq!(names(scratch.path()), ["theirs"]);
    // Again, over an initialised directory and without any setting but its name.
    let report = Agent::new("restore").set(env::ETCD_DATA_DIR, data.path().display()).succeed().await;
    assert_eq!(report.reason, Reason::AlreadyInitialised);
}

#[tokio::test]
async fn sigterm_ends_a_task_in_order() {
    let s3 = S3Server::shared().await;
    let etcd = filled(Version::V3_6).await;
    fatten(&client(&etcd).await, 30).await;
    let name = bucket_name("terminated");
    let bucket = s3.bucket(&name).await;
    let mut running = Agent::snapshot(&etcd, "u").s3(s3, &name, "").start();
    running.until("stream-opened").await;
    running.terminate();
    let ended = running.end().await;
    let report = ended.report.unwrap();
    // On a fast machine the rest may be stored before the signal is heard.
    if !report.ok {
        assert_eq!((report.reason, ended.code), (Reason::Interrupted, Some(1)));
        assert!(bucket.head(&Path::from("snap.db")).await.is_err());
        assert_eq!(ended.steps.iter().filter(|step| *step == "upload-aborted").count(), 1);
    }

    Agent::snapshot(&etcd, "u").s3(s3, &name, "").succeed().await;
    let image = Image::of(Version::V3_6);
    let (data, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (task, until) in [("restore", "download-started"), ("preflight", "etcd-started")] {
        let agent = Agent::new(task).s3(s3, &name, "snap.db").image(&image).member(data.path());
        let mut running = agent.set(env::SCRATCH_DIR, scratch.path().display()).start();
        running.until(until).await;
        running.terminate();
        let ended = running.end().await;
        assert_eq!(ended.code, Some(1), "{}", ended.log);
        assert_eq!(ended.report.unwrap().reason, Reason::Interrupted);
        assert!(names(data.path()).is_empty() && names(scratch.path()).is_empty(), "{task}");
    }
}
