//! Files of several YAML (or JSON) documents, with each document's place in the file.

use serde::de::DeserializeOwned;
use thiserror::Error;

pub use super::lines::Lines;

/// One document of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// Which one, from 1.
    pub number: usize,
    /// Line of the file on which it begins, from 1.
    pub line: usize,
    /// Its text.
    pub text: &'a str,
}

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Unreadable {
    /// Line of the file, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong with it.
    pub message: String,
}

/// The documents of a file, empty ones left out.
#[must_use]
pub fn documents(text: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    let (mut start, mut line, mut first) = (0, 1, 1);
    let mut at = 0;
    for text_line in text.split_inclusive('\n') {
        line += 1;
        at += text_line.len();
        let trimmed = text_line.trim_end();
        if trimmed == "---" || trimmed.starts_with("--- ") {
            found.push((first, &text[start..at - text_line.len()]));
            // What follows the marker on its line belongs to the new document.
            (start, first) = (at - text_line.len() + 3, line - 1);
        }
    }
    found.push((first, &text[start..]));
    found
        .into_iter()
        .filter(|(_, text)| text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')))
        .enumerate()
        .map(|(index, (line, text))| Document { number: index + 1, line, text })
        .collect()
}

impl Document<'_> {
    /// Where its parts stand in the file.
    #[must_use]
    pub fn lines(&self) -> Lines {
        Lines::of(self.text, self.line)
    }

    /// Reads the document as a value of some type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Unreadable> {
        serde_saphyr::from_str(self.text).map_err(|error| {
            let place = error.location();
            let number = |n: u64| usize::try_from(n).unwrap_or_default();
            let line = place.map_or(1, |place| number(place.line()).max(1));
            let message = error.without_snippet().to_string();
            Unreadable {
                line: self.line + line - 1,
                column: place.map_or(1, |place| number(place.column()).max(1)),
                message: message.lines().next().unwrap_or_default().to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn documents_know_their_lines() {
        let text = "# a comment\n---\na: 1\n---\n# nothing\n--- \nb:\n  - |\n    ---\n  - 2\n";
        let found: Vec<_> = documents(text).iter().map(|d| (d.number, d.line, d.read::<Value>().unwrap())).collect();
        assert_eq!(found, [(1, 2, json!({"a": 1})), (2, 6, json!({"b": ["---\n", 2]}))]);
        let first: Vec<_> = documents(text).iter().map(|document| document.lines().of_field("")).collect();
        assert_eq!(first, [3, 7]);
        assert!(documents("\n---\n\n").is_empty());
        assert_eq!(documents("{\"a\": 1}")[0].read::<Value>().unwrap(), json!({"a": 1}));
    }

    #[test]
    fn what_cannot_be_read_says_where_in_the_file() {
        let text = "a: 1\n---\nb: 2\nc: [1\n";
        let error = documents(text)[1].read::<Value>().unwrap_err();
        assert!(error.line >= 4, "{error}");
    }
}
