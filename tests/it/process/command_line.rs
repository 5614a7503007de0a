//! The command line, as people and pipelines use it: what it prints, and how it ends.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::HOUSE;

const PROGRAM: &str = env!("CARGO_BIN_EXE_etcd-warden");

/// How the program ended: exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    run_with(arguments, "")
}

fn run_with(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

const GOOD: &str = "apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata: {name: etcd, namespace: a}
spec: {version: 3.6.11, replicas: 3}
";
const BAD: &str = "apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata: {name: 2nd, namespace: a}
spec: {version: 3.6.11, replicas: 2}
";
const OTHER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n";

#[test]
fn check_says_by_its_exit_code_whether_anything_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "good.yaml", GOOD);
    let bad = write(folder.path(), "bad.yaml", BAD);
    let broken = write(folder.path(), "broken.json", "{\"a\": ");
    assert_eq!(run(&["check", "-f", &good]).0, 0);
    let (code, out, err) = run(&["check", "-f", &good, "-f", &bad]);
    assert_eq!(code, 1);
    assert!(err.contains("1 of 2 objects are refused"), "{err}");
    let pointed = format!("{bad}:1: EtcdCluster 2nd: refused\n  {bad}:3: Deny: metadata.name: ");
    assert!(out.contains(&pointed), "{out}");
    assert!(out.contains("good.yaml:1: EtcdCluster etcd: allowed"), "{out}");
    // The rest is told, whatever could not be read.
    for unreadable in [broken.as_str(), "/nowhere/at/all"] {
        let (code, out, err) = run(&["check", "-f", &bad, "-f", unreadable]);
        assert_eq!(code, 2, "{err}");
        assert!(out.contains("2nd: refused") && err.contains(unreadable), "{out}{err}");
    }
    let (code, _, err) = run_with(&["check", "-f", "-"], "just: a map\n");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("-:1: no object: apiVersion and kind are needed"), "{err}");
    assert_eq!(run(&["check"]).0, 2, "nothing to check is a mistake of whoever asks");
    assert_eq!(run(&["check", "-f", &good, "--context", "/nowhere/at/all"]).0, 2);
}

#[test]
fn checks_report_for_programs_has_the_agreed_shape() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "all.yaml", &format!("{GOOD}---\n{BAD}---\n{OTHER}"));
    let (code, out, _) = run(&["check", "-f", &file, "-o", "json"]);
    assert_eq!(code, 1);
    let report: Value = serde_json::from_str(&out).unwrap();
    let object = |at: usize, line: usize, name: &str, allowed: bool, findings: Value| {
        let told: Vec<&str> = findings.as_array().unwrap().iter().map(|f| f["policy"].as_str().unwrap()).collect();
        let found = report["objects"][at]["findings"].as_array().unwrap();
        let policies: Vec<&str> = found.iter().map(|finding| finding["policy"].as_str().unwrap()).collect();
        assert_eq!(policies, told);
        json!({"source": format!("{file}:{line}"), "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
            "kind": "EtcdCluster", "namespace": "a", "name": name, "allowed": allowed, "findings": found})
    };
    let refused = json!([{"policy": "etcdcluster-name"}, {"policy": "etcdcluster-even-replicas"}]);
    let expected = json!({"objects": [object(0, 1, "etcd", true, json!([])), object(1, 6, "2nd", false, refused)]});
    assert_eq!(report, expected);
    let finding = &report["objects"][1]["findings"][0];
    let keys: Vec<&String> = finding.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["action", "field", "message", "policy"]);
    assert_eq!((&finding["action"], &finding["field"]), (&json!("Deny"), &json!("metadata.name")));
}

