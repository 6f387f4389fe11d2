//! One attempt, from the record of its start to `after_run`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use vik_agents::Conclusion;
use vik_core::event::{Ended, Event};
use vik_core::ids::{IssueId, SessionId};
use vik_core::limits::Spend;
use vik_core::machine::Report;
use vik_core::outcome::{CostSource, FailureClass, Outcome};
use vik_core::scheduler::Start;
use vik_core::workflow::{AgentProfile, Price, PromptSource, Workflow};
use vik_proc::{ExitRecord, FileLock, Graces};
use vik_store::{AttemptFiles, AttemptRecord, SessionLog};

use super::context::{issue_context, stage_context};
use super::live::Live;
use super::orders::Orders;
use crate::daemon::Shims;
use crate::hooks::{self, Hook, HookError};
use crate::host::{Host, millis};
use crate::report;
use crate::template::{self, Part};
use crate::workspace::{self, Prepared, Workspace, fs as private};

/// How often a locked workspace is looked at.
const LOCK_LOOK: Duration = Duration::from_millis(50);

/// An attempt to be made.
#[derive(Debug)]
pub struct Attempt {
    /// Where it runs.
    pub host: Arc<Host>,
    /// The workflow it keeps, whatever is edited meanwhile.
    pub workflow: Arc<Workflow>,
    /// What to start.
    pub start: Box<Start>,
    /// What it tells while it runs.
    pub live: Live,
    /// What it is told.
    pub orders: Orders,
    /// Where it says what it has spent, each time that changes.
    pub spent: mpsc::UnboundedSender<Spent>,
    /// How long its agent lives without a daemon.
    pub orphan_grace: Duration,
    /// Where its shim is noted while it lives.
    pub shims: Shims,
}

/// What an attempt has spent so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The issue it is for.
    pub issue: IssueId,
    /// The attempt.
    pub session: SessionId,
    /// The total so far.
    pub spend: Spend,
}

/// What becomes of an attempt that was taken up.
#[derive(Clone, Debug)]
pub enum Finish {
    /// It ended.
    Ended(Box<AttemptEnd>),
    /// It was told to let go of its agent, which lives on: the next daemon takes it up.
    Detached,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// For the scheduler.
    pub report: Report,
    /// The last line of its log.
    pub ended: Ended,
    /// Its log.
    pub log: PathBuf,
}

/// Why an attempt did not come to a good end.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) outcome: Outcome,
    pub(super) class: Option<FailureClass>,
    pub(super) reason: String,
    pub(super) feedback: Option<String>,
}

impl Trouble {
    pub(super) fn failed(class: FailureClass, reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Failed,
            class: Some(class),
            reason: reason.into(),
            feedback: None,
        }
    }

    pub(super) fn of(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            class: None,
            reason: reason.into(),
            feedback: None,
        }
    }

    pub(super) fn hook(error: &HookError) -> Self {
        match error {
            HookError::Cancelled { .. } => Self::of(Outcome::Cancelled, "Vik was stopped"),
            error => Self::failed(FailureClass::Hook, report::chain(error)),
        }
    }
}

/// What is known of an attempt while it goes on.
pub(super) struct Work<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) profile: &'a AgentProfile,
    pub(super) files: &'a AttemptFiles,
    pub(super) id: String,
    pub(super) log: Option<SessionLog>,
    pub(super) conclusion: Conclusion,
    pub(super) exit: Option<ExitRecord>,
    pub(super) changed: Option<bool>,
    /// Set as soon as there is a folder for hooks to run in.
    pub(super) workdir: Option<PathBuf>,
    /// The same folder, held open: an agent may put another in its place.
    pub(super) folder: Option<Workspace>,
    /// Held until nothing of the attempt lives, `after_run` included.
    pub(super) lock: Option<Arc<FileLock>>,
}

/// The files of an attempt.
pub fn files(host: &Host, start: &Start) -> AttemptFiles {
    let dir = host.layout.issue_sessions_dir(&start.issue.id);
    AttemptFiles::new(&dir, &start.stage.name, start.session)
}

/// Makes the attempt, or takes it up where an earlier daemon left it. Whatever happens, it ends with a report, unless it
/// was told to detach.
pub async fn run(attempt: Attempt) -> Finish {
    Finish::Ended(Box::new(make(attempt).await))
}

