//! Renders diagnostics in the style of rustc: the position, the line, a mark under it, and a hint.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;
use vik_core::plural::count;
use vik_yaml::{Diagnostic, Severity};

use super::text;

/// The maximum width of a displayed line, in terminal columns.
const MAX_WIDTH: usize = 100;
/// The part of a long line that is displayed before the position.
const BEFORE: usize = 40;
/// The replacement of a tab, whose width would depend on the terminal.
const TAB: &str = "    ";

struct Paint {
    color: bool,
}

impl Paint {
    fn wrap(&self, style: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn frame(&self, text: &str) -> String {
        self.wrap("1;34", text)
    }
}

/// Renders the diagnostics of the file `file_name` with the text `text`; the last line counts them.
///
/// Text from the file is escaped, so that it cannot control the terminal.
pub fn render(diagnostics: &[Diagnostic], file_name: &str, text: &str, color: bool) -> String {
    let paint = Paint { color };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text::lines(text).collect();
    let mut out = String::new();
    for diagnostic in diagnostics {
        one(&mut out, diagnostic, file_name, &lines, &paint);
        out.push('\n');
    }
    if !diagnostics.is_empty() {
        let _ = writeln!(out, "{}", summary(diagnostics, file_name));
    }
    out
}

/// `workflow.yml: 2 errors, 1 warning`
pub fn summary(diagnostics: &[Diagnostic], file_name: &str) -> String {
    let errors = diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .count();
    let warnings = diagnostics.len() - errors;
    let counts = [(errors, "error"), (warnings, "warning")].into_iter();
    let counts: Vec<String> = counts
        .filter(|(number, _)| *number > 0)
        .map(|(number, noun)| count(number as u64, noun))
        .collect();
    let counts = if counts.is_empty() {
        "no errors".to_owned()
    } else {
        counts.join(", ")
    };
    format!("{}: {counts}", escaped(file_name))
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    text.chars().for_each(|c| text::push_escaped(&mut out, c));
    out
}

fn one(out: &mut String, diagnostic: &Diagnostic, file_name: &str, lines: &[&str], paint: &Paint) {
    let file_name = escaped(file_name);
    let (severity, style) = match diagnostic.severity {
        Severity::Error => ("error", "1;31"),
        Severity::Warning => ("warning", "1;33"),
    };
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "{}{}",
        paint.wrap(style, &format!("{severity}[{}]", diagnostic.code)),
        paint.bold(&format!(": {}", escaped(&diagnostic.message))),
    );
    let last_line = diagnostic
        .related
        .iter()
        .map(|spot| spot.line)
        .chain([diagnostic.line])
        .max()
        .unwrap_or(1);
    let gutter = last_line.to_string().len();
    let within = if diagnostic.path.is_empty() {
        String::new()
    } else {
        format!(" ({})", escaped(&diagnostic.path))
    };
    let _ = writeln!(
        out,
        "{:gutter$}{} {file_name}:{}:{}{within}",
        "",
        paint.frame("-->"),
        diagnostic.line,
        diagnostic.column
    );
    let bar = paint.frame("|");
    let (line, column) = (diagnostic.line, diagnostic.column);
    let mut marks = vec![(line, column, diagnostic.end_column, '^', style, String::new())];
    marks.extend(diagnostic.related.iter().map(|spot| {
        let label = format!(" {}", spot.message);
        (spot.line, spot.column, spot.column + 1, '-', "1;34", label)
    }));
    marks.sort_by_key(|(line, ..)| *line);
    for (line, column, end_column, mark, style, label) in marks {
        let Some(source) = (line as usize).checked_sub(1).and_then(|index| lines.get(index)) else {
            continue;
        };
        let (shown, offset, width) = cut(source, column, end_column);
        let number = paint.frame(&format!("{line:>gutter$}"));
        let marks = paint.wrap(style, &format!("{}{label}", mark.to_string().repeat(width)));
        let _ = writeln!(out, "{number} {bar} {shown}");
        let _ = writeln!(out, "{:gutter$} {bar} {:offset$}{marks}", "", "");
    }
    if let Some(hint) = &diagnostic.hint {
        let _ = writeln!(
            out,
            "{:gutter$} {} {}: {}",
            "",
            paint.frame("="),
            paint.bold("help"),
            escaped(hint)
        );
    }
}