#[test]
fn check_takes_objects_as_people_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let cluster: Value = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": "etcd", "namespace": "a"}, "spec": {"version": "3.6.11", "replicas": 3}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [cluster, {"apiVersion": "v1", "kind": "Pod"}]});
    let (code, out, _) = run_with(&["check", "-f", "-"], &list.to_string());
    assert_eq!(code, 0, "{out}");
    assert_eq!(out, "-:1: EtcdCluster etcd: allowed\n1 objects of other kinds passed over\n");
    let mut item = cluster.clone();
    item.as_object_mut().unwrap().remove("kind");
    let typed = json!({"apiVersion": cluster["apiVersion"], "kind": "EtcdClusterList", "items": [item]});
    assert_eq!(run_with(&["check", "-f", "-"], &typed.to_string()).1, "-:1: EtcdCluster etcd: allowed\n");

    write(folder.path(), "a.yml", GOOD);
    write(folder.path(), "b.json", &cluster.to_string());
    write(folder.path(), "notes.txt", "no object");
    let (code, out, _) = run(&["check", "-f", folder.path().to_str().unwrap()]);
    assert_eq!((code, out.lines().count()), (0, 2), "{out}");

    // An update, by what was before; a Scale, by the cluster that it is of.
    let old = write(folder.path(), "old.yaml", &GOOD.replace("3.6.11", "3.5.9"));
    let leap = write(folder.path(), "leap.yaml", &GOOD.replace("3.6.11", "3.7.0"));
    let (code, out, _) = run(&["check", "-f", &leap, "--old", &old]);
    assert_eq!(code, 1);
    assert!(out.contains("spec.version: etcd goes up one minor at a time"), "{out}");
    assert_eq!(run(&["check", "-f", &leap, "--old", &old, "--operation", "CREATE"]).0, 0);
    let scale = "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: etcd, namespace: a}\nspec: {replicas: 4}\n";
    let (code, out, _) = run_with(&["check", "-f", "-", "--context", &old], scale);
    assert_eq!(code, 0);
    assert!(out.contains("Warn: spec.replicas: an even number"), "{out}");
    assert!(run_with(&["check", "-f", "-"], scale).1.contains("passed over"));
}

/// The places in an output that a finding about this field is shown at.
fn places(out: &str, field: &str) -> Vec<String> {
    let marked = format!(": {field}: ");
    let shown = out.lines().filter(|line| line.contains(&marked)).filter_map(|line| line.trim().split_once(": "));
    shown.map(|(place, _)| place.to_owned()).collect()
}

#[test]
fn check_points_at_the_line_of_each_field() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "# clusters\n---\n{GOOD}---\n\n# the second\napiVersion: etcd-operator.cozystack.io/v1alpha2\nkind: EtcdCluster\n\
         metadata:\n  namespace: a\n  name: 2nd\nspec:\n  # too even\n  replicas: 2\n\n  bootstrap:\n    restore:\n      \
         source: {{}}\n  version: 3.6.11\n---\napiVersion: etcd-operator.cozystack.io/v1alpha2\nkind: EtcdCluster\n\
         metadata: {{name: no-spec, namespace: a}}\n"
    );
    let file = write(folder.path(), "clusters.yaml", &text);
    let (code, out, err) = run(&["check", "-f", &file]);
    assert_eq!(code, 1, "{err}");
    let line = |words: &str| 1 + text.lines().position(|line| line.contains(words)).unwrap();
    let of = |field: &str| places(&out, field);
    assert_eq!(of("metadata.name"), [format!("{file}:{}", line("name: 2nd"))], "{out}");
    assert_eq!(of("spec.replicas"), [format!("{file}:{}", line("replicas: 2"))], "{out}");
    assert_eq!(of("spec.bootstrap.restore.source"), [format!("{file}:{}", line("source: {}"))], "{out}");
    // What is not there is missed where it would be.
    let third = text.lines().count() - 2;
    assert_eq!(of("spec"), [format!("{file}:{third}")], "{out}");
    assert!(out.contains(&format!("{file}:{third}: EtcdCluster no-spec: refused")), "{out}");
    // From standard input alike.
    let (_, out, _) = run_with(&["check", "-f", "-"], &text);
    assert_eq!(places(&out, "spec.replicas"), [format!("-:{}", line("replicas: 2"))], "{out}");

    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: etcd-operator.cozystack.io/v1alpha2\n  kind: EtcdCluster\n  \
                metadata: {name: a, namespace: a}\n  spec: {version: 3.6.11, replicas: 3}\n- apiVersion: \
                etcd-operator.cozystack.io/v1alpha2\n  kind: EtcdCluster\n  metadata: {name: b, namespace: a}\n  spec:\n    \
                version: 3.6.11\n    replicas: 4\n";
    let (code, out, _) = run_with(&["check", "-f", "-"], list);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("-:4: EtcdCluster a: allowed") && out.contains("-:8: EtcdCluster b: allowed"), "{out}");
    assert_eq!(places(&out, "spec.replicas"), ["-:13"], "{out}");

    let strategy = json!({"apiVersion": "strategy.backups.cozystack.io/v1alpha1", "kind": "Etcd",
        "metadata": {"name": "s"}, "spec": {"template": {"destination": {"s3": {"endpoint": "ftp://s3.example",
            "bucket": "b", "key": "k", "credentialsSecretRef": {"name": "c"}}}}}});
    let pretty =
        serde_json::to_string_pretty(&json!({"apiVersion": "v1", "kind": "List", "items": [strategy]})).unwrap();
    let json = write(folder.path(), "strategy.json", &pretty);
    let (code, out, _) = run(&["check", "-f", &json]);
    assert_eq!(code, 1, "{out}");
    let endpoint = 1 + pretty.lines().position(|line| line.contains("ftp://")).unwrap();
    assert_eq!(places(&out, "spec.template.destination.s3.endpoint"), [format!("{json}:{endpoint}")], "{out}");
}

