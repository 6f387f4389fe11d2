//! The agent of an attempt: it is started under the shim or taken over, its output is read, its
//! timeouts are enforced and its end is judged.

use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use vik_agents::{LaunchContext, PreviousTotal};
use vik_base::report::describe_exit;
use vik_base::{failpoint, report};
use vik_core::event::Event;
use vik_core::limits::{LimitHit, Spend};
use vik_core::machine::Answered;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::workflow::{AgentProfile, Home};
use vik_proc::{
    AdoptError, Cause, ExitRecord, Handle, Output, ProcessId, Proof, ShimLost, SpawnFailureKind, Stdin,
    StdoutMode, Supervised, identity::boot_id,
};
use vik_store::{AttemptFailure, ProcessRecord, Step, StoreError};
use vik_workspace::{Fingerprint, fs as private};

use super::commands::AttemptCommands;
use super::conclude::{reported_spend, unproven_end_failure};
use super::follow::{FollowError, OutputReader};
use super::full::overrun_failure;
use super::live::LivePhase;
use super::runner::{Abort, AttemptRunner};
use super::timeouts::Timeouts;
use super::tool_calls::ToolCallApprovals;
use crate::host::os_env;
use crate::secrets;

/// The interval at which a shim that cannot be taken over is polled for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl AttemptRunner<'_> {
    /// Starts the agent and watches it until it ends.
    pub(super) async fn agent(&mut self, workdir: &Path, before: Option<Fingerprint>) -> Result<(), Abort> {
        let spec = self.launch(workdir).await?;
        // The file must exist before the reader opens it and before the agent writes.
        private::write_private(&self.files.raw(), b"")
            .map_err(|error| broken("cannot create the raw file", &error))?;
        let reader = self.open_reader()?;
        let (shims, journal) = (self.host().agent_shims.clone(), self.shared_journal());
        let refused: Arc<OnceLock<StoreError>> = Arc::default();
        let refusal = Arc::clone(&refused);
        // The shim is registered before the agent starts: the agent may call the daemon
        // immediately, and the daemon may die at that moment.
        let on_shim = move |shim: ProcessId| {
            shims.add([shim]);
            let step = Step::Shim {
                shim: process_note(shim),
                before: before.map(|Fingerprint(before)| before),
            };
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = journal.record(step) {
                let _ = refusal.set(error);
            }
            failpoint::reach("shim_started");
        };
        let started = Instant::now();
        let supervised = self
            .host()
            .supervisor
            .spawn_noted(&spec, self.lock.as_deref(), StdoutMode::Null, on_shim)
            .await
            .map_err(|error| broken("cannot start the shim", &error))?;
        let mut stopping = None;
        if let Some(error) = refused.get() {
            self.note_disk_error(error);
            // A process that the next daemon cannot find must not run.
            stopping = Some(broken("cannot write the journal", error));
            supervised.kill();
        } else if let Some(agent) = supervised.agent() {
            let agent = process_note(agent);
            if let Err(failure) = self.note(Step::AgentStarted { agent }) {
                stopping = Some(failure);
                supervised.kill();
            }
        }
        failpoint::reach("agent_started");
        self.watch(supervised, reader, started, stopping).await
    }

    /// Takes over the agent that an earlier daemon started, or determines how it ended.
    pub(super) async fn recover_agent(
        &mut self,
        boot: &str,
        shim: ProcessRecord,
        agent: Option<ProcessRecord>,
        stopping: Option<AttemptFailure>,
    ) -> Result<(), Abort> {
        let (shim, agent) = (process(shim), agent.map(process));
        self.host().agent_shims.add([shim]);
        let spec = self.shim_spec("", Path::new("/"));
        let reader = match self.open_reader() {
            Ok(reader) => reader,
            Err(failure) => {
                // Nothing could read the agent's output, so it is ended.
                let end = vik_proc::recover(&spec, shim, agent, boot).await;
                self.exchange_login().await;
                let proof = end.map_or_else(|lost| lost.proof().clone(), |record| record.proof);
                self.proof = Some(proof.name());
                self.agent_ran = true;
                return Err(unproven_end_failure(&proof).unwrap_or(failure).into());
            }
        };
        if boot == boot_id() {
            match self.host().supervisor.adopt(&spec, shim, agent).await {
                Ok(supervised) => {
                    tracing::info!(session = self.id, "agent taken over");
                    if stopping.is_some() {
                        supervised.stop();
                    }
                    let now = Instant::now();
                    let started = now.checked_sub(shim.age()).unwrap_or(now);
                    return self.watch(supervised, reader, started, stopping).await;
                }
                Err(AdoptError::NoControl { .. }) => {}
                Err(error) => {
                    let error = report::chain(&error);
                    tracing::warn!(session = self.id, error, "cannot adopt an agent: killing it");
                }
            }
        }
        // Without an orphan grace the shim is already ending its agent and gets the time for it.
        let deadline = Instant::now() + spec.graces.total();
        while boot == boot_id() && shim.is_alive() && Instant::now() < deadline {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.attempt.commands.killed() => break,
            }
        }
        let end = vik_proc::recover(&spec, shim, agent, boot).await;
        self.on_tree_ended(end, reader, stopping).await
    }

    /// Returns the specification of the process to start.
    async fn launch(&self, workdir: &Path) -> Result<vik_proc::ShimSpec, AttemptFailure> {
        let (start, host) = (self.start(), self.host());
        let asks = self.asks_before_calls();
        if asks {
            // The shim reads this file, and its existence tells the next daemon that the agent asks
            // before calls.
            private::write_private(&self.files.stdin(), b"")
                .map_err(|error| broken("cannot create the agent's input", &error))?;
        }
        let home = self
            .private_home()
            .await
            .map_err(|error| broken("cannot create the agent's home", &error))?;
        let mut profile = self.spec.profile.clone();
        resolve_base_url(&mut profile, &host.workflow_dir);
        let launch = vik_agents::launch(&LaunchContext {
            profile: &profile,
            workdir,
            vik: &host.vik,
            private_home: home.as_deref(),
            session_id: start.attempt_id.0,
            resume: start
                .resume
                .as_ref()
                .map(|resume| resume.provider_session_id.as_str()),
            budget: start.budget,
            in_sandbox: self.sandbox_policy().is_some(),
            interactive: asks,
            scope: start.intent.scope.as_ref(),
            is_root: nix::unistd::geteuid().is_root(),
            environment: &host.environment.shared(),
        })
        .map_err(|error| AttemptFailure::failed(FailureClass::Usage, report::chain(&error)))?;
        let mut env = launch.env;
        self.add_vik_variables(&mut env);
        let secret_variables = self.secret_variables(&profile.secrets);
        if !secret_variables.is_empty() {
            let names: Vec<&str> = secret_variables.iter().map(|(name, _)| name.as_str()).collect();
            env.insert(secrets::NAMES.to_owned(), names.join(","));
        }
        env.extend(secret_variables);
        let Some((program, args)) = launch.argv.split_first() else {
            return Err(AttemptFailure::failed(
                FailureClass::Usage,
                "the agent has no command",
            ));
        };
        let mut spec = self.shim_spec(program, workdir);
        spec.args = args.iter().map(Into::into).collect();
        spec.sandbox = self.confine_agent(workdir, &mut env)?;
        self.separate_commits(workdir)
            .await
            .map_err(|error| broken("cannot create a repository for the linked work tree", &error))?;
        self.withhold_credentials(workdir, &mut env, spec.sandbox.as_mut())?;
        spec.env = os_env(env);
        spec.stdin = if asks {
            Stdin::Follow(self.files.stdin())
        } else {
            Stdin::File(self.files.prompt())
        };
        spec.stdout = Output::Append(self.files.raw());
        spec.stderr = Output::Append(self.files.stderr());
        spec.refusals = Some(self.files.refusals());
        spec.kept = self.kept_output().files;
        spec.orphan_grace = self.attempt.orphan_grace;
        if spec.orphan_grace.is_zero() {
            spec.control = None;
        }
        Ok(spec)
    }

    /// Opens a reader of the raw file at its first byte. Events that the log already contains are
    /// only counted.
    fn open_reader(&mut self) -> Result<OutputReader, AttemptFailure> {
        let log = self
            .log
            .take()
            .ok_or_else(|| AttemptFailure::bug("the session log is missing"))?;
        let before = self.start().resume.as_ref().map(|resume| PreviousTotal {
            usage: resume.total,
            cost_usd: resume.cost.usd(),
        });
        let adapter = self.adapter(before)?;
        OutputReader::open(
            &self.files.raw(),
            adapter,
            log,
            self.events_written,
            self.attempt.updates.clone(),
            self.kept_output(),
        )
        .map_err(|error| broken("cannot follow the agent", &error))
    }

    /// Maps the agent's output again to restore its conclusion. The log already contains every
    /// event.
    pub(super) async fn restore_conclusion(&mut self) {
        self.events_written = u64::MAX;
        self.exit = vik_proc::read_exit_record(&self.files.exit()).ok();
        if let Ok(log) = vik_store::SessionLog::reopen(&self.files.log()) {
            self.log = Some(log.log);
        }
        if let Ok(reader) = self.open_reader()
            && let Ok(mut finished) = reader.finish().await
        {
            self.answered = Some(finished.answered);
            self.evaluate_output(&mut *finished.adapter);
        }
    }

    /// Watches the agent until it ends.
    async fn watch(
        &mut self,
        supervised: Supervised,
        mut reader: OutputReader,
        started: Instant,
        mut stopping: Option<AttemptFailure>,
    ) -> Result<(), Abort> {
        self.attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Running);
        let handle = supervised.handle();
        let stage = self.start().stage.clone();
        let mut timeouts = Timeouts::new(&stage, started, self.files.stderr());
        let (mut killed, mut detaching, mut warned) = (false, false, 0);
        let mut approvals = self.tool_call_approvals().unwrap_or_else(|error| {
            self.fail(
                &handle,
                &FollowError::Answer(error),
                &mut stopping,
                &mut detaching,
            );
            None
        });
        let mut last_spend = Spend::default();
        let commands = self.attempt.commands.clone();
        let has_login = self.spec.profile.home == Home::Private;
        let login_sync = has_login.then(|| self.logins().spawn_sync());
        let end = loop {
            tokio::select! {
                end = supervised.wait() => break end,
                halt = commands.stopped(), if stopping.is_none() => {
                    if let Some(limit) = halt.limit() {
                        log_limit(&mut reader, limit);
                    }
                    stopping = Some(self.stop(&handle, halt.failure()));
                }
                () = commands.killed(), if !killed => {
                    killed = true;
                    handle.kill();
                }
                () = commands.detached(), if stopping.is_none() && !detaching => {
                    detaching = true;
                    handle.detach();
                }
                limits = commands.warned(warned) => {
                    warned += limits.len();
                    limits.into_iter().for_each(|limit| log_limit(&mut reader, limit));
                }
                answered = answered(&commands, approvals.as_ref()), if stopping.is_none() => {
                    let handled = approvals
                        .as_mut()
                        .map_or(Ok(()), |approvals| approvals.on_answer(&answered, &mut reader));
                    if let Err(error) = handled {
                        self.fail(&handle, &error, &mut stopping, &mut detaching);
                    }
                }
                () = tokio::time::sleep(reader.poll_wait()) => {
                    let mut polled = reader.poll_slices().await;
                    self.report_spend(&reader, &mut last_spend);
                    if let Some(approvals) =
                        approvals.as_mut().filter(|_| polled.is_ok() && stopping.is_none())
                    {
                        polled = approvals.poll(&mut reader);
                    }
                    if let Err(error) = polled {
                        self.fail(&handle, &error, &mut stopping, &mut detaching);
                    } else if let Some(failure) = timeouts.expired(&mut reader, approvals.as_ref())
                        && stopping.is_none()
                        && !detaching
                    {
                        stopping = Some(self.stop(&handle, failure));
                    }
                    if let Some(overrun) = reader.overrun().filter(|_| stopping.is_none() && !detaching) {
                        stopping = Some(self.stop(&handle, overrun_failure(&overrun)));
                        handle.kill();
                    }
                }
            }
        };
        drop(login_sync);
        // A detached agent still waits for its answer.
        if let Some(approvals) = approvals.filter(|_| !matches!(&end, Err(lost) if lost.detached)) {
            approvals.close();
        }
        self.agent_ran |= handle.agent().is_some();
        self.on_tree_ended(end, reader, stopping).await
    }

    /// Writes the reason to the journal, so that the next daemon knows it, and stops the agent.
    fn stop(&self, handle: &Handle, failure: AttemptFailure) -> AttemptFailure {
        let step = Step::Stopping {
            trouble: failure.clone(),
        };
        if let Err(error) = self.note(step) {
            tracing::warn!(
                session = self.id,
                error = error.reason,
                "cannot record a stop in the journal"
            );
        }
        handle.stop();
        failure
    }

    /// Stops the agent because its output or its answers cannot be handled. If the disk is broken,
    /// the agent itself is fine: it is left to its shim, and the next daemon maps its output.
    fn fail(
        &self,
        handle: &Handle,
        error: &FollowError,
        stopping: &mut Option<AttemptFailure>,
        detaching: &mut bool,
    ) {
        let is_broken = error.store().is_some_and(|error| self.note_disk_error(error));
        if stopping.is_some() || *detaching {
            return;
        }
        if is_broken {
            *detaching = true;
            self.release(handle);
        } else {
            let reason = report::chain(error);
            let failure = match error {
                // The agent violates the protocol.
                FollowError::Broken(_) => AttemptFailure::failed(FailureClass::Agent, reason),
                _ => AttemptFailure::bug(reason),
            };
            *stopping = Some(self.stop(handle, failure));
        }
    }

    /// Leaves the agent to its shim if there is an orphan grace, and stops it otherwise.
    fn release(&self, handle: &Handle) {
        if self.attempt.orphan_grace.is_zero() {
            handle.stop();
        } else {
            handle.detach();
        }
    }

    fn report_spend(&self, reader: &OutputReader, reported: &mut Spend) {
        let (usage, cost) = reader.usage();
        let (spend, _) = reported_spend(&self.spec.profile, usage, cost);
        if let Some(spend) = spend.filter(|spend| spend != reported) {
            *reported = spend;
            self.attempt.updates.spent(spend);
        }
    }

    /// Processes the end of the agent's process tree and its last output.
    async fn on_tree_ended(
        &mut self,
        end: Result<ExitRecord, ShimLost>,
        reader: OutputReader,
        stopping: Option<AttemptFailure>,
    ) -> Result<(), Abort> {
        self.exchange_login().await;
        if let Err(lost) = &end
            && lost.detached
        {
            if let Err(error) = reader.detach() {
                // The next daemon maps these events from the raw file.
                let error = report::chain(&error);
                tracing::warn!(
                    session = self.id,
                    error,
                    "cannot write the last events to the session log"
                );
            }
            return Err(Abort::Detached);
        }
        let (proof, agent) = match &end {
            Ok(record) => (record.proof.clone(), record.agent),
            Err(lost) => (lost.proof().clone(), lost.agent),
        };
        self.proof = Some(proof.name());
        self.agent_ran |= agent.is_some() || reader.has_printed();
        let lost = match end {
            Ok(record) => {
                self.exit = Some(record);
                None
            }
            Err(lost) => Some(lost),
        };
        let mut finished = match reader.finish().await {
            Ok(finished) => finished,
            Err(error) => {
                // The reason of the stop takes precedence over later errors.
                let known = unproven_end_failure(&proof)
                    .or_else(|| self.overrun())
                    .or(stopping);
                return Err(known
                    .unwrap_or_else(|| broken("its output could not be stored", &error))
                    .into());
            }
        };
        let mut stopping = stopping
            .or_else(|| self.overrun())
            .or_else(|| finished.overrun.as_ref().map(overrun_failure));
        match finished.log {
            Ok(log) => self.log = Some(log),
            Err(error) => {
                self.note_disk_error(&error);
                // The reason of the stop takes precedence over later errors.
                stopping.get_or_insert_with(|| broken("its output could not be stored", &*error));
            }
        }
        self.answered = Some(finished.answered);
        self.evaluate_output(&mut *finished.adapter);
        match (unproven_end_failure(&proof), stopping, lost) {
            (Some(failure), ..) | (None, Some(failure), _) => Err(failure.into()),
            (None, None, Some(lost)) => {
                let reason = match proof {
                    Proof::Reboot => "the machine was rebooted while it ran".to_owned(),
                    _ => report::chain(&lost),
                };
                Err(AttemptFailure::of(Outcome::Lost, reason).into())
            }
            (None, None, None) => self.judge().map_err(Abort::from),
        }
    }

    /// Returns why the shim killed the agent on its own.
    fn overrun(&self) -> Option<AttemptFailure> {
        let overrun = self.exit.as_ref()?.overrun.as_ref()?;
        Some(overrun_failure(overrun))
    }

    /// Returns what the agent's end means if Vik did not stop it.
    fn judge(&self) -> Result<(), AttemptFailure> {
        if let Some(record) = &self.exit {
            if let Some(failure) = &record.spawn_error {
                let class = match failure.kind {
                    SpawnFailureKind::NoResources | SpawnFailureKind::Other => FailureClass::Internal,
                    _ => FailureClass::Usage,
                };
                return Err(AttemptFailure::failed(
                    class,
                    format!("the agent {}", describe_exit(record)),
                ));
            }
            match record.cause {
                Cause::LifelineLost => {
                    return Err(AttemptFailure::of(
                        Outcome::Lost,
                        "the daemon died, and its agent was stopped",
                    ));
                }
                Cause::Stopped | Cause::Killed => {
                    if let Some(halt) = self.attempt.commands.stop_cause() {
                        return Err(halt.failure());
                    }
                    return Err(AttemptFailure::of(
                        Outcome::Lost,
                        "its agent was stopped while no daemon ran",
                    ));
                }
                Cause::Exited | Cause::SpawnFailed => {}
            }
        }
        // The agent reported the usage so late that it ended before it could be stopped.
        if let Some(hit) = self.reached_limit().filter(|_| !self.conclusion.over_budget) {
            return Err(AttemptFailure::of(
                Outcome::OverBudget,
                format!("limit reached: {hit}"),
            ));
        }
        if self.conclusion.ok {
            return Ok(());
        }
        let how = self.exit.as_ref().map(describe_exit).unwrap_or_default();
        let reported = self.conclusion.reason.clone();
        let reason = reported.unwrap_or_else(|| format!("the agent {how}"));
        if self.conclusion.over_budget {
            return Err(AttemptFailure::of(
                Outcome::OverBudget,
                match self.start().budget.describe() {
                    Some(budget) => format!("the agent stopped at its budget of {budget}: {reason}"),
                    None => reason,
                },
            ));
        }
        let reason = if self.resume_failure.is_some() {
            format!("cannot resume the earlier conversation: {reason}")
        } else {
            reason
        };
        Err(AttemptFailure::failed(
            self.conclusion.failure_class.unwrap_or(FailureClass::Agent),
            reason,
        ))
    }
}

