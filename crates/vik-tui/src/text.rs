//! Makes text safe for a terminal, and cuts and wraps it by columns.

use std::cmp::Ordering;

use jiff::Timestamp;
use unicode_width::UnicodeWidthChar;
use vik_core::visible::{characters, escape};

/// The maximum number of combining marks on one character: some languages need two; more could grow
/// into other lines.
const MAX_COMBINING_MARKS: usize = 3;

/// The number of columns of a tab.
const TAB: usize = 4;

/// Passes text from outside on without terminal control characters.
///
/// Calls `push` with the replacement of each character and its columns, until it returns false.
fn for_each_safe(text: &str, mut push: impl FnMut(&str, usize) -> bool) {
    let mut marks = MAX_COMBINING_MARKS;
    let mut small = [0; 4];
    for (c, is_hidden) in characters(text) {
        let proceed = match (c, c.width()) {
            ('\t', _) => push(&"    "[..TAB], TAB),
            // Line breaks are handled by the caller; here they are only a gap.
            ('\n', _) => push(" ", 1),
            _ if is_hidden => {
                let escape = escape(c);
                push(&escape, escape.chars().count())
            }
            _ if is_left_out(c) => true,
            (_, None) => true,
            (_, Some(0)) => {
                if marks >= MAX_COMBINING_MARKS {
                    true
                } else {
                    marks += 1;
                    push(c.encode_utf8(&mut small), 0)
                }
            }
            (_, Some(width)) => {
                marks = 0;
                push(c.encode_utf8(&mut small), width)
            }
        };
        if !proceed {
            return;
        }
    }
}

/// Returns whether a character is a joiner, a direction mark, a variation selector or a skin tone.
/// Terminals disagree on the width of joined characters, so they are drawn separately.
fn is_left_out(c: char) -> bool {
    matches!(c,
        '\r' | '\u{61c}' | '\u{200c}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Returns safe text on one line, cut to `width` columns with an ellipsis. Reads no more of the
/// text than it shows.
pub(crate) fn fit(text: &str, width: usize) -> String {
    fit_at(text, 0, width)
}

/// Like [`fit`], without the first `skip` columns.
pub(crate) fn fit_at(text: &str, skip: usize, width: usize) -> String {
    let mut out = String::new();
    let (mut passed, mut used, mut cut) = (0, 0, false);
    // The last position with room for an ellipsis.
    let mut room_for_dots = 0;
    for_each_safe(text, |piece, columns| {
        if passed < skip {
            passed += columns;
            return true;
        }
        if used + columns > width {
            cut = true;
            return false;
        }
        out.push_str(piece);
        used += columns;
        if used < width {
            room_for_dots = out.len();
        }
        true
    });
    if cut && width > 0 {
        out.truncate(room_for_dots);
        out.push('…');
    }
    out
}

/// Returns the end of a text, for paths: `…/project/workflow.yml`.
pub(crate) fn fit_end(text: &str, width: usize) -> String {
    let mut pieces = Vec::new();
    let mut total = 0;
    for_each_safe(text, |piece, columns| {
        pieces.push((piece.to_owned(), columns));
        total += columns;
        true
    });
    if total <= width {
        return pieces.into_iter().map(|(piece, _)| piece).collect();
    }
    let mut from = pieces.len();
    let mut used = 1;
    for (at, (_, columns)) in pieces.iter().enumerate().rev() {
        if used + columns > width {
            break;
        }
        used += columns;
        from = at;
    }
    if width == 0 {
        return String::new();
    }
    let mut out = "…".to_owned();
    out.extend(pieces[from..].iter().map(|(piece, _)| piece.as_str()));
    out
}

/// Returns the columns of a text that [`fit`] returned.
pub(crate) fn width(text: &str) -> usize {
    let mut total = 0;
    for_each_safe(text, |_, columns| {
        total += columns;
        true
    });
    total
}

/// Wraps a text at `width` columns, between words if possible. Returns at most `max_lines` lines,
/// and whether there are more.
pub(crate) fn wrap(text: &str, width: usize, max_lines: usize) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    if width == 0 {
        return (lines, !text.is_empty());
    }
    for line in text.lines() {
        if lines.len() >= max_lines {
            return (lines, true);
        }
        if wrap_line(line, width, max_lines, &mut lines) {
            return (lines, true);
        }
    }
    (lines, false)
}

/// Wraps one line and returns whether something was left out.
fn wrap_line(line: &str, width: usize, max_lines: usize, lines: &mut Vec<String>) -> bool {
    let mut current = String::new();
    let mut used = 0;
    // The last gap in the current line: the end of the text before it, and the start of the text
    // after it.
    let mut gap: Option<(usize, usize)> = None;
    let mut full = false;
    for_each_safe(line, |piece, columns| {
        // Twice if the moved word leaves no room for a long escape.
        while used + columns > width && !current.is_empty() {
            if lines.len() + 1 >= max_lines {
                full = true;
                return false;
            }
            if piece.starts_with(' ') {
                // The break replaces the gap.
                lines.push(std::mem::take(&mut current));
                used = 0;
                gap = None;
                return true;
            }
            let remainder = match gap {
                Some((end, start)) if end > 0 => {
                    let remainder = current[start..].to_owned();
                    current.truncate(end);
                    remainder
                }
                _ => String::new(),
            };
            lines.push(std::mem::replace(&mut current, remainder));
            used = self::width(&current);
            gap = None;
        }
        if piece.starts_with(' ') && !current.is_empty() {
            let end = match gap {
                Some((end, start)) if start == current.len() => end,
                _ => current.len(),
            };
            gap = Some((end, current.len() + piece.len()));
        }
        current.push_str(piece);
        used += columns;
        true
    });
    if full {
        current.push('…');
        lines.push(fit(&current, width));
        return true;
    }
    lines.push(current);
    false
}

/// Formats a limit of money: `$5`, `$2.50`.
pub(crate) fn money_limit(usd: f64) -> String {
    if usd.fract().abs() < 0.005 {
        format!("${usd:.0}")
    } else {
        format!("${usd:.2}")
    }
}

/// Returns the seconds between two times, never negative: clocks may differ.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    to.duration_since(from).as_secs().max(0).unsigned_abs()
}

