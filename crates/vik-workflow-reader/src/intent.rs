//! `issue.stages.S.intent`, `issue.scope_conflicts` and `trust`: what attempts may change, and
//! whose text is trusted.

use schemars::{Schema, SchemaGenerator};
use vik_core::scope::Scope;
use vik_core::workflow::{OnViolation, StageIntent, TrustPolicy, Untrusted};
use vik_yaml::{Diagnostic, Node, join};

use super::check::Check;
use super::decode::{Cx, Decode};
use super::section::section;
use super::values::{Texts, globs, globs_schema};

section! {
    /// The scope, constraints and acceptance criteria of this stage. An issue can add to them with
    /// fields of the same names or with front matter in its description; it can only narrow the
    /// scope.
    struct Intent: strict => StageIntent;
    /// The paths that attempts may change: globs relative to the workspace, in order; the last glob
    /// that matches a path decides, and `!` excludes. A folder includes all of its contents.
    /// Default: the scope of the issue, else all paths.
    "owned_scope" scope: optional Globs;
    /// Constraints for the work: sentences for the prompt.
    "constraints" constraints: defaults Texts = Vec::new();
    /// Acceptance criteria: sentences for the prompt.
    "acceptance" acceptance: defaults Texts = Vec::new();
    /// What happens after an out-of-scope change: the attempt fails, or the change is reverted.
    "on_violation" on_violation: defaults OnViolation = OnViolation::Fail;
    /// Whether Vik reads the intent of the issue.
    "from_issue" from_issue: defaults bool = true;
    instead {
        "scope" | "paths" | "files" => "did you mean `owned_scope`?",
        "rules" => "did you mean `constraints`?",
        "done" | "acceptance_criteria" | "criteria" => "did you mean `acceptance`?",
    }
}

section! {
    /// Which issues are trusted. Default: all.
    struct Trust: strict => TrustPolicy;
    /// Trusted authors: the `author` of an issue as the pull command prints it, or the `login` or
    /// `username` of its `author` or `user`; case-sensitive.
    "authors" authors: defaults Texts = Vec::new();
    /// An issue with one of these labels is trusted, regardless of its author. Use this only for
    /// trackers in which only members can set labels.
    "labels" labels: defaults Texts = Vec::new();
    /// What happens to all other issues. `hold`: they do not start. `fence`: prompts contain their
    /// text as fenced data.
    "untrusted" untrusted: defaults Untrusted = Untrusted::Hold;
    instead {
        "users" | "author" => "did you mean `authors`?",
        "label" => "did you mean `labels`?",
        "default" | "otherwise" => "did you mean `untrusted`?",
    }
}

/// The globs of a scope.
pub(crate) struct Globs;

impl Decode for Globs {
    type Value = Scope;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Scope> {
        let example = "[src/**, \"!src/generated/**\"]";
        let globs = globs(node, cx, example, |glob| {
            let hint = format!("write globs relative to the workspace, as in `{example}`");
            Scope::new([glob])
                .map(drop)
                .map_err(|error| (error.to_string(), hint))
        })?;
        match Scope::new(globs) {
            Ok(scope) => Some(scope),
            Err(error) => cx.refuse(
                cx.error("empty_value", node, error.to_string())
                    .hint("omit the key to allow every path"),
            ),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        globs_schema(vik_core::scope::MAX_GLOBS)
    }
}

impl Check<'_> {
    pub(super) fn trust(&mut self, policy: Option<TrustPolicy>) -> Option<TrustPolicy> {
        let policy = policy?;
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
