//! `issues.tracker`: a program that speaks the tracker protocol, in place of the commands of
//! `issues.pull` and `issues.show`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vik_yaml::{Diagnostic, Kind, Node};

use super::check::Check;
use super::decode::{Cx, Decode, Section as _};
use super::file::Issues;
use super::section::section;
use super::values::{CommandLine, Text, decode_variants};

/// The beginnings of expressions in templates.
const TEMPLATE_MARKS: [&str; 3] = ["{{", "{%", "{#"];

/// A tracker that is built into Vik.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BuiltInTracker {
    /// Markdown files in `issues/`.
    Files,
    /// GitHub issues, through `gh`.
    Github,
}

decode_variants! {
    BuiltInTracker, "unknown_value", [("markdown", "files"), ("file", "files"), ("gh", "github")];
}

section! {
    /// A program that speaks the tracker protocol.
    struct TrackerProgram;
    /// The program and its arguments before the verb, such as `[./tracker.sh]`. It runs in the
    /// folder of the workflow file.
    "command" command: required CommandLine;
    instead {
        "program" => "did you mean `command`?",
        "cmd" => "did you mean `command`?",
        "run" => "did you mean `command`?",
    }
}

/// The program, and its arguments before the verb.
#[derive(Clone, Debug)]
pub(crate) struct Tracker(Vec<String>);

impl Decode for Tracker {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        if matches!(node.kind, Kind::Scalar(_)) {
            let name = match BuiltInTracker::decode(node, cx)? {
                BuiltInTracker::Files => "files",
                BuiltInTracker::Github => "github",
            };
            return Some(Self(["vik", "tracker", name].map(str::to_owned).into()));
        }
        let CommandLine(args) = TrackerProgram::read(Some(node), cx).command?;
        let problem = if args.is_empty() {
            ("empty_value", "the command of the tracker is empty")
        } else if args
            .iter()
            .any(|arg| TEMPLATE_MARKS.iter().any(|mark| arg.contains(mark)))
        {
            ("bad_text", "the command of a tracker cannot contain a template")
        } else {
            return Some(Self(args));
        };
        let diagnostic = cx.error(problem.0, node, problem.1);
        cx.sink.push(diagnostic);
        None
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = <TrackerProgram as Decode>::schema(generator);
        // With several types, each keyword applies to its own type.
        schema.insert("type".to_owned(), json!(["object", "string"]));
        schema.insert("pattern".to_owned(), "^(files|github)$".into());
        schema
    }
}

impl Tracker {
    /// Returns the command that lists the issues.
    fn list(&self) -> String {
        format!("{} list", self.quoted())
    }

    /// Returns the command that reads one issue. Exit code 66 means that there is none. An id must
    /// not become an option.
    fn show(&self) -> String {
        format!(
            "set -- {{{{ issue.id }}}}\n\
             case $1 in -*) echo \"invalid id: $1\" >&2; exit 1 ;; esac\n\
             code=0\n\
             issue=$({} show \"$1\") || code=$?\n\
             case $code in\n\
             0) printf '%s\\n' \"$issue\" ;;\n\
             66) echo null ;;\n\
             *) exit \"$code\" ;;\n\
             esac\n",
            self.quoted()
        )
    }

    /// Returns the program and its arguments for a shell.
    fn quoted(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@%+,".contains(&byte);
        let quoted = self.0.iter().map(|arg| {
            if !arg.is_empty() && arg.bytes().all(is_plain) {
                arg.clone()
            } else {
                format!("'{}'", arg.replace('\'', "'\\''"))
            }
        });
        quoted.collect::<Vec<_>>().join(" ")
    }
}

impl Check<'_> {
    /// Replaces `issues.tracker` by the commands of `issues.pull` and `issues.show`.
    pub(super) fn tracker(&mut self, issues: &mut Issues) {
        const PULL: &str = "issues.pull.command";
        const SHOW: &str = "issues.show.command";
        if self.places.is_absent("issues.tracker") {
            self.require_pull(PULL);
            return;
        }
        for command in [PULL, SHOW] {
            if !self.places.is_absent(command) {
                let message = format!("`issues.tracker` and `{command}` exclude each other");
                let diagnostic = Diagnostic::error("tracker_command", command, message)
                    .hint("remove one of them: the tracker lists issues and reads single ones");
                self.report_at_key(diagnostic);
            }
        }
        if let Some(tracker) = issues.tracker.take() {
            issues.pull.command = Some(Text(tracker.list()));
            issues.show.command = Some(Text(tracker.show()));
            if self.places.is_absent("issues.show.secrets") {
                issues.show.secrets.0.clone_from(&issues.pull.secrets.0);
            }
        }
    }

    /// Reports a missing pull command at the innermost key that exists.
    fn require_pull(&mut self, path: &str) {
        let is_map = ["", "issues", "issues.pull"]
            .iter()
            .all(|path| self.places.is_map(path));
        if !is_map || !self.places.is_absent(path) {
            return;
        }
        let mut message = format!("`{path}` is missing");
        if self.places.contains(path) {
            message = format!("`{path}` has no value");
        }
        let diagnostic = Diagnostic::error("missing_key", path, message)
            .hint("set it, or name a tracker that Vik knows: `issues: {tracker: github}`");
        self.report_at_key(diagnostic);
    }
}
