//! Formats tables and wrapped text.

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::one_line;

/// Below this width in columns, a terminal gets fewer or shorter columns.
pub const NARROW: usize = 80;

/// The minimum width of the last column, whatever the width of the terminal.
const NARROWEST: usize = 24;

/// Columns are not cut below this width.
const NARROWEST_CUT: usize = 8;

/// Returns the width of the terminal on stdout, in columns, or that of `COLUMNS` if the terminal
/// does not report one. There is no limit if stdout is not a terminal.
pub fn stdout_width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return usize::MAX;
    }
    let width = terminal_size::terminal_size_of(stdout).map(|(width, _)| usize::from(width.0));
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    width
        .or_else(columns)
        .filter(|width| *width > 0)
        .unwrap_or(usize::MAX)
}

/// Returns a table with aligned columns for stdout, with one line for each row. Cells that do not
/// fit into the terminal are cut. Control characters in cells are shown.
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
    fitted_table(stdout_width(), header, rows)
}

/// As [`table`], for a terminal of this width. The widest columns are cut first; of a path, the end
/// remains.
pub fn fitted_table<const N: usize>(width: usize, header: [&str; N], rows: &[[String; N]]) -> String {
    let (cells, mut widths) = cells(header, rows);
    let gaps = 2 * N.saturating_sub(1);
    shrink(&mut widths, header, width.saturating_sub(gaps));
    let mut out = String::new();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            pad(&mut line, &cut(&cell.replace('\n', " "), width), width);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Returns a table of this width whose last column is wrapped. Newlines in the last column are
/// kept. Other columns are cut if the last one would be too narrow.
pub fn table_within<const N: usize>(width: usize, header: [&str; N], rows: &[[String; N]]) -> String {
    let (cells, mut widths) = cells(header, rows);
    let others = N.saturating_sub(1);
    let last = widths.last().copied().unwrap_or_default().min(NARROWEST);
    let available = width.saturating_sub(last + 2 * others);
    shrink(&mut widths[..others], header, available);
    let indent: usize = widths[..others].iter().map(|width| width + 2).sum();
    let last_width = width.saturating_sub(indent).max(NARROWEST);
    let mut out = String::new();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths).take(others) {
            pad(&mut line, &cut(cell, width), width);
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

/// Returns some columns of a table, by their names.
pub fn columns<const N: usize, const M: usize>(
    names: [&str; M],
    header: [&str; N],
    rows: &[[String; N]],
) -> Vec<[String; M]> {
    let places = names.map(|name| header.iter().position(|column| *column == name));
    let cell = |row: &[String; N], place: Option<usize>| place.map(|at| row[at].clone()).unwrap_or_default();
    rows.iter()
        .map(|row| places.map(|place| cell(row, place)))
        .collect()
}

/// Returns all rows, the header first, and the width of each column.
fn cells<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> (Vec<[String; N]>, [usize; N]) {
    let cells: Vec<[String; N]> = std::iter::once(header.map(str::to_owned))
        .chain(rows.iter().map(clean_row))
        .collect();
    let mut widths = [0; N];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    (cells, widths)
}

/// Reduces the widest columns until all of them together have this width, if possible.
fn shrink<const N: usize>(widths: &mut [usize], header: [&str; N], available: usize) {
    let least = header.map(|name| name.width().max(NARROWEST_CUT));
    while widths.iter().sum::<usize>() > available {
        let widest = widths
            .iter_mut()
            .zip(least)
            .filter(|(width, least)| **width > *least)
            .max_by_key(|(width, _)| **width);
        match widest {
            Some((width, _)) => *width -= 1,
            None => return,
        }
    }
}

/// Cuts a text to a width in columns.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut fits = |c: &char| {
        let used = c.width().unwrap_or(0);
        let fits = used <= left;
        left = left.saturating_sub(used);
        fits
    };
    // The end of a path differs from row to row.
    if text.contains('/') && !text.contains(' ') {
        let mut kept: Vec<char> = text.chars().rev().take_while(&mut fits).collect();
        kept.push('…');
        return kept.iter().rev().collect();
    }
    let mut kept: String = text.chars().take_while(&mut fits).collect();
    kept.push('…');
    kept
}

fn pad(line: &mut String, cell: &str, width: usize) {
    line.push_str(cell);
    line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + 2));
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
                if line.width() + c.width().unwrap_or(0) > width {
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
    fn widest_columns_are_cut_until_the_table_fits() {
        let rows = [
            [
                "7",
                "Fix the 京都 login page of the shop",
                "/home/nora/.vik/sessions/7/work-1.jsonl",
            ],
            ["8", "Short", "-"],
        ]
        .map(|row| row.map(str::to_owned));
        let header = ["ISSUE", "TITLE", "LOG"];
        assert_eq!(
            fitted_table(50, header, &rows),
            "ISSUE  TITLE                  LOG\n\
             7      Fix the 京都 login p…  …ions/7/work-1.jsonl\n\
             8      Short                  -\n"
        );
        assert_eq!(
            fitted_table(usize::MAX, header, &rows).lines().nth(1).unwrap(),
            "7      Fix the 京都 login page of the shop  /home/nora/.vik/sessions/7/work-1.jsonl"
        );
        let narrow = fitted_table(1, header, &rows);
        assert!(narrow.lines().all(|line| line.width() <= 28), "{narrow}");
        for width in [40, 60, 80] {
            let table = fitted_table(width, header, &rows);
            assert!(table.lines().all(|line| line.width() <= width), "{table}");
        }
    }

    #[test]
    fn middle_columns_leave_room_for_the_last_one() {
        let rows = [["x".repeat(60), "a reason that is wrapped".to_owned()]];
        assert_eq!(
            table_within(40, ["PATH", "WHY"], &rows),
            "PATH            WHY\nxxxxxxxxxxxxx…  a reason that is wrapped\n"
        );
    }

    #[test]
    fn wrap_splits_overlong_words_and_loses_no_text() {
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrap("ab  cd", 9), ["ab cd"]);
    }
}
