//! The daemon: it sends inputs to the scheduler, commits its changes, and carries out its effects.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use vik_core::attempt::{Start, StopReason};
use vik_core::changes::Changes;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::machine::RunEvent;
use vik_core::scheduler::{Effect, Expired, Input, Recalled, RemovalCause, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::workflow::ScopeConflicts;

use super::attempt::Task;
use super::turns::TurnDecision;
use super::{Held, World, workers};
use crate::disk;
use crate::fault::Fault;
use crate::host::Step;
use crate::oracle::{Broken, number};
use crate::restore;
use crate::trace::Event;
use crate::tracker::Snapshot;

pub(crate) struct Daemon {
    scheduler: Scheduler,
    /// Decided but not committed.
    waiting: VecDeque<Batch>,
    /// Committed but not carried out.
    acting: VecDeque<Effect>,
    pub(super) tasks: BTreeMap<AttemptId, Task>,
    pub(super) pull: Option<Pulling>,
    /// The output of the last successful pull.
    pub(super) pulled: Option<String>,
    /// Issues with a pending lookup.
    pub(super) lookups: Vec<IssueId>,
    /// The attempts whose work is being handed over.
    pub(super) hand_overs: Vec<Start>,
    /// The removals that are pending.
    pub(super) removals: Vec<PendingRemoval>,
    pub(super) asked: u64,
}

/// A removal that was decided.
pub(super) enum PendingRemoval {
    Workspace(IssueId, RemovalCause),
    Expired(Expired),
}

/// The changes and effects of one input.
struct Batch {
    changes: Changes,
    effects: Vec<Effect>,
}

pub(super) struct Pulling {
    /// The output of the tracker, which is taken when the pull starts or when it ends.
    pub(super) printed: Option<(Snapshot, &'static str)>,
}

impl Daemon {
    pub(super) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Removes the changes that are not committed, and the effects that are not carried out.
    #[cfg(test)]
    pub(super) fn take_decisions(&mut self) -> (Vec<Changes>, Vec<Effect>) {
        let mut effects: Vec<_> = self.acting.drain(..).collect();
        let decided = |batch: Batch| {
            effects.extend(batch.effects);
            batch.changes
        };
        (self.waiting.drain(..).map(decided).collect(), effects)
    }

    /// Returns whether every decision is durable and carried out.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.acting.is_empty()
    }
}

impl World {
    /// Starts a daemon from the durable state alone.
    pub(super) fn boot(&mut self) -> Held {
        // Any reading may be the first one.
        let uptime = self.rng.pick(&[0, 1, 1_000]);
        self.clock.daemon_starts(uptime);
        let now = self.clock.now();
        let workspaces = &self.host.workspaces;
        let mut stored = self.disk.stored(|issue| workspaces.contains(&number(issue)));
        restore::spoil(&mut stored, self.fault);
        let mut seed = [0; 6];
        seed.copy_from_slice(&self.rng.any().to_le_bytes()[..6]);
        let workflow = self.seen_policy();
        let known = stored.machines.len();
        let (mut scheduler, mut starts) =
            Scheduler::restore(workflow, self.filter.clone(), seed, stored, now);
        let changes = scheduler.take_changes();
        self.trace.note(Event::Boot {
            taken_up: starts.len(),
            known,
        });
        self.oracle.booted(&self.disk, &self.host, &starts, &scheduler)?;
        self.oracle.restored(&changes)?;
        if self.has(Fault::AdoptionSkipped) && !starts.is_empty() {
            starts.pop();
        }
        let mut daemon = Daemon {
            scheduler,
            waiting: VecDeque::new(),
            acting: VecDeque::new(),
            tasks: BTreeMap::new(),
            pull: None,
            pulled: None,
            lookups: Vec::new(),
            hand_overs: Vec::new(),
            removals: Vec::new(),
            asked: 0,
        };
        if changes != Changes::default() {
            daemon.waiting.push_back(Batch {
                changes,
                effects: Vec::new(),
            });
        }
        self.daemon = Some(daemon);
        for start in starts {
            self.take_up(start, true)?;
        }
        self.busy = false;
        // Some daemons may open few files, and their predecessor may have left more sessions.
        if seed[0] < 64 {
            self.send(Input::MaxSessions(1 + u32::from(seed[0] % 3)))?;
        }
        self.announce_workers()?;
        let workspaces = self
            .host
            .workspaces
            .iter()
            .map(|issue| self.tracker.id(*issue).clone());
        let workspaces = Input::Workspaces(workspaces.collect());
        self.send(workspaces)?;
        self.oracle.repeats_stops()
    }

    /// Returns the workflow as the core sees it.
    pub(super) fn seen_policy(&self) -> Arc<vik_core::workflow::Workflow> {
        let mut seen = (*self.policy).clone();
        if self.has(Fault::SlotsWiden) {
            seen.max_issue_concurrency += 2;
        } else if self.has(Fault::ScopesCross) {
            seen.issue.scope_conflicts = ScopeConflicts::Allow;
        } else {
            return Arc::clone(&self.policy);
        }
        Arc::new(seen)
    }

    /// Returns the time that the scheduler receives.
    pub(super) fn reported_now(&self) -> Now {
        let now = self.clock.now();
        if !self.has(Fault::WallForMono) {
            return now;
        }
        let wall = now.wall.as_millisecond() - 1_700_000_000_000;
        Now {
            wall: now.wall,
            mono: Mono(std::time::Duration::from_millis(
                u64::try_from(wall).unwrap_or_default(),
            )),
        }
    }

    /// Returns what the ledger has of these issues: it answers after all earlier commits.
    pub(super) fn recall(&self, issues: Vec<IssueId>) -> Recalled {
        let waiting = self.daemon.iter().flat_map(|daemon| daemon.waiting.iter().rev());
        let decided: Vec<_> = waiting.flat_map(|batch| batch.changes.machines.iter()).collect();
        let latest = |issue: &IssueId| {
            let decided = decided.iter().find(|machine| machine.issue().id == *issue);
            decided
                .copied()
                .or_else(|| self.disk.machines.get(issue))
                .and_then(disk::read)
        };
        let machines = match self.fault {
            Some(Fault::RecallForgotten) => Vec::new(),
            _ => issues.iter().filter_map(latest).collect(),
        };
        Recalled::new(issues, machines)
    }

    /// Sends an input to the scheduler; its effects wait for the ledger.
    pub(super) fn send(&mut self, input: Input) -> Held {
        let now = self.reported_now();
        let true_now = self.clock.now();
        let Some(daemon) = &mut self.daemon else {
            return Ok(());
        };
        let expected = self.oracle.expects(&daemon.scheduler, &input, now);
        let observed = match &input {
            // The oracle has these issues from the tracker.
            Input::Pulled { .. } | Input::LookupFinished { .. } => Input::Tick,
            input => input.clone(),
        };
        let is_known = daemon.scheduler.workers().is_some();
        let input = workers::spoilt(input, self.fault, is_known);
        let effects = daemon.scheduler.handle(now, input);
        let mut changes = daemon.scheduler.take_changes();
        self.oracle
            .decided(&observed, &effects, &changes, &daemon.scheduler, true_now)?;
        expected.meets(&effects)?;
        restore::spoil_changes(&mut changes, self.fault);
        self.oracle.charged(&changes)?;
        for effect in &effects {
            note(&mut self.trace, effect);
            if let Effect::Start(start) = effect
                && let Some(worker) = &start.worker
            {
                self.trace.note(Event::Places {
                    attempt_id: start.attempt_id,
                    worker: worker.to_string(),
                });
            }
        }
        let early = self.fault == Some(Fault::ActedEarly);
        if early || (changes == Changes::default() && daemon.waiting.is_empty()) {
            daemon.acting.extend(effects);
            if changes != Changes::default() {
                daemon.waiting.push_back(Batch {
                    changes,
                    effects: Vec::new(),
                });
            }
        } else {
            daemon.waiting.push_back(Batch { changes, effects });
        }
        Ok(())
    }

    /// Returns the number of removals because of `issue.unlisted` that were decided and not carried
    /// out.
    pub(super) fn unlisted_removals(&self) -> usize {
        let is_one = |effect: &&Effect| matches!(effect, Effect::RemoveWorkspace(_, RemovalCause::Unlisted));
        let Some(daemon) = &self.daemon else {
            return 0;
        };
        let waiting = daemon.waiting.iter().flat_map(|batch| &batch.effects);
        waiting.chain(&daemon.acting).filter(is_one).count()
    }

    /// Commits some of the waiting batches in one transaction.
    pub(super) fn commit(&mut self) -> Result<bool, Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        let of = daemon.waiting.len();
        if of == 0 {
            return Ok(false);
        }
        let batches = 1 + self.rng.below(of);
        let fate = self.rng.weighted(&[300, 1, 1]);
        if fate == 1 && self.plan.weights[super::DEATHS] > 0 {
            self.trace.note(Event::CommitLost { batches });
            self.dies()?;
            return Ok(true);
        }
        let lying = self.fault == Some(Fault::AckedEarly) && self.rng.percent(30);
        for batch in daemon.waiting.drain(..batches) {
            if !lying {
                self.disk.commit(&batch.changes);
            }
            daemon.acting.extend(batch.effects);
        }
        if fate == 2 && self.plan.weights[super::DEATHS] > 0 {
            self.trace.note(Event::CommitUnheard { batches });
            self.dies()?;
            return Ok(true);
        }
        self.trace.note(Event::Commit { batches, of });
        Ok(true)
    }

    /// Carries out the next effect.
    pub(super) fn act(&mut self) -> Result<bool, Broken> {
        let Some(effect) = self.daemon.as_mut().and_then(|daemon| daemon.acting.pop_front()) else {
            return Ok(false);
        };
        self.oracle.acts(&effect, &self.disk)?;
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        let detail = match effect {
            Effect::Start(start) => {
                self.take_up(*start, false)?;
                "start"
            }
            Effect::Stop { attempt_id, why } => {
                if self.fault != Some(Fault::StopIgnored)
                    && let Some(task) = daemon.tasks.get_mut(&attempt_id)
                {
                    task.stop.get_or_insert(why);
                    if self.fault == Some(Fault::RemovedUnderAgent) {
                        let issue = task.issue().clone();
                        let removal = PendingRemoval::Workspace(issue, RemovalCause::Finished);
                        daemon.removals.push(removal);
                    }
                }
                "stop"
            }
            Effect::LookUp(issue) => {
                daemon.lookups.push(issue);
                "show"
            }
            Effect::RemoveWorkspace(issue, cause) => {
                daemon.removals.push(PendingRemoval::Workspace(issue.id, cause));
                "remove workspace"
            }
            Effect::RemoveExpired(expired, _) => {
                daemon.removals.push(PendingRemoval::Expired(expired));
                "remove old data"
            }
            Effect::HandOver(start) => {
                if self.fault == Some(Fault::HandOverDoubles) {
                    let again = Effect::HandOver(start.clone());
                    self.oracle.acts(&again, &self.disk)?;
                }
                daemon.hand_overs.push(*start);
                "hand over"
            }
            Effect::Warn { .. } => "warn",
            Effect::DeliverAnswer { .. } => "deliver answer",
            Effect::DeliverMessage { attempt_id, message } => {
                let taken = self.host.files.get(&attempt_id);
                let is_taken = taken.is_some_and(|files| files.taken.contains(&message.id));
                if let Some(task) = daemon.tasks.get_mut(&attempt_id)
                    && !is_taken
                {
                    task.inbox.push_back(message);
                }
                "deliver message"
            }
            Effect::GrantTurn { attempt_id, granted } => {
                if let Some(task) = daemon.tasks.get_mut(&attempt_id) {
                    task.decision = Some(TurnDecision::Granted(granted));
                }
                "grant turn"
            }
            Effect::RefuseTurn { attempt_id, turn } => {
                if let Some(task) = daemon.tasks.get_mut(&attempt_id) {
                    task.decision = Some(TurnDecision::Refused { turn });
                }
                "refuse turn"
            }
            Effect::CommandResult(..) => "answer",
            Effect::Pull => "pull",
            Effect::RunEvent(..) => "run event",
        };
        self.trace.note(Event::Acts { detail });
        Ok(true)
    }

    /// Starts an attempt, or recovers it at the step that its files show.
    pub(super) fn take_up(&mut self, start: Start, restored: bool) -> Held {
        let attempt_id = start.attempt_id;
        if let (Some(pool), Some(worker)) = (&mut self.pool, &start.worker) {
            pool.takes(attempt_id, worker);
        }
        if let Some(files) = self.host.files.get_mut(&attempt_id).filter(|_| restored) {
            match self.fault {
                Some(Fault::JournalIgnored) => files.step = Step::Started,
                Some(Fault::HooksAgain) => {
                    files.step = match files.step {
                        Step::HookEnded => Step::Prepared,
                        Step::Over => Step::Logged,
                        step => step,
                    }
                }
                _ => {}
            }
        }
        if let Some(daemon) = &mut self.daemon {
            let mut task = Task::new(start, restored);
            if self.fault != Some(Fault::TakenUnreported)
                && let Some(files) = self.host.files.get(&attempt_id)
            {
                task.unreported.extend(files.taken.iter().copied());
            }
            daemon.tasks.insert(attempt_id, task);
        }
        Ok(())
    }

    /// Kills the daemon; durable state and processes survive.
    pub(super) fn dies(&mut self) -> Held {
        let Some(daemon) = self.daemon.take() else {
            return Ok(());
        };
        self.trace.note(Event::Crash {
            uncommitted: daemon.waiting.len(),
            not_acted: daemon.acting.len(),
        });
        self.oracle.crashed(&self.disk)
    }
}

