//! One attempt, from the record of its start to `after_run`, or from the step at which an earlier
//! daemon left it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::task::spawn_blocking;
use vik_agents::Conclusion;
use vik_base::{failpoint, report};
use vik_core::attempt::Start;
use vik_core::ended::Ended;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::workflow::Workflow;
use vik_proc::{ExitRecord, FileLock, identity::boot_id};
use vik_store::ledger::LedgerError;
use vik_store::{
    AttemptFailure, AttemptFiles, AttemptRecord, AttemptSpec, Journal, Reopened, ResumePoint, SessionLog,
    Step, StoreError,
};
use vik_workflow::Prompts;
use vik_workspace::{Fingerprint, Workspace, fs as private};

use super::commands::AttemptCommands;
use super::context::stage_context;
use super::finish::{AttemptEnd, Finish};
use super::full::{FULL, is_full};
use super::outputs::OutputSummary;
use super::updates::UpdateSender;
use crate::hooks::Hook;
use crate::host::Host;
use crate::secrets::Values;

#[derive(Clone, Debug)]
pub struct Attempt {
    pub host: Arc<Host>,
    /// The workflow at the start. Later edits do not affect the attempt.
    pub workflow: Arc<Workflow>,
    pub prompts: Arc<Prompts>,
    pub start: Box<Start>,
    pub commands: AttemptCommands,
    pub updates: UpdateSender,
    /// How long its agent may live without a daemon.
    pub orphan_grace: Duration,
}

/// Why an attempt cannot proceed.
#[derive(Debug)]
pub(super) enum Abort {
    Failed(AttemptFailure),
    /// The attempt was detached, and its agent lives on.
    Detached,
    /// The disk accepts no more writes.
    StorageFailed(Arc<LedgerError>),
}

impl From<AttemptFailure> for Abort {
    fn from(failure: AttemptFailure) -> Self {
        Self::Failed(failure)
    }
}

/// The state of an attempt while it runs.
pub(super) struct AttemptRunner<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) spec: Box<AttemptSpec>,
    pub(super) files: &'a AttemptFiles,
    pub(super) id: String,
    pub(super) started_at: Timestamp,
    /// Shared with the task that starts the shim.
    journal: Arc<Mutex<Journal>>,
    pub(super) log: Option<SessionLog>,
    /// The number of agent events that an earlier daemon wrote to the log.
    pub(super) events_written: u64,
    log_is_ended: bool,
    pub(super) conclusion: Conclusion,
    pub(super) exit: Option<ExitRecord>,
    /// The proof that the process tree has ended.
    pub(super) proof: Option<&'static str>,
    /// Whether the agent's own program was started.
    pub(super) agent_ran: bool,
    /// Whether the agent's model answered, once all its output was read.
    pub(super) answered: Option<bool>,
    /// Why the earlier conversation was not resumed.
    pub(super) resume_failure: Option<String>,
    /// Whether the workspace is being created.
    pub(super) preparing: bool,
    pub(super) changed: Option<bool>,
    /// Set as soon as there is a folder for hooks to run in.
    pub(super) workdir: Option<PathBuf>,
    /// The handle of the same folder, as an agent may put another folder at its path.
    pub(super) folder: Option<Workspace>,
    /// Held until no process of the attempt is alive, including `after_run`.
    pub(super) lock: Option<Arc<FileLock>>,
    /// The secrets that the attempt needs, once they are resolved.
    pub(super) secrets: Option<Values>,
    /// The results of the outputs that the agent requested.
    pub(super) output_summaries: Vec<OutputSummary>,
    /// Set when the disk is broken. The attempt then gets no end.
    pub(super) storage_failure: OnceLock<Arc<LedgerError>>,
    /// Set when the disk was full. This fails the attempt, and the daemon continues.
    pub(super) full: OnceLock<()>,
}

/// Runs the attempt, or resumes it where an earlier daemon left it. Returns a report in every case,
/// unless the attempt was detached or the storage failed.
pub async fn run(attempt: Attempt) -> Finish {
    let files = attempt.host.attempt_files(&attempt.start);
    match AttemptRunner::new(&attempt, &files) {
        Ok(runner) => runner.run().await,
        Err(Abort::Failed(failure)) => Finish::Ended(Box::new(
            AttemptEnd::broken(&attempt.host, &attempt.start, failure).await,
        )),
        Err(Abort::Detached) => Finish::Detached,
        Err(Abort::StorageFailed(error)) => Finish::StorageFailed(error),
    }
}

