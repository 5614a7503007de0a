//! What settings may be, said at the start under the setting's name and not found out later.

/// A name that an object can have: lower-case letters, digits and `-`, in parts with dots between them.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err("expected lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
            .to_owned())
    }
}

/// A namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        Ok(text.to_owned())
    } else {
        Err("expected at most 63 lower-case letters, digits and '-', with a letter or digit at both ends".to_owned())
    }
}

/// A namespace, or nothing where the environment says nothing.
pub(super) fn namespace_or_nothing(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() { Ok(String::new()) } else { namespace(text) }
}

/// Something without blanks in it: an image, a user's name. It may be empty.
pub(super) fn without_blanks(text: &str) -> Result<String, String> {
    if text.contains(char::is_whitespace) { Err("expected no blanks".to_owned()) } else { Ok(text.to_owned()) }
}

/// Something, and without blanks in it.
pub(super) fn word(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected something".to_owned()) } else { without_blanks(text) }
}

fn is_label(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.starts_with(inside)
        && text.ends_with(inside)
        && text.chars().all(|c| inside(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_what_they_have_to_be() {
        assert_eq!(namespace("etcd-warden-system").as_deref(), Ok("etcd-warden-system"));
        assert_eq!(object_name("cluster.local").as_deref(), Ok("cluster.local"));
        assert_eq!(namespace_or_nothing(" ").as_deref(), Ok(""));
        assert_eq!(without_blanks("").as_deref(), Ok(""));
        for wrong in ["", "-a", "a-", "A", "a.b", "a b", &"a".repeat(64)] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "a..b", ".a", "a_b", &"a.".repeat(127)] {
            assert!(object_name(wrong).is_err(), "{wrong}");
        }
        assert!(word("").is_err() && word("a b").is_err() && without_blanks("a\t").is_err());
    }
}
