//! The chart, as the real Helm renders it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use etcd_warden::api::crd;
use etcd_warden::controller::Controller;
use serde_json::Value;

use crate::bed::tools::{tool, tree};

fn chart() -> PathBuf {
    tree().join("charts/etcd-warden")
}

fn helm(arguments: &[&str]) -> Output {
    Command::new(tool("helm")).args(arguments).output().expect("run helm")
}

fn template(values: &[&str]) -> Output {
    let chart = chart();
    let mut arguments = vec![
        "template",
        "etcd-warden",
        chart.to_str().unwrap(),
        "--namespace=etcd-warden-system",
        "--kube-version=1.34.0",
    ];
    for value in values {
        // As JSON, a name may be a number that is a text.
        let flag = if value.contains('"') { "--set-json" } else { "--set" };
        arguments.extend([flag, value]);
    }
    helm(&arguments)
}

/// Every object that the chart renders with these values.
fn render(values: &[&str]) -> Vec<Value> {
    let output = template(values);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).expect("YAML objects")
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn the<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = of_kind(objects, kind);
    assert_eq!(found.len(), 1, "one {kind}");
    found[0]
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    let output = helm(&["lint", "--strict", chart().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{said}");
}

#[test]
fn the_manifests_for_clusters_without_helm_are_those_of_the_chart() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = tree().join("tests/cluster/install/render");
    let output = Command::new(&script).arg(file.path()).output().expect("run the script");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let carried = tree().join("tests/cluster/install/etcd-warden.yaml");
    assert!(
        fs::read(file.path()).unwrap() == fs::read(&carried).unwrap(),
        "{} is not what the chart says: run `make generate`",
        carried.display()
    );
}

#[test]
fn definitions_are_those_of_the_code_and_stay_when_the_chart_goes() {
    let rendered = render(&[]);
    let definitions = of_kind(&rendered, "CustomResourceDefinition");
    let expected = crd::all();
    assert_eq!(definitions.len(), expected.len());
    for definition in expected {
        let mut wanted = serde_json::to_value(&definition).unwrap();
        wanted["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
        let name = &wanted["metadata"]["name"];
        let found = definitions.iter().find(|found| found["metadata"]["name"] == *name).expect("rendered");
        // Helm reads every number as a float, so numbers are compared as their text would be.
        assert_eq!(plain(found), plain(&wanted), "{name}");
    }
    assert!(of_kind(&render(&["crds.enabled=false"]), "CustomResourceDefinition").is_empty());
    let dropped = render(&["crds.keep=false"]);
    assert!(
        of_kind(&dropped, "CustomResourceDefinition")
            .iter()
            .all(|found| found["metadata"]["annotations"].get("helm.sh/resource-policy").is_none())
    );
}

/// The value with every number as a float.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => serde_json::json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => fields.iter().map(|(key, field)| (key.clone(), plain(field))).collect(),
        other => other.clone(),
    }
}

#[test]
fn admission_never_has_fewer_replicas_than_before() {
    let rendered = render(&[]);
    let spec = &the(&rendered, "Deployment")["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"], serde_json::json!({"maxSurge": 1, "maxUnavailable": 0}));
    let budget = &the(&rendered, "PodDisruptionBudget")["spec"];
    assert_eq!(budget["minAvailable"], 1);
    assert_eq!(budget["selector"]["matchLabels"], spec["selector"]["matchLabels"]);
    // A budget over a single Pod would keep its node from ever being drained.
    assert!(of_kind(&render(&["replicaCount=1"]), "PodDisruptionBudget").is_empty());
}

