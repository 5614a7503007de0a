//! The commands that the guides show, so that tests run the very lines that people read.

use super::tools::tree;

/// What a command begins with.
const PROGRAMS: [&str; 4] = ["kubectl", "helm", "make", "tests/cluster/node"];

/// The commands that a guide shows as code, in their order: lines that are indented by four, without their comments.
///
/// # Panics
/// When the guide cannot be read, or shows none.
pub fn commands(guide: &str) -> Vec<String> {
    let text = std::fs::read_to_string(tree().join(guide)).unwrap_or_else(|e| panic!("read {guide}: {e}"));
    let shown = text.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = shown.filter(|line| PROGRAMS.iter().any(|program| line.starts_with(&format!("{program} "))));
    let commands: Vec<String> =
        commands.map(|line| line.split(" # ").next().unwrap_or_default().trim().to_owned()).collect();
    assert!(!commands.is_empty(), "{guide} shows no command");
    commands
}
