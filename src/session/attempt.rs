//! One attempt, from the record of its start to `after_run`; or from wherever an earlier daemon left it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use vik_agents::Conclusion;
use vik_core::event::{Ended, Event};
use vik_core::machine::AttemptResult;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::Start;
use vik_core::workflow::Workflow;
use vik_proc::{ExitRecord, FileLock, identity::boot_id};
use vik_store::ledger::LedgerError;
use vik_store::{
    AttemptFailure, AttemptFiles, AttemptRecord, AttemptSpec, Journal, Plan, Reopened, SessionLog, Step,
    StoreError,
};

use super::approval::AttemptUpdate;
use super::commands::AttemptCommands;
use super::context::stage_context;
use super::full::{FULL, is_full};
use super::live::Live;
use super::outputs::OutputSummary;
use crate::crash;
use crate::hooks::Hook;
use crate::host::Host;
use crate::report;
use crate::secrets::Values;
use crate::workflow_file::Prompts;
use crate::workspace::{Fingerprint, Workspace, fs as private};

/// An attempt to be made.
#[derive(Debug)]
pub struct Attempt {
    /// Where it runs.
    pub host: Arc<Host>,
    /// The workflow it begins with; what it needs of that it keeps, whatever is edited meanwhile.
    pub workflow: Arc<Workflow>,
    /// The texts of its prompt files.
    pub prompts: Arc<Prompts>,
    /// What to start.
    pub start: Box<Start>,
    /// What it tells while it runs.
    pub live: Live,
    /// What it is told.
    pub commands: AttemptCommands,
    /// Where it says what is new of it.
    pub updates: mpsc::UnboundedSender<AttemptUpdate>,
    /// How long its agent lives without a daemon.
    pub orphan_grace: Duration,
}

/// What becomes of an attempt that was taken up.
#[derive(Clone, Debug)]
pub enum Finish {
    /// It ended.
    Ended(Box<AttemptEnd>),
    /// It was told to let go of its agent, which lives on: the next daemon takes it up.
    Detached,
    /// The disk takes nothing more of it: it stands as it is, and the next daemon takes it up.
    StorageFailed(Arc<LedgerError>),
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// For the scheduler.
    pub report: AttemptResult,
    /// The last line of its log.
    pub ended: Ended,
    /// Its log.
    pub log: PathBuf,
}

/// Why an attempt does not go on.
#[derive(Debug)]
pub(super) enum Abort {
    /// It did not come to a good end.
    Failed(AttemptFailure),
    /// Its agent was left alive.
    Detached,
    /// The disk takes nothing more.
    Unkept(Arc<LedgerError>),
}

impl From<AttemptFailure> for Abort {
    fn from(trouble: AttemptFailure) -> Self {
        Self::Failed(trouble)
    }
}

/// What is known of an attempt while it goes on.
pub(super) struct AttemptRunner<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) spec: Box<AttemptSpec>,
    pub(super) files: &'a AttemptFiles,
    pub(super) id: String,
    pub(super) started_at: Timestamp,
    /// Shared with the task that starts the shim.
    journal: Arc<Mutex<Journal>>,
    pub(super) log: Option<SessionLog>,
    /// How many of the agent's events the log has from an earlier daemon.
    pub(super) events_written: u64,
    log_is_ended: bool,
    pub(super) conclusion: Conclusion,
    pub(super) exit: Option<ExitRecord>,
    /// How the end of the process tree is known.
    pub(super) proof: Option<&'static str>,
    /// Whether the agent's own program was started.
    pub(super) agent_ran: bool,
    /// Whether the agent's model answered, once all its output was read.
    pub(super) answered: Option<bool>,
    /// Why the earlier conversation was not gone on with.
    pub(super) resume_failure: Option<String>,
    /// Whether the workspace is being made.
    pub(super) preparing: bool,
    pub(super) changed: Option<bool>,
    /// Set as soon as there is a folder for hooks to run in.
    pub(super) workdir: Option<PathBuf>,
    /// The same folder, held open: an agent may put another in its place.
    pub(super) folder: Option<Workspace>,
    /// Held until nothing of the attempt lives, `after_run` included.
    pub(super) lock: Option<Arc<FileLock>>,
    /// The secrets that it needs, once they were looked up.
    pub(super) secrets: Option<Values>,
    /// What became of what its agent asked for.
    pub(super) output_summaries: Vec<OutputSummary>,
    /// Set when the disk is broken: no end is made of that.
    pub(super) storage_failure: OnceLock<Arc<LedgerError>>,
    /// Set when the disk was full: that ends the attempt, and the daemon goes on.
    pub(super) full: OnceLock<()>,
}

