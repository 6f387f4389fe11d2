//! Scripted worlds: each tests one rule by a few chosen events, and the oracle checks all others.

mod approvals;
mod blockers;
mod closing;
mod eviction;
mod expired;
mod hand_over;
mod limits;
mod lookups;
mod order;
mod parking;
mod questions;
mod retries;
mod scopes;
mod states;
mod taken_over;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use vik_core::attempt::{AttemptResult, BeforeRunFailure, Start, StopReason};
use vik_core::changes::Decision;
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, IssueId, StageName};
use vik_core::limits::Spend;
use vik_core::machine::{ParkReason, Phase};
use vik_core::money::MicroUsd;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{
    Command, CommandResult, Effect, Explanation, Hold, Input, Quiescence, RetryRequest, Scheduler,
};
use vik_core::time::Now;
use vik_core::workflow::Workflow;
use vik_workflow_reader::load;

use super::daemon::Daemon;
use super::{Held, World};
use crate::tracker::Item;

/// The maximum number of issues in a scenario, apart from the large one.
const ISSUES: usize = 8;
const SHOW: &str = "show: { command: look }";

/// A world in which only scripted events happen. Everything is committed and carried out at once.
struct Scenario {
    world: World,
    text: String,
    starts: Vec<Start>,
    /// The effects of the last event.
    effects: Vec<Effect>,
    decisions: Vec<Decision>,
}

fn parse(text: &str) -> Arc<Workflow> {
    let loaded = load(text);
    let workflow = loaded.workflow;
    Arc::new(workflow.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)))
}

/// One stage `work` for issues in the state `todo`. `top` and `issue` are further keys of the
/// workflow, `stage` of its stage.
fn scenario(top: &str, issue: &str, stage: &str) -> Scenario {
    Scenario::new(&format!(
        "{top}
issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: codex, model: m }} }}
issue:
  terminal_states: [done]
  {issue}
  stages: {{ work: {{ when: {{ state: todo }}, agent: a, prompt: p, {stage} }} }}
"
    ))
}

/// Two stages `plan` and `code` for the same state; `issues` is further keys of `issues`.
fn two_stages(issues: &str) -> Scenario {
    Scenario::new(&format!(
        "issues: {{ pull: {{ command: list }}, {issues} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  terminal_states: [done]
  stages:
    plan: {{ when: {{ state: todo }}, agent: a, prompt: p }}
    code: {{ when: {{ state: todo }}, agent: a, prompt: p }}
"
    ))
}

/// One stage, for a workflow with a `show` command.
fn with_show(issue: &str) -> Scenario {
    let mut world = scenario("", issue, "");
    world.edit("command: list }", &format!("command: list }}, {SHOW}"));
    world
}

fn todo(issue: usize) -> Item {
    Item::new(issue, "todo")
}

fn later(issue: usize) -> Item {
    Item::new(issue, "later")
}

fn done(issue: usize) -> Item {
    Item::new(issue, "done")
}

fn titled(item: Item, title: u32) -> Item {
    item.with(|item| item.title = title)
}

fn blocked(item: Item, by: &[usize]) -> Item {
    item.with(|item| item.blocked_by = by.to_vec())
}

fn id(issue: usize) -> IssueId {
    IssueId::new(issue.to_string())
}

/// The result of an attempt whose agent ran.
fn ran(outcome: Outcome) -> AttemptResult {
    crate::host::ran(outcome, None)
}

fn failed(class: FailureClass) -> AttemptResult {
    AttemptResult {
        failure_class: Some(class),
        ..ran(Outcome::Failed)
    }
}

fn tokens(tokens: u64) -> Spend {
    Spend {
        tokens,
        usd: MicroUsd(0),
    }
}

impl Scenario {
    fn new(text: &str) -> Self {
        Self::with(text, ISSUES, [])
    }

    /// Creates a scenario with this number of issues, some of which have a workspace.
    fn with(text: &str, issues: usize, workspaces: impl IntoIterator<Item = usize>) -> Self {
        let mut world = World::scripted(parse(text), issues);
        world.host.workspaces.extend(workspaces);
        let mut scenario = Self {
            world,
            text: text.to_owned(),
            starts: Vec::new(),
            effects: Vec::new(),
            decisions: Vec::new(),
        };
        scenario.run(World::boot);
        scenario
    }

