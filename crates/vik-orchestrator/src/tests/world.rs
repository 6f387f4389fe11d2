//! A world in memory: effects that follow a script, and a clock that a test moves. There is no
//! process, no file and no timer.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use tokio::sync::oneshot;
use vik_base::report::Failure;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Changes;
use vik_core::ended::Ended;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::issue::{Issue, Pull, Wanted};
use vik_core::limits::Spend;
use vik_core::machine::{IssueMachine, RunEvent, TakenOver};
use vik_core::message::Message;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{Expired, LookupResult, RemovalCause};
use vik_core::time::{Mono, Now};
use vik_core::turn::EndedTurn;
use vik_core::worker::{WorkerLoss, WorkerName};
use vik_session::attempt::{AttemptEnd, AttemptHandle, AttemptLink, Finish, Steering, TurnDecision};
use vik_store::ledger::{CommitError, LedgerError};
use vik_workflow::LoadedWorkflow;

use crate::intake::PullError;
use crate::*;

/// How long each pull takes.
pub const PULL: Duration = Duration::from_millis(50);

/// How an attempt ends by itself.
#[derive(Clone, Copy)]
pub enum Script {
    /// It moves the issue to `done`.
    Succeeds(Duration),
    Fails(Duration),
    /// It runs until it is stopped.
    Runs,
}

pub enum Event {
    Wake(oneshot::Sender<()>),
    Pulled(oneshot::Sender<Result<PullOutput, PullError>>, String),
    Ends(AttemptId, Outcome),
}

#[derive(Default)]
pub struct World {
    pub now: Duration,
    pub events: BTreeMap<(Duration, usize), Event>,
    next_event: usize,
    /// The issues of the tracker, with their state and priority.
    tracker: BTreeMap<String, (String, Option<u32>)>,
    script: VecDeque<Script>,
    running: BTreeMap<AttemptId, (String, AttemptLink)>,
    /// What was carried out, in order.
    pub log: Vec<String>,
    pub started: Vec<Duration>,
    /// The announced waits before further attempts.
    pub waits: Vec<Duration>,
    pub warnings: Vec<String>,
    pub most_running: usize,
    /// How often the output of a pull was read.
    pub reads: usize,
    pub pulls: usize,
    /// When each pull started.
    pub pulled: Vec<Duration>,
    /// The next pulls fail, and their commands ask for these waits; zero asks for none.
    pub failing_pulls: VecDeque<Duration>,
    pub is_pulling: bool,
    /// What a search for old data finds.
    pub expired: Vec<Expired>,
    /// The number of listed issues at each search.
    pub scans: Vec<usize>,
    /// The removals of old data, with their times.
    pub removals: Vec<(Duration, Expired)>,
    /// How long agents live without a daemon.
    pub orphan_grace: Duration,
    /// Whether attempts neither stop nor detach when they are asked to.
    pub ignores_commands: bool,
}

impl World {
    /// Returns a world whose tracker has these issues in the state `todo`, with their priorities.
    pub fn new(issues: &[(&str, Option<u32>)], script: &[Script]) -> Self {
        let tracker = issues
            .iter()
            .map(|(id, priority)| ((*id).to_owned(), ("todo".to_owned(), *priority)));
        Self {
            tracker: tracker.collect(),
            script: script.iter().copied().collect(),
            ..Self::default()
        }
    }

    fn schedule(&mut self, wait: Duration, event: Event) {
        self.next_event += 1;
        self.events.insert((self.now + wait, self.next_event), event);
    }

    /// Moves an issue to a state.
    pub fn move_to(&mut self, issue: &str, state: &str) {
        self.tracker.get_mut(issue).unwrap().0 = state.to_owned();
    }

    /// Has the agent of an issue take its oldest message.
    pub fn take_message(&mut self, issue: &str) -> Option<Message> {
        let (_, link) = self.running.values().find(|(of, _)| of == issue)?;
        link.commands.take_message()
    }

    /// Has the agent of an issue take its oldest message and report it, and returns the text.
    pub fn read_message(&mut self, issue: &str) -> Option<String> {
        let message = self.take_message(issue)?;
        let (_, link) = self.running.values().find(|(of, _)| of == issue)?;
        link.updates.message_taken(message.id);
        Some(message.text)
    }

    /// Has the agent of an issue end this turn and wait for input.
    pub fn end_turn(&mut self, issue: &str, turn: u32) {
        let (_, link) = self.running.values().find(|(of, _)| of == issue).unwrap();
        link.updates.turn_ended(EndedTurn {
            turn,
            is_verified: true,
        });
    }

    /// Returns what follows this turn of the agent of an issue, once that is decided.
    pub fn turn_decision(&self, issue: &str, turn: u32) -> Option<TurnDecision> {
        let (_, link) = self.running.values().find(|(of, _)| of == issue)?;
        link.commands.turn_decided(turn).now_or_never()
    }

    /// Ends the attempt of an issue, whose worker is lost.
    pub fn lose_attempt(&mut self, issue: &str, worker: &WorkerName) {
        let mut running = self.running.iter();
        let (&id, _) = running.find(|(_, (of, _))| of == issue).unwrap();
        let (_, link) = self.running.remove(&id).unwrap();
        let result = AttemptResult::lost_with(worker, WorkerLoss::Lost);
        link.updates.finish(finish(result));
    }

