//! The commands that the guides show, of our programs alone: run as they stand, with names for what they leave open.

use std::path::Path;
use std::process::Command;

use super::agents::offline::stored;
use crate::bed::etcd::Version;
use crate::bed::guides::of_tier;
use crate::bed::tools::tree;
use crate::bed::{Warden, use_ring};

const PROGRAM: &str = env!("CARGO_BIN_EXE_etcd-warden");

const CLUSTER: &str = "apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata: {name: etcd, namespace: a}
spec: {version: 3.6.11, replicas: 3}
";
const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: house.example}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [etcd-operator.cozystack.io], apiVersions: ['*'], operations: [CREATE], resources: [etcdclusters]}
  validations: [{expression: object.spec.replicas <= 3, message: 'spec.replicas: too many for this house'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: house.example}
spec: {policyName: house.example, validationActions: [Deny]}
";
const CASES: &str = "case: three
object: {apiVersion: etcd-operator.cozystack.io/v1alpha2, kind: EtcdCluster, metadata: {name: x, namespace: a}, spec: {version: 3.6.1, replicas: 3}}
";

/// A synopsis stands for several commands, or leaves out what is given: then their help must know the words.
fn invocations(command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split(' ').collect();
    let choices = words.iter().position(|word| word.contains('|') && *word != "|");
    if let Some(at) = choices {
        let each = words[at].split('|');
        return each.map(|choice| format!("{} {choice} --help", words[..at].join(" "))).collect();
    }
    let incomplete =
        ["check", "check -o json", "snapshot", "snapshot verify"].map(|words| format!("etcd-warden {words}"));
    let serves = ["etcd-warden serve", "etcd-warden-agent "].iter().any(|begin| command.starts_with(begin));
    if serves || incomplete.iter().any(|words| words == command) {
        return vec![format!("{} --help", command.replace(['[', ']'], "").replace("...", ""))];
    }
    vec![command.replace("NAME...", "NAME").replace("PATH...", "PATH")]
}

fn follow(folder: &Path, command: &str) -> Result<(), String> {
    let programs = Path::new(PROGRAM).parent().unwrap().display().to_string();
    let output = Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", command])
        .current_dir(folder)
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if output.status.success() { Ok(()) } else { Err(format!("{command}: {}: {said}", output.status)) }
}

#[tokio::test]
async fn what_the_guides_show_of_our_programs_works_as_it_stands() {
    use_ring();
    let warden = Warden::standalone(&[]);
    warden.wait_ready().await;
    let (snapshot, artifact) = stored(Version::V3_6).await;
    let folder = snapshot.path();
    std::fs::rename(folder.join("snap.db"), folder.join("etcd.db")).unwrap();
    std::fs::copy(warden.own_authority(), folder.join("ca.crt")).unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    for (file, text) in
        [("objects.yaml", CLUSTER), ("file.yaml", CLUSTER), ("cases.yaml", CASES), ("folder/policy.yaml", POLICY)]
    {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let names = [
        ("HOST:9443", warden.address().to_string()),
        ("--directory DIR", "--directory certificates".to_owned()),
        ("--name NAME", "--name localhost".to_owned()),
        ("inspect PATH", "inspect certificates".to_owned()),
        ("FILE", "file.yaml".to_owned()),
        ("FOLDER", "folder".to_owned()),
        ("CASES", "cases.yaml".to_owned()),
        ("3b0f...", artifact.sha256.clone()),
        ("24608", artifact.size_bytes.to_string()),
    ];
    let (root, mut failed) = (tree().to_owned(), Vec::new());
    for shown in of_tier("process") {
        for command in invocations(&shown) {
            let command = names.iter().fold(command, |command, (open, name)| command.replace(open, name));
            // What is run from the root of the tree says so by naming what is in it.
            let of_tree = command.starts_with("make ") || command.starts_with("tests/");
            failed.extend(follow(if of_tree { &root } else { folder }, &command).err());
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
