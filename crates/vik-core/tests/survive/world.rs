//! The world around a scheduler: a ledger that keeps what is committed, a tracker that lies, agents
//! that end in every way, people who meddle, and a daemon that dies.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use vik_core::attempt::{AttemptResult, Start, StopReason};
use vik_core::changes::{Changes, Stored};
use vik_core::ids::{AttemptId, IssueId, RunId, StageName};
use vik_core::issue::Issue;
use vik_core::limits::Spend;
use vik_core::machine::{IssueMachine, LifetimeUsage, RunEvent};
use vik_core::money::MicroUsd;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{Actor, Command, Effect, Filter, Input, LookupResult, RetryRequest, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::workflow::{Workflow, load};

pub const STATES: [&str; 4] = ["todo", "review", "done", "elsewhere"];
pub const ISSUES: usize = 5;
pub const MAX_ATTEMPTS: u32 = 2;
pub const LIFE: u32 = 5;
const DAY_TOKENS: u64 = 900;
const ISSUE_TOKENS: u64 = 400;
const STAGE_TOKENS: u64 = 150;

pub fn workflow(show: bool) -> Arc<Workflow> {
    let show = if show { "show: { command: look }" } else { "" };
    let stage = format!(
        "agent: a, prompt: p, retry: {{ max_attempts: {MAX_ATTEMPTS} }}, limits: {{ tokens: {STAGE_TOKENS} }}"
    );
    let text = format!(
        "loop: {{ max_issue_concurrency: 2 }}
limits: {{ tokens_per_day: {DAY_TOKENS} }}
issues: {{ pull: {{ command: list }}, {show} }}
agents:
  a: {{ runtime: codex, model: m, estimate: {{ tokens: 40, usd: 0.01 }} }}
  b: {{ runtime: codex, model: m, max_concurrency: 1, estimate: {{ tokens: 40, usd: 0.01 }} }}
issue:
  terminal_states: [done]
  limits: {{ attempts: {LIFE}, tokens: {ISSUE_TOKENS} }}
  stages:
    plan: {{ when: {{ state: todo }}, {stage} }}
    code: {{ when: {{ state: todo }}, {stage}, on_state_change: cancel, max_concurrency: 1 }}
    watch: {{ when: {{ state: review }}, {stage}, parallel: true }}
    review: {{ when: {{ state: review }}, agent: b, prompt: p, retry: {{ max_attempts: {MAX_ATTEMPTS} }} }}
"
    );
    let loaded = load(&text);
    Arc::new(
        loaded
            .workflow
            .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)),
    )
}

/// What is on disk.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    machines: BTreeMap<IssueId, String>,
    pub days: BTreeMap<Date, Spend>,
    paused: bool,
    pub started: HashMap<AttemptId, IssueId>,
    pub ended: HashMap<AttemptId, Spend>,
}

impl Ledger {
    fn commit(&mut self, changes: Changes) {
        for machine in changes.machines {
            let text = serde_json::to_string(&machine).unwrap();
            self.machines.insert(machine.issue().id.clone(), text);
        }
        for started in changes.started {
            let twice = self.started.insert(started.attempt_id, started.issue);
            assert!(twice.is_none(), "a session is started once");
        }
        for ended in changes.ended {
            assert!(
                self.started.contains_key(&ended.attempt_id),
                "what ended was started"
            );
            let twice = self.ended.insert(ended.attempt_id, ended.charged);
            assert!(twice.is_none(), "a session is charged once");
        }
        for (day, total) in changes.days {
            let before = self.days.insert(day, total).unwrap_or_default();
            assert_eq!(before.max(total), total, "a day's total never shrinks");
        }
        self.paused = changes.paused.unwrap_or(self.paused);
    }

    fn stored(&self) -> Stored {
        let machines = self
            .machines
            .values()
            .map(|text| serde_json::from_str(text).unwrap());
        Stored {
            machines: machines.collect(),
            days: self.days.iter().map(|(day, spend)| (*day, *spend)).collect(),
            paused: self.paused,
            ..Stored::default()
        }
    }

