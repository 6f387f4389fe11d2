//! Repairs the tool calls of models, but only if the result is certain.
//!
//! [`repair_arguments`] reads the arguments of a native call. [`TextScanner`] finds the calls that
//! a model wrote as text. Both follow the same rule: text with a single reading is repaired; text
//! with several readings, or that is cut off, becomes [`BrokenArguments`], with a reason for the
//! model; such a call must not run. [`find_leftover`] recognizes what is not certain enough to be a
//! call, and is no answer either.
//!
//! The crate does no I/O, and depends on `serde_json` alone. It neither validates arguments nor
//! runs tools.
//!
//! # What is a call
//!
//! - Markup: `<tool_call>`, `<tool_calls>`, `<function_call>`, `<function_calls>`, `<tools>` or
//!   `[TOOL_CALLS]` with JSON in it, `<function=NAME>` and `<invoke name="NAME">` with parameters
//!   or JSON in them, and at the start of a line the name of a tool as a tag, with JSON in it.
//!   Markup always means a call, so an unknown name is a call, too: the model is informed that
//!   there is no such tool.
//! - A fence that starts with the JSON of a call or with markup, whatever its label is. Several
//!   calls in a fence are several calls; what follows them is text.
//! - A JSON object (or an array of them) that starts a line and ends a line.
//!
//! Without markup the name must be the one of a tool, or an alias of it, and the object must have
//! the shape of a call: a name, and arguments that are an object (or the tool's own properties
//! beside the name).
//!
//! # What is not
//!
//! - Anything in inline code, in quotation marks, in a quoted line (`>`), in a list item or in the
//!   middle of a sentence. Only markup may follow text on a line.
//! - Anything within a fence that starts with something else: that is content, even if it contains
//!   calls.
//! - Anything within the arguments of a call.
//!
//! Text that is not a call is unchanged, byte for byte. A call that directly repeats the previous
//! one in the same answer is dropped: a model that has not seen a result has no reason to ask
//! twice.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arguments;
mod element;
mod json;
mod leftover;
mod names;
mod region;
mod scanner;
mod shape;
mod tags;

use serde_json::Value;

pub use arguments::{BrokenArguments, repair_arguments};
pub use leftover::{Leftover, find_leftover, leftover_name};
pub use names::{Tool, snake_case, tool_name};
pub use scanner::TextScanner;

/// A part of an answer's text, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Text to show and to keep.
    Text(String),
    /// Thinking: the content of `<think>` at the start of the answer.
    Thinking(String),
    /// A call that was written as text; its markup is in no [`Found::Text`].
    Call {
        /// The id, if the model gave one. It may have any form and length.
        id: Option<String>,
        /// The name, as the model wrote it. In markup it may be the name of no tool.
        tool: String,
        /// The arguments, not validated; an error if they were cut off or have no certain reading.
        /// Parameters in markup are strings, whatever the schema says.
        input: Result<Value, BrokenArguments>,
    },
}

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
