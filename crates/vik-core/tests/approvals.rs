//! Starts that a person has to approve, under random schedules: edits, answers, time limits,
//! restarts.
#![allow(clippy::unwrap_used, reason = "a broken assumption fails the test")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use vik_core::approval::Answer;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Stored;
use vik_core::ids::{IssueId, StageName};
use vik_core::issue::Issue;
use vik_core::machine::{ParkReason, RunEvent};
use vik_core::outcome::Outcome;
use vik_core::scheduler::{
    self, Actor, ApprovalReply, Command, Effect, Filter, Hold, Input, Quiescence, Scheduler,
};
use vik_core::time::{Mono, Now};
use vik_core::workflow::{Workflow, load};

fn workflow(on_timeout: &str) -> Arc<Workflow> {
    planning("todo", on_timeout)
}

/// Returns a workflow whose first stage is for issues in this state.
fn planning(state: &str, on_timeout: &str) -> Arc<Workflow> {
    let text = format!(
        "issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  stages:
    plan: {{ when: {{ state: {state} }}, agent: a, prompt: p, approve: {{ before: true, timeout: 1h, on_timeout: {on_timeout} }} }}
    code: {{ when: {{ state: review }}, agent: a, prompt: p }}
"
    );
    Arc::new(load(&text).workflow.unwrap())
}

fn issue(id: usize, state: &str, text: u32) -> Issue {
    let json = format!(
        r#"{{"id":"{id}","state":"{state}","title":"t","description":"{text}","updated_at":"{text}"}}"#
    );
    Issue::parse(&json).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Pull,
    Edit(usize),
    Move(usize, bool),
    Answer(usize, Answer, Named),
    End(usize, Outcome),
    Wait(u64),
    /// The daemon is down for this many seconds.
    Restart(u64),
}

/// Which request a person means.
#[derive(Clone, Copy, Debug)]
enum Named {
    Whichever,
    Seen,
    Stale,
}

fn step() -> impl Strategy<Value = Step> {
    let issue = 0..3usize;
    let answer = prop_oneof![
        4 => Just(Answer::Approve { message: None }),
        1 => Just(Answer::Approve { message: Some("so".to_owned()) }),
        1 => Just(Answer::Deny { message: None }),
        1 => Just(Answer::Instruct { message: "not so".to_owned() }),
    ];
    let named = prop_oneof![Just(Named::Whichever), Just(Named::Seen), Just(Named::Stale)];
    let outcome = prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Failed),
        Just(Outcome::Lost)
    ];
    prop_oneof![
        5 => Just(Step::Pull),
        2 => issue.clone().prop_map(Step::Edit),
        1 => (issue.clone(), any::<bool>()).prop_map(|(of, back)| Step::Move(of, back)),
        5 => (issue.clone(), answer, named).prop_map(|(of, answer, named)| Step::Answer(of, answer, named)),
        4 => (issue, outcome).prop_map(|(of, outcome)| Step::End(of, outcome)),
        2 => (0..3000u64).prop_map(Step::Wait),
        1 => (0..3000u64).prop_map(Step::Restart),
    ]
}

struct World {
    workflow: Arc<Workflow>,
    scheduler: Scheduler,
    stored: HashMap<IssueId, vik_core::machine::IssueMachine>,
    now: Now,
    tracker: Vec<(u32, &'static str)>,
    running: Vec<Start>,
    /// The text that a person, or the time limit, has approved.
    approved: HashMap<(IssueId, StageName), String>,
    starts: usize,
    asks: u64,
}

impl World {
    fn new(on_timeout: &str) -> Self {
        let workflow = workflow(on_timeout);
        Self {
            scheduler: Scheduler::new(Arc::clone(&workflow), Filter::default(), [7; 6]),
            workflow,
            stored: HashMap::new(),
            now: Now {
                wall: Timestamp::UNIX_EPOCH,
                mono: Mono(Duration::ZERO),
            },
            tracker: vec![(0, "todo"); 3],
            running: Vec::new(),
            approved: HashMap::new(),
            starts: 0,
            asks: 0,
        }
    }

