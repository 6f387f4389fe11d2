//! Checks the decisions on one input.

use vik_core::approval::{self, Request};
use vik_core::attempt::{AttemptResult, BeforeRunFailure, StopReason};
use vik_core::changes::Changes;
use vik_core::ids::{AttemptId, IssueId, RunId, StageName};
use vik_core::limits::{LimitScope, Spend};
use vik_core::machine::{IssueMachine, ParkReason, RunEvent, WaitReason};
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, FailureClass, Outcome};
use vik_core::scheduler::{Command, CommandResult, Effect, Input, Scheduler};
use vik_core::time::Now;

use super::books::{Lived, MOST_INTERNAL, Parked, day};
use super::{Broken, Facts, Held, Oracle, ensure, number};

impl Oracle {
    /// Checks the decisions on an input.
    pub(crate) fn decided(
        &mut self,
        observed: &Input,
        effects: &[Effect],
        changes: &Changes,
        scheduler: &Scheduler,
        now: Now,
    ) -> Held {
        self.seq += 1;
        self.on_input(observed);
        if let Input::Ended {
            attempt_id, report, ..
        } = observed
        {
            self.attempt_ended(*attempt_id, report, changes, now)?;
        } else {
            ensure(
                changes.ended.is_empty(),
                "each end in the changes was reported",
                || format!("{:?}", changes.ended),
            )?;
        }
        if let Input::HandOverEnded {
            attempt_id, result, ..
        } = observed
        {
            self.try_ended(*attempt_id, result, now);
        }
        if let Input::WorkspaceRemoved { issue, removed: true } = observed {
            self.workspace_removed(issue, scheduler.machine(issue).is_some());
        }
        // Commands of a person apply before anything else is decided.
        for effect in effects {
            if let Effect::CommandResult(number, answer) = effect {
                self.answers(*number, answer)?;
            }
        }
        for effect in effects {
            if let Effect::GrantTurn { attempt_id, granted } = effect {
                self.grants(*attempt_id, *granted, changes, now)?;
            }
        }
        for effect in effects {
            match effect {
                Effect::RunEvent(_, event) => self.waits_for_people(event),
                Effect::Start(start) => self.round_starts(start)?,
                _ => {}
            }
        }
        for machine in &changes.machines {
            self.machine_changed(machine, observed)?;
        }
        for (date, spend) in &changes.days {
            ensure(
                self.books.on(*date) == spend.total,
                "5: the counter of a day is the sum of its charges",
                || format!("{date} has {spend:?}, but was charged {:?}", self.books.on(*date)),
            )?;
        }
        for effect in effects {
            if let Effect::RunEvent(issue, event) = effect {
                self.questions.event(issue, event, observed)?;
                self.parks(event)?;
                self.worker_event(event, number(issue))?;
                self.hand_over_event(event);
            }
            match effect {
                Effect::Start(start) => {
                    self.starts(start, scheduler, now)?;
                    let noted = changes
                        .started
                        .iter()
                        .filter(|one| one.attempt_id == start.attempt_id);
                    ensure(
                        noted.count() == 1,
                        "3: an attempt is recorded before it starts",
                        || format!("no change contains the start of {}", start.attempt_id),
                    )?;
                }
                Effect::HandOver(start) => self.hands_over(start, now)?,
                Effect::RunEvent(issue, RunEvent::HandOverFailed { run, stage, wait, .. }) => {
                    if let Some((_, mono)) = self.ended.get(&(number(issue), stage.clone())) {
                        self.due.insert(*run, mono.plus(*wait));
                    }
                }
                Effect::Stop { attempt_id, why } => self.stops(*attempt_id, why)?,
                Effect::RunEvent(
                    issue,
                    RunEvent::BackingOff {
                        run,
                        stage,
                        wait,
                        why,
                        ..
                    },
                ) => {
                    let from = match why {
                        // After an end that an earlier daemon saw, the wait is measured on the wall
                        // clock, which jumps.
                        WaitReason::Backoff => self
                            .ended
                            .get(&(number(issue), stage.clone()))
                            .map(|(_, mono)| *mono),
                        WaitReason::Quota | WaitReason::HandOver => Some(now.mono),
                    };
                    if let Some(from) = from {
                        self.due.insert(*run, from.plus(*wait));
                    }
                }
                Effect::LookUp(issue) => {
                    self.lookups.insert(number(issue));
                }
                Effect::RunEvent(
                    issue,
                    RunEvent::Answered {
                        stage,
                        request,
                        answer,
                        by,
                        ..
                    },
                ) => self.answered((issue, stage), request, answer, by, observed)?,
                Effect::RunEvent(
                    issue,
                    RunEvent::Parked {
                        stage,
                        reason: ParkReason::Internal,
                        ..
                    },
                ) => {
                    let in_a_row = self.books.internal.remove(&(number(issue), stage.clone()));
                    ensure(
                        in_a_row.is_some_and(|in_a_row| in_a_row >= MOST_INTERNAL),
                        "a stage is parked for internal failures only after three in a row",
                        || format!("issue {issue}, stage {stage}: {in_a_row:?}"),
                    )?;
                }
                Effect::RunEvent(_, RunEvent::Unparked { run, .. }) => {
                    self.due.remove(run);
                }
                _ => {}
            }
        }
        let starts = effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Start(_)))
            .count();
        ensure(
            starts == changes.started.len(),
            "3: an attempt is recorded before it starts",
            || format!("{starts} starts, but {} in the changes", changes.started.len()),
        )?;
        if let Input::Spent { attempt_id, .. } = observed {
            self.is_within_limits(*attempt_id, now)?;
        }
        Ok(())
    }

    /// Checks the changes of a new daemon at its start.
    pub(crate) fn restored(&mut self, changes: &Changes) -> Held {
        changes
            .machines
            .iter()
            .try_for_each(|machine| self.machine_changed(machine, &Input::Tick))
    }

    /// Records an input before the decisions on it.
    pub(crate) fn on_input(&mut self, observed: &Input) {
        match observed {
            Input::Spent {
                attempt_id, spend, ..
            } => {
                if let Some(active) = self.books.active.get_mut(attempt_id) {
                    active.live = Spend {
                        tokens: active.live.tokens.max(spend.tokens),
                        usd: active.live.usd.max(spend.usd),
                    };
                }
            }
            Input::Command(number, ask, _) => {
                if matches!(ask, Command::Pause(_) | Command::Resume(_)) {
                    self.last_pause_ask = *number;
                }
                self.asks.insert(*number, ask.clone());
            }
            Input::MaxSessions(most) => self.max_sessions = Some(*most),
            Input::Workers(workers) => self.workers = Some(workers.clone()),
            Input::Pressure(why) => self.busy = why.is_some(),
            Input::Drain => self.draining = true,
            _ => {}
        }
    }

    fn attempt_ended(
        &mut self,
        attempt_id: AttemptId,
        reported: &AttemptResult,
        changes: &Changes,
        now: Now,
    ) -> Held {
        let Some(active) = self.books.active.remove(&attempt_id) else {
            return ensure(changes.ended.is_empty(), "an old report changes nothing", || {
                format!("{attempt_id} ended twice")
            });
        };
        let [ended] = &changes.ended[..] else {
            return Err(Broken::new(
                "3: decisions are durable",
                format!("{attempt_id} ended, but the changes contain {:?}", changes.ended),
            ));
        };
        ensure(
            ended.attempt_id == attempt_id,
            "each end in the changes was reported",
            || format!("{attempt_id} ended, but the changes contain {}", ended.attempt_id),
        )?;
        let (key, run) = ((active.issue, active.stage.clone()), active.run);
        self.ended.insert(key, (self.seq, now.mono));
        self.last_of_run.insert(run, attempt_id);
        self.books.over.insert(attempt_id);
        let report = self
            .facts
            .get(&attempt_id)
            .and_then(|facts| facts.report.as_ref());
        let report = report.unwrap_or(reported).clone();
        self.leaves_work(run, attempt_id, &report);
        if let Some(start) = self.facts.get(&attempt_id).map(|facts| facts.start.clone()) {
            self.conversation_ended(&start, &report);
            self.activity_read(&start, &report);
        }
        self.question_ended(attempt_id, &report, active.stopped.as_ref());
        let went_on = matches!(
            report.outcome,
            Outcome::Succeeded | Outcome::TimedOut | Outcome::Stalled | Outcome::Asked
        );
        let heeded = !went_on || !self.stopped_in_time.remove(&attempt_id);
        ensure(heeded, "an attempt that receives a stop is stopped", || {
            format!("{attempt_id}: {}", report.outcome)
        })?;
        let charge = self.charge(attempt_id, &report);
        let life = &mut self.books.lives[active.issue];
        life.spend = life.spend.plus(charge);
        let today = self.books.days.entry(day(ended.at)).or_default();
        *today = today.plus(charge);
        let drained = report.outcome == Outcome::Cancelled
            && matches!(active.stopped, None | Some(StopReason::TakenOver));
        let internal = report.failure_class == Some(FailureClass::Internal);
        let facts = self.facts.get(&attempt_id);
        let is_further_turn = facts.is_some_and(|facts| facts.granted > 1) && report.ended_turn();
        let continues = facts.is_some_and(|facts| facts.may_continue(&report));
        let key = (active.issue, active.stage.clone());
        if report.outcome == Outcome::Lost && report.worker_loss.is_some() {
            *self.books.workers_lost.entry(active.issue).or_default() += 1;
        } else if internal {
            *self.books.internal.entry(key).or_default() += 1;
        } else if report.outcome == Outcome::Asked
            || matches!(report.before_run, Some(BeforeRunFailure::TryLater { .. }))
        {
            // It counts for nothing, and ends no series of others that do not count.
        } else if report.outcome != Outcome::Lost && !drained {
            self.books.internal.remove(&key);
            self.books.workers_lost.remove(&active.issue);
            life.attempts += u32::from(!is_further_turn);
            let cut = matches!(report.outcome, Outcome::OverBudget | Outcome::Cancelled);
            let by_day = cut
                && matches!(&active.stopped, Some(StopReason::OverBudget(hit)) if hit.scope == LimitScope::Day);
            self.books.runs.entry(run).or_default().0 += u32::from(!by_day && !continues);
        }
        Ok(())
    }

    /// Returns the required charge of an attempt: all reported spending, and never zero for
    /// interrupted work.
    fn charge(&self, attempt_id: AttemptId, report: &AttemptResult) -> Spend {
        let reported = report.spend.unwrap_or_default();
        let Some(facts) = self.facts.get(&attempt_id) else {
            return reported;
        };
        // For classes that are never estimated, and without an answer, only reported spending
        // counts.
        let is_free = matches!(
            report.failure_class,
            Some(FailureClass::Auth | FailureClass::Usage | FailureClass::Hook)
        );
        let answered = report.answered.unwrap_or(report.ran);
        if !answered || is_free || matches!(report.outcome, Outcome::Succeeded | Outcome::Asked) {
            return reported;
        }
        let money_known = reported.usd != MicroUsd(0) || report.cost_source != CostSource::None;
        Spend {
            tokens: if reported.tokens > 0 {
                reported.tokens
            } else {
                facts.estimate.tokens
            },
            usd: if money_known {
                reported.usd
            } else {
                facts.estimate.usd
            },
        }
    }

    /// Checks that the ledger charges each attempt correctly.
    pub(crate) fn charged(&self, changes: &Changes) -> Held {
        for ended in &changes.ended {
            let Some(facts) = self.facts.get(&ended.attempt_id) else {
                continue;
            };
            let report = facts.report.as_ref().unwrap_or(&ended.report);
            let charge = self.charge(ended.attempt_id, report);
            ensure(
                ended.charged == charge,
                "5: each attempt is charged once, with the correct amount",
                || {
                    format!(
                        "{} is charged {:?}, expected {charge:?}",
                        ended.attempt_id, ended.charged
                    )
                },
            )?;
        }
        Ok(())
    }

    fn answers(&mut self, number: u64, answer: &CommandResult) -> Held {
        let Some(ask) = self.asks.get(&number).cloned() else {
            return Err(Broken::new(
                "each command is answered once",
                format!("answer {number}"),
            ));
        };
        if *answer == CommandResult::UnknownIssue {
            return Ok(());
        }
        self.message_decided(&ask, answer);
        match ask {
            Command::Pause(None) => self.books.paused = true,
            Command::Resume(None) => self.books.paused = false,
            Command::Pause(Some(issue)) => {
                self.books.paused_issues.insert(super::number(&issue));
            }
            Command::Resume(Some(issue)) => {
                self.books.paused_issues.remove(&super::number(&issue));
            }
            Command::Drain => self.draining = true,
            Command::TakeOver(request) if matches!(answer, CommandResult::Done(_)) => {
                self.books.taken_over.insert(super::number(&request.issue));
            }
            Command::HandBack(request) if matches!(answer, CommandResult::Done(_)) => {
                self.books.taken_over.remove(&super::number(&request.issue));
            }
            Command::TakeOver(_) | Command::HandBack(_) => {}
            Command::Cancel(issue) => {
                let issue = super::number(&issue);
                self.may_change(issue);
                // A command of a person replaces the earlier reason to stop.
                for active in self
                    .books
                    .active
                    .values_mut()
                    .filter(|active| active.issue == issue)
                {
                    active.stopped = Some(StopReason::Cancelled);
                }
            }
            Command::Retry(request) if matches!(answer, CommandResult::Done(_)) => {
                self.unparks(&request);
            }
            Command::Retry(_)
            | Command::Answer(_)
            | Command::AnswerQuestion(_)
            | Command::SendMessage(_)
            | Command::WithdrawMessage(_) => {}
        }
        Ok(())
    }

    /// Checks an answered request: the answer came from a person who was asked, or from the time
    /// limit.
    fn answered(
        &mut self,
        (issue, stage): (&IssueId, &StageName),
        request: &Request,
        answer: &approval::Answer,
        by: &str,
        observed: &Input,
    ) -> Held {
        let asked = matches!(observed, Input::Command(_, Command::Answer(reply), _) if reply.issue == *issue && reply.answer == *answer);
        let by_default =
            by == approval::TIME_LIMIT && *answer == approval::Answer::at_the_limit(request.on_timeout);
        ensure(
            asked || by_default,
            "an answer comes from a person or from the time limit",
            || format!("issue {issue}, stage {stage}: {by} answered {answer:?}"),
        )?;
        if let approval::Answer::Approve { .. } = answer {
            self.approved
                .insert((number(issue), stage.clone()), request.id.clone());
        }
        Ok(())
    }

    fn machine_changed(&mut self, machine: &IssueMachine, observed: &Input) -> Held {
        let id = &machine.issue().id;
        let issue = number(id);
        let (is, books) = (Lived::from(machine.life()), self.books.life(id));
        ensure(
            is == books,
            "5: counters only grow, by the reported amounts",
            || format!("issue {issue} has {is:?}, expected {books:?}"),
        )?;
        let asked = match observed {
            Input::Command(_, Command::Retry(request), _) => request.issue == *id,
            Input::Command(_, Command::Cancel(of), _) => of == id,
            _ => false,
        };
        let limits = &self.policy.issue;
        let raised = books.attempts < limits.max_attempts.saturating_add(books.extra)
            && limits
                .limit
                .above(books.forgiven)
                .reached(LimitScope::Issue, books.spend)
                .is_none();
        // The round that starts now is counted already.
        let has_rounds = books.rounds <= limits.max_rounds.saturating_add(books.extra_rounds);
        for run in machine.runs() {
            if let Some(unfinished) = self.books.hand_overs.get_mut(&run.id) {
                unfinished.waits = run.is_handing_over() && !run.has_hand_over_running();
            }
        }
        let state = self.known[issue].item.as_ref().map(|item| item.state);
        let (last_of_run, facts, policy) = (&self.last_of_run, &self.facts, &self.policy);
        let left = |run: &RunId, stage: &StageName| {
            let last = last_of_run
                .get(run)
                .and_then(|attempt_id| facts.get(attempt_id)?.report.as_ref());
            let stays = policy
                .stage(stage)
                .is_some_and(|stage| state.is_some_and(|state| stage.when.has_state(state)));
            !stays && last.is_some_and(|report| report.outcome == Outcome::Succeeded)
        };
        let may_be_freed = |parked: &Parked, stage: &StageName| {
            let has_attempts = last_of_run.contains_key(&parked.run);
            let raised = raised && (has_attempts || has_rounds);
            asked || parked.reason == ParkReason::IssueLimit && raised || left(&parked.run, stage)
        };
        for key in self.books.park(machine, policy, Some(&may_be_freed))? {
            if let Some((_, may_change)) = self.last_run.get_mut(&key) {
                *may_change = true;
            }
        }
        Ok(())
    }

    fn stops(&mut self, attempt_id: AttemptId, why: &StopReason) -> Held {
        let hands_over = self.books.hand_overs.values();
        let mut hands_over = hands_over.filter(|one| one.attempt_id == attempt_id && one.is_running);
        if hands_over.next().is_some() && *why == StopReason::Cancelled {
            return Ok(());
        }
        let Some(active) = self.books.active.get_mut(&attempt_id) else {
            return Err(Broken::new(
                "an ended attempt is not stopped",
                attempt_id.to_string(),
            ));
        };
        let again = !self.stopped.insert(attempt_id) && *why != StopReason::Cancelled;
        ensure(!again, "each stop is sent once", || {
            format!("{attempt_id}: {why:?}")
        })?;
        if active.stopped.is_none() || *why == StopReason::Cancelled {
            active.stopped = Some(why.clone());
        }
        Ok(())
    }

    /// Checks that an attempt which exceeds a limit is stopped.
    fn is_within_limits(&self, attempt_id: AttemptId, now: Now) -> Held {
        let Some(active) = self.books.active.get(&attempt_id) else {
            return Ok(());
        };
        let started_with = self.facts.get(&attempt_id).map(|facts| facts.start.stage.limit);
        let life = self.books.lives[active.issue];
        let attempt = started_with.and_then(|limit| limit.reached(LimitScope::Attempt, active.live));
        let limit = self.policy.issue.limit.above(life.forgiven);
        let issue = limit.reached(
            LimitScope::Issue,
            life.spend.plus(self.books.live(Some(active.issue))),
        );
        let today = self.books.on(day(now.wall)).plus(self.books.live(None));
        let day = self.policy.day_limit.reached(LimitScope::Day, today);
        let hit = attempt.or(issue).or(day);
        ensure(
            hit.is_none() || self.stopped.contains(&attempt_id),
            "5: an attempt that exceeds a limit is stopped",
            || format!("{attempt_id} exceeds {hit:?}"),
        )
    }

    /// Records the start of an attempt.
    pub(super) fn remember(&mut self, facts: Facts) {
        self.facts.insert(facts.start.attempt_id, facts);
    }
}
