//! The agent of an attempt: started under the shim or taken over, followed, held to its times, and judged.

use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use vik_agents::{LaunchContext, PreviousTotal};
use vik_core::event::Event;
use vik_core::limits::{LimitHit, Spend};
use vik_core::machine::Answered;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::workflow::{AgentProfile, Home};
use vik_proc::{
    AdoptError, Cause, ExitRecord, Handle, Output, ProcessId, Proof, ShimLost, SpawnFailureKind, Stdin,
    StdoutMode, Supervised, identity::boot_id,
};
use vik_store::{AttemptFailure, ProcessNote, Step, StoreError};

use super::approval::AttemptUpdateKind;
use super::attempt::{Abort, AttemptRunner};
use super::commands::AttemptCommands;
use super::conclude::{figures, unproven};
use super::follow::{FollowError, OutputReader};
use super::full::overrun_failure;
use super::live::LivePhase;
use super::timeouts::Timeouts;
use super::tool_calls::ToolCallApprovals;
use crate::crash;
use crate::hooks::how_ended;
use crate::host::os_env;
use crate::report;
use crate::secrets;
use crate::workspace::{Fingerprint, fs as private};

/// How often it is polled whether a shim that cannot be taken over has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl AttemptRunner<'_> {
    /// Starts the agent and stays with it to its end.
    pub(super) async fn agent(&mut self, workdir: &Path, before: Option<Fingerprint>) -> Result<(), Abort> {
        let spec = self.launch(workdir).await?;
        // The follower opens it before the agent may have written anything.
        private::write_private(&self.files.raw(), b"")
            .map_err(|error| broken("cannot make the raw file", &error))?;
        let follower = self.follower()?;
        let (shims, journal) = (self.host().agent_shims.clone(), self.shared_journal());
        let refused: Arc<OnceLock<StoreError>> = Arc::default();
        let refusal = Arc::clone(&refused);
        // Known before the agent lives: it may ask the daemon in its first instant, and the daemon may die in it.
        let on_shim = move |shim: ProcessId| {
            shims.add([shim]);
            let step = Step::Shim {
                shim: noted_process(shim),
                before: before.map(|Fingerprint(before)| before),
            };
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = journal.note(step) {
                let _ = refusal.set(error);
            }
            crash::point("shim_started");
        };
        let began = Instant::now();
        let supervised = self
            .host()
            .supervisor
            .spawn_noted(&spec, self.lock.as_deref(), StdoutMode::Null, on_shim)
            .await
            .map_err(|error| broken("cannot start the shim", &error))?;
        let mut stopping = None;
        if let Some(error) = refused.get() {
            self.note_disk_error(error);
            // What the next daemon would not know of must not live.
            stopping = Some(broken("cannot keep the journal", error));
            supervised.kill();
        } else if let Some(agent) = supervised.agent() {
            let agent = noted_process(agent);
            if let Err(trouble) = self.note(Step::AgentStarted { agent }) {
                stopping = Some(trouble);
                supervised.kill();
            }
        }
        crash::point("agent_started");
        self.watch(supervised, follower, began, stopping).await
    }

    /// Takes over the agent that an earlier daemon has started, or finds out how it ended.
    pub(super) async fn recover_agent(
        &mut self,
        boot: &str,
        shim: ProcessNote,
        agent: Option<ProcessNote>,
        stopping: Option<AttemptFailure>,
    ) -> Result<(), Abort> {
        let (shim, agent) = (process(shim), agent.map(process));
        self.host().agent_shims.add([shim]);
        let spec = self.shim_spec("", Path::new("/"));
        let follower = match self.follower() {
            Ok(follower) => follower,
            Err(trouble) => {
                // Nobody would hear it.
                let end = vik_proc::recover(&spec, shim, agent, boot).await;
                self.exchange_login().await;
                let proof = end.map_or_else(|lost| lost.proof().clone(), |record| record.proof);
                self.proof = Some(proof.name());
                self.agent_ran = true;
                return Err(unproven(&proof).unwrap_or(trouble).into());
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
                    let began = now.checked_sub(shim.age()).unwrap_or(now);
                    return self.watch(supervised, follower, began, stopping).await;
                }
                Err(AdoptError::NoControl { .. }) => {}
                Err(error) => {
                    let error = report::chain(&error);
                    tracing::warn!(
                        session = self.id,
                        error,
                        "an agent cannot be taken over: it is ended"
                    );
                }
            }
        }
        // Without a grace the shim is ending its agent: it is let do so in its own time.
        let patience = Instant::now() + spec.graces.total();
        while boot == boot_id() && shim.is_alive() && Instant::now() < patience {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.attempt.commands.killed() => break,
            }
        }
        let end = vik_proc::recover(&spec, shim, agent, boot).await;
        self.settle(end, follower, stopping).await
    }

    /// What is to be started.
    async fn launch(&self, workdir: &Path) -> Result<vik_proc::ShimSpec, AttemptFailure> {
        let (start, host) = (self.start(), self.host());
        let asks = self.asks();
        if asks {
            // The shim follows it, and the next daemon knows by it that the agent asks.
            private::write_private(&self.files.stdin(), b"")
                .map_err(|error| broken("cannot make the agent's input", &error))?;
        }
        let home = self
            .private_home()
            .await
            .map_err(|error| broken("cannot make the agent's home", &error))?;
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
        self.add_own(&mut env);
        let given = self.given(&profile.secrets);
        if !given.is_empty() {
            let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
            env.insert(secrets::NAMES.to_owned(), names.join(","));
        }
        env.extend(given);
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
            .map_err(|error| broken("cannot make a repository for the linked work tree", &error))?;
        self.wall_off(workdir, &mut env, spec.sandbox.as_mut())?;
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

    /// Follows the raw file from its first byte. Events that the log has already are only counted.
    fn follower(&mut self) -> Result<OutputReader, AttemptFailure> {
        let log = self
            .log
            .take()
            .ok_or_else(|| AttemptFailure::failed(FailureClass::Agent, "the session log is gone"))?;
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
            self.attempt.live.clone(),
            self.kept_output(),
        )
        .map_err(|error| broken("cannot follow the agent", &error))
    }

    /// Maps what an agent printed once more, to know what it told: everything is in the log already.
    pub(super) async fn recall(&mut self) {
        self.events_written = u64::MAX;
        self.exit = vik_proc::read_exit_record(&self.files.exit()).ok();
        if let Ok(log) = vik_store::SessionLog::reopen(&self.files.log()) {
            self.log = Some(log.log);
        }
        if let Ok(follower) = self.follower()
            && let Ok(mut finished) = follower.finish().await
        {
            self.answered = Some(finished.answered);
            self.take_in(&mut *finished.adapter);
        }
    }

    /// Stays with the agent to its end.
    async fn watch(
        &mut self,
        supervised: Supervised,
        mut follower: OutputReader,
        began: Instant,
        mut stopping: Option<AttemptFailure>,
    ) -> Result<(), Abort> {
        self.attempt.live.set(|facts| facts.phase = LivePhase::Running);
        let handle = supervised.handle();
        let stage = self.start().stage.clone();
        let mut clocks = Timeouts::new(&stage, began, self.files.stderr());
        let (mut killed, mut detaching, mut warned) = (false, false, 0);
        let mut gate = self.gate().unwrap_or_else(|error| {
            self.fail(
                &handle,
                &FollowError::Answer(error),
                &mut stopping,
                &mut detaching,
            );
            None
        });
        let mut told = Spend::default();
        let orders = self.attempt.commands.clone();
        let has_login = self.spec.profile.home == Home::Private;
        let keeping_up = has_login.then(|| self.logins().keep_up());
        let end = loop {
            tokio::select! {
                end = supervised.wait() => break end,
                halt = orders.halted(), if stopping.is_none() => {
                    if let Some(limit) = halt.limit() {
                        log_limit(&mut follower, limit);
                    }
                    stopping = Some(self.stop(&handle, halt.trouble()));
                }
                () = orders.killed(), if !killed => {
                    killed = true;
                    handle.kill();
                }
                () = orders.detached(), if stopping.is_none() && !detaching => {
                    detaching = true;
                    handle.detach();
                }
                limits = orders.warned(warned) => {
                    warned += limits.len();
                    limits.into_iter().for_each(|limit| log_limit(&mut follower, limit));
                }
                answered = answered(&orders, gate.as_ref()), if stopping.is_none() => {
                    let heard = gate.as_mut().map_or(Ok(()), |gate| gate.on_answer(&answered, &mut follower));
                    if let Err(error) = heard {
                        self.fail(&handle, &error, &mut stopping, &mut detaching);
                    }
                }
                () = tokio::time::sleep(follower.poll_wait()) => {
                    let mut polled = follower.poll_slices().await;
                    self.report_spend(&follower, &mut told);
                    if let Some(gate) = gate.as_mut().filter(|_| polled.is_ok() && stopping.is_none()) {
                        polled = gate.poll(&mut follower);
                    }
                    if let Err(error) = polled {
                        self.fail(&handle, &error, &mut stopping, &mut detaching);
                    } else if let Some(trouble) = clocks.expired(&mut follower, gate.as_ref())
                        && stopping.is_none()
                        && !detaching
                    {
                        stopping = Some(self.stop(&handle, trouble));
                    }
                    if let Some(overrun) = follower.overrun().filter(|_| stopping.is_none() && !detaching) {
                        stopping = Some(self.stop(&handle, overrun_failure(&overrun)));
                        handle.kill();
                    }
                }
            }
        };
        drop(keeping_up);
        // An agent that lives on waits on.
        if let Some(gate) = gate.filter(|_| !matches!(&end, Err(lost) if lost.detached)) {
            gate.close();
        }
        self.agent_ran |= handle.agent().is_some();
        self.settle(end, follower, stopping).await
    }

    /// Stops the agent, and notes why first: should this daemon die, the next one knows.
    fn stop(&self, handle: &Handle, trouble: AttemptFailure) -> AttemptFailure {
        let step = Step::Stopping {
            trouble: trouble.clone(),
        };
        if let Err(error) = self.note(step) {
            tracing::warn!(
                session = self.id,
                error = error.reason,
                "a stop is not in the journal"
            );
        }
        handle.stop();
        trouble
    }

    /// Stops the agent, as its output or its answers cannot be handled. Where the disk is broken the agent is well: it is
    /// left to its shim, and the next daemon maps what it prints.
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
            let trouble = AttemptFailure::failed(FailureClass::Agent, report::chain(error));
            *stopping = Some(self.stop(handle, trouble));
        }
    }

    /// Leaves the agent to its shim, where that has a grace.
    fn release(&self, handle: &Handle) {
        if self.attempt.orphan_grace.is_zero() {
            handle.stop();
        } else {
            handle.detach();
        }
    }

    fn report_spend(&self, follower: &OutputReader, told: &mut Spend) {
        let (usage, cost) = follower.usage();
        let (spend, _) = figures(&self.spec.profile, usage, cost);
        if let Some(spend) = spend.filter(|spend| spend != told) {
            *told = spend;
            self.send_update(AttemptUpdateKind::Spent(spend));
        }
    }

    /// Takes in the end of the agent's process tree, and what it printed last.
    async fn settle(
        &mut self,
        end: Result<ExitRecord, ShimLost>,
        follower: OutputReader,
        stopping: Option<AttemptFailure>,
    ) -> Result<(), Abort> {
        self.exchange_login().await;
        if let Err(lost) = &end
            && lost.detached
        {
            if let Err(error) = follower.detach() {
                // The next daemon maps it from the raw file.
                let error = report::chain(&error);
                tracing::warn!(session = self.id, error, "the session log lacks the last events");
            }
            return Err(Abort::Detached);
        }
        let (proof, agent) = match &end {
            Ok(record) => (record.proof.clone(), record.agent),
            Err(lost) => (lost.proof().clone(), lost.agent),
        };
        self.proof = Some(proof.name());
        self.agent_ran |= agent.is_some() || follower.has_printed();
        let lost = match end {
            Ok(record) => {
                self.exit = Some(record);
                None
            }
            Err(lost) => Some(lost),
        };
        let mut finished = match follower.finish().await {
            Ok(finished) => finished,
            Err(error) => {
                // Why it was stopped says more than what came of that.
                let known = unproven(&proof).or_else(|| self.overrun()).or(stopping);
                return Err(known
                    .unwrap_or_else(|| broken("its output was not kept", &error))
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
                // Why it was stopped says more than what came of that.
                stopping.get_or_insert_with(|| broken("its output was not kept", &*error));
            }
        }
        self.answered = Some(finished.answered);
        self.take_in(&mut *finished.adapter);
        match (unproven(&proof), stopping, lost) {
            (Some(trouble), ..) | (None, Some(trouble), _) => Err(trouble.into()),
            (None, None, Some(lost)) => {
                let reason = match proof {
                    Proof::Reboot => "the machine was started anew while it ran".to_owned(),
                    _ => report::chain(&lost),
                };
                Err(AttemptFailure::of(Outcome::Lost, reason).into())
            }
            (None, None, None) => self.judge().map_err(Abort::from),
        }
    }

    /// Why the shim has killed the agent by itself.
    fn overrun(&self) -> Option<AttemptFailure> {
        let overrun = self.exit.as_ref()?.overrun.as_ref()?;
        Some(overrun_failure(overrun))
    }

    /// What the agent's own end means, when nobody stopped it.
    fn judge(&self) -> Result<(), AttemptFailure> {
        if let Some(record) = &self.exit {
            if let Some(failure) = &record.spawn_error {
                let class = match failure.kind {
                    SpawnFailureKind::NoResources | SpawnFailureKind::Other => FailureClass::Agent,
                    _ => FailureClass::Usage,
                };
                return Err(AttemptFailure::failed(
                    class,
                    format!("the agent {}", how_ended(record)),
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
                    if let Some(halt) = self.attempt.commands.halt() {
                        return Err(halt.trouble());
                    }
                    return Err(AttemptFailure::of(
                        Outcome::Lost,
                        "its agent was stopped while no daemon ran",
                    ));
                }
                Cause::Exited | Cause::SpawnFailed => {}
            }
        }
        // It told so late that it had ended before it could be stopped.
        if let Some(hit) = self.crossed().filter(|_| !self.conclusion.over_budget) {
            return Err(AttemptFailure::of(
                Outcome::OverBudget,
                format!("a limit is reached: {hit}"),
            ));
        }
        if self.conclusion.ok {
            return Ok(());
        }
        let how = self.exit.as_ref().map(how_ended).unwrap_or_default();
        let told = self.conclusion.reason.clone();
        let reason = told.unwrap_or_else(|| format!("the agent {how}"));
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
            format!("the earlier conversation could not be gone on with: {reason}")
        } else {
            reason
        };
        Err(AttemptFailure::failed(
            self.conclusion.failure_class.unwrap_or(FailureClass::Agent),
            reason,
        ))
    }
}

