//! Decodes the lines of a session log for display.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use vik_api::cost_text;

use crate::table::Tone;
use crate::text::{self, duration, humanize, short_number};

/// The maximum bytes of one text.
const MAX_TEXT: usize = 64 << 10;

pub(super) struct Item {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) kind: ItemKind,
}

/// The content of an event, in texts that are not yet safe for a terminal.
pub(super) enum ItemKind {
    Message(String),
    Reasoning(String),
    Call(Call),
    Result(CallResult),
    /// A line, and more text below it.
    Note(Note),
    /// Not shown: token counts, and rate limits that are far away.
    Hidden,
}

pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    /// The call on one line.
    pub(super) summary: String,
    pub(super) input: String,
}

pub(super) struct CallResult {
    pub(super) id: String,
    pub(super) is_error: bool,
    pub(super) exit_code: Option<i64>,
    pub(super) output: String,
}

pub(super) struct Note {
    pub(super) tone: Tone,
    pub(super) text: String,
    pub(super) body: String,
    /// Whether it is shown only if everything is.
    pub(super) detail: bool,
}

#[derive(Deserialize)]
struct Line {
    seq: u64,
    at: Timestamp,
    kind: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl Item {
    /// Decodes a line; `None` if it is not a line of a session log.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        Some(Self {
            seq: line.seq,
            at: line.at,
            kind: read(&line.kind, &line.fields),
        })
    }
}

fn read(kind: &str, fields: &Map<String, Value>) -> ItemKind {
    let text = |name| string(fields, name);
    match kind {
        "message" => ItemKind::Message(cut(text("text").unwrap_or_default())),
        "reasoning" => ItemKind::Reasoning(cut(text("text").unwrap_or_default())),
        "tool_call" => {
            let input = fields.get("input").filter(|input| !input.is_null());
            ItemKind::Call(Call {
                id: cut(text("call_id").unwrap_or_default()),
                tool: cut(text("tool").unwrap_or("tool")),
                summary: input.map(summary).unwrap_or_default(),
                input: input.map(full_text).unwrap_or_default(),
            })
        }
        "tool_result" => ItemKind::Result(CallResult {
            id: cut(text("call_id").unwrap_or_default()),
            is_error: flag(fields, "is_error"),
            exit_code: fields.get("exit_code").and_then(Value::as_i64),
            output: fields
                .get("output")
                .filter(|output| !output.is_null())
                .map(full_text)
                .unwrap_or_default(),
        }),
        "token_usage" => ItemKind::Hidden,
        "session_started" => {
            let mut parts = vec!["session started".to_owned()];
            parts.extend(text("agent_version").map(|version| format!("agent {version}")));
            parts.extend(text("model").map(str::to_owned));
            note(Tone::Faint, &parts.join(", "))
        }
        "subagent" => {
            let description = text("description").or(text("id")).unwrap_or_default();
            note(
                Tone::Name,
                &format!("sub-agent {}: {description}", text("status").unwrap_or("?")),
            )
        }
        "rate_limit" => rate_limit(fields),
        "approval" => {
            let (tool, decision) = (text("tool").unwrap_or("?"), text("decision").unwrap_or("?"));
            note_with(
                Tone::Warn,
                &format!("permission {decision}: {tool}"),
                text("detail"),
            )
        }
        "error" => {
            let fatal = flag(fields, "fatal");
            let (tone, name) = if fatal {
                (Tone::Bad, "fatal error")
            } else {
                (Tone::Warn, "error")
            };
            let class = text("failure_class").map(|class| format!(" ({})", humanize(class)));
            let head = format!("{name}{}", class.unwrap_or_default());
            note_with(tone, &head, text("message"))
        }
        "malformed" => note(
            Tone::Warn,
            &format!("not JSON: {}", text("line").unwrap_or_default()),
        ),
        "completed" => completed(fields),
        "resumed" => note(
            Tone::Faint,
            &format!(
                "resumes the conversation of {}",
                text("resumed_from").unwrap_or("?")
            ),
        ),
        "resume_failed" => note_with(
            Tone::Warn,
            "could not resume the previous conversation",
            text("reason"),
        ),
        "output" => {
            let status = text("status").unwrap_or("?");
            let tone = match status {
                "applied" => Tone::Good,
                "skipped" => Tone::Faint,
                _ => Tone::Bad,
            };
            let kind = text("output").filter(|kind| !kind.is_empty()).unwrap_or("output");
            let head = format!("{} {}", humanize(kind), humanize(status));
            note_with(tone, &head, text("reason").or(text("summary")))
        }
        "limit" => {
            let percent = fields.get("percent").and_then(Value::as_u64).unwrap_or(0);
            let tone = if percent >= 100 { Tone::Bad } else { Tone::Warn };
            let (scope, unit) = (text("scope").unwrap_or("?"), text("unit").unwrap_or("?"));
            note(
                tone,
                &format!("{percent} % of the {} limit ({unit}) is used", humanize(scope)),
            )
        }
        "ended" => ended(fields),
        _ => {
            let raw = fields.get("raw").map(Value::to_string).unwrap_or_default();
            ItemKind::Note(Note {
                tone: Tone::Faint,
                text: cut(&format!("{kind}: {raw}")),
                body: String::new(),
                detail: true,
            })
        }
    }
}

