//! What the loop does with the results of what it had carried out.

use vik_base::failpoint;
use vik_base::report::one_line;
use vik_core::changes::{Changes, Decision};
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::machine::{IssueMachine, RunEvent};
use vik_core::scheduler::{Expired, Input, LookupResult, RemovalCause};
use vik_session::attempt::{self, AttemptEnd, AttemptUpdate, Finish};
use vik_session::host::millis;
use vik_store::ledger::CommitError;
use vik_workflow::Reload;

use crate::Orchestrator;
use crate::effects::{ExpiredRemoval, Removal};
use crate::notices::parked;
use crate::progress::{Asked, Awaiting, Progress};
use crate::pull_loop::{PullContext, PullStep};
use crate::retention::data_name;
use crate::tasks::{Recall, TaskEnd};

impl Orchestrator {
    pub(crate) fn on_attempt_update(&mut self, attempt_id: AttemptId, update: AttemptUpdate) {
        let Some(running) = self.attempts.get_mut(attempt_id) else {
            return;
        };
        let issue = running.start.issue.id.clone();
        match update {
            AttemptUpdate::Spent(spend) => {
                running.spent = spend;
                self.handle(Input::Spent {
                    issue,
                    attempt_id,
                    spend,
                });
            }
            AttemptUpdate::Awaits(request) => self.handle(Input::ApprovalPending {
                issue,
                attempt_id,
                request,
            }),
            AttemptUpdate::MessagesTaken(messages) => {
                self.handle(Input::MessagesTaken {
                    issue: issue.clone(),
                    attempt_id,
                    messages,
                });
                self.effects.publish(&Progress::Messages(&issue));
            }
            AttemptUpdate::TurnEnded(ended) => self.handle(Input::TurnEnded {
                issue,
                attempt_id,
                ended,
            }),
            AttemptUpdate::Finished(Finish::Ended(end)) => self.on_attempt_ended(attempt_id, *end),
            AttemptUpdate::Finished(Finish::HandedOver(result)) => {
                self.attempts.remove(attempt_id);
                self.handle(Input::HandOverEnded {
                    issue,
                    attempt_id,
                    result,
                });
            }
            AttemptUpdate::Finished(Finish::Detached) => self.on_attempt_detached(attempt_id),
            AttemptUpdate::Finished(Finish::StorageFailed(cause)) => {
                self.on_attempt_detached(attempt_id);
                self.on_commit_failure(CommitError { cause }.into());
            }
        }
    }

    fn on_attempt_ended(&mut self, attempt_id: AttemptId, end: AttemptEnd) {
        failpoint::reach("reported");
        // The attempt may have filled the disk.
        self.pressure.request(self.now().mono);
        let Some(start) = self.attempts.remove(attempt_id) else {
            return;
        };
        let span = attempt::span(&start);
        tracing::info!(
            parent: &span,
            outcome = %end.ended.result.outcome, class = end.ended.result.failure_class.map(|class| class.as_str()),
            reason = end.ended.result.reason, duration_ms = end.ended.duration_ms, "attempt ended"
        );
        self.effects.publish(&Progress::Ended(&start, &end));
        self.summary.add_attempt(&start, &end);
        self.handle(Input::Ended {
            issue: start.issue.id.clone(),
            attempt_id,
            report: end.ended.result,
        });
        let now = self.now();
        if let Some(notice) = self.day_limit.check(&self.scheduler, &self.workflow, now) {
            self.effects.publish(&notice);
        }
    }

    fn on_attempt_detached(&mut self, attempt_id: AttemptId) {
        if let Some(start) = self.attempts.remove(attempt_id) {
            let span = attempt::span(&start);
            tracing::info!(parent: &span, "attempt detached: its agent keeps running under its shim");
        }
    }

    pub(crate) fn on_pull_step(&mut self, step: PullStep) {
        let mut context = PullContext {
            workflow: &self.workflow,
            effects: &mut *self.effects,
            scheduler: &self.scheduler,
            commits: &self.commits,
            is_cancelled: !self.lifecycle.is_running(),
        };
        match self.pulls.on_step(step, &mut context) {
            Ok(Some(input)) => self.handle(input),
            Ok(None) => {}
            Err(failure) => self.on_commit_failure(failure),
        }
    }

