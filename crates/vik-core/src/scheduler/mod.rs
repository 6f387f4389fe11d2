//! The scheduler over all issues: order, slots, limits, and what is to be done next.
//!
//! Input in, effects out; see [`Scheduler::handle`]. What must be on disk before the effects are carried out is told by
//! [`Scheduler::take_changes`]. The one who carries them out owns the clock and the world.

mod approvals;
mod asks;
mod blockers;
mod dispatch;
mod explain;
mod ids;
mod messages;
mod pulled;
mod scopes;
mod shows;
mod spending;
mod waits;
mod workspaces;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::changes::{Changes, Decision, EndedAttempt, RunOver, StartedAttempt, Stored};
use crate::ids::{AttemptId, IssueId, RunId, StageName};
use crate::issue::Wanted;
use crate::machine::{Life, Machine, Note, Observed, PullNo, Report, Run};
use crate::plural::count;
use crate::time::{Mono, Now};
use crate::workflow::{Edit, Workflow, edits};

use blockers::Blockers;
use ids::IdSource;
use shows::Shows;
use spending::Spending;
use workspaces::Workspaces;

pub use approvals::Awaited;
pub use blockers::nearest;
pub use explain::{Explanation, Hold, RootCause, StageExplanation, Waiting};
pub use messages::{Answer, Ask, By, Effect, Filter, Input, Reply, Resume, Seen, Start, StopWhy};
pub use waits::Rest;

/// The state over all issues.
#[derive(Clone, Debug)]
pub struct Scheduler {
    workflow: Arc<Workflow>,
    filter: Filter,
    machines: HashMap<IssueId, Machine>,
    /// What issues have used of which nothing else is remembered.
    lives: HashMap<IssueId, Life>,
    /// Issues of the last good pull that match a stage, in the order in which they start.
    order: Vec<IssueId>,
    blockers: Blockers,
    shows: Shows,
    workspaces: Workspaces,
    spending: Spending,
    /// Since when issues with something that runs are done with.
    done_since: BTreeMap<IssueId, Mono>,
    pulls_started: PullNo,
    /// Whether any pull ended well.
    has_pulled: bool,
    /// Whether the last good pull, brought again, would tell nothing.
    knows_pull: bool,
    paused: bool,
    draining: bool,
    pressure: Option<Arc<str>>,
    ids: IdSource,
    /// When time alone changes something next.
    wake: Option<Mono>,
    effects: Vec<Effect>,
    changes: Changes,
    /// Issues whose machines are to be stored.
    changed: BTreeSet<IssueId>,
}

/// What a decision is about.
#[derive(Clone, Copy, Debug, Default)]
struct About<'a> {
    issue: Option<&'a IssueId>,
    stage: Option<&'a StageName>,
    run: Option<RunId>,
    attempt_id: Option<AttemptId>,
}

impl<'a> About<'a> {
    fn issue(issue: &'a IssueId) -> Self {
        Self {
            issue: Some(issue),
            ..Self::default()
        }
    }

    fn start(start: &'a Start) -> Self {
        Self {
            issue: Some(&start.issue.id),
            stage: Some(&start.stage.name),
            run: Some(start.run),
            attempt_id: Some(start.attempt_id),
        }
    }
}

impl Scheduler {
    /// A scheduler that knows no issue yet. `seed` makes its ids unique.
    pub fn new(workflow: Arc<Workflow>, filter: Filter, seed: [u8; 6]) -> Self {
        Self {
            workflow,
            filter,
            machines: HashMap::new(),
            lives: HashMap::new(),
            order: Vec::new(),
            blockers: Blockers::default(),
            shows: Shows::default(),
            workspaces: Workspaces::default(),
            spending: Spending::default(),
            done_since: BTreeMap::new(),
            pulls_started: PullNo::default(),
            has_pulled: false,
            knows_pull: false,
            paused: false,
            draining: false,
            pressure: None,
            ids: IdSource::new(seed),
            wake: None,
            effects: Vec::new(),
            changes: Changes::default(),
            changed: BTreeSet::new(),
        }
    }

