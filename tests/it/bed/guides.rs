//! The commands that the guides show, so that tests run the very lines that people read.
//!
//! `tests/it/tree/guide_commands.tsv` says of each of them which test runs it, or why none can; a test holds the table to
//! the guides, and those that run commands take them from it.

use super::tools::tree;

/// What a command begins with, besides words like `NAME=value`.
const PROGRAMS: [&str; 14] = [
    "etcd-warden",
    "etcd-warden-agent",
    "kubectl",
    "helm",
    "make",
    "cargo",
    "go",
    "curl",
    "./run-all.sh",
    "./cleanup.sh",
    "tests/run",
    "tests/cluster/node",
    "tests/cluster/tools/build",
    "tests/cluster/tools/path",
];
const TABLE: &str = "tests/it/tree/guide_commands.tsv";

/// A command and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The page that shows it.
    pub guide: String,
    /// The command, of several lines where it has a document in it.
    pub command: String,
    /// `node`, `process` or `control-plane`: the tier in which a test runs it. Otherwise why no test can.
    pub run: String,
}

/// The rows of the table.
///
/// # Panics
/// When it cannot be read.
pub fn table() -> Vec<Row> {
    let text = read(TABLE);
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let [guide, command, run] =
            line.split('\t').collect::<Vec<_>>().try_into().expect("guide, command, what runs it");
        Row { guide: guide.to_owned(), command: command.replace("\\n", "\n"), run: run.to_owned() }
    })
    .collect()
}

/// The commands that a tier runs, each once, in the order of the table.
pub fn of_tier(tier: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for row in table().into_iter().filter(|row| row.run == tier) {
        if !commands.contains(&row.command) {
            commands.push(row.command);
        }
    }
    assert!(!commands.is_empty(), "no command is left to the tier {tier}");
    commands
}

/// Every command that a guide shows: in its blocks, and within its sentences where it has arguments.
pub fn shown(guide: &str) -> Vec<String> {
    let text = read(guide);
    let mut found: Vec<String> = Vec::new();
    let (mut prose, mut fence) = (String::new(), None);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language) };
        } else if let Some(language) = fence {
            match (language, line.strip_prefix("$ ")) {
                ("sh", _) if !line.trim().is_empty() => found.push(line.to_owned()),
                ("console", Some(command)) => found.push(command.to_owned()),
                _ => {}
            }
        } else if let Some(command) = line.strip_prefix("    ").map(str::trim_start) {
            if is_command(command) {
                found.push(with_document(command, &mut lines));
            }
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
    }
    let spans = prose.split('`').skip(1).step_by(2).map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    found.extend(spans.map(|span| span.replace("\\|", "|")).filter(|span| is_command(span) && span.contains(' ')));
    found.iter().map(|command| command.split(" # ").next().unwrap_or_default().trim().to_owned()).collect()
}

/// A command that ends with `<<YAML` goes on to the line that ends it.
fn with_document<'a>(command: &str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut whole = command.to_owned();
    if let Some((_, end)) = command.split_once("<<") {
        for line in lines.map(str::trim_start) {
            whole = format!("{whole}\n{line}");
            if line == end {
                break;
            }
        }
    }
    whole
}

fn is_command(text: &str) -> bool {
    let is_setting = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    };
    text.split_whitespace().find(|word| !is_setting(word)).is_some_and(|first| PROGRAMS.contains(&first))
}

/// The commands in a guide's blocks that are indented by four, in their order.
///
/// # Panics
/// When the guide cannot be read, or shows none.
pub fn commands(guide: &str) -> Vec<String> {
    let text = read(guide);
    let shown = text
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| is_command(line) && !line.starts_with(' '));
    let commands: Vec<String> =
        shown.map(|line| line.split(" # ").next().unwrap_or_default().trim().to_owned()).collect();
    assert!(!commands.is_empty(), "{guide} shows no command");
    commands
}

fn read(file: &str) -> String {
    std::fs::read_to_string(tree().join(file)).unwrap_or_else(|e| panic!("read {file}: {e}"))
}
