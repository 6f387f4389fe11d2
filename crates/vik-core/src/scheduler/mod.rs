//! The scheduler over all issues: order, slots, limits and decisions.
//!
//! [`Scheduler::handle`] takes an input and returns effects. [`Scheduler::take_changes`] returns
//! the changes that must be on disk before the effects are carried out. The caller owns the clock
//! and performs all I/O.

mod approvals;
mod blockers;
mod commands;
mod delivery;
mod dispatch;
mod expired;
mod explain;
mod hand_over;
mod hold;
mod idle;
mod ids;
mod lookups;
mod messages;
mod pulled;
mod queries;
mod questions;
mod recall;
mod records;
mod scopes;
mod spending;
mod taken_over;
mod turns;
mod workers;
mod workspaces;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::attempt::{AttemptResult, Start};
use crate::changes::{Changes, EndedAttempt, Stored};
use crate::decision_kind::DecisionKind;
use crate::ids::{AttemptId, IssueId, RunId, StageName};
use crate::machine::{IssueMachine, Observation, Phase, PullNo, Run};
use crate::outcome::Outcome;
use crate::time::{Mono, Now};
use crate::worker::Workers;
use crate::workflow::{Edit, Workflow, edits};

use blockers::Blockers;
use ids::IdSource;
use lookups::IssueLookups;
use spending::Spending;
use turns::EndedTurns;
use workspaces::Workspaces;

pub use approvals::PendingApproval;
pub use blockers::nearest;
pub use explain::{Explanation, StageExplanation, Waiting};
pub use hold::{Hold, NoWorker};
pub use idle::Quiescence;
pub use messages::{
    Actor, ApprovalReply, Command, CommandResult, Effect, Expired, Filter, HandBack, Input, LookupResult,
    RemovalCause, RetryRequest, TakeOver,
};
pub use questions::OpenQuestion;
pub use recall::Recalled;
pub use taken_over::{HELD as TAKEN_OVER, not_to_be_handed_back};

/// The scheduling state of all issues.
#[derive(Clone, Debug)]
pub struct Scheduler {
    workflow: Arc<Workflow>,
    filter: Filter,
    /// The issues in use. The ledger has the others too.
    machines: HashMap<IssueId, IssueMachine>,
    /// How often issues were dropped from `machines`.
    evictions: u64,
    /// Issues of the last successful pull that match a stage, in start order.
    order: Vec<IssueId>,
    blockers: Blockers,
    lookups: IssueLookups,
    workspaces: Workspaces,
    spending: Spending,
    /// Since when issues with a running attempt have been terminal or missing.
    done_since: BTreeMap<IssueId, Mono>,
    pulls_started: PullNo,
    /// The agents that wait for input at the end of a turn.
    ended_turns: EndedTurns,
    /// The issues whose last attempt succeeded, with the first pull that can show their next state.
    /// Until then they keep their slot, so that no new issue overtakes them.
    moving_on: BTreeMap<IssueId, PullNo>,
    /// Whether any pull has succeeded.
    has_pulled: bool,
    /// Whether each listed issue that has a workspace is in memory.
    knows_listed: bool,
    /// Whether the last successful pull, repeated, would change nothing.
    can_skip_unchanged_pull: bool,
    paused: bool,
    draining: bool,
    pressure: Option<Arc<str>>,
    /// The number of sessions that the limit on open files allows, as far as it is known.
    max_sessions: Option<u32>,
    /// The workers; `None` if attempts run on this machine.
    workers: Option<Workers>,
    ids: IdSource,
    /// The next time at which a decision is due without new input.
    wake: Option<Mono>,
    effects: Vec<Effect>,
    changes: Changes,
    /// Issues whose machines must be stored.
    changed: BTreeSet<IssueId>,
}

/// The subject of a decision.
#[derive(Clone, Copy, Debug, Default)]
struct DecisionSubject<'a> {
    issue: Option<&'a IssueId>,
    stage: Option<&'a StageName>,
    run: Option<RunId>,
    attempt_id: Option<AttemptId>,
}

impl<'a> From<&'a IssueId> for DecisionSubject<'a> {
    fn from(issue: &'a IssueId) -> Self {
        Self {
            issue: Some(issue),
            ..Self::default()
        }
    }
}

