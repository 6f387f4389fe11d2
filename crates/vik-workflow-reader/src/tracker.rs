//! `issues.tracker`: a program that speaks the tracker protocol, in place of the commands of
//! `issues.pull` and `issues.show`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vik_core::outputs::OutputKind;
use vik_core::workflow::{StartState, shell_quoted};
use vik_yaml::{Diagnostic, Kind, Node};

use super::check::Check;
use super::decode::{Cx, Decode, ISSUES, Section as _};
use super::file::Issues;
use super::section::section;
use super::values::{CommandLine, decode_variants};

/// The beginnings of expressions in templates.
const TEMPLATE_MARKS: [&str; 3] = ["{{", "{%", "{#"];

/// The option of `vik git` for the login of `gh`, which a token in a secret gives as well.
const GH_LOGIN: &str = "-c credential.helper='!gh auth git-credential' ";

/// A tracker that is built into Vik.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BuiltInTracker {
    /// Markdown files in `issues/`.
    Files,
    /// GitHub issues, through `gh`.
    Github,
    /// The issues of a project of GitLab.
    Gitlab,
    /// The issues of a project of Redmine.
    Redmine,
}

decode_variants! {
    BuiltInTracker, "unknown_value", [("markdown", "files"), ("file", "files"), ("gh", "github"), ("glab", "gitlab")];
}

section! {
    /// A program that speaks the tracker protocol.
    struct TrackerProgram;
    /// The program and its arguments before the verb, such as `[./tracker.sh]`. It runs in the
    /// folder of the workflow file.
    "command" command: required CommandLine;
    instead {
        "program" | "cmd" | "run" => "did you mean `command`?",
    }
}

/// The program, and its arguments before the verb.
pub(crate) struct Tracker;

/// The shell commands that a tracker supplies.
#[derive(Clone, Debug)]
pub(crate) struct TrackerCommands {
    /// The program and its arguments.
    pub(super) args: Vec<String>,
    /// The beginning of a shell command with them.
    program: String,
    /// Names of the secrets that are passed to them.
    pub(super) secrets: Vec<String>,
}

impl Decode for Tracker {
    type Value = Vec<String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
        if matches!(node.kind, Kind::Scalar(_)) {
            let name = match BuiltInTracker::decode(node, cx)? {
                BuiltInTracker::Files => "files",
                BuiltInTracker::Github => "github",
                BuiltInTracker::Gitlab => "gitlab",
                BuiltInTracker::Redmine => "redmine",
            };
            return Some(["vik", "tracker", name].map(str::to_owned).into());
        }
        let args = TrackerProgram::read(Some(node), cx).command?;
        let problem = if args.is_empty() {
            ("empty_value", "the command of the tracker is empty")
        } else if args.iter().any(|arg| has_template(arg)) {
            ("bad_text", "the command of a tracker cannot contain a template")
        } else {
            return Some(args);
        };
        cx.refuse(cx.error(problem.0, node, problem.1))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = TrackerProgram::schema(generator);
        // With several types, each keyword applies to its own type.
        schema.insert("type".to_owned(), json!(["object", "string"]));
        schema.insert("pattern".to_owned(), "^(files|github|gitlab|redmine)$".into());
        schema
    }
}

