//! A short diff of a write, so that the model sees what it changed.

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::text::{count_of_lines, short_line};

/// The maximum number of lines shown.
const MAX_LINES: usize = 24;
/// How much of a line is shown, in bytes.
const MAX_LINE_BYTES: usize = 160;
/// The maximum number of changed lines that are compared one by one.
const MAX_COMPARED: usize = 4000;

/// Returns the changed lines, without context.
pub(crate) fn brief(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    if old.len() + new.len() > MAX_COMPARED {
        return format!(
            "@@ line {} @@ {} gone, {} come\n",
            head + 1,
            count_of_lines(old.len()),
            count_of_lines(new.len())
        );
    }
    let mut lines = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        if op.tag() == DiffTag::Equal {
            continue;
        }
        lines.push(format!("@@ line {} @@", head + op.new_range().start + 1));
        let mut show = |sign: char, part: &[&str]| {
            lines.extend(part.iter().map(|line| format!("{sign}{}", shown(line))));
        };
        show('-', &old[op.old_range()]);
        show('+', &new[op.new_range()]);
    }
    let over = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    let mut text = lines.join("\n");
    if over > 0 {
        text.push_str(&format!("\n[… {over} more lines]"));
    }
    text.push('\n');
    text
}

/// Returns a line without its line end; an unusual line end is mentioned.
fn shown(line: &str) -> String {
    match line.strip_suffix('\n') {
        Some(line) => short_line(line.strip_suffix('\r').unwrap_or(line), MAX_LINE_BYTES).into_owned(),
        None => format!("{} [no newline at the end]", short_line(line, MAX_LINE_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_diff_shows_only_changed_lines() {
        let old = "a\nb\nc\nd\ne\nf\n";
        assert_eq!(
            brief(old, "a\nB\nc\nd\nx\ny\nf"),
            "@@ line 2 @@\n-b\n+B\n@@ line 5 @@\n-e\n-f\n+x\n+y\n+f [no newline at the end]\n"
        );
        assert_eq!(brief("", "a\r\n"), "@@ line 1 @@\n+a\n");
        let many = "x\n".repeat(100);
        assert!(brief("", &many).ends_with("[… 77 more lines]\n"));
        let huge = "x\n".repeat(100_000);
        assert_eq!(brief("", &huge), "@@ line 1 @@ 0 lines gone, 100000 lines come\n");
    }
}