    /// Performs an event, commits its decisions and records its effects.
    fn run(&mut self, event: impl FnOnce(&mut World) -> Held) -> &mut Self {
        self.world.trace.step();
        event(&mut self.world).unwrap();
        let (changes, effects) = self.world.daemon.as_mut().unwrap().take_decisions();
        for changes in changes {
            self.world.disk.commit(&changes);
            self.decisions.extend(changes.decisions);
        }
        for effect in &effects {
            self.world.oracle.acts(effect, &self.world.disk).unwrap();
            if let Effect::Start(start) = effect {
                self.starts.push((**start).clone());
            }
        }
        self.effects = effects;
        self.world.check().unwrap();
        self
    }

    fn send(&mut self, input: Input) -> &mut Self {
        self.run(|world| world.send(input))
    }

    fn pull(&mut self, items: &[Item]) -> &mut Self {
        self.pull_starts();
        let snapshot = items.iter().cloned().map(Arc::new).collect();
        self.run(|world| world.pull_succeeds(snapshot, ""))
    }

    /// Starts a pull, which brings nothing as long as no result follows.
    fn pull_starts(&mut self) -> &mut Self {
        self.run(|world| {
            world.oracle.start_pull();
            world.send(Input::PullStarted)
        })
    }

    /// Ends a pending lookup: `None` is unknown, `Some(None)` a missing issue.
    fn shown(&mut self, seen: Option<Option<Item>>) -> &mut Self {
        self.shown_of(0, seen)
    }

    fn shown_of(&mut self, issue: usize, seen: Option<Option<Item>>) -> &mut Self {
        let seen = seen.map(|item| item.map(Arc::new));
        self.run(|world| world.finish_lookup(id(issue), issue, seen, "scripted").map(drop))
    }

    /// Ends the attempt that started last.
    fn end(&mut self, report: AttemptResult) -> &mut Self {
        let start = self.starts.last().unwrap().clone();
        self.end_of(&start, report)
    }

    /// An attempt of the first issue ends so, and does not move it.
    fn attempted(&mut self, report: AttemptResult) -> &mut Self {
        self.pull(&[todo(0)]).end(report).pull(&[todo(0)])
    }

    fn end_of(&mut self, start: &Start, report: AttemptResult) -> &mut Self {
        self.world.oracle.knows_end(start.attempt_id, &report);
        self.send(Input::Ended {
            issue: start.issue.id.clone(),
            attempt_id: start.attempt_id,
            report,
        })
    }

    /// Ends the running attempt of an issue with a success.
    fn succeed(&mut self, issue: usize) -> &mut Self {
        let running = self.running();
        let start = running.iter().find(|start| start.issue.id == id(issue)).unwrap();
        self.end_of(start, ran(Outcome::Succeeded))
    }

    /// Reports the spending of the attempt that started last.
    fn spent(&mut self, spent: u64) -> &mut Self {
        let start = self.starts.last().unwrap();
        let input = Input::Spent {
            issue: start.issue.id.clone(),
            attempt_id: start.attempt_id,
            spend: tokens(spent),
        };
        self.send(input)
    }

    /// Passes time without an input.
    fn pass(&mut self, seconds: u64) {
        self.world.clock.pass(seconds * 1_000);
    }

    fn wait(&mut self, seconds: u64) -> &mut Self {
        self.pass(seconds);
        self.send(Input::Tick)
    }

    /// Sets the wall clock.
    fn jump(&mut self, seconds: i64) {
        self.world.clock.jump(seconds * 1_000);
    }

    /// Kills the daemon and starts the next one, which repeats what it finds.
    fn crash(&mut self) -> &mut Self {
        self.run(|world| {
            world.dies()?;
            world.boot()
        })
    }

    fn command(&mut self, command: Command) -> &mut Self {
        self.run(|world| world.asks(command, "scripted", 0).map(drop))
    }