    fn machine(&self, issue: &IssueId) -> Option<IssueMachine> {
        let text = self.machines.get(issue)?;
        Some(serde_json::from_str(text).unwrap())
    }
}

/// One step of a random schedule.
#[derive(Clone, Debug)]
pub enum Step {
    /// A pull ends well with these states; `None` is an issue that it does not bring.
    Pull(Vec<Option<usize>>),
    FailedPull,
    /// The nth running attempt ends.
    End(usize, Outcome, Option<FailureClass>, Option<u64>),
    /// The nth running attempt has spent this much in all.
    Spent(usize, u64),
    Wait(u64),
    /// The wall clock jumps by hours.
    Jump(i64),
    Edit(usize),
    /// The daemon dies, and another one takes over.
    Crash,
    Pause(Option<usize>),
    Continue(Option<usize>),
    Cancel(usize),
    Retry(usize, Option<u32>),
    /// A lookup ends: with the state of the last pull, missing, or unknown.
    Show(usize, u8),
    Removed(usize, bool),
    Pressure(bool),
}

pub struct World {
    pub scheduler: Scheduler,
    pub ledger: Ledger,
    pub running: BTreeMap<AttemptId, Start>,
    pub stopped: HashMap<AttemptId, StopReason>,
    pub now: Now,
    show: bool,
    daemons: u8,
    titles: Vec<u32>,
    /// State of each issue in the last good pull.
    seen: HashMap<IssueId, String>,
    shows: Vec<IssueId>,
    removals: Vec<IssueId>,
    lives: HashMap<IssueId, LifetimeUsage>,
    /// Attempts that count, of each run and of each issue.
    counted: HashMap<RunId, u32>,
    counted_life: HashMap<IssueId, u32>,
    /// The title with which a run was parked.
    parked: HashMap<RunId, (IssueId, u32)>,
    allowed: HashMap<IssueId, u32>,
}

impl World {
    pub fn new(show: bool) -> Self {
        Self {
            scheduler: Scheduler::new(workflow(show), Filter::default(), [1; 6]),
            ledger: Ledger::default(),
            running: BTreeMap::new(),
            stopped: HashMap::new(),
            now: Now {
                wall: Timestamp::from_second(1_800_000_000).unwrap(),
                mono: Mono(Duration::from_secs(5)),
            },
            show,
            daemons: 1,
            titles: vec![0; ISSUES],
            seen: HashMap::new(),
            shows: Vec::new(),
            removals: Vec::new(),
            lives: HashMap::new(),
            counted: HashMap::new(),
            counted_life: HashMap::new(),
            parked: HashMap::new(),
            allowed: HashMap::new(),
        }
    }

    pub fn id(number: usize) -> IssueId {
        IssueId::new(number.to_string())
    }

    /// Returns the title as it was seen last.
    fn title(&self, issue: &IssueId) -> u32 {
        let machine = self.scheduler.machine(issue).unwrap();
        machine.issue().title.parse().unwrap()
    }

    /// Issue 1 waits for issue 0; 3 and 4 wait for each other, should 4 be there.
    fn issue(&self, number: usize, state: &str) -> Issue {
        let blocked_by = match number {
            1 => "[0]",
            3 => "[\"4\"]",
            4 => "3",
            _ => "null",
        };
        let text = format!(
            r#"{{"id":{number},"state":"{state}","title":"{}","blocked_by":{blocked_by}}}"#,
            self.titles[number]
        );
        Issue::parse(&text).unwrap()
    }