/// Records decisions in the trace.
fn note(trace: &mut crate::trace::Trace, effect: &Effect) {
    trace.note(match effect {
        Effect::Start(start) => Event::DecidesStart {
            issue: number(&start.issue.id),
            attempt_id: start.attempt_id,
            attempt: start.attempt,
        },
        Effect::Stop { attempt_id, why } => Event::DecidesStop {
            attempt_id: *attempt_id,
            why: match why {
                StopReason::StateChanged => "state changed",
                StopReason::Terminal => "terminal",
                StopReason::Missing => "missing",
                StopReason::Cancelled => "cancelled",
                StopReason::TakenOver => "taken over",
                StopReason::OverBudget(_) => "over budget",
            },
        },
        Effect::RunEvent(issue, RunEvent::Parked { reason, .. }) => Event::Parks {
            issue: number(issue),
            reason: reason.as_str(),
        },
        Effect::RunEvent(
            issue,
            RunEvent::BackingOff { wait, .. } | RunEvent::HandOverFailed { wait, .. },
        ) => Event::BacksOff {
            issue: number(issue),
            ms: wait.as_millis() as u64,
        },
        Effect::RunEvent(issue, RunEvent::Ended { .. } | RunEvent::Closed { .. }) => Event::RunOver {
            issue: number(issue),
            freed: false,
        },
        Effect::RunEvent(issue, RunEvent::Freed { .. }) => Event::RunOver {
            issue: number(issue),
            freed: true,
        },
        _ => return,
    });
}
