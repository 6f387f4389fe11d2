//! One attempt as its session performs it: each step is on disk before the next, and recovery
//! repeats the same path.

use std::collections::VecDeque;
use std::time::Duration;

use vik_core::attempt::{AttemptResult, BeforeRunFailure, HandOverFailure, Start, StopReason};
use vik_core::ids::{AttemptId, IssueId, MessageId};
use vik_core::limits::Spend;
use vik_core::message::Message;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::Input;

use super::turns::TurnDecision;
use super::{Held, World};
use crate::clock::later;
use crate::fault::Fault;
use crate::host::{Files, Step, Tree, ran};
use crate::oracle::{Broken, number};
use crate::trace::Event;

/// The daemon's part of an attempt, which dies with it.
pub(crate) struct Task {
    start: Start,
    pub(super) stop: Option<StopReason>,
    /// Whether it was recovered after a restart.
    restored: bool,
    /// Whether a hook runs for this daemon.
    in_hook: bool,
    reported: Spend,
    /// The messages that its agent has not read.
    pub(super) inbox: VecDeque<Message>,
    /// The messages that its agent has taken, until that is reported.
    pub(super) unreported: Vec<MessageId>,
    /// Whether the end of the current turn was reported.
    pub(super) has_reported_turn: bool,
    /// What follows the turn: another one, or the end of the input.
    pub(super) decision: Option<TurnDecision>,
}

impl Task {
    pub(super) fn new(start: Start, restored: bool) -> Self {
        Self {
            start,
            stop: None,
            restored,
            in_hook: false,
            reported: Spend::default(),
            inbox: VecDeque::new(),
            unreported: Vec::new(),
            has_reported_turn: false,
            decision: None,
        }
    }

    pub(super) fn start(&self) -> &Start {
        &self.start
    }

    pub(super) fn issue(&self) -> &IssueId {
        &self.start.issue.id
    }
}

/// The result of an attempt that failed before its agent ran.
fn not_run(class: FailureClass) -> AttemptResult {
    AttemptResult {
        failure_class: Some(class),
        ..AttemptResult::new(Outcome::Failed)
    }
}

/// The result of a step of a task.
enum Did {
    Nothing,
    Step(&'static str),
    Over(Box<AttemptResult>),
}

impl World {
    /// Performs the next step of a random attempt.
    pub(super) fn attempt_steps(&mut self) -> Result<bool, Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        if daemon.tasks.is_empty() {
            return Ok(false);
        }
        let at = self.rng.below(daemon.tasks.len());
        let Some((&attempt_id, _)) = daemon.tasks.iter().nth(at) else {
            return Ok(false);
        };
        self.attempt_step(attempt_id)
    }

    /// Performs the next step of this attempt, if there is one.
    pub(super) fn attempt_step(&mut self, attempt_id: AttemptId) -> Result<bool, Broken> {
        let Some(mut task) = self
            .daemon
            .as_mut()
            .and_then(|daemon| daemon.tasks.remove(&attempt_id))
        else {
            return Ok(false);
        };
        let did = self.do_step(&mut task)?;
        if let Did::Over(report) = did {
            if self.has(Fault::SlotLeaks) && self.rng.percent(20) {
                return Ok(true);
            }
            let issue = task.start.issue.id;
            if !task.unreported.is_empty() {
                self.send(Input::MessagesTaken {
                    issue: issue.clone(),
                    attempt_id,
                    messages: task.unreported,
                })?;
            }
            self.trace.note(Event::Ended {
                attempt_id,
                outcome: report.outcome,
            });
            self.reports.push((issue.clone(), attempt_id, (*report).clone()));
            self.send(Input::Ended {
                issue,
                attempt_id,
                report: *report,
            })?;
            return Ok(true);
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.tasks.insert(attempt_id, task);
        }
        if let Did::Step(step) = did {
            self.trace.note(Event::Task { attempt_id, step });
        }
        Ok(matches!(did, Did::Step(_)))
    }

