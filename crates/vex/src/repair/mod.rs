//! What models get wrong about tool calls, put right where it is certain, and only there.
//!
//! [`arguments`] reads the arguments of a native call. [`TextScanner`] finds the calls that a model wrote as text.
//! Both hold to the same rule: what has one reading is mended, what has several or is cut off becomes
//! [`Arguments::Broken`], with a reason that the model is told; such a call never runs.
//!
//! # What is a call
//!
//! - Markup: `<tool_call>`, `<tool_calls>`, `<function_call>`, `<function_calls>`, `<tools>` or `[TOOL_CALLS]` with JSON
//!   in it, `<function=NAME>` and `<invoke name="NAME">` with parameters or JSON in them, and at the start of a line the
//!   name of a tool as a tag, with JSON in it. Markup says that it is a call,
//!   so a name that nobody knows is a call, too: the model hears that there is no such tool.
//! - A fence that begins with the JSON of a call or with markup, whatever its label says. Several calls in a fence are
//!   several calls; what stands behind them is text.
//! - A JSON object (or an array of them) that begins a line and ends a line.
//!
//! Without markup the name must be the one of a tool, or an alias of it, and the object must have the shape of a call:
//! a name, and arguments that are an object (or the tool's own properties beside the name).
//!
//! # What is not
//!
//! - Anything in inline code, in quotation marks, in a quoted line (`>`), in a list item or in the middle of a sentence.
//!   Only markup may follow words on a line.
//! - Anything within a fence that begins with something else: that is content, also when it holds calls.
//! - Anything within the arguments of a call.
//!
//! What is no call comes out byte for byte. A call that directly repeats the one before it in the same answer is
//! dropped: a model that has not seen a result has no reason to ask twice.

mod arguments;
mod element;
mod json;
mod leftover;
mod names;
mod region;
mod scanner;
mod shape;
mod tags;

pub use arguments::arguments;
pub use leftover::{Leftover, called, leftover};
pub use scanner::TextScanner;

use crate::conversation::Arguments;

/// A part of an answer's text, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Words, to show and to keep.
    Text(String),
    /// Thoughts: what stood in `<think>` at the start of the answer.
    Thinking(String),
    /// A call that was written as text; its markup is in no [`Found::Text`].
    Call {
        /// The id, where the model gave one.
        id: Option<String>,
        /// The name, as the model wrote it.
        tool: String,
        /// The arguments; broken where they were cut off or have no certain reading.
        input: Arguments,
    },
}

#[cfg(test)]
mod tests;
