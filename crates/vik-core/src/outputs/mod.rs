//! Safe outputs: actions outside of the workspace that an agent requests and Vik carries out.
//!
//! The agent has no credentials of a tracker or a git remote. It appends lines of JSON to a file.
//! When the agent has finished, Vik checks all lines against the rules of the stage, and carries
//! out each output by a command of the workflow. The decisions here are pure: parsing a line,
//! checking whether it is allowed, its key, and the next step after an earlier try whose end is
//! unknown.

mod allow;
pub mod credentials;
mod note;
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
pub use note::{OutputNote, counted_outputs, last_note};
pub use progress::{CheckResult, NextStep, Progress, Recovery, RunResult, after_check, after_run, next};
pub(crate) use read::written;
pub use read::{Line, Refusal, Rule, check, read, to_text};

/// The maximum size of the file of outputs, in bytes.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;
/// The maximum number of outputs of one attempt.
pub const MAX_OUTPUTS: u32 = 100;
/// The maximum length of a body, in characters.
pub const MAX_BODY: u32 = 65_536;
/// The maximum length of a title, in characters.
pub const MAX_TITLE: u32 = 255;
/// The maximum length of a label, state or branch, in characters.
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

/// The kind of an output: a key under `outputs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum OutputKind {
    Comment,
    Label,
    PullRequest,
    Issue,
    State,
}

impl OutputKind {
    /// Returns the name used in the workflow and in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the field that the allow-list of the stage applies to; `None` if there is no such
    /// field.
    pub fn allows(self) -> Option<&'static str> {
        match self {
            Self::Label => Some("label"),
            Self::State => Some("state"),
            Self::PullRequest => Some("base"),
            Self::Comment | Self::Issue => None,
        }
    }
}

impl Output {
    pub fn kind(&self) -> OutputKind {
        match self {
            Self::Comment { .. } => OutputKind::Comment,
            Self::Label { .. } => OutputKind::Label,
            Self::State { .. } => OutputKind::State,
            Self::PullRequest { .. } => OutputKind::PullRequest,
            Self::Issue { .. } => OutputKind::Issue,
        }
    }

    /// Returns the multi-line text; "" if there is none.
    pub fn body(&self) -> &str {
        match self {
            Self::Comment { body } | Self::PullRequest { body, .. } | Self::Issue { body, .. } => body,
            Self::Label { .. } | Self::State { .. } => "",
        }
    }

    /// Returns the single-line values by their names in the file.
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

    /// Returns the value that the allow-list must match.
    fn allowed_value(&self) -> Option<&str> {
        let name = self.kind().allows()?;
        let found = self.fields().into_iter().find(|(name_of, _)| *name_of == name);
        found.map(|(_, value)| value)
    }

    /// Returns a one-line summary that distinguishes it from others of its kind.
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

/// `issue.stages.S.outputs`: the outputs that agents of a stage may request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputPolicy {
    pub rules: BTreeMap<OutputKind, OutputRule>,
    /// `secrets`: names of secrets for the commands.
    pub secrets: Vec<String>,
}

/// One kind of output of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRule {
    /// The maximum number in one run.
    pub max: u32,
    /// The values that may be chosen.
    #[serde(default)]
    pub allow: Option<AllowList>,
    /// The shell command that pushes what `run` needs of the workspace. It can be repeated, and runs
    /// where the workspace is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<String>,
    /// The shell command that carries it out.
    pub run: String,
    /// The shell command that checks whether it was carried out.
    #[serde(default)]
    pub check: Option<String>,
    /// Whether `run` recognizes by the key what it has done, as a tracker of the protocol does.
    #[serde(default)]
    pub is_keyed: bool,
    /// Whether a person must approve it first.
    #[serde(default)]
    pub approve: bool,
}

impl OutputRule {
    /// Returns what can be done if it is unknown whether an output was carried out.
    pub fn recovery(&self) -> Recovery {
        match self.check {
            Some(_) => Recovery::Check,
            None if self.is_keyed => Recovery::Repeat,
            None => Recovery::Person,
        }
    }
}

/// Returns the outputs that a person must approve before any output of the attempt is carried out.
pub fn needs_approval<'o>(outputs: &'o [Output], policy: &OutputPolicy) -> Vec<&'o Output> {
    let waits = |output: &&Output| policy.rules.get(&output.kind()).is_some_and(|rule| rule.approve);
    outputs.iter().filter(waits).collect()
}

/// The key that identifies an output over all attempts of one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OutputKey(String);

impl OutputKey {
    /// Returns its text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OutputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The context of output keys: the run, whichever of its attempts requests the output.
#[derive(Clone, Copy, Debug)]
pub struct Pursuit<'a> {
    pub issue: &'a IssueId,
    pub stage: &'a StageName,
    pub run: RunId,
}

impl Pursuit<'_> {
    /// Returns the key of an output: equal only for the same contents in the same run.
    pub fn key(&self, output: &Output) -> OutputKey {
        // The fields have a fixed order, and absent ones are omitted.
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

/// Returns the JSON Schema of one line of the file.
pub fn json_schema() -> Value {
    let mut schema = schema_for!(Output);
    schema.insert("title".to_owned(), "One line of the file of outputs".into());
    schema.to_value()
}

/// Returns the schema with only the kinds that a stage allows.
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
