//! What the guides show is run by a test, or somebody has said why it cannot be.

use std::collections::BTreeSet;

use crate::bed::guides::{commands, shown, table};
use crate::bed::tools::tree;

/// The pages whose blocks a test of the node tier follows from top to bottom.
const FOLLOWED: [&str; 2] = ["docs/install.md", "docs/runbook.md"];

fn guides() -> Vec<String> {
    let mut guides = vec!["README.md".to_owned(), "examples/walkthrough/README.md".to_owned()];
    let pages = std::fs::read_dir(tree().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|ending| ending == "md"));
    guides.extend(pages.map(|page| format!("docs/{}", page.file_name().unwrap().to_string_lossy())));
    guides
}

#[test]
fn every_command_that_a_guide_shows_is_run_by_a_test_or_has_a_reason() {
    let shown: BTreeSet<(String, String)> = guides()
        .into_iter()
        .flat_map(|guide| shown(&guide).into_iter().map(move |command| (guide.clone(), command)))
        .collect();
    let rows = table();
    let listed: BTreeSet<(String, String)> = rows.iter().map(|row| (row.guide.clone(), row.command.clone())).collect();
    let told = |set: BTreeSet<&(String, String)>| -> Vec<String> {
        set.into_iter().map(|(guide, command)| format!("{guide}\t{}", command.replace('\n', "\\n"))).collect()
    };
    let (new, stale) = (told(shown.difference(&listed).collect()), told(listed.difference(&shown).collect()));
    assert!(new.is_empty(), "nothing in guide_commands.tsv says who runs these: {new:#?}");
    assert!(stale.is_empty(), "no guide shows these any more: {stale:#?}");
    assert_eq!(rows.len(), listed.len(), "a row stands twice");
    for row in &rows {
        let tier = ["node", "process", "control-plane"].contains(&row.run.as_str());
        assert!(tier || row.run.split(' ').count() > 3, "{row:?}: a tier, or a reason in words");
    }
}

#[test]
fn what_the_node_tier_runs_is_what_it_reads() {
    let followed: BTreeSet<(String, String)> = FOLLOWED
        .iter()
        .flat_map(|guide| commands(guide).into_iter().map(|command| ((*guide).to_owned(), command)))
        .collect();
    let listed: BTreeSet<(String, String)> =
        table().into_iter().filter(|row| row.run == "node").map(|row| (row.guide, row.command)).collect();
    assert_eq!(listed, followed);
}
