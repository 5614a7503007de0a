//! What a matrix is about.

use super::scene::Scene;

/// Something that our server does, from a beginning to an end that may stand.
pub trait Story {
    /// Its name, for people.
    const NAME: &'static str;
    /// The controllers that it needs, as in `--controllers`.
    const CONTROLLERS: &'static str;

    /// Sets the scene in a namespace of its own, in peace, and gives the namespace.
    async fn prepare(&self, scene: &Scene) -> String;

    /// Lets it begin. The first write after this is the first that counts.
    async fn begin(&self, scene: &Scene, namespace: &str);

    /// Looks at etcd's keys and at live objects: the end that was reached, or why it is none.
    async fn look(&self, scene: &Scene, namespace: &str) -> Result<&'static str, NoEnd>;
}

/// Why a story is not at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoEnd {
    /// Something is still missing.
    Missing(String),
    /// This must never be, not even for a moment.
    Never(String),
}

impl<T: Into<String>> From<T> for NoEnd {
    fn from(missing: T) -> Self {
        Self::Missing(missing.into())
    }
}
