//! The one room that writes errors for people: heading, causes, hint, stable code, exit code.

mod exit;
mod table;
mod text;

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;

use vik_api::ErrorBody;

pub use exit::Exit;
pub use table::{stdout_width, table, table_within, wrap};
pub use vik_core::plural::count;

pub use text::{
    ago, attempt_cost, clean, cost, cost_sum, count_short, lasting, one_line, short, spent, spent_cost,
    tail_lines, tokens, until, when,
};

/// An error and its causes on one line, from the outside in.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let _ = write!(text, ": {cause}");
        next = cause.source();
    }
    text
}

/// An error on its way to a person or a script.
#[derive(Debug)]
pub struct Failure {
    /// The exit code it leads to.
    pub exit: Exit,
    detail: Box<Detail>,
}

#[derive(Debug)]
struct Detail {
    code: Cow<'static, str>,
    heading: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// Printed as it is, in place of heading and causes: diagnostics that were rendered already.
    rendered: Option<String>,
}

impl Failure {
    /// An error with a stable code, in words that say what failed.
    pub fn new(exit: Exit, code: &'static str, heading: impl Into<String>) -> Self {
        let detail = Detail {
            code: code.into(),
            heading: heading.into(),
            causes: Vec::new(),
            hint: None,
            rendered: None,
        };
        Self {
            exit,
            detail: Box::new(detail),
        }
    }

    /// Something outside of Vik's control failed (exit 1).
    pub fn failed(code: &'static str, heading: impl Into<String>, source: &dyn Error) -> Self {
        Self::new(Exit::Failed, code, heading).because(source)
    }

    /// Adds the whole chain of causes.
    #[must_use]
    pub fn because(mut self, source: &dyn Error) -> Self {
        let mut next = Some(source);
        while let Some(cause) = next {
            self.detail.causes.push(cause.to_string());
            next = cause.source();
        }
        self
    }

    /// Adds one cause in words.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.detail.causes.push(cause.into());
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.detail.hint = Some(hint.into());
        self
    }

    /// Text that is printed in place of the heading.
    #[must_use]
    pub fn rendered(mut self, text: String) -> Self {
        self.detail.rendered = Some(text);
        self
    }

    /// An error that another Vik process had already written out.
    pub fn passed_on(exit: u8, body: ErrorBody, text: String) -> Self {
        let exit = Exit::from_code(exit).unwrap_or(Exit::Failed);
        let mut failure = Self::from(body);
        failure.exit = exit;
        failure.detail.hint = None;
        failure.rendered(text)
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        &self.detail.code
    }

    /// As data.
    pub fn body(&self) -> ErrorBody {
        let mut message = self.detail.heading.clone();
        for cause in &self.detail.causes {
            let _ = write!(message, ": {cause}");
        }
        ErrorBody {
            code: self.detail.code.to_string(),
            message,
            hint: self.detail.hint.clone(),
        }
    }

    /// For people, several lines.
    pub fn text(&self, color: bool) -> String {
        let paint = |code: &str, text: &str| {
            if color {
                format!("\x1b[{code}m{text}\x1b[0m")
            } else {
                text.to_owned()
            }
        };
        let mut out = String::new();
        match &self.detail.rendered {
            Some(text) => out.push_str(text),
            None => {
                let _ = writeln!(out, "{} {}", paint("1;31", "error:"), clean(&self.detail.heading));
                for cause in &self.detail.causes {
                    let _ = writeln!(out, "  {} {}", paint("2", "because:"), clean(cause));
                }
            }
        }
        if let Some(hint) = &self.detail.hint {
            let _ = writeln!(out, "  {} {}", paint("1;36", "hint:"), clean(hint));
        }
        out
    }
}

impl From<ErrorBody> for Failure {
    /// An error that a daemon sent.
    fn from(body: ErrorBody) -> Self {
        let mut failure = Self::new(Exit::Failed, "", body.message);
        failure.detail.code = body.code.into();
        failure.detail.hint = body.hint;
        failure
    }
}