    fn send(&mut self, input: Input) -> Vec<Effect> {
        // What is overdue is answered by the next word of anybody.
        let limit = self.workflow.issue.stages[0].approve.as_ref().unwrap().on_timeout;
        let overdue: Vec<_> = self
            .scheduler
            .pending_approvals()
            .into_iter()
            .filter(|awaited| awaited.request.until <= self.now.wall)
            .map(|awaited| {
                (
                    awaited.issue.clone(),
                    awaited.run.stage.clone(),
                    awaited.request.id.clone(),
                )
            })
            .collect();
        if Answer::at_the_limit(limit) == (Answer::Approve { message: None }) {
            for (issue, stage, request) in overdue {
                self.approved.insert((issue, stage), request);
            }
        }
        let effects = self.scheduler.handle(self.now, input);
        for machine in self.scheduler.take_changes().machines {
            self.stored.insert(machine.issue().id.clone(), machine);
        }
        for effect in &effects {
            match effect {
                Effect::Start(start) => {
                    self.starts += 1;
                    if start.stage.approve.is_some() {
                        let key = (start.issue.id.clone(), start.stage.name.clone());
                        let text = start.issue.text_fingerprint().to_string();
                        let approved = self.approved.get(&key);
                        assert!(
                            approved.is_some_and(|request| request.ends_with(&text)),
                            "it started with {text}, and {approved:?} was approved"
                        );
                    }
                    self.running.push((**start).clone());
                }
                Effect::RunEvent(
                    issue,
                    RunEvent::Ended { stage, .. }
                    | RunEvent::Closed { stage, .. }
                    | RunEvent::Freed { stage, .. },
                ) => {
                    self.approved.remove(&(issue.clone(), stage.clone()));
                }
                _ => {}
            }
        }
        effects
    }

    fn answer(&mut self, issue: usize, answer: Answer, named: Named) {
        let id: IssueId = issue.to_string().as_str().into();
        let waits = self
            .scheduler
            .pending_approvals()
            .into_iter()
            .find(|awaited| *awaited.issue == id);
        let waits = waits.map(|awaited| (awaited.run.stage.clone(), awaited.request.clone()));
        let request = match (named, &waits) {
            (Named::Seen, Some((_, request))) => Some(request.id.clone()),
            (Named::Stale, _) => Some("another".to_owned()),
            _ => None,
        };
        // Its time may be over: then the time limit has answered already.
        let in_time = waits
            .as_ref()
            .is_some_and(|(_, request)| request.until > self.now.wall);
        if let (Some((stage, request)), Answer::Approve { .. }) = (&waits, &answer)
            && !matches!(named, Named::Stale)
        {
            self.approved
                .insert((id.clone(), stage.clone()), request.id.clone());
        }
        self.asks += 1;
        let reply = ApprovalReply {
            issue: id,
            stage: None,
            request,
            answer,
        };
        let number = self.asks;
        let effects = self.send(Input::Command(number, Command::Answer(reply), Actor::default()));
        let reported = effects.iter().find_map(|effect| match effect {
            Effect::CommandResult(of, reported) if *of == number => Some(reported.clone()),
            _ => None,
        });
        if in_time && !matches!(named, Named::Stale) {
            assert_eq!(reported, Some(scheduler::CommandResult::Done(1)));
        } else if matches!(named, Named::Stale) {
            assert_ne!(reported, Some(scheduler::CommandResult::Done(1)));
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now.mono = self.now.mono.plus(Duration::from_secs(seconds));
        self.now.wall += SignedDuration::from_secs(seconds.try_into().unwrap());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Pull => {
                self.send(Input::PullStarted);
                let issues = self.tracker.iter().enumerate();
                let issues = issues
                    .map(|(id, (text, state))| issue(id, state, *text))
                    .collect();
                self.send(Input::Pulled(issues));
            }
            Step::Edit(of) => self.tracker[of].0 += 1,
            Step::Move(of, back) => self.tracker[of].1 = if back { "todo" } else { "review" },
            Step::Answer(of, answer, named) => self.answer(of, answer, named),
            Step::End(of, outcome) => {
                let id: IssueId = of.to_string().as_str().into();
                let Some(at) = self.running.iter().position(|start| start.issue.id == id) else {
                    return;
                };
                let start = self.running.remove(at);
                self.send(Input::Ended {
                    issue: id,
                    attempt_id: start.attempt_id,
                    report: AttemptResult::new(outcome),
                });
            }
            Step::Wait(seconds) => {
                self.pass(seconds);
                self.send(Input::Tick);
            }
            Step::Restart(seconds) => {
                self.pass(seconds);
                let machines = serde_json::to_string(&self.stored.values().collect::<Vec<_>>()).unwrap();
                let stored = Stored {
                    machines: serde_json::from_str(&machines).unwrap(),
                    ..Stored::default()
                };
                let (scheduler, _) = Scheduler::restore(
                    Arc::clone(&self.workflow),
                    Filter::default(),
                    [8; 6],
                    stored,
                    self.now,
                );
                self.scheduler = scheduler;
            }
        }
        self.check();
    }

