//! Parses YAML into a tree of values with positions.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span as YamlSpan, Tag};

use super::diagnostic::{Diagnostic, Sink, Spot};
use super::place::Place;
use super::places::join;
use super::scalar::{Value, resolve};
use super::syntax::{replace_controls, syntax_error};
use super::text::quoted;
use super::tree::{Entry, Kind, Node, Scalar, Style};

/// The maximum depth of nesting.
const MAX_DEPTH: usize = 32;
/// The maximum total of copies by aliases and merge keys, in bytes of text plus 64 for each value.
const MAX_COPIED: usize = 4 << 20;

/// Parses the single document of `text`. Returns `None` if there is nothing to decode; the sink
/// contains the reason, except for a text without any value.
pub fn parse(text: &str, sink: &mut Sink) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let cleaned = replace_controls(text, sink);
    let mut builder = Builder {
        sink,
        stack: Vec::new(),
        anchors: HashMap::new(),
        copied: 0,
        root: None,
    };
    let mut documents = 0;
    for event in Parser::new_from_str(&cleaned) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let marker = error.marker();
                let place = Place::point(marker.line(), marker.col() + 1).clamped(&cleaned);
                builder.sink.push(syntax_error(error.info(), place, &cleaned));
                return None;
            }
        };
        if matches!(event, Event::DocumentStart(_)) {
            documents += 1;
            if documents == 2 {
                builder.sink.push(
                    Diagnostic::error(
                        "multiple_documents",
                        "",
                        "the file contains a second YAML document",
                    )
                    .place(Place::point(span.start.line(), span.start.col() + 1).clamped(&cleaned))
                    .hint("remove the `---`: a workflow file contains one document"),
                );
                break;
            }
        }
        if builder.event(event, span).is_err() {
            return None;
        }
    }
    builder.root.filter(|root| !root.is_null())
}

/// The error that stops building the tree.
struct Stop;

struct Frame {
    node: Node,
    anchor: usize,
    /// The key of the next value; `None` inside for an unusable key.
    key: Option<Option<(String, Place, bool)>>,
    /// The first positions of keys, for finding duplicates.
    seen: HashMap<String, Place>,
}

struct Builder<'s> {
    sink: &'s mut Sink,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    copied: usize,
    root: Option<Node>,
}

