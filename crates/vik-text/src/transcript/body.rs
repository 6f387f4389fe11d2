//! Lines of texts that can be long: shortened, and diffs in colour.

use crate::line::Piece;
use crate::{Line, TextStyle};

/// The maximum length of a line, in characters.
const MAX_LINE_CHARS: usize = 400;

/// Returns the first and the last lines, with the number of omitted lines between.
pub(super) fn shortened(body: &[Piece], (head, tail): (usize, usize), full: bool) -> Vec<Line> {
    let line = |(tone, text): &Piece| cut(*tone, text, full);
    // Omitting a single line would save nothing.
    if full || body.len() <= head + tail + 1 {
        return body.iter().map(line).collect();
    }
    let left_out = body.len() - head - tail;
    let mut lines: Vec<_> = body[..head].iter().map(line).collect();
    lines.push(Line::of(TextStyle::Dim, &format!("… {left_out} lines omitted")));
    lines.extend(body[body.len() - tail..].iter().map(line));
    lines
}

fn cut(tone: TextStyle, text: &str, full: bool) -> Line {
    let length = text.chars().count();
    if full || length <= MAX_LINE_CHARS {
        return Line::of(tone, text);
    }
    let shown: String = text.chars().take(MAX_LINE_CHARS).collect();
    Line::of(tone, &shown).and(
        TextStyle::Dim,
        &format!(" … {} characters omitted", length - MAX_LINE_CHARS),
    )
}

/// Returns whether a text is a diff, by lines that occur only in diffs.
pub(super) fn is_diff(text: &str) -> bool {
    let mut before = "";
    text.lines().take(200).any(|line| {
        let is_diff_line = line.starts_with("diff --git ")
            || line.starts_with("*** Begin Patch")
            || (line.starts_with("@@ ") && (line[3..].contains("@@") || before.starts_with("***")))
            || (line.starts_with("+++ ") && before.starts_with("--- "));
        before = line;
        is_diff_line
    })
}

/// Returns the lines of a diff in colour.
pub(super) fn diff(text: &str) -> impl Iterator<Item = Piece> {
    text.trim_end().lines().map(|line| {
        let tone = match line.as_bytes() {
            [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'*', b'*', b'*', ..] => {
                TextStyle::Bold
            }
            [b'd', b'i', b'f', b'f', b' ', ..] => TextStyle::Bold,
            [b'+', ..] => TextStyle::Green,
            [b'-', ..] => TextStyle::Red,
            [b'@', b'@', ..] => TextStyle::Cyan,
            _ => TextStyle::Plain,
        };
        (tone, line.to_owned())
    })
}

/// Cuts the lines after a number of bytes.
pub(super) fn truncate_body(body: &mut Vec<Piece>, max_bytes: usize) {
    let mut room = max_bytes;
    for (index, (_, text)) in body.iter_mut().enumerate() {
        // Empty lines take room, too.
        let bytes = text.len() + 1;
        if bytes > room {
            text.truncate(text.floor_char_boundary(room));
            text.push('…');
            body.truncate(index + 1);
            return;
        }
        room -= bytes;
    }
}
