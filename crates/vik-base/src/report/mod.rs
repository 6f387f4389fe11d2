//! Formats errors for people: heading, causes, hint, stable code, exit code.

mod code;
mod exit;
mod process;
mod table;
mod text;
mod time;

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;

use vik_api::ErrorBody;
use vik_store::ledger::LedgerError;

pub use code::ErrorCode;
pub use exit::Exit;
pub use process::{describe_exit, describe_overrun};
pub use table::{NARROW, columns, fitted_table, stdout_width, table, table_within, wrap};
pub use vik_core::plural::count;

pub use vik_text::{attempt_cost, clean, cost, cost_text, count_short, one_line, optional, short, tokens};

pub use time::{
    clock_time, date_time, day_heading, set_time_zone, shared_offset, utc_offset, with_local_times,
};

pub use text::{
    ago, colored, cost_sum, elapsed_suffix, label, paint, spent, spent_cost, tail_lines, until, when,
};

/// Returns an error and its causes on one line, outermost first.
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
///
/// # Examples
///
/// ```
/// use vik_base::report::{ErrorCode, Exit, Failure};
///
/// let failure = Failure::new(Exit::Workflow, ErrorCode::WorkflowUnreadable, "cannot read workflow.yml")
///     .cause("permission denied")
///     .hint("check the mode of the file");
/// assert_eq!(failure.exit.code(), 3);
/// assert_eq!(failure.body().message, "cannot read workflow.yml: permission denied");
/// assert!(failure.text(false).starts_with("error: cannot read workflow.yml\n"));
/// ```
#[derive(Debug)]
pub struct Failure {
    /// The exit code of the process.
    pub exit: Exit,
    detail: Box<Detail>,
}

#[derive(Debug)]
struct Detail {
    /// An [`ErrorCode`], or the code that another process sent.
    code: Cow<'static, str>,
    heading: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// Replaces heading and causes: diagnostics that are already rendered.
    rendered: Option<String>,
}

impl Failure {
    /// Creates an error with a stable code and a heading that names what failed.
    pub fn new(exit: Exit, code: ErrorCode, heading: impl Into<String>) -> Self {
        let detail = Detail {
            code: code.as_str().into(),
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

    /// Creates an error for a failure outside of Vik's control (exit 1).
    pub fn failed(code: ErrorCode, heading: impl Into<String>, source: &dyn Error) -> Self {
        Self::new(Exit::Failed, code, heading).with_source(source)
    }

    /// Adds an error and its whole chain of causes.
    #[must_use]
    pub fn with_source(mut self, source: &dyn Error) -> Self {
        let mut next = Some(source);
        while let Some(cause) = next {
            self.detail.causes.push(cause.to_string());
            next = cause.source();
        }
        self
    }

    /// Adds one cause as text.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.detail.causes.push(cause.into());
        self
    }

    /// Sets the hint that says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.detail.hint = Some(hint.into());
        self
    }

    /// Sets text that replaces heading and causes.
    #[must_use]
    pub fn rendered(mut self, text: String) -> Self {
        self.detail.rendered = Some(text);
        self
    }

    /// Creates an error that another Vik process has already formatted.
    pub fn forwarded(exit: u8, body: ErrorBody, text: String) -> Self {
        let exit = Exit::from_code(exit).unwrap_or(Exit::Failed);
        let mut failure = Self::from(body);
        failure.exit = exit;
        failure.detail.hint = None;
        failure.rendered(text)
    }

    /// Returns the stable code.
    pub fn code(&self) -> &str {
        &self.detail.code
    }

    /// Returns the error as data.
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

    /// Returns the error as several lines of text for people.
    pub fn text(&self, color: bool) -> String {
        let mut out = String::new();
        match &self.detail.rendered {
            Some(text) => out.push_str(text),
            None => {
                let _ = writeln!(
                    out,
                    "{} {}",
                    paint(color, "1;31", "error:"),
                    clean(&self.detail.heading)
                );
                for cause in &self.detail.causes {
                    let _ = writeln!(out, "  {} {}", paint(color, "2", "because:"), clean(cause));
                }
            }
        }
        if let Some(hint) = &self.detail.hint {
            let _ = writeln!(out, "  {} {}", paint(color, "1;36", "hint:"), clean(hint));
        }
        out
    }
}

impl From<ErrorBody> for Failure {
    /// Converts an error that a daemon sent.
    fn from(body: ErrorBody) -> Self {
        Self {
            exit: Exit::Failed,
            detail: Box::new(Detail {
                code: body.code.into(),
                heading: body.message,
                causes: Vec::new(),
                hint: body.hint,
                rendered: None,
            }),
        }
    }
}

/// The hint for an error of the ledger that has none.
pub const LEDGER_HINT: &str = "check the folder and its disk; `vik doctor` checks the ledger";

impl From<&LedgerError> for Failure {
    fn from(error: &LedgerError) -> Self {
        Self::failed(ErrorCode::Ledger, "cannot use the ledger of this workflow", error)
            .hint(error.hint().unwrap_or(LEDGER_HINT))
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::from(&error)
    }
}