impl TrackerCommands {
    /// Returns the command that lists the issues.
    fn list(&self) -> String {
        format!("{} list", self.program)
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
            self.program
        )
    }

    /// Returns the command that carries out an output, which is on standard input, for an issue in
    /// one of these states. A pull request gets a branch of its own: an agent without one must not
    /// push to the branch that was cloned.
    pub(super) fn output(&self, states: &[String]) -> String {
        self.carry_out(states)
    }

    /// Returns the command that pushes what an output of this kind needs of the workspace.
    pub(super) fn push(&self, kind: OutputKind) -> Option<String> {
        if kind != OutputKind::PullRequest {
            return None;
        }
        let is_github = self
            .args
            .starts_with(&["vik", "tracker", "github"].map(str::to_owned));
        let login = if is_github { GH_LOGIN } else { "" };
        let push = format!("set -e\nvik git {login}push --quiet --branch \"vik/$VIK_ISSUE_ID\"\n");
        Some(push)
    }

    /// Returns the command that moves an issue from one of these states to `state`.
    fn start(&self, state: &str, states: &[String]) -> String {
        let output = json!({"kind": "state", "state": state}).to_string();
        format!(
            "printf '%s' {} |\n  {}",
            shell_quoted(&output),
            self.carry_out(states)
        )
    }

    fn carry_out(&self, states: &[String]) -> String {
        let from: String = states
            .iter()
            .map(|state| format!("--from={} ", shell_quoted(state)))
            .collect();
        format!("vik tracker output {from}-- {}\n", self.program)
    }
}

fn has_template(text: &str) -> bool {
    TEMPLATE_MARKS.iter().any(|mark| text.contains(mark))
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
        if let Some(args) = issues.tracker.take() {
            let program: Vec<_> = args.iter().map(|arg| shell_quoted(arg)).collect();
            let commands = TrackerCommands {
                program: program.join(" "),
                args,
                secrets: issues.pull.secrets.clone(),
            };
            issues.pull.command = Some(commands.list());
            issues.show.command = Some(commands.show());
            self.tracker = Some(commands);
            if self.places.is_absent("issues.show.secrets") {
                issues.show.secrets.clone_from(&issues.pull.secrets);
            }
        }
    }

    /// Returns `start_state` of a stage, which must be one of `states`. Issues of the stage can be in
    /// all of `all_states`.
    pub(super) fn start_state(
        &mut self,
        path: &str,
        state: Option<String>,
        states: &[String],
        all_states: &[String],
    ) -> Option<StartState> {
        let state = state?;
        if states.is_empty() {
            // Reported as a missing key.
            return None;
        }
        let (message, hint) = if !states.contains(&state) {
            let hint = format!("add it: `when: {{state: [{}, {state}]}}`", states.join(", "));
            let message = "`start_state` is none of the states of the stage, which would end the run";
            (message, hint)
        } else if let Some(tracker) = &self.tracker {
            return Some(StartState {
                command: tracker.start(&state, all_states),
                secrets: tracker.secrets.clone(),
                state,
            });
        } else if self.places.is_absent("issues.tracker") {
            let message = "`start_state` needs a tracker that Vik knows";
            let hint = "set `issues: {tracker: github}`, or move the issue in `hooks.before_run`".to_owned();
            (message, hint)
        } else {
            return None;
        };
        self.report(Diagnostic::error("start_state", path, message).hint(hint));
        None
    }

    /// Reports states that would be a template in the commands of the tracker.
    pub(super) fn states_for_tracker(&mut self, path: &str, states: &[String]) {
        if self.tracker.is_some() && states.iter().any(|state| has_template(state)) {
            let message = "with `issues.tracker`, a state cannot contain a template";
            self.report(Diagnostic::error("bad_text", path, message).hint("rename the state"));
        }
    }

    /// Reports a missing pull command at the innermost key that exists.
    fn require_pull(&mut self, path: &str) {
        let is_map = ["", "issues", "issues.pull"]
            .iter()
            .all(|path| self.places.is_map(path));
        if !is_map || !self.places.is_absent(path) || self.sink.has_misspelled(ISSUES) {
            return;
        }
        self.missing(
            path,
            "set it, or name a tracker that Vik knows: `issues: {tracker: github}`",
        );
    }

    /// Reports a key that is required here.
    pub(super) fn missing(&mut self, path: &str, hint: &str) {
        let problem = if self.places.contains(path) {
            "has no value"
        } else {
            "is missing"
        };
        let diagnostic = Diagnostic::error("missing_key", path, format!("`{path}` {problem}"));
        self.report_at_key(diagnostic.hint(hint));
    }
}
