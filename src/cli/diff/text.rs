//! Formats a diff for people. Without colours it is a patch that `git apply` reads.

use std::fmt::Write as _;

use vik_api::{DiffView, FileChange, FileDiff};
use vik_base::report::{clean, count, one_line, paint};
use vik_core::ids::IssueId;

/// The number of digits of a commit id that are shown.
const SHOWN_DIGITS: usize = 12;

const BOLD: &str = "1";
const YELLOW: &str = "33";

/// Formats the commits and the files, with their changed lines unless only the numbers are wanted.
pub fn text(issue: &IssueId, diff: &DiffView, only_numbers: bool, color: bool) -> String {
    let mut out = paint(color, BOLD, &heading(issue, diff)) + "\n";
    if let Some(note) = &diff.note {
        let _ = writeln!(out, "note: {}", one_line(note, 400));
    }
    for commit in &diff.commits {
        let (subject, author) = (one_line(&commit.subject, 100), one_line(&commit.author, 40));
        let id = paint(color, YELLOW, &shortened(&commit.id));
        let _ = writeln!(out, "commit {id} {subject} ({author})");
    }
    if diff.commits_left_out > 0 {
        let _ = writeln!(out, "{} before these", count(diff.commits_left_out, "commit"));
    }
    if diff.files.is_empty() && diff.note.is_none() {
        out.push_str("no changes\n");
    }
    for file in &diff.files {
        if only_numbers {
            let _ = writeln!(out, "{} {}", numbers(file), one_line(&file.path, 200));
        } else {
            add_file(&mut out, file, color);
        }
    }
    if diff.files_left_out > 0 {
        let _ = writeln!(out, "{} more changed", count(diff.files_left_out, "file"));
    }
    out
}

fn heading(issue: &IssueId, diff: &DiffView) -> String {
    let mut parts = vec![format!("issue {}", one_line(issue.as_str(), 60))];
    parts.extend(
        diff.branch
            .as_ref()
            .map(|branch| format!("branch {}", one_line(branch, 80))),
    );
    let (added, removed) = diff.files.iter().fold((0, 0), |(added, removed), file| {
        (added + file.added, removed + file.removed)
    });
    let files = count(diff.files.len() + diff.files_left_out, "file");
    let since = diff
        .base
        .as_ref()
        .map(|base| format!(" since {}", shortened(base)));
    parts.push(format!(
        "{files} +{added} -{removed}{}",
        since.unwrap_or_default()
    ));
    parts.join(" · ")
}

fn numbers(file: &FileDiff) -> String {
    let change = match file.change {
        FileChange::Added => "A",
        FileChange::Modified => "M",
        FileChange::Deleted => "D",
    };
    let (added, removed) = (format!("+{}", file.added), format!("-{}", file.removed));
    format!("{change} {added:>6} {removed:>6}")
}

fn add_file(out: &mut String, file: &FileDiff, color: bool) {
    let path = one_line(&file.path, 400);
    let side = |prefix: &str, missing: FileChange| match file.change == missing {
        true => "/dev/null".to_owned(),
        false => format!("{prefix}/{path}"),
    };
    let Some(patch) = &file.patch else {
        let line = format!("{} {path}: binary, too large, or no longer stored", numbers(file));
        let _ = writeln!(out, "{}", paint(color, BOLD, &line));
        return;
    };
    for line in [
        format!("--- {}", side("a", FileChange::Added)),
        format!("+++ {}", side("b", FileChange::Deleted)),
    ] {
        let _ = writeln!(out, "{}", paint(color, BOLD, &line));
    }
    for line in patch.split_inclusive('\n') {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let shown = clean(line);
        let code = match line.as_bytes().first() {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            _ => {
                let _ = writeln!(out, "{shown}");
                continue;
            }
        };
        let _ = writeln!(out, "{}", paint(color, code, &shown));
    }
}

fn shortened(id: &str) -> String {
    one_line(id, 64).chars().take(SHOWN_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn diff() -> DiffView {
        serde_json::from_value(json!({
            "schema": 1, "base": "0123456789abcdef", "branch": "vik/7", "files_left_out": 1, "note": null,
            "commits": [{"id": "fedcba98765432", "subject": "Fix\u{1b}[31m it", "author": "n", "at": "2026-01-01T00:00:00Z"}],
            "files": [
                {"path": "new", "change": "added", "added": 1, "removed": 0, "patch": "@@ -0,0 +1 @@\n+a\u{202e}b\n"},
                {"path": "logo.png", "change": "deleted", "added": 0, "removed": 0, "patch": null},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn diff_is_shown_with_hostile_characters_made_visible() {
        let text = text(&"7".into(), &diff(), false, false);
        let expected = "issue 7 · branch vik/7 · 3 files +1 -0 since 0123456789ab\n\
            commit fedcba987654 Fix⟦U+001B⟧[31m it (n)\n\
            --- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a⟦U+202E⟧b\n\
            D     +0     -0 logo.png: binary, too large, or no longer stored\n\
            1 file more changed\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn diff_with_colors_or_only_numbers_has_the_same_files() {
        let colored = text(&"7".into(), &diff(), false, true);
        assert!(colored.contains("\u{1b}[32m+a⟦U+202E⟧b\u{1b}[0m\n"), "{colored}");
        let numbers = text(&"7".into(), &diff(), true, false);
        assert!(
            numbers.contains("A     +1     -0 new\n") && !numbers.contains("@@"),
            "{numbers}"
        );
    }
}
