//! Events for people: short, one per line, in colour if the terminal supports it.

use std::io::{IsTerminal, Result, Write};

use serde_json::Value;

use super::types::{DeltaKind, End, Event};
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
    answer: Answer,
}

/// What of an answer was shown as it arrived.
#[derive(Default)]
struct Answer {
    /// The part on the current line.
    open: Option<(DeltaKind, u64)>,
    /// White space at the end of what arrived: shown once more follows.
    held: String,
    /// The complete lines of thinking, and the characters of the last one, since the part started.
    lines: usize,
    column: usize,
    text: String,
    thinking: String,
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
            answer: Answer::default(),
        }
    }

    /// Returns the style for an output that is not a terminal.
    #[cfg(test)]
    pub(super) fn plain() -> Self {
        Self {
            color: false,
            width: WIDTH,
            answer: Answer::default(),
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

    pub(super) fn write(&mut self, out: &mut dyn Write, event: &Event<'_>) -> Result<()> {
        if let Event::Delta { kind, block, text } = *event {
            return self.delta(out, kind, block, &clean(text));
        }
        self.end_part(out)?;
        let shown = match event {
            Event::Message { text } => is_same_text(&std::mem::take(&mut self.answer.text), text),
            Event::Reasoning { text } => is_same_text(&std::mem::take(&mut self.answer.thinking), text),
            // The usage of an answer comes before its text.
            Event::Usage { .. } | Event::Activity { .. } => false,
            _ => {
                self.answer = Answer::default();
                false
            }
        };
        match event {
            Event::Message { .. } | Event::Reasoning { .. } if shown => Ok(()),
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
            Event::Skills { skills } => {
                let names: Vec<&str> = skills.iter().map(|skill| skill.name).collect();
                let line = shortened(&format!("skills: {}", names.join(", ")), self.width);
                writeln!(out, "{}", self.paint(DIM, &line))
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
            // The call was already shown, and an answer is shown as it arrives.
            Event::Usage { .. }
            | Event::Ask(_)
            | Event::Activity { .. }
            | Event::Delta { .. }
            | Event::MessageTaken { .. } => Ok(()),
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

    /// Writes a part of an answer that is arriving, in the form of the whole one.
    fn delta(&mut self, out: &mut dyn Write, kind: DeltaKind, block: u64, text: &str) -> Result<()> {
        let mut text = text;
        if self.answer.open != Some((kind, block)) {
            self.end_part(out)?;
            text = text.trim_start();
            if text.is_empty() {
                return Ok(());
            }
            out.write_all(if kind == DeltaKind::Thinking {
                b"\n  "
            } else {
                b"\n"
            })?;
            self.answer.open = Some((kind, block));
        }
        let mut piece = std::mem::take(&mut self.answer.held);
        piece.push_str(text);
        let shown = piece.trim_end().len();
        self.answer.held = piece.split_off(shown);
        match kind {
            DeltaKind::Text => {
                self.answer.text.push_str(&piece);
                out.write_all(piece.as_bytes())?;
            }
            DeltaKind::Thinking => {
                self.answer.thinking.push_str(&piece);
                let piece = self.visible_thought(&piece);
                out.write_all(self.paint(DIM, &piece).as_bytes())?;
            }
        }
        out.flush()
    }

    /// Returns what of a piece of thinking is shown: the first lines, indented, in the width.
    fn visible_thought(&mut self, piece: &str) -> String {
        let room = self.width.saturating_sub(2);
        let answer = &mut self.answer;
        let mut shown = String::new();
        for c in piece.chars() {
            if c == '\n' {
                answer.lines += 1;
                answer.column = 0;
                if answer.lines < THOUGHT_LINES {
                    shown.push_str("\n  ");
                }
                continue;
            }
            if answer.lines < THOUGHT_LINES && answer.column < room {
                shown.push(if answer.column + 1 == room { '…' } else { c });
            }
            answer.column += 1;
        }
        shown
    }

    /// Ends the line of a part that was arriving.
    fn end_part(&mut self, out: &mut dyn Write) -> Result<()> {
        let answer = &mut self.answer;
        let Some((kind, _)) = answer.open.take() else {
            return Ok(());
        };
        answer.held.clear();
        let lines = std::mem::take(&mut answer.lines) + 1;
        answer.column = 0;
        writeln!(out)?;
        match kind {
            DeltaKind::Thinking => self.more(out, lines.saturating_sub(THOUGHT_LINES)),
            DeltaKind::Text => Ok(()),
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
        self.more(out, text.lines().count().saturating_sub(most))
    }

    /// Writes the number of lines that are not shown.
    fn more(&self, out: &mut dyn Write, lines: usize) -> Result<()> {
        match lines {
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

/// Returns whether two texts differ only in white space.
fn is_same_text(one: &str, other: &str) -> bool {
    let of = |text: &str| {
        clean(text)
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
    };
    of(one) == of(other)
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
