//! `vik logs`: session logs as a transcript, as JSON lines, or as the agent printed them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;
use vik_core::duration::Span;
use vik_core::limits::LimitHit;
use vik_store::PastAttempt;

use super::args::LogsArgs;
use super::{Done, history};
use crate::report::{Exit, Failure, clean, one_line};

/// How often new events are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How many characters of a tool's input or output a transcript shows.
const SHOWN: usize = 160;

/// Prints logs, and with `--follow` goes on until it is interrupted or its sessions have ended.
pub fn run(workflow: &Path, args: &LogsArgs) -> Done {
    let root = history::root(workflow)?;
    let mut open: HashMap<PathBuf, Tail> = HashMap::new();
    let selected = |attempt: &PastAttempt| {
        args.issue
            .as_ref()
            .is_none_or(|issue| attempt.record.issue_id.as_str() == issue)
            && args.session.as_ref().is_none_or(|session| {
                attempt
                    .record
                    .session_id
                    .to_string()
                    .starts_with(session.as_str())
            })
    };
    let narrowed = args.issue.is_some() || args.session.is_some();
    let mut first = true;
    loop {
        let mut attempts = history::read(&root)?.attempts;
        attempts.retain(selected);
        if first && attempts.is_empty() && (narrowed || !args.follow) {
            return Err(
                Failure::new(Exit::NotFound, "no_session", "no session is known that fits")
                    .hint("`vik runs` lists all"),
            );
        }
        // Without a wish, the newest session; when following, all that come and those that run.
        if !narrowed && first {
            let newest = attempts.len().saturating_sub(1);
            let keep =
                |at: usize, attempt: &PastAttempt| at == newest || (args.follow && attempt.ended.is_none());
            for (at, attempt) in attempts.iter().enumerate() {
                if !keep(at, attempt) {
                    open.insert(path(attempt, args), Tail::done());
                }
            }
        }
        let mut all_ended = true;
        for attempt in &attempts {
            all_ended &= attempt.ended.is_some();
            let path = path(attempt, args);
            let tail = open.entry(path.clone()).or_insert_with(|| Tail::new(attempt));
            match tail.print(&path, args) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
                Err(error) => {
                    return Err(Failure::failed(
                        "logs",
                        format!("cannot read {}", path.display()),
                        &error,
                    ));
                }
            }
        }
        first = false;
        if !args.follow || (narrowed && all_ended) {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn path(attempt: &PastAttempt, args: &LogsArgs) -> PathBuf {
    if args.raw {
        attempt.files.raw()
    } else {
        attempt.files.log()
    }
}

/// One log that is printed.
#[derive(Debug)]
struct Tail {
    title: Option<String>,
    offset: u64,
    partial: Vec<u8>,
    done: bool,
}

impl Tail {
    fn new(attempt: &PastAttempt) -> Self {
        let record = &attempt.record;
        let title = format!(
            "── {} {} · attempt {} · {} · {:.0}",
            one_line(record.issue_id.as_str(), 40),
            record.stage,
            record.attempt,
            record.agent,
            record.started_at
        );
        Self {
            title: Some(title),
            offset: 0,
            partial: Vec::new(),
            done: false,
        }
    }

    fn done() -> Self {
        Self {
            title: None,
            offset: 0,
            partial: Vec::new(),
            done: true,
        }
    }

    fn print(&mut self, path: &Path, args: &LogsArgs) -> io::Result<()> {
        if self.done {
            return Ok(());
        }
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        io::Seek::seek(&mut file, io::SeekFrom::Start(self.offset))?;
        let mut out = io::stdout().lock();
        let mut slice = vec![0; 64 * 1024];
        loop {
            let count = file.read(&mut slice)?;
            if count == 0 {
                break;
            }
            self.offset += count as u64;
            if args.raw {
                out.write_all(&slice[..count])?;
                continue;
            }
            self.partial.extend_from_slice(&slice[..count]);
            let whole = memchr::memrchr(b'\n', &self.partial).map_or(0, |end| end + 1);
            let lines: Vec<u8> = self.partial.drain(..whole).collect();
            if args.json {
                out.write_all(&lines)?;
                continue;
            }
            for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                if let Some(title) = self.title.take() {
                    writeln!(out, "{title}")?;
                }
                writeln!(out, "{}", transcript(line))?;
            }
        }
        out.flush()
    }
}

/// One event as a person reads it.
fn transcript(line: &[u8]) -> String {
    let Ok(event) = serde_json::from_slice::<Value>(line) else {
        return format!("? {}", one_line(&String::from_utf8_lossy(line), SHOWN));
    };
    let text = |key: &str| match &event[key] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let time = text("at").get(11..19).unwrap_or("").to_owned();
    let block = |text: &str| clean(text.trim_end()).replace('\n', "\n           ");
    let body = match event["kind"].as_str().unwrap_or("") {
        "session_started" => {
            let parts = [text("model"), text("agent_version"), text("provider_session_id")];
            format!(
                "session {}",
                parts
                    .into_iter()
                    .filter(|p| !p.is_empty())
                    .collect::<Vec<_>>()
                    .join(" · ")
            )
        }
        "message" => block(&text("text")),
        "reasoning" => format!("~ {}", block(&text("text"))),
        "tool_call" => format!("→ {} {}", text("tool"), one_line(&text("input"), SHOWN)),
        "tool_result" => {
            let mark = if event["is_error"] == true { "✗" } else { "←" };
            let code = event["exit_code"]
                .as_i64()
                .map(|code| format!(" exit {code}:"))
                .unwrap_or_default();
            format!("{mark}{code} {}", one_line(&text("output"), SHOWN))
        }
        "token_usage" => format!(
            "  {} in, {} out",
            event["usage"]["input_tokens"], event["usage"]["output_tokens"]
        ),
        "error" => format!("! {}", block(&text("message"))),
        "resumed" => format!("goes on with session {}", text("provider_session_id")),
        "resume_failed" => format!(
            "! the earlier session is not gone on with: {}",
            block(&text("reason"))
        ),
        "limit" => {
            let hit = LimitHit::deserialize(&event).map_or_else(|_| String::new(), |hit| hit.to_string());
            format!("! {hit} ({} %)", event["percent"])
        }
        "completed" => format!(
            "{} {}",
            if event["ok"] == true { "done" } else { "not done" },
            one_line(&text("reason"), SHOWN)
        ),
        "ended" => {
            let class = if event["failure_class"].is_string() {
                format!(" ({})", text("failure_class"))
            } else {
                String::new()
            };
            let took = Span(Duration::from_millis(event["duration_ms"].as_u64().unwrap_or(0)));
            let reason = match text("reason") {
                reason if reason.is_empty() => String::new(),
                reason => format!("\n           {}", block(&reason)),
            };
            format!("■ {}{class} in {took}{reason}", text("outcome"))
        }
        "malformed" => format!("? {}", one_line(&text("line"), SHOWN)),
        kind => format!("· {kind} {}", one_line(&event.to_string(), SHOWN)),
    };
    format!("{time:>8}   {body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_text_whatever_the_agent_says() {
        let line = |json: &str| transcript(json.as_bytes());
        assert_eq!(
            line(r#"{"seq":1,"at":"2026-01-02T03:04:05.000Z","kind":"message","text":"a\u001b[2Jb\nc"}"#),
            "03:04:05   a\\u{1b}[2Jb\n           c"
        );
        assert_eq!(
            line(
                r#"{"at":"2026-01-02T03:04:05.000Z","kind":"tool_call","tool":"Bash","input":{"command":"ls"}}"#
            ),
            "03:04:05   → Bash {\"command\":\"ls\"}"
        );
        assert_eq!(
            line(
                r#"{"at":"2026-01-02T03:04:05.000Z","kind":"ended","outcome":"failed","failure_class":"auth","duration_ms":1500,"reason":"no key"}"#
            ),
            "03:04:05   ■ failed (auth) in 1.5s\n           no key"
        );
    }
}
