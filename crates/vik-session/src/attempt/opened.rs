//! The start of an attempt: its record, its journal and its session log are opened, and what all of
//! its stages share is known.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::task::spawn_blocking;
use vik_base::{failpoint, report};
use vik_core::attempt::Start;
use vik_core::event::Event;
use vik_core::outcome::FailureClass;
use vik_core::workflow::Workflow;
use vik_proc::Lease;
use vik_proc::identity::boot_id;
use vik_session_log::{Reopened, SessionLog};
use vik_store::ledger::LedgerError;
use vik_store::{AttemptFailure, AttemptFiles, AttemptRecord, AttemptSpec, Journal, Step, StoreError};
use vik_workflow::Prompts;
use vik_workspace::fs as private;

use super::commands::{AttemptCommands, StopCause};
use super::context::stage_context;
use super::full::{DiskFaults, FULL, is_full, is_out_of_files};
use super::input_mode::{asks_before_calls, not_steerable_because};
use super::updates::UpdateSender;
use crate::durable;
use crate::host::Host;
use crate::outputs::OutputHub;

#[derive(Clone, Debug)]
pub struct Attempt {
    pub host: Arc<Host>,
    /// The workflow at the start. Later edits do not affect the attempt.
    pub workflow: Arc<Workflow>,
    pub prompts: Arc<Prompts>,
    pub start: Arc<Start>,
    pub commands: AttemptCommands,
    pub updates: UpdateSender,
    /// How long its agent may live without a daemon.
    pub orphan_grace: Duration,
    /// The lease of a worker on the attempt; `None` on one machine. When it is lost, all processes of
    /// the attempt are killed, no further step is taken, and the outcome is
    /// [`Lost`](vik_core::outcome::Outcome::Lost).
    pub lease: Option<Lease>,
    /// The hub that carries out the outputs; `None` on one machine.
    pub hub: Option<Arc<dyn OutputHub>>,
}

/// What all stages of an attempt share.
pub(super) struct AttemptContext<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) spec: Box<AttemptSpec>,
    pub(super) files: &'a AttemptFiles,
    pub(super) id: String,
    pub(super) started_at: Timestamp,
    /// Shared with the task that starts the shim.
    pub(super) journal: Arc<Mutex<Journal>>,
    pub(super) disk: DiskFaults,
}

/// An attempt whose start is recorded, and none of whose next steps has been taken by this daemon.
pub(super) struct Opened<'a> {
    pub(super) cx: &'a AttemptContext<'a>,
    pub(super) log: Reopened,
}

/// Why an attempt cannot be recorded or read.
#[derive(Debug)]
pub(super) enum OpenError {
    Failed(AttemptFailure),
    /// The disk accepts no more writes.
    StorageFailed(Arc<LedgerError>),
    /// No more files can be opened until others are closed.
    TooManyOpenFiles,
}

impl From<AttemptFailure> for OpenError {
    fn from(failure: AttemptFailure) -> Self {
        Self::Failed(failure)
    }
}

