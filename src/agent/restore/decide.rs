//! What is to be done with a data directory. Pure.

use std::path::{Path, PathBuf};

use crate::agent::rebuild::WORK_DIR;

/// What the data directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// Everything in it.
    pub(super) entries: Vec<PathBuf>,
    /// A work directory on the scratch volume.
    pub(super) scratch: Option<PathBuf>,
    /// Whether the cluster that the member belongs to has formed.
    pub(super) formed: bool,
}

/// What is done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A killed run left it: it is in the way, and takes room.
    RemoveLeftover(PathBuf),
    /// A member is there, which is never touched again; or its cluster has formed, and old data must not come back under
    /// the name of a member that lost its own: etcd fails to start then, and says so.
    LeaveAlone,
    /// No member is there.
    Rebuild,
}

/// Leftovers go first, also beside an initialised member: a run that was killed right after its last rename left them.
pub(super) fn plan(observed: &Observed) -> Vec<Step> {
    let mut steps: Vec<Step> = observed
        .entries
        .iter()
        .filter(|path| is_leftover(path))
        .chain(&observed.scratch)
        .cloned()
        .map(Step::RemoveLeftover)
        .collect();
    let initialised = observed.entries.iter().any(|path| name(path) == "member");
    steps.push(if initialised || observed.formed { Step::LeaveAlone } else { Step::Rebuild });
    steps
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Ours, and those of the older agent that used the same directory.
fn is_leftover(path: &Path) -> bool {
    let name = name(path);
    let theirs =
        name == ".restore" || (name.starts_with("etcd-restore-") && path.extension().is_some_and(|e| e == "db"));
    name == WORK_DIR || theirs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(names: &[&str]) -> Observed {
        Observed { entries: names.iter().map(|name| Path::new("/data").join(name)).collect(), ..Observed::default() }
    }

    #[test]
    fn an_initialised_directory_is_left_alone() {
        assert_eq!(plan(&observed(&["lost+found", "member"])), [Step::LeaveAlone]);
        assert_eq!(plan(&observed(&["lost+found"])), [Step::Rebuild]);
    }

    #[test]
    fn a_snapshot_is_restored_once() {
        let wiped = Observed { formed: true, ..Observed::default() };
        assert_eq!(plan(&wiped), [Step::LeaveAlone]);
    }

    #[test]
    fn leftovers_go_first_and_nothing_else_does() {
        let steps = plan(&observed(&[
            WORK_DIR,
            ".restore",
            "etcd-restore-1.db",
            "etcd-restore-notes.txt",
            "keep.db",
            "member",
        ]));
        let removed = |name: &str| Step::RemoveLeftover(Path::new("/data").join(name));
        assert_eq!(steps, [removed(WORK_DIR), removed(".restore"), removed("etcd-restore-1.db"), Step::LeaveAlone]);
    }
}