    pub fn send(&mut self, input: Input) {
        let dispatches = !matches!(input, Input::Spent { .. } | Input::PullStarted);
        let effects = self.scheduler.handle(self.now, input);
        let changes = self.scheduler.take_changes();
        let new: HashSet<_> = changes.started.iter().map(|started| started.attempt_id).collect();
        let machines: HashSet<_> = changes
            .machines
            .iter()
            .map(|machine| machine.issue().id.clone())
            .collect();
        self.ledger.commit(changes);
        for effect in effects {
            match effect {
                Effect::Start(start) => {
                    assert!(new.contains(&start.attempt_id) && machines.contains(&start.issue.id));
                    self.check_start(*start);
                }
                Effect::Stop { attempt_id, why } => {
                    assert!(self.running.contains_key(&attempt_id));
                    self.stopped.insert(attempt_id, why);
                }
                Effect::RunEvent(issue, note) => self.note(issue, &note),
                Effect::LookUp(issue) => self.shows.push(issue),
                Effect::RemoveWorkspace(issue) => {
                    assert!(
                        self.running.values().all(|start| start.issue.id != issue.id),
                        "no workspace goes under an attempt"
                    );
                    self.removals.push(issue.id);
                }
                Effect::Warn { .. }
                | Effect::DeliverAnswer { .. }
                | Effect::CommandResult(..)
                | Effect::Pull => {}
            }
        }
        self.check(dispatches);
    }

    fn note(&mut self, issue: IssueId, note: &RunEvent) {
        let (run, _) = note.about();
        match note {
            RunEvent::Parked { .. } => {
                let title = self.title(&issue);
                self.parked.insert(run, (issue, title));
            }
            RunEvent::Freed { .. } => {
                let (_, title) = self.parked.remove(&run).unwrap();
                assert!(self.title(&issue) > title, "only a change frees it");
            }
            RunEvent::Unparked { .. } | RunEvent::Ended { .. } | RunEvent::Closed { .. } => {
                drop(self.parked.remove(&run));
            }
            RunEvent::BackingOff { .. } | RunEvent::Awaiting { .. } | RunEvent::Answered { .. } => {
                assert!(!self.parked.contains_key(&run));
            }
        }
    }

    fn check_start(&mut self, start: Start) {
        let id = &start.issue.id;
        for other in self.running.values().filter(|other| other.issue.id == *id) {
            assert_ne!(other.stage.name, start.stage.name, "one attempt of a stage");
            assert!(
                other.stage.parallel || start.stage.parallel,
                "one stage at a time unless one is parallel"
            );
        }
        assert_eq!(
            self.seen.get(id),
            Some(&start.stage.when_state),
            "only in its state"
        );
        let is_open = |number| {
            let state = self.seen.get(&Self::id(number));
            state.is_some_and(|state| state != "done")
        };
        assert!(id.as_str() != "1" || !is_open(0), "its blocker is open");
        assert!(
            !(["3", "4"].contains(&id.as_str()) && is_open(3) && is_open(4)),
            "a cycle"
        );
        assert!(!self.parked.contains_key(&start.run), "it is parked");
        let counted = self.counted.get(&start.run).copied().unwrap_or_default();
        assert_eq!(start.attempt, counted + 1);
        let extra = self.allowed.get(id).copied().unwrap_or_default();
        assert!(counted < MAX_ATTEMPTS + extra, "attempts of the run");
        let lived = self.counted_life.get(id).copied().unwrap_or_default();
        let active = self
            .running
            .values()
            .filter(|other| other.issue.id == *id)
            .count();
        assert!(lived + (active as u32) < LIFE + extra, "attempts of the life");
        let today = Offset::UTC.to_datetime(self.now.wall).date();
        let spent = self.ledger.days.get(&today).copied().unwrap_or_default();
        assert!(spent.tokens < DAY_TOKENS, "the day is used up");
        assert!(
            start
                .budget
                .tokens
                .is_some_and(|tokens| tokens > 0 && tokens <= ISSUE_TOKENS)
        );
        self.running.insert(start.attempt_id, start);
    }

