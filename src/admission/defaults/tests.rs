use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::checks::{Identity, Objects};

fn create(kind: Kind, object: &Value) -> Change<'_> {
    Change {
        kind,
        operation: Operation::Create,
        subresource: "",
        namespace: "tenant-a",
        name: "",
        user: "",
        identity: Identity::Unknown,
        object: Some(object),
        old: None,
        now: k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
    }
}

fn backups() -> Objects {
    let backup = |name: &str, strategy: &Value, application: &Value| {
        json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "Backup",
            "metadata": {"name": name, "namespace": "tenant-a"},
            "spec": {"applicationRef": application, "strategyRef": strategy}})
    };
    [
        backup(
            "b1",
            &json!({"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s"}),
            &json!({"kind": "Etcd", "name": "etcd"}),
        ),
        backup(
            "pg",
            &json!({"apiGroup": "strategy.backups.cozystack.io", "kind": "CNPG", "name": "s"}),
            &json!({"kind": "Postgres", "name": "db"}),
        ),
    ]
    .into_iter()
    .collect()
}

fn defaulted(kind: Kind, object: &Value) -> Value {
    completed(&create(kind, object), object, &backups())
}

#[test]
fn a_restore_gets_the_target_of_its_backup_and_a_timeout() {
    let job = json!({"spec": {"backupRef": {"name": "b1"}}});
    assert_eq!(
        defaulted(Kind::RestoreJob, &job),
        json!({"spec": {
            "backupRef": {"name": "b1"},
            "targetApplicationRef": {"apiGroup": "apps.cozystack.io", "kind": "Etcd", "name": "etcd"},
            "options": {"restoreTimeoutSeconds": 1800},
        }})
    );
    let set = json!({"spec": {"backupRef": {"name": "b1"},
        "targetApplicationRef": {"kind": "Etcd", "name": "other"}, "options": {"restoreTimeoutSeconds": 0, "x": 1}}});
    let after = defaulted(Kind::RestoreJob, &set);
    assert_eq!(after["spec"]["targetApplicationRef"]["apiGroup"], "apps.cozystack.io");
    assert_eq!(after["spec"]["options"], set["spec"]["options"]);
}

#[test]
fn what_is_not_ours_stays_as_it_is() {
    for job in [
        json!({"spec": {"backupRef": {"name": "pg"}}}),
        json!({"spec": {"backupRef": {"name": "unknown"}}}),
        json!({"spec": {"backupRef": {"name": "unknown"}, "targetApplicationRef": {"kind": "Postgres", "name": "x"}}}),
    ] {
        assert_eq!(defaulted(Kind::RestoreJob, &job), job);
    }
    let cluster = json!({"spec": {"version": "3.6.1"}});
    assert_eq!(defaulted(Kind::EtcdCluster, &cluster), cluster);
}

#[test]
fn of_a_class_only_our_entries_are_touched() {
    let entry = |kind: &str| {
        json!({"application": {"kind": kind},
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": kind, "name": "s"}})
    };
    let class = json!({"spec": {"strategies": [entry("CNPG"), entry("Etcd")]}});
    let after = defaulted(Kind::BackupClass, &class);
    assert_eq!(after["spec"]["strategies"][0], class["spec"]["strategies"][0]);
    assert_eq!(after["spec"]["strategies"][1]["application"]["apiGroup"], "apps.cozystack.io");
}

#[test]
fn a_strategy_shows_what_absent_means() {
    let strategy = json!({"spec": {"template": {"destination": {"s3": {"bucket": "b", "region": null}}}}});
    let after = defaulted(Kind::Strategy, &strategy);
    assert_eq!(
        after["spec"]["template"]["destination"]["s3"],
        json!({"bucket": "b", "region": "us-east-1", "forcePathStyle": false})
    );
}

/// Any JSON, more often than not with the names that defaults look for.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![Just("Etcd"), Just("b1"), Just("pg"), Just(""), Just("apps.cozystack.io")].prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "spec",
        "template",
        "destination",
        "s3",
        "region",
        "forcePathStyle",
        "backupRef",
        "name",
        "options",
        "restoreTimeoutSeconds",
        "targetApplicationRef",
        "applicationRef",
        "apiGroup",
        "kind",
        "strategies",
        "application",
        "strategyRef",
        "other",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6).prop_map(|map| map
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// A value of the object's shape with what generation makes of each part.
fn object() -> impl Strategy<Value = Value> {
    (json_value(), json_value(), json_value()).prop_map(|(spec, options, rest)| {
        let mut object = json!({"spec": spec, "rest": rest});
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.entry("backupRef").or_insert_with(|| json!({"name": "b1"}));
            spec.entry("options").or_insert(options);
        }
        object
    })
}

/// Whether everything in `old` is in `new`, `null` aside.
fn kept(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Null, _) => true,
        (Value::Object(old), Value::Object(new)) => {
            old.iter().all(|(name, value)| new.get(name).is_some_and(|new| kept(value, new)))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| kept(old, new))
        }
        (old, new) => old == new,
    }
}

proptest! {
    #[test]
    fn defaulting_twice_is_defaulting_once_and_nothing_is_lost(object in object(), kind in prop::sample::select(&Kind::ALL[..])) {
        let once = defaulted(kind, &object);
        prop_assert!(kept(&object, &once));
        prop_assert_eq!(defaulted(kind, &once), once);
    }
}
