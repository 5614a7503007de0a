//! Which room may use which.

use super::source::Source;

/// A room and the rooms that it may use. What is not listed here may use everything: programs and their wiring.
const ARROWS: [(&str, &[&str]); 12] = [
    ("api", &[]),
    ("policy", &["api"]),
    ("rules", &["api"]),
    ("checks", &["policy", "rules", "api"]),
    ("net", &["api"]),
    ("etcd", &["net", "api"]),
    ("store", &["net", "api"]),
    ("k8s", &["api"]),
    ("runtime", &[]),
    ("admission", &["checks", "policy", "rules", "k8s", "runtime", "api"]),
    ("controller", &["checks", "policy", "rules", "etcd", "store", "k8s", "runtime", "api"]),
    ("agent", &["etcd", "store", "api"]),
];

pub fn check(source: &Source) -> Vec<String> {
    let room = source.file.split(['/', '.']).next().unwrap_or_default();
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else { return Vec::new() };
    source
        .paths
        .iter()
        .filter(|path| path.starts_with(&["crate"]))
        .filter_map(|path| path.segments.get(1).map(|used| (path, used)))
        .filter(|(_, used)| {
            *used != room && ARROWS.iter().any(|(name, _)| name == used) || *used == "cmd" || *used == "cli"
        })
        .filter(|(_, used)| !allowed.contains(&used.as_str()))
        .map(|(path, used)| {
            format!("src/{}:{} uses {used}, which {room} may not: {}", source.file, path.line, path.segments.join("::"))
        })
        .collect()
}

#[test]
fn an_arrow_against_the_direction_is_seen() {
    for (file, line) in [
        ("api/names.rs", "use crate::k8s::owner;"),
        ("runtime/leader.rs", "use crate::{api::names};"),
        ("admission/router.rs", "fn f() { crate::controller::run(); }"),
        ("agent/restore/decide.rs", "use super::super::super::k8s::apply;"),
        ("controller/mod.rs", "use crate::cmd::serve;"),
    ] {
        assert!(!check(&Source::parse(file, line)).is_empty(), "{file}: {line}");
    }
    assert!(check(&Source::parse("controller/mod.rs", "use crate::etcd::dial; use crate::k8s::apply;")).is_empty());
    assert!(check(&Source::parse("cmd/serve.rs", "use crate::controller; use crate::admission;")).is_empty());
}