    fn check(&mut self, dispatched: bool) {
        let issues: HashSet<_> = self.running.values().map(|start| &start.issue.id).collect();
        assert!(issues.len() <= 2, "slots");
        let of = |name: &str| {
            let stage = StageName::from(name);
            self.running
                .values()
                .filter(|start| start.stage.name == stage)
                .count()
        };
        assert!(of("code") <= 1, "slots of the stage");
        assert!(of("review") <= 1, "slots of the agent");
        for number in 0..ISSUES {
            let id = Self::id(number);
            let life = self.scheduler.life(&id);
            let before = self.lives.insert(id.clone(), life).unwrap_or_default();
            assert!(life.attempts >= before.attempts && life.spend.max(before.spend) == life.spend);
            assert_eq!(
                life.attempts,
                self.counted_life.get(&id).copied().unwrap_or_default(),
                "what counts is counted"
            );
            let charged = self.ledger.ended.iter();
            let charged = charged.filter(|(attempt_id, _)| self.ledger.started[*attempt_id] == id);
            let sum = charged.fold(Spend::default(), |sum, (_, spend)| sum.plus(*spend));
            assert_eq!(life.spend, sum, "the life is charged what its attempts are");
            let stored = self.ledger.machine(&id).map(|machine| *machine.life());
            assert_eq!(stored.unwrap_or_default(), life, "counters are on disk");
            if dispatched && let Some(explanation) = self.scheduler.explain(&id, self.now) {
                for stage in explanation.stages {
                    assert!(
                        stage.attempt_id.is_some() || stage.hold.is_some(),
                        "what does not start is held by something: {id} {}",
                        stage.stage
                    );
                }
            }
        }
    }

    pub fn apply(&mut self, step: &Step) {
        match step.clone() {
            Step::Pull(states) => {
                self.send(Input::PullStarted);
                let states = states.into_iter().enumerate();
                let pulled: Vec<_> = states
                    .filter_map(|(number, state)| Some((number, STATES[state?])))
                    .collect();
                self.seen = pulled
                    .iter()
                    .map(|(number, state)| (Self::id(*number), (*state).to_owned()))
                    .collect();
                let issues = pulled.iter().map(|(number, state)| self.issue(*number, state));
                let issues = issues.collect();
                self.send(Input::Pulled(issues));
            }
            Step::FailedPull => {
                let before = self.running.len();
                self.send(Input::PullStarted);
                assert_eq!(self.running.len(), before);
            }
            Step::End(nth, outcome, class, tokens) => self.end(nth, outcome, class, tokens),
            Step::Spent(nth, tokens) => {
                let Some(start) = self.nth(nth) else { return };
                let spend = Spend {
                    tokens,
                    usd: MicroUsd(tokens),
                };
                self.send(Input::Spent {
                    issue: start.issue.id,
                    attempt_id: start.attempt_id,
                    spend,
                });
                if tokens >= STAGE_TOKENS && start.stage.name.as_str() != "review" {
                    assert!(
                        self.stopped.contains_key(&start.attempt_id),
                        "its limit is reached"
                    );
                }
            }
            Step::Wait(seconds) => {
                self.now.mono = self.now.mono.plus(Duration::from_secs(seconds));
                self.now.wall += SignedDuration::from_secs(seconds as i64);
                self.send(Input::Tick);
            }
            Step::Jump(hours) => {
                self.now.wall += SignedDuration::from_hours(hours);
                self.send(Input::Tick);
            }
            Step::Edit(number) => self.titles[number] += 1,
            Step::Crash => self.crash(),
            Step::Pause(number) => self.send(Input::Command(
                1,
                Command::Pause(number.map(Self::id)),
                Actor::default(),
            )),
            Step::Continue(number) => {
                self.send(Input::Command(
                    1,
                    Command::Resume(number.map(Self::id)),
                    Actor::default(),
                ));
            }
            Step::Cancel(number) => self.send(Input::Command(
                1,
                Command::Cancel(Self::id(number)),
                Actor::default(),
            )),
            Step::Retry(number, more) => {
                // Each grants a bounded number of attempts more; the sum is a safe bound.
                let issue = Self::id(number);
                *self.allowed.entry(issue.clone()).or_default() += 2 * MAX_ATTEMPTS + 2 * more.unwrap_or(0);
                self.send(Input::Command(
                    1,
                    Command::Retry(RetryRequest {
                        issue,
                        stage: None,
                        attempts: more,
                    }),
                    Actor::default(),
                ));
            }
            Step::Show(nth, how) => {
                if self.shows.is_empty() {
                    return;
                }
                let issue = self.shows.remove(nth % self.shows.len());
                let number = issue.as_str().parse().unwrap();
                let seen = match (how, self.seen.get(&issue)) {
                    (0, _) => LookupResult::Unknown,
                    (1, None) => LookupResult::Missing,
                    (_, None) => LookupResult::Snapshot(Box::new(self.issue(number, "elsewhere"))),
                    (_, Some(state)) => LookupResult::Snapshot(Box::new(self.issue(number, state))),
                };
                self.send(Input::LookupFinished { issue, result: seen });
            }
            Step::Removed(nth, removed) => {
                if self.removals.is_empty() {
                    return;
                }
                let issue = self.removals.remove(nth % self.removals.len());
                self.send(Input::WorkspaceRemoved { issue, removed });
            }
            Step::Pressure(on) => self.send(Input::Pressure(on.then(|| "memory".to_owned()))),
        }
    }

