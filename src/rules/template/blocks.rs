//! Whether blocks open and close in pairs. The engine's parser ends at a stray `end` or `else` and takes a block that
//! nobody closes for complete; Go refuses both.

use super::TemplateError;
use super::analyse::position;

const OPENERS: [&str; 5] = ["if", "range", "with", "define", "block"];

/// Refuses the first block that is not closed, or the first `end` or `else` outside of one.
pub(super) fn check(source: &str) -> Result<(), TemplateError> {
    let refuse = |offset: usize, message: &str| TemplateError::Syntax {
        at: position(source, offset),
        message: message.to_owned(),
    };
    let mut open: Vec<usize> = Vec::new();
    for (offset, word) in actions(source) {
        match word {
            word if OPENERS.contains(&word) => open.push(offset),
            "end" if open.pop().is_none() => return Err(refuse(offset, "end closes nothing")),
            "else" if open.is_empty() => return Err(refuse(offset, "else belongs to nothing")),
            _ => {}
        }
    }
    match open.first() {
        Some(offset) => Err(refuse(*offset, "this block has no end")),
        None => Ok(()),
    }
}

/// Each action's place and first word. The text has passed the engine's lexer.
fn actions(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = source[at..].find("{{").map(|index| at + index) {
        let body = open + 2;
        let text = source[body..].strip_prefix("- ").unwrap_or(&source[body..]).trim_start();
        let start = source.len() - text.len();
        at = if text.starts_with("/*") {
            source[start..].find("*/").map_or(source.len(), |end| start + end + 2)
        } else {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
            found.push((start, &text[..end]));
            close(source, start)
        };
    }
    found
}

/// The place after the action that starts here; braces in texts do not close it.
fn close(source: &str, start: usize) -> usize {
    let mut quote: Option<char> = None;
    let mut characters = source[start..].char_indices();
    while let Some((index, c)) = characters.next() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some('"' | '\'') if c == '\\' => {
                characters.next();
            }
            None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
            None if source[start + index..].starts_with("}}") => return start + index + 2,
            Some(_) | None => {}
        }
    }
    source.len()
}