#[test]
fn the_pod_has_nothing_that_it_does_not_need() {
    let rendered = render(&[]);
    let pod = &the(&rendered, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    for container in pod["containers"].as_array().unwrap() {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"], serde_json::json!({"drop": ["ALL"]}));
    }
}

#[test]
fn no_rule_asks_for_everything() {
    for role in render(&[]).iter().filter(|object| object["rules"].is_array()) {
        let name = &role["metadata"]["name"];
        for rule in role["rules"].as_array().unwrap() {
            for list in ["apiGroups", "resources", "verbs"] {
                assert!(!rule[list].as_array().unwrap().contains(&"*".into()), "{name}: {rule}");
            }
        }
        let secrets = role["rules"].as_array().unwrap().iter().filter(|rule| rule.to_string().contains("\"secrets\""));
        for rule in secrets.filter(|_| role["kind"] == "ClusterRole") {
            assert_eq!(rule["verbs"], serde_json::json!(["get", "list"]), "Secrets of others are never written");
        }
        assert!(!role.to_string().contains("escalate") && !role.to_string().contains("impersonate"), "{name}");
    }
}

#[test]
fn watched_namespaces_are_all_that_the_account_may_touch() {
    let everywhere = render(&[]);
    assert!(
        of_kind(&everywhere, "ClusterRoleBinding").iter().any(|b| b["roleRef"]["name"] == "etcd-warden-namespaced")
    );
    let some = render(&["manager.watchNamespaces={a,b}"]);
    assert!(of_kind(&some, "ClusterRoleBinding").iter().all(|b| b["roleRef"]["name"] == "etcd-warden"));
    let bound: BTreeSet<&str> = of_kind(&some, "RoleBinding")
        .iter()
        .filter(|binding| binding["roleRef"]["name"] == "etcd-warden-namespaced")
        .map(|binding| binding["metadata"]["namespace"].as_str().unwrap())
        .collect();
    assert_eq!(bound, BTreeSet::from(["a", "b"]));
}

#[test]
fn names_that_read_like_numbers_stay_names() {
    let rendered = render(&[
        r#"manager.watchNamespaces=["123"]"#,
        r#"fullnameOverride="456""#,
        r#"serviceAccount.name="1e3""#,
        r#"priorityClassName="789""#,
        r#"policies.configMaps=["12"]"#,
        r#"webhook.clientAuthorities.configMapName="34""#,
        r#"webhook.certificate={"source":"secret","secretName":"56"}"#,
    ]);
    let bindings = of_kind(&rendered, "RoleBinding");
    assert!(bindings.iter().any(|binding| binding["metadata"]["namespace"] == "123"), "{bindings:?}");
    for object in &rendered {
        assert!(object["metadata"]["name"].is_string(), "{object}");
    }
    let pod = &the(&rendered, "Deployment")["spec"]["template"]["spec"];
    assert_eq!((&pod["serviceAccountName"], &pod["priorityClassName"]), (&"1e3".into(), &"789".into()));
    let volumes = pod["volumes"].as_array().unwrap();
    let sources: BTreeSet<&str> = volumes
        .iter()
        .map(|volume| volume["configMap"]["name"].as_str().or(volume["secret"]["secretName"].as_str()).unwrap())
        .collect();
    assert_eq!(sources, BTreeSet::from(["12", "34", "56"]));
}

#[test]
fn in_its_own_namespace_the_account_touches_its_own_objects_only() {
    let rules = |values: &[&str]| the(&render(values), "Role")["rules"].as_array().unwrap().clone();
    for values in [&[][..], &[r#"webhook.certificate={"source":"secret","secretName":"x"}"#]] {
        for rule in rules(values) {
            let creates = rule["verbs"] == serde_json::json!(["create"]);
            assert!(creates || rule["resourceNames"].as_array().is_some_and(|names| !names.is_empty()), "{rule}");
        }
    }
    let secrets = |values: &[&str]| rules(values).iter().any(|rule| rule["resources"][0] == "secrets");
    assert!(secrets(&[]));
    assert!(!secrets(&[r#"webhook.certificate={"source":"secret","secretName":"x"}"#]));
}

#[test]
fn nothing_that_changes_at_run_time_is_in_the_templates() {
    // The certificate authority in the webhook configurations is the running server's to write: an upgrade that knew
    // an older one would take admission down.
    for object in render(&["metrics.serviceMonitor.enabled=true"]) {
        assert!(!object.to_string().contains("caBundle"), "{object}");
        assert!(!object["kind"].as_str().unwrap().ends_with("WebhookConfiguration"), "{object}");
    }
}

#[test]
fn policies_of_ones_own_are_mounted_and_trusted_stores_are_told() {
    let rendered = render(&["policies.configMaps={house,site.rules}", "trustedStores={https://s3.example/old}"]);
    let pod = &the(&rendered, "Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(arguments.contains(&"--trusted-store=https://s3.example/old"), "{arguments:?}");
    for (at, name) in ["house", "site.rules"].into_iter().enumerate() {
        let folder = format!("/etc/etcd-warden/policies/{name}");
        assert!(arguments.contains(&format!("--policy-dir={folder}").as_str()), "{arguments:?}");
        assert_eq!(container["volumeMounts"][at]["mountPath"], folder.as_str());
        assert_eq!(pod["volumes"][at]["configMap"]["name"], name);
        assert_eq!(pod["volumes"][at]["name"], container["volumeMounts"][at]["name"]);
    }
    let reads = |values: &[&str]| {
        render(values)
            .iter()
            .filter(|object| object["kind"] == "ClusterRole")
            .any(|role| role.to_string().contains("configmaps"))
    };
    assert!(reads(&["policies.readParameters=true"]) && !reads(&[]));
}

#[test]
fn the_guard_is_the_one_in_the_policies_folder() {
    let text = fs::read_to_string(tree().join("policies/guard/etcdcluster.yaml")).unwrap();
    let written: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let rendered = render(&[]);
    for written in &written {
        let kind = written["kind"].as_str().unwrap();
        let name = &written["metadata"]["name"];
        let found = of_kind(&rendered, kind).into_iter().find(|found| found["metadata"]["name"] == *name);
        assert_eq!(found.expect("in the chart")["spec"], written["spec"], "{kind} {name}: chart, policies/guard");
    }
    assert_eq!(written.len(), 2);
}

/// What the server is told about certificates: its environment, its mounts, its volumes.
fn certificates(rendered: &[Value]) -> (BTreeMap<String, String>, Vec<Value>) {
    let pod = &the(rendered, "Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let environment = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["value"].as_str()?.to_owned())))
        .filter(|(name, _)| name.contains("CERTIFICATE") || name.contains("CLIENT_CA"))
        .collect();
    let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
    let volumes = pod["volumes"].as_array().cloned().unwrap_or_default();
    let names = |list: &[Value]| list.iter().map(|one| one["name"].to_string()).collect::<Vec<_>>();
    assert_eq!(names(&mounts), names(&volumes));
    assert!(mounts.iter().all(|mount| mount["readOnly"] == true));
    (environment, volumes)
}

#[test]
fn the_server_signs_for_itself_unless_it_is_told_otherwise() {
    let rendered = render(&[]);
    assert_eq!(certificates(&rendered), (BTreeMap::new(), Vec::new()));
    assert!(rendered.iter().all(|object| object["apiVersion"] != "cert-manager.io/v1"));
}

#[test]
fn a_given_secret_is_what_the_server_reads() {
    let (environment, volumes) =
        certificates(&render(&["webhook.certificate.source=secret", "webhook.certificate.secretName=mine"]));
    let directory = ("ETCD_WARDEN_CERTIFICATE_DIR".to_owned(), "/etc/etcd-warden/certificate".to_owned());
    assert_eq!(environment, BTreeMap::from([directory]));
    assert_eq!(volumes, [serde_json::json!({"name": "certificate", "secret": {"secretName": "mine"}})]);
}

#[test]
fn cert_manager_signs_with_an_authority_of_the_charts_or_with_a_given_issuer() {
    let own = render(&["webhook.certificate.source=cert-manager"]);
    let named = |objects: &[Value], kind: &str, name: &str| {
        let found = of_kind(objects, kind).into_iter().find(|object| object["metadata"]["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let leaf = named(&own, "Certificate", "etcd-warden");
    assert_eq!(leaf["spec"]["issuerRef"]["name"], "etcd-warden-ca");
    assert!(leaf["spec"].get("isCA").is_none(), "the authority is apart from what it signs");
    assert_eq!(leaf["spec"]["dnsNames"][0], "etcd-warden.etcd-warden-system.svc");
    let authority = named(&own, "Certificate", "etcd-warden-ca");
    assert_eq!(named(&own, "Issuer", "etcd-warden-ca")["spec"]["ca"]["secretName"], authority["spec"]["secretName"]);
    assert_eq!(
        authority["spec"]["issuerRef"]["name"],
        named(&own, "Issuer", "etcd-warden-self-signed")["metadata"]["name"]
    );
    let (environment, volumes) = certificates(&own);
    assert!(environment.contains_key("ETCD_WARDEN_CERTIFICATE_DIR"));
    assert_eq!(volumes[0]["secret"]["secretName"], leaf["spec"]["secretName"]);

    let given = render(&[
        "webhook.certificate.source=cert-manager",
        "webhook.certificate.certManager.issuerRef.name=corp",
        "webhook.certificate.certManager.issuerRef.kind=ClusterIssuer",
    ]);
    let leaf = the(&given, "Certificate");
    assert_eq!(
        (&leaf["spec"]["issuerRef"]["name"], &leaf["spec"]["issuerRef"]["kind"]),
        (&"corp".into(), &"ClusterIssuer".into())
    );
    assert!(of_kind(&given, "Issuer").is_empty());
}

#[test]
fn callers_are_asked_for_certificates_where_their_authorities_are_named() {
    let (environment, volumes) = certificates(&render(&["webhook.clientAuthorities.configMapName=front-proxy"]));
    assert_eq!(environment["ETCD_WARDEN_WEBHOOK_CLIENT_CA"], "/etc/etcd-warden/client-authorities/ca.crt");
    assert_eq!(volumes, [serde_json::json!({"name": "client-authorities", "configMap": {"name": "front-proxy"}})]);
}

#[test]
fn a_pod_has_time_to_answer_those_who_still_come() {
    let rendered = render(&[]);
    let pod = &the(&rendered, "Deployment")["spec"]["template"]["spec"];
    // Twenty seconds to become quiet at the latest, and ten for the last answers.
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > 30);
}

#[test]
fn trusted_writers_pass_the_guard() {
    let guard =
        |values: &[&str]| the(&render(values), "ValidatingAdmissionPolicy")["spec"]["matchConditions"][0].clone();
    assert_eq!(
        guard(&[])["expression"],
        "!(request.userInfo.username in ['system:serviceaccount:etcd-warden-system:etcd-warden'])"
    );
    assert_eq!(
        guard(&["trustedWriters={system:serviceaccount:a:b}"])["expression"],
        "!(request.userInfo.username in ['system:serviceaccount:etcd-warden-system:etcd-warden','system:serviceaccount:a:b'])"
    );
    assert!(of_kind(&render(&["guard.enabled=false"]), "ValidatingAdmissionPolicy").is_empty());
}

#[test]
fn values_that_cannot_be_meant_are_refused_by_name() {
    let cases = [
        ("replicaCount=-1", "/replicaCount"),
        ("replicaCount=two", "/replicaCount"),
        ("replicas=3", "'replicas' not allowed"),
        ("image.tag=a:b", "/image/tag"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("image.repository=", "/image/repository"),
        ("etcdImage.repository=quay.io/coreos/etcd:v3.6.11", "/etcdImage/repository"),
        ("manager.controllers={etcdclusters}", "/manager/controllers/0"),
        ("manager.watchNamespaces={A}", "/manager/watchNamespaces/0"),
        ("manager.log.format=xml", "/manager/log/format"),
        ("trustedWriters={a'b}", "/trustedWriters/0"),
        ("trustedWriters={a b}", "/trustedWriters/0"),
        (r#"trustedWriters=["a,b"]"#, "/trustedWriters/0"),
        ("crds.enabled=maybe", "/crds/enabled"),
        ("webhook.certificate.source=none", "/webhook/certificate/source"),
        ("webhook.certificate.source=secret", "/webhook/certificate/secretName"),
        ("webhook.certificate.secretName=Mine", "/webhook/certificate/secretName"),
        ("webhook.certificate.certManager.duration=soon", "/webhook/certificate/certManager/duration"),
        ("webhook.clientAuthorities.configMapName=a/b", "/webhook/clientAuthorities/configMapName"),
        ("fullnameOverride=Etcd_Warden", "/fullnameOverride"),
        ("metrics.serviceMonitor.interval=often", "/metrics/serviceMonitor/interval"),
    ];
    for (value, expected) in cases {
        let output = template(&[value]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{value} was accepted");
        assert!(said.contains(expected), "{value}: {said}");
    }
}

#[test]
fn every_value_has_a_default_and_a_schema() {
    let values: Value = serde_saphyr::from_str(&fs::read_to_string(chart().join("values.yaml")).unwrap()).unwrap();
    let schema: Value = serde_json::from_slice(&fs::read(chart().join("values.schema.json")).unwrap()).unwrap();
    let mut in_values = BTreeSet::new();
    paths_of_values("", &values, &mut in_values);
    let mut in_schema = BTreeSet::new();
    paths_of_schema("", &schema, &schema["$defs"], &mut in_schema);
    // Helm's own, for charts that are part of others.
    in_schema.remove("/global");
    for path in &in_values {
        assert!(
            in_schema.iter().any(|known| path == known || path.starts_with(&format!("{known}/"))),
            "{path} is free"
        );
    }
    for path in &in_schema {
        assert!(
            in_values.iter().any(|known| known == path || known.starts_with(&format!("{path}/"))),
            "{path} is bare"
        );
    }
}

fn paths_of_values(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                paths_of_values(&format!("{path}/{key}"), field, found);
            }
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

fn paths_of_schema(path: &str, schema: &Value, definitions: &Value, found: &mut BTreeSet<String>) {
    let schema = match schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        Some(name) => &definitions[name],
        None => schema,
    };
    match schema["properties"].as_object() {
        Some(fields) => {
            for (key, field) in fields {
                paths_of_schema(&format!("{path}/{key}"), field, definitions, found);
            }
        }
        None => drop(found.insert(path.to_owned())),
    }
}

#[test]
fn every_controller_can_be_named() {
    let schema: Value = serde_json::from_slice(&fs::read(chart().join("values.schema.json")).unwrap()).unwrap();
    let named: BTreeSet<String> =
        serde_json::from_value(schema["properties"]["manager"]["properties"]["controllers"]["items"]["enum"].clone())
            .unwrap();
    for controller in <Controller as clap::ValueEnum>::value_variants() {
        let name = clap::ValueEnum::to_possible_value(controller).unwrap().get_name().to_owned();
        assert!(named.contains(&name), "values.schema.json does not know the controller {name}");
    }
}

#[test]
fn names_stay_legal_whatever_the_release_is_called() {
    let long = "a-release-with-a-name-of-exactly-53-characters-xxxxxx";
    assert_eq!(long.len(), 53, "Helm's own limit");
    let chart = chart();
    let output =
        helm(&["template", long, chart.to_str().unwrap(), "--kube-version=1.34.0", "--set=crds.enabled=false"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let names: BTreeMap<&str, &str> = objects
        .iter()
        .map(|object| (object["metadata"]["name"].as_str().unwrap(), object["kind"].as_str().unwrap()))
        .collect();
    for (name, kind) in names {
        assert!(name.len() <= 63 && !name.ends_with('-'), "{kind} {name}");
    }
}
