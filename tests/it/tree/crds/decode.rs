//! Whatever the API server may have stored of a kind decodes: one object that our types cannot read would stop a watch
//! over all of them.

use etcd_warden::api::{
    backup, backupclass, backupjob, crd, etcdcluster, etcddefrag, etcdmember, etcdsnapshot, plan, restorejob, strategy,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

type Decode = fn(&Value) -> Result<Value, serde_json::Error>;

/// Reads an object into our type, and what our type makes of it.
fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object.clone())?)
}

fn decoder(name: &str) -> Decode {
    match name {
        "etcdclusters.etcd-operator.cozystack.io" => through::<etcdcluster::EtcdCluster>,
        "etcdmembers.etcd-operator.cozystack.io" => through::<etcdmember::EtcdMember>,
        "etcdsnapshots.etcd-operator.cozystack.io" => through::<etcdsnapshot::EtcdSnapshot>,
        "etcddefrags.etcd-operator.cozystack.io" => through::<etcddefrag::EtcdDefrag>,
        "etcds.strategy.backups.cozystack.io" => through::<strategy::Etcd>,
        "etcds.strategy.etcd-warden.io" => through::<strategy::warden::Etcd>,
        "backupclasses.backups.cozystack.io" => through::<backupclass::BackupClass>,
        "backupjobs.backups.cozystack.io" => through::<backupjob::BackupJob>,
        "backups.backups.cozystack.io" => through::<backup::Backup>,
        "restorejobs.backups.cozystack.io" => through::<restorejob::RestoreJob>,
        "plans.backups.cozystack.io" => through::<plan::Plan>,
        other => panic!("no type for {other}"),
    }
}

/// Every kind: its name, how it is read, and an object with every field that the definition has.
fn kinds() -> impl Iterator<Item = (String, Decode, Value)> {
    crd::all().into_iter().map(|crd| {
        let name = crd.metadata.name.unwrap();
        let version = &crd.spec.versions[0];
        let schema = serde_json::to_value(&version.schema).unwrap();
        let mut object = sample(&schema["openAPIV3Schema"]);
        object["apiVersion"] = json!(format!("{}/{}", crd.spec.group, version.name));
        object["kind"] = json!(crd.spec.names.kind);
        object["metadata"] = json!({"name": "one"});
        let decode = decoder(&name);
        (name, decode, object)
    })
}

fn sample(schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1Gi");
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return json!({"any": {"thing": [1, null]}});
    }
    match (schema["type"].as_str().unwrap_or_default(), schema["format"].as_str()) {
        ("object", _) if schema["additionalProperties"].is_object() => {
            json!({"key": sample(&schema["additionalProperties"])})
        }
        ("object", _) => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            Value::Object(properties.iter().map(|(name, property)| (name.clone(), sample(property))).collect())
        }
        ("array", _) => json!([sample(&schema["items"])]),
        ("integer", _) => json!(1),
        ("boolean", _) => json!(true),
        ("string", Some("date-time")) => json!("2026-01-01T00:00:00Z"),
        ("string", _) => schema["enum"][0].as_str().map_or(json!("text"), |value| json!(value)),
        (other, _) => panic!("a {other} in a definition"),
    }
}

/// JSON pointers to every field of an object, at any depth.
fn fields(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                fields(inner, &path, found);
                found.push(path);
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, inner)| fields(inner, &format!("{path}/{index}"), found));
        }
        _ => {}
    }
}

fn holder<'a>(object: &'a mut Value, field: &str) -> (&'a mut Map<String, Value>, String) {
    let (parent, name) = field.rsplit_once('/').unwrap();
    (object.pointer_mut(parent).unwrap().as_object_mut().unwrap(), name.replace("~1", "/").replace("~0", "~"))
}

fn paths(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for top in ["spec", "status"] {
        fields(&object[top], &format!("/{top}"), &mut found);
        found.push(format!("/{top}"));
    }
    found
}

#[test]
fn an_object_with_every_field_comes_through_unchanged() {
    for (name, decode, object) in kinds() {
        assert_eq!(decode(&object).unwrap_or_else(|error| panic!("{name}: {error}")), object, "{name}");
    }
}

#[test]
fn any_field_may_be_absent_or_null() {
    let mut failures = Vec::new();
    for (name, decode, object) in kinds() {
        // The API server stores no null in a map of texts, and no condition without a time: every schema of these kinds
        // that there was refuses both.
        // What is inside Kubernetes' own large types is their library's business, and most of the time spent here.
        let never = |path: &String| {
            path.ends_with("/key")
                || path.ends_with("/lastTransitionTime")
                || path.contains("/affinity/")
                || path.contains("/topologySpreadConstraints/")
        };
        for path in paths(&object).iter().filter(|path| !never(path)) {
            let mut null = object.clone();
            let (parent, field) = holder(&mut null, path);
            parent.insert(field, Value::Null);
            let mut absent = object.clone();
            let (parent, field) = holder(&mut absent, path);
            parent.remove(&field);
            for (what, object) in [("null", null), ("absent", absent)] {
                if let Err(error) = decode(&object) {
                    failures.push(format!("{name} {path} {what}: {error}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn fields_that_nobody_knows_are_passed_over() {
    for (name, decode, object) in kinds() {
        for path in paths(&object) {
            let mut more = object.clone();
            let Some(inner) = more.pointer_mut(&path).and_then(Value::as_object_mut) else { continue };
            if inner.contains_key("key") && inner.len() == 1 || inner.contains_key("any") {
                continue;
            }
            inner.insert("newerThanThis".to_owned(), json!({"a": [1]}));
            decode(&more).unwrap_or_else(|error| panic!("{name} {path}: {error}"));
        }
    }
}

#[test]
fn quantities_may_be_integers() {
    let cluster = json!({
        "metadata": {"name": "one"},
        "spec": {"version": "3.6.16", "storage": {"size": 1024}, "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    });
    let read: etcdcluster::EtcdCluster = serde_json::from_value(cluster).unwrap();
    assert_eq!(read.spec.storage.unwrap().size().amount().unwrap().to_i64(), 1024);
    assert_eq!(read.spec.resources.unwrap().limits.unwrap()["cpu"].0, "1");
}

#[test]
fn an_object_with_nothing_but_a_name_decodes() {
    for (name, decode, _) in kinds() {
        for object in [json!({"metadata": {"name": "one"}}), json!({"metadata": {"name": "one"}, "spec": {}})] {
            decode(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
