//! `retention` and `issue.unlisted`: how long Vik keeps what it stores.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vik_core::duration::Span;
use vik_core::workflow::KeepTime;
use vik_yaml::{Kind, Node};

use super::decode::{Cx, Decode, Section as _};
use super::section::section;
use super::values::{Positive, decode_variants};

/// How long the workspace of an unlisted issue is kept by default.
pub(crate) const UNLISTED_AFTER: Span = Span::mins(7 * 24 * 60);

section! {
    /// How long Vik keeps what it stores: `keep` (forever) or a duration. Applied while the daemon
    /// runs. The counters of issues and days, what is parked, and what belongs to a running or
    /// waiting attempt are never removed.
    struct Retention: strict => vik_core::workflow::Retention;
    /// Ended attempts in the ledger, with their runs, after their end.
    "ledger" ledger: defaults KeepTime = KeepTime::Forever;
    /// Records of the trace. The oldest ones are removed as soon as they are a quarter of it; `vik
    /// trace verify` still checks all others.
    "trace" trace: defaults KeepTime = KeepTime::Forever;
    /// The scratch folder of an issue (temporary files and caches of its agents), after its last
    /// attempt. It is also removed with the workspace.
    "scratch" scratch: defaults KeepTime = KeepTime::days(7);
    /// The session files of an issue without a workspace, after its last attempt.
    "sessions" sessions: defaults KeepTime = KeepTime::days(90);
    instead {
        "session" => "did you mean `sessions`?",
        "logs" | "days" => "use `logging.retention_days`",
        "workspaces" => "use `issue.remove_workspace` and `issue.unlisted`",
        "unlisted" => "use `issue.unlisted`",
        "history" | "attempts" => "did you mean `ledger`?",
        "cache" => "did you mean `scratch`?",
    }
}

impl Decode for KeepTime {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let scalar = cx.scalar(node, "`keep` or a duration")?;
        match scalar.text.as_str() {
            Self::FOREVER => Some(Self::Forever),
            "never" | "forever" | "false" => {
                let found = ("unknown value", scalar.text.as_str());
                cx.refuse_text("unknown_value", node, found, "did you mean `keep`?")
            }
            _ => Positive::decode(node, cx).map(Self::For),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": Self::FOREVER }, generator.subschema_for::<Span>()] })
    }
}

/// `issue.unlisted.action`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnlistedAction {
    /// The workspace is kept.
    Keep,
    /// The workspace is removed if it contains no unsaved work.
    Remove,
}

decode_variants! {
    UnlistedAction, "unknown_value", [("never", "keep"), ("false", "keep"), ("true", "remove"), ("clean", "remove"), ("always", "remove")];
}

section! {
    /// What happens to the workspace of an issue that pulls no longer list.
    struct UnlistedKeys: strict;
    /// `remove`: removed if it is empty, or a git work tree with nothing uncommitted or unpushed.
    /// `keep`: kept.
    "action" action: required UnlistedAction;
    /// How long no pull must have listed the issue.
    "after" after: defaults Positive = UNLISTED_AFTER;
    instead {
        "age" | "days" | "older_than" => "did you mean `after`?",
    }
}

/// `issue.unlisted`: `keep`, `remove`, or a map with the age.
pub(crate) struct Unlisted;

impl Decode for Unlisted {
    type Value = KeepTime;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<KeepTime> {
        let (action, after) = match &node.kind {
            Kind::Scalar(_) => (UnlistedAction::decode(node, cx)?, UNLISTED_AFTER),
            _ => {
                let keys = UnlistedKeys::read(Some(node), cx);
                (keys.action?, keys.after)
            }
        };
        Some(match action {
            UnlistedAction::Keep => KeepTime::Forever,
            UnlistedAction::Remove => KeepTime::For(after),
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = UnlistedKeys::schema(generator);
        // With several types, each keyword applies to its own type.
        schema.insert("type".to_owned(), json!(["object", "string"]));
        schema.insert("pattern".to_owned(), "^(keep|remove)$".into());
        schema
    }

    fn as_written(_: &KeepTime) -> Option<serde_json::Value> {
        Some("remove".into())
    }
}
