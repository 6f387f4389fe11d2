//! All that a run tells the world: events as JSONL or as text for a person, and always one `end`.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::conversation::{Arguments, ToolCall, ToolResult, Usage};

/// How a run ended; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// 0: the agent says it is done, and did or said something.
    Done,
    /// 1: it failed.
    Failed,
    /// 2: the command line is wrong.
    Usage,
    /// 3: the settings are wrong.
    Config,
    /// 4: login or model refused.
    Refused,
    /// 5: a limit (`--max-turns`) was reached.
    Limit,
    /// 6: it stopped without having done or said anything.
    NoProgress,
    /// 7: the permission refused what it needed.
    Denied,
    /// 130: a signal ended it.
    Interrupted,
}

impl ExitReason {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::Refused => 4,
            Self::Limit => 5,
            Self::NoProgress => 6,
            Self::Denied => 7,
            Self::Interrupted => 130,
        }
    }

    /// The name in the `end` event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Config => "config",
            Self::Refused => "refused",
            Self::Limit => "limit",
            Self::NoProgress => "no_progress",
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What the run really did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Evidence {
    /// Paths below the workspace: written by tools, or part of a commit.
    pub files_changed: Vec<String>,
    /// Commits made during the run, oldest first.
    pub commits: Vec<Commit>,
    /// Commands that were run.
    pub commands: Vec<CommandRun>,
}

/// A commit made during the run.
#[derive(Clone, Debug, Serialize)]
pub struct Commit {
    /// Its id.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

/// A command that was run.
#[derive(Clone, Debug, Serialize)]
pub struct CommandRun {
    /// The shell command.
    pub command: String,
    /// Its exit code; absent where it was stopped.
    pub exit_code: Option<i32>,
}

/// How the run is set up, for `session_start`.
#[derive(Clone, Debug, Serialize)]
pub struct SessionStart<'a> {
    /// A fresh id.
    pub session_id: &'a str,
    /// The model.
    pub model: &'a str,
    /// The version of vex.
    pub version: &'a str,
    /// The provider.
    pub provider: &'a str,
    /// The workspace.
    pub cwd: &'a str,
    /// The permission in force.
    pub permission: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event<'a> {
    SessionStart(&'a SessionStart<'a>),
    Message {
        text: &'a str,
    },
    Reasoning {
        text: &'a str,
    },
    ToolCall {
        call_id: &'a str,
        tool: &'a str,
        input: Input<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        repaired: bool,
    },
    ToolResult {
        call_id: &'a str,
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        output: &'a str,
    },
    Usage {
        #[serde(flatten)]
        usage: Usage,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    Error {
        message: &'a str,
        fatal: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<&'a str>,
    },
    End {
        ok: bool,
        reason: &'a str,
        message: Option<&'a str>,
        exit_code: u8,
        usage: Usage,
        cost_usd: Option<f64>,
        evidence: &'a Evidence,
    },
}

/// The arguments as they came.
#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Json(&'a Value),
    Broken(&'a str),
}

#[derive(Serialize)]
struct Envelope<'a> {
    v: u32,
    seq: u64,
    #[serde(flatten)]
    event: Event<'a>,
}

/// The place where events go. Clones write to the same place.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<Inner>>);

struct Inner {
    json: bool,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    bold: bool,
    repeat_last: bool,
    seq: u64,
    usage: Usage,
    cost_usd: Option<f64>,
    last_message: Option<String>,
    evidence: Evidence,
    ended: Option<ExitReason>,
    closed: bool,
}

impl Journal {
    /// Events as JSON lines on stdout, or as text: progress on stderr, the final message on stdout.
    pub fn stdio(json: bool) -> Self {
        let bold =
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let journal = Self::new(
            json,
            bold,
            Box::new(std::io::stdout()),
            Box::new(std::io::stderr()),
        );
        // On one terminal the last message would stand there twice.
        journal.inner().repeat_last = !(std::io::stdout().is_terminal() && std::io::stderr().is_terminal());
        journal
    }