impl<'a> AttemptRunner<'a> {
    /// Records the attempt before anything happens, or reads the existing record.
    fn new(attempt: &'a Attempt, files: &'a AttemptFiles) -> Result<Self, Abort> {
        // Nothing of the attempt has happened yet, so a write error is not its fault, and the next
        // attempt would fail too. Only a full disk may have space again.
        let fail = |context: &str, error: StoreError| {
            let disk_error = match &error {
                StoreError::Write { path, source } => Some(LedgerError::of_own_file(path, source)),
                StoreError::Read { .. } => None,
            };
            match disk_error {
                Some(disk_error) if !is_full(&disk_error) => Abort::StorageFailed(Arc::new(disk_error)),
                disk_error => {
                    let reason = format!("{context}: {}", report::chain(&error));
                    Abort::Failed(match disk_error {
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
        let log = open_log(files, &spec).map_err(|error| fail("cannot open the session log", error))?;
        failpoint::reach("begun");
        Ok(Self {
            attempt,
            spec,
            files,
            id: attempt.start.attempt_id.to_string(),
            started_at: record.started_at,
            journal: Arc::new(Mutex::new(journal)),
            log: Some(log.log),
            events_written: log.agent_events,
            log_is_ended: log.is_ended,
            conclusion: Conclusion::default(),
            exit: None,
            proof: None,
            agent_ran: false,
            answered: None,
            resume_failure: None,
            preparing: false,
            changed: None,
            workdir: None,
            folder: None,
            lock: None,
            secrets: None,
            output_summaries: Vec::new(),
            storage_failure: OnceLock::new(),
            full: OnceLock::new(),
        })
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

    /// Writes a step to the journal before it happens.
    pub(super) fn note(&self, step: Step) -> Result<(), AttemptFailure> {
        self.journal()
            .record(step)
            .map_err(|error| self.cannot_note(&error))
    }

    /// Calls [`note`](Self::note) and syncs the journal, so that the step survives a crash of the
    /// machine.
    pub(super) async fn note_for_good(&self, step: Step) -> Result<(), AttemptFailure> {
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
        self.note_disk_error(error);
        let reason = format!("cannot write the journal: {}", report::chain(error));
        AttemptFailure::bug(reason)
    }

    /// Records whether an error comes from the disk. Returns whether the disk is broken.
    pub(super) fn note_disk_error(&self, error: &StoreError) -> bool {
        match disk_of(error) {
            Some(disk) if is_full(&disk) => {
                let _ = self.full.set(());
            }
            Some(disk) => {
                let _ = self.storage_failure.set(disk);
            }
            None => {}
        }
        self.storage_failure.get().is_some()
    }

    async fn run(mut self) -> Finish {
        let plan = self.journal().plan(&boot_id());
        let ended = match plan {
            ResumePoint::Over { ended } => {
                self.close_log(&ended);
                if self.storage_failure.get().is_none() && self.needs_after_run(&ended) {
                    // If this fails, `after_run` reports the error.
                    let _ = self.resolve_secrets().await;
                    self.restore_conclusion().await;
                }
                *ended
            }
            plan => {
                let failure = match self.execute(plan).await {
                    Ok(()) => None,
                    Err(Abort::Failed(failure)) => Some(failure),
                    Err(Abort::Detached) => {
                        return self
                            .storage_failure
                            .take()
                            .map_or(Finish::Detached, Finish::StorageFailed);
                    }
                    Err(Abort::StorageFailed(error)) => return Finish::StorageFailed(error),
                };
                let failed = failure
                    .as_ref()
                    .filter(|failure| failure.outcome == Outcome::Failed);
                if let Some(failure) = failed
                    && self.storage_failure.get().is_none()
                    && self.disk_fails().await
                    && self.storage_failure.get().is_some()
                    && !matches!(failure.class, Some(FailureClass::Hook | FailureClass::Verify))
                {
                    self.excuse_agent();
                }
                if let Some(error) = self.storage_failure.take() {
                    return Finish::StorageFailed(error);
                }
                let failure = match failure {
                    Some(failure) if self.full.get().is_some() => Some(self.failed_by_full_disk(failure)),
                    failure => failure,
                };
                let ended = self.conclude(failure);
                if let Err(failure) = self.note(Step::over(&ended)) {
                    tracing::error!(
                        session = self.id,
                        error = failure.reason,
                        "cannot write the end of the journal"
                    );
                    if let Some(error) = self.storage_failure.take() {
                        return Finish::StorageFailed(error);
                    }
                }
                self.remove_base_snapshot();
                self.close_log(&ended);
                ended
            }
        };
        self.remove_output_file();
        failpoint::reach("log_ended");
        if self.storage_failure.get().is_none() && self.needs_after_run(&ended) {
            self.after_run(&ended).await;
        }
        if let Some(error) = self.storage_failure.take() {
            // The next daemon runs `after_run`.
            return Finish::StorageFailed(error);
        }
        Finish::Ended(Box::new(AttemptEnd {
            ended,
            log: self.files.log(),
        }))
    }

    /// Notes in the journal, if there is still space, that the agent is not the cause of the
    /// failure. The next daemon runs the scripts again.
    fn excuse_agent(&self) {
        let failure = AttemptFailure::of(Outcome::Lost, "the disk refused further writes");
        let _ = self.journal().record(Step::Stopping { trouble: failure });
    }

    /// Returns whether `after_run` is still to run: it follows every end except cancellation, if
    /// there was a workspace.
    fn needs_after_run(&self, ended: &Ended) -> bool {
        ended.result.outcome != Outcome::Cancelled
            && self.start().stage.after_run.is_some()
            && self.journal().had_workspace()
            && self.script_result(Hook::AfterRun.as_str()).is_none()
    }

    async fn execute(&mut self, plan: ResumePoint) -> Result<(), Abort> {
        let (workdir, before, result) = match plan {
            ResumePoint::Attach {
                boot_id,
                shim,
                agent,
                before,
                stopping,
            } => {
                // An attempt whose secrets cannot be masked must stop.
                let unresolved = self.resolve_secrets().await.err();
                let result = self
                    .recover_agent(&boot_id, shim, agent, stopping.or(unresolved))
                    .await;
                if let Err(Abort::Detached) = result {
                    return result;
                }
                let entered = match self.lock_workspace().await {
                    Ok(()) => self.reenter_workspace().await,
                    Err(failure) => Err(failure),
                };
                match entered {
                    Ok(workdir) => (workdir, before.map(Fingerprint), result),
                    // The result of the agent takes precedence over the state of its folder.
                    Err(failure) => return result.and(Err(failure.into())),
                }
            }
            ResumePoint::Rebooted => {
                self.exchange_login().await;
                self.proof = Some(vik_proc::Proof::Reboot.name());
                let reason = "the machine was rebooted before the agent started";
                return Err(AttemptFailure::of(Outcome::Lost, reason).into());
            }
            ResumePoint::Prepare | ResumePoint::Over { .. } => {
                self.resolve_secrets().await?;
                self.lock_workspace().await?;
                failpoint::reach("locked");
                let workdir = self.workspace().await?;
                failpoint::reach("workspace_ready");
                let context = self.context(&workdir);
                if let Some(source) = self.start().stage.before_run.clone() {
                    self.hook(Hook::BeforeRun, &source, &workdir, &context).await?;
                }
                self.prompt(&workdir, &context).await?;
                failpoint::reach("prompt_ready");
                self.snapshot_before().await?;
                failpoint::reach("base_taken");
                let before = self.fingerprint(&workdir).await;
                let result = self.agent(&workdir, before).await;
                (workdir, before, result)
            }
        };
        failpoint::reach("agent_ended");
        let result = match result {
            Err(Abort::Detached | Abort::StorageFailed(_)) => return result,
            result => self.check_changes(result).await,
        };
        failpoint::reach("changes_traced");
        let result = match result {
            Ok(()) => self.run_acceptance(&workdir).await,
            aborted => aborted,
        };
        if let Err(Abort::Detached) = result {
            return result;
        }
        let after = self.fingerprint(&workdir).await;
        self.changed = before.zip(after).map(|(before, after)| before != after);
        result
    }

    pub(super) fn context(&self, workdir: &std::path::Path) -> Value {
        Value::Object(stage_context(self.host(), self.start(), workdir))
    }

    fn close_log(&mut self, ended: &Ended) {
        if self.log_is_ended {
            return;
        }
        let log = match self.log.take() {
            Some(log) => Ok(log),
            None => SessionLog::reopen(&self.files.log()).map(|reopened| reopened.log),
        };
        let closed = log.and_then(|mut log| {
            self.write_own_events(ended, &mut log)?;
            log.push(Timestamp::now(), &Event::Ended(ended.clone()))?;
            log.flush()
        });
        if let Err(error) = closed {
            self.note_disk_error(&error);
            let error = report::chain(&error);
            tracing::error!(session = self.id, error, "cannot write the end of a session log");
        }
    }
}

impl Attempt {
    /// Returns the record of an attempt that starts now.
    fn record(&self) -> Result<AttemptRecord, AttemptFailure> {
        let mut start = (*self.start).clone();
        let profile = self.workflow.agents.get(&start.stage.agent).ok_or_else(|| {
            let reason = format!("unknown agent `{}`", start.stage.agent);
            AttemptFailure::failed(FailureClass::Usage, reason)
        })?;
        let refused = start
            .resume
            .take_if(|resume| !vik_agents::is_valid_session_id(profile.runtime, &resume.provider_session_id));
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

/// Returns the disk error in `error`, if it is one.
fn disk_of(error: &StoreError) -> Option<Arc<LedgerError>> {
    match error {
        StoreError::Write { path, source } => LedgerError::of_disk(path, source).map(Arc::new),
        StoreError::Read { .. } => None,
    }
}