/// The files of an attempt.
pub fn files(host: &Host, start: &Start) -> AttemptFiles {
    let dir = host.layout.issue_sessions_dir(&start.issue.id);
    AttemptFiles::new(&dir, &start.stage.name, start.attempt_id)
}

/// Makes the attempt, or takes it up where an earlier daemon left it. Whatever happens, it ends with a report, unless it
/// was told to detach.
pub async fn run(attempt: Attempt) -> Finish {
    let files = files(&attempt.host, &attempt.start);
    match AttemptRunner::new(&attempt, &files) {
        Ok(work) => work.run().await,
        Err(Abort::Failed(trouble)) => Finish::Ended(Box::new(
            AttemptEnd::broken(&attempt.host, &attempt.start, trouble).await,
        )),
        Err(Abort::Detached) => Finish::Detached,
        Err(Abort::Unkept(error)) => Finish::StorageFailed(error),
    }
}

impl<'a> AttemptRunner<'a> {
    /// Records what is about to happen, before anything does; or reads what was recorded.
    fn new(attempt: &'a Attempt, files: &'a AttemptFiles) -> Result<Self, Abort> {
        // Nothing of the attempt has happened yet: what cannot be written is no fault of it, and no next one fares better. Only
        // a full disk may have room again.
        let fail = |what: &str, error: StoreError| {
            let own = match &error {
                StoreError::Write { path, source } => Some(LedgerError::of_own_file(path, source)),
                StoreError::Read { .. } => None,
            };
            match own {
                Some(own) if !is_full(&own) => Abort::Unkept(Arc::new(own)),
                own => {
                    let full = if own.is_some() { FULL } else { "" };
                    let reason = format!("{full}{what}: {}", report::chain(&error));
                    Abort::Failed(AttemptFailure::failed(FailureClass::Agent, reason))
                }
            }
        };
        let write = |path: PathBuf| |source| StoreError::Write { path, source };
        private::create_private_dir_all(files.dir())
            .map_err(write(files.dir().to_owned()))
            .map_err(|error| fail("cannot make the sessions folder", error))?;
        let record = match AttemptRecord::read(&files.record()) {
            Ok(Some(record)) => record,
            Ok(None) => {
                let record = attempt.record()?;
                private::write_json_soon(&files.record(), &record)
                    .map_err(write(files.record()))
                    .map_err(|error| fail("cannot record the attempt", error))?;
                record
            }
            Err(error) => return Err(fail("cannot read the record of the attempt", error)),
        };
        let mut kept = record.kept.ok_or_else(|| {
            AttemptFailure::failed(
                FailureClass::Agent,
                "the record of the attempt is of an older version",
            )
        })?;
        if let Some(profile) = attempt.workflow.agents.get(&kept.start.stage.agent) {
            kept.profile.env = profile.env.clone();
        }
        let mut journal =
            Journal::open(&files.journal()).map_err(|error| fail("cannot open the journal", error))?;
        if journal.steps().is_empty() {
            journal
                .note(Step::Begun { boot_id: boot_id() })
                .map_err(|error| fail("cannot begin the journal", error))?;
        }
        let log = open_log(files, &kept).map_err(|error| fail("cannot open the session log", error))?;
        crash::point("begun");
        Ok(Self {
            attempt,
            spec: kept,
            files,
            id: attempt.start.attempt_id.to_string(),
            started_at: record.started_at,
            journal: Arc::new(Mutex::new(journal)),
            log: Some(log.log),
            events_written: log.agents,
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

    /// Notes a step before it is taken.
    pub(super) fn note(&self, step: Step) -> Result<(), AttemptFailure> {
        self.journal()
            .note(step)
            .map_err(|error| self.cannot_note(&error))
    }

    /// [`note`](Self::note), so that it stays when the machine dies.
    pub(super) async fn note_for_good(&self, step: Step) -> Result<(), AttemptFailure> {
        let journal = self.shared_journal();
        let noted = spawn_blocking(move || {
            journal
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .note_for_good(step)
        });
        match noted.await {
            Ok(noted) => noted.map_err(|error| self.cannot_note(&error)),
            Err(error) => Err(AttemptFailure::failed(FailureClass::Agent, error.to_string())),
        }
    }

    fn cannot_note(&self, error: &StoreError) -> AttemptFailure {
        self.note_disk_error(error);
        let reason = format!("cannot keep the journal: {}", report::chain(error));
        AttemptFailure::failed(FailureClass::Agent, reason)
    }

    /// Remembers what an error says of the disk. Returns whether the disk is broken.
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
        let (ended, report) = match plan {
            Plan::Over { ended, report } => {
                self.close_log(&ended, &report);
                if self.storage_failure.get().is_none() && self.owes_after_run(&ended) {
                    // Where it fails, `after_run` says so.
                    let _ = self.resolve_secrets().await;
                    self.recall().await;
                }
                (*ended, *report)
            }
            plan => {
                let trouble = match self.pursue(plan).await {
                    Ok(()) => None,
                    Err(Abort::Failed(trouble)) => Some(trouble),
                    Err(Abort::Detached) => {
                        return self
                            .storage_failure
                            .take()
                            .map_or(Finish::Detached, Finish::StorageFailed);
                    }
                    Err(Abort::Unkept(error)) => return Finish::StorageFailed(error),
                };
                let failed = trouble
                    .as_ref()
                    .filter(|trouble| trouble.outcome == Outcome::Failed);
                if let Some(trouble) = failed
                    && self.storage_failure.get().is_none()
                    && self.disk_fails().await
                    && self.storage_failure.get().is_some()
                    && !matches!(trouble.class, Some(FailureClass::Hook | FailureClass::Verify))
                {
                    self.excuse_agent();
                }
                if let Some(error) = self.storage_failure.take() {
                    return Finish::StorageFailed(error);
                }
                let trouble = match trouble {
                    Some(trouble) if self.full.get().is_some() => Some(self.failed_by_full_disk(trouble)),
                    trouble => trouble,
                };
                let (ended, report) = self.conclude(trouble);
                let over = Step::Over {
                    ended: Box::new(ended.clone()),
                    report: Box::new(report.clone()),
                };
                if let Err(trouble) = self.note(over) {
                    tracing::error!(
                        session = self.id,
                        error = trouble.reason,
                        "the journal stays without its end"
                    );
                    if let Some(error) = self.storage_failure.take() {
                        return Finish::StorageFailed(error);
                    }
                }
                self.forget_base();
                self.close_log(&ended, &report);
                (ended, report)
            }
        };
        self.forget_outputs();
        crash::point("log_ended");
        if self.storage_failure.get().is_none() && self.owes_after_run(&ended) {
            self.after_run(&ended).await;
        }
        if let Some(error) = self.storage_failure.take() {
            // The next daemon does what is still owed.
            return Finish::StorageFailed(error);
        }
        Finish::Ended(Box::new(AttemptEnd {
            report,
            ended,
            log: self.files.log(),
        }))
    }

    /// Notes, should there be room for so little, that the agent is not to blame for how it ended. Scripts are run again.
    fn excuse_agent(&self) {
        let trouble = AttemptFailure::of(Outcome::Lost, "the disk took nothing more");
        let _ = self.journal().note(Step::Stopping { trouble });
    }

    /// `after_run` follows every end but cancellation, where there was a workspace.
    fn owes_after_run(&self, ended: &Ended) -> bool {
        ended.outcome != Outcome::Cancelled
            && self.start().stage.after_run.is_some()
            && self.journal().had_workspace()
            && self.ended(Hook::AfterRun.as_str()).is_none()
    }

    async fn pursue(&mut self, plan: Plan) -> Result<(), Abort> {
        let (workdir, before, result) = match plan {
            Plan::TakeUp {
                boot_id,
                shim,
                agent,
                before,
                stopping,
            } => {
                // What cannot be masked must not go on.
                let unknown = self.resolve_secrets().await.err();
                let result = self
                    .recover_agent(&boot_id, shim, agent, stopping.or(unknown))
                    .await;
                if let Err(Abort::Detached) = result {
                    return result;
                }
                let entered = match self.lock_workspace().await {
                    Ok(()) => self.enter_again().await,
                    Err(trouble) => Err(trouble),
                };
                match entered {
                    Ok(workdir) => (workdir, before.map(Fingerprint), result),
                    // What came of the agent says more than what became of its folder.
                    Err(trouble) => return result.and(Err(trouble.into())),
                }
            }
            Plan::Rebooted => {
                self.exchange_login().await;
                self.proof = Some(vik_proc::Proof::Reboot.name());
                let reason = "the machine was started anew before the agent ran";
                return Err(AttemptFailure::of(Outcome::Lost, reason).into());
            }
            Plan::Prepare | Plan::Over { .. } => {
                self.resolve_secrets().await?;
                self.lock_workspace().await?;
                crash::point("locked");
                let workdir = self.workspace().await?;
                crash::point("workspace_ready");
                let context = self.context(&workdir);
                if let Some(source) = self.start().stage.before_run.clone() {
                    self.hook(Hook::BeforeRun, &source, &workdir, &context).await?;
                }
                self.prompt(&workdir, &context).await?;
                crash::point("prompt_ready");
                self.snapshot_before().await?;
                crash::point("base_taken");
                let before = self.fingerprint(&workdir).await;
                let result = self.agent(&workdir, before).await;
                (workdir, before, result)
            }
        };
        crash::point("agent_ended");
        let result = match result {
            Err(Abort::Detached | Abort::Unkept(_)) => return result,
            result => self.judge_changes(result).await,
        };
        crash::point("changes_traced");
        let result = match result {
            Ok(()) => self.accept(&workdir).await,
            cut => cut,
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

    fn close_log(&mut self, ended: &Ended, report: &AttemptResult) {
        if self.log_is_ended {
            return;
        }
        let log = match self.log.take() {
            Some(log) => Ok(log),
            None => SessionLog::reopen(&self.files.log()).map(|again| again.log),
        };
        let closed = log.and_then(|mut log| {
            self.own_lines(ended, report, &mut log)?;
            log.push(Timestamp::now(), &Event::Ended(ended.clone()))?;
            log.flush()
        });
        if let Err(error) = closed {
            self.note_disk_error(&error);
            let error = report::chain(&error);
            tracing::error!(session = self.id, error, "a session log stays without its end");
        }
    }
}

impl Attempt {
    /// The record of an attempt that begins now.
    fn record(&self) -> Result<AttemptRecord, AttemptFailure> {
        let mut start = (*self.start).clone();
        let profile = self.workflow.agents.get(&start.stage.agent).ok_or_else(|| {
            let reason = format!("there is no agent `{}`", start.stage.agent);
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

/// Opens the session log; a new one begins with where its conversation comes from.
fn open_log(files: &AttemptFiles, kept: &AttemptSpec) -> Result<Reopened, StoreError> {
    let mut opened = if files.log().exists() {
        SessionLog::reopen(&files.log())?
    } else {
        Reopened {
            log: SessionLog::create(&files.log())?,
            agents: 0,
            is_ended: false,
        }
    };
    let log = &mut opened.log;
    if log.is_empty() {
        let now = Timestamp::now();
        if let Some(resume) = &kept.start.resume {
            let resumed = Event::Resumed {
                resumed_from: resume.attempt_id,
                provider_session_id: resume.provider_session_id.as_str().into(),
            };
            log.push(now, &resumed)?;
        }
        if let Some(session) = kept.resume_refused {
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

/// Why a conversation was not even asked for.
const REFUSED: &str =
    "what the earlier attempt told is no id of a conversation with this agent: it began anew";

/// The disk, where it is that which fails.
fn disk_of(error: &StoreError) -> Option<Arc<LedgerError>> {
    match error {
        StoreError::Write { path, source } => LedgerError::of_disk(path, source).map(Arc::new),
        StoreError::Read { .. } => None,
    }
}
