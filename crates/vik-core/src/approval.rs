//! Approvals: the requests that wait for a person, and their answers.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::visible::visible;
use crate::workflow::{ApprovePolicy, CallRule};

/// A call that an agent is about to make, as far as it is known. Its texts are an agent's: data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// The tool, as the agent calls it.
    pub tool: String,
    /// The command line, if the call runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The paths that it says it touches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// The answer of a person, or of the time limit, to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Answer {
    Approve {
        /// A message for the agent, where one is still to start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    Deny {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The agent must proceed as the message says instead.
    Instruct { message: String },
}

impl Answer {
    /// Returns the name used in JSON and in decisions.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }

    /// Returns the message of the answer.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Approve { message } | Self::Deny { message } => message.as_deref(),
            Self::Instruct { message } => Some(message),
        }
    }

    /// Returns a denial; with a message, an instruction.
    pub fn denied(message: Option<String>) -> Self {
        match message {
            Some(message) => Self::Instruct { message },
            None => Self::Deny { message: None },
        }
    }

    /// Returns the default answer, for requests that nobody answers in time.
    pub fn at_the_limit(default: OnTimeout) -> Self {
        match default {
            OnTimeout::Approve => Self::Approve { message: None },
            OnTimeout::Deny => Self::Deny { message: None },
        }
    }
}

/// The name of the one who gives the default answer.
pub const TIME_LIMIT: &str = "the time limit";

/// `approve.on_timeout`: the answer if nobody answers in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum OnTimeout {
    /// It is denied.
    #[default]
    Deny,
    /// It is approved.
    Approve,
}

impl OnTimeout {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns what has become of a request then.
    pub fn done(self) -> &'static str {
        match self {
            Self::Deny => "denied",
            Self::Approve => "approved",
        }
    }
}

/// At which point of a stage something waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Gate {
    /// Before an attempt starts.
    Before,
    /// Before a call of its agent.
    Call,
    /// After the work is done and verified, before `after_run`.
    After,
}

impl Gate {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Something that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// Names it: whoever answers may say which one was meant. Another text of the issue, or another call, is another request.
    pub id: String,
    /// What waits.
    pub gate: Gate,
    /// The call, for the gate `call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
    /// The rule of the workflow that the call fell under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the agent asks to have done outside of the workspace, in a line each, where that is to be approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// When the default answer is given.
    #[schemars(with = "String")]
    pub until: Timestamp,
    /// The default answer.
    pub on_timeout: OnTimeout,
}

impl Request {
    /// Creates a request at this time, with the time limit of its stage.
    pub fn new(id: String, gate: Gate, policy: &ApprovePolicy, now: Timestamp) -> Self {
        let wait = SignedDuration::try_from(policy.timeout.0).unwrap_or(SignedDuration::MAX);
        Self {
            id,
            gate,
            call: None,
            rule: None,
            outputs: Vec::new(),
            since: now,
            until: now.checked_add(wait).unwrap_or(Timestamp::MAX),
            on_timeout: policy.on_timeout,
        }
    }

    /// Returns a one-line description of the request.
    pub fn message(&self) -> String {
        match (self.gate, &self.call) {
            (Gate::Before, _) => "a person must approve the start".to_owned(),
            (Gate::After, _) => "a person must approve the result".to_owned(),
            (Gate::Call, call) => {
                let tool = |call: &Call| mcp_name(&call.tool).unwrap_or_else(|| call.tool.clone());
                let of = call
                    .as_ref()
                    .map(|call| format!(" of `{}`", visible(&tool(call))));
                let rule = self.rule.as_ref().map(|rule| format!(" ({rule})"));
                let (of, rule) = (of.unwrap_or_default(), rule.unwrap_or_default());
                format!("a person must approve a call{of}{rule}")
            }
        }
    }

    /// Returns the actions that answer the request, as text.
    pub fn freed_by(&self) -> String {
        let (then, until) = (self.on_timeout.done(), self.until);
        format!("`vik approve` or `vik deny`; {then} at {until:.0} without an answer")
    }

    /// Returns a one-line description of the answer.
    pub fn answered(&self, answer: &Answer, by: &str) -> String {
        let subject = match self.gate {
            Gate::Before => "the start",
            Gate::Call => "a tool call",
            Gate::After => "the result",
        };
        let verb = match answer {
            Answer::Approve { .. } => "approved",
            Answer::Deny { .. } => "denied",
            Answer::Instruct { .. } => "gave instructions instead of approving",
        };
        match answer.message() {
            Some(message) => format!("{by} {verb} {subject}: {message}"),
            None => format!("{by} {verb} {subject}"),
        }
    }
}