    fn do_step(&mut self, task: &mut Task) -> Result<Did, Broken> {
        let attempt_id = task.start.attempt_id;
        let issue = number(&task.start.issue.id);
        if self.loses_worker(attempt_id, task.start.worker.as_ref()) {
            return Ok(Did::Step("worker lost"));
        }
        let Some(files) = self.host.files.get(&attempt_id) else {
            self.host.files.insert(attempt_id, Files::default());
            return Ok(Did::Step("started"));
        };
        let step = files.step;
        let stage = &task.start.stage;
        Ok(match step {
            Step::Started => {
                let is_new = self.host.workspaces.insert(issue);
                if is_new && self.policy.issue.after_create.is_some() && self.rng.percent(10) {
                    self.host.workspaces.remove(&issue);
                    let mut report = not_run(FailureClass::Hook);
                    report.preparing = true;
                    self.conclude(attempt_id, report)
                } else if self.rng.percent(3) {
                    // Vik cannot write a file, or a task panics.
                    self.conclude(attempt_id, not_run(FailureClass::Internal))
                } else {
                    self.at(attempt_id, Step::Prepared, "prepared")
                }
            }
            Step::Prepared if stage.before_run.is_none() => self.at(attempt_id, Step::HookEnded, "no hook"),
            Step::Prepared | Step::HookEnded if task.stop.is_some() => {
                let outcome = self.stopped(task).unwrap_or(Outcome::Cancelled);
                self.conclude(attempt_id, AttemptResult::new(outcome))
            }
            Step::Prepared => {
                self.hook_starts(task, 0)?;
                self.at(attempt_id, Step::HookStarted, "before_run starts")
            }
            Step::HookStarted if !task.in_hook => {
                self.hook_starts(task, 0)?;
                Did::Step("before_run starts again")
            }
            Step::HookStarted => {
                self.hook_ends(task, 0);
                if self.rng.percent(10) {
                    let mut report = not_run(FailureClass::Hook);
                    report.before_run = match self.rng.below(4) {
                        // The prompt cannot be rendered.
                        0 => None,
                        1 => Some(BeforeRunFailure::Failed),
                        _ => Some(BeforeRunFailure::TryLater {
                            wait: Duration::from_secs(self.rng.between(0, 2_000)),
                        }),
                    };
                    self.conclude(attempt_id, report)
                } else {
                    self.at(attempt_id, Step::HookEnded, "before_run ends")
                }
            }
            Step::HookEnded => {
                let did = self.spawn(issue, &task.start)?;
                if self.host.trees.contains_key(&attempt_id) {
                    let messages = task.start.messages.iter().map(|message| message.id);
                    let messages: Vec<_> = messages.collect();
                    self.takes(&task.start, &messages)?;
                    task.unreported.extend(messages);
                }
                did
            }
            Step::Spawned => match self.turn_step(task)? {
                Some(step) => Did::Step(step),
                None => self.follow(issue, task)?,
            },
            Step::Logged => {
                let is_skipped = files
                    .report
                    .as_ref()
                    .is_some_and(|report| matches!(report.outcome, Outcome::Cancelled | Outcome::Asked));
                if is_skipped || stage.after_run.is_none() {
                    self.at(attempt_id, Step::Over, "no after_run")
                } else {
                    self.hook_starts(task, 1)?;
                    self.at(attempt_id, Step::AfterStarted, "after_run starts")
                }
            }
            Step::AfterStarted if !task.in_hook => {
                self.hook_starts(task, 1)?;
                Did::Step("after_run starts again")
            }
            Step::AfterStarted => {
                self.hook_ends(task, 1);
                let failure = self.rng.percent(30).then(|| self.hand_over_failure());
                if let Some(report) = self
                    .host
                    .files
                    .get_mut(&attempt_id)
                    .and_then(|files| files.report.as_mut())
                {
                    report.hand_over_failure = failure.map(Box::new);
                    self.oracle.knows_end(attempt_id, report);
                }
                self.at(attempt_id, Step::Over, "after_run ends")
            }
            Step::Over => Did::Over(Box::new(
                files
                    .report
                    .clone()
                    .unwrap_or_else(|| AttemptResult::new(Outcome::Lost)),
            )),
        })
    }

    fn hand_over_failure(&mut self) -> HandOverFailure {
        HandOverFailure {
            step: "after_run".to_owned(),
            reason: "no".to_owned(),
            wait: Duration::from_secs(self.rng.pick(&[0, 0, 2_000])),
            needs_person: self.rng.percent(20),
        }
    }

    /// Ends a random try to hand work over, which may move the issue.
    pub(super) fn hand_over_ends(&mut self) -> Result<bool, Broken> {
        let waiting = self.daemon.as_mut().map(|daemon| &mut daemon.hand_overs);
        let Some(start) = waiting.and_then(|waiting| self.rng.take(waiting)) else {
            return Ok(false);
        };
        let result = match self.rng.percent(60) {
            true => Ok(()),
            false => Err(self.hand_over_failure()),
        };
        let issue = number(&start.issue.id);
        if self.rng.percent(self.plan.temper.moves) {
            self.moves(issue, "moved by its hand-over");
        }
        self.trace.note(Event::HandedOver {
            attempt_id: start.attempt_id,
            done: result.is_ok(),
        });
        self.send(Input::HandOverEnded {
            issue: start.issue.id,
            attempt_id: start.attempt_id,
            result,
        })?;
        Ok(true)
    }

    fn at(&mut self, attempt_id: AttemptId, step: Step, name: &'static str) -> Did {
        if let Some(files) = self.host.files.get_mut(&attempt_id) {
            files.step = step;
        }
        Did::Step(name)
    }

    fn hook_starts(&mut self, task: &mut Task, hook: usize) -> Held {
        task.in_hook = true;
        let attempt_id = task.start.attempt_id;
        let Some(files) = self.host.files.get_mut(&attempt_id) else {
            return Ok(());
        };
        let (started, ended) = &mut files.hooks[hook];
        if *ended > 0 {
            return Err(Broken::new(
                "3: a hook runs twice only after a crash between its start and its end",
                format!("the hook of {attempt_id} starts again, but its end is on disk"),
            ));
        }
        *started += 1;
        Ok(())
    }

