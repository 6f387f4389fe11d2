//! Lays entries out as lines.

use jiff::tz::TimeZone;
use vik_core::plural::count;
use vik_text::transcript::{Entry as Content, Importance, Mark, ToolCall, ToolResult};
use vik_text::{Line, TextStyle};

use super::events::Item;
use crate::table::{CellText, Tone};
use crate::text::{fit, width};

/// The maximum number of lines of one text, unfolded.
const MAX_LINES: usize = 1_000;
/// The maximum number of lines of a note, folded.
const FOLDED_NOTE: usize = 20;
/// The maximum number of lines of a tool's input or output, unfolded.
const MAX_TOOL_LINES: usize = 200;
/// The number of lines of reasoning, folded.
const FOLDED_THOUGHT: usize = 2;
/// The number of final output lines of a failed tool, folded.
const FOLDED_FAILURE: usize = 3;
/// The minimum number of columns for a time in front of entries.
const TIME_MIN_COLUMNS: usize = 60;
const TIME_COLUMNS: usize = 9;
const MARK_COLUMNS: usize = 2;

/// The parameters of the layout.
pub(super) struct Page<'a> {
    pub(super) columns: usize,
    pub(super) unfolded: bool,
    pub(super) time_zone: &'a TimeZone,
}

struct Lines<'a> {
    out: &'a mut Vec<Vec<CellText>>,
    /// The time before the next line.
    time: String,
    /// The mark before the next line.
    mark: Mark,
    /// The columns for text.
    columns: usize,
}

impl Lines<'_> {
    fn push(&mut self, pieces: impl IntoIterator<Item = CellText>) {
        let blank = " ".repeat(self.time.len());
        let time = std::mem::replace(&mut self.time, blank);
        let (style, mark) = std::mem::replace(&mut self.mark, (TextStyle::Plain, ' '));
        let mut line = vec![
            CellText::new(time, Tone::Faint),
            CellText::new(format!("{mark} "), tone(style)),
        ];
        line.extend(pieces);
        self.out.push(line);
    }

    /// Adds lines, each after a prefix. Returns whether some were left out, which an ellipsis
    /// shows.
    fn add(&mut self, lines: impl IntoIterator<Item = Line>, prefix: &str, max_lines: usize) -> bool {
        let mut remaining = max_lines;
        for line in lines {
            let indent = line.indent;
            let columns = self.columns.saturating_sub(width(prefix) + indent).max(1);
            for row in line.folded(columns) {
                if remaining == 0 {
                    self.end_with_ellipsis();
                    return true;
                }
                remaining -= 1;
                let lead = format!("{prefix}{}", " ".repeat(indent));
                let lead = (!lead.is_empty()).then(|| CellText::new(lead, Tone::Faint));
                let pieces = row
                    .into_iter()
                    .map(|(style, text)| CellText::new(text, tone(style)));
                self.push(lead.into_iter().chain(pieces));
            }
        }
        false
    }

    fn end_with_ellipsis(&mut self) {
        if let Some(piece) = self.out.last_mut().and_then(|line| line.last_mut()) {
            piece.text.push_str(" …");
        }
    }
}

fn tone(style: TextStyle) -> Tone {
    match style {
        TextStyle::Plain => Tone::Plain,
        TextStyle::Dim => Tone::Faint,
        TextStyle::Bold => Tone::Strong,
        TextStyle::Red => Tone::Bad,
        TextStyle::Green => Tone::Good,
        TextStyle::Yellow => Tone::Warn,
        TextStyle::Cyan => Tone::Name,
    }
}

pub(super) fn layout_item(item: &Item, result: Option<&Item>, page: &Page<'_>, out: &mut Vec<Vec<CellText>>) {
    let time = if page.columns >= TIME_MIN_COLUMNS {
        time(item, page.time_zone)
    } else {
        String::new()
    };
    let mut lines = Lines {
        columns: page.columns.saturating_sub(time.len() + MARK_COLUMNS).max(1),
        time,
        mark: (TextStyle::Plain, ' '),
        out,
    };
    match &item.content {
        Content::Usage { .. } => {}
        Content::Message(text) => {
            lines.add(Line::block(TextStyle::Plain, text), "", MAX_LINES);
        }
        Content::Reasoning(text) => {
            lines.mark = (TextStyle::Dim, '~');
            let max_lines = if page.unfolded { MAX_LINES } else { FOLDED_THOUGHT };
            lines.add(Line::block(TextStyle::Dim, text.trim()), "", max_lines);
        }
        Content::Note(note) if note.importance < Importance::Normal && !page.unfolded => {}
        Content::Note(note) => {
            lines.mark = note.mark;
            let max_lines = if page.unfolded { MAX_LINES } else { FOLDED_NOTE };
            lines.add(note.lines.iter().cloned(), "", max_lines);
        }
        Content::Call(call) => {
            let result = result.and_then(|item| match &item.content {
                Content::Result(result) => Some(result),
                _ => None,
            });
            layout_call(call, result, page, &mut lines);
        }
        // The call is in an earlier page, or lost.
        Content::Result(result) => {
            let (text, tone) = call_end(Some(result));
            lines.mark = fold_mark(page);
            lines.push([
                CellText::new("result of an earlier call: ", Tone::Faint),
                CellText::new(text, tone),
            ]);
            layout_output(result, page, &mut lines);
        }
    }
}