const COMPLETED: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: completed.example}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [etcd-operator.cozystack.io], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [etcdclusters]}
  validations:
    - {expression: object.spec.replicas <= 1, message: 'spec.replicas: one is enough'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: completed.example}
spec: {policyName: completed.example, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: short.example}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [backups.cozystack.io], apiVersions: ['*'], operations: [CREATE], resources: [restorejobs]}
  validations:
    - {expression: object.spec.options.restoreTimeoutSeconds <= 600, message: 'spec.options.restoreTimeoutSeconds: ten minutes'}
    - {expression: object.spec.targetApplicationRef.name != 'etcd', message: 'spec.targetApplicationRef.name: not this one'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: short.example}
spec: {policyName: short.example, validationActions: [Deny]}
";
const BACKUP: &str = "apiVersion: backups.cozystack.io/v1alpha1
kind: Backup
metadata: {name: b1, namespace: a}
spec:
  applicationRef: {kind: Etcd, name: etcd}
  strategyRef: {apiGroup: strategy.backups.cozystack.io, kind: Etcd, name: s}
  takenAt: '2026-01-01T00:00:00Z'
status: {phase: Ready, artifact: {uri: 's3://backups/a/b1.db'}}
";

/// The API server completes an object by its definition, then asks us for our defaults, then judges it: policies see
/// what is not in the file.
#[test]
fn check_judges_an_object_with_its_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let policies = write(folder.path(), "policies.yaml", COMPLETED);
    let context = write(folder.path(), "backup.yaml", BACKUP);
    let cluster = GOOD.replace(", replicas: 3", "");
    let check = |input: &str, more: &[&str]| {
        run_with(&[&["check", "-f", "-", "--policy-dir", &policies, "--context", &context], more].concat(), input)
    };
    let (code, out, err) = check(&cluster, &[]);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("-:4: Deny: spec.replicas: one is enough (completed.example)"), "{out}");
    assert_eq!(check(&GOOD.replace("replicas: 3", "replicas: 1"), &[]).0, 0);
    // By the definition on UPDATE too: what was stored had it already, so that the change is not to blame.
    let old = write(folder.path(), "old.yaml", GOOD);
    let (code, out, _) = check(&cluster.replace("3.6.11", "3.6.12"), &["--old", &old]);
    assert_eq!(code, 0, "{out}");

    let job = "apiVersion: backups.cozystack.io/v1alpha1\nkind: RestoreJob\nmetadata: {name: r, namespace: a}\nspec:\n  \
               backupRef: {name: b1}\n";
    let (code, out, _) = check(job, &[]);
    assert_eq!(code, 1);
    for told in ["spec.options.restoreTimeoutSeconds: ten minutes", "spec.targetApplicationRef.name: not this one"] {
        assert!(out.contains(&format!("-:4: Deny: {told} (short.example)")), "{told}: {out}");
    }
    // What the definition refuses is told with the rest: by its shape, and by its own rules.
    let (code, out, _) = check(&GOOD.replace("replicas: 3", "replicas: many"), &[]);
    assert_eq!(code, 1);
    assert_eq!(places(&out, "spec.replicas"), ["-:4"], "{out}");
    assert!(out.contains("(definition)"), "{out}");
    let both = GOOD.replace("replicas: 3", "replicas: 1, tls: {peer: {}}");
    let (code, out, _) = check(&both, &[]);
    assert_eq!(code, 1);
    assert!(out.contains("exactly one source of certificates") && out.contains("(definition)"), "{out}");

    // What is not ours is not completed, and passes.
    let foreign = job.replace("{name: b1}", "{name: elsewhere}\n  targetApplicationRef: {kind: Postgres, name: db}");
    assert_eq!(check(&foreign, &[]).0, 0, "{foreign}");
}