    /// As [`Journal::stdio`], into other places.
    pub fn new(json: bool, bold: bool, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            json,
            out,
            err,
            bold,
            repeat_last: true,
            seq: 0,
            usage: Usage::default(),
            cost_usd: None,
            last_message: None,
            evidence: Evidence::default(),
            ended: None,
            closed: false,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody reads the events any more.
    pub fn is_closed(&self) -> bool {
        self.inner().closed
    }

    /// The run begins.
    pub fn session_start(&self, start: &SessionStart<'_>) {
        let mut inner = self.inner();
        let head = format!(
            "vex {} · {} · {} · {}",
            start.version, start.model, start.permission, start.cwd
        );
        inner.emit(Event::SessionStart(start), |out, bold| heading(out, bold, &head));
    }

    /// The model said something.
    pub fn message(&self, text: &str) {
        let mut inner = self.inner();
        inner.last_message = Some(text.to_owned());
        inner.emit(Event::Message { text }, |out, _| {
            writeln!(out, "\n{}", clean(text))
        });
    }

    /// The model thought something.
    pub fn reasoning(&self, text: &str) {
        self.inner().emit(Event::Reasoning { text }, |out, _| {
            writeln!(out, "\n  {}", indent(&clean(text)))
        });
    }

    /// A tool is about to run.
    pub fn tool_call(&self, call: &ToolCall) {
        let event = Event::ToolCall {
            call_id: &call.call_id,
            tool: &call.tool,
            input: match &call.input {
                Arguments::Json(input) => Input::Json(input),
                Arguments::Broken { raw, .. } => Input::Broken(raw),
            },
            repaired: call.repaired,
        };
        let shown = call.input.json().map(brief).unwrap_or_default();
        let line = format!("{} {shown}", call.tool);
        self.inner().emit(event, |out, bold| {
            writeln!(out)?;
            heading(out, bold, &clean(&line))
        });
    }

    /// A tool gave something back.
    pub fn tool_result(&self, result: &ToolResult) {
        let event = Event::ToolResult {
            call_id: &result.call_id,
            is_error: result.is_error,
            exit_code: result.exit_code,
            output: &result.output,
        };
        self.inner().emit(event, |out, _| {
            let shown = clean(result.output.trim_end());
            let lines: Vec<&str> = shown.lines().collect();
            for line in lines.iter().take(8) {
                writeln!(out, "  {line}")?;
            }
            if lines.len() > 8 {
                writeln!(out, "  … {} more lines", lines.len() - 8)?;
            }
            match result.exit_code {
                Some(0) => Ok(()),
                Some(code) => writeln!(out, "  exit code {code}"),
                None => Ok(()),
            }
        });
    }

    /// A turn's tokens and cost; the event tells the totals.
    pub fn add_usage(&self, usage: Usage, cost_usd: Option<f64>) {
        let mut inner = self.inner();
        inner.usage.add(usage);
        if let Some(cost) = cost_usd {
            inner.cost_usd = Some(inner.cost_usd.unwrap_or(0.0) + cost);
        }
        let event = Event::Usage {
            usage: inner.usage,
            cost_usd: inner.cost_usd,
        };
        inner.emit(event, |_, _| Ok(()));
    }

    /// Something went wrong.
    pub fn error(&self, message: &str, fatal: bool, class: Option<&str>) {
        let event = Event::Error {
            message,
            fatal,
            class,
        };
        self.inner()
            .emit(event, |out, _| writeln!(out, "\nerror: {}", clean(message)));
    }

    /// Changes what is known of the deeds of the run.
    pub fn evidence(&self, change: impl FnOnce(&mut Evidence)) {
        change(&mut self.inner().evidence);
    }

    /// The run ends; only the first call counts. `message` is the reason where it failed, else the last message.
    pub fn end(&self, reason: ExitReason, message: Option<&str>) -> ExitReason {
        self.inner().end(reason, message)
    }

    /// As [`Journal::end`], but gives up rather than wait for a writer that hangs.
    pub fn try_end(&self, reason: ExitReason, message: Option<&str>) {
        if let Ok(mut inner) = self.0.try_lock() {
            inner.end(reason, message);
        }
    }
}

impl Inner {
    fn emit(&mut self, event: Event<'_>, text: impl FnOnce(&mut dyn Write, bool) -> std::io::Result<()>) {
        if self.ended.is_some() {
            return;
        }
        self.seq += 1;
        let written = if self.json {
            let line = serde_json::to_vec(&Envelope {
                v: 1,
                seq: self.seq,
                event,
            });
            line.map_err(std::io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                self.out.write_all(&line).and_then(|()| self.out.flush())
            })
        } else {
            text(&mut *self.err, self.bold)
        };
        self.closed |= written.is_err();
    }

    fn end(&mut self, reason: ExitReason, message: Option<&str>) -> ExitReason {
        if let Some(earlier) = self.ended {
            return earlier;
        }
        let evidence = std::mem::take(&mut self.evidence);
        let last = self.last_message.take();
        let usage = self.usage;
        let event = Event::End {
            ok: reason == ExitReason::Done,
            reason: reason.as_str(),
            message: message.or(last.as_deref()),
            exit_code: reason.code(),
            usage,
            cost_usd: self.cost_usd,
            evidence: &evidence,
        };
        let summary = format!(
            "{}: {} files changed, {} commits, {} commands, {} tokens in, {} out",
            reason.as_str(),
            evidence.files_changed.len(),
            evidence.commits.len(),
            evidence.commands.len(),
            usage.input_tokens,
            usage.output_tokens
        );
        self.emit(event, |out, bold| {
            writeln!(out)?;
            heading(out, bold, &summary)
        });
        if let (false, true, ExitReason::Done, Some(text)) = (self.json, self.repeat_last, reason, &last) {
            let _ = writeln!(self.out, "{}", clean(text)).and_then(|()| self.out.flush());
        }
        self.ended = Some(reason);
        reason
    }
}

fn heading(out: &mut dyn Write, bold: bool, text: &str) -> std::io::Result<()> {
    if bold {
        writeln!(out, "\x1b[1m{text}\x1b[0m")
    } else {
        writeln!(out, "{text}")
    }
}

/// Takes out what a terminal would obey: text from models, files and commands is only ever shown.
fn clean(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || c == '\t' || !c.is_control())
        .collect()
}

fn indent(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// The arguments of a call in one short line.
fn brief(input: &Value) -> String {
    let first = ["command", "path"]
        .iter()
        .find_map(|key| input.get(key).and_then(Value::as_str));
    let line: String = match first {
        Some(text) => text.to_owned(),
        None => input.to_string(),
    };
    let line = line.replace('\n', " ");
    match line.char_indices().nth(100) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}
