//! One attempt, from the record of its start to `after_run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use vik_agents::{Conclusion, Exit, LaunchContext};
use vik_core::event::{Ended, Event};
use vik_core::machine::Report;
use vik_core::outcome::{CostSource, FailureClass, Outcome};
use vik_core::scheduler::Start;
use vik_core::workflow::{AgentProfile, Home, Price, PromptSource, Workflow};
use vik_proc::{ExitRecord, FileLock, Mark, Output, ProcessId, ShimSpec, Stdin, StdoutMode};
use vik_store::{AttemptFiles, AttemptRecord, SessionLog};

use super::context::{issue_context, stage_context};
use super::follow::{FollowError, Follower};
use super::live::{Live, LivePhase};
use super::stop::{Stop, StopLevel};
use crate::hooks::{self, Hook, HookError, Place, how_ended, read_tail};
use crate::daemon::Shims;
use crate::host::{ATTEMPT_MARK, Host, millis, os_env};
use crate::report;
use crate::template::{self, Part};
use crate::workspace::{self, Prepared, fs as private};

/// How much of an agent's stderr is looked at to tell why it failed.
const STDERR_TAIL_BYTES: u64 = 16 * 1024;

/// How many slices of output are mapped before the clocks are looked at.
const SLICES_A_TURN: usize = 16;

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
    /// Tells it to stop.
    pub stop: Stop,
    /// Where its shim is noted while it lives.
    pub shims: Shims,
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
struct Trouble {
    outcome: Outcome,
    class: Option<FailureClass>,
    reason: String,
    feedback: Option<String>,
}

impl Trouble {
    fn failed(class: FailureClass, reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, class: Some(class), reason: reason.into(), feedback: None }
    }

    fn of(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { outcome, class: None, reason: reason.into(), feedback: None }
    }

    fn hook(error: &HookError) -> Self {
        match error {
            HookError::Cancelled { .. } => Self::of(Outcome::Cancelled, "Vik was stopped"),
            error => Self::failed(FailureClass::Hook, report::chain(error)),
        }
    }
}

/// What is known of an attempt while it goes on.
struct Work<'a> {
    attempt: &'a Attempt,
    profile: &'a AgentProfile,
    files: &'a AttemptFiles,
    id: String,
    log: Option<SessionLog>,
    conclusion: Conclusion,
    exit: Option<ExitRecord>,
    changed: Option<bool>,
    /// Set as soon as there is a folder for hooks to run in.
    workdir: Option<PathBuf>,
}

/// The files of an attempt.
pub fn files(host: &Host, start: &Start) -> AttemptFiles {
    let dir = host.layout.issue_sessions_dir(&start.issue.id);
    AttemptFiles::new(&dir, &start.stage.name, start.session)
}

