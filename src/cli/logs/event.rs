//! Formats one event for people: JSON in, lines out.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;
use vik_base::report::{attempt_cost, cost, one_line, short};
use vik_core::duration::Span;
use vik_core::ended::Ended;
use vik_core::limits::LimitHit;
use vik_core::outcome::{Outcome, Usage};

use super::style::{Line, TextStyle};
use super::tool::{self, Call, text};

/// The maximum length of a text on one line, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// How many lines of reasoning are shown: the first and the last ones.
const REASONING_LINES: (usize, usize) = (10, 2);

/// The used share of a provider's window from which it is shown.
const NEAR_LIMIT: f64 = 0.8;

/// An event with the mark before it.
pub type Marked = ((TextStyle, char), Vec<Line>);

/// Formats an event. `call` is the label of the tool call that a result answers, if the call is not
/// directly above; the result then names it.
pub fn event(event: &Value, call: Option<&str>, full: bool) -> Option<Marked> {
    let field = |name: &str| text(&event[name]);
    let plain = |lines: Vec<Line>| Some(((TextStyle::Plain, ' '), lines));
    let marked = |tone: TextStyle, mark: char, line: &str| Some(((tone, mark), vec![Line::of(tone, line)]));
    match event["kind"].as_str().unwrap_or("") {
        "session_started" => plain(vec![Line::of(TextStyle::Dim, &session(event))]),
        "message" => plain(block(TextStyle::Plain, &field("text"))),
        "reasoning" => {
            let lines: Vec<_> = field("text")
                .trim_end()
                .lines()
                .map(|line| (TextStyle::Dim, line.to_owned()))
                .collect();
            let lines = tool::shortened(&lines, REASONING_LINES, full);
            (!lines.is_empty()).then_some(((TextStyle::Dim, '~'), lines))
        }
        "tool_call" => {
            let lines = Call::of(&event["input"]).lines(&field("tool"), full);
            Some(((TextStyle::Cyan, '→'), lines))
        }
        "tool_result" => Some(result(event, call, full)),
        "token_usage" => marked(TextStyle::Dim, '·', &usage(event)),
        "error" => Some(error(event)),
        "resumed" => marked(
            TextStyle::Dim,
            '·',
            &format!("resumed session {}", field("provider_session_id")),
        ),
        "resume_failed" => Some((
            (TextStyle::Yellow, '!'),
            block(
                TextStyle::Yellow,
                &format!("cannot resume the earlier session: {}", field("reason")),
            ),
        )),
        "limit" => {
            let hit = LimitHit::deserialize(event).map_or_else(|_| String::new(), |hit| hit.to_string());
            marked(
                TextStyle::Yellow,
                '!',
                &format!("{hit} ({} %)", text(&event["percent"])),
            )
        }
        "output" => Some(output(event)),
        "rate_limit" => rate_limit(event, full),
        "approval" => {
            let line = Line::of(
                TextStyle::Yellow,
                &format!("{} {}", field("decision"), field("tool")),
            )
            .and(TextStyle::Plain, "  ")
            .and(TextStyle::Plain, &one_line(&field("detail"), MAX_TEXT_CHARS));
            Some(((TextStyle::Yellow, '?'), vec![line]))
        }
        "subagent" => {
            let description = one_line(&field("description"), MAX_TEXT_CHARS);
            marked(
                TextStyle::Dim,
                '·',
                &format!("sub-agent {} {description}", field("status")),
            )
        }
        "completed" => completed(event, full),
        "ended" => Some(ended(event)),
        // Output that no adapter knows is shown as the agent printed it.
        "unknown" => marked(TextStyle::Dim, '?', &one_line(&field("raw"), MAX_TEXT_CHARS)),
        "malformed" => {
            let cut = event["bytes"]
                .as_u64()
                .map(|bytes| format!("{bytes} bytes, cut: "));
            let start = one_line(&field("line"), MAX_TEXT_CHARS);
            marked(TextStyle::Dim, '?', &(cut.unwrap_or_default() + &start))
        }
        kind => marked(
            TextStyle::Dim,
            '·',
            &format!(
                "{} {}",
                one_line(kind, 40),
                one_line(&event.to_string(), MAX_TEXT_CHARS)
            ),
        ),
    }
}

/// Returns a text as one line per text line.
fn block(tone: TextStyle, text: &str) -> Vec<Line> {
    let lines: Vec<_> = text.trim_end().lines().map(|line| Line::of(tone, line)).collect();
    if lines.is_empty() {
        vec![Line::default()]
    } else {
        lines
    }
}

fn session(event: &Value) -> String {
    let parts = ["model", "agent_version", "provider_session_id"].map(|name| text(&event[name]));
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("session {}", parts.join(" · "))
}

fn result(event: &Value, call: Option<&str>, full: bool) -> Marked {
    let is_error = event["is_error"] == true;
    let code = event["exit_code"].as_i64();
    let (mark, tone) = if is_error {
        ('✗', TextStyle::Red)
    } else {
        ('←', TextStyle::Dim)
    };
    let mut lines = tool::output(&event["output"], is_error, full);
    let exit = match code {
        Some(code) if code != 0 => format!("exit {code}"),
        _ if lines.is_empty() && is_error => "failed".to_owned(),
        _ if lines.is_empty() => "done".to_owned(),
        _ => String::new(),
    };
    let heading = call.map_or_else(Line::default, |call| Line::of(TextStyle::Bold, call));
    let heading = match (call.is_some(), exit.is_empty()) {
        (true, false) => heading.and(TextStyle::Plain, "  ").and(tone, &exit),
        (false, false) => heading.and(tone, &exit),
        (_, true) => heading,
    };
    if heading != Line::default() {
        if call.is_some() {
            lines = lines.into_iter().map(|line| line.indented(2)).collect();
        }
        lines.insert(0, heading);
    }
    ((tone, mark), lines)
}