fn rate_limit(fields: &Map<String, Value>) -> ItemKind {
    let status = string(fields, "status").unwrap_or("allowed");
    let used = fields.get("utilization").and_then(Value::as_f64);
    if status == "allowed" && used.is_none_or(|used| used < 0.8) {
        return ItemKind::Hidden;
    }
    let used = used.map(|used| format!(", {:.0} % used", used * 100.0));
    let text = format!("rate limit: {}{}", humanize(status), used.unwrap_or_default());
    note(
        if status == "rejected" {
            Tone::Bad
        } else {
            Tone::Warn
        },
        &text,
    )
}

fn completed(fields: &Map<String, Value>) -> ItemKind {
    let reason = string(fields, "reason")
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default();
    if flag(fields, "ok") {
        // The last message is already shown above.
        note(Tone::Good, &format!("the agent reported success{reason}"))
    } else {
        note_with(
            Tone::Bad,
            &format!("the agent reported failure{reason}"),
            string(fields, "message"),
        )
    }
}

fn ended(fields: &Map<String, Value>) -> ItemKind {
    let outcome = string(fields, "outcome").unwrap_or("?");
    let mut text = format!("ended: {}", humanize(outcome));
    if let Some(class) = string(fields, "failure_class") {
        text.push_str(&format!(" ({})", humanize(class)));
    }
    if let Some(code) = fields.get("exit_code").and_then(Value::as_i64) {
        text.push_str(&format!(", exit code {code}"));
    }
    if let Some(signal) = fields.get("signal").and_then(Value::as_i64) {
        text.push_str(&format!(", signal {signal}"));
    }
    if let Some(ms) = fields.get("duration_ms").and_then(Value::as_u64) {
        text.push_str(&format!(", after {}", duration(ms / 1_000)));
    }
    let count = |name| {
        fields
            .get("usage")
            .and_then(|usage| usage.get(name)?.as_u64())
            .unwrap_or(0)
    };
    let tokens = count("input_tokens").saturating_add(count("output_tokens"));
    if tokens > 0 {
        text.push_str(&format!(", {} tokens", short_number(tokens)));
    }
    if let Some(usd) = fields.get("cost_usd").and_then(Value::as_f64) {
        let is_estimate = fields.get("cost_source").and_then(Value::as_str) == Some("estimate");
        let estimated = if is_estimate { usd } else { 0.0 };
        text.push_str(&format!(", {}", cost_text(Some(usd), estimated)));
    }
    let tone = if outcome == "succeeded" {
        Tone::Good
    } else {
        Tone::Bad
    };
    note_with(tone, &text, string(fields, "reason"))
}

fn note(tone: Tone, text: &str) -> ItemKind {
    note_with(tone, text, None)
}

fn note_with(tone: Tone, text: &str, more: Option<&str>) -> ItemKind {
    ItemKind::Note(Note {
        tone,
        text: cut(text),
        body: cut(more.unwrap_or_default()),
        detail: false,
    })
}

fn string<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn flag(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let mut out = text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
    out.push('…');
    out
}

/// Returns a tool call's input on one line: its most informative argument, else all of them.
fn summary(input: &Value) -> String {
    const SUMMARY_KEYS: [&str; 14] = [
        "command",
        "cmd",
        "file_path",
        "path",
        "pattern",
        "query",
        "url",
        "changes",
        "patch",
        "prompt",
        "description",
        "name",
        "text",
        "message",
    ];
    let summary_value = SUMMARY_KEYS
        .iter()
        .find_map(|name| input.get(name))
        .unwrap_or(input);
    text::fit(&inline(summary_value), 400)
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            cut(&texts.join(" "))
        }
        Value::Array(items) => {
            // For the files of a change the paths are the most informative.
            let paths: Option<Vec<&str>> = items.iter().map(|item| item.get("path")?.as_str()).collect();
            match paths {
                Some(paths) => cut(&paths.join(" ")),
                None => cut(&value.to_string()),
            }
        }
        _ => cut(&value.to_string()),
    }
}

/// Returns a value in readable form: texts verbatim, one argument per line.
fn full_text(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text),
        Value::Object(map) => {
            let lines: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{name}: {}", inline(value)))
                .collect();
            cut(&lines.join("\n"))
        }
        // The form of Claude Code: `[{"type":"text","text":"…"}]`.
        Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(|item| item.get("text")?.as_str()).collect();
            match texts {
                Some(texts) => cut(&texts.join("\n")),
                None => inline(value),
            }
        }
        _ => inline(value),
    }
}
