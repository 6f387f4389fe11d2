//! The tree of values.

use super::place::Place;
use super::scalar::Value;

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Node {
    pub place: Place,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One `key: value` pair of a map.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_place: Place,
    pub value: Node,
    pub(crate) is_merge: bool,
}

/// A value that is neither list nor map, as written and as parsed by YAML 1.2 (core schema).
#[derive(Clone, Debug)]
pub struct Scalar {
    pub text: String,
    pub style: Style,
    pub value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Quoted,
    Literal,
    Folded,
}

impl Node {
    pub fn is_null(&self) -> bool {
        matches!(
            &self.kind,
            Kind::Scalar(Scalar {
                value: Value::Null,
                ..
            })
        )
    }

    pub(crate) fn weight(&self) -> usize {
        64 + match &self.kind {
            Kind::Scalar(scalar) => scalar.text.len(),
            Kind::List(items) => items.iter().map(Self::weight).sum(),
            Kind::Map(entries) => entries
                .iter()
                .map(|entry| entry.key.len() + entry.value.weight())
                .sum(),
        }
    }

    pub(crate) fn height(&self) -> usize {
        match &self.kind {
            Kind::Scalar(_) => 0,
            Kind::List(items) => 1 + items.iter().map(Self::height).max().unwrap_or(0),
            Kind::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|entry| entry.value.height())
                    .max()
                    .unwrap_or(0)
            }
        }
    }
}
