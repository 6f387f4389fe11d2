//! Replaces secrets in text by placeholders.
//!
//! Two things are masked: text that looks like a secret (`rules`), and known values
//! ([`Masker::new`]), both verbatim and in the forms in which programs write them (`forms`):
//! Base64, hex, percent-encoded, escaped, quoted. The result is the same whether a text arrives at
//! once or in pieces ([`MaskStream`]). In JSON only texts are changed. Ordinary text and code stay
//! unchanged byte for byte.
//!
//! The crate does no I/O: callers register the values they know. The values known to a process are
//! kept in one place ([`process`]), so that no writer can miss them.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod candidates;
mod forms;
mod json;
mod masker;
mod process;
mod rules;
mod stream;

#[cfg(test)]
mod tests;

pub use masker::{Label, MIN_BYTES, Masker};
pub use process::{key_values, learn, mask, mask_json, process};
pub use stream::MaskStream;
