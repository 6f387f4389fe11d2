//! A template that was read: the rewritten source, and what stands for its values and commands.

use minijinja::syntax::SyntaxConfig;

/// Returns the syntax of templates: that of MiniJinja, but the last newline stays.
pub(super) fn syntax() -> SyntaxConfig {
    let mut builder = SyntaxConfig::builder();
    builder.keep_trailing_newline(true);
    builder.build().unwrap_or_default()
}

/// An expression in shell text.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The line in the template, from 1.
    pub(super) line: usize,
    /// The text with the braces, e.g. `{{ issue.title }}`.
    pub(super) text: String,
    /// Whether its value comes from the author or from Vik, not from the tracker or an agent.
    pub(super) is_trusted: bool,
}

/// A template that was parsed and passed all checks that need no values.
pub(super) struct Plan {
    pub(super) rewritten: String,
    /// The random number, as hex digits.
    pub(super) nonce: String,
    pub(super) sites: Vec<Site>,
    /// The line that each prompt command starts on.
    pub(super) commands: Vec<usize>,
    pub(super) whole_is_script: bool,
}

impl Plan {
    /// Returns the name of the filter that stores values.
    pub(super) fn filter(&self) -> String {
        filter_name(&self.nonce)
    }

    /// Returns the start of the mark before a command.
    pub(super) fn command_mark(&self) -> String {
        format!("\u{1}{}[", self.nonce)
    }

    /// Returns the mark after a command.
    pub(super) fn end(&self) -> String {
        format!("\u{1}{}]", self.nonce)
    }
}

/// The output of the engine: shell text contains placeholders instead of values.
pub(super) struct Rendered {
    pub(super) text: String,
    /// The values, in the order of the placeholders: the index of the expression, and its text.
    pub(super) values: Vec<(usize, String)>,
}

pub(super) fn filter_name(nonce: &str) -> String {
    format!("vik_{nonce}")
}

/// Returns the placeholder for the value with this index.
pub(super) fn placeholder(nonce: &str, index: usize) -> String {
    format!("{}{index};", placeholder_start(nonce))
}

/// Returns the start of all placeholders.
pub(super) fn placeholder_start(nonce: &str) -> String {
    format!("\u{1}{nonce}=")
}
