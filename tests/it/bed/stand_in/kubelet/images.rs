//! Images: which programs of this host a reference stands for.

use super::runtime::Mount;
use crate::bed::etcd::Version;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What an image holds, besides the few files that the stand-in puts into every container.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Where in the container which program of this host is.
    pub programs: BTreeMap<PathBuf, PathBuf>,
    /// The command of containers that give none.
    pub entrypoint: Vec<String>,
    /// The user of containers that name none.
    pub user: i64,
}

/// The images that can be "pulled"; every other reference gives ErrImagePull.
#[derive(Clone, Debug, Default)]
pub struct Images(HashMap<String, Image>);

impl Images {
    /// None yet.
    pub fn none() -> Self {
        Self::default()
    }

    /// An etcd image under upstream's name, `quay.io/coreos/etcd:v<version>`, with the real programs of that version.
    ///
    /// # Panics
    /// When they have not been built; the message says which command builds them.
    #[must_use]
    pub fn etcd(self, version: Version) -> Self {
        self.etcd_as(&format!("quay.io/coreos/etcd:v{}", version.number()), version)
    }

    /// As [`Images::etcd`], under a name of choice.
    #[must_use]
    pub fn etcd_as(self, reference: &str, version: Version) -> Self {
        let folder = Path::new("/usr/local/bin");
        let mut programs = vec![(folder.join("etcd"), version.etcd()), (folder.join("etcdctl"), version.etcdctl())];
        programs.extend(version.etcdutl().map(|etcdutl| (folder.join("etcdutl"), etcdutl)));
        let image = Image { programs: programs.into_iter().collect(), ..Image::default() };
        self.with(reference, image.with_libraries())
    }

    /// Our image under a name of choice, with the programs as cargo built them for this test.
    #[must_use]
    pub fn ours(self, reference: &str) -> Self {
        let programs = [
            ("/etcd-warden", env!("CARGO_BIN_EXE_etcd-warden")),
            ("/etcd-warden-agent", env!("CARGO_BIN_EXE_etcd-warden-agent")),
        ];
        let image = Image {
            programs: programs.into_iter().map(|(to, from)| (PathBuf::from(to), PathBuf::from(from))).collect(),
            entrypoint: vec!["/etcd-warden".to_owned()],
            user: 65532,
        };
        self.with(reference, image)
    }

    /// An image of programs of this host, each under its own path and with the libraries it needs.
    #[must_use]
    pub fn host_programs(self, reference: &str, programs: &[&str]) -> Self {
        let programs = programs.iter().map(|program| (PathBuf::from(program), PathBuf::from(program))).collect();
        self.with(reference, Image { programs, ..Image::default() }.with_libraries())
    }

    /// Any image.
    #[must_use]
    pub fn with(mut self, reference: &str, image: Image) -> Self {
        self.0.insert(reference.to_owned(), image);
        self
    }

    /// What a reference stands for, or why it cannot be pulled.
    pub fn find(&self, reference: &str) -> Result<&Image, String> {
        self.0.get(reference).ok_or_else(|| {
            let mut known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            known.sort_unstable();
            format!("{reference:?} is not one of the stand-in's images: {}", known.join(", "))
        })
    }
}

impl Image {
    /// The same with the shared libraries of its programs, where they need any.
    fn with_libraries(mut self) -> Self {
        let programs: Vec<PathBuf> = self.programs.values().cloned().collect();
        for program in programs {
            // Fails for a static program, which needs nothing.
            let Ok(output) = Command::new("ldd").arg(&program).output() else { continue };
            for path in libraries(&String::from_utf8_lossy(&output.stdout)) {
                self.programs.insert(path.clone(), path);
            }
        }
        self
    }

    /// How its content gets into a container.
    pub fn mounts(&self) -> impl Iterator<Item = Mount> {
        self.programs.iter().map(|(to, from)| Mount { from: from.clone(), to: to.clone(), read_only: true })
    }
}

/// The paths in what ldd prints: `name => /path (address)` or `/path (address)`.
fn libraries(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}
