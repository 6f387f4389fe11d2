//! Templates: prompts, hooks, `verify`, and the commands in prompts.
//!
//! [`prompt`] and [`script`] render a template; [`check_prompt`] and [`check_script`] find the
//! errors that need no values. This crate guarantees three properties.
//!
//! 1. A missing name is an error with its line, never an empty text.
//! 2. In a script, `{{ value }}` is *data*: exactly one part of one shell word, whatever the value
//!    contains. If Vik cannot determine how the shell reads the place, it refuses the template with
//!    a hint.
//! 3. Commands in a prompt are found in the template's own text, before any value is known. A value
//!    that looks like a command stays text, and so does the output of a command.
//!
//! The author remains responsible for what quoting cannot solve: a value that starts with `-` is
//! still one word, but a program may read it as an option (write `--` before it), and a value that
//! is used as a file name is a file name.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod error;
mod fence;
mod names;
mod plan;
mod render;
mod shell;
mod source;
mod words;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use error::{Place, TemplateError};
pub use fence::{Fence, Sources};
pub use names::{AFTER_CREATE_NAMES, AFTER_RUN_NAMES, NAMES, OUTPUT_NAMES, SHOW_NAMES};

/// The longest text that a template may render to, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 10 * 1024 * 1024;

/// A rendered prompt whose commands have not run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Text and commands in order.
    pub parts: Vec<Part>,
}

/// A piece of a rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// A shell script whose output (one trailing newline trimmed) is inserted here as plain text.
    Command {
        /// The script, for `sh FILE`.
        script: String,
        /// The line of the template that it starts on, from 1.
        line: usize,
        /// Whether it contains a value of the tracker or of an agent: then its output may contain
        /// it too.
        has_data: bool,
    },
}

impl Prompt {
    /// Returns the commands in order.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Command { script, .. } => Some(script.as_str()),
        })
    }

    /// Returns the finished prompt, with the output of each command in its place, in order. A
    /// missing output counts as empty. One trailing newline of each output is trimmed.
    pub fn join<S: AsRef<str>>(&self, outputs: impl IntoIterator<Item = S>) -> String {
        let mut outputs = outputs.into_iter();
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Command { .. } => {
                    if let Some(output) = outputs.next() {
                        let output = output.as_ref();
                        text.push_str(output.strip_suffix('\n').unwrap_or(output));
                    }
                }
            }
        }
        text
    }
}

/// Renders a prompt for an issue that is trusted.
///
/// # Errors
/// When the template is invalid, uses a name that `context` does not have, or puts a value into a
/// command at a place where it could be read as more than data.
///
/// # Examples
///
/// ```
/// use vik_template::prompt;
///
/// let context = serde_json::json!({"issue": {"title": "`exec(reboot)`"}});
/// let prompt = prompt("Fix {{ issue.title }}:\n`exec(git log -1)`\n", &context)?;
/// assert_eq!(prompt.commands().collect::<Vec<_>>(), ["git log -1"]);
/// assert_eq!(prompt.join(["its output\n"]), "Fix `exec(reboot)`:\nits output\n");
/// # Ok::<(), vik_template::TemplateError>(())
/// ```
pub fn prompt(source: &str, context: &Value) -> Result<Prompt, TemplateError> {
    fenced_prompt(source, context, &Fence::of(context, false))
}

/// Renders a prompt. `fence` decides how values of the issue are printed.
///
/// # Errors
/// Those of [`prompt`].
pub fn fenced_prompt(source: &str, context: &Value, fence: &Fence) -> Result<Prompt, TemplateError> {
    let plan = plan::Plan::prompt(source)?;
    let rendered = render::render(&plan, context, Some(fence))?;
    render::split(&plan, rendered)
}

/// Returns whether a template uses a name of its context.
pub fn uses(source: &str, name: &str) -> bool {
    names::uses(source, name)
}

/// Renders a hook, `verify` or another shell script, for `sh FILE`.
///
/// # Errors
/// Those of [`prompt`].
///
/// # Examples
///
/// ```
/// use vik_template::script;
///
/// let context = serde_json::json!({"issue": {"title": "it's; rm -rf ~"}});
/// let text = script("echo {{ issue.title }}", &context)?;
/// assert_eq!(text, r"echo 'it'\''s; rm -rf ~'");
/// // A value in a place that could be code is refused.
/// assert!(script("eval {{ issue.title }}", &context).is_err());
/// # Ok::<(), vik_template::TemplateError>(())
/// ```
pub fn script(source: &str, context: &Value) -> Result<String, TemplateError> {
    let plan = plan::Plan::script(source)?;
    let rendered = render::render(&plan, context, None)?;
    shell::quote(&plan, &rendered)
}

/// Returns all errors of a prompt template that can be found without values; `names` are the names
/// that its context will have.
///
/// # Examples
///
/// ```
/// use vik_template::{NAMES, check_prompt};
///
/// let errors = check_prompt("Fix {{ isue.title }}", NAMES);
/// assert_eq!(errors[0].line(), Some(1));
/// assert_eq!(errors[0].hint().as_deref(), Some("did you mean `issue`?"));
/// ```
pub fn check_prompt(source: &str, names: &[&str]) -> Vec<TemplateError> {
    check(source, names, plan::Plan::prompt(source))
}

/// Returns all errors of a script template that can be found without values; `names` are the names
/// that its context will have.
pub fn check_script(source: &str, names: &[&str]) -> Vec<TemplateError> {
    check(source, names, plan::Plan::script(source))
}

fn check(source: &str, names: &[&str], plan: Result<plan::Plan, TemplateError>) -> Vec<TemplateError> {
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return vec![error],
    };
    let mut errors = names::undeclared(source, names);
    // Two passes: every condition true, and every condition false. A condition that opens a quote
    // and an equal one that closes it then agree.
    for cond in [true, false] {
        if let Err(error) = plan.check_shell_text(cond)
            && !errors.iter().any(|known| known.to_string() == error.to_string())
        {
            errors.push(error);
        }
    }
    errors.sort_by_key(TemplateError::line);
    errors
}
