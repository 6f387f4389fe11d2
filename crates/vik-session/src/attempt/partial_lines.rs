//! Removes the parts of answers from the raw output of an agent that has ended.
//!
//! A later line has each answer as a whole, and the parts give no event: so the file maps to the
//! same events before and after. It is replaced at once, so that a crash leaves one or the other.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use tokio::task::spawn_blocking;
use vik_agents::Adapter;
use vik_base::failpoint;
use vik_workspace::fs as private;

use super::follow::LONGEST_LINE;
use super::opened::AttemptContext;

impl AttemptContext<'_> {
    /// Removes parts of answers from the raw output. If that fails, the file stays as it is.
    pub(super) async fn remove_partial_lines(&self) {
        let Ok(adapter) = self.adapter(None) else { return };
        let _ = std::fs::remove_file(self.files.partial());
        let raw = self.files.raw();
        let removed = spawn_blocking(move || remove(&raw, &*adapter)).await;
        match removed {
            Ok(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot remove the parts of answers from the raw output");
            }
            _ => {}
        }
    }
}

/// Rewrites a file without the partial lines. One that has none, or a line that is not read as a
/// whole (the log refers to its offset), is not changed.
fn remove(raw: &Path, adapter: &dyn Adapter) -> io::Result<()> {
    let Some(kept) = count_kept(raw, adapter)? else {
        return Ok(());
    };
    let temporary = raw.with_extension("kept");
    let result = copy(raw, &temporary, kept, adapter).and_then(|()| {
        failpoint::reach("partial_lines_removed");
        std::fs::rename(&temporary, raw)
    });
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// Returns the number of bytes that stay, if any go.
fn count_kept(raw: &Path, adapter: &dyn Adapter) -> io::Result<Option<u64>> {
    let (mut kept, mut has_partial, mut is_readable) = (0, false, true);
    each_line(raw, |line| {
        is_readable &= line.len() as u64 <= LONGEST_LINE;
        if is_partial(line, adapter) {
            has_partial = true;
        } else {
            kept += line.len() as u64;
        }
        Ok(is_readable)
    })?;
    Ok((has_partial && is_readable).then_some(kept))
}

fn copy(raw: &Path, temporary: &Path, kept: u64, adapter: &dyn Adapter) -> io::Result<()> {
    let mut file = BufWriter::new(private::create_private(temporary)?);
    let mut written = 0;
    each_line(raw, |line| {
        if !is_partial(line, adapter) {
            written += line.len() as u64;
            file.write_all(line)?;
        }
        Ok(true)
    })?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    if written != kept {
        // A process that Vik could not end still writes.
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    file.sync_all()
}

fn is_partial(line: &[u8], adapter: &dyn Adapter) -> bool {
    std::str::from_utf8(line).is_ok_and(|line| adapter.is_partial(line.trim_end()))
}

/// Passes each line with its newline to `on_line`, until it returns `false`. At most one byte more
/// than the longest line is read of a line.
fn each_line(raw: &Path, mut on_line: impl FnMut(&[u8]) -> io::Result<bool>) -> io::Result<()> {
    let mut file = BufReader::with_capacity(64 * 1024, private::open(raw)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut file).take(LONGEST_LINE + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() || !on_line(&line)? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use vik_core::workflow::{AgentProfile, Runtime};

    use super::*;

    const DELTA: &str =
        r#"{"v":1,"seq":2,"at":"2026-01-01T00:00:00Z","type":"delta","kind":"text","block":0,"text":"a"}"#;
    const MESSAGE: &str = r#"{"v":1,"seq":3,"type":"message","text":"a \"type\":\"delta\", b"}"#;

    fn removed(content: &str) -> (String, usize) {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("x.raw.jsonl");
        std::fs::write(&raw, content).unwrap();
        let adapter = vik_agents::driver(Runtime::Vex).adapter(&AgentProfile::new(Runtime::Vex), None);
        remove(&raw, &*adapter).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        (std::fs::read_to_string(&raw).unwrap(), files)
    }

    #[test]
    fn only_partial_lines_are_removed() {
        let content = format!("no json\n{DELTA}\n{MESSAGE}\n\n{DELTA}\r\nlast");
        assert_eq!(removed(&content), (format!("no json\n{MESSAGE}\n\nlast"), 1));
        assert_eq!(removed(&format!("{DELTA}\n")), (String::new(), 1));
        assert_eq!(removed(MESSAGE), (MESSAGE.to_owned(), 1));
    }

    #[test]
    fn file_with_an_overlong_line_is_not_changed() {
        let long = "x".repeat(usize::try_from(LONGEST_LINE).unwrap() + 1);
        let content = format!("{DELTA}\n{long}\n");
        assert!(removed(&content).0 == content);
    }
}
