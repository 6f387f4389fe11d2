//! Further turns of the conversation in the process of the attempt.
//!
//! When the agent has ended a turn and waits for input, its work is checked as after its end:
//! questions, then `verify`. The end is reported, and the scheduler decides after a pull. The prompt
//! of another turn is in the journal before it is in the agent's input, and there once, as the
//! messages of people are. In every other case the input ends, and with it the attempt.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use vik_core::ids::MessageId;
use vik_core::outcome::FailureClass;
use vik_core::turn::{EndedTurn, TurnOfMax};
use vik_store::{AttemptFailure, CheckedTurn, NotedTurn, Step};

use super::commands::TurnDecision;
use super::follow::{FollowError, OutputReader};
use super::live::LivePhase;
use super::opened::AttemptContext;
use super::scripts::{ScriptRunner, TurnVerifyError};
use super::tool_calls::ToolCallApprovals;
use crate::outputs;

/// The turns in the process of one attempt.
pub(super) struct Turns<'a> {
    cx: &'a AttemptContext<'a>,
    /// `None` for the agent of an earlier daemon, whose shim has the lock of the workspace.
    scripts: Option<ScriptRunner<'a>>,
    state: State<'a>,
    /// The turn that the agent is in.
    current: TurnOfMax,
    /// Ends a running check.
    cancel: Arc<Notify>,
    /// When the current turn began.
    started: Instant,
    /// How long the attempt had waited for people before it.
    waited_before: Duration,
}

enum State<'a> {
    /// No further turn follows: the end of a turn ends the input.
    Over,
    /// The agent works on a turn, or on a message of a person.
    Working,
    /// The agent waits for input while its work is checked.
    Checking(Pin<Box<dyn Future<Output = Checked> + Send + 'a>>),
    /// The agent waits for input, and the attempt for a decision.
    Reported(EndedTurn),
}

/// The result of the check of a turn that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// Another turn may follow in this process.
    Reportable(EndedTurn),
    /// The end of the attempt follows.
    Last,
    /// A message of a person has interrupted it.
    Interrupted,
}

/// What a turn that has ended waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnStep {
    Checked(Checked),
    Decided(TurnDecision),
}

impl<'a> Turns<'a> {
    /// Creates the turns of an attempt whose agent runs, and was started at this time.
    pub(super) fn new(
        cx: &'a AttemptContext<'a>,
        scripts: Option<ScriptRunner<'a>>,
        is_open: bool,
        started: Instant,
    ) -> Self {
        let current = cx.turn_of_max();
        let is_possible =
            is_open && cx.spec.not_steerable_because.is_none() && cx.start().stage.resume.resumes();
        let turns = Self {
            cx,
            scripts,
            state: match current {
                Some(_) if is_possible => State::Working,
                _ => State::Over,
            },
            current: current.unwrap_or(TurnOfMax { number: 0, max: 0 }),
            cancel: Arc::new(Notify::new()),
            started: cx.turn_started().unwrap_or(started),
            waited_before: Duration::ZERO,
        };
        turns.show();
        turns
    }

