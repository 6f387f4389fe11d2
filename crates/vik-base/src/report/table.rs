//! Formats tables and wrapped text.

use unicode_width::UnicodeWidthStr;

use super::one_line;

/// The minimum width of the last column, whatever the width of the terminal.
const NARROWEST: usize = 24;

/// Returns the width of the terminal on stdout, in columns, or no limit if stdout is not a
/// terminal.
pub fn stdout_width() -> usize {
    terminal_size::terminal_size_of(std::io::stdout()).map_or(usize::MAX, |(width, _)| usize::from(width.0))
}

/// Returns a table with aligned columns. The last column is not padded. Control characters in cells
/// are shown, and each cell is one line.
///
/// # Examples
///
/// ```
/// use vik_base::report::table;
///
/// let rows = [["7".to_owned(), "plan".to_owned()]];
/// assert_eq!(table(["ISSUE", "STAGE"], &rows), "ISSUE  STAGE\n7      plan\n");
/// ```
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    table_within(usize::MAX, header, rows)
}

/// As [`table`], but wraps the last column so that the table fits into `width`. Newlines in the
/// last column are kept.
pub fn table_within<const N: usize>(width: usize, header: [&str; N], rows: &[[String; N]]) -> String {
    let cells: Vec<[String; N]> = std::iter::once(header.map(str::to_owned))
        .chain(rows.iter().map(clean_row))
        .collect();
    let mut widths = [0; N];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let indent: usize = widths[..N.saturating_sub(1)].iter().map(|width| width + 2).sum();
    let last_width = width.saturating_sub(indent).max(NARROWEST);
    let mut out = String::new();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths).take(N.saturating_sub(1)) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        let last = row.last().map(String::as_str).unwrap_or_default();
        for (at, part) in wrap(last, last_width).iter().enumerate() {
            if at > 0 {
                line = " ".repeat(indent);
            }
            line.push_str(part);
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

fn clean_row<const N: usize>(row: &[String; N]) -> [String; N] {
    let mut at = 0;
    row.each_ref().map(|cell| {
        at += 1;
        if at < N {
            return one_line(cell, 200);
        }
        let lines: Vec<_> = cell.lines().map(|line| one_line(line, 400)).collect();
        lines.join("\n")
    })
}

/// Breaks a text into lines of at most `width` columns, at spaces if possible. Returns at least one
/// line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for part in paragraph.split(' ').filter(|part| !part.is_empty()) {
            if !line.is_empty() && line.width() + 1 + part.width() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            for c in part.chars() {
                if line.width() + unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) > width {
                    lines.push(std::mem::take(&mut line));
                }
                line.push(c);
            }
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_with_wide_characters() {
        let rows = [
            ["1".to_owned(), "plan".to_owned()],
            ["100".to_owned(), "x".to_owned()],
            ["京".to_owned(), "y".to_owned()],
        ];
        assert_eq!(
            table(["ISSUE", "STAGE"], &rows),
            "ISSUE  STAGE\n1      plan\n100    x\n京     y\n"
        );
    }

    #[test]
    fn last_column_wraps_at_the_width() {
        let rows = [["1".to_owned(), "a few words that do not fit\nand more".to_owned()]];
        assert_eq!(
            table_within(30, ["ISSUE", "WHY"], &rows),
            "ISSUE  WHY\n1      a few words that do not\n       fit\n       and more\n"
        );
    }

    #[test]
    fn wrap_splits_overlong_words_and_loses_no_text() {
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrap("ab  cd", 9), ["ab cd"]);
    }
}
