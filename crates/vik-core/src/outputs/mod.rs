//! Safe outputs: what an agent wants done outside of its workspace, written down for Vik instead of done.
//!
//! The agent has no credential of a tracker or a git remote. It appends lines of JSON to a file; when it is done, Vik checks
//! all of them against what the stage allows, and carries each out by the workflow's own command. What is decided here is
//! pure: what a line is, whether it is allowed, by which key it is known again, and what may follow a try of which nobody
//! saw the end.

mod allow;
pub mod credentials;
mod progress;
mod read;

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ids::{IssueId, RunId, StageName};

pub use allow::{AllowList, BadAllow, MAX_ALLOW};
pub use progress::{CheckResult, NextStep, Progress, RunResult, after_check, after_run, next};
pub use read::{Line, Refusal, Rule, check, read};

/// The largest file of outputs, in bytes.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;
/// The most outputs of one attempt.
pub const MAX_OUTPUTS: u32 = 100;
/// The longest body, in characters.
pub const MAX_BODY: u32 = 65_536;
/// The longest title, in characters.
pub const MAX_TITLE: u32 = 256;
/// The longest label, state or branch, in characters.
pub const MAX_NAME: u32 = 200;

/// One line of the file: what an agent asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Output {
    /// A comment on the issue.
    Comment {
        /// Its text.
        #[schemars(length(min = 1, max = MAX_BODY))]
        body: String,
    },
    /// A label for the issue.
    Label {
        /// Its name.
        #[schemars(length(min = 1, max = MAX_NAME))]
        label: String,
    },
    /// Another state for the issue.
    State {
        /// Its name.
        #[schemars(length(min = 1, max = MAX_NAME))]
        state: String,
    },
    /// A pull request with what is committed in the workspace.
    PullRequest {
        /// Its title.
        #[schemars(length(min = 1, max = MAX_TITLE))]
        title: String,
        /// Its text.
        #[serde(default)]
        #[schemars(length(max = MAX_BODY))]
        body: String,
        /// The branch it is for, where the stage lets the agent choose.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(length(min = 1, max = MAX_NAME))]
        base: Option<String>,
    },
    /// A new issue.
    Issue {
        /// Its title.
        #[schemars(length(min = 1, max = MAX_TITLE))]
        title: String,
        /// Its text.
        #[serde(default)]
        #[schemars(length(max = MAX_BODY))]
        body: String,
    },
}

/// What kind of output it is: a key under `outputs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// A comment.
    Comment,
    /// A label.
    Label,
    /// A state.
    State,
    /// A pull request.
    PullRequest,
    /// A new issue.
    Issue,
}

impl OutputKind {
    /// All of them, in the order of the workflow file.
    pub const ALL: [Self; 5] = [
        Self::Comment,
        Self::Label,
        Self::State,
        Self::PullRequest,
        Self::Issue,
    ];

    /// The name used in the workflow and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::Label => "label",
            Self::State => "state",
            Self::PullRequest => "pull_request",
            Self::Issue => "issue",
        }
    }

    /// What of it the allow-list of the stage is about; `None`: nothing.
    pub fn allows(self) -> Option<&'static str> {
        match self {
            Self::Label => Some("label"),
            Self::State => Some("state"),
            Self::PullRequest => Some("base"),
            Self::Comment | Self::Issue => None,
        }
    }
}

impl fmt::Display for OutputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Output {
    /// Its kind.
    pub fn kind(&self) -> OutputKind {
        match self {
            Self::Comment { .. } => OutputKind::Comment,
            Self::Label { .. } => OutputKind::Label,
            Self::State { .. } => OutputKind::State,
            Self::PullRequest { .. } => OutputKind::PullRequest,
            Self::Issue { .. } => OutputKind::Issue,
        }
    }

    /// Its text of many lines; "" where it has none.
    pub fn body(&self) -> &str {
        match self {
            Self::Comment { body } | Self::PullRequest { body, .. } | Self::Issue { body, .. } => body,
            Self::Label { .. } | Self::State { .. } => "",
        }
    }

