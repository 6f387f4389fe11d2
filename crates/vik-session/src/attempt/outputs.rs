//! The outputs of an attempt: the file in which its agent requests them, and their results.

use std::path::PathBuf;

use vik_base::report::{self, one_line};
use vik_core::event::Event;
use vik_core::outcome::FailureClass;
use vik_core::outputs::{self as outputs_core, Line, OutputKind, OutputNote, Progress, Refusal};
use vik_store::{AttemptFailure, OutputBook, StoreError, output_notes};
use vik_workspace::fs as private;

use super::apply::RunBook;
use super::context::pursuit;
use super::opened::AttemptContext;
use crate::outputs::{self, FILE_NAME, OutputResult};

/// The maximum length of an output's summary in one line.
const SHOWN: usize = 100;

/// Returns the event of the result of one output: an `own` one of this attempt, or one that an
/// earlier attempt has carried out.
fn result_event(note: &OutputNote, own: bool) -> Event<'static> {
    let status = match note.progress {
        Progress::Applied if own => "applied",
        Progress::Applied => "skipped",
        Progress::Failed => "failed",
        Progress::Applying | Progress::Unknown => "unknown",
    };
    let reason = note.detail.clone().filter(|_| status != "skipped");
    Event::Output {
        output: note.kind.as_str().into(),
        status: status.into(),
        summary: Some(one_line(&note.summary, SHOWN).into()),
        key: Some(note.key.to_string().into()),
        reason: reason.map(Into::into),
    }
}

pub(super) fn result_events(results: &[OutputResult]) -> Vec<Event<'static>> {
    let events = results
        .iter()
        .map(|result| result_event(&result.note, result.is_own));
    events.collect()
}

pub(super) fn refusal_event(refusal: &Refusal) -> Event<'static> {
    Event::Output {
        output: refusal.kind.map_or("", OutputKind::as_str).into(),
        status: "refused".into(),
        summary: None,
        key: None,
        reason: Some(refusal.to_string().into()),
    }
}

impl AttemptContext<'_> {
    pub(super) fn output_file(&self) -> PathBuf {
        self.files.outputs_dir().join(FILE_NAME)
    }

    /// Returns the section that Vik adds to the prompt.
    pub(super) fn output_section(&self, template: &str, fence: &vik_template::Fence) -> String {
        let policy = self.start().stage.outputs.as_ref();
        let done = match policy {
            Some(_) => self.last_notes(),
            None => Vec::new(),
        };
        let done: Vec<_> = done
            .into_iter()
            .filter(|note| note.progress == Progress::Applied)
            .collect();
        outputs::section(policy, &self.output_file(), &done, template, fence)
    }

    /// Returns the last note of each output of the run, in the order of the first notes.
    fn last_notes(&self) -> Vec<OutputNote> {
        let mut last: Vec<OutputNote> = Vec::new();
        let notes = match &self.attempt.hub {
            Some(hub) => hub.notes().to_vec(),
            None => output_notes(&self.files.output_book(self.start().run)),
        };
        for note in notes {
            match last.iter_mut().find(|known| known.key == note.key) {
                Some(known) => *known = note,
                None => last.push(note),
            }
        }
        last
    }

    /// Returns the results of the outputs for the log, from the book if another daemon applied
    /// them.
    pub(super) fn output_results(&self, results: Vec<Event<'static>>) -> Vec<Event<'static>> {
        if !results.is_empty() || self.start().stage.outputs.is_none() {
            return results;
        }
        let own = self.start().attempt_id;
        let notes = self.last_notes().into_iter();
        notes
            .filter(|note| note.attempt_id == own)
            .map(|note| result_event(&note, true))
            .collect()
    }

    /// Reads what the agent requested, from Vik's copy of its file. The inner error is what cannot
    /// be read as a request.
    pub(super) fn requested_outputs(&self) -> Result<Result<Vec<Line>, Vec<Refusal>>, AttemptFailure> {
        let path = self.files.outputs();
        let text =
            private::read(&path).map_err(|source| self.cannot_keep(&StoreError::Read { path, source }))?;
        Ok(outputs_core::read(&text, &pursuit(self.start())))
    }

    pub(super) fn open_output_book(&self) -> Result<RunBook<'_>, AttemptFailure> {
        if let Some(hub) = &self.attempt.hub {
            return Ok(RunBook::OnHub(&**hub));
        }
        let book = OutputBook::open(&self.files.output_book(self.start().run));
        book.map(RunBook::Here).map_err(|error| self.cannot_keep(&error))
    }

    /// Removes the agent's file, whose content is kept elsewhere.
    pub(super) fn remove_output_file(&self) {
        if self.start().stage.outputs.is_some() {
            let _ = std::fs::remove_dir_all(self.files.outputs_dir());
        }
    }

    pub(super) fn cannot_keep(&self, error: &StoreError) -> AttemptFailure {
        self.disk.note(error);
        let reason = format!("cannot record the results of outputs: {}", report::chain(error));
        AttemptFailure::failed(FailureClass::Hook, reason)
    }
}
