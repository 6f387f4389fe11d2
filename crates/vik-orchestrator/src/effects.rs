//! Carries out the scheduler's effects, after its decisions are on disk.

use std::sync::Arc;

use jiff::Timestamp;
use vik_base::failpoint;
use vik_base::report::one_line;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::{Changes, Decision};
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::issue::Issue;
use vik_core::machine::RunEvent;
use vik_core::outcome::Outcome;
use vik_core::scheduler::{Effect, Input, LookupResult};
use vik_session::attempt::{
    self, Attempt, AttemptEnd, AttemptHandle, AttemptLink, AttemptUpdate, Finish, StopLevel,
};
use vik_session::host::millis;
use vik_store::ledger::CommitError;

use super::notices::parked;
use super::progress::Awaiting;
use super::removal::{self, Removal};
use super::{Event, Orchestrator, Progress};
use crate::intake;

impl Orchestrator {
    /// Passes an input to the scheduler. Its decision is committed, then its effects are carried
    /// out.
    pub(super) fn handle(&mut self, input: Input) {
        if self.broken.is_some() {
            // A decision that cannot be stored is not made.
            return;
        }
        let effects = self.scheduler.handle(self.now(), input);
        let changes = self.scheduler.take_changes();
        let effects = self.commits.push(changes, effects);
        self.carry_out(effects);
    }

    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(start) => self.start(start),
                Effect::Stop {
                    attempt_id: session,
                    why,
                } => {
                    if let Some(commands) = self.attempts.commands(session) {
                        tracing::info!(%session, ?why, "stopping an attempt");
                        commands.stop(why);
                    }
                }
                Effect::DeliverAnswer {
                    attempt_id: session,
                    answered,
                } => {
                    if let Some(commands) = self.attempts.commands(session) {
                        tracing::info!(%session, by = answered.by, answer = answered.answer.as_str(), "request answered");
                        commands.answer(answered);
                    }
                }
                Effect::Warn {
                    attempt_id: session,
                    limit,
                } => {
                    if let Some(commands) = self.attempts.commands(session) {
                        tracing::warn!(%session, ?limit, "a limit is almost reached");
                        commands.warn(limit);
                    }
                }
                Effect::LookUp(issue) => self.show(issue),
                Effect::RemoveWorkspace(issue) => self.remove_workspace(issue),
                Effect::CommandResult(number, answer) => {
                    if let Some(sender) = self.answers.remove(&number) {
                        // The client may have disconnected.
                        let _ = sender.send(Ok(answer));
                    }
                }
                Effect::Pull => self.ask_for_pull(),
                Effect::RunEvent(issue, note) => self.on_note(&issue, &note),
            }
        }
    }

    // --- attempts

    fn start(&mut self, start: Box<Start>) {
        failpoint::reach("committed");
        if self.keep_agents {
            // Only the decision is on disk: the next daemon finds it and starts the attempt.
            return;
        }
        if self.stop != StopLevel::Run {
            let report = AttemptResult {
                reason: Some("Vik was stopped".to_owned()),
                ..AttemptResult::new(Outcome::Cancelled)
            };
            return self.handle(Input::Ended {
                issue: start.issue.id.clone(),
                attempt_id: start.attempt_id,
                report,
            });
        }
        tracing::info!(
            issue = start.issue.id.as_str(), stage = %start.stage.name, agent = %start.stage.agent,
            attempt = start.attempt, session = %start.attempt_id, "attempt started"
        );
        self.spawn_attempt(start, Timestamp::now(), false);
    }

    /// Runs an attempt: a new one, or one that an earlier daemon started.
    pub(super) fn spawn_attempt(&mut self, start: Box<Start>, since: Timestamp, adopted: bool) {
        let (handle, AttemptLink { commands, updates }) = AttemptHandle::new();
        let live = handle.updates.live();
        self.observer.on_progress(&Progress::Started(&start, &live));
        self.attempts.add(start.clone(), handle, since, adopted);
        attempt::spawn(Attempt {
            host: Arc::clone(&self.host),
            workflow: Arc::clone(&self.workflow),
            prompts: Arc::clone(&self.prompts),
            start,
            commands,
            updates,
            orphan_grace: self.orphan_grace(),
        });
    }

    pub(super) fn on_attempt_update(&mut self, attempt_id: AttemptId, update: AttemptUpdate) {
        match update {
            AttemptUpdate::Spent(spend) => {
                if let Some(running) = self.attempts.get_mut(attempt_id) {
                    running.spent = spend;
                    let issue = running.start.issue.id.clone();
                    self.handle(Input::Spent {
                        issue,
                        attempt_id,
                        spend,
                    });
                }
            }
            AttemptUpdate::Awaits(request) => {
                if let Some(running) = self.attempts.get_mut(attempt_id) {
                    let issue = running.start.issue.id.clone();
                    self.handle(Input::ApprovalPending {
                        issue,
                        attempt_id,
                        request,
                    });
                }
            }
            AttemptUpdate::Finished(Finish::Ended(end)) => self.on_ended(attempt_id, *end),
            AttemptUpdate::Finished(Finish::Detached) => self.on_detached(attempt_id),
            AttemptUpdate::Finished(Finish::StorageFailed(cause)) => {
                self.on_detached(attempt_id);
                self.on_ledger_failure(CommitError { cause });
            }
        }
    }

    fn on_ended(&mut self, attempt_id: AttemptId, end: AttemptEnd) {
        failpoint::reach("reported");
        // The attempt may have filled the disk.
        self.pressure_due = std::time::Instant::now();
        let Some(start) = self.attempts.remove(attempt_id) else {
            return;
        };
        tracing::info!(
            issue = start.issue.id.as_str(), stage = %start.stage.name, session = %attempt_id,
            outcome = %end.ended.result.outcome, class = end.ended.result.failure_class.map(|class| class.as_str()),
            reason = end.ended.result.reason, duration_ms = end.ended.duration_ms, "attempt ended"
        );
        self.observer.on_progress(&Progress::Ended(&start, &end));
        self.summary.add_attempt(&start, &end);
        self.handle(Input::Ended {
            issue: start.issue.id.clone(),
            attempt_id,
            report: end.ended.result,
        });
        self.notify_day_limit();
    }

    fn on_detached(&mut self, attempt_id: AttemptId) {
        if let Some(start) = self.attempts.remove(attempt_id) {
            tracing::info!(issue = start.issue.id.as_str(), session = %attempt_id, "attempt detached: its agent keeps running under its shim");
        }
    }

    fn on_note(&mut self, issue: &IssueId, note: &RunEvent) {
        match note {
            RunEvent::Ended { stage, succeeded, .. } => {
                tracing::info!(issue = issue.as_str(), %stage, succeeded, "run ended");
            }
            RunEvent::BackingOff {
                stage,
                attempts,
                wait,
                ..
            } => {
                tracing::info!(issue = issue.as_str(), %stage, attempts, wait_ms = millis(*wait), "backing off");
            }
            RunEvent::Parked { stage, reason, .. } => {
                tracing::warn!(issue = issue.as_str(), %stage, reason = reason.as_str(), "parked");
            }
            RunEvent::Awaiting { stage, request, .. } => {
                tracing::warn!(issue = issue.as_str(), %stage, gate = request.gate.as_str(), "waiting for a person");
            }
            RunEvent::Answered {
                stage, answer, by, ..
            } => {
                tracing::info!(issue = issue.as_str(), %stage, by, answer = answer.as_str(), "a person answered");
            }
            RunEvent::Freed { stage, .. } => {
                tracing::info!(issue = issue.as_str(), %stage, "issue changed: unparked");
            }
            RunEvent::Closed { stage, .. } => {
                tracing::info!(issue = issue.as_str(), %stage, "issue closed: unparked");
            }
            RunEvent::Unparked { stage, .. } => tracing::info!(issue = issue.as_str(), %stage, "unparked"),
        }
        self.observer.on_progress(&Progress::Note(issue, note));
        if let RunEvent::Parked { run, .. } = note {
            // The run may already be unparked, in which case there is nothing to report.
            let machine = self.scheduler.machine(issue);
            let dependents = self.scheduler.dependents(issue);
            let parked = machine.and_then(|machine| {
                let own = machine.runs().iter().find(|candidate| candidate.id == *run)?;
                parked(machine.issue(), own, &dependents)
            });
            if let Some(parked) = parked {
                self.observer.on_progress(&Progress::Parked(&parked));
            }
        }
        if let RunEvent::Awaiting { run, stage, request } = note
            && let Some(machine) = self.scheduler.machine(issue)
        {
            self.observer.on_progress(&Progress::Awaiting(&Awaiting {
                issue: machine.issue(),
                run: *run,
                stage,
                request,
            }));
        }
        self.summary.add_note(issue, note);
    }

    // --- lookups and removals

    fn show(&mut self, issue: IssueId) {
        let Some(show) = self.workflow.show.clone() else {
            // The workflow was edited in the meantime.
            return self.handle(Input::LookupFinished {
                issue,
                result: LookupResult::Unknown,
            });
        };
        self.running_tasks += 1;
        let (host, cancel, slots) = (
            Arc::clone(&self.host),
            self.cancel_lookups.clone(),
            Arc::clone(&self.lookup_slots),
        );
        let (events, workflow) = (self.events.0.clone(), Arc::clone(&self.workflow));
        tokio::spawn(async move {
            let _permit = slots.acquire_owned().await;
            let lookup = intake::show(&host, &workflow, &show, &issue, cancel.cancelled());
            let result = lookup.await.map_err(|error| vik_base::report::chain(&error));
            let _ = events.send(Event::Shown(issue, result));
        });
    }

    pub(super) fn on_shown(&mut self, issue: IssueId, result: Result<LookupResult, String>) {
        self.running_tasks -= 1;
        let result = match result {
            Ok(result) => {
                self.lookup_errors.remove(&issue);
                result
            }
            Err(error) => {
                // Each pull repeats the lookup, so the same error is logged once.
                if self.lookup_errors.get(&issue) != Some(&error) {
                    tracing::warn!(issue = issue.as_str(), error, "cannot look up an issue");
                    self.lookup_errors.insert(issue.clone(), error);
                }
                LookupResult::Unknown
            }
        };
        self.handle(Input::LookupFinished { issue, result });
    }

    fn remove_workspace(&mut self, issue: Box<Issue>) {
        self.running_tasks += 1;
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let (kill, slots) = (self.kill.clone(), Arc::clone(&self.removal_slots));
        let events = self.events.0.clone();
        tokio::spawn(async move {
            let _permit = slots.acquire_owned().await;
            let removal = removal::remove(&host, &workflow, &issue, kill.cancelled()).await;
            let _ = events.send(Event::Removed(issue.id, removal));
        });
    }

    pub(super) fn on_removed(&mut self, issue: IssueId, removal: &Removal) {
        self.running_tasks -= 1;
        match removal {
            Removal::Removed => tracing::info!(issue = issue.as_str(), "workspace removed"),
            Removal::Absent => {}
            Removal::Kept(why) => {
                tracing::warn!(issue = issue.as_str(), why, "workspace kept");
                self.note_kept(&issue, why);
            }
        }
        let removed = !matches!(removal, Removal::Kept(_));
        self.handle(Input::WorkspaceRemoved { issue, removed });
    }

    /// Records why a workspace is kept, for `explain`.
    fn note_kept(&mut self, issue: &IssueId, why: &str) {
        if self.broken.is_some() {
            return;
        }
        let decision = Decision {
            at: Timestamp::now(),
            issue: Some(issue.clone()),
            stage: None,
            run: None,
            attempt_id: None,
            kind: DecisionKind::NotRemovingWorkspace,
            detail: one_line(why, 500),
        };
        let changes = Changes {
            decisions: vec![decision],
            ..Changes::default()
        };
        let effects = self.commits.push(changes, Vec::new());
        self.carry_out(effects);
    }
}
