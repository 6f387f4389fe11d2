//! Formats the trace for people.

use std::path::Path;

use vik_api::{Author, BlameView, IntentView, TraceCheck, TraceEntry, TracedFile};
use vik_base::report::{clean, count, date_time, one_line, optional, table};

const EMPTY: &str = "no attempt has changed files yet\n";

/// Lists the attempts with their files.
pub fn log(entries: &[TraceEntry]) -> String {
    if entries.is_empty() {
        return EMPTY.to_owned();
    }
    let mut out = String::new();
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let attempt = &entry.attempt;
        let model = optional(" (", attempt.model.as_deref(), ")");
        let author = match &attempt.by {
            Some(person) => person.clone(),
            None => format!("attempt {}  {}{model}", attempt.attempt, attempt.agent),
        };
        let head = format!(
            "#{}  {}  {} {}  {author}  +{} -{}",
            attempt.seq,
            date_time(attempt.at),
            attempt.issue_id,
            attempt.stage,
            entry.added,
            entry.removed
        );
        out.push_str(&one_line(&head, 200));
        out.push_str(&format!("\n    {}\n", one_line(&attempt.intent, 100)));
        for file in &entry.files {
            out.push_str(&format!("    {}\n", one_line(&line(file), 200)));
        }
        for path in &entry.unseen {
            out.push_str(&format!("    ? {} could not be read\n", one_line(path, 150)));
        }
    }
    out
}

fn line(file: &TracedFile) -> String {
    let sign = match file.change.as_str() {
        "added" => 'A',
        "deleted" => 'D',
        "renamed" => 'R',
        "type_changed" => 'T',
        _ => 'M',
    };
    let name = match &file.from {
        Some(from) => format!("{from} -> {}", file.path),
        None => file.path.clone(),
    };
    let sums = if file.whole {
        "whole".to_owned()
    } else {
        format!("+{} -{}", file.added, file.removed)
    };
    let class = optional("  ", file.class.as_deref(), "");
    format!("{sign} {name}  {sums}{class}")
}

/// Formats the result of a check of the trace.
pub fn check(check: &TraceCheck, file: &Path) -> String {
    let records = count(check.records, "record");
    let cut_off = if check.cut_off {
        "; the last append is incomplete and will be removed by the next one"
    } else {
        ""
    };
    let removed = match check.removed {
        0 => String::new(),
        removed => format!(
            "; the {} before were removed because of their age",
            count(removed, "record")
        ),
    };
    match &check.broken {
        None => format!("the trace is intact: {records}{removed}{cut_off}\n"),
        Some(broken) => format!(
            "the trace is broken at line {} of {}: {}\n{records} before this line: intact\n",
            broken.line,
            clean(&file.to_string_lossy()),
            broken.problem
        ),
    }
}

/// Formats a file with the author of each line.
pub fn blame(view: &BlameView, content: &[u8]) -> String {
    if let Some(author) = &view.whole {
        return format!(
            "{}: {}\n",
            one_line(&view.path, 150),
            one_line(&author_label(author), 150)
        );
    }
    let text = String::from_utf8_lossy(content);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut rows = Vec::new();
    for range in &view.lines {
        for number in range.start..=range.end {
            let line = usize::try_from(number)
                .ok()
                .and_then(|number| lines.get(number - 1));
            let line = line
                .map(|line| line.trim_end_matches(['\n', '\r']))
                .unwrap_or_default();
            rows.push((author_label(&range.author), number, line));
        }
    }
    let width = rows
        .iter()
        .map(|(label, ..)| label.chars().count())
        .max()
        .unwrap_or(0);
    let digits = rows.len().to_string().len();
    let mut out = String::new();
    for (label, number, line) in rows {
        let line = format!(
            "{:width$}  {number:digits$}  {}",
            one_line(&label, 150),
            clean(line)
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Returns a short label for an author.
fn author_label(author: &Author) -> String {
    match author {
        Author::Attempt(attempt) => {
            let model = optional(" ", attempt.model.as_deref(), "");
            let author = attempt.by.as_deref().unwrap_or(attempt.agent.as_str());
            format!(
                "#{} {} {} {author}{model}",
                attempt.seq, attempt.issue_id, attempt.stage
            )
        }
        Author::Outside => "outside of Vik".to_owned(),
        Author::Unknown => "unknown".to_owned(),
    }
}

/// Formats the intent map.
pub fn map(intents: &[IntentView]) -> String {
    if intents.is_empty() {
        return EMPTY.to_owned();
    }
    let mut out = String::new();
    for (index, intent) in intents.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(&one_line(&format!("{}  {}", intent.issue_id, intent.intent), 150));
        let agents: Vec<_> = intent.agents.iter().map(ToString::to_string).collect();
        out.push_str(&format!(
            "\n{} by {}\n",
            count(intent.attempts, "attempt"),
            one_line(&agents.join(", "), 150)
        ));
        let rows: Vec<_> = intent
            .files
            .iter()
            .map(|file| {
                let classes: Vec<_> = file
                    .classes
                    .iter()
                    .filter(|(class, _)| *class != "null")
                    .map(|(class, count)| format!("{class} {count}"))
                    .collect();
                let deleted_suffix = if file.deleted { " (deleted)" } else { "" };
                [
                    format!("{}{deleted_suffix}", file.path),
                    format!("+{}", file.added),
                    format!("-{}", file.removed),
                    classes.join(", "),
                ]
            })
            .collect();
        out.push_str(&table(["FILE", "ADDED", "REMOVED", "CLASSES"], &rows));
    }
    out
}