/// Makes the attempt. Whatever happens, it ends with a report.
pub async fn run(attempt: Attempt) -> AttemptEnd {
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
        outcome: ended.outcome,
        failure_class: ended.failure_class,
        reason: ended.reason.clone(),
        feedback: trouble.and_then(|trouble| trouble.feedback),
        changed: ended.workspace_changed,
    };
    AttemptEnd { report, ended, log: files.log() }
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
            outcome: ended.outcome,
            failure_class: ended.failure_class,
            reason: ended.reason.clone(),
            feedback: None,
            changed: None,
        };
        Self { report, ended, log: files.log() }
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
            Trouble::failed(FailureClass::Usage, format!("there is no agent `{}`", start.stage.agent))
        })?;
        private::create_private_dir_all(files.dir()).map_err(|error| fail("cannot make the sessions folder", &error))?;
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
        private::write_json_atomic(&files.record(), &record).map_err(|error| fail("cannot record the attempt", &error))?;
        let log = SessionLog::create(&files.log()).map_err(|error| fail("cannot make the session log", &error))?;
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
        })
    }

    fn host(&self) -> &'a Host {
        &self.attempt.host
    }

    fn start(&self) -> &'a Start {
        &self.attempt.start
    }

    async fn go(&mut self) -> Result<(), Trouble> {
        let lock = self.lock_workspace()?;
        let workdir = self.workspace().await?;
        self.workdir = Some(workdir.clone());
        let context = Value::Object(stage_context(self.host(), self.start(), &workdir));
        if let Some(source) = &self.start().stage.before_run {
            self.hook(Hook::BeforeRun, source, &workdir, &context).await.map_err(|e| Trouble::hook(&e))?;
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

    // --- before the agent

    /// Nothing starts in a workspace without its lock; the shim holds it as long as anything of the attempt lives.
    fn lock_workspace(&self) -> Result<FileLock, Trouble> {
        let path = self.host().layout.issue_lock(&self.start().issue.id);
        let locked = path.parent().map_or(Ok(()), private::create_private_dir_all);
        match locked.and_then(|()| FileLock::try_acquire(&path)) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => {
                Err(Trouble::of(Outcome::Lost, "the workspace is locked: an earlier attempt still lives in it"))
            }
            Err(error) => {
                Err(Trouble::failed(FailureClass::Hook, format!("cannot lock {}: {error}", path.display())))
            }
        }
    }

    async fn workspace(&mut self) -> Result<PathBuf, Trouble> {
        let trouble = |error: &dyn std::error::Error| Trouble::failed(FailureClass::Hook, report::chain(error));
        let (host, id) = (Arc::clone(&self.attempt.host), self.start().issue.id.clone());
        let prepared = spawn_blocking(move || workspace::prepare(&host.layout, &id)).await;
        let prepared = prepared.map_err(|error| trouble(&error))?.map_err(|error| trouble(&error))?;
        let fresh = match prepared {
            Prepared::Existing(workspace) => return Ok(workspace.path().to_owned()),
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
        Ok(workdir)
    }

    async fn prompt(&mut self, workdir: &Path, context: &Value) -> Result<(), Trouble> {
        let trouble = |text: String| Trouble::failed(FailureClass::Hook, text);
        let source = prompt_source(self.host(), &self.start().stage.prompt).map_err(trouble)?;
        let prompt = template::prompt(&source, context)
            .map_err(|error| trouble(format!("the prompt: {}", report::chain(&error))))?;
        let mut text = String::new();
        for part in &prompt.parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Command { script, .. } => {
                    let place = self.place(workdir, Duration::ZERO);
                    let file = self.files.hook("prompt").with_extension("sh");
                    let stop = self.attempt.stop.reached(StopLevel::Stop);
                    let output = hooks::prompt_command(self.host(), script, place, &file, stop).await;
                    text.push_str(&output.map_err(|error| Trouble::hook(&error))?);
                }
            }
        }
        private::write_private(&self.files.prompt(), text.as_bytes())
            .map_err(|error| trouble(format!("cannot write the prompt: {error}")))
    }

    // --- the agent

    async fn agent(&mut self, workdir: &Path, lock: &FileLock) -> Result<(), Trouble> {
        let (start, host) = (self.start(), self.host());
        let broken = |what: &str, error: &dyn std::error::Error| {
            Trouble::failed(FailureClass::Agent, format!("{what}: {}", report::chain(error)))
        };
        let home = self.private_home().map_err(|error| broken("cannot make the agent's home", &error))?;
        let mut profile = self.profile.clone();
        resolve_base_url(&mut profile, &host.workflow_dir);
        let launch = vik_agents::launch(&LaunchContext {
            profile: &profile,
            workdir,
            vik: &host.vik,
            private_home: home.as_deref(),
            session_id: start.session.0,
            resume: None,
            is_root: nix::unistd::geteuid().is_root(),
            environment: &host.environment,
        })
        .map_err(|error| Trouble::failed(FailureClass::Usage, report::chain(&error)))?;
        let mut env = launch.env;
        self.add_own(&mut env);
        let Some((program, args)) = launch.argv.split_first() else {
            return Err(Trouble::failed(FailureClass::Usage, "the agent has no command"));
        };
        let mut spec = ShimSpec::new(program, workdir);
        spec.args = args.iter().map(Into::into).collect();
        spec.env = os_env(env);
        spec.mark = Some(Mark::new(ATTEMPT_MARK, &self.id));
        spec.stdin = Stdin::File(self.files.prompt());
        spec.stdout = Output::Append(self.files.raw());
        spec.stderr = Output::Append(self.files.stderr());
        spec.exit_record = Some(self.files.exit());
        spec.census = Some(self.files.census());
        // The follower opens it before the agent may have written anything.
        private::write_private(&self.files.raw(), b"").map_err(|error| broken("cannot make the raw file", &error))?;
        let Some(log) = self.log.take() else {
            return Err(Trouble::failed(FailureClass::Agent, "the session log is gone"));
        };
        let adapter = vik_agents::adapter(&profile, None);
        let mut follower = Follower::open(&self.files.raw(), adapter, log, self.attempt.live.clone())
            .map_err(|error| broken("cannot follow the agent", &error))?;
        let supervised = host
            .supervisor
            .spawn(&spec, Some(lock), StdoutMode::Null)
            .await
            .map_err(|error| broken("cannot start the shim", &error))?;
        let (handle, shim) = (supervised.handle(), supervised.shim());
        self.attempt.live.set(|facts| {
            facts.phase = LivePhase::Running;
        });
        let _noted = Noted::new(&self.attempt.shims, shim);

        let mut clocks = Clocks::new(self);
        let mut stopped: Option<Trouble> = None;
        let mut killed = false;
        let lost = loop {
            tokio::select! {
                end = supervised.wait() => match end {
                    Ok(record) => break self.exit.insert(record).proof.is_proven().then_some(()).ok_or(None),
                    Err(lost) => break Err(Some(lost)),
                },
                () = self.attempt.stop.reached(StopLevel::Stop), if stopped.is_none() => {
                    stopped = Some(Trouble::of(Outcome::Cancelled, "Vik was stopped"));
                    handle.stop();
                }
                () = self.attempt.stop.reached(StopLevel::Kill), if !killed => {
                    killed = true;
                    handle.kill();
                }
                () = tokio::time::sleep(follower.wait()) => {
                    let trouble = look(&mut follower).await.err().or_else(|| clocks.ran_out(&mut follower));
                    if stopped.is_none() && let Some(trouble) = trouble {
                        stopped = Some(trouble);
                        handle.stop();
                    }
                }
            }
        };
        let (mut adapter, log) = follower.finish().await.map_err(|error| broken("its output was not kept", &error))?;
        self.log = Some(log);
        let stderr = read_tail(&self.files.stderr(), STDERR_TAIL_BYTES);
        let exit = match self.exit.as_ref().map(|record| (record.code, record.signal)) {
            Some((Some(code), _)) => Exit::Code(code),
            Some((None, Some(signal))) => Exit::Signal(signal),
            _ => Exit::Signal(9),
        };
        self.conclusion = adapter.conclude(exit, &stderr);
        match (lost, stopped) {
            (Err(None), _) => Err(Trouble {
                outcome: Outcome::Failed,
                class: Some(FailureClass::UnprovenEnd),
                reason: "some of its processes could not be ended".to_owned(),
                feedback: None,
            }),
            (_, Some(trouble)) => Err(trouble),
            (Err(Some(lost)), None) => {
                let class = (!lost.proof().is_proven()).then_some(FailureClass::UnprovenEnd);
                Err(Trouble { class, ..Trouble::of(Outcome::Lost, report::chain(&lost)) })
            }
            (Ok(()), None) => self.judge(),
        }
    }

    /// What the agent's own end means, when nobody stopped it.
    fn judge(&self) -> Result<(), Trouble> {
        if let Some(record) = &self.exit
            && record.spawn_error.is_some()
        {
            return Err(Trouble::failed(FailureClass::Usage, format!("the agent {}", how_ended(record))));
        }
        if self.conclusion.ok {
            return Ok(());
        }
        let how = self.exit.as_ref().map(how_ended).unwrap_or_default();
        let reason = self.conclusion.reason.clone().unwrap_or_else(|| format!("the agent {how}"));
        if self.conclusion.over_budget {
            return Err(Trouble::of(Outcome::OverBudget, reason));
        }
        Err(Trouble::failed(self.conclusion.failure_class.unwrap_or(FailureClass::Agent), reason))
    }

    async fn verify(&mut self, workdir: &Path, context: &Value) -> Result<(), Trouble> {
        let Some(source) = &self.start().stage.verify else { return Ok(()) };
        self.attempt.live.set(|facts| facts.phase = LivePhase::Verifying);
        self.hook(Hook::Verify, source, workdir, context).await.map_err(|error| match error {
            HookError::Failed { ref tail, .. } => Trouble {
                feedback: Some(tail.clone()),
                ..Trouble::failed(FailureClass::Verify, error.to_string())
            },
            error => Trouble { class: Some(FailureClass::Verify), ..Trouble::hook(&error) },
        })
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
            proof: self.exit.as_ref().map(|record| proof_name(&record.proof).to_owned()),
        }
    }

    fn close_log(&mut self, ended: &Ended) {
        let mut log = match self.log.take().map_or_else(|| SessionLog::reopen(&self.files.log()), Ok) {
            Ok(log) => log,
            Err(error) => return tracing::error!(error = report::chain(&error), "a session log stays without its end"),
        };
        let now = Timestamp::now();
        let mut result = Ok(());
        if self.exit.is_none()
            && let Some(reason) = &ended.reason
        {
            let message = reason.as_str().into();
            let failure_class = ended.failure_class;
            result = log.push(now, &Event::Error { message, fatal: true, failure_class, http_status: None });
        }
        let result = result.and_then(|()| log.push(now, &Event::Ended(ended.clone()))).and_then(|()| log.sync());
        if let Err(error) = result {
            tracing::error!(error = report::chain(&error), "a session log stays without its end");
        }
    }

    async fn after_run(&mut self, workdir: &Path, ended: &Ended) {
        let Some(source) = &self.start().stage.after_run else { return };
        self.attempt.live.set(|facts| facts.phase = LivePhase::Finishing);
        let mut context = stage_context(self.host(), self.start(), workdir);
        context.insert("session".to_owned(), self.session_value(ended));
        let done = self.hook(Hook::AfterRun, source, workdir, &Value::Object(context)).await;
        if let Err(error) = done {
            let start = self.start();
            let error = report::chain(&error);
            tracing::error!(issue = %start.issue.id, stage = %start.stage.name, error, "after_run failed");
            self.attempt.live.set(|facts| facts.after_run_error = Some(error));
        }
    }

    fn session_value(&self, ended: &Ended) -> Value {
        let result = self.conclusion.result.as_ref();
        let result = result.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null);
        let log = self.files.log().to_string_lossy().into_owned();
        json!({
            "id": self.id,
            "outcome": ended.outcome.as_str(),
            "failure_class": ended.failure_class.map_or("", FailureClass::as_str),
            "reason": ended.reason.as_deref().unwrap_or(""),
            "exit_code": ended.exit_code,
            "last_message": ended.last_message.as_deref().unwrap_or(""),
            "usage": ended.usage,
            "cost": ended.cost_usd,
            "cost_usd": ended.cost_usd,
            "log": log,
            "log_path": log,
            "result": result,
        })
    }

    // --- what its scripts get

    async fn hook(&self, hook: Hook, source: &str, workdir: &Path, context: &Value) -> Result<(), HookError> {
        let timeout = match hook {
            Hook::Verify => self.start().stage.timeout.0,
            _ => self.start().stage.hook_timeout.0,
        };
        self.hook_within(hook, source, workdir, context, timeout).await
    }

    async fn hook_within(
        &self,
        hook: Hook,
        source: &str,
        workdir: &Path,
        context: &Value,
        timeout: Duration,
    ) -> Result<(), HookError> {
        let script = template::script(source, context).map_err(|error| HookError::Template {
            name: hook.to_string(),
            source: Box::new(error),
        })?;
        let log = self.files.hook(hook.as_str());
        let stop = self.attempt.stop.reached(StopLevel::Stop);
        hooks::run(self.host(), hook, &script, self.place(workdir, timeout), &log, stop).await
    }

    fn place<'p>(&'p self, workdir: &'p Path, timeout: Duration) -> Place<'p> {
        let mut env = self.host().environment.clone();
        self.add_own(&mut env);
        Place { cwd: workdir, env, attempt: &self.id, timeout }
    }

    /// What hooks and agents get beside their environment.
    fn add_own(&self, env: &mut BTreeMap<String, String>) {
        let (host, start) = (self.host(), self.start());
        host.add_own(env);
        let own = [
            ("VIK_ISSUE_ID", start.issue.id.to_string()),
            ("VIK_ISSUE_TITLE", start.issue.title.to_string()),
            ("VIK_ISSUE_STATE", start.issue.state.to_string()),
            ("VIK_STAGE", start.stage.name.to_string()),
            ("VIK_RUN_ID", start.run.to_string()),
            ("VIK_ATTEMPT", start.attempt.to_string()),
            ("VIK_WORKFLOW", host.workflow_path.to_string_lossy().into_owned()),
            // A workspace without a repository of its own must not be taken for a part of one around it.
            ("GIT_CEILING_DIRECTORIES", host.layout.issues_dir().to_string_lossy().into_owned()),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value.replace('\0', "\u{fffd}"))));
    }

    async fn fingerprint(&self, workdir: &Path) -> Option<workspace::Fingerprint> {
        let workdir = workdir.to_owned();
        spawn_blocking(move || workspace::fingerprint(&workdir)).await.ok().flatten()
    }

    fn private_home(&self) -> std::io::Result<Option<PathBuf>> {
        if self.profile.home == Home::User {
            return Ok(None);
        }
        let home = self.host().layout.root().join("homes").join(self.start().stage.agent.as_str());
        private::create_private_dir_all(&home)?;
        Ok(Some(home))
    }
}