impl CallRule {
    /// Returns whether the rule applies to a call: of each key that is given, one entry must match.
    ///
    /// Agents choose the form of their commands, so this matches rather too much than too little.
    /// It enforces a policy and is no security boundary: that is the sandbox.
    pub fn matches(&self, call: &Call) -> bool {
        let mcp_tool = mcp_name(&call.tool);
        let is_named = |pattern: &String| match &mcp_tool {
            Some(name) => {
                let pattern = plain_name(pattern);
                matches_whole(&pattern, &plain_name(name)) || matches_whole(&pattern, &plain_name(&call.tool))
            }
            None => matches_whole(pattern, &call.tool),
        };
        let tool = self.tool.is_empty() || self.tool.iter().any(is_named);
        let command = self.command.is_empty()
            || call.command.as_ref().is_some_and(|command| {
                let command = normalize_command(command);
                self.command
                    .iter()
                    .any(|pattern| contains_pattern(&normalize_command(pattern), &command))
            });
        let path = self
            .path
            .as_ref()
            .is_none_or(|scope| call.paths.iter().any(|path| scope.matches(path)));
        tool && command && path
    }

    /// Returns a one-line description of the rule.
    pub fn message(&self) -> String {
        let mut parts = Vec::new();
        for (name, entries) in [("tool", &self.tool), ("command", &self.command)] {
            if !entries.is_empty() {
                parts.push(format!("{name} {}", entries.join(", ")));
            }
        }
        if let Some(scope) = &self.path {
            let globs: Vec<_> = scope.globs().flatten().map(String::as_str).collect();
            parts.push(format!("path {}", globs.join(", ")));
        }
        parts.join(", ")
    }
}

/// Returns the name of an MCP tool in rules, `mcp.SERVER.TOOL`, for the name that models use.
///
/// # Examples
///
/// ```
/// use vik_core::approval::mcp_name;
///
/// assert_eq!(mcp_name("mcp__tickets__list").as_deref(), Some("mcp.tickets.list"));
/// assert_eq!(mcp_name("Bash"), None);
/// ```
pub fn mcp_name(tool: &str) -> Option<String> {
    let (server, tool) = tool.strip_prefix("mcp__")?.split_once("__")?;
    Some(format!("mcp.{server}.{tool}"))
}

/// Returns the name or pattern of an MCP tool as agents pass it to models, without the characters
/// that these do not accept: Claude Code names `issues.close` of a server `issues_close`.
fn plain_name(name: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    name.chars().map(|c| if is_kept(c) { c } else { '_' }).collect()
}