/// Returns the part of a line around a position: the text, the offset of the position, and its
/// width in terminal columns.
fn cut(source: &str, column: u32, end_column: u32) -> (String, usize, usize) {
    let start = column.saturating_sub(1) as usize;
    let end = (end_column.saturating_sub(1) as usize).max(start + 1);
    let mut cells: Vec<(String, usize)> = Vec::new();
    // Only the displayed part is processed, because a line can be as long as the file.
    let from = start.saturating_sub(BEFORE + MAX_WIDTH);
    let mut chars = source.chars().skip(from);
    for c in chars.by_ref().take(start - from + 2 * MAX_WIDTH) {
        let cell = if c == '\t' {
            TAB.to_owned()
        } else {
            let mut cell = String::new();
            text::push_escaped(&mut cell, c);
            cell
        };
        // An escape is ASCII, with one column for each character.
        let width = if cell.chars().count() == 1 {
            c.width().unwrap_or(0)
        } else {
            cell.len()
        };
        cells.push((cell, width));
    }
    let is_cut_behind = chars.next().is_some();
    let (start, end) = (start - from, end - from);
    let width_of = |range: std::ops::Range<usize>| -> usize {
        cells
            .get(range.start.min(cells.len())..range.end.min(cells.len()))
            .unwrap_or_default()
            .iter()
            .map(|c| c.1)
            .sum()
    };
    let mut first = 0;
    if from > 0 || width_of(0..start) + width_of(start..end).min(MAX_WIDTH - BEFORE) > MAX_WIDTH {
        first = start.min(cells.len());
        let mut room = BEFORE;
        while first > 0 && cells[first - 1].1 <= room {
            room -= cells[first - 1].1;
            first -= 1;
        }
    }
    let mut shown = String::new();
    let mut offset = 0;
    if first > 0 || from > 0 {
        shown.push('…');
        offset = 1;
    }
    offset += width_of(first..start) + start.saturating_sub(cells.len());
    let mut total = 0;
    let mut last = first;
    while last < cells.len() && total + cells[last].1 <= MAX_WIDTH {
        total += cells[last].1;
        shown.push_str(&cells[last].0);
        last += 1;
    }
    let width = width_of(start..end.min(last)).max(1);
    if last < cells.len() || is_cut_behind {
        shown.push('…');
    } else {
        shown.truncate(shown.trim_end().len());
    }
    (shown, offset, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mark_is_under_the_place() {
        assert_eq!(
            cut("  agent: plannr", 10, 16),
            ("  agent: plannr".to_owned(), 9, 6)
        );
        assert_eq!(cut("\ta: b", 5, 6), ("    a: b".to_owned(), 7, 1));
        assert_eq!(cut("日本: x", 5, 6), ("日本: x".to_owned(), 6, 1));
        assert_eq!(cut("日本: x", 1, 3), ("日本: x".to_owned(), 0, 4));
        assert_eq!(cut("a\u{1b}[2J: x", 7, 8).0, "a\\u{1b}[2J: x");
        assert_eq!(cut("a\u{1b}[2J: x", 7, 8).1, 11);
        assert_eq!(cut("", 1, 2), (String::new(), 0, 1));
        assert_eq!(cut("ab", 3, 4), ("ab".to_owned(), 2, 1));
    }

    #[test]
    fn long_line_is_cut_around_the_place() {
        let line = format!("{}HERE{}", "a".repeat(5_000), "b".repeat(5_000));
        let (shown, offset, width) = cut(&line, 5_001, 5_005);
        assert_eq!(shown.chars().skip(offset).take(width).collect::<String>(), "HERE");
        assert!(
            shown.starts_with('…') && shown.ends_with('…') && shown.chars().count() <= MAX_WIDTH + 2,
            "{shown}"
        );
        let (shown, _, width) = cut(&line, 1, 9_000);
        assert!(shown.chars().count() <= MAX_WIDTH + 1 && width <= MAX_WIDTH);
    }

    proptest! {
        #[test]
        fn lines_never_break_the_frame(line in "\\PC{0,300}|[\\x00-\\x20é日\u{202e}]{0,300}", column in 0u32..400, width in 0u32..400) {
            let (shown, offset, marks) = cut(&line, column, column + width);
            prop_assert!(!shown.contains(vik_yaml::text::is_hostile));
            prop_assert!(offset + marks <= 2 * MAX_WIDTH + 400 && marks >= 1);
            let shown_width: usize = shown.chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(shown_width <= MAX_WIDTH + 2);
        }
    }
}
