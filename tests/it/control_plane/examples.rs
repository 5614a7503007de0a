//! The manifests in examples/, submitted with kubectl as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::bed::control_plane::Options;
use crate::bed::tools::{tool, tree};
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Warden, wait_for};

fn manifests(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(tree().join("examples").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "examples/{folder} has no manifests");
    files
}

fn kubectl(bed: &ControlPlane, namespace: &str, arguments: &[&str], file: &Path) -> Output {
    Command::new(tool("kubectl"))
        .args(["--kubeconfig", bed.kubeconfig().to_str().unwrap(), "--namespace", namespace])
        .args(arguments)
        .arg("--filename")
        .arg(file)
        .output()
        .expect("run kubectl")
}

#[tokio::test]
async fn what_the_examples_show_is_admitted_or_refused_as_they_say() {
    let bed = ControlPlane::start(Options::default()).await;
    install_crds(&bed).await;
    let warden = Warden::start(&bed, &["--controllers=etcdmember"]).await;
    warden.wait_ready().await;
    let tenant = bed.namespace("tenant").await;

    // A Backup for them to be about.
    let backup = r"
apiVersion: backups.cozystack.io/v1alpha1
kind: Backup
metadata: {name: etcd-backup-job}
spec:
  applicationRef: {apiGroup: apps.cozystack.io, kind: Etcd, name: etcd}
  strategyRef: {apiGroup: strategy.backups.cozystack.io, kind: Etcd, name: etcd-strategy-default}
  takenAt: 2026-01-01T00:00:00Z
status: {phase: Ready, artifact: {uri: 's3://etcd-backups/tenant-root/etcd/x.db'}}";
    bed.apply(&tenant, backup).await;

    let strict = ["create", "--dry-run=server", "--validate=strict"];
    for file in manifests("manifests") {
        let output = kubectl(&bed, &tenant, &strict, &file);
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    }
    for file in manifests("refused") {
        wait_for(format!("{} to be refused", file.display()), std::time::Duration::from_secs(10), async || {
            let output = kubectl(&bed, &tenant, &strict, &file);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // Refused for its content, not because it does not decode.
            if !output.status.success() && said.contains("spec.") {
                Ok(())
            } else {
                Err(format!("kubectl said: {said}"))
            }
        })
        .await;
    }
}
