//! Formats events as lines.

use jiff::tz::TimeZone;

use super::events::{Call, CallResult, Item, ItemKind, Note};
use crate::table::{CellText, Tone};
use crate::text::{count, fit, width, wrap};

/// The maximum number of lines of one text, unfolded.
const MAX_LINES: usize = 1_000;
/// The maximum number of lines of a tool's input or output, unfolded.
const MAX_TOOL_LINES: usize = 200;
/// The number of lines of reasoning, folded.
const FOLDED_THOUGHT: usize = 2;
/// The number of final output lines of a failed tool, folded.
const FOLDED_FAILURE: usize = 3;
/// The minimum number of columns for a time in front of entries.
const TIME_MIN_COLUMNS: usize = 60;
const TIME_COLUMNS: usize = 9;

/// The parameters of the layout.
pub(super) struct Page<'a> {
    pub(super) columns: usize,
    pub(super) unfolded: bool,
    pub(super) time_zone: &'a TimeZone,
}

struct Lines<'a> {
    out: &'a mut Vec<Vec<CellText>>,
    /// The prefix of the next line.
    first_prefix: String,
    /// The prefix of the lines after it.
    next_prefix: String,
    columns: usize,
}

impl Lines<'_> {
    fn push(&mut self, pieces: Vec<CellText>) {
        let lead = std::mem::replace(&mut self.first_prefix, self.next_prefix.clone());
        let mut line = vec![CellText::new(lead, Tone::Faint)];
        line.extend(pieces);
        self.out.push(line);
    }

    fn text(&mut self, text: &str, tone: Tone, indent: &str, max_lines: usize) -> bool {
        let (lines, cut) = wrap(text, self.columns.saturating_sub(width(indent)), max_lines);
        for line in lines {
            self.push(vec![
                CellText::new(indent, Tone::Faint),
                CellText::new(line, tone),
            ]);
        }
        cut
    }
}

pub(super) fn layout_item(item: &Item, result: Option<&Item>, page: &Page<'_>, out: &mut Vec<Vec<CellText>>) {
    let room = if page.columns >= TIME_MIN_COLUMNS {
        TIME_COLUMNS
    } else {
        0
    };
    let mut lines = Lines {
        first_prefix: if room > 0 {
            time(item, page.time_zone)
        } else {
            String::new()
        },
        next_prefix: " ".repeat(room),
        columns: page.columns.saturating_sub(room).max(1),
        out,
    };
    match &item.kind {
        ItemKind::Hidden => {}
        ItemKind::Message(text) => {
            lines.text(text.trim_end(), Tone::Plain, "", MAX_LINES);
        }
        ItemKind::Reasoning(text) => {
            let max_lines = if page.unfolded { MAX_LINES } else { FOLDED_THOUGHT };
            lines.text(text.trim(), Tone::Faint, "~ ", max_lines);
        }
        ItemKind::Note(note) => layout_note(note, page, &mut lines),
        ItemKind::Call(call) => {
            let result = result.and_then(|item| match &item.kind {
                ItemKind::Result(result) => Some(result),
                _ => None,
            });
            layout_call(call, result, page, &mut lines);
        }
        // The call is in an earlier page, or lost.
        ItemKind::Result(result) => {
            let (text, tone) = call_end(Some(result));
            lines.push(vec![
                CellText::new(mark(page), Tone::Name),
                CellText::new("result of an earlier call: ", Tone::Faint),
                CellText::new(text, tone),
            ]);
            layout_output(result, page, &mut lines);
        }
    }
}

fn time(item: &Item, time_zone: &TimeZone) -> String {
    let at = item.at.to_zoned(time_zone.clone());
    format!("{:02}:{:02}:{:02} ", at.hour(), at.minute(), at.second())
}

fn mark(page: &Page<'_>) -> &'static str {
    if page.unfolded { "▾ " } else { "▸ " }
}

fn layout_note(note: &Note, page: &Page<'_>, lines: &mut Lines<'_>) {
    if note.detail && !page.unfolded {
        return;
    }
    let max_lines = if page.unfolded { MAX_LINES } else { 20 };
    let body = note.body.trim();
    let one = format!("{}: {body}", note.text);
    if !body.is_empty() && !body.contains('\n') && width(&one) <= lines.columns {
        lines.text(&one, note.tone, "", max_lines);
        return;
    }
    lines.text(&note.text, note.tone, "", max_lines);
    lines.text(body, Tone::Plain, "  ", max_lines);
}

/// Returns a short text about the end of a call.
fn call_end(result: Option<&CallResult>) -> (String, Tone) {
    let Some(result) = result else {
        return ("running".to_owned(), Tone::Good);
    };
    let failed = result.is_error || result.exit_code.is_some_and(|code| code != 0);
    let tone = if failed { Tone::Bad } else { Tone::Faint };
    let mut text = match (failed, result.exit_code) {
        (true, Some(code)) => format!("exit {code}"),
        (true, None) => "failed".to_owned(),
        (false, _) => "ok".to_owned(),
    };
    let lines = result.output.trim_end().lines().count();
    if lines > 0 {
        text.push_str(&format!(", {}", count(lines, "line")));
    }
    (text, tone)
}

fn layout_call(call: &Call, result: Option<&CallResult>, page: &Page<'_>, lines: &mut Lines<'_>) {
    let (end, tone) = call_end(result);
    // Name, summary and end share the line; the summary is shortened.
    let tool = fit(&call.tool, (lines.columns / 3).max(8));
    let taken = 2 + width(&tool) + 2 + 2 + width(&end);
    let summary = fit(&call.summary, lines.columns.saturating_sub(taken));
    let mut line = vec![
        CellText::new(mark(page), Tone::Name),
        CellText::new(tool, Tone::Name),
    ];
    if !summary.is_empty() {
        line.push(CellText::plain("  "));
        line.push(CellText::plain(summary));
    }
    line.push(CellText::plain("  "));
    line.push(CellText::new(end, tone));
    lines.push(line);
    if page.unfolded {
        let input = call.input.trim_end();
        // The line above has it already.
        if input.contains('\n') || width(input) > lines.columns / 2 {
            tool_text(input, Tone::Plain, lines);
        }
    }
    if let Some(result) = result {
        layout_output(result, page, lines);
    }
}

fn layout_output(result: &CallResult, page: &Page<'_>, lines: &mut Lines<'_>) {
    let output = result.output.trim_end();
    if page.unfolded {
        tool_text(output, Tone::Faint, lines);
    } else if result.is_error || result.exit_code.is_some_and(|code| code != 0) {
        let all: Vec<&str> = output.lines().collect();
        for line in &all[all.len().saturating_sub(FOLDED_FAILURE)..] {
            let line = fit(line, lines.columns.saturating_sub(4));
            lines.push(vec![
                CellText::new("  │ ", Tone::Faint),
                CellText::new(line, Tone::Faint),
            ]);
        }
    }
}

fn tool_text(text: &str, tone: Tone, lines: &mut Lines<'_>) {
    if text.is_empty() {
        return;
    }
    if lines.text(text, tone, "  │ ", MAX_TOOL_LINES) {
        let note = "  … truncated, see the session log";
        lines.push(vec![CellText::new(note, Tone::Faint)]);
    }
}
