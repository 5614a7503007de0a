//! The policies that come with the program: the files in `policies/`, read when it is built.

use std::sync::LazyLock;

use super::load::{File, load};
use super::set::PolicySet;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$((concat!("policies/", $name), include_str!(concat!("../../policies/", $name)))),*]
    };
}

const FILES: [(&str, &str); 3] = files!["etcd-strategy.yaml", "etcdcluster.yaml", "etcdsnapshot.yaml"];

/// The files, for those who want to load them together with others or to export them.
#[must_use]
pub fn builtin_files() -> Vec<File> {
    FILES.iter().map(|(name, text)| File { name: (*name).to_owned(), text: (*text).to_owned() }).collect()
}

/// The policies that come with the program, and no others.
#[must_use]
pub fn builtin() -> &'static PolicySet {
    #[expect(clippy::panic, reason = "these files are part of the program, and a test loads them")]
    static SET: LazyLock<PolicySet> = LazyLock::new(|| match load(&builtin_files()) {
        Ok(set) => set,
        Err(errors) => panic!("the program's own policies: {errors:?}"),
    });
    &SET
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_policies_load() {
        if let Err(errors) = load(&builtin_files()) {
            let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("{}", told.join("\n"));
        }
        assert!(builtin().summaries().iter().all(|policy| !policy.bindings.is_empty()));
    }

    #[test]
    fn every_policy_file_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
            .map(|path| format!("policies/{}", path.file_name().unwrap().to_string_lossy()))
            .collect();
        found.sort();
        assert_eq!(found, FILES.map(|(name, _)| name));
    }
}
