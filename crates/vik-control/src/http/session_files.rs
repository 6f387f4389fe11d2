//! What the files of an attempt contain, as the API has it.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vik_api::{AttemptView, EventsPage, Excerpt, SCHEMA, ScriptView, SessionDetail, StderrTail};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::event::EventKind;
use vik_core::ids::AttemptId;
use vik_session::attempt::PROMPT;
use vik_session::secrets::masked;
use vik_store::{AttemptFiles, PastAttempt, Step};
use vik_workspace::fs as private;

use super::event_filter::EventFilter;
use super::logs::Logs;

/// The maximum size shown of a prompt or of a script's output, in bytes.
const EXCERPT: u64 = 256 * 1024;

/// A page of events to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsRequest {
    /// Only events after this `seq`.
    pub after: u64,
    /// Only events with this text in a value, ignoring case.
    pub text: Option<String>,
    /// Only events of these kinds; all if it is empty.
    pub kinds: Vec<String>,
    pub only_failures: bool,
    /// The maximum number of events.
    pub limit: u32,
}

impl EventsRequest {
    /// Returns the filter of the events.
    ///
    /// # Errors
    /// When the text is too long to search for, or a kind is unknown.
    pub(super) fn filter(&self) -> Result<EventFilter, String> {
        let kind =
            |name: &String| EventKind::from_name(name).ok_or_else(|| format!("`{name}` is no kind of event"));
        let kinds = self.kinds.iter().map(kind).collect::<Result<_, _>>()?;
        EventFilter::new(self.text.as_deref(), kinds, self.only_failures)
            .map_err(|_| "the text to search for is too long".to_owned())
    }

    /// Reads the page from the log of an attempt.
    ///
    /// # Errors
    /// When the log cannot be read, or the filter is invalid.
    pub(super) fn read(
        &self,
        logs: &Logs,
        files: &AttemptFiles,
        attempt: AttemptId,
    ) -> Result<EventsPage, Failure> {
        let filter = self
            .filter()
            .map_err(|reason| Failure::new(Exit::Usage, ErrorCode::BadRequest, reason))?;
        let page = logs
            .page(&files.log(), self.after, self.limit as usize, &filter)
            .map_err(|error| {
                Failure::failed(ErrorCode::Logs, "cannot read the log of the session", &error)
            })?;
        Ok(EventsPage {
            schema: SCHEMA,
            session_id: attempt.to_string(),
            events: page.events,
            scanned_to: page.scanned_to,
            last_seq: page.last,
            ended: page.ended,
        })
    }
}

/// Returns the details of an attempt, whose session is not known to be live.
pub(super) fn detail_of(past: &PastAttempt, attempt: AttemptView) -> SessionDetail {
    let record = past.record.clone();
    SessionDetail {
        schema: SCHEMA,
        run_id: record.run_id.to_string(),
        issue_id: record.issue_id,
        issue_title: record.issue_title,
        stage: record.stage,
        agent: record.agent,
        runtime: record.runtime,
        model: record.model,
        live: None,
        attempt,
        prompt: start_of(&past.files.prompt()),
        scripts: scripts(&past.files),
    }
}

/// Returns the end of the agent's stderr.
pub(super) fn stderr_of(files: &AttemptFiles, max_bytes: u64) -> StderrTail {
    let (text, left_out) = end_of(&files.stderr(), max_bytes).unwrap_or_default();
    StderrTail {
        schema: SCHEMA,
        text,
        left_out,
    }
}

/// Returns the scripts that ran around the agent, from the journal, with their output.
fn scripts(files: &AttemptFiles) -> Vec<ScriptView> {
    let mut scripts: Vec<ScriptView> = Vec::new();
    let mut started_at = HashMap::new();
    for (at, step) in vik_store::timed_steps(&files.journal()) {
        match step {
            Step::Started { script } => {
                scripts.retain(|view| view.name != script);
                started_at.insert(script.clone(), at);
                let output = end_of(&files.hook(&script), EXCERPT);
                scripts.push(ScriptView {
                    name: script,
                    ok: None,
                    reason: None,
                    duration_ms: None,
                    output: output.map(|(text, left_out)| Excerpt { text, left_out }),
                });
            }
            Step::Finished { script, trouble } => {
                if let Some(view) = scripts.iter_mut().find(|view| view.name == script) {
                    view.ok = Some(trouble.is_none());
                    // A clock that was set back leaves no duration.
                    let millis = started_at
                        .get(&script)
                        .map(|start| at.duration_since(*start).as_millis());
                    view.duration_ms = millis.and_then(|millis| u64::try_from(millis).ok());
                    view.reason = trouble.map(|trouble| trouble.reason);
                }
            }
            _ => {}
        }
    }
    // The output of successful prompt commands is part of the prompt.
    scripts.retain(|view| view.name != PROMPT || view.ok != Some(true));
    scripts
}

/// Reads the start of a file. Returns `None` if the file is missing or unreadable.
fn start_of(path: &Path) -> Option<Excerpt> {
    let mut file = private::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    Some(Excerpt {
        text: masked::read(&mut file, 0..size.min(EXCERPT)).ok()?,
        left_out: size.saturating_sub(EXCERPT),
    })
}

/// Reads the end of a file and returns it with the number of bytes before it.
fn end_of(path: &Path, max_bytes: u64) -> Option<(String, u64)> {
    let mut file = private::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let left_out = size.saturating_sub(max_bytes);
    Some((masked::read(&mut file, left_out..size).ok()?, left_out))
}