impl<'a> AttemptContext<'a> {
    /// Records the attempt before anything happens, or reads the existing record.
    pub(super) fn open(attempt: &'a Attempt, files: &'a AttemptFiles) -> Result<(Self, Reopened), OpenError> {
        // Nothing of the attempt has happened yet, so a write error is not its fault, and the next
        // attempt would fail too. Only a full disk may have space again.
        let fail = |context: &str, error: StoreError| {
            let (StoreError::Write { source, .. } | StoreError::Read { source, .. }) = &error;
            if is_out_of_files(source) {
                return OpenError::TooManyOpenFiles;
            }
            let disk_error = match &error {
                StoreError::Write { path, source } => Some(LedgerError::of_own_file(path, source)),
                StoreError::Read { .. } => None,
            };
            match disk_error {
                Some(disk_error) if !is_full(&disk_error) => OpenError::StorageFailed(Arc::new(disk_error)),
                disk_error => {
                    let reason = format!("{context}: {}", report::chain(&error));
                    OpenError::Failed(match disk_error {
                        Some(_) => AttemptFailure::failed(FailureClass::Agent, format!("{FULL}{reason}")),
                        None => AttemptFailure::bug(reason),
                    })
                }
            }
        };
        let write = |path: PathBuf| |source| StoreError::Write { path, source };
        private::create_private_dir_all(files.dir())
            .map_err(write(files.dir().to_owned()))
            .map_err(|error| fail("cannot create the sessions folder", error))?;
        let record = match AttemptRecord::read(&files.record()) {
            Ok(Some(record)) => record,
            Ok(None) => {
                let record = attempt.record()?;
                private::write_json_atomic_nosync(&files.record(), &record)
                    .map_err(write(files.record()))
                    .map_err(|error| fail("cannot record the attempt", error))?;
                record
            }
            Err(error) => return Err(fail("cannot read the record of the attempt", error)),
        };
        let mut spec = record.kept.ok_or_else(|| {
            AttemptFailure::failed(
                FailureClass::Internal,
                "an older version of Vik wrote the record of the attempt",
            )
        })?;
        if let Some(profile) = attempt.workflow.agents.get(&spec.start.stage.agent) {
            spec.profile.env = profile.env.clone();
        }
        let mut journal =
            Journal::open(&files.journal()).map_err(|error| fail("cannot open the journal", error))?;
        if journal.steps().is_empty() {
            journal
                .record(Step::AttemptStarted { boot_id: boot_id() })
                .map_err(|error| fail("cannot start the journal", error))?;
        }
        let sent = journal.messages().map(|message| message.id).collect();
        attempt.commands.mark_sent(&sent);
        let log = open_log(files, &spec).map_err(|error| fail("cannot open the session log", error))?;
        failpoint::reach("begun");
        let cx = Self {
            attempt,
            spec,
            files,
            id: attempt.start.attempt_id.to_string(),
            started_at: record.started_at,
            journal: Arc::new(Mutex::new(journal)),
            disk: DiskFaults::default(),
        };
        cx.show_steering();
        Ok((cx, log))
    }

    pub(super) fn host(&self) -> &'a Host {
        &self.attempt.host
    }

    pub(super) fn start(&self) -> &Start {
        &self.spec.start
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shared_journal(&self) -> Arc<Mutex<Journal>> {
        Arc::clone(&self.journal)
    }

    /// Returns the failure of an attempt whose lease is lost. It must not take another step: another
    /// worker may have started it again.
    pub(super) fn check_lease(&self) -> Result<(), AttemptFailure> {
        match self.attempt.commands.is_lease_lost() {
            true => Err(StopCause::LeaseLost.failure()),
            false => Ok(()),
        }
    }

    /// Writes a step to the journal before it happens.
    ///
    /// # Errors
    /// When it cannot be written, or the lease is lost. Then it must not happen.
    pub(super) fn note(&self, step: Step) -> Result<(), AttemptFailure> {
        self.check_lease()?;
        self.note_end(step)
    }

    /// Writes a step to the journal that ends something, also after the lease is lost.
    pub(super) fn note_end(&self, step: Step) -> Result<(), AttemptFailure> {
        self.journal()
            .record(step)
            .map_err(|error| self.cannot_note(&error))
    }

    /// Calls [`note`](Self::note) and syncs the journal, so that the step survives a crash of the
    /// machine.
    pub(super) async fn note_for_good(&self, step: Step) -> Result<(), AttemptFailure> {
        self.check_lease()?;
        let journal = self.shared_journal();
        let noted = spawn_blocking(move || {
            journal
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .record_durably(step)
        });
        match noted.await {
            Ok(noted) => noted.map_err(|error| self.cannot_note(&error)),
            Err(error) => Err(AttemptFailure::bug(error.to_string())),
        }
    }

    fn cannot_note(&self, error: &StoreError) -> AttemptFailure {
        self.disk.note(error);
        let reason = format!("cannot write the journal: {}", report::chain(error));
        AttemptFailure::bug(reason)
    }

    pub(super) fn context(&self, workdir: &Path) -> Value {
        Value::Object(stage_context(self.host(), self.start(), workdir))
    }
}