fn time(item: &Item, time_zone: &TimeZone) -> String {
    item.at.map_or_else(
        || " ".repeat(TIME_COLUMNS),
        |at| at.to_zoned(time_zone.clone()).strftime("%T ").to_string(),
    )
}

fn fold_mark(page: &Page<'_>) -> Mark {
    (TextStyle::Cyan, if page.unfolded { '▾' } else { '▸' })
}

fn has_failed(result: &ToolResult) -> bool {
    result.is_error || result.exit_code.is_some_and(|code| code != 0)
}

/// Returns a short text about the end of a call.
fn call_end(result: Option<&ToolResult>) -> (String, Tone) {
    let Some(result) = result else {
        return ("running".to_owned(), Tone::Good);
    };
    let (mut text, tone) = match (has_failed(result), result.exit_code) {
        (true, Some(code)) => (format!("exit {code}"), Tone::Bad),
        (true, None) => ("failed".to_owned(), Tone::Bad),
        (false, _) => ("ok".to_owned(), Tone::Faint),
    };
    let lines = result.output().len();
    if lines > 0 {
        text.push_str(&format!(", {}", count(lines, "line")));
    }
    (text, tone)
}

fn layout_call(call: &ToolCall, result: Option<&ToolResult>, page: &Page<'_>, lines: &mut Lines<'_>) {
    let (end, end_tone) = call_end(result);
    // Name, summary and end share the line; the summary is shortened.
    let tool = fit(&call.tool, (lines.columns / 3).max(8));
    let taken = width(&tool) + 2 + 2 + width(&end);
    let room = lines.columns.saturating_sub(taken);
    let (text, hidden) = if call.summary.is_empty() {
        (&call.more, "")
    } else {
        (&call.summary, call.more.as_str())
    };
    let summary = fit(text, room);
    let is_cut = width(text) > room;
    lines.mark = fold_mark(page);
    let mut line = vec![CellText::new(tool, Tone::Name)];
    if !summary.is_empty() {
        line.push(CellText::plain("  "));
        line.push(CellText::plain(summary));
    }
    line.push(CellText::plain("  "));
    line.push(CellText::new(end, end_tone));
    lines.push(line);
    if page.unfolded {
        let whole = is_cut.then(|| Line::of(TextStyle::Plain, text));
        let more = (!hidden.is_empty()).then(|| Line::of(TextStyle::Dim, hidden));
        tool_text(whole.into_iter().chain(more).chain(call.body()), lines);
    }
    if let Some(result) = result {
        layout_output(result, page, lines);
    }
}

fn layout_output(result: &ToolResult, page: &Page<'_>, lines: &mut Lines<'_>) {
    if page.unfolded {
        tool_text(result.output(), lines);
    } else if has_failed(result) {
        let start = result.output().len().saturating_sub(FOLDED_FAILURE);
        for line in result.output().skip(start) {
            // Only the start of each line.
            let mut rows = line.folded(lines.columns.saturating_sub(3).max(1)).into_iter();
            let row = rows.next().unwrap_or_default();
            let pieces = row
                .into_iter()
                .map(|(style, text)| CellText::new(text, tone(style)));
            let dots = rows.next().map(|_| CellText::new("…", Tone::Faint));
            lines.push(
                std::iter::once(CellText::new("│ ", Tone::Faint))
                    .chain(pieces)
                    .chain(dots),
            );
        }
    }
}

fn tool_text(text: impl IntoIterator<Item = Line>, lines: &mut Lines<'_>) {
    if lines.add(text, "│ ", MAX_TOOL_LINES) {
        lines.push([CellText::new("… truncated, see the session log", Tone::Faint)]);
    }
}
