//! The scheduler under random schedules: pulls that lie, fail or come late, attempts that end in
//! every way, time that passes in jumps.
#![allow(clippy::unwrap_used, reason = "a broken assumption fails the test")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::ids::{AttemptId, IssueId, StageName};
use vik_core::issue::Issue;
use vik_core::machine::{ParkReason, Phase, RunEvent};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{Effect, Filter, Input, Quiescence, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::workflow::{Workflow, load};

const STATES: [&str; 4] = ["todo", "review", "done", "blocked"];

fn workflow(concurrency: u32, max_attempts: u32) -> Arc<Workflow> {
    let text = format!(
        "loop: {{ max_issue_concurrency: {concurrency} }}
issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  stages:
    plan: {{ when: {{ state: todo }}, agent: a, prompt: p, retry: {{ max_attempts: {max_attempts} }} }}
    code: {{ when: {{ state: todo }}, agent: a, prompt: p, retry: {{ max_attempts: {max_attempts} }} }}
    review: {{ when: {{ state: review }}, agent: a, prompt: p, retry: {{ max_attempts: {max_attempts} }} }}
"
    );
    Arc::new(load(&text).workflow.unwrap())
}

fn issue(id: usize, state: &str, title: &str) -> Issue {
    Issue::parse(&format!(r#"{{"id":"{id}","state":"{state}","title":"{title}"}}"#)).unwrap()
}

fn report(outcome: Outcome) -> AttemptResult {
    AttemptResult::new(outcome)
}

/// One step of a random schedule.
#[derive(Clone, Debug)]
enum Step {
    /// A pull begins and ends well, with these states; `None` is an issue that it does not bring.
    Pull(Vec<Option<usize>>),
    /// A pull begins and fails.
    FailedPull,
    /// The nth running attempt ends.
    End(usize, Outcome),
    /// An end of an attempt that never was.
    Ghost(usize),
    Wait(u64),
    /// A person edits the issue.
    Edit(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Succeeded),
        4 => Just(Outcome::Failed),
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::Stalled),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::Lost),
    ];
    prop_oneof![
        5 => prop::collection::vec(prop::option::weighted(0.9, 0..STATES.len()), 5).prop_map(Step::Pull),
        1 => Just(Step::FailedPull),
        5 => (0..8usize, outcome).prop_map(|(nth, outcome)| Step::End(nth, outcome)),
        1 => (0..5usize).prop_map(Step::Ghost),
        3 => (0..400u64).prop_map(Step::Wait),
        1 => (0..5usize).prop_map(Step::Edit),
    ]
}

/// The world around a scheduler, and what must hold in it.
struct World {
    scheduler: Scheduler,
    now: Now,
    running: Vec<Start>,
    titles: Vec<u32>,
    /// For each issue: its state in the last good pull, and whether that pull began after its last
    /// attempt ended.
    seen: HashMap<IssueId, (String, bool)>,
    /// Attempts of the run that count.
    counted: HashMap<(IssueId, StageName), u32>,
    concurrency: usize,
    max_attempts: u32,
}

impl World {
    fn new(concurrency: u32, max_attempts: u32) -> Self {
        Self {
            scheduler: Scheduler::new(workflow(concurrency, max_attempts), Filter::default(), [7; 6]),
            now: Now {
                wall: Timestamp::UNIX_EPOCH,
                mono: Mono(Duration::ZERO),
            },
            running: Vec::new(),
            titles: vec![0; 5],
            seen: HashMap::new(),
            counted: HashMap::new(),
            concurrency: concurrency as usize,
            max_attempts,
        }
    }

    fn send(&mut self, input: Input) {
        for effect in self.scheduler.handle(self.now, input) {
            match effect {
                Effect::Start(start) => self.check_start(*start),
                Effect::RunEvent(
                    issue,
                    RunEvent::Ended { stage, .. }
                    | RunEvent::Closed { stage, .. }
                    | RunEvent::Freed { stage, .. },
                ) => {
                    self.counted.remove(&(issue, stage));
                }
                _ => {}
            }
        }
        assert!(self.running.len() <= self.concurrency);
    }

