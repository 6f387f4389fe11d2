//! Secrets in text become placeholders.
//!
//! Two things are masked: what looks like a secret (`rules`), and values that are known ([`Masker::new`]), as they are
//! and in the forms in which programs write them (`forms`): Base64, hex, percent-encoded, escaped, quoted. A text gives
//! the same whether it comes whole or in pieces ([`MaskStream`]); in JSON only texts are changed, never what holds them
//! together. Ordinary words and code come out as they are, byte for byte.
//!
//! No I/O: who knows values tells them. What a process knows stands in one place ([`process`]), so that nothing that it
//! writes can be forgotten.

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