    fn hook_ends(&mut self, task: &mut Task, hook: usize) {
        task.in_hook = false;
        if let Some(files) = self.host.files.get_mut(&task.start.attempt_id) {
            files.hooks[hook].1 += 1;
        }
    }

    /// Starts the shim with its agent.
    fn spawn(&mut self, issue: usize, start: &Start) -> Result<Did, Broken> {
        let attempt_id = start.attempt_id;
        if self
            .host
            .trees
            .values()
            .any(|tree| tree.issue == issue && tree.given_up)
        {
            // A shim that is still alive holds the lock of the workspace.
            return Ok(self.conclude(attempt_id, AttemptResult::new(Outcome::Lost)));
        }
        let times = 1 + usize::from(self.has(Fault::DoubleSpawn) && self.rng.percent(20));
        for _ in 0..times {
            self.oracle.spawns(issue, start, &self.host, &self.disk)?;
            let tree = Tree::new(issue, start.clone(), &self.plan.temper, &mut self.rng);
            self.host.trees.insert(attempt_id, tree);
        }
        Ok(self.at(attempt_id, Step::Spawned, "agent starts"))
    }

    /// Follows the agent until its tree has exited.
    fn follow(&mut self, issue: usize, task: &Task) -> Result<Did, Broken> {
        let attempt_id = task.start.attempt_id;
        let stopped = self.stopped(task);
        if let Some(tree) = self.host.trees.get_mut(&attempt_id) {
            if self.fault == Some(Fault::AdoptionDoubles) && task.restored {
                return self.spawn(issue, &task.start);
            }
            if self.fault == Some(Fault::ClaimFreedEarly) && self.rng.percent(10) {
                return Ok(Did::Over(Box::new(ran(Outcome::Cancelled, None))));
            }
            if stopped.is_some() {
                tree.stop();
            }
            return Ok(Did::Nothing);
        }
        let Some(files) = self.host.files.get(&attempt_id) else {
            return Ok(Did::Nothing);
        };
        let turn = files.turn.max(task.start.turn);
        let Some(exit) = files.exit else {
            let mut report = ran(Outcome::Lost, files.reported);
            report.turn = turn;
            report.proof = Some("reboot".to_owned());
            return Ok(self.conclude(attempt_id, report));
        };
        let mut report = exit.report(stopped, &mut self.rng);
        report.turn = turn;
        let verified = report.outcome == Outcome::Succeeded && task.start.stage.verify.is_some();
        if verified && self.rng.percent(30) {
            report.outcome = Outcome::Failed;
            report.failure_class = Some(FailureClass::Verify);
            report.feedback = Some("no".to_owned());
        }
        if report.failure_class == Some(FailureClass::RateLimit) && self.rng.percent(60) {
            let seconds = self.rng.between(0, 20_000) as i64 - 100;
            report.resets_at = Some(later(self.clock.now().wall, seconds));
        }
        Ok(self.conclude(attempt_id, report))
    }

    /// Writes the end to the log.
    fn conclude(&mut self, attempt_id: AttemptId, mut report: AttemptResult) -> Did {
        self.oracle.knows_end(attempt_id, &report);
        if self.has(Fault::ChargedNever) && report.spend.is_none() {
            report.ran = false;
            report.answered = None;
        } else if self.has(Fault::QuestionCharged) && report.outcome == Outcome::Asked {
            report.outcome = Outcome::Succeeded;
        }
        if let Some(files) = self.host.files.get_mut(&attempt_id) {
            files.report = Some(report);
        }
        self.at(attempt_id, Step::Logged, "ended")
    }

    /// Returns the outcome of an attempt that Vik stops.
    fn stopped(&self, task: &Task) -> Option<Outcome> {
        task.stop.as_ref().map(|why| match why {
            StopReason::OverBudget(_) => Outcome::OverBudget,
            _ => Outcome::Cancelled,
        })
    }

    /// Reports the spending of an attempt to the scheduler.
    pub(super) fn report_spend(&mut self) -> Result<bool, Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        let updates = daemon.tasks.iter_mut().filter_map(|(attempt_id, task)| {
            let tree = self.host.trees.get(attempt_id)?;
            let known = tree.reports_spend && !tree.given_up && tree.spent != task.reported;
            known.then_some((*attempt_id, tree.spent, task))
        });
        let mut updates: Vec<_> = updates.collect();
        let Some((attempt_id, spend, task)) = self.rng.take(&mut updates) else {
            return Ok(false);
        };
        task.reported = spend;
        let issue = task.start.issue.id.clone();
        self.trace.note(Event::Spent {
            attempt_id,
            tokens: spend.tokens,
            micro_usd: spend.usd.0,
        });
        let input = Input::Spent {
            issue,
            attempt_id,
            spend,
        };
        if self.fault == Some(Fault::SpendUnheard) {
            self.oracle.on_input(&input);
            return self.tick();
        }
        self.send(input)?;
        Ok(true)
    }
}