impl<'a> From<&'a Start> for DecisionSubject<'a> {
    fn from(start: &'a Start) -> Self {
        Self {
            issue: Some(&start.issue.id),
            stage: Some(&start.stage.name),
            run: Some(start.run),
            attempt_id: Some(start.attempt_id),
        }
    }
}

impl Scheduler {
    /// Creates a scheduler that knows no issue yet. `seed` makes its ids unique.
    pub fn new(workflow: Arc<Workflow>, filter: Filter, seed: [u8; 6]) -> Self {
        Self {
            workflow,
            filter,
            machines: HashMap::new(),
            evictions: 0,
            order: Vec::new(),
            blockers: Blockers::default(),
            lookups: IssueLookups::default(),
            workspaces: Workspaces::default(),
            spending: Spending::default(),
            done_since: BTreeMap::new(),
            pulls_started: PullNo::default(),
            ended_turns: EndedTurns::default(),
            moving_on: BTreeMap::new(),
            has_pulled: false,
            knows_listed: false,
            can_skip_unchanged_pull: false,
            paused: false,
            draining: false,
            pressure: None,
            max_sessions: None,
            workers: None,
            ids: IdSource::new(seed),
            wake: None,
            effects: Vec::new(),
            changes: Changes::default(),
            changed: BTreeSet::new(),
        }
    }

    /// Restores a scheduler from the ledger, and returns it with the attempts that were active. The
    /// caller recovers these attempts (or starts them if nothing shows that they were started), and
    /// never starts one twice. Stop requests are repeated by the first call of
    /// [`Scheduler::handle`].
    pub fn restore(
        workflow: Arc<Workflow>,
        filter: Filter,
        seed: [u8; 6],
        stored: Stored,
        now: Now,
    ) -> (Self, Vec<Start>) {
        let mut scheduler = Self::new(workflow, filter, seed);
        scheduler.paused = stored.paused;
        scheduler.spending.restore(stored.days);
        let mut starts = Vec::new();
        for machine in stored.machines {
            let id = machine.issue().id.clone();
            let machine = machine.restored(now);
            starts.extend(machine.runs().iter().filter_map(Run::active).cloned());
            scheduler.machines.insert(id, machine);
        }
        starts.sort_by_key(|start| start.attempt_id);
        for start in &starts {
            scheduler.spending.track(start);
            // It may not have created its workspace yet.
            scheduler.workspaces.mark_used(&start.issue.id);
            let machine = scheduler.machines.get(&start.issue.id);
            let stopping = machine
                .and_then(|machine| machine.active(start.attempt_id))
                .and_then(|(_, _, stopping)| stopping);
            if let Some(why) = stopping {
                scheduler.effects.push(Effect::Stop {
                    attempt_id: start.attempt_id,
                    why: why.clone(),
                });
            }
        }
        for machine in scheduler.machines.values() {
            let undelivered_answers = machine.undelivered_answers();
            scheduler
                .effects
                .extend(
                    undelivered_answers.map(|(attempt_id, answered)| Effect::DeliverAnswer {
                        attempt_id,
                        answered: answered.clone(),
                    }),
                );
        }
        scheduler.deliver_again();
        scheduler.free_raised(now);
        scheduler.set_wake(now);
        (scheduler, starts)
    }

