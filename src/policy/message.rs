//! The field in front of a message: `spec.template.destination.pvc: ...`, or several with commas between them.

/// The fields that a message names, and the rest of it. A message that names none is about the object as a whole.
#[must_use]
pub(super) fn split(text: &str) -> (Vec<String>, String) {
    let whole = || (vec![String::new()], text.trim().to_owned());
    let Some((front, rest)) = text.split_once(": ") else { return whole() };
    let fields: Vec<&str> = front.split(',').map(str::trim).collect();
    if fields.iter().all(|field| is_path(field)) {
        (fields.into_iter().map(ToOwned::to_owned).collect(), rest.trim().to_owned())
    } else {
        whole()
    }
}

/// Paths begin at one of an object's own fields, so that no sentence is taken for one.
fn is_path(text: &str) -> bool {
    let root = text.split(['.', '[']).next().unwrap_or_default();
    matches!(root, "spec" | "metadata" | "status") && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_of_a_message_is_a_field_only_if_it_is_a_path() {
        for (text, fields, message) in [
            ("spec.a.b: is wrong: very", vec!["spec.a.b"], "is wrong: very"),
            ("spec: is missing", vec!["spec"], "is missing"),
            ("spec.a, spec.b[2]: differ", vec!["spec.a", "spec.b[2]"], "differ"),
            ("metadata.annotations[\"x.io/y\"]: no", vec!["metadata.annotations[\"x.io/y\"]"], "no"),
            ("this is wrong: spec.a", vec![""], "this is wrong: spec.a"),
            ("specifically: no", vec![""], "specifically: no"),
            ("no field", vec![""], "no field"),
        ] {
            assert_eq!(split(text), (fields.into_iter().map(ToOwned::to_owned).collect(), message.to_owned()));
        }
    }
}
