//! Which parts of an object a policy looks at. Only those are converted for it: an object may be megabytes large, and
//! the CEL crate copies whatever it selects from.

use std::collections::BTreeMap;

use super::cel::Tree;

/// What is wanted of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// These fields of it, and that it is there.
    Fields(BTreeMap<String, Wanted>),
}

impl Default for Wanted {
    fn default() -> Self {
        Self::Fields(BTreeMap::new())
    }
}

impl Wanted {
    /// Whether all of it is wanted.
    pub(super) fn is_whole(&self) -> bool {
        *self == Self::Whole
    }

    /// What is wanted of a field; `None` if it is not looked at.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Whole => Some(self),
            Self::Fields(fields) => fields.get(name),
        }
    }

    /// Adds what an expression reads of the value that is called `root` in it.
    pub(super) fn read_by(&mut self, tree: &Tree, root: &str) {
        if let Some((path, presence)) = path(tree, root) {
            self.add(&path, presence);
            return;
        }
        match tree {
            Tree::Literal(_) | Tree::Ident(_) | Tree::Other(_) => {}
            Tree::Select { of, .. } => self.read_by(of, root),
            Tree::Call { target, args, .. } => {
                for part in target.as_deref().into_iter().chain(args) {
                    self.read_by(part, root);
                }
            }
            Tree::List(items) => {
                for item in items {
                    self.read_by(item, root);
                }
            }
            Tree::Map(entries) => {
                for (key, value) in entries {
                    self.read_by(key, root);
                    self.read_by(value, root);
                }
            }
            Tree::Each { range, parts, .. } => {
                self.read_by(range, root);
                for part in parts {
                    self.read_by(part, root);
                }
            }
        }
    }

    fn add(&mut self, path: &[&str], presence: bool) {
        let Self::Fields(fields) = self else { return };
        match path {
            [] if presence => {}
            [] => *self = Self::Whole,
            [first, rest @ ..] => fields.entry((*first).to_owned()).or_default().add(rest, presence),
        }
    }
}

/// The fields that lead from `root` to what `tree` stands for, and whether only their presence is asked for. Only a
/// chain of fields from the root has such a path.
fn path<'a>(tree: &'a Tree, root: &str) -> Option<(Vec<&'a str>, bool)> {
    match tree {
        Tree::Ident(name) if name == root => Some((Vec::new(), false)),
        Tree::Select { of, field, presence } => {
            let (mut path, _) = path(of, root)?;
            path.push(field);
            Some((path, *presence))
        }
        Tree::Call { name, target: None, args } if name == "_==_" || name == "_!=_" => {
            // A comparison with null asks for presence.
            match args.as_slice() {
                [Tree::Ident(name), Tree::Literal(super::cel::Literal::Null)] if name == root => {
                    Some((Vec::new(), true))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cel::Program;
    use super::*;

    fn wanted(expression: &str) -> Wanted {
        let mut wanted = Wanted::default();
        wanted.read_by(&Program::parse(expression).unwrap().1, "object");
        wanted
    }

    fn fields<const N: usize>(fields: [(&str, Wanted); N]) -> Wanted {
        Wanted::Fields(fields.into_iter().map(|(name, wanted)| (name.to_owned(), wanted)).collect())
    }

    #[test]
    fn only_what_is_read_is_wanted() {
        let none = Wanted::default;
        assert_eq!(wanted("request.operation == 'CREATE'"), none());
        assert_eq!(wanted("object == null || true"), none());
        assert_eq!(wanted("has(object.spec.a)"), fields([("spec", fields([("a", none())]))]));
        assert_eq!(wanted("has(object.spec) && object.spec.a > 1"), fields([("spec", fields([("a", Wanted::Whole)]))]));
        assert_eq!(
            wanted("object.spec.list.exists(x, x.y == object.metadata.name)"),
            fields([("metadata", fields([("name", Wanted::Whole)])), ("spec", fields([("list", Wanted::Whole)])),])
        );
        assert_eq!(wanted("object.spec == params.spec"), fields([("spec", Wanted::Whole)]));
        assert_eq!(wanted("object.spec['a'].b"), fields([("spec", Wanted::Whole)]));
        assert_eq!(wanted("{'a': object}.a == null"), Wanted::Whole);
    }
}