    /// A scheduler that goes on where an earlier one ended, and the attempts that were under way then: they are to be
    /// taken up again (or started, where nothing shows that they were), never started twice. What was told to stop is
    /// told again by the first call of [`Scheduler::handle`].
    pub fn restore(
        workflow: Arc<Workflow>,
        filter: Filter,
        seed: [u8; 6],
        stored: Stored,
        now: Now,
    ) -> (Self, Vec<Start>) {
        let mut scheduler = Self::new(workflow, filter, seed);
        scheduler.paused = stored.paused;
        scheduler.spending.restore(stored.days, stored.estimates);
        let mut starts = Vec::new();
        for machine in stored.machines {
            let id = machine.issue().id.clone();
            let machine = machine.restored(now);
            starts.extend(machine.runs().iter().filter_map(Run::active).cloned());
            scheduler.machines.insert(id, machine);
        }
        starts.sort_by_key(|start| start.attempt_id);
        for start in &starts {
            scheduler.spending.begin(start);
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
            let unheard = machine.unheard();
            scheduler
                .effects
                .extend(unheard.map(|(attempt_id, answered)| Effect::Tell {
                    attempt_id,
                    answered: answered.clone(),
                }));
        }
        scheduler.free_raised(now);
        scheduler.set_wake(now);
        (scheduler, starts)
    }