async fn make(attempt: Attempt) -> AttemptEnd {
    let began = Instant::now();
    let files = files(&attempt.host, &attempt.start);
    let mut work = match Work::begin(&attempt, &files) {
        Ok(work) => work,
        Err(trouble) => return AttemptEnd::of(&files, trouble),
    };
    let trouble = work.go().await.err();
    let ended = work.conclude(trouble.as_ref(), began.elapsed());
    work.close_log(&ended);
    if ended.outcome != Outcome::Cancelled
        && let Some(workdir) = work.workdir.take()
    {
        work.after_run(&workdir, &ended).await;
    }
    let report = Report {
        failure_class: ended.failure_class,
        reason: ended.reason.clone(),
        feedback: trouble.and_then(|trouble| trouble.feedback),
        changed: ended.workspace_changed,
        ..Report::of(ended.outcome)
    };
    AttemptEnd {
        report,
        ended,
        log: files.log(),
    }
}

impl AttemptEnd {
    fn of(files: &AttemptFiles, trouble: Trouble) -> Self {
        let ended = Ended {
            outcome: trouble.outcome,
            failure_class: trouble.class,
            exit_code: None,
            signal: None,
            duration_ms: 0,
            usage: Default::default(),
            cost_usd: None,
            cost_source: CostSource::None,
            reason: Some(trouble.reason),
            last_message: None,
            provider_session_id: None,
            workspace_changed: None,
            proof: None,
        };
        let report = Report {
            failure_class: ended.failure_class,
            reason: ended.reason.clone(),
            ..Report::of(ended.outcome)
        };
        Self {
            report,
            ended,
            log: files.log(),
        }
    }

    /// The task of the attempt itself broke: a bug, but the slot must come free.
    pub fn broken(host: &Host, start: &Start, reason: String) -> Self {
        Self::of(&files(host, start), Trouble::failed(FailureClass::Agent, reason))
    }
}

impl<'a> Work<'a> {
    /// Records what is about to happen, before anything does.
    fn begin(attempt: &'a Attempt, files: &'a AttemptFiles) -> Result<Self, Trouble> {
        let start = &attempt.start;
        let fail = |what: &str, error: &dyn std::error::Error| {
            Trouble::failed(FailureClass::Agent, format!("{what}: {}", report::chain(error)))
        };
        let profile = attempt.workflow.agents.get(&start.stage.agent).ok_or_else(|| {
            Trouble::failed(
                FailureClass::Usage,
                format!("there is no agent `{}`", start.stage.agent),
            )
        })?;
        private::create_private_dir_all(files.dir())
            .map_err(|error| fail("cannot make the sessions folder", &error))?;
        let record = AttemptRecord {
            schema: 1,
            run_id: start.run,
            session_id: start.session,
            issue_id: start.issue.id.clone(),
            issue_title: start.issue.title.to_string(),
            issue_state: start.issue.state.to_string(),
            stage: start.stage.name.clone(),
            agent: start.stage.agent.clone(),
            runtime: profile.runtime.as_str().to_owned(),
            model: profile.model.clone(),
            attempt: start.attempt,
            started_at: Timestamp::now(),
            workdir: attempt.host.layout.issue_dir(&start.issue.id),
        };
        private::write_json_soon(&files.record(), &record)
            .map_err(|error| fail("cannot record the attempt", &error))?;
        let log =
            SessionLog::create(&files.log()).map_err(|error| fail("cannot make the session log", &error))?;
        Ok(Self {
            attempt,
            profile,
            files,
            id: start.session.to_string(),
            log: Some(log),
            conclusion: Conclusion::default(),
            exit: None,
            changed: None,
            workdir: None,
            folder: None,
            lock: None,
        })
    }