/// Keeps a shim in the list of those that live.
struct Noted<'a>(&'a Shims, ProcessId);

impl<'a> Noted<'a> {
    fn new(shims: &'a Shims, shim: ProcessId) -> Self {
        shims.lock().unwrap_or_else(PoisonError::into_inner).push(shim);
        Self(shims, shim)
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|shim| *shim != self.1);
    }
}

/// The times an attempt must keep.
struct Clocks<'a> {
    start: &'a Start,
    began: Instant,
    stderr: PathBuf,
    stderr_size: u64,
}

impl<'a> Clocks<'a> {
    fn new(work: &Work<'a>) -> Self {
        Self { start: work.start(), began: Instant::now(), stderr: work.files.stderr(), stderr_size: 0 }
    }

    fn ran_out(&mut self, follower: &mut Follower) -> Option<Trouble> {
        let stage = &self.start.stage;
        if self.began.elapsed() >= stage.timeout.0 {
            return Some(Trouble::of(Outcome::TimedOut, format!("it took longer than {}", stage.timeout)));
        }
        if follower.tool_open() >= stage.tool_timeout.0 {
            let reason = format!("a tool call took longer than {}", stage.tool_timeout);
            return Some(Trouble::of(Outcome::TimedOut, reason));
        }
        if follower.silence() >= stage.stall_timeout.0 {
            // What it writes to stderr is a sign of life too.
            let size = std::fs::metadata(&self.stderr).map_or(0, |meta| meta.len());
            if size != self.stderr_size {
                self.stderr_size = size;
                follower.hear();
                return None;
            }
            return Some(Trouble::of(Outcome::Stalled, format!("nothing was heard for {}", stage.stall_timeout)));
        }
        None
    }
}

