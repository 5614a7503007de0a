//! Field paths, as findings have them.

/// One step of a field path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Into the field, or the key of a map, of this name.
    Field(&'a str),
    /// Into the item of a list, counted from 0.
    Item(usize),
}

/// The steps of a field path: names with dots between them, `[2]` for list items, `["a.b"]` for map keys. `None` where
/// it is no path. The empty path has no steps.
#[must_use]
pub fn segments(path: &str) -> Option<Vec<Segment<'_>>> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (segment, after) = if let Some(bracket) = rest.strip_prefix('[') {
            let (inside, after) = bracket.split_once(']')?;
            let segment = match inside.strip_prefix(['"', '\'']) {
                Some(key) => Segment::Field(key.strip_suffix(['"', '\''])?),
                None => Segment::Item(inside.parse().ok()?),
            };
            (segment, after)
        } else {
            let (name, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
            (Segment::Field(name), after)
        };
        found.push(segment);
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::Segment::{Field, Item};
    use super::*;

    #[test]
    fn paths_lead_into_fields_items_and_keys() {
        assert_eq!(
            segments("spec.strategies[1].kind"),
            Some(vec![Field("spec"), Field("strategies"), Item(1), Field("kind")])
        );
        let key = "metadata.annotations[\"etcd-warden.io/x\"]";
        assert_eq!(segments(key), Some(vec![Field("metadata"), Field("annotations"), Field("etcd-warden.io/x")]));
        assert_eq!(segments(""), Some(Vec::new()));
        for none in ["spec[", "spec[x]", "spec[\"x]"] {
            assert_eq!(segments(none), None, "{none}");
        }
    }
}