/// Returns a command line without shell syntax: quotes, backslashes, repeated spaces, line ends.
fn normalize_command(text: &str) -> String {
    let bare: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a pattern with `*` matches a whole name, ignoring case.
fn matches_whole(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    matches_pattern(pattern.as_bytes(), name.as_bytes(), true)
}

/// Returns whether a pattern with `*` matches somewhere in the text, from the start of a word to
/// the end of one: `git push` matches in `cd x&&git push -f`, but not in `digit pushes`.
fn contains_pattern(pattern: &str, text: &str) -> bool {
    let text = text.as_bytes();
    let matches_at = |at: usize| {
        at == 0 || !is_word_byte(text[at - 1]) || !pattern.bytes().next().is_some_and(is_word_byte)
    };
    (0..text.len()).any(|at| matches_at(at) && matches_pattern(pattern.as_bytes(), &text[at..], false))
}

/// Returns whether a byte is part of a word. Bytes outside of ASCII are not, so that the pattern
/// matches rather too much than too little.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Returns whether the pattern matches all of the text (`whole`), or a prefix that ends with a
/// word.
fn matches_pattern(pattern: &[u8], text: &[u8], whole: bool) -> bool {
    // The positions in the pattern that the consumed text can have reached; a star keeps its own.
    let mut open = vec![false; pattern.len() + 1];
    open[0] = true;
    let spread = |open: &mut Vec<bool>| {
        for (at, byte) in pattern.iter().enumerate() {
            if open[at] && *byte == b'*' {
                open[at + 1] = true;
            }
        }
    };
    spread(&mut open);
    let ends_word = |next: Option<&u8>| {
        let last = pattern.last().copied();
        !next.is_some_and(|next| is_word_byte(*next)) || !last.is_some_and(is_word_byte)
    };
    for (at, byte) in text.iter().enumerate() {
        if !whole && open[pattern.len()] && ends_word(text.get(at)) {
            return true;
        }
        let mut next = vec![false; pattern.len() + 1];
        for (used, wanted) in pattern.iter().enumerate() {
            if open[used] {
                match wanted {
                    b'*' => next[used] = true,
                    wanted if wanted == byte => next[used + 1] = true,
                    _ => {}
                }
            }
        }
        spread(&mut next);
        open = next;
    }
    open[pattern.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(tool: &[&str], command: &[&str], path: &[&str]) -> CallRule {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        CallRule {
            tool: texts(tool),
            command: texts(command),
            path: (!path.is_empty()).then(|| crate::scope::Scope::new(path).unwrap()),
        }
    }

    fn shell(command: &str) -> Call {
        Call {
            tool: "Bash".to_owned(),
            command: Some(command.to_owned()),
            paths: Vec::new(),
        }
    }

    #[test]
    fn command_rule_matches_wrapped_commands() {
        let push = rule(&[], &["git push"], &[]);
        for command in [
            "git push",
            "git  push origin HEAD",
            "cd x&&git push -f",
            "sudo git push;true",
            "bash -c 'git push'",
            "g\"it\" pu\\sh",
            "x=$(git push)",
            "true\ngit\tpush",
            "/usr/bin/git push",
        ] {
            assert!(push.matches(&shell(command)), "{command}");
        }
        for command in ["git pull", "digit push", "git pushes", "git pus", ""] {
            assert!(!push.matches(&shell(command)), "{command}");
        }
        assert!(!push.matches(&Call {
            command: None,
            ..shell("")
        }));
        assert!(rule(&[], &["git * push"], &[]).matches(&shell("git -C x push")));
        assert!(rule(&[], &["rm *-r"], &[]).matches(&shell("rm -f -r x")));
        assert!(rule(&[], &["*"], &[]).matches(&shell("anything")));
    }

    #[test]
    fn call_rule_requires_all_written_keys() {
        let call = Call {
            tool: "Write".to_owned(),
            command: None,
            paths: vec!["migrations/1.sql".to_owned()],
        };
        assert!(rule(&["write", "edit"], &[], &[]).matches(&call));
        assert!(rule(&["w*"], &[], &["migrations"]).matches(&call));
        assert!(!rule(&["Bash"], &[], &["migrations"]).matches(&call));
        assert!(!rule(&[], &["x"], &["migrations"]).matches(&call));
        assert!(!rule(&[], &[], &["migrations", "!migrations/1.sql"]).matches(&call));
        assert!(rule(&["mcp__*"], &[], &[]).matches(&Call {
            tool: "mcp__a__b".to_owned(),
            ..Call::default()
        }));
        assert!(rule(&["mcp.a.*"], &[], &[]).matches(&Call {
            tool: "mcp__a__b".to_owned(),
            ..Call::default()
        }));
        assert!(!rule(&["mcp.b.*"], &[], &[]).matches(&Call {
            tool: "mcp__a__b".to_owned(),
            ..Call::default()
        }));
    }

    #[test]
    fn call_rule_matches_mcp_tools_as_agents_name_them() {
        let call = |tool: &str| Call {
            tool: tool.to_owned(),
            ..Call::default()
        };
        for pattern in [
            "mcp.tickets.issues.close",
            "mcp.tickets.issues/close",
            "mcp.tickets.issues.*",
            "mcp.*issues.close",
            "mcp__tickets__issues.close",
        ] {
            let rule = rule(&[pattern], &[], &[]);
            for tool in ["mcp__tickets__issues_close", "mcp__tickets__issues.close"] {
                assert!(rule.matches(&call(tool)), "{pattern} {tool}");
            }
            assert!(!rule.matches(&call("mcp__tickets__issue_close")), "{pattern}");
        }
        let exact = rule(&["mcp.tickets.issues.close"], &[], &[]);
        assert!(exact.matches(&call("mcp.tickets.issues.close")));
        assert!(!exact.matches(&call("mcp_tickets_issues_close")));
    }

    proptest! {
        #[test]
        fn command_pattern_is_found_anywhere(before in "([a-z.=/]{0,8} ){0,3}", after in "( [a-z./]{0,8}){0,3}") {
            let push = rule(&[], &["git push"], &[]);
            let command = format!("{before}git push{after}");
            prop_assert!(push.matches(&shell(&command)));
        }

        #[test]
        fn star_pattern_matches_any_text(text in ".{0,40}") {
            let is_taken = matches_whole("*", &text);
            prop_assert!(is_taken);
            let plain = text.replace('*', "");
            let is_taken = matches_whole(&(plain.clone() + "*"), &plain);
            prop_assert!(is_taken);
        }
    }
}