async fn look(follower: &mut Follower) -> Result<(), Trouble> {
    let trouble = |error: FollowError| Trouble::failed(FailureClass::Agent, report::chain(&error));
    for _ in 0..SLICES_A_TURN {
        if !follower.look().map_err(trouble)? {
            break;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
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
            std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        }
    }
}

/// A recorded conversation lies beside the workflow: its path must hold in the issue workspace too.
fn resolve_base_url(profile: &mut AgentProfile, workflow_dir: &Path) {
    if profile.provider.as_deref() == Some("replay")
        && let Some(path) = &mut profile.base_url
    {
        *path = workflow_dir.join(&*path).to_string_lossy().into_owned();
    }
}

fn cost_of(price: &Price, usage: vik_core::outcome::Usage) -> f64 {
    let fresh = usage.input_tokens.saturating_sub(usage.cached_input_tokens + usage.cache_write_input_tokens);
    let parts = [
        (fresh, price.input),
        (usage.cached_input_tokens, price.cached_input),
        (usage.cache_write_input_tokens, price.cache_write),
        (usage.output_tokens, price.output),
    ];
    parts.into_iter().map(|(tokens, usd_per_million)| tokens as f64 * usd_per_million / 1e6).sum()
}

fn proof_name(proof: &vik_proc::Proof) -> &'static str {
    match proof {
        vik_proc::Proof::Subreaper => "subreaper",
        vik_proc::Proof::Census => "census",
        vik_proc::Proof::Mark => "mark",
        vik_proc::Proof::Group => "group",
        vik_proc::Proof::Unproven { .. } => "unproven",
    }
}