    /// Reports how the agent of an issue can be steered.
    pub fn set_steering(&mut self, issue: &str, steering: Steering) {
        let (_, link) = self.running.values().find(|(of, _)| of == issue).unwrap();
        link.updates.set_facts(|facts| facts.steering = Some(steering));
    }

    pub fn starts(&self) -> Vec<&str> {
        let starts = self.log.iter().filter_map(|line| line.strip_prefix("start "));
        starts.collect()
    }

    pub fn fire(&mut self, event: Event) {
        match event {
            Event::Wake(sender) => drop(sender.send(())),
            Event::Pulled(sender, output) => {
                self.is_pulling = false;
                let mut hasher = DefaultHasher::new();
                output.hash(&mut hasher);
                let _ = sender.send(Ok(PullOutput {
                    text: output.into_bytes(),
                    digest: PullDigest(hasher.finish()),
                }));
            }
            Event::Ends(id, outcome) => {
                if let Some((issue, link)) = self.running.remove(&id) {
                    if outcome == Outcome::Succeeded {
                        self.move_to(&issue, "done");
                    }
                    link.updates.finish(ended(outcome));
                }
            }
        }
    }

    /// Lets the attempts follow their commands.
    pub fn obey(&mut self) {
        if self.ignores_commands {
            return;
        }
        let finish = |link: &AttemptLink| match link.commands.stop_cause() {
            Some(_) => Some(ended(Outcome::Cancelled)),
            None => link.commands.detached().now_or_never().map(|()| Finish::Detached),
        };
        for (issue, link) in self.running.values() {
            if let Some(finish) = finish(link) {
                let how = if matches!(finish, Finish::Detached) {
                    "detach"
                } else {
                    "stop"
                };
                self.log.push(format!("{how} {issue}"));
                link.updates.finish(finish);
            }
        }
        self.running.retain(|_, (_, link)| finish(link).is_none());
    }
}

fn ended(outcome: Outcome) -> Finish {
    let result = AttemptResult {
        failure_class: (outcome == Outcome::Failed).then_some(FailureClass::Agent),
        changed: Some(true),
        ran: true,
        answered: Some(true),
        ..AttemptResult::new(outcome)
    };
    finish(result)
}

fn finish(result: AttemptResult) -> Finish {
    Finish::Ended(Box::new(AttemptEnd {
        ended: Ended::new(result, Spend::default()),
        log: PathBuf::new(),
    }))
}

pub fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap()
}

pub struct ScriptedEffects(pub Arc<Mutex<World>>);

impl Effects for ScriptedEffects {
    fn workspaces(&mut self) -> &mut dyn WorkspaceEffects {
        self
    }

    fn now(&self) -> Now {
        let now = lock(&self.0).now;
        Now {
            wall: Timestamp::from_second(1_700_000_000).unwrap() + now,
            mono: Mono(now),
        }
    }

    fn sleep(&self, wait: Duration) -> Task<()> {
        let (sender, woken) = oneshot::channel();
        lock(&self.0).schedule(wait, Event::Wake(sender));
        Box::pin(async { drop(woken.await) })
    }

    fn pull(&mut self) -> Task<Result<PullOutput, PullError>> {
        let (sender, end) = oneshot::channel();
        let mut world = lock(&self.0);
        let issues = world.tracker.iter().map(|(id, (state, priority))| {
            serde_json::json!({"id": id, "title": "t", "state": state, "priority": priority})
        });
        let output = serde_json::Value::from_iter(issues).to_string();
        world.pulls += 1;
        let now = world.now;
        world.pulled.push(now);
        if let Some(wait) = world.failing_pulls.pop_front() {
            let error = PullError::Failed {
                how: "exited with 1".to_owned(),
                stderr: String::new(),
                requested_wait: (!wait.is_zero()).then_some(wait),
            };
            return Box::pin(async { Err(error) });
        }
        world.is_pulling = true;
        world.schedule(PULL, Event::Pulled(sender, output));
        Box::pin(async { end.await.unwrap() })
    }

    fn read_pull(&mut self, output: PullOutput, wanted: Wanted) -> Task<Result<Pull, PullError>> {
        lock(&self.0).reads += 1;
        let pull = Pull::parse_wanted(&output.text, &wanted).unwrap();
        Box::pin(async { Ok(pull) })
    }

    fn look_up(&mut self, _: &IssueId) -> Task<Result<LookupResult, String>> {
        panic!("no workflow has `issues.show`")
    }

    fn move_issue(&mut self, _: &IssueId, _: &str, _: &str) -> Task<Result<(), String>> {
        panic!("no workflow has `issues.tracker`")
    }

    fn find_expired(&mut self, listed: HashSet<IssueId>) -> Task<ExpiryScan> {
        let mut world = lock(&self.0);
        world.scans.push(listed.len());
        let scan = ExpiryScan {
            expired: world.expired.clone(),
            ..ExpiryScan::default()
        };
        Box::pin(async { scan })
    }