    /// What changed since this was last asked: to be committed before the effects are carried out.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = std::mem::take(&mut self.changes);
        let changed = std::mem::take(&mut self.changed);
        let machines = changed.iter().filter_map(|id| self.machines.get(id)).cloned();
        changes.machines.extend(machines);
        changes
    }

    /// Takes one input and says what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        // These come often and free nothing.
        let frees_nothing = matches!(input, Input::PullStarted | Input::Spent { .. });
        // Whatever tells more of issues, or makes others interesting, makes the same pull tell something new.
        self.knows_pull &= !matches!(
            input,
            Input::Shown { .. }
                | Input::Workspaces(_)
                | Input::WorkspaceRemoved { .. }
                | Input::Reloaded(_)
                | Input::Ask(..)
        );
        match input {
            Input::PullStarted => self.pulls_started.0 += 1,
            Input::Pulled(issues) => self.pulled(issues, now),
            Input::PulledSame => self.pulled_same(now),
            Input::Ended {
                issue,
                attempt_id,
                report,
            } => self.ended(&issue, attempt_id, report, now),
            Input::Spent {
                issue,
                attempt_id,
                spend,
            } => self.spent(&issue, attempt_id, spend, now),
            Input::Awaits {
                issue,
                attempt_id,
                request,
            } => self.awaits(&issue, attempt_id, request.map(|request| *request), now),
            Input::Shown { issue, seen } => self.shown(&issue, seen, now),
            Input::Workspaces(issues) => self.workspaces.extend(issues),
            Input::WorkspaceRemoved { issue, removed } => self.workspace_removed(&issue, removed, now),
            Input::Pressure(why) => self.pressed(why, now),
            Input::Reloaded(workflow) => self.reloaded(workflow, now),
            Input::Ask(number, ask, by) => self.asked(number, ask, &by, now),
            Input::Tick => {}
            Input::Drain => self.draining = true,
        }
        if !frees_nothing {
            self.stop_what_is_done(now);
            self.answer_overdue(now);
            self.ask_for_approval(now);
            self.dispatch(now);
            self.set_wake(now);
        }
        std::mem::take(&mut self.effects)
    }

    fn reloaded(&mut self, workflow: Arc<Workflow>, now: Now) {
        let detail = what_changed(&edits(&self.workflow, &workflow));
        self.workflow = workflow;
        // Other states may be terminal now: who waits for whom follows the new workflow.
        self.hold_blocked(now);
        self.free_raised(now);
        self.free_unasked(now);
        self.decide(now, "reloaded", About::default(), detail);
        // Other states may be of interest now.
        self.effects.push(Effect::Pull);
    }

    fn pressed(&mut self, why: Option<String>, now: Now) {
        let why: Option<Arc<str>> = why.map(Into::into);
        if why.is_some() != self.pressure.is_some() {
            let (kind, detail) = match &why {
                Some(why) => ("pressure", why.to_string()),
                None => ("no_pressure", "the machine has room again".to_owned()),
            };
            self.decide(now, kind, About::default(), detail);
        }
        self.pressure = why;
    }

    /// An attempt ended.
    fn ended(&mut self, issue: &IssueId, attempt_id: AttemptId, mut report: Report, now: Now) {
        let Some(machine) = self.machines.get_mut(issue) else {
            return;
        };
        let Some((start, estimate, stopping)) = machine.active(attempt_id) else {
            return;
        };
        let (start, stopping) = (start.clone(), stopping.cloned());
        let (charged, source) = self
            .spending
            .charge(issue, attempt_id, &mut report, estimate, now);
        let limits = self
            .spending
            .limits(&self.workflow, machine, &start, charged, now);
        let stopped = spending::stopped_for(&report, stopping, limits);
        let after = PullNo(self.pulls_started.0 + 1);
        let detail = match &report.reason {
            Some(reason) => format!("{}: {reason}", report.outcome),
            None => report.outcome.to_string(),
        };
        let began_anew = report.resume_failed;
        let ended = EndedAttempt {
            attempt_id,
            at: now.wall,
            report: report.clone(),
            charged,
            source,
        };
        let observed = machine.ended(attempt_id, report, stopped, charged, after, now);
        self.changes.ended.push(ended);
        self.note_day(now);
        if began_anew {
            let detail = "the conversation before could not be gone on with: it began anew".to_owned();
            self.decide(now, "resume_failed", About::start(&start), detail);
        }
        self.decide(now, "ended", About::start(&start), detail);
        self.record(issue, observed.unwrap_or_default(), now);
        self.enforce_all(now);
        self.effects.push(Effect::Pull);
        self.reconcile(issue, now);
    }

    /// Frees what limits parked that are higher now.
    fn free_raised(&mut self, now: Now) {
        let mut freed = Vec::new();
        for (id, machine) in &mut self.machines {
            let notes = machine.free_raised(&self.workflow.issue, now);
            if !notes.is_empty() {
                freed.push((id.clone(), notes));
            }
        }
        freed.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, notes) in freed {
            let observed = Observed { notes, changed: true };
            self.record(&id, observed, now);
        }
    }

    // --- what is to be remembered, and told

    fn decide(&mut self, now: Now, kind: &str, about: About<'_>, detail: String) {
        self.changes.decisions.push(Decision {
            at: now.wall,
            issue: about.issue.cloned(),
            stage: about.stage.cloned(),
            run: about.run,
            attempt_id: about.attempt_id,
            kind: kind.to_owned(),
            detail,
        });
    }

    fn record(&mut self, issue: &IssueId, observed: Observed, now: Now) {
        if observed.changed {
            self.changed.insert(issue.clone());
        }
        for note in observed.notes {
            self.note(issue, note, now);
        }
    }

    fn note(&mut self, issue: &IssueId, note: Note, now: Now) {
        let (run, stage) = note.about();
        let (kind, detail) = match &note {
            Note::Ended { succeeded: true, .. } => {
                ("run_ended", "the issue left the stage's state".to_owned())
            }
            Note::Ended { .. } => (
                "run_ended",
                "the issue left the stage's state, and the last attempt had not succeeded".to_owned(),
            ),
            Note::BackingOff {
                attempts, wait, why, ..
            } => (
                match why {
                    crate::machine::Wait::Backoff => "backing_off",
                    crate::machine::Wait::Quota => "quota",
                },
                format!(
                    "{} used; the next one waits {}",
                    count((*attempts).into(), "attempt"),
                    crate::duration::Span(*wait)
                ),
            ),
            Note::Awaiting { request, .. } => ("awaiting_approval", request.words()),
            Note::Answered {
                request, answer, by, ..
            } => ("answered", request.answered(answer, by)),
            Note::Parked { reason, .. } => (
                "parked",
                format!("{}; freed by {}", reason.as_str(), reason.freed_by()),
            ),
            Note::Freed { .. } => ("freed", "the issue was changed".to_owned()),
            Note::Closed { .. } => (
                "closed",
                "the issue was closed, so it is parked no more".to_owned(),
            ),
            Note::Unparked { .. } => ("unparked", "more is allowed now".to_owned()),
        };
        let about = About {
            issue: Some(issue),
            stage: Some(stage),
            run: Some(run),
            attempt_id: None,
        };
        self.decide(now, kind, about, detail);
        let succeeded = match &note {
            Note::Ended { succeeded, .. } | Note::Closed { succeeded, .. } => Some(*succeeded),
            Note::Freed { .. } => Some(false),
            _ => None,
        };
        if let Some(succeeded) = succeeded {
            self.changes.runs_over.push(RunOver {
                run,
                issue: issue.clone(),
                succeeded,
                at: now.wall,
            });
        }
        self.effects.push(Effect::Note(issue.clone(), note));
    }

    fn record_start(&mut self, start: &Start, why: String, now: Now) {
        self.changed.insert(start.issue.id.clone());
        self.changes.started.push(StartedAttempt {
            attempt_id: start.attempt_id,
            run: start.run,
            issue: start.issue.id.clone(),
            stage: start.stage.name.clone(),
            agent: start.stage.agent.clone(),
            attempt: start.attempt,
            resumed_from: start.resume.as_ref().map(|resume| resume.attempt_id),
            at: now.wall,
        });
        self.decide(now, "started", About::start(start), why);
    }

    /// Tells an attempt to stop, once.
    fn stop(&mut self, issue: &IssueId, attempt_id: AttemptId, why: StopWhy, now: Now) -> bool {
        let Some(machine) = self.machines.get_mut(issue) else {
            return false;
        };
        let is_first = machine.stop(attempt_id, why.clone());
        // What a person says is remembered even where it was told to stop before.
        if is_first || why == StopWhy::Cancelled {
            self.changed.insert(issue.clone());
        }
        if is_first {
            let about = About {
                attempt_id: Some(attempt_id),
                ..About::issue(issue)
            };
            self.decide(now, "stopped", about, why.to_string());
            self.effects.push(Effect::Stop { attempt_id, why });
        }
        is_first
    }

    // --- what is known

    /// All runs that are not over, in no particular order.
    pub fn runs(&self) -> impl Iterator<Item = (&IssueId, &Run)> {
        self.machines
            .iter()
            .flat_map(|(id, machine)| machine.runs().iter().map(move |run| (id, run)))
    }

    /// Every issue that is known, in no order.
    pub fn issues(&self) -> impl Iterator<Item = &IssueId> {
        self.machines.keys()
    }

    /// The machine of an issue, where one is known.
    pub fn machine(&self, issue: &IssueId) -> Option<&Machine> {
        self.machines.get(issue)
    }

    /// What an issue has used in its whole life.
    pub fn life(&self, issue: &IssueId) -> Life {
        let known = self.machines.get(issue).map(Machine::life);
        known
            .or_else(|| self.lives.get(issue))
            .copied()
            .unwrap_or_default()
    }

    /// Whether a person paused everything.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Issues that a person paused, sorted.
    pub fn paused_issues(&self) -> Vec<IssueId> {
        let paused = self.machines.values().filter(|machine| machine.is_paused());
        let mut ids: Vec<_> = paused.map(|machine| machine.issue().id.clone()).collect();
        ids.sort();
        ids
    }

    /// Whether nothing more starts.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Whether all that the last pull told is known and counted: the same again is [`Input::PulledSame`].
    pub fn knows_pull(&self) -> bool {
        self.knows_pull
    }

    /// What of a pull is of interest. What comes to be known while it is read is seen by the one after it.
    pub fn wanted(&self) -> Wanted {
        let stages = &self.workflow.issue.stages;
        let mut known: HashMap<_, _> = self
            .machines
            .iter()
            .map(|(id, machine)| (id.clone(), Some(machine.issue().clone())))
            .collect();
        for id in self.workspaces.tracked(&self.workflow) {
            known.entry(id.clone()).or_insert(None);
        }
        Wanted {
            states: stages
                .iter()
                .map(|stage| stage.when_state.as_str().into())
                .collect(),
            known,
        }
    }

    /// How many issues of the last good pull match a stage.
    pub fn matching(&self) -> usize {
        self.order.len()
    }
}

/// How many edits are named in one decision.
const NAMED_EDITS: usize = 5;

/// What an edit of the workflow changed, in one line.
fn what_changed(edits: &[Edit]) -> String {
    if edits.is_empty() {
        return "the workflow was edited: nothing but its prompts or its comments".to_owned();
    }
    let named: Vec<_> = edits.iter().take(NAMED_EDITS).map(Edit::to_string).collect();
    let more = match edits.len().saturating_sub(NAMED_EDITS) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("the workflow was edited: {}{more}", named.join(", "))
}