    pub(super) fn host(&self) -> &'a Host {
        &self.attempt.host
    }

    pub(super) fn start(&self) -> &'a Start {
        &self.attempt.start
    }

    async fn go(&mut self) -> Result<(), Trouble> {
        let lock = Arc::new(self.lock_workspace().await?);
        self.lock = Some(Arc::clone(&lock));
        let workdir = self.workspace().await?;
        self.workdir = Some(workdir.clone());
        let context = Value::Object(stage_context(self.host(), self.start(), &workdir));
        if let Some(source) = &self.start().stage.before_run {
            self.hook(Hook::BeforeRun, source, &workdir, &context)
                .await
                .map_err(|e| Trouble::hook(&e))?;
        }
        self.prompt(&workdir, &context).await?;
        let before = self.fingerprint(&workdir).await;
        let result = self.agent(&workdir, &lock).await;
        let result = match result {
            Ok(()) => self.verify(&workdir, &context).await,
            trouble => trouble,
        };
        let after = self.fingerprint(&workdir).await;
        self.changed = before.zip(after).map(|(before, after)| before != after);
        result
    }

    async fn fingerprint(&self, workdir: &Path) -> Option<workspace::Fingerprint> {
        let workdir = workdir.to_owned();
        spawn_blocking(move || workspace::fingerprint(&workdir))
            .await
            .ok()
            .flatten()
    }

    // --- before the agent

    /// Nothing starts in a workspace without its lock; the shim holds it as long as anything of the attempt lives.
    async fn lock_workspace(&self) -> Result<FileLock, Trouble> {
        let path = self.host().layout.issue_lock(&self.start().issue.id);
        let fail = |error: std::io::Error| {
            let reason = format!("cannot lock {}: {error}", path.display());
            Trouble::failed(FailureClass::Hook, reason)
        };
        if let Some(folder) = path.parent() {
            private::create_private_dir_all(folder).map_err(fail)?;
        }
        // The shim of a daemon that died may still be ending its agent.
        let patience = Instant::now() + Graces::default().total();
        loop {
            if let Some(lock) = FileLock::try_acquire(&path).map_err(fail)? {
                return Ok(lock);
            }
            if Instant::now() >= patience {
                let reason = "the workspace is locked: an earlier attempt still lives in it";
                return Err(Trouble::of(Outcome::Lost, reason));
            }
            tokio::select! {
                () = tokio::time::sleep(LOCK_LOOK) => {}
                _ = self.attempt.orders.halted() => {
                    return Err(Trouble::of(Outcome::Cancelled, "Vik was stopped"));
                }
            }
        }
    }

    async fn workspace(&mut self) -> Result<PathBuf, Trouble> {
        let trouble =
            |error: &dyn std::error::Error| Trouble::failed(FailureClass::Hook, report::chain(error));
        let (host, id) = (Arc::clone(&self.attempt.host), self.start().issue.id.clone());
        // What no hook makes cannot be half made.
        let made_by_hook = self.attempt.workflow.issue.after_create.is_some();
        let prepared = spawn_blocking(move || workspace::prepare(&host.layout, &id, made_by_hook)).await;
        let prepared = prepared
            .map_err(|error| trouble(&error))?
            .map_err(|error| trouble(&error))?;
        let fresh = match prepared {
            Prepared::Existing(workspace) => {
                let workdir = workspace.path().to_owned();
                self.folder = Some(workspace);
                return Ok(workdir);
            }
            Prepared::Created(workspace) => workspace,
        };
        let workdir = fresh.path().to_owned();
        if let Some(source) = &self.attempt.workflow.issue.after_create {
            let context = Value::Object(issue_context(self.host(), &self.start().issue, &workdir));
            let timeout = self.attempt.workflow.issue.hook_timeout.0;
            self.hook_within(Hook::AfterCreate, source, &workdir, &context, timeout)
                .await
                .map_err(|error| Trouble::hook(&error))?;
        }
        // Until the mark is set, the folder counts as half made: it is cleaned and made anew.
        fresh.mark_ready().map_err(|error| trouble(&error))?;
        self.folder = Some(fresh);
        Ok(workdir)
    }

    async fn prompt(&mut self, workdir: &Path, context: &Value) -> Result<(), Trouble> {
        let trouble = |text: String| Trouble::failed(FailureClass::Hook, text);
        let (host, prompt) = (Arc::clone(&self.attempt.host), self.start().stage.prompt.clone());
        let name = match &prompt {
            PromptSource::File(file) => format!("the prompt {file}"),
            PromptSource::Inline(_) => "the prompt".to_owned(),
        };
        // The file may lie on a disk that does not answer: stopping must not wait for that.
        let source = tokio::select! {
            read = spawn_blocking(move || prompt_source(&host, &prompt)) => match read {
                Ok(source) => source.map_err(trouble)?,
                Err(error) => return Err(trouble(format!("{name}: {error}"))),
            },
            _ = self.attempt.orders.halted() => {
                return Err(Trouble::of(Outcome::Cancelled, "Vik was stopped"));
            }
        };
        let prompt = template::prompt(&source, context).map_err(|error| {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            trouble(format!("{name}: {}{hint}", report::chain(&error)))
        })?;
        let mut text = String::new();
        for part in &prompt.parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Command { script, .. } => {
                    let place = self.place(workdir, Duration::ZERO);
                    let file = self.files.hook("prompt").with_extension("sh");
                    let stop = async { drop(self.attempt.orders.halted().await) };
                    let output = hooks::prompt_command(self.host(), script, place, &file, stop).await;
                    text.push_str(&output.map_err(|error| Trouble::hook(&error))?);
                }
            }
        }
        private::write_private(&self.files.prompt(), text.as_bytes())
            .map_err(|error| trouble(format!("cannot write the prompt: {error}")))
    }

    // --- the end

    fn conclude(&self, trouble: Option<&Trouble>, took: Duration) -> Ended {
        let conclusion = &self.conclusion;
        let priced = self.profile.price.map(|price| cost_of(&price, conclusion.usage));
        let (cost_usd, cost_source) = match (conclusion.cost_usd, priced) {
            (Some(usd), _) => (Some(usd), CostSource::Reported),
            (None, Some(usd)) if conclusion.usage.total() > 0 => (Some(usd), CostSource::Price),
            _ => (None, CostSource::None),
        };
        Ended {
            outcome: trouble.map_or(Outcome::Succeeded, |trouble| trouble.outcome),
            failure_class: trouble.and_then(|trouble| trouble.class),
            exit_code: self.exit.as_ref().and_then(|record| record.code),
            signal: self.exit.as_ref().and_then(|record| record.signal),
            duration_ms: millis(took),
            usage: conclusion.usage,
            cost_usd,
            cost_source,
            reason: trouble.map(|trouble| trouble.reason.clone()),
            last_message: conclusion.last_message.clone(),
            provider_session_id: conclusion.provider_session_id.clone(),
            workspace_changed: self.changed,
            proof: self.exit.as_ref().map(|record| record.proof.name().to_owned()),
        }
    }

    fn close_log(&mut self, ended: &Ended) {
        let mut log = match self
            .log
            .take()
            .map_or_else(|| SessionLog::reopen(&self.files.log()), Ok)
        {
            Ok(log) => log,
            Err(error) => {
                return tracing::error!(
                    error = report::chain(&error),
                    "a session log stays without its end"
                );
            }
        };
        let now = Timestamp::now();
        let mut result = Ok(());
        if self.exit.is_none()
            && let Some(reason) = &ended.reason
        {
            let message = reason.as_str().into();
            let failure_class = ended.failure_class;
            result = log.push(
                now,
                &Event::Error {
                    message,
                    fatal: true,
                    failure_class,
                    http_status: None,
                },
            );
        }
        let result = result
            .and_then(|()| log.push(now, &Event::Ended(ended.clone())))
            .and_then(|()| log.flush());
        if let Err(error) = result {
            tracing::error!(
                error = report::chain(&error),
                "a session log stays without its end"
            );
        }
    }
}

/// The text of a prompt template.
///
/// # Errors
/// With words for people when the file cannot be read.
pub fn prompt_source(host: &Host, prompt: &PromptSource) -> Result<String, String> {
    match prompt {
        PromptSource::Inline(text) => Ok(text.clone()),
        PromptSource::File(file) => {
            let path = host.workflow_dir.join(file);
            crate::workflow_file::read_text(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))
        }
    }
}

fn cost_of(price: &Price, usage: vik_core::outcome::Usage) -> f64 {
    let fresh = usage
        .input_tokens
        .saturating_sub(usage.cached_input_tokens + usage.cache_write_input_tokens);
    let parts = [
        (fresh, price.input),
        (usage.cached_input_tokens, price.cached_input),
        (usage.cache_write_input_tokens, price.cache_write),
        (usage.output_tokens, price.output),
    ];
    parts
        .into_iter()
        .map(|(tokens, usd_per_million)| tokens as f64 * usd_per_million / 1e6)
        .sum()
}