    fn remove_expired(&mut self, expired: &Expired, _: Timestamp) -> Task<Result<ExpiredRemoval, String>> {
        let mut world = lock(&self.0);
        let now = world.now;
        world.removals.push((now, expired.clone()));
        Box::pin(async { Ok(ExpiredRemoval::default()) })
    }

    fn cancel_lookups(&mut self) {}

    fn pressure(&mut self, _: bool) -> Option<String> {
        None
    }

    fn adopt_workflow(&mut self, _: &LoadedWorkflow) -> Result<(), Failure> {
        Ok(())
    }

    fn publish(&mut self, progress: &Progress<'_>) {
        let mut world = lock(&self.0);
        match progress {
            Progress::Parked(parked) => {
                let line = format!("park {} {}", parked.issue.id, parked.reason.as_str());
                world.log.push(line);
            }
            Progress::Warning { text } => world.warnings.push((*text).to_owned()),
            Progress::Note(_, RunEvent::BackingOff { wait, .. }) => world.waits.push(*wait),
            _ => {}
        }
    }

    fn record_state(&mut self, state: &str, _: Option<&str>) {
        lock(&self.0).log.push(format!("state {state}"));
    }
}

impl WorkspaceEffects for ScriptedEffects {
    fn start(&mut self, start: Arc<Start>) -> AttemptHandle {
        let mut world = lock(&self.0);
        let (handle, link) = AttemptHandle::new();
        let issue = start.issue.id.to_string();
        world.log.push(format!("start {issue} {}", start.attempt));
        let now = world.now;
        world.started.push(now);
        match world.script.pop_front().unwrap_or(Script::Runs) {
            Script::Succeeds(after) => {
                world.schedule(after, Event::Ends(start.attempt_id, Outcome::Succeeded));
            }
            Script::Fails(after) => world.schedule(after, Event::Ends(start.attempt_id, Outcome::Failed)),
            Script::Runs => {}
        }
        world.running.insert(start.attempt_id, (issue, link));
        world.most_running = world.most_running.max(world.running.len());
        handle
    }

    /// Every repeated hand-over succeeds at once and moves its issue.
    fn hand_over(&mut self, start: Arc<Start>) -> AttemptHandle {
        let (handle, link) = AttemptHandle::new();
        let mut world = lock(&self.0);
        let issue = start.issue.id.to_string();
        world.log.push(format!("hand over {issue}"));
        world.move_to(&issue, "done");
        link.updates.finish(Finish::HandedOver(Ok(())));
        handle
    }

    fn attempt_log(&self, _: &Start) -> PathBuf {
        PathBuf::new()
    }

    fn orphan_grace(&self) -> Duration {
        lock(&self.0).orphan_grace
    }

    fn record_changes(&mut self, issue: &IssueId, _: &TakenOver) -> Task<Result<Vec<String>, String>> {
        lock(&self.0).log.push(format!("record changes {issue}"));
        Box::pin(async { Ok(vec!["a.rs".to_owned()]) })
    }

    fn remove_workspace(&mut self, issue: Box<Issue>, _: RemovalCause) -> Task<Removal> {
        lock(&self.0).log.push(format!("remove {}", issue.id));
        Box::pin(async { Removal::Removed { bytes: 0 } })
    }

    fn take_inventory(&mut self, _: ExpiryTimes) -> Task<Inventory> {
        Box::pin(async { Inventory::default() })
    }

    fn remove_expired_files(&mut self, _: &Expired, _: Timestamp) -> Task<Result<ExpiredRemoval, String>> {
        Box::pin(async { Ok(ExpiredRemoval::default()) })
    }

    fn kill_removals(&mut self) {}

    fn adopt_workflow(&mut self, _: &LoadedWorkflow) -> Result<(), Failure> {
        Ok(())
    }
}

/// Commits at once, and fails where a test says so.
pub struct ScriptedLog {
    pub fails: fn(&Changes) -> Option<CommitFailure>,
    pub forgets: fn(&IssueId) -> bool,
    pub machines: Mutex<BTreeMap<IssueId, IssueMachine>>,
}

/// Returns the failure of a ledger that has ended.
pub fn stopped() -> CommitFailure {
    let cause = Arc::new(LedgerError::Stopped);
    CommitError { cause }.into()
}

impl CommitLog for ScriptedLog {
    fn commit(&self, changes: Changes) -> Committing {
        if let Some(failure) = (self.fails)(&changes) {
            return Box::pin(async { Err(failure) });
        }
        let machines = changes.machines.into_iter();
        let machines = machines.map(|machine| (machine.issue().id.clone(), machine));
        self.machines.lock().unwrap().extend(machines);
        Box::pin(async { Ok(()) })
    }

    fn recall(&self, issues: Vec<IssueId>) -> Recalling {
        if issues.iter().any(self.forgets) {
            return Box::pin(async { Err(stopped()) });
        }
        let machines = self.machines.lock().unwrap();
        let found: Vec<_> = issues.iter().filter_map(|id| machines.get(id).cloned()).collect();
        Box::pin(async { Ok(found) })
    }
}
