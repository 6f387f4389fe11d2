//! The issue of a verb: `ID` and `--issue ID` are the same.

use clap::Args;
use vik_base::report::{ErrorCode, Exit, Failure};

use super::completion::issues;

/// An issue that the verb requires.
#[derive(Debug, Args)]
#[group(id = "required_issue", required = true, multiple = false)]
pub struct RequiredIssue {
    /// Issue ID
    #[arg(value_name = "ID", add = issues())]
    positional: Option<String>,
    /// Issue ID; same as ID
    #[arg(long = "issue", value_name = "ID", add = issues())]
    flag: Option<String>,
}

impl RequiredIssue {
    pub fn id(&self) -> &str {
        // The parser requires one of them.
        (self.positional.as_deref().or(self.flag.as_deref())).unwrap_or_default()
    }
}

/// An issue to which the verb is restricted, if there is one.
#[derive(Debug, Args)]
#[group(id = "optional_issue", multiple = false)]
pub struct OptionalIssue {
    /// Only this issue
    #[arg(value_name = "ID", add = issues())]
    positional: Option<String>,
    /// Only this issue; same as ID
    #[arg(long = "issue", value_name = "ID", add = issues())]
    flag: Option<String>,
}

/// An issue that the verb requires, with a text. After `--issue`, all words are the text.
#[derive(Debug, Args)]
pub struct IssueAndText {
    /// Issue ID
    #[arg(value_name = "ISSUE", required_unless_present = "flag", add = issues())]
    positional: Option<String>,
    /// Text; `-` reads stdin
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
    /// Issue ID; same as ISSUE
    #[arg(long = "issue", value_name = "ID", add = issues())]
    flag: Option<String>,
}

impl IssueAndText {
    pub fn id(&self) -> &str {
        // The parser requires one of them.
        (self.flag.as_deref().or(self.positional.as_deref())).unwrap_or_default()
    }

    /// Returns the words of the text.
    pub fn text(&self) -> Vec<String> {
        let first = self.positional.iter().filter(|_| self.flag.is_some());
        first.chain(&self.text).cloned().collect()
    }

    /// Refuses a text beside an option that excludes it.
    ///
    /// # Errors
    /// If there is one.
    pub fn without_text(&self, option: &str) -> Result<(), Failure> {
        if self.text().is_empty() {
            return Ok(());
        }
        let problem = format!("`{option}` cannot be used with a text");
        Err(Failure::new(Exit::Usage, ErrorCode::Usage, problem))
    }
}

/// Returns a hint if an issue id is the name of a workflow file.
pub fn workflow_hint(id: &str) -> Option<String> {
    let is_file = [".yml", ".yaml"].iter().any(|end| id.ends_with(end));
    let id = vik_base::report::one_line(id, 60);
    is_file.then(|| format!("`{id}` is the ID of an issue here: name a workflow with `-w {id}`"))
}

impl OptionalIssue {
    pub fn id(&self) -> Option<&str> {
        self.positional.as_deref().or(self.flag.as_deref())
    }
}
