//! On which line of a file each part of a document stands.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser};

use super::path::{Segment, segments};

/// A part of a document, with the line of the file on which it stands, and the parts below it. A field stands where its
/// name does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    line: usize,
    fields: BTreeMap<String, Lines>,
    items: Vec<Lines>,
}

impl Lines {
    /// The lines of a document's text whose first one is this line of its file. What comes after a fault in the text is
    /// left out.
    pub(super) fn of(text: &str, first: usize) -> Self {
        let mut reader = Reader { events: Parser::new_from_str(text), before: first.saturating_sub(1) };
        reader.node().unwrap_or(Self { line: first, ..Self::default() })
    }

    /// The line of a field, or of the nearest one above it that there is; the empty path is the document itself.
    #[must_use]
    pub fn of_field(&self, path: &str) -> usize {
        let mut here = self;
        for segment in segments(path).unwrap_or_default() {
            let below = match segment {
                Segment::Field(name) => here.fields.get(name),
                Segment::Item(at) => here.items.get(at),
            };
            let Some(below) = below else { break };
            here = below;
        }
        here.line
    }

    /// The lines of the items of a list in this field, in their order.
    #[must_use]
    pub fn items(&self, field: &str) -> &[Self] {
        self.fields.get(field).map_or(&[], |list| &list.items)
    }
}

struct Reader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
    /// Lines of the file that stand before the text.
    before: usize,
}

impl<'a> Reader<'a> {
    /// The next event that is part of a value, and its line.
    fn event(&mut self) -> Option<(Event<'a>, usize)> {
        loop {
            let (event, span) = self.events.next()?.ok()?;
            if !matches!(event, Event::StreamStart | Event::DocumentStart(..) | Event::Comment(..)) {
                return Some((event, self.before + span.start.line()));
            }
        }
    }

    fn node(&mut self) -> Option<Lines> {
        let (event, line) = self.event()?;
        self.rest_of(&event, line)
    }

    /// What a value that begins with this event is; `None` where none begins.
    fn rest_of(&mut self, event: &Event<'a>, line: usize) -> Option<Lines> {
        let mut lines = Lines { line, ..Lines::default() };
        match event {
            Event::Scalar(..) | Event::Alias(_) => {}
            Event::SequenceStart(..) => {
                while let Some(item) = self.node() {
                    lines.items.push(item);
                }
            }
            Event::MappingStart(..) => {
                while let Some((key, at)) = self.event() {
                    let Some(_) = self.rest_of(&key, at) else { break };
                    let Some(value) = self.node() else { break };
                    if let Event::Scalar(name, ..) = key {
                        lines.fields.insert(name.into_owned(), Lines { line: at, ..value });
                    }
                }
            }
            _ => return None,
        }
        Some(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Lines {
        Lines::of(text, 10)
    }

    #[test]
    fn a_field_stands_where_its_name_does_and_an_absent_one_where_its_parent_does() {
        let text = "# about\nkind: K # of kinds\nspec:\n  a: # inline\n    b: 1\n  list:\n  - x: 1\n    y: |\n      deep\n      text\n    z: 2\n\
                    \n  - {x: 1,\n     y: 2}\n";
        for (path, line) in [
            ("", 11),
            ("kind", 11),
            ("spec", 12),
            ("spec.a", 13),
            ("spec.a.b", 14),
            ("spec.a.absent.deeper", 13),
            ("spec.list[0].x", 16),
            ("spec.list[0].z", 20),
            ("spec.list[1].x", 22),
            ("spec.list[1].y", 23),
            ("spec.list[7].y", 15),
            ("metadata.name", 11),
        ] {
            assert_eq!(lines(text).of_field(path), line, "{path}");
        }
        assert_eq!(lines(text).fields["spec"].items("list").len(), 2);
    }

    #[test]
    fn json_aliases_and_torn_texts_have_lines_too() {
        let json = "{\n  \"spec\": {\n    \"list\": [\n      {\"x\": 1},\n      {\n        \"y\": null\n      }\n    ]\n  }\n}\n";
        assert_eq!(lines(json).of_field(""), 10);
        assert_eq!(lines(json).of_field("spec.list[1].y"), 15);
        let alias = "a: &x\n  b: 1\nc: *x\nd: 4\n";
        assert_eq!(lines(alias).of_field("c.b"), 12);
        assert_eq!(lines(alias).of_field("d"), 13);
        assert_eq!(lines("a: 1\nb: [1\nc: }").of_field("a"), 10);
        assert_eq!(lines("").of_field("a"), 10);
    }
}
