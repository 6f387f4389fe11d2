//! `issue.stages.S.intent`, `issue.scope_conflicts` and `trust`: what attempts may change, and
//! whose text is trusted.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use vik_core::scope::Scope;
use vik_core::workflow::{OnViolation, StageIntent, TrustPolicy, Untrusted};
use vik_yaml::{Diagnostic, Node, join};

use super::check::Check;
use super::decode::{Cx, Decode};
use super::section::section;
use super::values::{Text, list};

section! {
    /// The scope, constraints and acceptance criteria of this stage. An issue can add to them with
    /// fields of the same names or with front matter in its description; it can only narrow the
    /// scope.
    struct Intent: strict;
    /// The paths that attempts may change: globs relative to the workspace, in order; the last glob
    /// that matches a path decides, and `!` excludes. A folder includes all of its contents.
    /// Default: the scope of the issue, else all paths.
    "owned_scope" owned_scope: optional Globs;
    /// Constraints for the work: sentences for the prompt.
    "constraints" constraints: defaults Texts = Texts::default();
    /// Acceptance criteria: sentences for the prompt.
    "acceptance" acceptance: defaults Texts = Texts::default();
    /// What happens after an out-of-scope change: the attempt fails, or the change is reverted.
    "on_violation" on_violation: defaults OnViolation = OnViolation::Fail;
    /// Whether Vik reads the intent of the issue.
    "from_issue" from_issue: defaults bool = true;
    instead {
        "scope" => "did you mean `owned_scope`?",
        "paths" => "did you mean `owned_scope`?",
        "files" => "did you mean `owned_scope`?",
        "rules" => "did you mean `constraints`?",
        "done" => "did you mean `acceptance`?",
        "acceptance_criteria" => "did you mean `acceptance`?",
        "criteria" => "did you mean `acceptance`?",
    }
}

section! {
    /// Which issues are trusted. Default: all.
    struct Trust: strict;
    /// Trusted authors: the `author` of an issue as the pull command prints it, or the `login` or
    /// `username` of its `author` or `user`; case-sensitive.
    "authors" authors: defaults Texts = Texts::default();
    /// An issue with one of these labels is trusted, regardless of its author. Use this only for
    /// trackers in which only members can set labels.
    "labels" labels: defaults Texts = Texts::default();
    /// What happens to all other issues. `hold`: they do not start. `fence`: prompts contain their
    /// text as fenced data.
    "untrusted" untrusted: defaults Untrusted = Untrusted::Hold;
    instead {
        "users" => "did you mean `authors`?",
        "author" => "did you mean `authors`?",
        "label" => "did you mean `labels`?",
        "default" => "did you mean `untrusted`?",
        "otherwise" => "did you mean `untrusted`?",
    }
}

/// A list of sentences or names.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl Decode for Texts {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let items = list(node, cx, "a list of strings", "[one, another]")?;
        let texts = items.iter().filter_map(|item| Text::decode(item, cx));
        Some(Self(texts.map(|text| text.0).collect()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
    }
}

/// The globs of a scope.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Globs(pub(crate) Scope);

impl Decode for Globs {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let example = "[src/**, \"!src/generated/**\"]";
        let items = list(node, cx, "a list of globs", example)?;
        let mut globs = Vec::new();
        for item in items {
            let glob = Text::decode(item, cx)?.0;
            // Each glob separately, so that the invalid one is reported.
            if let Err(error) = Scope::new([&glob]) {
                let diagnostic = cx.error("bad_glob", item, error.to_string()).hint(format!(
                    "write globs relative to the workspace, as in `{example}`"
                ));
                cx.sink.push(diagnostic);
                return None;
            }
            globs.push(glob);
        }
        match Scope::new(globs) {
            Ok(scope) => Some(Self(scope)),
            Err(error) => {
                let diagnostic = cx
                    .error("empty_value", node, error.to_string())
                    .hint("omit the key to allow every path");
                cx.sink.push(diagnostic);
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "minItems": 1,
            "maxItems": vik_core::scope::MAX_GLOBS,
            "items": { "type": "string", "minLength": 1 },
        })
    }
}

impl From<Intent> for StageIntent {
    fn from(intent: Intent) -> Self {
        Self {
            scope: intent.owned_scope.map(|globs| globs.0),
            constraints: intent.constraints.0,
            acceptance: intent.acceptance.0,
            on_violation: intent.on_violation,
            from_issue: intent.from_issue,
        }
    }
}

impl Check<'_> {
    pub(super) fn trust(&mut self, trust: Option<Trust>) -> Option<TrustPolicy> {
        let trust = trust?;
        let policy = TrustPolicy {
            authors: trust.authors.0,
            labels: trust.labels.0,
            untrusted: trust.untrusted,
        };
        let is_named = ["authors", "labels"]
            .iter()
            .any(|key| !self.places.is_absent(&join("trust", key)));
        if policy.untrusted == Untrusted::Hold && !is_named {
            let message = "no author and no label is trusted, so no issue can start";
            let hint = "add `authors` or `labels`, or set `untrusted: fence`";
            self.report_at_key(Diagnostic::error("missing_key", "trust", message).hint(hint));
        }
        Some(policy)
    }
}