    /// Its values of one line, by their names in the file.
    pub fn fields(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Comment { .. } => Vec::new(),
            Self::Label { label } => vec![("label", label)],
            Self::State { state } => vec![("state", state)],
            Self::PullRequest { title, base, .. } => {
                let base = base.as_deref().map(|base| ("base", base));
                [("title", title.as_str())].into_iter().chain(base).collect()
            }
            Self::Issue { title, .. } => vec![("title", title)],
        }
    }

    /// What an allow-list must take of it.
    fn allowed_value(&self) -> Option<&str> {
        let name = self.kind().allows()?;
        let found = self.fields().into_iter().find(|(name_of, _)| *name_of == name);
        found.map(|(_, value)| value)
    }

    /// What tells it from others of its kind, in one line.
    pub fn summary(&self) -> &str {
        match self {
            Self::Comment { body } => body.lines().find(|line| !line.trim().is_empty()).unwrap_or(""),
            Self::Label { label: text }
            | Self::State { state: text }
            | Self::PullRequest { title: text, .. }
            | Self::Issue { title: text, .. } => text,
        }
    }
}

/// `issue.stages.S.outputs`: what agents of a stage may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputPolicy {
    /// The kinds that may be asked for.
    pub rules: BTreeMap<OutputKind, OutputRule>,
    /// `secrets`: names of secrets that the commands get.
    pub secrets: Vec<String>,
}

/// One kind of output of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRule {
    /// How many there may be in one run.
    pub max: u32,
    /// What may be chosen.
    #[serde(default)]
    pub allow: Option<AllowList>,
    /// The shell command that does it.
    pub run: String,
    /// The shell command that tells whether it is done.
    #[serde(default)]
    pub check: Option<String>,
    /// Whether a person must agree first.
    #[serde(default)]
    pub approve: bool,
}

/// The outputs that a person must agree to before any of the attempt's is carried out.
pub fn needs_approval<'o>(outputs: &'o [Output], policy: &OutputPolicy) -> Vec<&'o Output> {
    let waits = |output: &&Output| policy.rules.get(&output.kind()).is_some_and(|rule| rule.approve);
    outputs.iter().filter(waits).collect()
}

/// By what an output is known again, over all attempts of one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OutputKey(String);

impl OutputKey {
    /// Its text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OutputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// In what an output is known again: the run, whichever of its attempts asks.
#[derive(Clone, Copy, Debug)]
pub struct Pursuit<'a> {
    /// The issue.
    pub issue: &'a IssueId,
    /// The stage.
    pub stage: &'a StageName,
    /// The run.
    pub run: RunId,
}

impl Pursuit<'_> {
    /// The key of an output: the same for the same contents in the same run, and for nothing else.
    pub fn key(&self, output: &Output) -> OutputKey {
        // Its fields have one order, and absent ones are left out.
        let contents = serde_json::to_string(output).unwrap_or_default();
        let mut hash = Sha256::new();
        for part in [
            "vik output 1",
            self.issue.as_str(),
            self.stage.as_str(),
            &self.run.to_string(),
            &contents,
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        OutputKey(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The JSON Schema of one line of the file.
pub fn json_schema() -> Value {
    let mut schema = schema_for!(Output);
    schema.insert("title".to_owned(), "One line of the file of outputs".into());
    schema.to_value()
}

/// The same, of those kinds only that a stage takes.
pub fn json_schema_of(policy: &OutputPolicy) -> Value {
    let mut schema = json_schema();
    if let Some(kinds) = schema["oneOf"].as_array_mut() {
        let taken = |kind: &Value| policy.rules.keys().any(|taken| kind == taken.as_str());
        kinds.retain(|kind| taken(&kind["properties"]["kind"]["const"]));
    }
    schema
}

#[cfg(test)]
mod tests;
