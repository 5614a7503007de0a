//! Which files are pure, and what a pure file does not name.

use super::source::Source;

/// Rooms in which every file is pure.
const ROOMS: [&str; 4] = ["api/", "policy/", "rules/", "checks/"];
/// Files, or folders, that are pure wherever they stand.
const NAMES: [&str; 5] = ["decide", "build", "status", "defaults", "review"];
/// Crates whose business is effects.
const CRATES: [&str; 10] = [
    "tokio",
    "axum",
    "axum_server",
    "reqwest",
    "object_store",
    "etcd_client",
    "tonic",
    "hyper",
    "hyper_util",
    "rustix",
];
/// Paths that lead to effects in crates that have pure parts too.
const PATHS: [&[&str]; 12] = [
    &["kube", "Client"],
    &["kube", "Api"],
    &["kube", "api", "Api"],
    &["kube", "client"],
    &["kube", "runtime"],
    &["std", "env"],
    &["std", "fs"],
    &["std", "net", "TcpStream"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "io", "stdin"],
    &["env", "var"],
];
/// Types that tell the time.
const CLOCKS: [&str; 6] = ["SystemTime", "Instant", "Timestamp", "Zoned", "Utc", "Local"];

pub fn is_pure(file: &str) -> bool {
    let in_room = ROOMS.iter().any(|room| file.starts_with(room));
    let named = file.split('/').any(|part| NAMES.contains(&part.trim_end_matches(".rs")));
    in_room || named
}

pub fn check(source: &Source) -> Vec<String> {
    if !is_pure(&source.file) {
        return Vec::new();
    }
    let mut violations: Vec<String> = source
        .asynchronous
        .iter()
        .map(|line| format!("src/{}:{line} is a pure file and has something asynchronous", source.file))
        .collect();
    for path in &source.paths {
        let effect = path.segments.first().is_some_and(|first| CRATES.contains(&first.as_str()))
            || PATHS.iter().any(|forbidden| path.starts_with(forbidden))
            || CLOCKS.iter().any(|clock| path.ends_with(&[clock, "now"]));
        if effect {
            violations.push(format!(
                "src/{}:{} is a pure file and names {}",
                source.file,
                path.line,
                path.segments.join("::")
            ));
        }
    }
    violations
}

#[test]
fn each_kind_of_effect_is_seen() {
    let effects = [
        "use kube::Client;",
        "use kube::{Api, ResourceExt};",
        "fn f() { tokio::spawn(x); }",
        "use axum::Router;",
        "fn f() { let now = Timestamp::now(); }",
        "fn f() { let now = std::time::Instant::now(); }",
        "fn f() { std::env::var(\"X\"); }",
        "fn f() { info!(now = %k8s_openapi::jiff::Timestamp::now()); }",
        "async fn f() {}",
        "fn f() { std::fs::read(\"x\"); }",
    ];
    for effect in effects {
        for file in ["rules/names.rs", "controller/etcdcluster/decide.rs", "admission/defaults/restorejob.rs"] {
            assert!(!check(&Source::parse(file, effect)).is_empty(), "not seen in {file}: {effect}");
        }
        assert!(check(&Source::parse("controller/etcdcluster/observe.rs", effect)).is_empty());
    }
}

#[test]
fn pure_code_is_left_alone() {
    let pure = "use kube::ResourceExt; use k8s_openapi::jiff::Timestamp; use std::net::IpAddr; fn f(now: Timestamp) {}";
    assert!(check(&Source::parse("checks/restorejob.rs", pure)).is_empty());
}
