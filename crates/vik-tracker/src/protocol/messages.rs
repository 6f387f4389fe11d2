//! The JSON of the protocol. Trackers may print more fields; unknown ones are ignored.

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The answer to `capabilities`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// The version of the protocol: 1.
    pub protocol: u32,
    /// The name of the tracker.
    pub name: String,
    /// The verbs that it supports.
    pub verbs: Vec<String>,
    /// The states that issues can have, if the tracker has no others and cannot create any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<String>>,
}

impl Capabilities {
    /// All verbs of the protocol.
    const VERBS: [&str; 10] = [
        "capabilities",
        "states",
        "list",
        "show",
        "move",
        "comment",
        "comments",
        "label",
        "create",
        "pull_request",
    ];

    /// Returns those of a tracker of this name that supports all verbs except these.
    pub(crate) fn new(name: &str, unsupported: &[&str]) -> Self {
        let verbs = Self::VERBS.iter().filter(|verb| !unsupported.contains(verb));
        Self {
            protocol: super::VERSION,
            name: name.to_owned(),
            verbs: verbs.map(|&verb| verb.to_owned()).collect(),
            states: None,
        }
    }

    /// Returns whether the tracker supports a verb.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// The answer to `states`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct States {
    /// The states that people can give to issues.
    pub states: Vec<String>,
    /// Those of them that this request created.
    pub created: Vec<String>,
}

/// The answer to `move`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Whether the issue was moved; false if it was not in the state of `--from`.
    pub moved: bool,
    /// The state of the issue now.
    pub state: String,
}

/// Standard input of `comment`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageBody {
    /// The text, in Markdown.
    pub body: String,
}

/// The answer to `comment`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    /// Whether the comment was added; false if one with the same key exists.
    pub created: bool,
}

/// One entry of the answers to `comments` and `pull_request comments`, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Comment {
    /// Who wrote it.
    pub author: String,
    /// The text, in Markdown.
    pub body: String,
    /// When it was written, in RFC 3339.
    pub created_at: String,
    /// The address of the comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The file that it is about, if it is about a line of a pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line in this file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// The answer to `label`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Whether the labels of the issue changed.
    pub changed: bool,
}

/// Standard input of `create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueDraft {
    /// The title, on one line.
    pub title: String,
    /// The description, in Markdown; may be empty.
    #[serde(default)]
    pub body: String,
    /// The state; without it, the tracker chooses one that no stage takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The labels.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// The answer to `create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedIssue {
    /// The id of the issue.
    pub id: String,
    /// Whether it was created; false if one with the same key exists.
    pub created: bool,
    /// The address of the issue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Standard input of `pull_request open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PullRequestDraft {
    /// The title, on one line.
    pub title: String,
    /// The description, in Markdown.
    #[serde(default)]
    pub body: String,
    /// The branch to merge into; without it, the default branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// The answer to `pull_request open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenedPullRequest {
    /// The id of the pull request.
    pub id: String,
    /// Whether it was opened; false if one of this branch is open.
    pub created: bool,
    /// The address of the pull request.
    pub url: String,
}

/// Whether a pull request is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestState {
    /// It can be merged or closed.
    Open,
    /// It was closed without being merged.
    Closed,
    /// It was merged.
    Merged,
}

/// The result of the checks of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Checks {
    /// There are none, or the tracker does not know them.
    None,
    /// At least one has not ended, and none has failed.
    Pending,
    /// At least one has failed.
    Failed,
    /// All have passed.
    Passed,
}

/// The result of the reviews of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// There is none yet.
    None,
    /// The last review of at least one person asks for changes.
    ChangesRequested,
    /// At least one person has approved it, and nobody asks for changes.
    Approved,
}

/// The answer to `pull_request status`: the newest pull request of the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRequestView {
    /// The id of the pull request.
    pub id: String,
    /// The address of the pull request.
    pub url: String,
    /// Whether it is open.
    pub state: PullRequestState,
    /// Whether it is a draft.
    #[serde(default)]
    pub draft: bool,
    /// The result of its checks.
    pub checks: Checks,
    /// The result of its reviews.
    pub review: Review,
}

/// Returns a JSON Schema whose definitions are the messages of the protocol.
pub fn json_schema() -> Value {
    let mut generator = SchemaGenerator::default();
    generator.subschema_for::<Capabilities>();
    generator.subschema_for::<States>();
    generator.subschema_for::<Moved>();
    generator.subschema_for::<MessageBody>();
    generator.subschema_for::<Created>();
    generator.subschema_for::<Comment>();
    generator.subschema_for::<Changed>();
    generator.subschema_for::<IssueDraft>();
    generator.subschema_for::<CreatedIssue>();
    generator.subschema_for::<PullRequestDraft>();
    generator.subschema_for::<OpenedPullRequest>();
    generator.subschema_for::<PullRequestView>();
    let definitions: Map<String, Value> = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "the messages of the tracker protocol",
        "$defs": definitions,
    })
}
