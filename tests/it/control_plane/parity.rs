//! The portable rules as native policies of a real API server, side by side with our engine.
//!
//! What may differ: a rule that takes other objects, or more than CEL says, refuses with us only. Those rules are listed
//! with their reason in `parity_differences.tsv`. A portable rule must come out alike, and an object that the API server
//! refuses must never be one that we allow. Where the API server sees less of an object than was sent, the case is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use etcd_warden::api::crd;
use etcd_warden::api::restorejob::RestoreJob;
use etcd_warden::checks::cases::{Case, read};
use etcd_warden::checks::{Kind, judge};
use etcd_warden::policy::{Action, File, Input, PolicySet, builtin_files, definition_faults, load};
use etcd_warden::rules::definition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::bed::control_plane::Options;
use crate::bed::tools::tree;
use crate::bed::warden::install_crds;
use crate::bed::{ControlPlane, Identity, wait_for};

/// Who the guard lets through.
const TRUSTED: &str = "system:serviceaccount:etcd-warden-system:etcd-warden";
const GUARD: &str = "etcdcluster-guard";
const NATIVE_GUARD: &str = "etcd-warden-guard";
const OWN: &str = ".etcd-warden.io";

/// What the API server says to a creation that it does not store.
#[derive(Debug)]
struct Answer {
    /// Why it was refused, if it was.
    refused: Option<String>,
    warnings: Vec<String>,
}

async fn dry_run(client: &Client, path: &str, object: &Value) -> Answer {
    let request = http::Request::post(format!("{path}?dryRun=All&fieldValidation=Ignore"))
        .header("content-type", "application/json")
        .body(Body::from(object.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let admitted = response.status().is_success();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().unwrap().replace("\\\"", "\"")).collect();
    let body = response.into_body().collect_bytes().await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let refused = (!admitted).then(|| body["message"].as_str().unwrap_or_default().to_owned());
    Answer { refused, warnings }
}

fn path(kind: Kind, namespace: &str) -> String {
    let (group, version, plural) = (kind.group(), kind.version(), kind.plural());
    if kind.namespaced() {
        format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}")
    } else {
        format!("/apis/{group}/{version}/{plural}")
    }
}

/// A control plane with our definitions and what else is in `manifests`, all of it in force.
async fn with_policies(manifests: &str) -> ControlPlane {
    let bed = ControlPlane::start(Options::default()).await;
    install_crds(&bed).await;
    bed.apply("", manifests).await;
    // The API server takes up policies in the order in which they were made, so that the last one stands for all.
    bed.apply("", PROBE).await;
    let client = bed.client().await;
    let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parity-probe"}});
    wait_for("the policies to be in force", Duration::from_secs(30), async || {
        let answer = dry_run(&client, "/api/v1/namespaces/default/configmaps", &probe).await;
        answer.refused.map(|_| ()).ok_or_else(|| "what the last policy refuses is admitted".to_owned())
    })
    .await;
    bed
}

const PROBE: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: zz-parity-probe}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: object.metadata.name != 'parity-probe', message: in force}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: zz-parity-probe}
spec: {policyName: zz-parity-probe, validationActions: [Deny]}
";

fn creations() -> Vec<(String, Case)> {
    let mut files: Vec<_> =
        std::fs::read_dir(tree().join("policies/cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let all = files.iter().flat_map(|file| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let cases = read(&std::fs::read_to_string(file).unwrap()).unwrap();
        cases.into_iter().map(move |case| (format!("{name}: {}", case.case), case))
    });
    all.filter(|(_, case)| {
        case.operation.as_deref().unwrap_or("CREATE") == "CREATE" && case.subresource.is_empty() && case.of.is_none()
    })
    .collect()
}

/// RestoreJobs that guard a cluster are all that native policies look at besides the object.
fn guards(case: &Case) -> Vec<Value> {
    let guards = |object: &&Value| {
        object["kind"] == "RestoreJob" && !object["metadata"]["labels"]["etcd-warden.io/guards"].is_null()
    };
    case.context.iter().filter(guards).cloned().collect()
}

