//! The output of the verbs other than `exec`: data on stdout, errors on stderr.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::events::ExitReason;
use crate::redact::redact;

/// Writes data to stdout. A closed pipe is not an error.
pub(super) fn print(text: &str) -> ExitReason {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitReason::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitReason::Done,
        Err(error) => fail(ExitReason::Failed, &format!("cannot write to stdout: {error}")),
    }
}

/// Writes a value as JSON to stdout.
pub(super) fn print_json(value: &impl Serialize) -> ExitReason {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&format!("{text}\n")),
        Err(error) => fail(ExitReason::Failed, &format!("cannot write JSON: {error}")),
    }
}

/// Prints an error and returns its exit code.
pub(super) fn fail(reason: ExitReason, message: &str) -> ExitReason {
    warn(&format!("error: {message}"));
    reason
}

/// Prints a line on stderr.
pub(super) fn warn(line: &str) {
    // If stderr fails, the message cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", redact(line));
}

/// Returns an error with its cause.
pub(super) fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Writes a file atomically: a new file replaces the old one.
pub(super) fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| std::io::Error::other("not a file name"))?;
    let mut fresh = name.to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(fresh);
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_data()
        })
        .and_then(|()| std::fs::rename(&fresh, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&fresh);
    }
    written
}

/// Formats rows with aligned columns.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_file_replaces_the_whole_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.txt");
        for text in ["one", "two"] {
            write_file(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(write_file(&dir.path().join("no/out.txt"), "x").is_err());
        assert!(write_file(Path::new("/"), "x").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