fn broken(what: &str, error: &dyn std::error::Error) -> AttemptFailure {
    AttemptFailure::failed(FailureClass::Agent, format!("{what}: {}", report::chain(error)))
}

fn noted_process(process: ProcessId) -> ProcessNote {
    ProcessNote {
        pid: process.pid,
        start_time: process.start_time,
    }
}

fn process(note: ProcessNote) -> ProcessId {
    ProcessId {
        pid: note.pid,
        start_time: note.start_time,
    }
}

/// Logs that a limit is near or reached.
fn log_limit(follower: &mut OutputReader, hit: LimitHit) {
    let percent = hit.percent();
    if let Err(error) = follower.append_event(Timestamp::now(), &Event::Limit { hit, percent }) {
        tracing::warn!(error = report::chain(&error), "a limit is not in the session log");
    }
}

/// Waits for what is said to that which waits for a person.
async fn answered(orders: &AttemptCommands, gate: Option<&ToolCallApprovals>) -> Answered {
    match gate.and_then(ToolCallApprovals::awaits) {
        Some(request) => orders.answered(request).await,
        None => std::future::pending().await,
    }
}

/// A recorded conversation lies beside the workflow: its path must hold in the issue workspace too.
fn resolve_base_url(profile: &mut AgentProfile, workflow_dir: &Path) {
    if profile.provider.as_deref() == Some("replay")
        && let Some(path) = &mut profile.base_url
    {
        let plain = path.strip_prefix("file://").unwrap_or(path);
        *path = workflow_dir.join(plain).to_string_lossy().into_owned();
    }
}
