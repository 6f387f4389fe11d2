//! The scheduler over all issues: order, slots, and what is to be done next.
//!
//! Input in, effects out; see [`Scheduler::handle`]. The one who carries out the effects owns the clock and the world.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::changes::{Changes, Stored};
use crate::ids::{IssueId, RunId, SessionId, StageName};
use crate::issue::{Issue, Wanted};
use crate::limits::{Limit, LimitHit, Spend};
use crate::machine::{Machine, Note, Phase, PullNo, Report, Run};
use crate::outcome::Usage;
use crate::time::{Mono, Now};
use crate::workflow::{Stage, Workflow};

/// What the scheduler is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A pull begins. A pull that fails has no other input: it changes nothing.
    PullStarted,
    /// The pull that began last ended well and brought these issues, in pull order.
    Pulled(Vec<Issue>),
    /// An attempt ended: its process tree is gone.
    Ended {
        /// The issue it was for.
        issue: IssueId,
        /// The attempt.
        session: SessionId,
        /// How.
        report: Report,
    },
    /// An attempt has spent this much so far: a running total of the attempt.
    Spent {
        /// The issue it is for.
        issue: IssueId,
        /// The attempt.
        session: SessionId,
        /// The total so far.
        spend: Spend,
    },
    /// The answer to [`Effect::Show`].
    Shown {
        /// The issue.
        issue: IssueId,
        /// What was seen.
        seen: Seen,
    },
    /// These issues have a workspace on disk; told once, at the start.
    Workspaces(Vec<IssueId>),
    /// The answer to [`Effect::RemoveWorkspace`]: whether it is gone. One that stays is not asked for again until the
    /// issue changes.
    WorkspaceRemoved {
        /// The issue.
        issue: IssueId,
        /// Whether it is gone.
        removed: bool,
    },
    /// The machine is too busy to start more, and why; `None`: it is not.
    Pressure(Option<String>),
    /// The workflow was edited, and the new one is good.
    Reloaded(Arc<Workflow>),
    /// A person asks for something; [`Effect::Answer`] carries the same number.
    Ask(u64, Ask),
    /// Time has passed.
    Tick,
    /// Start nothing more: Vik is stopping.
    Drain,
}

/// What a look at one issue showed.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It is there.
    Snapshot(Box<Issue>),
    /// The tracker does not have it any more.
    Gone,
    /// The look failed: nothing is known.
    Unknown,
}

/// What a person can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Start nothing for this issue, or at all. What runs goes on.
    Pause(Option<IssueId>),
    /// Take that back.
    Continue(Option<IssueId>),
    /// Stop what runs for the issue, and end its runs: they begin anew when the issue changes or is unparked.
    Cancel(IssueId),
    /// Free what is parked, and allow this many attempts more (`None`: one more run of the stage).
    Unpark(IssueId, Option<u32>),
    /// Start nothing more, and end when nothing runs.
    Drain,
}

/// What came of an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done: so many attempts, runs or issues were touched.
    Done(usize),
    /// No such issue is known.
    UnknownIssue,
    /// There was nothing to do, and why.
    Nothing(&'static str),
}

/// What the scheduler asks for.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Start this attempt. The slot is already taken.
    Start(Box<Start>),
    /// Stop this attempt.
    Stop {
        /// The attempt.
        session: SessionId,
        /// Why.
        why: StopWhy,
    },
    /// A limit is near (80 %): say so in the attempt's log.
    Warn {
        /// The attempt.
        session: SessionId,
        /// The limit.
        limit: LimitHit,
    },
    /// Look at this issue again; answered by [`Input::Shown`].
    Show(IssueId),
    /// Its work is over: remove its workspace as the workflow says; answered by [`Input::WorkspaceRemoved`].
    RemoveWorkspace(Box<Issue>),
    /// The answer to an [`Input::Ask`].
    Answer(u64, Answer),
    /// Pull soon: something ended, and what it did is to be seen.
    Pull,
    /// Something happened to a run of this issue.
    Note(IssueId, Note),
}

/// Why an attempt is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWhy {
    /// The issue left the stage's state (`on_state_change: cancel`).
    StateChanged,
    /// The issue is in a terminal state, and the grace is over.
    Terminal,
    /// The tracker does not have the issue any more.
    Gone,
    /// A person asked for it.
    Cancelled,
    /// A limit was crossed: the outcome is `over_budget`.
    OverBudget(LimitHit),
}

/// The conversation that an attempt goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The attempt that it was.
    pub session: SessionId,
    /// The provider's id of it, as that attempt told. It is text from an agent: checked before use.
    pub provider_session_id: String,
    /// What the conversation had used, in all attempts before this one.
    pub total: Usage,
}

