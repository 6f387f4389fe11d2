//! Events for people: short, one per line, in colour if the terminal supports it.

use std::io::{IsTerminal, Result, Write};

use serde_json::Value;

use super::types::{End, Event};
use crate::plan::StepStatus;

/// The maximum number of lines shown of a tool's output.
const SHOWN_LINES: usize = 8;
/// The maximum number of lines shown of thinking.
const THOUGHT_LINES: usize = 6;
/// The width without a terminal.
const WIDTH: usize = 120;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// The style of the text.
pub(super) struct Text {
    color: bool,
    width: usize,
}

impl Text {
    /// Returns the style for this process's stderr.
    pub(super) fn of_stderr() -> Self {
        let stderr = std::io::stderr();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let width = terminal_size::terminal_size_of(&stderr).map(|(width, _)| usize::from(width.0));
        Self {
            color: stderr.is_terminal() && !no_color,
            width: width.unwrap_or(WIDTH).clamp(40, 200),
        }
    }

    /// Returns the style for an output that is not a terminal.
    #[cfg(test)]
    pub(super) fn plain() -> Self {
        Self {
            color: false,
            width: WIDTH,
        }
    }

    fn paint(&self, color: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{color}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Shortens a text to one line of the width.
    fn fit(&self, line: &str, indent: usize) -> String {
        shortened(line, self.width.saturating_sub(indent))
    }

    pub(super) fn write(&self, out: &mut dyn Write, event: &Event<'_>) -> Result<()> {
        match event {
            Event::SessionStart(start) => {
                let head = format!(
                    "vex {} · {} · {} · {}",
                    start.version, start.model, start.permission, start.cwd
                );
                writeln!(out, "{}", self.paint(BOLD, &clean(&head)))?;
                match start.sandbox.filter(|sandbox| sandbox.starts_with("none")) {
                    Some(sandbox) => writeln!(
                        out,
                        "{}",
                        self.paint(DIM, &format!("sandbox: {}", clean(sandbox)))
                    ),
                    None => Ok(()),
                }
            }
            Event::Message { text } => writeln!(out, "\n{}", clean(text).trim_end()),
            Event::Reasoning { text } => {
                writeln!(out)?;
                self.lines(out, &clean(text), THOUGHT_LINES, |line| self.paint(DIM, line))
            }
            Event::ToolCall {
                tool,
                input,
                repaired,
                ..
            } => {
                let mended = if *repaired { " (repaired)" } else { "" };
                let subject = self.fit(&brief(input), tool.len() + mended.len() + 3);
                writeln!(
                    out,
                    "\n→ {} {subject}{}",
                    self.paint(BOLD, &clean(tool)),
                    self.paint(DIM, mended)
                )
            }
            Event::ToolResult {
                is_error,
                exit_code,
                denied,
                output,
                ..
            } => {
                let output = clean(output.trim_end());
                self.lines(out, &output, SHOWN_LINES, |line| {
                    self.result_line(line, *is_error && exit_code.is_none())
                })?;
                match exit_code {
                    Some(code) if *code != 0 => {
                        writeln!(out, "  {}", self.paint(RED, &format!("exit code {code}")))
                    }
                    _ if *denied => writeln!(out, "  {}", self.paint(RED, "denied")),
                    _ => Ok(()),
                }
            }
            // The call was already shown, and an answer is shown when it is complete.
            Event::Usage { .. } | Event::Ask(_) | Event::Activity { .. } | Event::MessageTaken { .. } => {
                Ok(())
            }
            Event::Plan { steps } => {
                writeln!(out, "\n{}", self.paint(BOLD, "plan"))?;
                for step in *steps {
                    let (mark, color) = match step.status {
                        StepStatus::Pending => (' ', DIM),
                        StepStatus::InProgress => ('>', BOLD),
                        StepStatus::Done => ('x', GREEN),
                    };
                    let line = self.fit(&format!("[{mark}] {}", clean(&step.text)), 2);
                    writeln!(out, "  {}", self.paint(color, &line))?;
                }
                Ok(())
            }
            Event::Retry {
                attempt,
                delay_ms,
                reason,
            } => {
                let line = format!("try {attempt} in {}: {}", seconds(*delay_ms), clean(reason));
                self.note(out, YELLOW, &line)
            }
            Event::Fallback { model } => self.note(
                out,
                YELLOW,
                &format!("switched to the fallback model {}", clean(model)),
            ),
            Event::Compaction(compacted) => {
                let line = format!(
                    "context shortened: about {} tokens before, {} after",
                    compacted.before_tokens, compacted.after_tokens
                );
                self.note(out, DIM, &line)
            }
            Event::Verify { run, output } => {
                let command = clean(&run.command);
                if run.ok {
                    return self.note(out, GREEN, &format!("check passed: {command}"));
                }
                self.note(out, RED, &format!("check failed: {command}"))?;
                let output = clean(output.trim_end());
                let last: Vec<&str> = output.lines().rev().take(SHOWN_LINES).collect();
                for line in last.into_iter().rev() {
                    writeln!(out, "  {}", self.paint(DIM, &self.fit(line, 2)))?;
                }
                Ok(())
            }
            Event::Guard { kind, message } => {
                let first = message.lines().next().unwrap_or_default();
                self.note(out, YELLOW, &format!("guard ({kind}): {}", clean(first)))
            }
            Event::Warning { message } => self.note(out, YELLOW, &format!("warning: {}", clean(message))),
            Event::Error { message, .. } => self.note(out, RED, &format!("error: {}", clean(message))),
            Event::End(end) => {
                let color = if end.ok { GREEN } else { RED };
                writeln!(out, "\n{}", self.paint(color, &summary(end)))
            }
        }
    }

    fn note(&self, out: &mut dyn Write, color: &str, line: &str) -> Result<()> {
        writeln!(out, "\n{}", self.paint(color, line))
    }

    /// Writes the first lines of a text, indented, and the number of the others.
    fn lines(
        &self,
        out: &mut dyn Write,
        text: &str,
        most: usize,
        paint: impl Fn(&str) -> String,
    ) -> Result<()> {
        for line in text.lines().take(most) {
            writeln!(out, "  {}", paint(&self.fit(line, 2)))?;
        }
        match text.lines().count().saturating_sub(most) {
            0 => Ok(()),
            1 => writeln!(out, "  {}", self.paint(DIM, "… 1 more line")),
            more => writeln!(out, "  {}", self.paint(DIM, &format!("… {more} more lines"))),
        }
    }

    /// Returns a line of a result; added and removed lines are coloured.
    fn result_line(&self, line: &str, is_error: bool) -> String {
        let color = match line.as_bytes().first() {
            _ if is_error => RED,
            Some(b'+') => GREEN,
            Some(b'-') => RED,
            _ => DIM,
        };
        self.paint(color, line)
    }
}

/// Returns the end in one line.
fn summary(end: &End<'_>) -> String {
    let evidence = end.evidence;
    let counted =
        |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let mut line = format!(
        "{} in {}: {}, {}, {}, {} tokens in",
        end.reason.as_str().replace('_', " "),
        seconds(end.duration_ms),
        counted(evidence.files_changed.len(), "file changed", "files changed"),
        counted(evidence.commits.len(), "commit", "commits"),
        counted(evidence.commands.len(), "command", "commands"),
        end.usage.input_tokens,
    );
    if end.usage.cached_input_tokens > 0 {
        line += &format!(" ({} cached)", end.usage.cached_input_tokens);
    }
    line += &format!(", {} out", end.usage.output_tokens);
    if let Some(cost) = end.cost_usd {
        line += &format!(", ${cost:.4}");
    }
    line
}

fn seconds(milliseconds: u64) -> String {
    match milliseconds {
        0..10_000 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        10_000..120_000 => format!("{} s", milliseconds / 1000),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds / 1000 % 60),
    }
}

/// Removes control sequences of terminals: text from models, files and commands is only displayed.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || c == '\t' || !c.is_control())
        .collect()
}

/// Shortens a line to `width` characters.
fn shortened(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        Some(_) => {
            let cut = line
                .char_indices()
                .nth(width.saturating_sub(1))
                .map_or(0, |(at, _)| at);
            format!("{}…", &line[..cut])
        }
        None => line.to_owned(),
    }
}

/// Returns the arguments of a call in one line: the most informative one, else all.
fn brief(input: &Value) -> String {
    let main_keys = ["command", "path", "pattern", "query", "url"];
    let first = main_keys
        .iter()
        .find_map(|key| input.get(key).and_then(Value::as_str));
    let line = match (first, input) {
        (Some(text), _) => text.to_owned(),
        (None, Value::Object(fields)) if fields.is_empty() => String::new(),
        (None, Value::String(text)) => text.clone(),
        (None, other) => other.to_string(),
    };
    clean(&line).replace('\n', " ")
}