impl Attempt {
    /// Puts all processes and all steps of the attempt under its lease.
    pub(super) fn under_lease(mut self) -> Self {
        if let Some(lease) = self.lease.take() {
            self.host = Arc::new(self.host.under_lease(lease.clone()));
            self.commands.set_lease(lease);
        }
        self
    }

    /// Returns the record of an attempt that starts now.
    fn record(&self) -> Result<AttemptRecord, AttemptFailure> {
        let mut start = (*self.start).clone();
        let profile = self.workflow.agents.get(&start.stage.agent).ok_or_else(|| {
            let reason = format!("unknown agent `{}`", start.stage.agent);
            AttemptFailure::failed(FailureClass::Usage, reason)
        })?;
        let asks = asks_before_calls(&start, profile);
        // Another attempt may work in the same workspace, and would hold the issue.
        let durable = durable::spec_of(&self.workflow).filter(|_| !start.stage.parallel);
        let refused = start.resume.take_if(|resume| {
            !vik_agents::driver(profile.runtime).is_valid_session_id(&resume.provider_session_id)
        });
        Ok(AttemptRecord {
            schema: 2,
            run_id: start.run,
            session_id: start.attempt_id,
            issue_id: start.issue.id.clone(),
            issue_title: start.issue.title.to_string(),
            issue_state: start.issue.state.to_string(),
            stage: start.stage.name.clone(),
            agent: start.stage.agent.clone(),
            runtime: profile.runtime.as_str().to_owned(),
            model: profile.model.clone(),
            attempt: start.attempt,
            started_at: Timestamp::now(),
            workdir: self.host.layout.issue_dir(&start.issue.id),
            kept: Some(Box::new(AttemptSpec {
                start,
                profile: vik_core::workflow::AgentProfile {
                    env: std::collections::BTreeMap::new(),
                    ..profile.clone()
                },
                after_create: self.workflow.issue.after_create.clone(),
                create_timeout: self.workflow.issue.hook_timeout,
                create_in_sandbox: self.workflow.issue.hooks_in_sandbox,
                create_secrets: self.workflow.issue.hook_secrets.clone(),
                resume_refused: refused.map(|resume| resume.attempt_id),
                not_steerable_because: not_steerable_because(profile, asks),
                durable,
            })),
        })
    }
}

/// Opens the session log. A new log starts with the origin of its conversation.
fn open_log(files: &AttemptFiles, spec: &AttemptSpec) -> Result<Reopened, StoreError> {
    let mut opened = if files.log().exists() {
        SessionLog::reopen(&files.log())?
    } else {
        Reopened {
            log: SessionLog::create(&files.log())?,
            agent_events: 0,
            is_ended: false,
        }
    };
    let log = &mut opened.log;
    if log.is_empty() {
        let now = Timestamp::now();
        if let Some(resume) = &spec.start.resume {
            let resumed = Event::Resumed {
                resumed_from: resume.attempt_id,
                provider_session_id: resume.provider_session_id.as_str().into(),
            };
            log.push(now, &resumed)?;
        }
        if let Some(session) = spec.resume_refused {
            let refused = Event::ResumeFailed {
                resumed_from: session,
                reason: REFUSED.into(),
            };
            log.push(now, &refused)?;
        }
        log.flush()?;
    }
    Ok(opened)
}

/// The reason in the log when no resume was attempted.
const REFUSED: &str =
    "the earlier attempt did not report a valid conversation id for this agent: starting a new conversation";

/// Returns the failure for a fault of Vik, with what it was doing.
pub(super) fn broken(context: &str, error: &dyn std::error::Error) -> AttemptFailure {
    AttemptFailure::bug(format!("{context}: {}", report::chain(error)))
}
