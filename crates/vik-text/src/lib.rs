//! Text for people: safe for a terminal, figures, and transcripts of session logs.
//!
//! ```
//! use vik_text::{one_line, short};
//!
//! assert_eq!(one_line("two\nlines \u{1b}[31m", 40), "two lines ⟦U+001B⟧[31m");
//! assert_eq!(short(12_345), "12.3k");
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod figures;
mod line;
mod safe;
pub mod transcript;

pub use figures::{attempt_cost, cost, cost_text, count_short, short, tokens};
pub use line::{Line, TextStyle};
pub use safe::{clean, one_line};

/// Returns a value between two texts, or nothing if there is no value.
///
/// # Examples
///
/// ```
/// use vik_text::optional;
///
/// assert_eq!(optional(" (", Some(2), ")"), " (2)");
/// assert_eq!(optional(" (", None::<u32>, ")"), "");
/// ```
pub fn optional(before: &str, value: Option<impl std::fmt::Display>, after: &str) -> String {
    value.map_or_else(String::new, |value| format!("{before}{value}{after}"))
}
