//! The logs of attempts on workers: a hub reads them, and a copy in a temporary folder is printed as a
//! local log is.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use vik_api::{EventsPage, SessionDetail, Status};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_control::history::files;
use vik_core::ended::Ended;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::limits::Spend;
use vik_daemon::{Instance, InstanceInfo};
use vik_store::ledger::StoredAttempt;
use vik_store::{AttemptRecord, PastAttempt};
use vik_workspace::Layout;
use vik_workspace::fs as private;

use crate::cli::args::LogsArgs;
use crate::cli::doctor::Scratch;
use crate::cli::{client, history, warn};

/// The maximum number of attempts that are searched.
const MAX_ATTEMPTS: u32 = 1000;

/// The maximum number of events in a request.
const PAGE_EVENTS: usize = 1000;

/// The logs that the running hub of a workflow can read.
pub(super) struct RemoteLogs {
    instance: Instance,
    info: InstanceInfo,
    /// The home of the hub.
    home: PathBuf,
    /// Its files are removed when it is dropped.
    _scratch: Scratch,
    /// Where the copies are.
    copies: Layout,
    logs: HashMap<AttemptId, LogCopy>,
    /// The logs that are copied to their end.
    complete: HashSet<AttemptId>,
    /// The attempts whose logs cannot be read, of which a warning is printed once.
    unreadable: HashSet<AttemptId>,
}

/// The copy of one log.
struct LogCopy {
    file: File,
    /// The number of the last event that was read.
    last: u64,
}

impl RemoteLogs {
    /// Finds the running hub of a workflow; `None` if none runs, or its attempts run on its own
    /// machine.
    ///
    /// # Errors
    /// If a temporary folder cannot be created, or if the hub follows and none leads.
    pub(super) fn find(workflow: &Path, home: &Path) -> Result<Option<Self>, Failure> {
        let Ok((instance, info)) = client::find(workflow) else {
            return Ok(None);
        };
        let status = match client::status(&instance, &info) {
            Err(failure) if failure.code() == ErrorCode::NoLeader.as_str() => return Err(failure),
            status => status.ok().flatten(),
        };
        if status.is_none_or(|status| status.workers.is_empty()) {
            return Ok(None);
        }
        let scratch = Scratch::new().map_err(|error| not_copied(&error))?;
        let copies = Layout::at(&info.workflow_path, scratch.path());
        Ok(Some(Self {
            instance,
            info,
            home: home.to_owned(),
            _scratch: scratch,
            copies,
            logs: HashMap::new(),
            complete: HashSet::new(),
            unreadable: HashSet::new(),
        }))
    }

