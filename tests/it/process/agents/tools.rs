//! The program itself: where it can run, and what it is made of.

use super::{AGENT, Agent, Image, filled, names};
use crate::bed::etcd::Version;
use crate::bed::s3::OWNER;
use crate::bed::tools::tree;
use etcd_warden::api::agent::{Reason, TOOL_NAME, env};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[tokio::test]
async fn the_agent_installs_itself_in_one_step_and_the_copy_works() {
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("made/on/the/way");
    let install = Agent::new("install-tools").set(env::TOOLS_DEST_DIR, folder.display());
    for _ in 0..2 {
        install.succeed().await;
        assert_eq!(names(&folder), [TOOL_NAME]);
    }
    let copy = folder.join(TOOL_NAME);
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(AGENT).unwrap());
    let etcd = filled(Version::V3_6).await;
    let volume = tempfile::tempdir().unwrap();
    Agent::snapshot(&etcd, "u").volume(volume.path(), "").program(&copy).succeed().await;
}

#[tokio::test]
async fn a_copy_that_cannot_run_is_not_left_there() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        Command::new("mount").args(["-t", "tmpfs", "-o", "noexec", "tmpfs"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "mount needs root: {}", String::from_utf8_lossy(&output.stderr));
    let ended = Agent::new("install-tools").set(env::TOOLS_DEST_DIR, folder.path().display()).run().await;
    let left = names(folder.path());
    let _ = Command::new("umount").arg("-l").arg(folder.path()).status();
    assert_eq!(ended.report.unwrap().reason, Reason::FilesystemFailed);
    assert!(left.is_empty(), "{left:?}");
}

/// A root with nothing in it but what a Pod always has, and an `nsswitch.conf` that would lead any C library astray.
#[tokio::test]
async fn names_resolve_in_a_root_without_a_c_library_and_with_a_hostile_nsswitch() {
    let etcd = filled(Version::V3_6).await;
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    for folder in ["etc", "tools", "volume", "tmp"] {
        std::fs::create_dir(path(folder)).unwrap();
    }
    std::fs::copy(AGENT, path("tools/agent")).unwrap();
    // Every container has these devices.
    std::fs::create_dir(path("dev")).unwrap();
    for (name, minor) in [("random", "8"), ("urandom", "9")] {
        let made = Command::new("mknod").arg(path("dev").join(name)).args(["c", "1", minor]).status().unwrap();
        assert!(made.success(), "mknod needs root");
    }
    std::fs::write(path("etc/nsswitch.conf"), "hosts: [!UNAVAIL=return] nonsense\npasswd: nonsense\n").unwrap();
    std::fs::write(path("etc/hosts"), "127.0.0.1 etcd-of-the-test\n").unwrap();
    let port = etcd.endpoints()[0].rsplit(':').next().unwrap().to_owned();
    for host in ["etcd-of-the-test", "localhost", "127.0.0.1"] {
        let output = Command::new("/usr/sbin/chroot")
            .arg(root.path())
            .args(["/tools/agent", "snapshot"])
            .env_clear()
            .env(env::ETCD_ENDPOINTS, format!("http://{host}:{port}"))
            .env(env::SNAPSHOT_NAME, host)
            .env(env::SNAPSHOT_UID, "u")
            .env(env::SNAPSHOT_DEST_KIND, "pvc")
            .env(env::PVC_MOUNT_PATH, "/volume")
            .env("TERMINATION_MESSAGE_PATH", "/tmp/message")
            .output()
            .unwrap();
        assert!(output.status.success(), "{host}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(path(&format!("volume/{host}.db")).is_file());
    }
}

#[tokio::test]
async fn etcdutl_is_found_before_a_byte_is_fetched_and_all_tried_places_are_named() {
    let data = tempfile::tempdir().unwrap();
    let configured = data.path().join("not-executable");
    std::fs::write(&configured, "").unwrap();
    // The store does not even exist: nobody asks it.
    let restore = Agent::new("restore")
        .s3_at("https://no-such-host.invalid", "b", "k")
        .keys(&OWNER)
        .member(data.path())
        .image(&Image::of(Version::V3_4))
        .set(env::ETCDUTL_PATH, configured.display());
    let report = restore.fail(Reason::EtcdutlNotFound).await;
    for place in [configured.to_str().unwrap(), "/usr/local/bin/etcdutl", &restore.vars["PATH"]] {
        assert!(report.message.contains(place), "{place}: {}", report.message);
    }
    // An image that ships none can be given one.
    let etcd = filled(Version::V3_4).await;
    let volume = tempfile::tempdir().unwrap();
    Agent::snapshot(&etcd, "u").volume(volume.path(), "").succeed().await;
    let declared = Version::V3_5.etcdutl().unwrap();
    let restore = restore.volume(volume.path(), "snap.db").set(env::ETCDUTL_PATH, declared.display());
    let report = restore.succeed().await;
    assert_eq!(report.restore.unwrap().etcdutl_version, Version::V3_5.number());
}

#[test]
fn arguments_are_few_and_versions_are_told() {
    let told = Command::new(AGENT).arg("--version").output().unwrap();
    assert_eq!(
        String::from_utf8(told.stdout).unwrap().trim(),
        concat!("etcd-warden-agent ", env!("CARGO_PKG_VERSION"))
    );
    for arguments in [&[][..], &["no-such-task"], &["snapshot", "--password=x"]] {
        assert_eq!(Command::new(AGENT).args(arguments).output().unwrap().status.code(), Some(2));
    }
}

/// The agent is copied into other people's images: what it does not need is not in it.
#[test]
fn the_agent_is_built_without_kubernetes_and_without_servers() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(["--no-default-features", "--features", "agent"])
        .current_dir(tree())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let crates: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"object_store") && crates.contains(&"rustls"), "{crates:?}");
    for banned in [
        "kube",
        "kube-client",
        "k8s-openapi",
        "cel",
        "kube-cel",
        "jsonschema",
        "schemars",
        "axum",
        "axum-server",
        "gotmpl",
        "etcd-client",
        "aws-lc-rs",
        "aws-lc-sys",
        "openssl",
        "openssl-sys",
        "native-tls",
    ] {
        assert!(!crates.contains(&banned), "the agent depends on {banned}");
    }
}

#[test]
fn the_agent_needs_no_library_of_its_host() {
    let bytes = std::fs::read(Path::new(AGENT)).unwrap();
    assert_eq!(&bytes[..4], b"\x7fELF");
    let interpreter = b"/lib64/ld-linux-x86-64.so.2\0";
    let headers = &bytes[..4096];
    assert!(!headers.windows(interpreter.len()).any(|window| window == interpreter), "it is linked dynamically");
}