    pub(crate) fn on_task_end(&mut self, end: TaskEnd) {
        match end {
            TaskEnd::LookedUp(issue, result) => {
                let result = self.tasks.lookup_result(&issue, result);
                self.on_lookup(issue, result, None);
            }
            TaskEnd::Recalled(issue, result, recall) => match recall {
                Ok(recall) => self.on_lookup(issue, result, Some(recall)),
                Err(failure) => self.on_commit_failure(failure),
            },
            TaskEnd::Removed(issue, cause, removal) => self.on_removed(issue, cause, &removal),
            TaskEnd::Scanned(scan) => {
                let is_new = |issue: &&IssueId| {
                    self.scheduler.workers().is_some() && !self.scheduler.has_workspace(issue)
                };
                let new: Vec<_> = scan.workspaces.iter().filter(is_new).cloned().collect();
                let now = self.now().wall;
                self.retention.on_scanned(scan, now);
                // A worker that was not there before may have them.
                if !new.is_empty() {
                    self.handle(Input::Workspaces(new));
                }
            }
            TaskEnd::FoundForMove(request, result) => {
                let number = request.request;
                if let Some(result) = self.on_found_for_move(*request, result) {
                    self.requests.respond(number, result);
                }
            }
            TaskEnd::MovedBack(request, from, result) => self.on_moved_back(*request, from, result),
            TaskEnd::ChangesRecorded(request, result) => self.on_changes_recorded(*request, result),
            TaskEnd::ExpiredRemoved(expired, result) => self.on_expired_removed(expired, &result),
        }
    }

    /// Passes on the result of a lookup, with what the ledger has of an issue that would be added.
    fn on_lookup(&mut self, issue: IssueId, result: LookupResult, recall: Option<Recall>) {
        let evictions = self.scheduler.evictions();
        let is_new = matches!(result, LookupResult::Snapshot(_)) && self.scheduler.is_unknown(&issue);
        let recall = recall.filter(|recall| recall.evictions == evictions);
        if is_new && recall.is_none() {
            self.tasks.recall(issue, result, evictions, &self.commits);
            return;
        }
        self.handle(Input::LookupFinished {
            issue,
            result,
            recalled: recall.map(|recall| recall.recalled).unwrap_or_default(),
        });
    }

    fn on_removed(&mut self, issue: IssueId, cause: RemovalCause, removal: &Removal) {
        let now = self.now().wall;
        self.retention.on_workspace(&issue, cause, removal, now);
        match removal {
            Removal::Removed { bytes } => tracing::info!(issue = issue.as_str(), bytes, "workspace removed"),
            Removal::Absent => {}
            Removal::Kept(why) => {
                tracing::warn!(issue = issue.as_str(), why, "workspace kept");
                self.note_kept(&issue, why);
            }
        }
        let removed = !matches!(removal, Removal::Kept(_));
        self.handle(Input::WorkspaceRemoved { issue, removed });
    }

    /// Starts a search for old data, or decides about a finding, if that is due.
    pub(crate) fn retain(&mut self) {
        let now = self.now();
        if !self.lifecycle.is_running() || self.lifecycle.broken().is_some() {
            return;
        }
        // Before the first pull, nothing is known of the issues that pulls list.
        if self.pulls.counts().ok > 0 && self.retention.start_due_scan(now.wall) {
            let is_listed = |id: &&IssueId| self.scheduler.machine(id).is_some_and(IssueMachine::is_present);
            let listed = self.scheduler.issues().filter(is_listed).cloned().collect();
            self.tasks.find_expired(listed, &mut *self.effects);
        }
        if let Some(expired) = self.retention.take_due(now.mono) {
            self.handle(Input::Expired(expired));
        }
    }

    fn on_expired_removed(&mut self, expired: Expired, result: &Result<ExpiredRemoval, String>) {
        let now = self.now().wall;
        let (issue, data) = (expired.issue().map(IssueId::as_str), data_name(&expired));
        match result {
            Ok(ExpiredRemoval { count, bytes, .. }) => {
                tracing::info!(issue, data, count, bytes, "old data removed");
            }
            Err(why) => tracing::warn!(issue, data, why, "old data kept"),
        }
        self.retention.on_expired(&expired, result, now);
        self.handle(Input::ExpiredRemoved(expired));
    }

