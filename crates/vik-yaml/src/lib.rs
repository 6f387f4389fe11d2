//! YAML for files that people write: a tree of values with their positions, and findings about them.
//!
//! [`parse`] consumes the events of `saphyr-parser` and limits depth and copies by aliases, so that
//! no text can exhaust the stack or the memory; the caller limits the size. See
//! `adr/0003-yaml.md`. Findings go to a [`Sink`]; [`Places`] finds the positions of values by their
//! paths.
//!
//! ```
//! use vik_yaml::{Kind, Places, Sink, parse};
//!
//! let mut sink = Sink::default();
//! let root = parse("agent:\n  model: small\n", &mut sink).expect("a value");
//! assert!(matches!(&root.kind, Kind::Map(entries) if entries[0].key == "agent"));
//! assert_eq!(Places::of(&root).position("agent.model"), Some((2, 10)));
//!
//! assert!(parse("a: [1", &mut sink).is_none());
//! assert!(sink.first_error().is_some_and(|error| error.starts_with("invalid YAML")));
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod builder;
mod diagnostic;
mod document;
mod place;
mod places;
mod scalar;
pub mod skill;
mod syntax;
pub mod text;
mod tree;

pub use builder::parse;
pub use diagnostic::{Diagnostic, MAX_DIAGNOSTICS, Severity, Sink, Spot};
pub use document::Document;
pub use place::Place;
pub use places::{Places, join};
pub use scalar::Value;
pub use tree::{Entry, Kind, Node, Scalar, Style};