    fn nth(&self, nth: usize) -> Option<Start> {
        let count = self.running.len();
        self.running.values().nth(nth.checked_rem(count)?).cloned()
    }

    pub fn end(&mut self, nth: usize, outcome: Outcome, class: Option<FailureClass>, tokens: Option<u64>) {
        let Some(start) = self.nth(nth) else { return };
        self.running.remove(&start.attempt_id);
        let stopped = self.stopped.remove(&start.attempt_id);
        let is_drained = outcome == Outcome::Cancelled && stopped.is_none();
        if outcome != Outcome::Lost && !is_drained {
            *self.counted_life.entry(start.issue.id.clone()).or_default() += 1;
        }
        let report = AttemptResult {
            failure_class: class.filter(|_| outcome == Outcome::Failed),
            ran: true,
            spend: tokens.map(|tokens| Spend {
                tokens,
                usd: MicroUsd(tokens),
            }),
            provider_session_id: Some("conversation".to_owned()),
            ..AttemptResult::new(outcome)
        };
        // What the scheduler counted for the run is compared with the next attempt's number, and
        // with the rule.
        let before = self.counted.get(&start.run).copied().unwrap_or_default();
        let input = Input::Ended {
            issue: start.issue.id.clone(),
            attempt_id: start.attempt_id,
            report,
        };
        self.counted.insert(start.run, before + 1);
        self.send(input.clone());
        let after = self
            .ledger
            .machine(&start.issue.id)
            .and_then(|machine| machine.run(&start.stage.name).map(|run| run.attempts));
        if let Some(after) = after {
            assert!(after == before || after == before + 1);
            if outcome == Outcome::Lost || is_drained {
                assert_eq!(after, before, "a lost or drained one uses none");
            }
            if matches!(outcome, Outcome::Succeeded | Outcome::Failed) {
                assert_eq!(after, before + 1);
            }
            self.counted.insert(start.run, after);
        }
        let ended = self.ledger.ended.len();
        self.send(input);
        assert_eq!(self.ledger.ended.len(), ended, "told twice, it counts once");
    }

    fn crash(&mut self) {
        self.daemons = self.daemons.wrapping_add(1);
        self.now.mono = Mono(Duration::from_secs(1));
        let seed = [self.daemons; 6];
        let stored = self.ledger.stored();
        let (scheduler, starts) =
            Scheduler::restore(workflow(self.show), Filter::default(), seed, stored, self.now);
        let active: Vec<_> = self.running.values().cloned().collect();
        assert_eq!(starts, active, "what runs is taken up, and nothing else");
        self.scheduler = scheduler;
        self.seen.clear();
        self.shows.clear();
        self.removals.clear();
        let stopping = std::mem::take(&mut self.stopped);
        let workspaces = self.ledger.started.values().cloned().collect();
        self.send(Input::Workspaces(workspaces));
        for attempt_id in stopping
            .keys()
            .filter(|attempt_id| self.running.contains_key(attempt_id))
        {
            assert!(
                self.stopped.contains_key(attempt_id),
                "what was to stop is told again"
            );
        }
    }
}