    fn check(&self) {
        for awaited in self.scheduler.pending_approvals() {
            let explained = self.scheduler.explain(awaited.issue, self.now).unwrap();
            let stage = explained
                .stages
                .iter()
                .find(|stage| stage.stage == awaited.run.stage)
                .unwrap();
            assert!(stage.hold.is_some(), "{stage:?}");
            assert!(stage.attempt_id.is_none());
            // Its time limit is never slept through, also where it passed while no daemon was
            // there.
            let limit = SignedDuration::try_from(self.scheduler.next_wakeup(self.now).unwrap()).unwrap();
            assert!(self.now.wall + limit <= awaited.request.until.max(self.now.wall));
        }
        if !self.scheduler.pending_approvals().is_empty() && self.running.is_empty() {
            assert_ne!(self.scheduler.quiescence(self.now), Quiescence::Running);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn start_needs_an_approval_of_the_present_text(
        steps in prop::collection::vec(step(), 1..80),
        limit in prop_oneof![Just("deny"), Just("approve")],
    ) {
        let mut world = World::new(limit);
        for step in steps {
            world.step(step);
        }
    }
}

#[test]
fn issue_edited_after_its_approval_waits_again() {
    let mut world = World::new("deny");
    world.step(Step::Pull);
    assert_eq!(world.scheduler.pending_approvals().len(), 3);
    assert!(matches!(world.scheduler.quiescence(world.now), Quiescence::At(_)));
    let before = world.scheduler.pending_approvals()[0].request.clone();
    // The person has not seen the present text.
    world.step(Step::Edit(0));
    world.step(Step::Pull);
    let after = world.scheduler.pending_approvals()[0].request.clone();
    assert_ne!(before.id, after.id);
    let approve = Answer::Approve {
        message: Some("gently".to_owned()),
    };
    world.step(Step::Answer(0, approve, Named::Seen));
    assert_eq!(world.starts, 1);
    assert_eq!(world.running[0].message.as_deref(), Some("gently"));
    // It failed, and its text was changed: the new text is not approved.
    world.step(Step::Edit(0));
    world.step(Step::End(0, Outcome::Failed));
    world.step(Step::Pull);
    world.step(Step::Wait(60));
    world.step(Step::Pull);
    assert_eq!((world.starts, world.scheduler.pending_approvals().len()), (1, 3));
    world.step(Step::Answer(
        0,
        Answer::Approve { message: None },
        Named::Whichever,
    ));
    assert_eq!(world.starts, 2);
    // It is tried again as it was approved.
    world.step(Step::End(0, Outcome::Failed));
    world.step(Step::Pull);
    world.step(Step::Wait(60));
    assert_eq!(world.starts, 3);
}

#[test]
fn passed_time_limit_answers_right_after_a_restart() {
    let mut world = World::new("approve");
    world.step(Step::Pull);
    assert_eq!(world.scheduler.pending_approvals().len(), 3);
    // Time has passed since the last input.
    world.pass(3601);
    assert!(matches!(world.scheduler.quiescence(world.now), Quiescence::At(then) if then <= world.now.mono));
    // No daemon was there.
    world.step(Step::Restart(0));
    assert_eq!(world.scheduler.next_wakeup(world.now), Some(Duration::ZERO));
    world.step(Step::Wait(0));
    assert_eq!(world.scheduler.pending_approvals().len(), 0);
    world.step(Step::Pull);
    assert_eq!(world.starts, 3);
}

#[test]
fn denied_start_stays_parked_after_its_stage_state_changes() {
    let mut world = World::new("deny");
    world.step(Step::Pull);
    world.workflow = planning("moved", "deny");
    world.send(Input::Reloaded(Arc::clone(&world.workflow)));
    world.step(Step::Answer(0, Answer::Deny { message: None }, Named::Whichever));
    // The move to that state is no change by a person to the denied issue.
    world.tracker[0].1 = "moved";
    world.step(Step::Pull);
    assert_eq!((world.starts, world.scheduler.pending_approvals().len()), (0, 0));
    let explained = world.scheduler.explain(&"0".into(), world.now).unwrap();
    let hold = explained.stages[0].hold.clone().unwrap();
    assert!(matches!(hold, Hold::Parked { .. }), "{hold:?}");
}

#[test]
fn denied_start_stays_parked_and_the_time_limit_denies() {
    let mut world = World::new("deny");
    world.step(Step::Pull);
    world.step(Step::Answer(0, Answer::Deny { message: None }, Named::Whichever));
    let explained = world.scheduler.explain(&"0".into(), world.now).unwrap();
    let hold = explained.stages[0].hold.clone().unwrap();
    assert!(
        matches!(
            hold,
            Hold::Parked {
                reason: ParkReason::Denied,
                ..
            }
        ),
        "{hold:?}"
    );
    assert_eq!(world.scheduler.pending_approvals().len(), 2);
    world.step(Step::Restart(0));
    world.step(Step::Pull);
    // Restarts do not restart the hour.
    world.step(Step::Wait(3500));
    world.step(Step::Restart(0));
    world.step(Step::Pull);
    world.step(Step::Wait(101));
    assert_eq!(world.scheduler.pending_approvals().len(), 0);
    assert_eq!(world.starts, 0);
}
