//! A running attempt: its agent is watched until no process of it is alive.

use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use vik_base::{failpoint, report};
use vik_core::event::Event;
use vik_core::limits::{LimitHit, Spend};
use vik_core::machine::Answered;
use vik_core::outcome::FailureClass;
use vik_core::workflow::Home;
use vik_proc::{Graces, Handle, ProcessId, ShimSpec, StdoutMode, Supervised};
use vik_store::{AttemptFailure, ProcessRecord, Step, StoreError};
use vik_workspace::Fingerprint;

use super::agent_end::reported_spend;
use super::commands::AttemptCommands;
use super::exited::{Detached, EndedTree, Exited};
use super::follow::{FollowError, OutputReader};
use super::full::overrun_failure;
use super::live::{LivePhase, Stopping};
use super::opened::{AttemptContext, broken};
use super::scripts::ScriptRunner;
use super::timeouts::Timeouts;
use super::tool_calls::ToolCallApprovals;
use super::turns::Turns;
use super::workplace::Workplace;

/// An attempt whose agent runs under its shim.
pub(super) struct Running<'a> {
    pub(super) cx: &'a AttemptContext<'a>,
    pub(super) supervised: Supervised,
    pub(super) reader: OutputReader,
    pub(super) started: Instant,
    /// Why the agent is being stopped.
    pub(super) stopping: Option<AttemptFailure>,
    /// Whether an earlier daemon wrote the last line of the session log.
    pub(super) log_is_ended: bool,
}

impl<'a> Running<'a> {
    /// Starts the shim, and with it the agent.
    ///
    /// # Errors
    /// When the shim cannot be started.
    pub(super) async fn start(
        cx: &'a AttemptContext<'a>,
        spec: ShimSpec,
        reader: OutputReader,
        workplace: &Workplace,
        log_is_ended: bool,
    ) -> Result<Self, AttemptFailure> {
        let before = workplace.before.map(|Fingerprint(before)| before);
        let (shims, journal) = (cx.host().agent_shims.clone(), cx.shared_journal());
        let refused: Arc<OnceLock<StoreError>> = Arc::default();
        let refusal = Arc::clone(&refused);
        // The shim is registered before the agent starts: the agent may call the daemon
        // immediately, and the daemon may die at that moment.
        let on_shim = move |shim: ProcessId| {
            shims.add([shim]);
            let step = Step::Shim {
                shim: process_note(shim),
                before,
            };
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = journal.record(step) {
                let _ = refusal.set(error);
            }
            failpoint::reach("shim_started");
        };
        let started = Instant::now();
        let supervised = cx
            .host()
            .supervisor
            .spawn_noted(&spec, Some(&workplace.lock), StdoutMode::Null, on_shim)
            .await
            .map_err(|error| broken("cannot start the shim", &error))?;
        let mut stopping = None;
        if let Some(error) = refused.get() {
            cx.disk.note(error);
            // A process that the next daemon cannot find must not run.
            stopping = Some(broken("cannot write the journal", error));
            supervised.kill();
        } else if let Some(agent) = supervised.agent() {
            let agent = process_note(agent);
            if let Err(failure) = cx.note(Step::AgentStarted { agent }) {
                stopping = Some(failure);
                supervised.kill();
            }
        }
        failpoint::reach("agent_started");
        Ok(Self {
            cx,
            supervised,
            reader,
            started,
            stopping,
            log_is_ended,
        })
    }