    /// Returns whether the agent waits for input while its turn is checked or decided about: no
    /// timeout runs, and messages of people wait.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Checking(_) | State::Reported(_))
    }

    /// Handles an agent that has ended a turn and waits for input. Returns whether its input stays
    /// open. `has_message` is whether a message of a person waits that it cannot take.
    pub(super) fn on_idle(&mut self, succeeded: bool, has_message: bool) -> bool {
        if self.is_waiting() {
            return true;
        }
        let is_left = self.current.number < self.current.max;
        if matches!(self.state, State::Over) || !succeeded || has_message || !is_left {
            self.state = State::Over;
            return false;
        }
        let (cx, scripts, cancel) = (self.cx, self.scripts, Arc::clone(&self.cancel));
        let turn = self.current.number;
        cx.attempt.updates.set_facts(|facts| facts.waits_for = None);
        self.state = State::Checking(Box::pin(cx.check_turn(turn, scripts, cancel)));
        true
    }

    /// Waits for the result of the running check, or for the decision about the reported turn;
    /// never returns otherwise. Cancelling the call loses nothing.
    pub(super) async fn next(&mut self) -> TurnStep {
        match &mut self.state {
            State::Checking(check) => TurnStep::Checked(check.await),
            State::Reported(ended) => {
                let commands = &self.cx.attempt.commands;
                TurnStep::Decided(commands.turn_decided(ended.turn).await)
            }
            State::Over | State::Working => std::future::pending().await,
        }
    }

    /// Handles what a turn that has ended waited for.
    pub(super) fn on_step(
        &mut self,
        step: TurnStep,
        approvals: Option<&mut ToolCallApprovals>,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        // The input of an agent that gets no turn ends with the next poll.
        reader.poll_soon();
        match step {
            TurnStep::Checked(checked) => self.on_checked(checked),
            TurnStep::Decided(decision) => {
                let next = self.on_decided(decision);
                if let Some((turn, approvals)) = next.zip(approvals) {
                    return self.send(turn, approvals, reader);
                }
            }
        }
        Ok(())
    }

    /// Handles the result of the check: reports the end of the turn, if another one may follow.
    fn on_checked(&mut self, checked: Checked) {
        let updates = &self.cx.attempt.updates;
        updates.set_facts(|facts| facts.phase = LivePhase::Running);
        self.state = match checked {
            Checked::Reportable(ended) => {
                updates.turn_ended(ended);
                State::Reported(ended)
            }
            Checked::Last => State::Over,
            Checked::Interrupted => State::Working,
        };
    }

    /// Handles the decision. Returns the step that records the prompt of another turn, except for
    /// its lines.
    fn on_decided(&mut self, decision: TurnDecision) -> Option<NotedTurn> {
        self.state = State::Over;
        let granted = decision.granted?;
        let trouble = self.cx.journal().checked_turn()?.trouble.clone();
        let feedback = trouble.and_then(|trouble| trouble.feedback);
        match self.cx.turn_prompt(feedback.as_deref()) {
            Ok(prompt) => Some(NotedTurn {
                id: MessageId(uuid::Uuid::new_v4()),
                granted,
                prompt,
                lines: Vec::new(),
            }),
            Err(failure) => {
                tracing::warn!(error = failure.reason, "cannot continue the conversation");
                None
            }
        }
    }

    /// Sends the prompt of another turn, with which the turn begins.
    fn send(
        &mut self,
        turn: NotedTurn,
        approvals: &mut ToolCallApprovals,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        let granted = turn.granted;
        if approvals.send_turn(turn, reader)? {
            self.state = State::Working;
            self.current = granted.into();
            self.started = Instant::now();
            self.waited_before = approvals.time_waited();
            reader.on_turn_sent();
            self.show();
        }
        Ok(())
    }

    /// Returns how long the current turn has lasted, without the time spent waiting for people.
    pub(super) fn elapsed(&self, approvals: Option<&ToolCallApprovals>) -> Duration {
        let waited = approvals.map(ToolCallApprovals::time_waited).unwrap_or_default();
        let waited = waited.saturating_sub(self.waited_before);
        self.started.elapsed().saturating_sub(waited)
    }

    /// Ends a running check, and waits until no process of it is alive.
    pub(super) async fn close(self) {
        if let State::Checking(check) = self.state {
            self.cancel.notify_one();
            check.await;
        }
    }

    fn show(&self) {
        let turn = (self.current.max > 0).then_some(self.current);
        self.cx.attempt.updates.set_facts(|facts| facts.turn = turn);
    }
}