/// All that is needed to start an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The snapshot it is started from.
    pub issue: Issue,
    /// The stage; an attempt keeps the one it started with.
    pub stage: Stage,
    /// The run.
    pub run: RunId,
    /// The attempt's own id, also the name of its session log.
    pub session: SessionId,
    /// Its number within the run, from 1.
    pub attempt: u32,
    /// How the attempt before it ended.
    pub previous: Option<Report>,
    /// The conversation it goes on with.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// What may be spent at most, by the limits of attempt, issue and day together: for agents that keep a limit
    /// themselves.
    #[serde(default)]
    pub budget: Limit,
}

/// Restricts what may start (`--issue`, `--stage`); empty lists allow all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Issues that may start.
    pub issues: Vec<IssueId>,
    /// Stages that may start.
    pub stages: Vec<StageName>,
}

impl Filter {
    fn allows(&self, issue: &IssueId, stage: &StageName) -> bool {
        (self.issues.is_empty() || self.issues.contains(issue))
            && (self.stages.is_empty() || self.stages.contains(stage))
    }
}

/// Makes ids from the time, a seed and a counter, so that a replay makes the same ones.
#[derive(Clone, Debug)]
struct IdSource {
    seed: [u8; 6],
    next: u32,
}

impl IdSource {
    fn uuid(&mut self, now: Now) -> uuid::Uuid {
        // The version and the variant take bits of the bytes 0 and 2: the counter stays clear of them.
        let mut tail = [0; 10];
        tail[..3].copy_from_slice(&self.seed[..3]);
        tail[3..7].copy_from_slice(&self.next.to_be_bytes());
        tail[7..].copy_from_slice(&self.seed[3..]);
        self.next = self.next.wrapping_add(1);
        let millis = u64::try_from(now.wall.as_millisecond()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
    }
}

/// The state over all issues.
#[derive(Clone, Debug)]
pub struct Scheduler {
    workflow: Arc<Workflow>,
    filter: Filter,
    machines: HashMap<IssueId, Machine>,
    /// Issues of the last good pull that match a stage: by priority, then in pull order.
    order: Vec<IssueId>,
    pulls_started: PullNo,
    draining: bool,
    ids: IdSource,
}

/// Whether anything is left to do without new facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Something runs.
    Running,
    /// An attempt ended, or nothing was seen yet: a pull is needed.
    NeedsPull,
    /// The next attempt starts then.
    At(Mono),
    /// Nothing will start by itself.
    Idle,
}

impl Scheduler {
    /// A scheduler that knows no issue yet. `seed` makes its ids unique.
    pub fn new(workflow: Arc<Workflow>, filter: Filter, seed: [u8; 6]) -> Self {
        Self {
            workflow,
            filter,
            machines: HashMap::new(),
            order: Vec::new(),
            pulls_started: PullNo::default(),
            draining: false,
            ids: IdSource { seed, next: 0 },
        }
    }

    /// A scheduler that goes on where an earlier one ended, and the attempts that were under way then: they are to be
    /// taken up again (or started, where nothing shows that they were), never started twice.
    pub fn restore(
        workflow: Arc<Workflow>,
        filter: Filter,
        seed: [u8; 6],
        stored: Stored,
        now: Now,
    ) -> (Self, Vec<Start>) {
        let _ = (stored, now);
        (Self::new(workflow, filter, seed), Vec::new())
    }

    /// What changed since this was last asked: to be committed before the effects are carried out.
    pub fn take_changes(&mut self) -> Changes {
        Changes::default()
    }