    /// Watches the agent until no process of it is alive. `scripts` runs `verify` after its turns.
    ///
    /// # Errors
    /// When the attempt was detached.
    pub(super) async fn watch(self, scripts: Option<ScriptRunner<'_>>) -> Result<Exited<'a>, Detached> {
        let Self {
            cx,
            supervised,
            mut reader,
            started,
            stopping,
            log_is_ended,
        } = self;
        cx.attempt.updates.set_facts(|facts| {
            facts.phase = LivePhase::Running;
            facts.waits_for = reader.waits_for();
        });
        let mut agent = WatchedAgent {
            cx,
            handle: supervised.handle(),
            course: stopping.map_or(Course::Working, Course::Stopping),
        };
        let mut timeouts = Timeouts::new(&cx.start().stage, cx.spec.profile.read_timeout, cx.files.stderr());
        let (mut killed, mut warned, mut is_prompt_taken) = (false, 0, false);
        if agent.handle.agent().is_some() {
            cx.log_prompt_messages(&mut cx.message_events(), &mut reader);
        }
        let mut approvals = cx.tool_call_approvals().unwrap_or_else(|error| {
            agent.fail(&FollowError::Answer(error));
            None
        });
        if let Some(Err(error)) = approvals
            .as_mut()
            .filter(|_| !agent.is_stopping())
            .map(|approvals| approvals.resume_messages(&mut reader))
        {
            agent.fail(&error);
        }
        let mut turns = Turns::new(cx, scripts, approvals.is_some(), started);
        let mut last_spend = Spend::default();
        let commands = cx.attempt.commands.clone();
        let has_login = cx.spec.profile.home == Home::Private;
        let login_sync = has_login.then(|| cx.logins().spawn_sync());
        let end = loop {
            tokio::select! {
                end = supervised.wait() => break end,
                cause = commands.stopped(), if !agent.is_stopping() => {
                    if let Some(limit) = cause.limit() {
                        log_limit(&mut reader, limit);
                    }
                    agent.stop(cause.failure());
                }
                () = commands.killed(), if !killed => {
                    killed = true;
                    agent.handle.kill();
                    agent.show_kill();
                }
                () = commands.detached(), if agent.is_working() => agent.detach(),
                limits = commands.warned(warned) => {
                    warned += limits.len();
                    limits.into_iter().for_each(|limit| log_limit(&mut reader, limit));
                }
                answered = answered(&commands, approvals.as_ref()), if !agent.is_stopping() => {
                    let handled = approvals
                        .as_mut()
                        .map_or(Ok(()), |approvals| approvals.on_answer(&answered, &mut reader));
                    if let Err(error) = handled {
                        agent.fail(&error);
                    }
                }
                step = turns.next(), if agent.is_working() => {
                    if let Err(error) = turns.on_step(step, approvals.as_mut(), &mut reader) {
                        agent.fail(&error);
                    }
                }
                () = tokio::time::sleep(reader.poll_wait()) => {
                    let mut polled = reader.poll_slices().await;
                    cx.report_spend(&reader, &mut last_spend);
                    if reader.has_answered() && !std::mem::replace(&mut is_prompt_taken, true) {
                        cx.report_prompt_taken();
                    }
                    if let Some(approvals) =
                        approvals.as_mut().filter(|_| polled.is_ok() && !agent.is_stopping())
                    {
                        polled = approvals.poll(&mut reader, Some(&mut turns));
                    }
                    if let Err(error) = polled {
                        agent.fail(&error);
                    } else if let Some(failure) = timeouts.expired(&mut reader, approvals.as_ref(), &turns)
                        && agent.is_working()
                    {
                        agent.stop(failure);
                    }
                    if let Some(overrun) = reader.overrun().filter(|_| agent.is_working()) {
                        agent.stop(overrun_failure(&overrun));
                        agent.handle.kill();
                        agent.show_kill();
                    }
                }
            }
        };
        drop(login_sync);
        turns.close().await;
        // A detached agent still waits for its answer.
        if let Some(approvals) = approvals.filter(|_| !matches!(&end, Err(lost) if lost.detached)) {
            approvals.close();
        }
        let tree = EndedTree {
            cx,
            end,
            reader,
            ran: agent.handle.agent().is_some(),
            stopping: match agent.course {
                Course::Stopping(failure) => Some(failure),
                Course::Working | Course::Detaching => None,
            },
            log_is_ended,
        };
        // In the memory of every running attempt, it would be nearly a third.
        Box::pin(tree.read_remaining()).await
    }
}

/// What Vik does with a running agent.
enum Course {
    Working,
    /// The agent is released to its shim.
    Detaching,
    /// The agent is being stopped, for this reason.
    Stopping(AttemptFailure),
}

/// An agent while it is watched.
struct WatchedAgent<'a> {
    cx: &'a AttemptContext<'a>,
    handle: Handle,
    course: Course,
}

impl WatchedAgent<'_> {
    fn is_working(&self) -> bool {
        matches!(self.course, Course::Working)
    }

    fn is_stopping(&self) -> bool {
        matches!(self.course, Course::Stopping(_))
    }

    /// Writes the reason to the journal, so that the next daemon knows it, and stops the agent.
    fn stop(&mut self, failure: AttemptFailure) {
        let step = Step::Stopping {
            trouble: failure.clone(),
        };
        if let Err(error) = self.cx.note_end(step) {
            tracing::warn!(error = error.reason, "cannot record a stop in the journal");
        }
        self.handle.stop();
        let graces = Graces::default();
        let stopping = Stopping {
            why: failure.plain_reason().to_owned(),
            since: Timestamp::now(),
            graces: (graces.int, graces.term),
            is_killed: false,
        };
        let updates = &self.cx.attempt.updates;
        updates.set_facts(|facts| facts.stopping = Some(stopping));
        self.course = Course::Stopping(failure);
    }

    /// Shows that the last step of the stop ladder was taken at once.
    fn show_kill(&self) {
        self.cx.attempt.updates.set_facts(|facts| {
            if let Some(stopping) = &mut facts.stopping {
                stopping.is_killed = true;
            }
        });
    }

    fn detach(&mut self) {
        self.handle.detach();
        self.course = Course::Detaching;
    }

    /// Stops the agent because its output or its answers cannot be handled. If the disk is broken,
    /// the agent itself is fine: it is left to its shim, and the next daemon maps its output.
    fn fail(&mut self, error: &FollowError) {
        let is_broken = error.store().is_some_and(|error| self.cx.disk.note(error));
        if !self.is_working() {
            return;
        }
        if is_broken {
            if self.cx.attempt.orphan_grace.is_zero() {
                // Without an orphan grace, no shim keeps an agent.
                self.handle.stop();
                self.course = Course::Detaching;
            } else {
                self.detach();
            }
            return;
        }
        let reason = report::chain(error);
        self.stop(match error {
            // The agent violates the protocol.
            FollowError::Broken(_) => AttemptFailure::failed(FailureClass::Agent, reason),
            _ => AttemptFailure::bug(reason),
        });
    }
}

impl AttemptContext<'_> {
    fn report_spend(&self, reader: &OutputReader, reported: &mut Spend) {
        let (usage, cost) = reader.usage();
        let (spend, _) = reported_spend(&self.spec.profile, usage, cost);
        if let Some(spend) = spend.filter(|spend| spend != reported) {
            *reported = spend;
            self.attempt.updates.spent(spend);
        }
    }
}

fn process_note(process: ProcessId) -> ProcessRecord {
    ProcessRecord {
        pid: process.pid,
        start_time: process.start_time,
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
