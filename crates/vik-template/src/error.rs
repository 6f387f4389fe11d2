//! The errors of a template, with messages for its author.

use std::fmt;

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is no valid template.
    #[error("line {line}: {detail}")]
    Syntax {
        /// The line of the template, from 1.
        line: usize,
        /// The message of the parser.
        detail: String,
    },
    /// A name that the context does not have.
    #[error("line {line}: `{name}` is not defined")]
    Undefined {
        /// The line of the template, from 1.
        line: usize,
        /// The name as written, e.g. `issue.titel`.
        name: String,
        /// A known name that is similar to it.
        suggestion: Option<String>,
        /// The names that are known at that place.
        known: Vec<String>,
    },
    /// A value is at a place where it could be read as more than data, or a part of the template is
    /// not allowed at its place.
    #[error("line {line}: {text} {place}")]
    Refused {
        /// The line of the template, from 1.
        line: usize,
        /// The refused text, as written.
        text: String,
        /// The place of the text.
        place: Place,
    },
    /// An expression could not be evaluated.
    #[error("line {line}: {detail}")]
    Failed {
        /// The line of the template, from 1.
        line: usize,
        /// The message of the engine.
        detail: String,
    },
    /// A value contains a NUL character, which no shell word can contain.
    #[error("line {line}: the value of {text} contains a NUL character")]
    Nul {
        /// The line of the template, from 1.
        line: usize,
        /// The expression as written.
        text: String,
    },
    #[error("the rendered template is longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit in bytes.
        limit_bytes: usize,
    },
}

impl TemplateError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "template_syntax",
            Self::Undefined { .. } => "template_undefined",
            Self::Refused { .. } => "template_refused",
            Self::Failed { .. } => "template_failed",
            Self::Nul { .. } => "template_nul",
            Self::TooLong { .. } => "template_too_long",
        }
    }

    /// Returns the line of the template, from 1, if the error has one.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Syntax { line, .. }
            | Self::Undefined { line, .. }
            | Self::Refused { line, .. }
            | Self::Failed { line, .. }
            | Self::Nul { line, .. } => Some(*line),
            Self::TooLong { .. } => None,
        }
    }

    /// Returns the message without its line, for reports that name the line themselves.
    pub fn message(&self) -> String {
        let text = self.to_string();
        match self.line() {
            Some(line) => text
                .strip_prefix(&format!("line {line}: "))
                .unwrap_or(&text)
                .to_owned(),
            None => text,
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Undefined {
                suggestion: Some(name),
                ..
            } => Some(format!("did you mean `{name}`?")),
            Self::Undefined { known, .. } if !known.is_empty() => {
                Some(format!("known here: {}", known.join(", ")))
            }
            Self::Refused { place, .. } => Some(place.hint()),
            Self::Nul { .. } => Some("remove it with `| replace(\"\\0\", \"\")`".to_owned()),
            Self::Syntax { detail, .. } if detail.contains("end of comment") => Some(
                "`{#` starts a template comment; for the shell's ${#…} write {% raw %}${#…}{% endraw %}"
                    .to_owned(),
            ),
            Self::Syntax { .. } | Self::Undefined { .. } | Self::Failed { .. } | Self::TooLong { .. } => None,
        }
    }
}

/// A place at which a value, or a part of a template, is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The body or the end mark of a here-document.
    Heredoc,
    Comment,
    /// `$(…)` in double quotes or in another `$(…)`.
    NestedSubstitution,
    Backticks,
    Parameter,
    Arithmetic,
    Condition,
    AnsiQuotes,
    /// Directly after a `$`.
    AfterDollar,
    /// Directly after a backslash.
    AfterBackslash,
    /// The name of the command to run.
    CommandName,
    /// An argument that the named command reads as code.
    Code(String),
    /// An argument that the named command reads as the name of a variable.
    VariableName(String),
    /// A template block whose text is stored and used elsewhere; the name of the tag.
    Captured(&'static str),
    /// A tag that needs other templates.
    OtherTemplates,
    /// A prompt command that does not end in the block in which it starts.
    Unclosed,
    /// Shells differ in how they read the text before, for this reason.
    Unclear(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heredoc => f.write_str("is in a here-document"),
            Self::Comment => f.write_str("is in a shell comment"),
            Self::NestedSubstitution => f.write_str("is in a nested command substitution"),
            Self::Backticks => f.write_str("is in backticks"),
            Self::Parameter => f.write_str("is in `${…}`"),
            Self::Arithmetic => f.write_str("is in shell arithmetic"),
            Self::Condition => f.write_str("is in `[[ … ]]`"),
            Self::AnsiQuotes => f.write_str("is in `$'…'`"),
            Self::AfterDollar => f.write_str("is directly after a `$`"),
            Self::AfterBackslash => f.write_str("is directly after a backslash"),
            Self::CommandName => f.write_str("would name the command to run"),
            Self::Code(command) => write!(f, "would be read as code by `{command}`"),
            Self::VariableName(command) => write!(f, "would name a variable for `{command}`"),
            Self::Captured(tag) => write!(
                f,
                "is in `{{% {tag} %}}`, so its position in the shell script is unknown"
            ),
            Self::OtherTemplates => f.write_str("needs other templates, which are not supported"),
            Self::Unclosed => f.write_str("has no closing `` )` `` in the block in which it starts"),
            Self::Unclear(why) => write!(f, "follows {why}, so its position in the shell script is unknown"),
        }
    }
}

impl Place {
    /// Returns what to write instead.
    pub fn hint(&self) -> String {
        const VARIABLE: &str =
            "assign it to a variable on a separate line, `value={{ … }}`, and use \"$value\" here";
        match self {
            Self::Heredoc | Self::NestedSubstitution | Self::Parameter | Self::Condition | Self::AnsiQuotes => {
                VARIABLE.to_owned()
            }
            Self::Backticks => format!("use $(…) instead of backticks, or {VARIABLE}"),
            Self::Comment => "use {# … #} for a template comment, or remove the value".to_owned(),
            Self::Arithmetic => "shells evaluate text in arithmetic as code; compare with [ … -eq … ] instead".to_owned(),
            Self::AfterDollar | Self::AfterBackslash => {
                "put the character in single quotes, or remove it".to_owned()
            }
            Self::CommandName => {
                "select the command with {% if %}, or start it with a fixed path and pass the value as an argument"
                    .to_owned()
            }
            Self::Code(command) if matches!(command.as_str(), "sh" | "bash" | "dash" | "zsh") => {
                format!("pass it as an argument: {command} -c '… \"$1\" …' {command} {{{{ … }}}}")
            }
            Self::Code(_) => {
                "pass it as data, in an argument or in the environment (hooks get VIK_ISSUE_ID, VIK_ISSUE_TITLE)"
                    .to_owned()
            }
            Self::VariableName(_) => "use a fixed name: export NAME={{ … }}".to_owned(),
            Self::Captured(_) => {
                "use `{% set name = … %}` for a value, and put the text where it is needed".to_owned()
            }
            Self::OtherTemplates => "put the text into this file".to_owned(),
            Self::Unclosed => {
                "end the command with `` )` ``; to show the text itself, write {{ \"`exec(…)`\" }}".to_owned()
            }
            Self::Unclear(_) => "use the value before that position, or move that part into a script file".to_owned(),
        }
    }
}
