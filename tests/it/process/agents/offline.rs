//! `etcd-warden snapshot`: for people with a file in their hands.

use super::{Agent, filled};
use crate::bed::etcd::Version;
use etcd_warden::api::agent::Artifact;
use std::path::Path;
use std::process::{Command, Output};

fn warden(arguments: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_etcd-warden")).arg("snapshot").args(arguments).arg(file).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A snapshot of a version, in a folder.
pub async fn stored(version: Version) -> (tempfile::TempDir, Artifact) {
    let folder = tempfile::tempdir().unwrap();
    let report = Agent::snapshot(&filled(version).await, "u").volume(folder.path(), "").succeed().await;
    (folder, report.artifact.unwrap())
}

#[tokio::test]
async fn a_snapshot_is_inspected_and_held_to_what_was_recorded() {
    for version in [Version::V3_4, Version::V3_7] {
        let (folder, artifact) = stored(version).await;
        let file = folder.path().join("snap.db");
        let inspected = warden(&["inspect"], &file);
        assert!(inspected.status.success());
        for line in [
            format!("size: {}", artifact.size_bytes),
            format!("sha256: {}", artifact.sha256),
            "etcd database: yes".to_owned(),
            "appended sha256: matches the content".to_owned(),
        ] {
            assert!(said(&inspected).lines().any(|told| told == line), "{line:?} is not in {}", said(&inspected));
        }
        let size = artifact.size_bytes.to_string();
        let recorded = format!("sha256:{}", artifact.sha256.to_ascii_uppercase());
        assert!(warden(&["verify"], &file).status.success());
        assert!(warden(&["verify", "--sha256", &artifact.sha256, "--size", &size], &file).status.success());
        assert!(warden(&["verify", "--sha256", &recorded], &file).status.success());
        for (arguments, words) in
            [(["verify", "--sha256", &"0".repeat(64)], "another object"), (["verify", "--size", "1"], "1 are recorded")]
        {
            let refused = warden(&arguments, &file);
            assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
            assert!(said(&refused).contains(words), "{}", said(&refused));
        }
    }
}

#[tokio::test]
async fn damage_is_told_and_refused() {
    let (folder, _) = stored(Version::V3_6).await;
    let good = std::fs::read(folder.path().join("snap.db")).unwrap();
    let file = folder.path().join("damaged.db");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for (bytes, trailer, words) in [
        (flipped, "does not match the content", "does not match"),
        (good[..good.len() - 32].to_vec(), "absent", "lacks"),
        (b"no database".to_vec(), "absent", "no etcd snapshot"),
        (Vec::new(), "absent", "no etcd snapshot"),
    ] {
        std::fs::write(&file, &bytes).unwrap();
        let told = warden(&["inspect"], &file);
        assert!(told.status.success() && said(&told).contains(trailer), "{}", said(&told));
        let refused = warden(&["verify"], &file);
        assert_eq!(refused.status.code(), Some(1));
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
    // A member's own file has no SHA-256 appended, and passes only as such.
    std::fs::write(&file, &good[..good.len() - 32]).unwrap();
    assert!(warden(&["verify", "--member-database"], &file).status.success());
    let absent = warden(&["inspect"], Path::new("/nowhere/snap.db"));
    assert_eq!(absent.status.code(), Some(1));
    assert!(said(&absent).contains("/nowhere/snap.db"), "{}", said(&absent));
}