#[test]
fn check_knows_who_asks_and_what_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = write(folder.path(), "cluster.yaml", GOOD);
    let context = write(
        folder.path(),
        "context.yaml",
        "apiVersion: backups.cozystack.io/v1alpha1\nkind: RestoreJob\nmetadata: {name: r, namespace: a, labels: \
         {etcd-warden.io/guards: etcd}}\nspec: {backupRef: {name: b}}\nstatus: {phase: Running, step: Suspended}\n",
    );
    let check = |more: &[&str]| run(&[&["check", "-f", &cluster, "--context", &context], more].concat());
    // The guard refuses, whoever asks; only those who restore may.
    for more in [&[][..], &["--as", "anna"]] {
        let (code, out, _) = check(more);
        assert_eq!(code, 1);
        assert!(out.contains("RestoreJob \"r\" is restoring this EtcdCluster"), "{out}");
    }
    assert_eq!(check(&["--as", "operator", "--trusted-writer", "operator"]).0, 0);
    let (code, out, _) = check(&["--operation", "DELETE"]);
    assert_eq!(code, 0);
    assert!(out.contains("Warn: RestoreJob"), "{out}");
}

const CASES: &str = "case: three
object: {apiVersion: etcd-operator.cozystack.io/v1alpha2, kind: EtcdCluster, metadata: {name: x, namespace: a}, spec: {version: 3.6.1, replicas: 3}}
findings: [{policy: house.example, field: spec.replicas, action: Deny}]
---
case: one
object: {apiVersion: etcd-operator.cozystack.io/v1alpha2, kind: EtcdCluster, metadata: {name: x, namespace: a}, spec: {version: 3.6.1, replicas: 1}}
";

