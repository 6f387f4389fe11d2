//! The check that must pass before a run is done.

use std::time::Duration;

use crate::conversation::ToolResult;
use crate::interrupt::Interrupt;
use crate::tools::Toolbox;

/// How much of the end of its output is sent to the model, in bytes.
const MAX_OUTPUT_TAIL_BYTES: usize = 6 * 1024;

/// A command that must exit with 0 after the model reports that it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    pub command: String,
    /// How often it may fail before the run fails.
    pub attempts: u32,
    /// The time limit of one check.
    pub timeout: Duration,
}

impl Verify {
    /// Creates a check that may fail three times and may take ten minutes.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            attempts: 3,
            timeout: Duration::from_secs(600),
        }
    }

    /// Runs the check. A command that cannot be started counts as failed.
    pub(super) fn run(&self, tools: &Toolbox, interrupt: &Interrupt) -> ToolResult {
        let ran = tools.run_for_user(&self.command, self.timeout, interrupt);
        let (exit_code, output) =
            ran.unwrap_or_else(|error| (None, format!("the check could not be started: {error}")));
        ToolResult {
            call_id: String::new(),
            is_error: exit_code != Some(0),
            exit_code,
            output,
            denied: false,
        }
    }

    /// Describes how a failed check ended.
    pub(super) fn ended(result: &ToolResult) -> String {
        match result.exit_code {
            Some(code) => format!("exit code {code}"),
            None => "it was stopped".to_owned(),
        }
    }

    /// Returns the end of the output of a check.
    pub(super) fn tail(result: &ToolResult) -> &str {
        let output = result.output.trim_end();
        &output[output.ceil_char_boundary(output.len().saturating_sub(MAX_OUTPUT_TAIL_BYTES))..]
    }

    /// Returns the message to the model about a failed check, with the next step `next`.
    pub(super) fn feedback(&self, result: &ToolResult, next: &str) -> String {
        format!(
            "It is not done: the check `{}` fails ({}). Its output ends with:\n\n{}\n\n\
             {next}",
            self.command,
            Self::ended(result),
            Self::tail(result),
        )
    }
}