/// Formats a duration in at most two units: `42s`, `13m05s`, `2h13m`, `3d04h`.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        s if s < 60 => format!("{s}s"),
        s if s < 3_600 => format!("{}m{:02}s", s / 60, s % 60),
        s if s < 86_400 => format!("{}h{:02}m", s / 3_600, s / 60 % 60),
        s => format!("{}d{:02}h", s / 86_400, s / 3_600 % 24),
    }
}

/// Formats a duration in one unit: `42s`, `13m`, `2h`, `3d`.
pub(crate) fn short_duration(seconds: u64) -> String {
    match seconds {
        s if s < 60 => format!("{s}s"),
        s if s < 3_600 => format!("{}m", s / 60),
        s if s < 86_400 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// Returns snake case as separate words.
pub(crate) fn humanize(name: &str) -> String {
    name.replace('_', " ")
}

/// Returns a reason and its details for people.
pub(crate) fn reason_text(reason: &str, detail: &str) -> String {
    match detail {
        "" => humanize(reason),
        detail => format!("{}: {detail}", humanize(reason)),
    }
}

/// Compares texts with numbers by value: `2` before `10`, `PROJ-9` before `PROJ-10`.
pub(crate) fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        match (left.first(), right.first()) {
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (number_a, suffix_a) = digits(left);
                let (number_b, suffix_b) = digits(right);
                let order = number_a.len().cmp(&number_b.len()).then(number_a.cmp(number_b));
                if order != Ordering::Equal {
                    return order;
                }
                (left, right) = (suffix_a, suffix_b);
            }
            (Some(x), Some(y)) if x == y => (left, right) = (&left[1..], &right[1..]),
            // Equal except for leading zeros: any fixed order will do.
            (None, None) => return a.cmp(b),
            (x, y) => return x.cmp(&y),
        }
    }
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let zeros = number.iter().take_while(|&&b| b == b'0').count();
    (&number[zeros..], suffix)
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
