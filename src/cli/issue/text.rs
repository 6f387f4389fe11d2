//! Issues as text and as JSON.

use std::io::Write;

use vik_base::report;
use vik_tracker::{BrokenFile, TrackedIssue};

pub fn report_broken(err: &mut dyn Write, broken: &BrokenFile) -> std::io::Result<()> {
    writeln!(err, "skipped {}", clean(&broken.to_string()))?;
    match &broken.hint {
        Some(hint) => writeln!(err, "  hint: {}", clean(hint)),
        None => Ok(()),
    }
}

pub fn array(out: &mut dyn Write, issues: &[&TrackedIssue]) -> std::io::Result<()> {
    out.write_all(b"[")?;
    for (index, issue) in issues.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        out.write_all(&serde_json::to_vec(&issue.fields())?)?;
    }
    out.write_all(b"\n]\n")
}

pub fn pretty(out: &mut dyn Write, issue: &TrackedIssue) -> std::io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(&issue.fields())?)
}

pub fn table(out: &mut dyn Write, issues: &[&TrackedIssue]) -> std::io::Result<()> {
    let rows: Vec<_> = issues
        .iter()
        .map(|issue| [&issue.id, &issue.state, &issue.title].map(|cell| clean(cell)))
        .collect();
    out.write_all(
        report::table(["", "", ""], &rows)
            .trim_start_matches('\n')
            .as_bytes(),
    )
}

pub fn show(out: &mut dyn Write, issue: &TrackedIssue) -> std::io::Result<()> {
    writeln!(out, "{}  {}", clean(&issue.id), clean(&issue.title))?;
    writeln!(out, "state: {}", clean(&issue.state))?;
    for (key, value) in &issue.front {
        if !matches!(key.as_str(), "id" | "title" | "state") && !value.is_null() {
            let value = match value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Array(items) if items.iter().all(serde_json::Value::is_string) => items
                    .iter()
                    .filter_map(serde_json::Value::as_str)
                    .collect::<Vec<_>>()
                    .join(", "),
                other => other.to_string(),
            };
            writeln!(out, "{}: {}", clean(key), clean(&value))?;
        }
    }
    writeln!(out, "file: {}", clean(&issue.path.display().to_string()))?;
    if !issue.description.is_empty() {
        writeln!(out, "\n{}", clean_lines(&issue.description))?;
    }
    for comment in &issue.comments {
        writeln!(
            out,
            "\n{} · {}\n{}",
            clean(&comment.at),
            clean(&comment.author),
            clean_lines(&comment.text)
        )?;
    }
    Ok(())
}

/// Replaces control characters, which a terminal would interpret.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn clean_lines(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || c == '\t' || !c.is_control())
        .collect()
}