/// Stores a RestoreJob in this namespace, its status with it.
async fn store(bed: &ControlPlane, namespace: &str, job: &Value) {
    let mut job: RestoreJob = serde_json::from_value(job.clone()).unwrap();
    job.metadata.namespace = None;
    let api: Api<RestoreJob> = Api::namespaced(bed.client().await, namespace);
    let status = json!({"status": job.status});
    let made = api.create(&PostParams::default(), &job).await.unwrap();
    api.patch_status(&made.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

/// The name under which our findings show a native policy.
fn id(native: &str) -> String {
    if native == NATIVE_GUARD { GUARD.to_owned() } else { native.strip_suffix(OWN).unwrap_or(native).to_owned() }
}

/// The policy that a native message names.
fn named(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("ValidatingAdmissionPolicy '")?;
    Some(id(rest.split_once('\'')?.0))
}

/// What our reading of the definition has against an object.
fn by_ours(kind: Kind, object: &Value) -> Vec<String> {
    let object = crd::with_defaults(kind.group(), kind.name(), object.clone());
    let shape = definition::faults(kind.group(), kind.name(), &object);
    let rules = definition_faults(crd::schema(kind.group(), kind.name()).unwrap(), &object, None);
    shape.into_iter().map(|fault| fault.field).chain(rules.into_iter().map(|(field, _)| field)).collect()
}

/// Rules that refuse with us only, cases that the API server sees otherwise, and why.
fn differences() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(tree().join("tests/it/control_plane/parity_differences.tsv")).unwrap();
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let (rule, reason) = line.split_once('\t').expect("rule, tab, reason");
        assert!(reason.len() > 10, "{rule}: a reason is needed");
        (rule.to_owned(), reason.to_owned())
    })
    .collect()
}

/// How one case compares: an error where it may not differ, else what has to be listed.
fn compare(
    name: &str,
    case: &Case,
    portable: &BTreeSet<String>,
    policies: &PolicySet,
    native: &Answer,
) -> Result<BTreeSet<String>, String> {
    let (change, objects) = case.change().unwrap();
    let verdict = judge(&change, policies, &objects);
    let of = |action: Action| -> BTreeSet<String> {
        verdict.with(action).map(|finding| finding.policy.to_string()).collect()
    };
    let (denials, warnings) = (of(Action::Deny), of(Action::Warn));
    if let Some(why) = &native.refused {
        if denials.is_empty() {
            return Err(format!("we allow it, the API server does not: {why}"));
        }
        let Some(policy) = named(why) else { return Ok(BTreeSet::new()) };
        let said = verdict
            .with(Action::Deny)
            .any(|finding| finding.policy == policy.as_str() && (policy == GUARD || why.contains(&finding.message)));
        return if said {
            Ok(BTreeSet::new())
        } else {
            Err(format!("not among what we find: {why}; ours: {denials:?}"))
        };
    }
    if !denials.is_disjoint(portable) {
        return Ok(BTreeSet::from([name.to_owned()]));
    }
    let native: BTreeSet<String> = native.warnings.iter().filter_map(|warning| named(warning)).collect();
    let ours: BTreeSet<String> = warnings.intersection(portable).filter(|rule| *rule != GUARD).cloned().collect();
    if native != ours {
        return Err(format!("warned about by the API server: {native:?}, by us: {ours:?}"));
    }
    Ok(denials)
}