    /// Takes one input and says what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::PullStarted => self.pulls_started.0 += 1,
            Input::Pulled(issues) => self.pulled(issues, now, &mut effects),
            Input::Ended {
                issue,
                session,
                report,
            } => {
                let after = PullNo(self.pulls_started.0 + 1);
                if let Some(machine) = self.machines.get_mut(&issue) {
                    let note = machine.ended(session, report, after, now);
                    effects.extend(note.map(|note| Effect::Note(issue, note)));
                    effects.push(Effect::Pull);
                }
            }
            Input::Tick
            | Input::Spent { .. }
            | Input::Shown { .. }
            | Input::Workspaces(_)
            | Input::WorkspaceRemoved { .. }
            | Input::Pressure(_)
            | Input::Ask(..) => {}
            Input::Reloaded(workflow) => self.workflow = workflow,
            Input::Drain => self.draining = true,
        }
        self.dispatch(now, &mut effects);
        effects
    }

    fn pulled(&mut self, issues: Vec<Issue>, now: Now, effects: &mut Vec<Effect>) {
        let pull = self.pulls_started;
        let states: HashSet<&str> = self
            .workflow
            .issue
            .stages
            .iter()
            .map(|stage| stage.when_state.as_str())
            .collect();
        self.order.clear();
        let mut seen = HashSet::with_capacity(self.machines.len());
        for issue in issues {
            let id = issue.id.clone();
            let matches = states.contains(&*issue.state);
            if matches {
                self.order.push(id.clone());
            }
            match self.machines.get_mut(&id) {
                Some(machine) => {
                    let notes = machine.observe(issue, pull, now, &self.workflow);
                    effects.extend(notes.into_iter().map(|note| Effect::Note(id.clone(), note)));
                    seen.insert(id);
                }
                None if matches => {
                    self.machines.insert(id.clone(), Machine::new(issue));
                    seen.insert(id);
                }
                None => {}
            }
        }
        for (id, machine) in &mut self.machines {
            if !seen.contains(id) {
                let notes = machine.vanish(pull, now, &self.workflow);
                effects.extend(notes.into_iter().map(|note| Effect::Note(id.clone(), note)));
            }
        }
        let machines = &self.machines;
        self.order.sort_by_cached_key(|id| {
            let priority = machines
                .get(id)
                .and_then(|machine| machine.issue().priority_milli);
            (priority.is_none(), priority)
        });
        self.machines.retain(|_, machine| {
            let idle = machine.runs().is_empty() && !states.contains(&*machine.issue().state);
            !machine.is_forgettable() && !idle
        });
    }

    fn dispatch(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.draining {
            return;
        }
        let most = self.workflow.max_issue_concurrency as usize;
        let mut active = self
            .machines
            .values()
            .filter(|machine| machine.is_active())
            .count();
        let workflow = Arc::clone(&self.workflow);
        for id in &self.order {
            if active >= most {
                break;
            }
            let Some(machine) = self.machines.get_mut(id) else {
                continue;
            };
            let allowed = |stage: &StageName| self.filter.allows(id, stage);
            let Some(stage) = machine.candidate(&workflow, now, allowed) else {
                continue;
            };
            let (run, session) = (RunId(self.ids.uuid(now)), SessionId(self.ids.uuid(now)));
            let run = machine.start(&stage.name, run, session, now);
            let (run, attempt, previous) = (run.id, run.attempts + 1, run.last.clone());
            let issue = machine.issue().clone();
            let stage = stage.clone();
            effects.push(Effect::Start(Box::new(Start {
                issue,
                stage,
                run,
                session,
                attempt,
                previous,
                resume: None,
                budget: Limit::default(),
            })));
            active += 1;
        }
    }

    /// What the scheduler waits for. Back-offs of issues that no pull brings do not count.
    pub fn rest(&self) -> Rest {
        let mut next: Option<Mono> = None;
        let mut needs_pull = self.pulls_started == PullNo::default();
        for (id, run) in self.runs() {
            match run.phase {
                Phase::Active { .. } => return Rest::Running,
                Phase::Settling { .. } => needs_pull = true,
                Phase::BackingOff { until, .. }
                    if self.machines[id].is_present() && self.filter.allows(id, &run.stage) =>
                {
                    next = Some(next.map_or(until, |next| next.min(until)));
                }
                _ => {}
            }
        }
        match (needs_pull, next) {
            (true, _) => Rest::NeedsPull,
            (false, Some(at)) => Rest::At(at),
            (false, None) => Rest::Idle,
        }
    }

    /// When the next back-off ends.
    pub fn next_wakeup(&self, now: Now) -> Option<Duration> {
        self.runs()
            .filter_map(|(_, run)| match run.phase {
                Phase::BackingOff { until, .. } if until > now.mono => Some(now.mono.until(until)),
                _ => None,
            })
            .min()
    }

    /// All runs that are not over, in no particular order.
    pub fn runs(&self) -> impl Iterator<Item = (&IssueId, &Run)> {
        self.machines
            .iter()
            .flat_map(|(id, machine)| machine.runs().iter().map(move |run| (id, run)))
    }

    /// The machine of an issue, where one is known.
    pub fn machine(&self, issue: &IssueId) -> Option<&Machine> {
        self.machines.get(issue)
    }

    /// What of the next pull is of interest. What comes to be known while that pull runs is seen by the one after it.
    pub fn wanted(&self) -> Wanted {
        let stages = &self.workflow.issue.stages;
        Wanted {
            states: stages
                .iter()
                .map(|stage| stage.when_state.as_str().into())
                .collect(),
            known: self
                .machines
                .iter()
                .map(|(id, machine)| (id.clone(), machine.issue().clone()))
                .collect(),
        }
    }

    /// How many issues of the last good pull match a stage.
    pub fn matching(&self) -> usize {
        self.order.len()
    }

    /// What would start now, were there no limit on concurrency; for `--dry-run`.
    pub fn candidates(&self, now: Now) -> Vec<(&Issue, &Stage)> {
        self.order
            .iter()
            .filter_map(|id| {
                let machine = self.machines.get(id)?;
                let allowed = |stage: &StageName| self.filter.allows(id, stage);
                Some((machine.issue(), machine.candidate(&self.workflow, now, allowed)?))
            })
            .collect()
    }
}