    fn retry(&mut self, stage: Option<&str>, attempts: Option<u32>) -> &mut Self {
        self.command(Command::Retry(RetryRequest {
            issue: id(0),
            stage: stage.map(StageName::new),
            attempts,
            agent: false,
        }))
    }

    /// Replaces a part of the workflow file, which a running daemon reads at once.
    fn edit(&mut self, from: &str, to: &str) -> &mut Self {
        assert!(self.text.contains(from), "{from}");
        self.text = self.text.replace(from, to);
        let workflow = parse(&self.text);
        self.run(|world| {
            world.policy = workflow;
            world.oracle.reloads(&world.policy);
            world.send(Input::Reloaded(Arc::clone(&world.policy)))
        })
    }

    fn max_sessions(&mut self, most: u32) -> &mut Self {
        self.send(Input::MaxSessions(most))
    }

    fn pressure(&mut self, why: Option<&str>) -> &mut Self {
        self.send(Input::Pressure(why.map(ToOwned::to_owned)))
    }

    fn removed(&mut self, removed: bool) -> &mut Self {
        self.run(|world| {
            world.oracle.removes(0, &world.host)?;
            world.send(Input::WorkspaceRemoved {
                issue: id(0),
                removed,
            })
        })
    }

    // --- what the scheduler shows

    fn scheduler(&self) -> &Scheduler {
        self.world.daemon.as_ref().map(Daemon::scheduler).unwrap()
    }

    fn now(&self) -> Now {
        self.world.clock.now()
    }

    fn running(&self) -> Vec<Start> {
        let runs = self.scheduler().runs();
        runs.filter_map(|(_, run)| run.active().cloned()).collect()
    }

    /// Returns the issues with a running attempt, in order.
    fn running_issues(&self) -> Vec<usize> {
        let running = self.running();
        let mut issues: Vec<_> = running
            .iter()
            .map(|start| crate::oracle::number(&start.issue.id))
            .collect();
        issues.sort_unstable();
        issues.dedup();
        issues
    }

    fn parked(&self) -> Option<ParkReason> {
        self.scheduler().runs().find_map(|(_, run)| run.park_reason())
    }

    fn explain(&self, issue: usize) -> Explanation {
        self.scheduler().explain(&id(issue), self.now()).unwrap()
    }

    /// Returns what holds the first stage that is held, or the whole issue.
    fn hold(&self, issue: usize) -> Option<Hold> {
        let explanation = self.explain(issue);
        let mut stages = explanation.stages.into_iter();
        stages.find_map(|stage| stage.hold).or(explanation.hold)
    }

    fn hold_of(&self, issue: usize, stage: &str) -> Option<Hold> {
        let stages = self.explain(issue).stages;
        let found = stages.into_iter().find(|one| one.stage.as_str() == stage);
        found.unwrap().hold
    }

    fn is_parked(&self, stage: &str) -> bool {
        matches!(self.hold_of(0, stage), Some(Hold::Parked { .. }))
    }

    fn quiescence(&self) -> Quiescence {
        self.scheduler().quiescence(self.now())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.scheduler().next_wakeup(self.now())
    }

    // --- the effects of the last event

    fn stops(&self) -> Vec<StopReason> {
        let stop = |effect: &Effect| match effect {
            Effect::Stop { why, .. } => Some(why.clone()),
            _ => None,
        };
        self.effects.iter().filter_map(stop).collect()
    }

    fn removes(&self) -> bool {
        let removes = |effect: &Effect| matches!(effect, Effect::RemoveWorkspace(..));
        self.effects.iter().any(removes)
    }

    fn looks_up(&self) -> bool {
        let looks_up = |effect: &Effect| matches!(effect, Effect::LookUp(_));
        self.effects.iter().any(looks_up)
    }

    /// Returns the result of the command that was the last event.
    fn result(&self) -> Option<&CommandResult> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::CommandResult(_, result) => Some(result),
            _ => None,
        })
    }

    fn decisions_of(&self, kind: &DecisionKind) -> usize {
        let decisions = self.decisions.iter();
        decisions.filter(|decision| decision.kind == *kind).count()
    }
}