fn usage(event: &Value) -> String {
    let usage = Usage::deserialize(&event["usage"]).unwrap_or_default();
    let mut text = format!("{} tokens so far {}", short(usage.total()), in_and_out(usage));
    if let Some(usd) = event["cost_usd"].as_f64() {
        text.push_str(&format!(", {}", cost(Some(usd))));
    }
    text
}

fn in_and_out(usage: Usage) -> String {
    format!(
        "({} in, {} out)",
        short(usage.input_tokens),
        short(usage.output_tokens)
    )
}

/// Returns the token count of a usage event.
pub fn tokens(event: &Value) -> Option<u64> {
    (event["kind"] == "token_usage").then(|| Usage::deserialize(&event["usage"]).unwrap_or_default().total())
}

fn error(event: &Value) -> Marked {
    let fatal = event["fatal"] == true;
    let tone = if fatal { TextStyle::Red } else { TextStyle::Yellow };
    let mut lines = block(tone, &text(&event["message"]));
    let mut notes: Vec<String> = Vec::new();
    notes.extend(event["failure_class"].as_str().map(str::to_owned));
    notes.extend(
        event["http_status"]
            .as_u64()
            .map(|status| format!("HTTP {status}")),
    );
    if !fatal {
        notes.push("not fatal".to_owned());
    }
    if !notes.is_empty() {
        lines.push(Line::of(TextStyle::Dim, &format!("({})", notes.join(", "))));
    }
    ((tone, '!'), lines)
}

/// Formats a requested output and its result.
fn output(event: &Value) -> Marked {
    let field = |name: &str| text(&event[name]);
    let status = field("status");
    let (tone, mark) = match &*status {
        "applied" => (TextStyle::Green, '✓'),
        "skipped" => (TextStyle::Dim, '·'),
        _ => (TextStyle::Red, '✗'),
    };
    let kind = field("output").replace('_', " ");
    let kind = if kind.is_empty() { "output" } else { &kind };
    let line = Line::of(tone, &format!("{kind} {status}"))
        .and(TextStyle::Plain, "  ")
        .and(TextStyle::Plain, &one_line(&field("summary"), MAX_TEXT_CHARS));
    let mut lines = vec![line];
    let reason = field("reason");
    if !reason.is_empty() {
        lines.extend(block(tone, &reason));
    }
    ((tone, mark), lines)
}

fn rate_limit(event: &Value, full: bool) -> Option<Marked> {
    let used = event["utilization"].as_f64();
    let status = text(&event["status"]);
    let is_normal = (status.is_empty() || status == "allowed") && used.is_none_or(|used| used < NEAR_LIMIT);
    if is_normal && !full {
        return None;
    }
    let mut line = format!("rate limit {status}");
    if let Some(used) = used {
        line.push_str(&format!(", {:.0} % used", used * 100.0));
    }
    if let Some(at) = event["resets_at_unix"].as_i64()
        && let Ok(at) = jiff::Timestamp::from_second(at)
    {
        line.push_str(&format!(", resets at {at}"));
    }
    let tone = if is_normal {
        TextStyle::Dim
    } else {
        TextStyle::Yellow
    };
    Some(((tone, '!'), vec![Line::of(tone, &line)]))
}

/// Formats the end of an agent's work. Success is shown only in full: the last message and the end
/// imply it.
fn completed(event: &Value, full: bool) -> Option<Marked> {
    let reason = one_line(&text(&event["reason"]), MAX_TEXT_CHARS);
    if event["ok"] == true {
        return full.then(|| {
            (
                (TextStyle::Dim, '·'),
                vec![Line::of(TextStyle::Dim, &format!("done {reason}"))],
            )
        });
    }
    Some((
        (TextStyle::Yellow, '!'),
        vec![Line::of(TextStyle::Yellow, &format!("not done {reason}"))],
    ))
}

fn ended(event: &Value) -> Marked {
    let Ok(ended) = Ended::deserialize(event) else {
        // An event of an older log: its known fields are shown.
        let line = format!("{} {}", text(&event["outcome"]), text(&event["failure_class"]));
        return (
            (TextStyle::Bold, '■'),
            vec![Line::of(TextStyle::Bold, line.trim_end())],
        );
    };
    let result = &ended.result;
    let tone = match result.outcome {
        Outcome::Succeeded => TextStyle::Green,
        Outcome::Cancelled => TextStyle::Yellow,
        _ => TextStyle::Red,
    };
    let mut outcome = result.outcome.to_string();
    if let Some(class) = result.failure_class {
        outcome.push_str(&format!(" ({class})"));
    }
    let mut details = format!(" in {}", Span(Duration::from_millis(ended.duration_ms)));
    match (result.exit_code, ended.signal) {
        (_, Some(signal)) => details.push_str(&format!(", signal {signal}")),
        (Some(code), None) if code != 0 => details.push_str(&format!(", exit {code}")),
        _ => {}
    }
    if result.usage.total() > 0 {
        let total = short(result.usage.total());
        details.push_str(&format!(" · {total} tokens {}", in_and_out(result.usage)));
    }
    if let Some(usd) = ended.cost_usd {
        details.push_str(&format!(" · {}", attempt_cost(Some(usd), ended.cost_source)));
    }
    let mut lines = vec![Line::of(tone, &outcome).and(TextStyle::Plain, &details)];
    if let Some(reason) = &result.reason {
        lines.extend(block(tone, reason));
    }
    ((tone, '■'), lines)
}