#[test]
fn policies_of_ones_own_are_checked_by_tested_listed_shown_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let policies = folder.path().join("policies");
    std::fs::create_dir(&policies).unwrap();
    let file = write(&policies, "house.yaml", HOUSE);
    let dir = policies.to_str().unwrap();
    let cluster = write(folder.path(), "cluster.yaml", GOOD);
    let limit = |members: u32| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: house, namespace: a}}\ndata: {{members: '{members}'}}\n"
        );
        write(folder.path(), "limit.yaml", &text)
    };
    let context = limit(1);
    let (code, out, _) = run(&["check", "-f", &cluster, "--policy-dir", dir, "--context", &context]);
    assert_eq!(code, 1);
    assert!(out.contains("Deny: spec.replicas: too many for this house (house.example)"), "{out}");
    limit(3);
    assert_eq!(run(&["check", "-f", &cluster, "--policy-dir", dir, "--context", &context]).0, 0);
    let (code, out, _) = run(&["check", "-f", &cluster, "--policy-dir", dir]);
    assert_eq!(code, 1, "parameters that are not there refuse, as the binding says: {out}");

    // With the parameters among the policies, as cases need them.
    let parameters =
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: house, namespace: a}\ndata: {members: '1'}\n";
    std::fs::write(&file, format!("{HOUSE}{parameters}")).unwrap();
    let cases = write(folder.path(), "cases.yaml", CASES);
    let (code, out, err) = run(&["policies", "test", &cases, "--policy-dir", dir]);
    assert_eq!((code, out.as_str()), (0, "2 of 2 cases come out as they say\n"), "{err}");
    let (code, out, err) = run(&["policies", "test", &cases]);
    assert_eq!(code, 1);
    assert!(out.contains("cases.yaml: three\n  not found: Deny by house.example on \"spec.replicas\"\n"), "{out}");
    assert!(err.contains("1 of 2 cases do not come out as they say"), "{err}");
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/cases");
    assert_eq!(run(&["policies", "test", cases]).0, 0);
    assert_eq!(run(&["policies", "test", "/nowhere/at/all"]).0, 2);

    let (_, out, _) = run(&["policies", "list", "--policy-dir", dir]);
    for line in ["house.example", "etcdcluster-guard", "etcdcluster-restore-needs-etcdutl"] {
        assert_eq!(out.lines().filter(|listed| listed.starts_with(line)).count(), 1, "{line}: {out}");
    }
    let (_, out, _) = run(&["policies", "list", "-o", "json"]);
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert!(listed["policies"].as_array().unwrap().iter().all(|rule| !rule["says"].as_array().unwrap().is_empty()));
    let (_, out, _) = run(&["policies", "show", "house.example", "--policy-dir", dir]);
    assert!(out.contains("expression: object.spec.replicas <=") && out.contains("paramRef"), "{out}");
    assert!(run(&["policies", "show", "etcdcluster-guard"]).1.contains("RestoreJob is at work"));
    assert_eq!(run(&["policies", "show", "nothing"]).0, 1);

    let (_, out, _) = run(&["policies", "export", "--policy-dir", dir, "--guard"]);
    let exported: Vec<Value> = serde_saphyr::from_multiple(&out).unwrap();
    let names: Vec<&str> = exported.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"house.example") && names.contains(&"etcd-warden-guard"), "{names:?}");
    assert!(names.contains(&"etcdcluster-spec.etcd-warden.io"), "{names:?}");

    // Wrong policies: file, document and position, and nothing is judged.
    let wrong = write(folder.path(), "wrong.yaml", &HOUSE.replace("int(params.data.members)", "9.5"));
    let (code, out, err) = run(&["check", "-f", &cluster, "--policy-dir", &wrong]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("wrong.yaml: document 1: spec.validations[0].expression: a floating-point literal"), "{err}");
}

const STRATEGY: &str = "apiVersion: strategy.backups.cozystack.io/v1alpha1
kind: Etcd
metadata: {name: s}
spec:
  template:
    destination:
      s3:
        endpoint: https://s3.example
        bucket: '{{ .Parameters.bucket }}'
        key: '{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/'
        credentialsSecretRef: {name: creds}
";

#[test]
fn render_prints_the_destination_or_why_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let strategy = write(folder.path(), "strategy.yaml", STRATEGY);
    let application = write(folder.path(), "app.yaml", "kind: Etcd\nmetadata: {name: etcd, namespace: tenant-a}\n");
    let arguments = ["render", "--strategy", &strategy, "--parameter", "bucket=backups"];
    let (code, out, err) = run(&[&arguments[..], &["--application", &application, "-o", "json"]].concat());
    assert_eq!(code, 0, "{err}");
    let destination = json!({"destination": {"s3": {"endpoint": "https://s3.example", "bucket": "backups",
        "key": "tenant-a/etcd/", "credentialsSecretRef": {"name": "creds"}}}});
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), destination);
    let (code, out, _) = run(&arguments);
    assert_eq!(code, 0);
    let yaml: Value = serde_saphyr::from_str(&out).unwrap();
    assert_eq!(yaml["destination"]["s3"]["key"], "tenant-example/etcd/");

    let (code, out, err) = run(&["render", "--strategy", &strategy]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("spec.template.destination.s3.bucket: line 1, column 4: "), "{err}");
    let (code, _, err) = run(&["render", "--strategy", &strategy, "--parameter", "bucket=No_Bucket"]);
    assert_eq!(code, 1);
    assert!(err.contains("No_Bucket") && err.contains("bucket"), "{err}");
    let torn = STRATEGY.replace("{{ .Parameters.bucket }}", "{{ .Parameters.bucket ");
    let (code, _, err) = run(&["render", "--strategy", &write(folder.path(), "torn.yaml", &torn)]);
    assert_eq!(code, 1);
    assert!(err.contains("spec.template.destination.s3.bucket: line 1"), "{err}");
    let pvc = "apiVersion: strategy.backups.cozystack.io/v1alpha1\nkind: Etcd\nmetadata: {name: s}\nspec: {template: {destination: {pvc: {claimName: c}}}}\n";
    let (code, _, err) = run_with(&["render", "--strategy", "-"], pvc);
    assert_eq!(code, 1);
    assert!(err.contains("spec.template.destination.pvc"), "{err}");
    assert_eq!(run_with(&["render", "--strategy", "-"], OTHER).0, 2);
    assert_eq!(run(&["render", "--strategy", "/nowhere/at/all"]).0, 2);
    assert_eq!(run(&["render", "--strategy", &strategy, "--parameter", "bucket"]).0, 2);
}