    /// Records why a workspace is kept, for `explain`.
    fn note_kept(&mut self, issue: &IssueId, why: &str) {
        if self.lifecycle.broken().is_some() {
            return;
        }
        let decision = Decision {
            at: self.now().wall,
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

    /// Checks the workflow file and pulls the issues.
    pub(crate) fn refresh(&mut self) {
        // The pull follows the result of a check, so that it uses the edited workflow.
        if !self.edits.request_check() {
            self.pulls.request_fresh(self.effects.now().mono);
        }
    }

    pub(crate) fn on_reload(&mut self, reload: Reload) {
        if let Some(workflow) = self.edits.on_reload(reload, &mut *self.effects) {
            let before = self.workflow.max_issue_concurrency;
            self.workflow = workflow.clone();
            if self.workflow.max_issue_concurrency != before {
                self.warn_of_open_files();
            }
            self.pressure.request(self.now().mono);
            self.handle(Input::Reloaded(workflow));
        }
        self.pulls.request_fresh(self.effects.now().mono);
    }

    pub(crate) fn on_run_event(&mut self, issue: &IssueId, event: &RunEvent) {
        log_run_event(issue, event);
        self.effects.publish(&Progress::Note(issue, event));
        let machine = self.scheduler.machine(issue);
        match (event, machine) {
            (RunEvent::Parked { run, .. }, Some(machine)) => {
                // The run may already be unparked, in which case there is nothing to report.
                let dependents = self.scheduler.dependents(issue);
                let run = machine.runs().iter().find(|candidate| candidate.id == *run);
                if let Some(parked) = run.and_then(|run| parked(machine.issue(), run, &dependents)) {
                    self.effects.publish(&Progress::Parked(&parked));
                }
            }
            (RunEvent::Awaiting { run, stage, request }, Some(machine)) => {
                self.effects.publish(&Progress::Awaiting(&Awaiting {
                    issue: machine.issue(),
                    run: *run,
                    stage,
                    request,
                }));
            }
            (RunEvent::Asked { run, stage, question }, Some(machine)) => {
                self.effects.publish(&Progress::Asked(&Asked {
                    issue: machine.issue(),
                    run: *run,
                    stage,
                    question,
                }));
            }
            _ => {}
        }
        self.summary.add_note(issue, event);
    }
}

fn log_run_event(issue: &IssueId, event: &RunEvent) {
    let issue = issue.as_str();
    match event {
        RunEvent::Ended { stage, succeeded, .. } => tracing::info!(issue, %stage, succeeded, "run ended"),
        RunEvent::BackingOff {
            stage,
            attempts,
            wait,
            ..
        } => tracing::info!(issue, %stage, attempts, wait_ms = millis(*wait), "backing off"),
        RunEvent::Continues { stage, turn, max, .. } => {
            tracing::info!(issue, %stage, turn, max, "the conversation continues");
        }
        RunEvent::HandOverFailed {
            stage,
            tries,
            wait,
            failure,
            ..
        } => {
            tracing::warn!(
                issue, %stage, tries, wait_ms = millis(*wait), %failure, "the work is done, but its hand-over failed"
            );
        }
        RunEvent::HandedOver { stage, tries, .. } => tracing::info!(issue, %stage, tries, "handed over"),
        RunEvent::Parked { stage, reason, .. } => {
            tracing::warn!(issue, %stage, reason = reason.as_str(), "parked");
        }
        RunEvent::Awaiting { stage, request, .. } => {
            tracing::warn!(issue, %stage, gate = request.gate.as_str(), "waiting for a person");
        }
        RunEvent::Answered {
            stage, answer, by, ..
        } => tracing::info!(issue, %stage, by, answer = answer.as_str(), "a person answered"),
        RunEvent::Asked { stage, .. } => tracing::warn!(issue, %stage, "the agent asks a person"),
        RunEvent::QuestionAnswered { stage, answer, .. } => {
            tracing::info!(issue, %stage, by = answer.by, "question answered");
        }
        RunEvent::Freed { stage, by, .. } => {
            tracing::info!(issue, %stage, reason = by.as_str(), "unparked");
        }
        RunEvent::Closed { stage, .. } => tracing::info!(issue, %stage, "issue closed: unparked"),
        RunEvent::Unparked { stage, .. } => tracing::info!(issue, %stage, "unparked"),
    }
}
