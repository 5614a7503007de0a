//! The walkthrough under a platform: an application whose HelmRelease renders the EtcdCluster, with stand-ins for the
//! platform's API and for helm-controller that drive the real Helm and misbehave as the real ones can.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::walkthrough::Walk;
use crate::bed::guides;
use crate::bed::installation::kubectl;
use crate::bed::leash::Leash;
use crate::bed::tools::{tool, tree};
use crate::bed::{Node, wait_for};

const RELEASE: &str = "helmreleases.helm.toolkit.fluxcd.io";
const APPLICATION: &str = "etcds.apps.cozystack.io";
const RESTORE: &str = "restorejobs.backups.cozystack.io";
const CLUSTER: &str = "etcdclusters.etcd-operator.cozystack.io";
const WITHIN: Duration = Duration::from_mins(2);
/// How long an upgrade takes to begin in earnest, in the second half.
const SLOW: &str = "10";

/// A node of its own: where the platform's kinds are served, every walk goes through them.
struct Platform {
    node: Node,
    leash: Leash,
}

impl Platform {
    async fn start() -> Self {
        let node = tokio::task::spawn_blocking(|| {
            let node = Node::named(&format!("p{}", std::process::id()), &[]);
            let crds = tree().join("tests/cluster/stand-ins/platform/crds.yaml");
            let said = kubectl(&node, &["apply", "-f", &crds.display().to_string()]);
            assert!(said.contains("created"), "{said}");
            node
        });
        let platform = Self { node: node.await.expect("a node"), leash: Leash::new("platform") };
        platform.run("apps-api", "apps-api", &[]);
        platform.run("helm-controller", "helm-controller", &[]);
        platform
    }

    fn run(&self, name: &str, script: &str, more: &[&str]) {
        self.run_with(name, script, more, &[]);
    }

