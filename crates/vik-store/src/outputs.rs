//! The book of one run: each output is recorded before it is carried out and again afterwards.

use std::fs::File;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_core::ids::AttemptId;
use vik_core::outputs::{Output, OutputKey, OutputNote, Progress};

use crate::StoreError;
use crate::appended::AppendOnlyFile;

/// A note as the file has it, with the output.
#[derive(Serialize, Deserialize)]
struct StoredNote {
    at: Timestamp,
    session: AttemptId,
    key: OutputKey,
    progress: Progress,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_keyed: bool,
    output: Output,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl From<StoredNote> for OutputNote {
    fn from(stored: StoredNote) -> Self {
        Self {
            at: stored.at,
            attempt_id: stored.session,
            key: stored.key,
            kind: stored.output.kind(),
            summary: stored.output.summary().to_owned(),
            progress: stored.progress,
            is_keyed: stored.is_keyed,
            detail: stored.detail,
        }
    }
}

/// The book of one run, append-only.
#[derive(Debug)]
pub struct OutputBook {
    file: AppendOnlyFile,
    notes: Vec<OutputNote>,
}

impl OutputBook {
    /// Opens or creates the book (0600), so that it exists after a death of the machine. A torn
    /// last line is cut off: its output was not started.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, or if a complete line is not a note.
    /// In that case it is unknown which outputs were carried out.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (file, notes) = AppendOnlyFile::open::<StoredNote>(path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let synced = match File::open(folder).and_then(|folder| folder.sync_all()) {
            // Some file systems cannot sync a folder.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        };
        synced.map_err(StoreError::write(path))?;
        let notes = notes.into_iter().map(OutputNote::from).collect();
        Ok(Self { file, notes })
    }

    /// Returns the notes so far.
    pub fn notes(&self) -> &[OutputNote] {
        &self.notes
    }

    /// Records the progress of an output, and waits until the note survives a death of the machine.
    ///
    /// # Errors
    /// Returns an error if the note cannot be written; then no effect may follow from it.
    pub fn record_durably(&mut self, note: OutputNote, output: &Output) -> Result<(), StoreError> {
        self.file.append(&StoredNote {
            at: note.at,
            session: note.attempt_id,
            key: note.key.clone(),
            progress: note.progress,
            is_keyed: note.is_keyed,
            output: output.clone(),
            detail: note.detail.clone(),
        })?;
        self.notes.push(note);
        self.file.sync()
    }
}

/// Returns the notes of a book for display. It changes nothing, so the run may be under way. A
/// missing book has no notes.
pub fn output_notes(book: &Path) -> Vec<OutputNote> {
    let text = std::fs::read(book).unwrap_or_default();
    let (lines, _) = crate::lines_of(&text);
    lines
        .filter_map(|line| serde_json::from_slice::<StoredNote>(line).ok())
        .map(OutputNote::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use vik_core::ids::{IssueId, RunId, StageName};
    use vik_core::outputs::{OutputKind, Pursuit, last_note};

    use super::*;

    fn stored(body: &str, progress: Progress) -> StoredNote {
        let output = Output::Comment {
            body: body.to_owned(),
        };
        let pursuit = Pursuit {
            issue: &IssueId::new("1"),
            stage: &StageName::new("work"),
            run: RunId(uuid::Uuid::nil()),
        };
        StoredNote {
            at: Timestamp::UNIX_EPOCH,
            session: AttemptId(uuid::Uuid::nil()),
            key: pursuit.key(&output),
            progress,
            is_keyed: false,
            output,
            detail: None,
        }
    }

    fn record(book: &mut OutputBook, stored: StoredNote) -> OutputNote {
        let output = stored.output.clone();
        let note = OutputNote::from(stored);
        book.record_durably(note.clone(), &output).unwrap();
        note
    }

    #[test]
    fn book_reopens_with_the_last_whole_note_of_each_output() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.outputs");
        let mut book = OutputBook::open(&path).unwrap();
        for (body, progress) in [
            ("a", Progress::Applying),
            ("b", Progress::Applying),
            ("a", Progress::Applied),
        ] {
            record(&mut book, stored(body, progress));
        }
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"at\":").unwrap();
        let book = OutputBook::open(&path).unwrap();
        let last = |body: &str| {
            let key = stored(body, Progress::Applied).key;
            last_note(book.notes(), &key).map(|note| note.progress)
        };
        assert_eq!(
            [last("a"), last("b"), last("c")],
            [Some(Progress::Applied), Some(Progress::Applying), None]
        );
        assert_eq!(output_notes(&path), book.notes());
        assert_eq!(output_notes(&folder.path().join("none")), []);
    }

    #[test]
    fn note_without_a_key_in_the_tracker_is_read_and_written_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.outputs");
        let old = serde_json::to_string(&stored("a", Progress::Unknown)).unwrap();
        assert!(!old.contains("is_keyed"), "{old}");
        std::fs::write(&path, format!("{old}\n")).unwrap();
        let mut book = OutputBook::open(&path).unwrap();
        assert!(!book.notes()[0].is_keyed);
        let keyed = StoredNote {
            is_keyed: true,
            ..stored("b", Progress::Applying)
        };
        let keyed = record(&mut book, keyed);
        let book = OutputBook::open(&path).unwrap();
        assert_eq!(last_note(book.notes(), &keyed.key), Some(&keyed));
        assert_eq!((keyed.kind, &*keyed.summary), (OutputKind::Comment, "b"));
    }

    #[test]
    fn unreadable_book_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.outputs");
        std::fs::write(&path, "{\"at\":1}\n").unwrap();
        assert!(OutputBook::open(&path).is_err());
    }
}
