//! The commands that the guides show for a cluster, with the real kubectl and Helm: run as they stand, with names for what
//! they leave open.

use std::path::Path;
use std::process::Command;

use crate::bed::control_plane::Options;
use crate::bed::guides::of_tier;
use crate::bed::tools::{tool, tree};
use crate::bed::warden::served;
use crate::bed::{ControlPlane, Identity, Warden};

const NAMESPACE: &str = "etcd-warden-system";

/// What the commands speak of: upstream's controllers, and objects of a tenant.
const AROUND: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: cozy-etcd-operator}
---
apiVersion: v1
kind: Namespace
metadata: {name: cozy-backup-controller}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant-root}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: etcd-operator, namespace: cozy-etcd-operator}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: backupstrategy-controller, namespace: cozy-backup-controller}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}
";
const OBJECTS: &str = "
apiVersion: backups.cozystack.io/v1alpha1
kind: BackupJob
metadata: {name: job, namespace: tenant-root}
spec: {applicationRef: {kind: Etcd, name: etcd}, backupClassName: etcd}
---
apiVersion: backups.cozystack.io/v1alpha1
kind: RestoreJob
metadata: {name: job, namespace: tenant-root, finalizers: [etcd-warden.io/restore]}
spec: {backupRef: {name: backup}}
";

fn follow(kubeconfig: &Path, command: &str) {
    let folders = [tool("kubectl"), tool("helm"), env!("CARGO_BIN_EXE_etcd-warden").into()]
        .map(|program| program.parent().unwrap().display().to_string());
    // What watches goes on until somebody ends it.
    let (command, ended) = match command.strip_suffix(" -w") {
        Some(_) => (format!("timeout 3 {command}"), 124),
        None => (command.to_owned(), 0),
    };
    let output = Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", &command])
        .current_dir(tree())
        .env("KUBECONFIG", kubeconfig)
        .env("PATH", format!("{}:{}", folders.join(":"), std::env::var("PATH").unwrap()))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(ended), "{command}: {said}");
}

/// Definitions and the installation first, the way out of admission and of the installation last.
fn turn(command: &str) -> usize {
    let order = ["crds |", " scale ", "helm install", "", "delete validatingwebhookconfiguration", "helm uninstall"];
    let found = order.iter().position(|word| !word.is_empty() && command.contains(word));
    found.unwrap_or(3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_guides_show_for_a_cluster_works_as_it_stands() {
    let bed = ControlPlane::start(Options::default()).await;
    bed.apply("", AROUND).await;
    let mut commands = of_tier("control-plane");
    commands.sort_by_key(|command| turn(command));
    let (install, work) = commands.split_at(commands.iter().position(|command| turn(command) == 3).unwrap());
    for command in install {
        follow(bed.kubeconfig(), command);
    }
    served(&bed).await;
    bed.apply("", OBJECTS).await;
    // The chart's Pods do not start here; this one makes the webhook configurations as they would.
    let account = Identity::ServiceAccount { namespace: NAMESPACE.to_owned(), name: "etcd-warden".to_owned() };
    let kubeconfig = bed.kubeconfig_as(&account).await;
    let flags = ["--webhook-owner=etcd-warden", "--controllers=plan"];
    let warden = Warden::start_as(&bed, &kubeconfig, NAMESPACE, &flags);
    warden.wait_ready().await;
    warden.wait_enforced(&bed.client().await).await;
    for command in work {
        follow(
            bed.kubeconfig(),
            &command
                .replace("NAME --", "job --")
                .replace("backupjob NAME", "backupjob job")
                .replace("{name: NAME}", "{name: backup}"),
        );
    }
}
