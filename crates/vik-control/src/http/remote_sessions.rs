//! The files of attempts that a worker carried out: what a hub asks for, and what the worker answers.
//!
//! A request has ids only. The worker finds the files below its own folder of sessions, and masks
//! secrets before they leave it.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vik_api::{DiffView, EventsPage, SessionDetail, Status, StderrTail};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::ids::{AttemptId, IssueId};
use vik_core::worker::WorkerName;
use vik_orchestrator::Task;
use vik_proc::Supervisor;
use vik_store::ledger::StoredAttempt;
use vik_store::{AttemptFiles, PastAttempt};
use vik_workspace::Layout;
use vik_workspace::fs as private;

use super::logs::Logs;
use super::session_files::{EventsRequest, detail_of, stderr_of};
use crate::{diff, history};

/// The maximum size of a page of events, in bytes. The answer to a request has at most 1 MiB.
const PAGE_BYTES: usize = 512 * 1024;

/// The maximum size of the end of stderr, in bytes.
const STDERR_BYTES: u64 = 512 * 1024;

/// A request for what the files of an attempt contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    pub issue: IssueId,
    pub attempt: AttemptId,
    pub part: SessionPart,
}

/// The requested part. Each has the answer of the path of the API with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionPart {
    Detail,
    Events(EventsRequest),
    Stderr { bytes: u64 },
    Diff,
}

/// Reads the files of attempts on workers.
pub trait RemoteSessions: Debug + Send + Sync {
    /// Sends a request to a worker, and returns the answer as JSON. The error is a message for
    /// people.
    fn read(&self, worker: WorkerName, request: SessionRequest) -> Task<Result<String, String>>;
}

/// Where the files of an attempt are that a worker carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAttempt {
    pub worker: WorkerName,
    pub issue: IssueId,
    pub attempt: AttemptId,
    /// The log, if it is known.
    pub log: Option<PathBuf>,
}

impl RemoteAttempt {
    /// Returns the place of an attempt that runs or ran on a worker; `None` if its files are on this
    /// machine. The status must be older than what was read from the ledger.
    pub(super) fn of(stored: &StoredAttempt, status: &Status) -> Option<Self> {
        let id = stored.started.attempt_id.to_string();
        let ended = stored.ended.as_ref();
        let log = ended.and_then(|ended| ended.report.log.as_deref());
        let live = status.sessions.iter().find(|session| session.session_id == id);
        let worker = log.map(|log| &log.worker);
        let worker = worker.or(live.and_then(|session| session.worker.as_ref()))?;
        Some(Self {
            worker: worker.clone(),
            issue: stored.started.issue.clone(),
            attempt: stored.started.attempt_id,
            log: log
                .and_then(|log| log.file.as_ref())
                .map(|file| file.path.clone()),
        })
    }

    /// Requests a part, and waits for it.
    ///
    /// # Errors
    /// When the worker does not answer, or cannot read the files. The error names the worker and the
    /// log.
    pub async fn read<T: DeserializeOwned>(
        &self,
        sessions: &dyn RemoteSessions,
        part: SessionPart,
    ) -> Result<T, Failure> {
        let request = SessionRequest {
            issue: self.issue.clone(),
            attempt: self.attempt,
            part,
        };
        let answer = sessions.read(self.worker.clone(), request).await;
        let parsed = answer.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        parsed.map_err(|reason| self.unreadable(&reason))
    }

    fn unreadable(&self, reason: &str) -> Failure {
        let log = match &self.log {
            Some(path) => format!(", in {}", path.display()),
            None => String::new(),
        };
        Failure::new(
            Exit::Failed,
            ErrorCode::Logs,
            format!(
                "cannot read the session, which is on the worker `{}`{log}: {reason}",
                self.worker
            ),
        )
        .hint("`vik status` lists the workers; the files are there as long as the worker keeps them")
    }
}

/// Answers the requests for files of this machine.
#[derive(Debug)]
pub struct SessionReader {
    layout: Layout,
    supervisor: Supervisor,
    logs: Logs,
}

impl SessionReader {
    pub fn new(layout: Layout, supervisor: Supervisor) -> Self {
        Self {
            layout,
            supervisor,
            logs: Logs::with_page_bytes(PAGE_BYTES),
        }
    }

    /// Answers a request as JSON. The error is a message for people.
    ///
    /// # Errors
    /// When the attempt has no files here, or they cannot be read.
    pub async fn answer(self: Arc<Self>, request: SessionRequest) -> Result<String, String> {
        let (issue, attempt) = (request.issue.clone(), request.attempt);
        if request.part == SessionPart::Diff {
            let reader = Arc::clone(&self);
            let files = blocking(move || reader.files(&issue, attempt)).await?;
            let sources = diff::Sources {
                layout: &self.layout,
                supervisor: &self.supervisor,
            };
            let diff: DiffView = sources.of_attempt(&request.issue, attempt, files).await;
            return json(&diff);
        }
        blocking(move || self.answer_blocking(&request)).await
    }

    fn answer_blocking(&self, request: &SessionRequest) -> Result<String, String> {
        let files = self.files(&request.issue, request.attempt)?;
        match &request.part {
            SessionPart::Detail => {
                let past = PastAttempt::read(files).ok_or_else(missing)?;
                let detail: SessionDetail = detail_of(&past, history::view_of_files(&past));
                json(&detail)
            }
            SessionPart::Events(events) => {
                let page: EventsPage = events
                    .read(&self.logs, &files, request.attempt)
                    .map_err(|failure| failure.body().message)?;
                json(&page)
            }
            SessionPart::Stderr { bytes } => {
                let tail: StderrTail = stderr_of(&files, (*bytes).min(STDERR_BYTES));
                json(&tail)
            }
            SessionPart::Diff => Err("bug in Vik: a diff is made elsewhere".to_owned()),
        }
    }

    /// Finds the files of an attempt by its id, among those of its issue.
    fn files(&self, issue: &IssueId, attempt: AttemptId) -> Result<AttemptFiles, String> {
        let folder = self.layout.issue_sessions_dir(issue);
        let record = format!("-{attempt}.attempt.json");
        let entries = match private::list_folder(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.to_string()),
            entries => entries.into_iter().flatten().flatten(),
        };
        let mut paths = entries.map(|entry| entry.path());
        let is_record = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.ends_with(&record))
        };
        let found = paths.find(is_record).and_then(|path| AttemptFiles::of(&path));
        found.ok_or_else(missing)
    }
}

fn missing() -> String {
    "the worker has no files of this attempt: it has not started there, or they were removed".to_owned()
}

/// Returns an answer as JSON, without the secrets that this process knows.
fn json<T: Serialize>(answer: &T) -> Result<String, String> {
    let text = serde_json::to_string(answer).map_err(|error| error.to_string())?;
    Ok(vik_mask::mask_json(&text).into_owned())
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let task = tokio::task::spawn_blocking(read).await;
    task.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}")))
}

#[cfg(test)]
mod tests;