    /// Returns the changes since the last call, which must be committed before the effects are
    /// carried out.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = std::mem::take(&mut self.changes);
        let changed = std::mem::take(&mut self.changed);
        let machines = changed.iter().filter_map(|id| self.machines.get(id)).cloned();
        changes.machines.extend(machines);
        changes
    }

    /// Handles one input, and returns the effects in order.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use vik_core::issue::Issue;
    /// use vik_core::scheduler::{Effect, Filter, Input, Scheduler};
    /// use vik_core::time::{Mono, Now};
    ///
    /// let workflow = "
    /// issues: { pull: { command: ./list-issues } }
    /// agents: { coder: { runtime: command, command: [agent] } }
    /// issue: { stages: { plan: { when: { state: todo }, agent: coder, prompt: Do it. } } }
    /// ";
    /// let workflow = vik_workflow_reader::load(workflow).workflow.unwrap();
    /// let mut scheduler = Scheduler::new(Arc::new(workflow), Filter::default(), [0; 6]);
    /// let now = Now { wall: jiff::Timestamp::UNIX_EPOCH, mono: Mono::default() };
    ///
    /// let issue = Issue::parse(r#"{"id": "7", "title": "A bug", "state": "todo"}"#).unwrap();
    /// scheduler.handle(now, Input::PullStarted);
    /// let effects = scheduler.handle(now, Input::pulled_new(vec![issue]));
    /// assert!(effects.iter().any(|effect| matches!(effect, Effect::Start(_))));
    /// // This must be on disk before the start is carried out.
    /// assert_eq!(scheduler.take_changes().started.len(), 1);
    /// ```
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        // These inputs are frequent and free nothing.
        let frees_nothing = matches!(
            input,
            Input::PullStarted | Input::Spent { .. } | Input::MessagesTaken { .. }
        );
        // The issues of workspaces that become known were not added by the last pull.
        self.knows_listed &= !matches!(input, Input::Workspaces(_));
        // After any input that adds knowledge about issues, an unchanged pull can have new
        // consequences.
        self.can_skip_unchanged_pull &= !matches!(
            input,
            Input::LookupFinished { .. }
                | Input::Workspaces(_)
                | Input::WorkspaceRemoved { .. }
                | Input::Expired(_)
                | Input::ExpiredRemoved(_)
                | Input::Reloaded(_)
                | Input::Command(..)
        );
        match input {
            Input::PullStarted => self.pulls_started.0 += 1,
            Input::Pulled { issues, recalled } => self.on_pulled(issues, recalled, now),
            Input::PulledUnchanged => self.on_pulled_unchanged(now),
            Input::Ended {
                issue,
                attempt_id,
                report,
            } => self.on_attempt_ended(&issue, attempt_id, report, now),
            Input::HandOverEnded {
                issue,
                attempt_id,
                result,
            } => self.on_hand_over_ended(&issue, attempt_id, result, now),
            Input::Spent {
                issue,
                attempt_id,
                spend,
            } => self.on_spend(&issue, attempt_id, spend, now),
            Input::ApprovalPending {
                issue,
                attempt_id,
                request,
            } => self.on_approval_pending(&issue, attempt_id, request.map(|request| *request), now),
            Input::MessagesTaken {
                issue,
                attempt_id,
                messages,
            } => self.on_messages_taken(&issue, attempt_id, &messages, now),
            Input::TurnEnded {
                issue,
                attempt_id,
                ended,
            } => self.on_turn_ended(issue, attempt_id, ended, now),
            Input::LookupFinished {
                issue,
                result,
                recalled,
            } => self.on_lookup_result(&issue, result, recalled, now),
            Input::Workspaces(issues) => self.workspaces.extend(issues),
            Input::WorkspaceRemoved { issue, removed } => self.on_workspace_removed(&issue, removed, now),
            Input::Expired(expired) => self.on_expired(expired, now),
            Input::ExpiredRemoved(expired) => self.on_expired_removed(&expired, now),
            Input::MovedBack {
                issue,
                stage,
                from,
                to,
                by,
            } => {
                let detail = format!("moved from `{from}` to `{to}`, by {by}");
                let about = DecisionSubject {
                    stage: Some(&stage),
                    ..DecisionSubject::from(&issue)
                };
                self.decide(now, DecisionKind::RunAgain, about, detail);
            }
            Input::MaxSessions(most) => self.max_sessions = Some(most),
            Input::Workers(workers) => self.on_workers(workers, now),
            Input::Pressure(why) => self.on_pressure(why, now),
            Input::Reloaded(workflow) => self.on_reloaded(workflow, now),
            Input::Command(number, ask, by) => self.on_command(number, ask, &by, now),
            Input::Tick => {}
            Input::Drain => self.draining = true,
        }
        if !frees_nothing {
            self.decide_turns(now);
            self.stop_finished_issues(now);
            self.apply_default_answers(now);
            self.answer_overdue_questions(now);
            self.request_due_approvals(now);
            self.start_due_hand_overs(now);
            self.dispatch(now);
            self.set_wake(now);
        }
        std::mem::take(&mut self.effects)
    }

    fn on_reloaded(&mut self, workflow: Arc<Workflow>, now: Now) {
        let detail = edit_summary(&edits(&self.workflow, &workflow));
        if self.workflow.issue.remove_workspace != workflow.issue.remove_workspace {
            self.workspaces.forget_kept();
        }
        self.workflow = workflow;
        // The terminal states may have changed, and the blocked issues with them.
        self.update_blocked_holds(now);
        self.free_raised(now);
        self.release_unneeded_approvals(now);
        self.decide(now, DecisionKind::Reloaded, DecisionSubject::default(), detail);
        self.reconcile_absent(now);
        // The states of interest may have changed.
        self.effects.push(Effect::Pull);
    }

    fn on_pressure(&mut self, why: Option<String>, now: Now) {
        let why: Option<Arc<str>> = why.map(Into::into);
        if why.is_some() != self.pressure.is_some() {
            let (kind, detail) = match &why {
                Some(why) => (DecisionKind::Pressure, why.to_string()),
                None => (DecisionKind::NoPressure, "memory is available again".to_owned()),
            };
            self.decide(now, kind, DecisionSubject::default(), detail);
        }
        self.pressure = why;
    }

    fn on_attempt_ended(
        &mut self,
        issue: &IssueId,
        attempt_id: AttemptId,
        mut report: AttemptResult,
        now: Now,
    ) {
        let Some(machine) = self.machines.get_mut(issue) else {
            return;
        };
        let Some((start, estimate, stopping)) = machine.active(attempt_id) else {
            return;
        };
        let (start, stopping) = (start.clone(), stopping.cloned());
        self.ended_turns.forget(attempt_id);
        let (charged, source) = self.spending.charge(attempt_id, &mut report, estimate, now);
        let limits = self
            .spending
            .limits(&self.workflow, machine, &start, charged.total, now);
        let stopped = spending::effective_stop_reason(&report, stopping, limits);
        let after = PullNo(self.pulls_started.0 + 1);
        let detail = match &report.reason {
            Some(reason) => format!("{}: {reason}", report.outcome),
            None => report.outcome.to_string(),
        };
        let has_restarted = report.resume_failed;
        // That of a success is repeated, and decided about after the next pull.
        let failed = report.outcome != Outcome::Succeeded;
        let is_handed_over = !failed && report.hand_over_failure.is_none();
        let after_run_failure = report.hand_over_failure.clone().filter(|_| failed);
        let ended = EndedAttempt {
            attempt_id,
            at: now.wall,
            report: report.clone(),
            charged: charged.total,
            source,
        };
        let was_under_way = machine.is_under_way();
        let observed = machine.on_attempt_ended(attempt_id, report, stopped, charged, after, now);
        let run = machine.run(&start.stage.name);
        let is_settling = run.is_some_and(|run| matches!(run.phase, Phase::Settling { .. }));
        let is_taken_over = machine.taken_over().is_some();
        // The next pull has to sort the issue before new ones, even if it returns the same issues.
        self.can_skip_unchanged_pull &= was_under_way == machine.is_under_way();
        self.changes.ended.push(ended);
        self.record_day_total(now);
        if has_restarted {
            let detail = "the previous conversation could not be resumed; a new one was started".to_owned();
            self.decide(now, DecisionKind::ResumeFailed, &start, detail);
        }
        self.decide(now, DecisionKind::Ended, &start, detail);
        if let Some(failure) = after_run_failure {
            self.decide(now, DecisionKind::AfterRunFailed, &start, failure.reason);
        }
        if is_handed_over && is_settling && !is_taken_over && self.workflow.issue.stages.len() > 1 {
            self.moving_on.insert(issue.clone(), after);
        }
        self.record(issue, observed.unwrap_or_default(), now);
        self.enforce_all(now);
        self.effects.push(Effect::Pull);
        self.reconcile(issue, now);
    }

    /// Frees the stages that were parked by limits which are higher now.
    fn free_raised(&mut self, now: Now) {
        let mut freed = Vec::new();
        for (id, machine) in &mut self.machines {
            let events = machine.free_raised(&self.workflow.issue, now);
            if !events.is_empty() {
                freed.push((id.clone(), events));
            }
        }
        freed.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, events) in freed {
            self.record(&id, Observation::of(events), now);
        }
    }
}

/// The number of edits that a decision lists.
const NAMED_EDITS: usize = 5;

/// Returns a one-line summary of an edit of the workflow.
fn edit_summary(edits: &[Edit]) -> String {
    if edits.is_empty() {
        return "the workflow was edited: only prompts or comments changed".to_owned();
    }
    let named: Vec<_> = edits.iter().take(NAMED_EDITS).map(Edit::to_string).collect();
    let more = match edits.len().saturating_sub(NAMED_EDITS) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("the workflow was edited: {}{more}", named.join(", "))
}