    /// Returns the selected attempts, oldest first, with copies of their logs as they are
    /// now. Without a filter, these are the newest one and all that run.
    ///
    /// # Errors
    /// If no selected log can be read.
    pub(super) fn attempts(
        &mut self,
        issue: Option<&IssueId>,
        args: &LogsArgs,
        has_filter: bool,
    ) -> Result<Vec<PastAttempt>, Failure> {
        // It is read first: an attempt that is not live any more has an end in the ledger.
        let status = client::status(&self.instance, &self.info)?.unwrap_or_default();
        let ledger = history::ledger(&self.home);
        let stored = ledger.map_or(Ok(Vec::new()), |ledger| ledger.attempts(issue, MAX_ATTEMPTS))?;
        let own = Layout::at(&self.info.workflow_path, &self.home);
        let is_selected = |stored: &&StoredAttempt| {
            let started = &stored.started;
            let id = started.attempt_id.to_string();
            is_there(stored, &status, &own)
                && args
                    .stage
                    .as_ref()
                    .is_none_or(|stage| started.stage.as_str() == stage)
                && args
                    .session
                    .as_ref()
                    .is_none_or(|session| id.starts_with(session.as_str()))
        };
        let selected = stored.iter().filter(is_selected).enumerate();
        let selected = selected.filter(|(index, stored)| has_filter || *index == 0 || stored.ended.is_none());
        let (mut attempts, mut failure) = (Vec::new(), None);
        for (_, stored) in selected {
            match self.copy(stored) {
                Ok(attempt) => attempts.extend(attempt),
                // It may just have started there.
                Err(_) if stored.ended.is_none() => {}
                Err(error) => {
                    if self.unreadable.insert(stored.started.attempt_id) {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        attempts.reverse();
        match failure {
            Some(failure) if attempts.is_empty() => Err(failure),
            Some(failure) => {
                warn(&format!("warning: {}\n", failure.body().message));
                Ok(attempts)
            }
            None => Ok(attempts),
        }
    }

    /// Copies what is new of a log. Returns `None` if the hub has ended.
    fn copy(&mut self, stored: &StoredAttempt) -> Result<Option<PastAttempt>, Failure> {
        let started = &stored.started;
        let id = started.attempt_id;
        let folder = self.copies.issue_sessions_dir(&started.issue);
        let files = files(&self.copies, stored);
        let text = id.to_string();
        let log = match self.logs.entry(id) {
            Entry::Occupied(log) => log.into_mut(),
            Entry::Vacant(log) => {
                let detail: Option<SessionDetail> =
                    client::request(&self.instance, &self.info, async |client| {
                        client.session(&text).await
                    })?;
                let Some(detail) = detail else { return Ok(None) };
                private::create_private_dir_all(&folder).map_err(|error| not_copied(&error))?;
                private::write_json_atomic(&files.record(), &record(stored, detail))
                    .map_err(|error| not_copied(&error))?;
                let file = private::create_private(&files.log()).map_err(|error| not_copied(&error))?;
                log.insert(LogCopy { file, last: 0 })
            }
        };
        while !self.complete.contains(&id) {
            let page = client::request(&self.instance, &self.info, async |client| {
                client.events(&text, log.last, PAGE_EVENTS).await
            })?;
            let Some(page) = page else { return Ok(None) };
            append(&mut log.file, &page).map_err(|error| not_copied(&error))?;
            log.last = page.scanned_to.max(log.last);
            if page.scanned_to >= page.last_seq {
                if page.ended || stored.ended.is_some() {
                    self.complete.insert(id);
                }
                break;
            }
        }
        let past = PastAttempt::read(files).map(|mut past| {
            // The log of a lost attempt may have no end.
            if let Some(ended) = stored.ended.as_ref().filter(|_| past.ended.is_none()) {
                past.ended = Some(Ended::new(ended.report.clone(), Spend::default()));
            }
            past
        });
        Ok(past)
    }
}

/// Returns whether the hub can read the log: on a worker, or of its own machine, from before there were
/// workers.
fn is_there(stored: &StoredAttempt, status: &Status, own: &Layout) -> bool {
    let id = stored.started.attempt_id.to_string();
    let is_live = |session: &vik_api::SessionView| session.session_id == id && session.worker.is_some();
    match &stored.ended {
        Some(ended) => ended.report.log.is_some() || files(own, stored).log().exists(),
        None => status.sessions.iter().any(is_live),
    }
}

fn record(stored: &StoredAttempt, detail: SessionDetail) -> AttemptRecord {
    let started = &stored.started;
    AttemptRecord {
        schema: 1,
        run_id: started.run,
        session_id: started.attempt_id,
        issue_id: started.issue.clone(),
        issue_title: detail.issue_title,
        issue_state: String::new(),
        stage: started.stage.clone(),
        agent: started.agent.clone(),
        runtime: detail.runtime,
        model: detail.model,
        attempt: started.attempt,
        started_at: started.at,
        workdir: PathBuf::new(),
        kept: None,
    }
}

fn append(log: &mut File, page: &EventsPage) -> std::io::Result<()> {
    let mut lines = String::new();
    for event in &page.events {
        lines.push_str(event.get());
        lines.push('\n');
    }
    log.write_all(lines.as_bytes())
}

fn not_copied(error: &std::io::Error) -> Failure {
    Failure::failed(ErrorCode::Logs, "cannot copy the logs of a worker", error)
}

/// Returns the error for logs on workers while no hub runs.
pub(super) fn no_hub() -> Failure {
    Failure::new(
        Exit::NoDaemon,
        ErrorCode::NoDaemon,
        "the logs are on workers, and no hub is running that could read them",
    )
    .hint("start one with `vik run --role hub`")
}

/// Returns the error for what a hub does not read of a worker.
pub(super) fn raw_is_remote() -> Failure {
    Failure::new(
        Exit::Usage,
        ErrorCode::Usage,
        "the raw output of an agent is only on its worker",
    )
    .hint("leave out `--raw`")
}
