//! The positions of all values of the file, by their dotted paths.

use std::collections::HashMap;

use super::place::Place;
use super::tree::{Kind, Node, Style};

/// Longer paths are omitted, because the author of the file controls keys and nesting.
const MAX_PATH: usize = 400;

/// The maximum length of a path segment, in characters, because keys can be as long as the file.
const MAX_SEGMENT: usize = 80;

/// Joins a dotted path.
pub fn join(parent: &str, key: &str) -> String {
    let key = key
        .char_indices()
        .nth(MAX_SEGMENT)
        .map_or(key, |(end, _)| &key[..end]);
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Null,
    Scalar,
    /// A text on one line without quotes: its columns are those of the file.
    PlainLine,
    /// A literal block: its lines are those of the file. `leading` counts the line breaks before
    /// its first content.
    Literal {
        leading: u32,
        lines: u32,
    },
    List {
        is_empty: bool,
    },
    Map {
        is_empty: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Found {
    key: Option<Place>,
    value: Place,
    kind: ValueKind,
}

/// An index of the file by path.
#[derive(Clone, Debug, Default)]
pub struct Places {
    found: HashMap<String, Found>,
}

impl Places {
    pub fn of(root: &Node) -> Self {
        let mut places = Self::default();
        places.add("", None, root);
        places
    }

    fn add(&mut self, path: &str, key: Option<Place>, node: &Node) {
        if path.len() > MAX_PATH {
            return;
        }
        let kind = match &node.kind {
            _ if node.is_null() => ValueKind::Null,
            Kind::Scalar(scalar) => match scalar.style {
                Style::Literal => ValueKind::Literal {
                    leading: scalar.text.bytes().take_while(|&b| b == b'\n').count() as u32,
                    lines: scalar.text.lines().count().max(1) as u32,
                },
                Style::Plain if node.place.end_column != 0 => ValueKind::PlainLine,
                _ => ValueKind::Scalar,
            },
            Kind::List(items) => ValueKind::List {
                is_empty: items.is_empty(),
            },
            Kind::Map(entries) => ValueKind::Map {
                is_empty: entries.is_empty(),
            },
        };
        self.found.entry(path.to_owned()).or_insert(Found {
            key,
            value: node.place,
            kind,
        });
        match &node.kind {
            Kind::Scalar(_) => {}
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add(&join(path, &index.to_string()), None, item);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    self.add(&join(path, &entry.key), Some(entry.key_place), &entry.value);
                }
            }
        }
    }

    fn kind(&self, path: &str) -> Option<ValueKind> {
        Some(self.found.get(path)?.kind)
    }

    pub fn contains(&self, path: &str) -> bool {
        self.found.contains_key(path)
    }

    /// Returns whether a key is absent, or has no value.
    pub fn is_absent(&self, path: &str) -> bool {
        matches!(self.kind(path), None | Some(ValueKind::Null))
    }

    pub fn is_empty_map(&self, path: &str) -> bool {
        self.kind(path) == Some(ValueKind::Map { is_empty: true })
    }

    /// Returns whether a list is absent or empty.
    pub fn is_empty_list(&self, path: &str) -> bool {
        self.is_absent(path) || self.kind(path) == Some(ValueKind::List { is_empty: true })
    }

    /// Returns whether the value is a map or absent.
    pub fn is_map(&self, path: &str) -> bool {
        self.is_absent(path) || matches!(self.kind(path), Some(ValueKind::Map { .. }))
    }

    pub fn key(&self, path: &str) -> Option<Place> {
        self.found.get(path)?.key
    }

    /// Returns the position to report for a path: the value; the key for a collection or an empty
    /// value; the nearest enclosing key for an absent one.
    pub fn nearest(&self, path: &str) -> Option<Place> {
        let mut path = path;
        let mut is_exact = true;
        loop {
            if let Some(found) = self.found.get(path) {
                let is_text = matches!(
                    found.kind,
                    ValueKind::Scalar | ValueKind::PlainLine | ValueKind::Literal { .. }
                );
                return Some(if is_exact && is_text {
                    found.value
                } else {
                    found.key.unwrap_or(found.value)
                });
            }
            is_exact = false;
            path = match path.rfind('.') {
                Some(end) => &path[..end],
                None if path.is_empty() => return None,
                None => "",
            };
        }
    }

    pub fn position(&self, path: &str) -> Option<(u32, u32)> {
        let found = self.found.get(path)?;
        let place = if found.kind == ValueKind::Null {
            found.key.unwrap_or(found.value)
        } else {
            found.value
        };
        Some((place.line, place.column))
    }

    pub fn block_line(&self, path: &str, line: u32) -> Option<(u32, u32)> {
        let found = self.found.get(path)?;
        match found.kind {
            ValueKind::Literal { leading, lines } => {
                let first = found.value.line.saturating_sub(leading).max(1);
                Some((first + line.clamp(1, lines) - 1, found.value.column))
            }
            ValueKind::PlainLine if line <= 1 => Some((found.value.line, found.value.column)),
            _ => None,
        }
    }
}