#[test]
fn schedule_prints_the_next_times_or_why_there_are_none() {
    let (code, out, _) = run(&["schedule", "0 2 * * *", "--from", "2026-01-31T12:00:00Z", "--count", "2"]);
    assert_eq!((code, out.as_str()), (0, "2026-02-01T02:00:00Z\n2026-02-02T02:00:00Z\n"));
    let (code, out, _) =
        run(&["schedule", "TZ=Europe/Berlin 30 2 * * *", "--from", "2026-06-01T12:00:00Z", "--count", "1"]);
    assert_eq!((code, out.as_str()), (0, "2026-06-02T00:30:00Z\n"));
    for wrong in ["0 0 31 2 *", "61 * * * *", "TZ=Nowhere/AtAll 0 0 * * *", "", "@every 1s"] {
        let (code, out, err) = run(&["schedule", wrong]);
        assert_eq!((code, out.as_str()), (1, ""), "{wrong}");
        assert!(err.contains("is no schedule: "), "{wrong}: {err}");
    }
}

#[test]
fn findings_are_in_colour_on_a_terminal_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let bad = write(folder.path(), "bad.yaml", BAD);
    assert!(!run(&["check", "-f", &bad]).1.contains('\u{1b}'));
    let on_terminal = |environment: &[(&str, &str)]| {
        let output = Command::new("script")
            .args(["--quiet", "--return", "--command", &format!("{PROGRAM} check -f {bad}"), "/dev/null"])
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let out = on_terminal(&[]);
    assert!(out.contains("\u{1b}[1;31mrefused\u{1b}[0m"), "{out}");
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let out = on_terminal(&[plain]);
        assert!(out.contains("refused") && !out.contains('\u{1b}'), "{plain:?}: {out}");
    }
}

#[test]
fn shells_complete_and_the_version_names_its_commit() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&["completions", shell]);
        assert!(code == 0 && out.contains("etcd-warden") && out.contains("policies"), "{shell}");
    }
    let (code, out, _) = run(&["--version"]);
    assert_eq!(code, 0);
    let commit = out.trim().strip_prefix(concat!("etcd-warden ", env!("CARGO_PKG_VERSION"), " (commit ")).unwrap();
    let commit = commit.strip_suffix(')').unwrap();
    assert!(commit == "unknown" || commit.chars().all(|c| c.is_ascii_hexdigit()), "{out}");
}

#[test]
fn every_setting_is_validated_at_the_start_by_name() {
    for (name, value) in [
        ("--admin-address", "nowhere"),
        ("--webhook-address", "9443"),
        ("--webhook-url", "http://example"),
        ("--webhook-service", "a:b"),
        ("--log-level", "=="),
        ("--log-format", "xml"),
        ("--namespace", "No_Namespace"),
        ("--identity", " "),
        ("--controllers", "nobody"),
        ("--watch-namespace", "a,B"),
        ("--agent-image", "an image"),
        ("--etcd-image-repository", " "),
        ("--cluster-domain", "no_domain"),
        ("--trusted-writer", " "),
        ("--trusted-store", "s3.example/No_Bucket"),
        ("--webhook-owner", "No Role"),
        ("--quiet-seconds", "-1"),
    ] {
        let (code, _, err) = run(&["serve", &format!("{name}={value}")]);
        assert_ne!(code, 0, "{name}={value}");
        assert!(err.contains(name), "{name}={value}: {err}");
    }
}