impl AttemptContext<'_> {
    /// Returns the turn that the agent is in, or was in last; `None` in a stage without `turns`.
    fn turn_of_max(&self) -> Option<TurnOfMax> {
        match self.journal().last_turn() {
            Some((_, turn)) => Some(turn.granted.into()),
            None => TurnOfMax::of(self.start()),
        }
    }

    /// Returns the number of that turn; 0 in a stage without `turns`.
    pub(super) fn turn_number(&self) -> u32 {
        self.turn_of_max().map_or(0, |turn| turn.number)
    }

    /// Returns when the current turn began, if it is not the first one of the process.
    fn turn_started(&self) -> Option<Instant> {
        let at = self.journal().last_turn()?.0;
        let age = Timestamp::now().duration_since(at);
        Instant::now().checked_sub(Duration::try_from(age).unwrap_or_default())
    }

    /// Checks a turn that has ended, and records the result.
    async fn check_turn(&self, turn: u32, scripts: Option<ScriptRunner<'_>>, cancel: Arc<Notify>) -> Checked {
        let ended = |trouble: Option<&AttemptFailure>| {
            let is_verified = trouble.is_none();
            match trouble {
                None if self.ends_after_success() => Checked::Last,
                Some(trouble) if !is_failed_check(trouble) => Checked::Last,
                _ => Checked::Reportable(EndedTurn { turn, is_verified }),
            }
        };
        if self.is_checked_at_the_end().await || !matches!(self.read_question().await, Ok(None)) {
            return Checked::Last;
        }
        // An earlier daemon checked it and died.
        let known = self.journal().checked_turn().cloned();
        if let Some(known) = known.filter(|known| known.turn == turn) {
            return ended(known.trouble.as_ref());
        }
        let workdir = self.host().layout.issue_dir(&self.start().issue.id);
        let trouble = match (&self.start().stage.verify, scripts) {
            (None, _) => None,
            (Some(_), None) => return Checked::Last,
            (Some(_), Some(scripts)) => {
                let commands = &self.attempt.commands;
                let stop = async {
                    tokio::select! {
                        _ = commands.stopped() => {}
                        () = commands.message_delivered() => {}
                        () = cancel.notified() => {}
                    }
                };
                match scripts.verify_turn(&workdir, stop).await {
                    Ok(()) => None,
                    // The next daemon, or the end of the attempt, runs it when there is space.
                    Err(TurnVerifyError::Failed(_)) if self.disk_fails().await => return Checked::Last,
                    Err(TurnVerifyError::Failed(failure)) => Some(failure),
                    Err(TurnVerifyError::Cancelled) => return Checked::Interrupted,
                }
            }
        };
        let workspace = self.fingerprint(&workdir).await;
        let checked = CheckedTurn {
            turn,
            trouble,
            workspace: workspace.map(|fingerprint| fingerprint.0),
        };
        let next = ended(checked.trouble.as_ref());
        match self.note(Step::TurnChecked(Box::new(checked))) {
            Ok(()) => next,
            Err(_) => Checked::Last,
        }
    }

    /// Returns whether a success is followed by steps that must come before another turn.
    fn ends_after_success(&self) -> bool {
        let stage = &self.start().stage;
        stage.after_run.is_some() || stage.approve.as_ref().is_some_and(|policy| policy.after)
    }

    /// Returns whether the work of the agent is checked or handed over by steps that need its end:
    /// the scope, commits in a linked work tree, and outputs.
    async fn is_checked_at_the_end(&self) -> bool {
        let start = self.start();
        if start.intent.scope.is_some() || self.host().layout.worktree_record(&start.issue.id).exists() {
            return true;
        }
        if start.stage.outputs.is_none() {
            return false;
        }
        let file = self.output_file();
        let read = spawn_blocking(move || outputs::read_output_file(&file)).await;
        !matches!(read, Ok(Ok(bytes)) if bytes.is_empty())
    }

    /// Returns the check of the last turn, if nothing has changed since in the workspace.
    pub(super) async fn unchanged_check(&self, workdir: &Path) -> Option<CheckedTurn> {
        let checked = self.journal().checked_turn().cloned()?;
        let now = self.fingerprint(workdir).await?;
        let is_final = checked.trouble.as_ref().is_none_or(is_failed_check);
        (is_final && checked.workspace == Some(now.0)).then_some(checked)
    }
}

/// Returns whether `verify` ran and did not pass.
fn is_failed_check(trouble: &AttemptFailure) -> bool {
    trouble.class == Some(FailureClass::Verify)
}
