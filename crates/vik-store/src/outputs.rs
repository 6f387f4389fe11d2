//! The book of one run: each output is recorded before it is carried out and again afterwards.

use std::fs::File;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_core::ids::AttemptId;
use vik_core::outputs::{Output, OutputKey, Progress};

use crate::StoreError;
use crate::appended::AppendOnlyFile;

/// The progress of one output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputNote {
    pub at: Timestamp,
    /// The attempt that requested the output.
    pub session: AttemptId,
    /// The key that identifies the output.
    pub key: OutputKey,
    pub progress: Progress,
    /// Whether the command left the key in the tracker, and can be repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_keyed: bool,
    pub output: Output,
    /// The reason for a failure, or for an unknown result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
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
        let (file, notes) = AppendOnlyFile::open(path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let synced = match File::open(folder).and_then(|folder| folder.sync_all()) {
            // Some file systems cannot sync a folder.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        };
        synced.map_err(StoreError::write(path))?;
        Ok(Self { file, notes })
    }

    /// Returns the notes so far.
    pub fn notes(&self) -> &[OutputNote] {
        &self.notes
    }

    /// Returns the last note of an output.
    pub fn last(&self, key: &OutputKey) -> Option<&OutputNote> {
        self.notes.iter().rev().find(|note| note.key == *key)
    }

    /// Records the progress of an output, and waits until the note survives a death of the machine.
    ///
    /// # Errors
    /// Returns an error if the note cannot be written; then no effect may follow from it.
    pub fn record_durably(&mut self, note: OutputNote) -> Result<(), StoreError> {
        self.file.append(&note)?;
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
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use vik_core::ids::{IssueId, RunId, StageName};
    use vik_core::outputs::Pursuit;

    use super::*;

    fn note(body: &str, progress: Progress) -> OutputNote {
        let output = Output::Comment {
            body: body.to_owned(),
        };
        let pursuit = Pursuit {
            issue: &IssueId::new("1"),
            stage: &StageName::new("work"),
            run: RunId(uuid::Uuid::nil()),
        };
        OutputNote {
            at: Timestamp::UNIX_EPOCH,
            session: AttemptId(uuid::Uuid::nil()),
            key: pursuit.key(&output),
            progress,
            is_keyed: false,
            output,
            detail: None,
        }
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
            book.record_durably(note(body, progress)).unwrap();
        }
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"at\":").unwrap();
        let book = OutputBook::open(&path).unwrap();
        let last = |body: &str| {
            book.last(&note(body, Progress::Applied).key)
                .map(|note| note.progress)
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
        let old = serde_json::to_string(&note("a", Progress::Unknown)).unwrap();
        assert!(!old.contains("is_keyed"), "{old}");
        std::fs::write(&path, format!("{old}\n")).unwrap();
        let mut book = OutputBook::open(&path).unwrap();
        assert!(!book.notes()[0].is_keyed);
        let keyed = OutputNote {
            is_keyed: true,
            ..note("b", Progress::Applying)
        };
        book.record_durably(keyed.clone()).unwrap();
        assert_eq!(OutputBook::open(&path).unwrap().last(&keyed.key), Some(&keyed));
    }

    #[test]
    fn unreadable_book_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.outputs");
        std::fs::write(&path, "{\"at\":1}\n").unwrap();
        assert!(OutputBook::open(&path).is_err());
    }
}