fn broken(context: &str, error: &dyn std::error::Error) -> AttemptFailure {
    AttemptFailure::bug(format!("{context}: {}", report::chain(error)))
}

fn process_note(process: ProcessId) -> ProcessRecord {
    ProcessRecord {
        pid: process.pid,
        start_time: process.start_time,
    }
}

fn process(note: ProcessRecord) -> ProcessId {
    ProcessId {
        pid: note.pid,
        start_time: note.start_time,
    }
}

/// Writes an event to the session log: a limit is near or reached.
fn log_limit(reader: &mut OutputReader, hit: LimitHit) {
    let percent = hit.percent();
    if let Err(error) = reader.append_event(Timestamp::now(), &Event::Limit { hit, percent }) {
        tracing::warn!(
            error = report::chain(&error),
            "cannot record a limit in the session log"
        );
    }
}

/// Waits for the answer to the pending request; never returns if there is none.
async fn answered(commands: &AttemptCommands, approvals: Option<&ToolCallApprovals>) -> Answered {
    match approvals.and_then(ToolCallApprovals::pending_request) {
        Some(request) => commands.answered(request).await,
        None => std::future::pending().await,
    }
}

/// Makes the path of a recorded conversation absolute: it is relative to the folder of the
/// workflow, and the agent runs in the issue workspace.
fn resolve_base_url(profile: &mut AgentProfile, workflow_dir: &Path) {
    if profile.provider.as_deref() == Some("replay")
        && let Some(path) = &mut profile.base_url
    {
        let plain = path.strip_prefix("file://").unwrap_or(path);
        *path = workflow_dir.join(plain).to_string_lossy().into_owned();
    }
}
