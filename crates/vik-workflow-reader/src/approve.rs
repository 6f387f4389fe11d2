//! `issue.stages.S.approve`: the approvals of a stage.

use schemars::{Schema, SchemaGenerator};
use vik_core::approval::OnTimeout;
use vik_core::workflow::{ApprovePolicy, CallRule};
use vik_yaml::{Diagnostic, Kind, Node, join};

use super::check::Check;
use super::decode::{Cx, Decode};
use super::intent::Globs;
use super::section::section;
use super::values::{Positive, Texts, list};

section! {
    /// What a person must approve (`vik approve`, `vik deny`). Default: nothing.
    struct Approve: strict => ApprovePolicy;
    /// Whether an attempt waits for approval before it starts. The approval applies to the text of
    /// the issue: after an edit, a new approval is required.
    "before" before: defaults bool = false;
    /// Whether an attempt waits for approval after its work is verified, before `after_run`.
    "after" after: defaults bool = false;
    /// Rules for the agent's calls. A call that matches any rule waits for approval.
    "calls" calls: defaults Rules = Vec::new();
    /// How long a request waits.
    "timeout" timeout: defaults Positive = ApprovePolicy::default().timeout;
    /// What happens after `timeout`: `deny` or `approve`.
    "on_timeout" on_timeout: defaults OnTimeout = OnTimeout::Deny;
    instead {
        "tools" | "commands" | "rules" => "did you mean `calls`?",
        "start" => "did you mean `before`?",
        "default" => "did you mean `on_timeout`?",
    }
}

section! {
    /// A rule for calls. Of each key that is present, one entry must match.
    struct Rule: strict;
    /// Tool names as the agent uses them; `*` matches anything; not case-sensitive.
    "tool" tool: optional Texts;
    /// Text in the command line, such as `git push` or `rm *-r`.
    "command" command: optional Texts;
    /// Paths in the call: globs relative to the workspace.
    "path" path: optional Globs;
    instead {
        "tools" => "did you mean `tool`?",
        "commands" => "did you mean `command`?",
        "paths" => "did you mean `path`?",
    }
}

pub(crate) struct Rules;

impl Decode for Rules {
    type Value = Vec<CallRule>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<CallRule>> {
        let items = list(
            node,
            cx,
            "a list of rules",
            "[{tool: [Bash], command: [git push]}]",
        )?;
        let mut rules = Vec::new();
        for item in items {
            let rule = Rule::decode(item, cx)?;
            let rule = CallRule {
                tool: rule.tool.unwrap_or_default(),
                command: rule.command.unwrap_or_default(),
                path: rule.path,
            };
            // Errors inside of the rule were reported already.
            if matches!(&item.kind, Kind::Map(keys) if keys.is_empty()) {
                cx.sink.push(
                    cx.error("empty_value", item, "the rule does not name any calls")
                        .hint("add `tool`, `command` or `path`; `tool: [\"*\"]` matches every call"),
                );
                continue;
            }
            rules.push(rule);
        }
        Some(rules)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let rule = Rule::schema(generator);
        schemars::json_schema!({ "type": "array", "items": rule })
    }
}

impl Check<'_> {
    /// `approve` of a stage
    pub(super) fn approve(&mut self, stage: &str, policy: Option<ApprovePolicy>) -> Option<ApprovePolicy> {
        let policy = policy?;
        let at = join(stage, "approve");
        if !policy.before && !policy.after && self.places.is_absent(&join(&at, "calls")) {
            let message = "`approve` has no gate";
            let hint = "write `before: true`, `after: true` or `calls`";
            self.report_at_key(Diagnostic::warning("unused_key", at, message).hint(hint));
        }
        Some(policy)
    }
}