    fn check_start(&mut self, start: Start) {
        let id = &start.issue.id;
        assert!(
            self.running.iter().all(|other| other.issue.id != *id),
            "one stage of an issue at a time"
        );
        let (state, fresh) = &self.seen[id];
        assert_eq!(*state, start.stage.when_state, "only in the state of the stage");
        assert!(*fresh, "only after the issue was seen again");
        let counted = self
            .counted
            .get(&(id.clone(), start.stage.name.clone()))
            .copied()
            .unwrap_or(0);
        assert!(counted < self.max_attempts, "never more attempts than allowed");
        assert_eq!(start.attempt, counted + 1);
        self.running.push(start);
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Pull(states) => {
                self.send(Input::PullStarted);
                let issues: Vec<_> = states
                    .iter()
                    .enumerate()
                    .filter_map(|(id, state)| {
                        Some(issue(id, STATES[(*state)?], &self.titles[id].to_string()))
                    })
                    .collect();
                self.seen = issues
                    .iter()
                    .map(|issue| (issue.id.clone(), (issue.state.to_string(), true)))
                    .collect();
                self.send(Input::Pulled(issues));
            }
            Step::FailedPull => self.send(Input::PullStarted),
            Step::End(nth, outcome) => {
                if self.running.is_empty() {
                    return;
                }
                let start = self.running.remove(nth % self.running.len());
                let id = start.issue.id.clone();
                if let Some(seen) = self.seen.get_mut(&id) {
                    seen.1 = false;
                }
                if !matches!(outcome, Outcome::Cancelled | Outcome::Lost) {
                    *self
                        .counted
                        .entry((id.clone(), start.stage.name.clone()))
                        .or_default() += 1;
                }
                self.send(Input::Ended {
                    issue: id,
                    attempt_id: start.attempt_id,
                    report: report(*outcome),
                });
            }
            Step::Ghost(id) => {
                let (issue, attempt_id) = (IssueId::new(id.to_string()), AttemptId(uuid::Uuid::nil()));
                self.send(Input::Ended {
                    issue,
                    attempt_id,
                    report: report(Outcome::Succeeded),
                });
            }
            Step::Wait(seconds) => {
                self.now.mono = self.now.mono.plus(Duration::from_secs(*seconds));
                self.send(Input::Tick);
            }
            Step::Edit(id) => self.titles[*id] += 1,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn scheduler_rules_hold_under_any_schedule(
        concurrency in 1..4u32,
        max_attempts in 1..4u32,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(concurrency, max_attempts);
        for step in &steps {
            world.apply(step);
        }
        // A draining scheduler starts nothing more.
        world.send(Input::Drain);
        let before = world.running.len();
        world.apply(&Step::Wait(10_000));
        world.apply(&Step::Pull(vec![Some(0); 5]));
        prop_assert_eq!(world.running.len(), before);
    }

    #[test]
    fn schedule_is_replayed_exactly(steps in prop::collection::vec(step(), 1..60)) {
        let run = || {
            let mut world = World::new(2, 3);
            steps.iter().for_each(|step| world.apply(step));
            world.running.iter().map(|start| (start.run, start.attempt_id)).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn work_that_moves_its_issue_comes_to_an_end(concurrency in 1..4u32) {
        let mut world = World::new(concurrency, 2);
        let mut states = [0usize; 5];
        for _ in 0..100 {
            world.apply(&Step::Pull(states.iter().map(|state| Some(*state)).collect()));
            if world.scheduler.quiescence(world.now) == Quiescence::Idle {
                break;
            }
            while let Some(start) = world.running.first() {
                let id: usize = start.issue.id.as_str().parse().unwrap();
                states[id] = if start.stage.name.as_str() == "review" { 2 } else { 1 };
                world.apply(&Step::End(0, Outcome::Succeeded));
            }
        }
        prop_assert_eq!(states, [2; 5]);
        prop_assert_eq!(world.scheduler.quiescence(world.now), Quiescence::Idle);
        prop_assert_eq!(world.scheduler.runs().count(), 0);
    }
}

/// One issue in one state, tried until nothing starts any more.
fn exhaust(outcome: Outcome) -> World {
    let mut world = World::new(1, 3);
    for _ in 0..20 {
        world.apply(&Step::Pull(vec![Some(1)]));
        world.apply(&Step::End(0, outcome));
        world.apply(&Step::Wait(600));
    }
    world.apply(&Step::Pull(vec![Some(1)]));
    assert!(world.running.is_empty());
    world
}

fn parked(world: &World) -> Option<ParkReason> {
    world.scheduler.runs().find_map(|(_, run)| match run.phase {
        Phase::Parked { reason, .. } => Some(reason),
        _ => None,
    })
}

#[test]
fn success_without_progress_is_parked() {
    assert_eq!(parked(&exhaust(Outcome::Succeeded)), Some(ParkReason::NoProgress));
}

#[test]
fn failure_without_end_is_parked() {
    assert_eq!(
        parked(&exhaust(Outcome::Failed)),
        Some(ParkReason::AttemptsUsedUp)
    );
}

#[test]
fn exhausted_issue_is_freed_only_by_its_change() {
    let mut world = exhaust(Outcome::Failed);
    // The state goes away and comes back.
    for state in [2, 1] {
        world.apply(&Step::Pull(vec![Some(state)]));
    }
    assert!(world.running.is_empty());
    world.apply(&Step::Edit(0));
    world.apply(&Step::Pull(vec![Some(1)]));
    assert_eq!(world.running.len(), 1);
    assert_eq!(world.running[0].attempt, 1, "a new run");
}

#[test]
fn unproven_end_parks_the_issue() {
    let mut world = World::new(1, 3);
    world.apply(&Step::Pull(vec![Some(0)]));
    let start = world.running.remove(0);
    let report = AttemptResult {
        failure_class: Some(FailureClass::UnprovenEnd),
        ..report(Outcome::Failed)
    };
    world.send(Input::Ended {
        issue: start.issue.id,
        attempt_id: start.attempt_id,
        report,
    });
    world.apply(&Step::Pull(vec![Some(0)]));
    world.apply(&Step::Wait(100_000));
    assert!(
        world.running.is_empty(),
        "nothing starts beside what may still live"
    );
    assert_eq!(parked(&world), Some(ParkReason::UnprovenEnd));
}

#[test]
fn lost_attempts_back_off_until_too_many_park_the_issue() {
    let mut world = World::new(1, 1);
    world.apply(&Step::Pull(vec![Some(1)]));
    for _ in 0..5 {
        assert_eq!(parked(&world), None);
        assert_eq!(world.running.len(), 1);
        world.apply(&Step::End(0, Outcome::Lost));
        world.apply(&Step::Pull(vec![Some(1)]));
        assert!(world.running.is_empty(), "it backs off");
        world.apply(&Step::Wait(600));
    }
    assert_eq!(
        parked(&world),
        Some(ParkReason::Lost),
        "it does not go on for ever"
    );
}