    fn run_with(&self, name: &str, script: &str, more: &[&str], settings: &[(&'static str, &str)]) {
        let folder = tree().join("tests/cluster/stand-ins/platform");
        let mut arguments = vec![folder.join(script).display().to_string()];
        if script == "helm-controller" {
            arguments.push(folder.join("chart").display().to_string());
        }
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        let mut environment = self.environment();
        environment.extend(settings.iter().map(|&(name, value)| (name, value.to_owned())));
        let environment: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.leash.start(name, "/bin/bash".as_ref(), &arguments, &environment);
    }

    /// Runs a command as a person would type it, from the top of the tree.
    fn follow(&self, command: &str) {
        follow(command, &self.environment());
    }

    async fn follow_meanwhile(&self, command: String) {
        let environment = self.environment();
        tokio::task::spawn_blocking(move || follow(&command, &environment)).await.expect("the command");
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let folder_of = |program: &str| tool(program).parent().expect("a folder").display().to_string();
        let path = format!("{}:{}:{}", folder_of("kubectl"), folder_of("helm"), std::env::var("PATH").unwrap());
        let home = self.leash.folder().display().to_string();
        vec![("KUBECONFIG", self.node.kubeconfig().display().to_string()), ("PATH", path), ("HOME", home)]
    }

    fn object(&self, walk: &Walk<'_>, kind: &str, name: &str) -> Value {
        let output = Command::new(tool("kubectl"))
            .arg("--kubeconfig")
            .arg(self.node.kubeconfig())
            .args(["-n", &walk.namespace, "get", kind, name, "--ignore-not-found", "-o", "json"])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    fn merge(&self, walk: &Walk<'_>, kind: &str, patch: &Value) {
        let said = kubectl(
            &self.node,
            &["-n", &walk.namespace, "patch", kind, "etcd", "--type=merge", "-p", &patch.to_string()],
        );
        assert!(said.contains("patched"), "{said}");
    }

    /// Waits until the restore has reached a step.
    async fn step(&self, walk: &Walk<'_>, uid_before: &Value, steps: &[&str]) {
        wait_for(format!("step {steps:?}"), WITHIN, async || {
            let job = self.object(walk, RESTORE, "etcd-restore-inplace");
            let step = job["status"]["step"].as_str().unwrap_or_default();
            let there = job["metadata"]["uid"] != *uid_before && steps.contains(&step);
            if there { Ok(()) } else { Err(format!("{}", job["status"])) }
        })
        .await;
    }

    /// Waits until Helm has brought a value of the application into the cluster, and is done: killed on the way, it
    /// would leave a release that no later run may touch.
    async fn rendered(&self, walk: &Walk<'_>, cpu: &str) {
        wait_for(format!("Helm to render cpu {cpu}"), WITHIN, async || {
            let cluster = self.object(walk, CLUSTER, "etcd");
            let found = &cluster["spec"]["resources"]["requests"]["cpu"];
            let release = self.object(walk, RELEASE, "etcd");
            let ready = release["status"]["conditions"][0]["status"] == "True";
            if found == cpu && ready { Ok(()) } else { Err(format!("cpu {found}, release {}", release["status"])) }
        })
        .await;
    }
}

fn follow(command: &str, environment: &[(&'static str, String)]) {
    let mut shell = Command::new("bash");
    shell.args(["-c", command]).current_dir(tree()).envs(environment.iter().map(|(name, value)| (name, value)));
    let output = shell.output().expect("run bash");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command}\n{said}");
}

fn suspended(release: &Value) -> &Value {
    &release["spec"]["suspend"]
}

fn with_cpu(cpu: &str) -> Value {
    json!({"spec": {"resources": {"cpu": cpu}}})
}

#[tokio::test]
async fn under_a_helm_release_that_others_meddle_with() {
    let platform = Platform::start().await;
    // As docs/install.md says, with the image that this tree builds.
    let mut install = guides::commands("docs/install.md").into_iter();
    let helm_install = install.next().expect("a command");
    let more = "--set=image.tag=dev --wait --timeout=120s";
    platform.follow(&format!("{helm_install} {more}"));
    platform.follow(&install.next().expect("a command"));

    let mut walk = Walk::on(&platform.node, "3.6.16", 1).await;
    walk.claims_bucket = true;
    platform.run_with("cosi", "cosi", &[], &walk.bucket_given());
    for class in ["BucketClass", "BucketAccessClass"] {
        let class =
            json!({"apiVersion": "objectstorage.k8s.io/v1alpha1", "kind": class, "metadata": {"name": "seaweedfs"}});
        platform.node.apply(&walk.namespace, &class.to_string()).await;
    }
    for script in ["01-create-strategy.sh", "02-create-bucket.sh", "03-create-etcd-src.sh"] {
        walk.run(script).await;
    }
    // Every Pod of ours is replaced while the backup runs.
    let upgrade =
        format!("{} {more} --set-string=podAnnotations.again=1", helm_install.replace(" install ", " upgrade "));
    let (said, ()) = tokio::join!(walk.run("04-create-backupjob.sh"), platform.follow_meanwhile(upgrade));
    assert!(said.contains("checksum"), "{said}");

    // The release is suspended meanwhile, and afterwards as it was found; the next upgrade goes through.
    let release = platform.object(&walk, RELEASE, "etcd");
    assert_eq!(*suspended(&release), Value::Null, "{release}");
    let (restored, ()) = tokio::join!(walk.run("05-restore-in-place.sh"), async {
        platform.step(&walk, &Value::Null, &["EtcdClusterSpecCaptured", "TargetPurged", "Recreated", "Verified"]).await;
        assert_eq!(*suspended(&platform.object(&walk, RELEASE, "etcd")), json!(true));
    });
    assert!(restored.contains("written-before-the-backup"), "{restored}");
    let release = platform.object(&walk, RELEASE, "etcd");
    assert!(matches!(suspended(&release), Value::Null | Value::Bool(false)), "{release}");
    platform.merge(&walk, APPLICATION, &with_cpu("110m"));
    platform.rendered(&walk, "110m").await;

    // An upgrade that is under way when the restore begins is waited for: what it renders is what comes back.
    platform.leash.kill("helm-controller");
    platform.run("slow-helm-controller", "helm-controller", &["--slow", SLOW]);
    let before = platform.object(&walk, RESTORE, "etcd-restore-inplace")["metadata"]["uid"].clone();
    platform.merge(&walk, APPLICATION, &with_cpu("120m"));
    wait_for("the upgrade to begin", WITHIN, async || {
        let release = platform.object(&walk, RELEASE, "etcd");
        let begun = release["status"]["conditions"].to_string().contains("Reconciling");
        if begun { Ok(()) } else { Err(release["status"].to_string()) }
    })
    .await;
    walk.run("05-restore-in-place.sh").await;
    let cluster = platform.object(&walk, CLUSTER, "etcd");
    assert_eq!(cluster["spec"]["resources"]["requests"]["cpu"], "120m", "{}", walk.scene());
    let second = platform.object(&walk, RESTORE, "etcd-restore-inplace")["metadata"]["uid"].clone();
    assert_ne!(before, second);

    // Somebody edits the application in mid-restore: the platform's write drops spec.suspend, and Helm runs.
    platform.leash.kill("slow-helm-controller");
    platform.run("quick-helm-controller", "helm-controller", &[]);
    let (restored, ()) = tokio::join!(walk.run("05-restore-in-place.sh"), async {
        platform.step(&walk, &second, &["EtcdClusterSpecCaptured", "TargetPurged", "Recreated"]).await;
        platform.merge(&walk, APPLICATION, &with_cpu("130m"));
        platform.merge(&walk, RELEASE, &json!({"spec": {"suspend": false},
            "metadata": {"annotations": {"reconcile.fluxcd.io/forceAt": "now", "reconcile.fluxcd.io/requestedAt": "now"}}}));
    });
    assert!(restored.contains("written-before-the-backup"), "{restored}\n{}", walk.scene());
    let release = platform.object(&walk, RELEASE, "etcd");
    assert!(matches!(suspended(&release), Value::Null | Value::Bool(false)), "{release}");

    // What the runbook shows; its last command takes admission away, until the next start.
    let commands = guides::commands("docs/runbook.md");
    assert!(commands.last().is_some_and(|last| last.starts_with("kubectl delete validatingwebhook")), "{commands:?}");
    for command in commands {
        platform.follow(&command.replace("restore-1", "etcd-restore-inplace").replace("tenant-root", &walk.namespace));
    }
    platform.follow("kubectl -n etcd-warden-system rollout restart deployment/etcd-warden");
    wait_for("the webhooks to be registered again", WITHIN, async || {
        let said = kubectl(&platform.node, &["get", "validatingwebhookconfiguration", "etcd-warden", "-o", "name"]);
        if said.contains("/etcd-warden") { Ok(()) } else { Err(said) }
    })
    .await;

    // Uninstalled: the cluster goes on, nothing is refused or held by nobody; then the same without Helm.
    let (crds, plain, uninstall) = (install.next(), install.next(), install.next());
    platform.follow(&uninstall.expect("a command"));
    assert_eq!(install.next(), None, "docs/install.md shows a command that nobody has tried");
    assert!(platform.object(&walk, CLUSTER, "etcd")["status"]["readyMembers"] == 1, "{}", walk.scene());
    let edited = ["annotate", CLUSTER, "etcd", "edited=yes", "-n", &walk.namespace];
    assert!(kubectl(&platform.node, &edited).contains("annotated"));
    let deleted = ["delete", RESTORE, "etcd-restore-inplace", "--timeout=30s", "-n", &walk.namespace];
    assert!(kubectl(&platform.node, &deleted).contains("deleted"));
    platform.follow(&crds.expect("a command"));
    let plain = plain.expect("a command");
    let manifest = plain.strip_prefix("kubectl apply -f ").expect("one manifest");
    platform.follow(&format!("sed 's#\\(etcd-warden/etcd-warden:\\)[^\"]*#\\1dev#' {manifest} | kubectl apply -f -"));
    platform.follow("kubectl -n etcd-warden-system rollout status deployment/etcd-warden --timeout=120s");
    walk.run("05-restore-in-place.sh").await;
    walk.run("cleanup.sh").await;
}