#[tokio::test]
async fn portable_rules_come_out_as_native_policies_do() {
    let guard = std::fs::read_to_string(tree().join("policies/guard/etcdcluster.yaml")).unwrap();
    let mut manifests = guard;
    for file in builtin_files() {
        write!(manifests, "\n---\n{}", file.text).unwrap();
    }
    let bed = with_policies(&manifests).await;
    let admin = bed.client().await;
    let trusted = Identity::User { name: TRUSTED.to_owned(), groups: vec!["system:masters".to_owned()] };
    let trusted = bed.client_as(&trusted).await;
    let policies = load(&builtin_files()).unwrap();
    let mut portable: BTreeSet<String> = policies.summaries().iter().map(|policy| id(&policy.name)).collect();
    portable.insert(GUARD.to_owned());

    let plain = bed.namespace("tenant").await;
    let (mut failed, mut needed) = (Vec::new(), BTreeSet::new());
    let cases = creations();
    assert!(cases.len() > 40, "only {} cases", cases.len());
    for (name, case) in &cases {
        let guards = guards(case);
        let namespace = if guards.is_empty() { plain.clone() } else { bed.namespace("guarded").await };
        for guard in &guards {
            store(&bed, &namespace, guard).await;
        }
        let mut object = case.object.clone();
        if object["metadata"]["namespace"].is_string() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let kind = Kind::of_object(&object).unwrap();
        let client = if case.trusted { &trusted } else { &admin };
        let mut answer = dry_run(client, &path(kind, &namespace), &object).await;
        let refuses = case.findings.iter().any(|finding| finding.policy == GUARD && finding.action == Action::Deny);
        if refuses && answer.refused.is_none() {
            // The guard's parameters come through a watch.
            answer = wait_for("the guard to see the RestoreJob", Duration::from_secs(10), async || {
                let answer = dry_run(client, &path(kind, &namespace), &object).await;
                if answer.refused.is_some() { Ok(answer) } else { Err("admitted".to_owned()) }
            })
            .await;
        }
        // Without a policy's name it is the definition that refuses, and nothing that passed it was refused by ours.
        let by_definition = answer.refused.as_ref().is_some_and(|why| named(why).is_none());
        let ours = by_ours(kind, &case.object);
        if by_definition == ours.is_empty() {
            failed.push(format!("{name}: by the definition: {:?}, by ours: {ours:?}", answer.refused));
        }
        match compare(name, case, &portable, &policies, &answer) {
            Ok(rules) => needed.extend(rules),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let listed: BTreeSet<String> = differences().into_keys().collect();
    assert_eq!(needed, listed, "left: what differs; right: parity_differences.tsv");
}

/// Expressions that are true of [`object`]; their opposite is asked, too.
const TRUE: [&str; 28] = [
    "object.spec.options.three == 3",
    "object.spec.options.three + 1 == 4 && object.spec.options.three % 2 == 1",
    "object.spec.options.three / 2 == 1 && object.spec.options.minus / 2 == -1",
    "object.spec.options.minus % 2 == -1",
    "object.spec.options.minus < 0 && -object.spec.options.minus == 3",
    "object.spec.options.big == 9007199254740993",
    "object.spec.options.three in [1, 2, 3]",
    "!(object.spec.options.three in [1, 2])",
    "size(object.spec.options.accents) == 4",
    "object.spec.options.accents.size() == 4",
    "size(object.spec.options.list) == 2 && size(object.spec.options.map) == 2",
    "object.spec.options.accents.startsWith('né') && object.spec.options.accents.endsWith('e')",
    "object.spec.options.accents.contains('\u{e9}')",
    "object.spec.options.accents.matches('^n.e$') == false",
    "object.spec.options.word.matches('^[a-z]+[.][0-9]{1,3}$')",
    "'one' in object.spec.options.map && !('three' in object.spec.options.map)",
    "object.spec.options.map['one'] == 1",
    "object.spec.options.map.all(key, key in ['one', 'two'])",
    "object.spec.options.map == {'two': 2, 'one': 1}",
    "object.spec.options.list.exists_one(item, item.name == 'a')",
    "object.spec.options.list.all(item, item.name in ['a', 'b'])",
    "object.spec.options.word.split('.') == ['abc', '12']",
    "['a', 'b'].join('-') == 'a-b'",
    "int(object.spec.options.word.split('.')[1]) == 12 && string(object.spec.options.three) == '3'",
    "object.spec.options.word.substring(0, 3) == 'abc' && object.spec.options.word.indexOf('.') == 3",
    "object.spec.options.upper.lowerAscii() == 'abc' && object.spec.options.word.upperAscii() == 'ABC.12'",
    "object.spec.options.blank.trim() == '' && object.spec.options.word.replace('.', '') == 'abc12'",
    "!has(object.spec.options.absent) && (has(object.spec.options.absent) ? object.spec.options.absent > 1 : true)",
];

fn object() -> Value {
    json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob", "metadata": {"name": "language"},
        "spec": {"backupRef": {"name": "b"}, "options": {
            "three": 3, "minus": -3, "big": 9_007_199_254_740_993_i64, "accents": "n\u{e9}\u{e9}e", "word": "abc.12",
            "upper": "ABC", "blank": " \t\n", "map": {"one": 1, "two": 2}, "list": [{"name": "a"}, {"name": "b"}]}}})
}

#[tokio::test]
async fn the_language_means_the_same_to_both() {
    let opposites: Vec<String> = TRUE.iter().map(|expression| format!("!({expression})")).collect();
    let asked: Vec<&str> = TRUE.iter().copied().chain(opposites.iter().map(String::as_str)).collect();
    let validations: Vec<Value> = asked
        .iter()
        .enumerate()
        .map(|(at, expression)| json!({"expression": expression, "message": format!("e{at}.")}))
        .collect();
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "language"}, "spec": {"validations": validations, "matchConstraints": {"resourceRules": [{
            "apiGroups": ["backups.cozystack.io"], "apiVersions": ["*"], "operations": ["CREATE"],
            "resources": ["restorejobs"]}]}}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "language"}, "spec": {"policyName": "language", "validationActions": ["Warn"]}});
    let manifests = format!("{policy}\n---\n{binding}\n");
    let set = load(&[File { name: "language.yaml".to_owned(), text: manifests.clone() }]).unwrap();

    let bed = with_policies(&manifests).await;
    let object = object();
    let answer = dry_run(&bed.client().await, &path(Kind::RestoreJob, "default"), &object).await;
    assert_eq!(answer.refused, None);
    let kind = Kind::RestoreJob;
    let found = set.evaluate(&Input {
        group: kind.group(),
        version: kind.version(),
        resource: kind.plural(),
        kind: kind.name(),
        subresource: "",
        operation: "CREATE",
        namespace: "default",
        name: "language",
        user: "anna",
        object: Some(&object),
        old: None,
    });
    for (at, expression) in asked.iter().enumerate() {
        let mark = format!("e{at}.");
        let natively = answer.warnings.iter().any(|warning| warning.contains(&format!(": {mark}")));
        let ours = found.iter().any(|finding| finding.message == mark);
        assert_eq!((natively, ours), (at >= TRUE.len(), at >= TRUE.len()), "{expression}: {found:#?} {answer:#?}");
    }
}