fn place(span: YamlSpan, style: Style) -> Place {
    let at = |marker: Marker| (marker.line() as u32, marker.col() as u32 + 1);
    let ((line, column), (end_line, end_column)) = (at(span.start), at(span.end));
    let one_line = end_line == line && matches!(style, Style::Plain | Style::Quoted);
    Place {
        line,
        column,
        end_column: if one_line { end_column.max(column) } else { 0 },
    }
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: YamlSpan) -> Result<(), Stop> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                    ScalarStyle::Literal => Style::Literal,
                    ScalarStyle::Folded => Style::Folded,
                };
                let mut place = place(span, style);
                let text = text.into_owned();
                if text.is_empty() && style == Style::Plain {
                    place.end_column = place.column;
                }
                let is_text = tag.is_some_and(|tag| self.tag_is_text(&tag, place));
                let value = if style == Style::Plain && !is_text {
                    resolve(&text)
                } else {
                    Value::Text
                };
                let node = Node {
                    place,
                    kind: Kind::Scalar(Scalar { text, style, value }),
                };
                self.finish(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(Kind::List(Vec::new()), tag.as_deref(), span, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.open(Kind::Map(Vec::new()), tag.as_deref(), span, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(mut frame) => {
                    if let Kind::Map(entries) = &mut frame.node.kind {
                        self.merge(entries)?;
                    }
                    self.finish(frame.node, frame.anchor)
                }
                None => Err(Stop),
            },
            Event::Alias(id) => self.alias(id, place(span, Style::Plain)),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    /// Returns whether a tag makes a scalar text. Tags outside of the core schema are errors.
    fn tag_is_text(&mut self, tag: &Tag, place: Place) -> bool {
        if tag.is_yaml_core_schema()
            && matches!(
                tag.suffix.as_str(),
                "int" | "float" | "bool" | "null" | "map" | "seq"
            )
        {
            return false;
        }
        let is_text = (tag.is_yaml_core_schema() && tag.suffix == "str")
            || (tag.handle.is_empty() || tag.handle == "!") && tag.suffix.is_empty()
            || tag.handle.is_empty() && tag.suffix == "!";
        if !is_text {
            self.sink.push(
                Diagnostic::error("bad_tag", "", format!("unknown tag {}", quoted(&tag.to_string())))
                    .place(place)
                    .hint("quote a value that begins with `!`"),
            );
        }
        true
    }

    fn open(&mut self, kind: Kind, tag: Option<&Tag>, span: YamlSpan, anchor: usize) -> Result<(), Stop> {
        let place = place(span, Style::Plain);
        if let Some(tag) = tag {
            self.tag_is_text(tag, place);
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.too_deep(place));
        }
        self.stack.push(Frame {
            node: Node { place, kind },
            anchor,
            key: None,
            seen: HashMap::new(),
        });
        Ok(())
    }

    fn too_deep(&mut self, place: Place) -> Stop {
        self.sink.push(
            Diagnostic::error(
                "too_deep",
                "",
                format!("the value is nested more than {MAX_DEPTH} levels deep"),
            )
            .place(place),
        );
        Stop
    }

    fn alias(&mut self, id: usize, place: Place) -> Result<(), Stop> {
        let Some(target) = self.anchors.get(&id) else {
            self.sink.push(
                Diagnostic::error("bad_alias", "", "the alias refers to a value that contains it")
                    .place(place),
            );
            return Err(Stop);
        };
        if self.stack.len() + target.height() > MAX_DEPTH {
            return Err(self.too_deep(place));
        }
        self.copied += target.weight();
        if self.copied > MAX_COPIED {
            return Err(self.too_much(place));
        }
        let mut copy = target.clone();
        // Errors in an aliased scalar are reported at its definition, but errors in a whole map or
        // list at the alias.
        if !matches!(copy.kind, Kind::Scalar(_)) {
            copy.place = place;
        }
        self.finish(copy, 0)
    }

    fn too_much(&mut self, place: Place) -> Stop {
        self.sink.push(
            Diagnostic::error("bad_alias", "", "the aliases of the file expand to too much data")
                .place(place)
                .hint(format!(
                    "the maximum for all aliases and merge keys is {} MiB",
                    MAX_COPIED >> 20
                )),
        );
        Stop
    }

    /// Adds a complete value to its parent.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            self.copied += node.weight();
            if self.copied > MAX_COPIED {
                return Err(self.too_much(node.place));
            }
            self.anchors.insert(anchor, node.clone());
        }
        let Some(mut frame) = self.stack.pop() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut frame.node.kind {
            Kind::Scalar(_) => return Err(Stop),
            Kind::List(items) => items.push(node),
            Kind::Map(entries) => match frame.key.take() {
                Some(Some((key, key_place, is_merge))) => {
                    entries.push(Entry {
                        key,
                        key_place,
                        value: node,
                        is_merge,
                    });
                }
                Some(None) => {}
                None => frame.key = Some(self.key(node, &mut frame.seen)),
            },
        }
        self.stack.push(frame);
        Ok(())
    }

    /// Returns the path of the innermost open map or list.
    fn path(&self) -> String {
        self.stack.iter().fold(String::new(), |path, frame| {
            match (&frame.key, &frame.node.kind) {
                (Some(Some((key, ..))), _) => join(&path, key),
                (_, Kind::List(items)) => join(&path, &items.len().to_string()),
                _ => path,
            }
        })
    }

    /// Returns the key from a value; `None` if it is unusable.
    fn key(&mut self, node: Node, seen: &mut HashMap<String, Place>) -> Option<(String, Place, bool)> {
        let Kind::Scalar(scalar) = node.kind else {
            self.sink.push(
                Diagnostic::error("bad_key", "", "a key cannot be a list or a map")
                    .place(node.place)
                    .hint("quote a value that begins with `{` or `[`"),
            );
            return None;
        };
        if scalar.style == Style::Plain && scalar.text == "<<" {
            return Some((scalar.text, node.place, true));
        }
        if let Some(first) = seen.get(&scalar.text).copied() {
            let path = join(&self.path(), &scalar.text);
            self.sink.push(
                Diagnostic::error(
                    "duplicate_key",
                    path,
                    format!("duplicate key {}", quoted(&scalar.text)),
                )
                .place(node.place)
                .related(Spot {
                    line: first.line,
                    column: first.column,
                    message: "first defined here".to_owned(),
                })
                .hint("remove one of them"),
            );
            return None;
        }
        seen.insert(scalar.text.clone(), node.place);
        Some((scalar.text, node.place, false))
    }

    /// Replaces `<<: *other` by the keys of the other map that are absent here.
    fn merge(&mut self, entries: &mut Vec<Entry>) -> Result<(), Stop> {
        if !entries.iter().any(|entry| entry.is_merge) {
            return Ok(());
        }
        let mut known: std::collections::HashSet<String> = entries
            .iter()
            .filter(|entry| !entry.is_merge)
            .map(|entry| entry.key.clone())
            .collect();
        let mut merged = Vec::with_capacity(entries.len());
        for entry in entries.drain(..) {
            if !entry.is_merge {
                merged.push(entry);
                continue;
            }
            let place = entry.key_place;
            let sources = match entry.value.kind {
                Kind::List(items) => items,
                _ => vec![entry.value],
            };
            for source in sources {
                let Kind::Map(inherited) = source.kind else {
                    self.sink.push(
                        Diagnostic::error("bad_merge", "", "expected a map or a list of maps after `<<`")
                            .place(place)
                            .hint("write `<<: *name`, with `&name` on a map before it"),
                    );
                    continue;
                };
                merged.extend(
                    inherited
                        .into_iter()
                        .filter(|entry| known.insert(entry.key.clone())),
                );
            }
        }
        *entries = merged;
        Ok(())
    }
}
