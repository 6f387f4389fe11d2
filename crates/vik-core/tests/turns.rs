//! Turns of one conversation: when another one follows, what bounds them, and what they use up.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use common::{at, end, id, now, pull, pulled, ran, scheduler, started};
use proptest::prelude::*;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{Actor, Command, Effect, Input, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::turn::EndedTurn;

struct World(Scheduler);

impl World {
    /// Creates a world whose stage has these settings.
    fn new(settings: &str) -> Self {
        let retry = "retry: { max_attempts: 2, initial_backoff: 0s }";
        Self(scheduler(&format!("{retry}{settings}")))
    }

    fn pull(&mut self, state: &str) -> Option<Start> {
        started(pull(&mut self.0, state))
    }

    fn end(&mut self, start: &Start, outcome: Outcome, failure_class: Option<FailureClass>) {
        let report = AttemptResult {
            failure_class,
            ..ran(outcome)
        };
        end(&mut self.0, start, report);
    }

    fn succeed(&mut self, start: &Start) {
        self.end(start, Outcome::Succeeded, None);
    }

    fn life_attempts(&self) -> u32 {
        self.0.machine(&id()).unwrap().life().attempts
    }
}

#[test]
fn conversation_has_at_most_the_allowed_turns_and_uses_up_one_attempt() {
    let mut world = World::new(", turns: { max: 3 }");
    for conversation in 1..=2 {
        for turn in 1..=3 {
            let start = world.pull("todo").unwrap();
            assert_eq!((start.turn, start.resume.is_some()), (turn, turn > 1));
            assert_eq!(start.continues_turns(), turn > 1);
            if turn == 2 {
                world.end(&start, Outcome::Failed, Some(FailureClass::Verify));
            } else {
                world.succeed(&start);
            }
            assert_eq!(world.life_attempts(), conversation);
        }
    }
    assert!(world.pull("todo").is_none(), "parked");
}

#[test]
fn no_turn_follows_once_the_issue_has_left_the_state() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    world.succeed(&start);
    assert!(world.pull("done").is_none());
}

#[test]
fn interrupted_turn_keeps_its_number_and_other_failures_start_a_new_conversation() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    world.succeed(&start);
    let start = world.pull("todo").unwrap();
    world.end(&start, Outcome::Lost, None);
    let start = world.pull("todo").unwrap();
    assert_eq!((start.turn, start.resume.is_some()), (2, true));
    assert!(!start.continues_turns(), "its prompt says that it was cut off");
    world.end(&start, Outcome::Failed, Some(FailureClass::Agent));
    assert_eq!(world.life_attempts(), 2, "a turn that fails uses up an attempt");
}

#[test]
fn stage_without_turns_starts_a_new_conversation() {
    for settings in ["", ", resume: false, turns: { max: 3 }"] {
        let mut world = World::new(settings);
        for attempt in 1..=2 {
            let start = world.pull("todo").unwrap();
            assert!(start.turn <= 1 && start.resume.is_none());
            world.succeed(&start);
            assert_eq!(world.life_attempts(), attempt);
        }
        assert!(world.pull("todo").is_none(), "parked");
    }
}

/// Reports the end of a turn of a running attempt.
fn ended(start: &Start, turn: u32, is_verified: bool) -> Input {
    Input::TurnEnded {
        issue: id(),
        attempt_id: start.attempt_id,
        ended: EndedTurn { turn, is_verified },
    }
}

/// A decision about the end of a turn: the granted turn, or the refused one.
#[derive(Debug, PartialEq, Eq)]
enum Decided {
    Grant(u32),
    Refuse(u32),
}

fn decided(effects: Vec<Effect>) -> Vec<Decided> {
    let decisions = effects.into_iter().filter_map(|effect| match effect {
        Effect::GrantTurn { granted, .. } => Some(Decided::Grant(granted.turn)),
        Effect::RefuseTurn { turn, .. } => Some(Decided::Refuse(turn)),
        _ => None,
    });
    decisions.collect()
}

impl World {
    fn send(&mut self, input: Input) -> Vec<Decided> {
        decided(self.0.handle(now(), input))
    }

    fn pull_while_running(&mut self, state: &str) -> Vec<Decided> {
        decided(pull(&mut self.0, state))
    }

    fn run(&self) -> &vik_core::machine::Run {
        let machine = self.0.machine(&id()).unwrap();
        machine.run(&"plan".into()).unwrap()
    }
}

#[test]
fn turns_in_one_process_are_granted_after_a_pull_and_use_up_one_attempt() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    for turn in 1..=2 {
        // A pull that was running when the turn ended shows nothing of it.
        world.0.handle(now(), Input::PullStarted);
        assert_eq!(world.send(ended(&start, turn, turn == 2)), []);
        assert_eq!(world.send(pulled("todo")), []);
        assert_eq!(world.pull_while_running("todo"), [Decided::Grant(turn + 1)]);
        assert_eq!((world.run().turns, world.life_attempts()), (turn, 1));
        assert!(world.0.take_changes().machines.iter().any(|machine| {
            machine.granted_turn(start.attempt_id).map(|granted| granted.turn) == Some(turn + 1)
        }));
    }
    assert_eq!(world.send(ended(&start, 3, true)), []);
    assert_eq!(
        world.pull_while_running("todo"),
        [Decided::Refuse(3)],
        "no turn is left"
    );
    world.succeed(&start);
    assert_eq!(
        (world.run().turns, world.run().attempts, world.life_attempts()),
        (3, 1, 1)
    );
    let next = world.pull("todo").unwrap();
    assert_eq!((next.turn, next.attempt), (1, 2));
}

#[test]
fn unchanged_pull_after_the_first_grant_is_read_because_it_sorts_the_issue() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    for turn in 1..=2 {
        world.send(ended(&start, turn, true));
        assert_eq!(world.pull_while_running("todo"), [Decided::Grant(turn + 1)]);
        assert_eq!(world.0.can_skip_unchanged_pull(), turn > 1);
    }
}

#[test]
fn repeated_end_of_a_turn_gets_the_same_grant_and_counts_nothing() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    world.send(ended(&start, 1, false));
    world.send(ended(&start, 1, false));
    assert_eq!(world.pull_while_running("todo"), [Decided::Grant(2)]);
    let before = world.run().clone();
    assert_eq!(world.send(ended(&start, 1, false)), [Decided::Grant(2)]);
    assert_eq!(world.pull_while_running("todo"), []);
    assert_eq!((world.run(), world.life_attempts()), (&before, 1));
    assert_eq!(
        world.send(ended(&start, 3, false)),
        [Decided::Refuse(3)],
        "it was not granted"
    );
}

#[test]
fn issue_that_left_the_state_ends_the_conversation() {
    for state in ["done", "other"] {
        let mut world = World::new(", turns: { max: 3 }");
        let start = world.pull("todo").unwrap();
        world.send(ended(&start, 1, true));
        assert_eq!(world.pull_while_running(state), [Decided::Refuse(1)], "{state}");
        assert_eq!(world.run().turns, 0);
    }
}

#[test]
fn held_issue_gets_no_turn_in_the_process_and_its_next_attempt_does() {
    let hold = |world: &mut World, start: &Start| {
        world.send(ended(start, 1, true));
        let pause = Command::Pause(Some(id()));
        world.send(Input::Command(1, pause, Actor::default()))
    };
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    assert_eq!(hold(&mut world, &start), [Decided::Refuse(1)]);
    world.succeed(&start);
    assert!(world.pull("todo").is_none());
    let resume = Command::Resume(Some(id()));
    world.0.handle(now(), Input::Command(2, resume, Actor::default()));
    let active = world.run().active().unwrap().clone();
    assert_eq!((active.turn, active.resume.is_some()), (2, true));
    // A drain as well, before and after the report.
    world.0.handle(now(), Input::Drain);
    assert_eq!(world.send(ended(&active, 2, true)), [Decided::Refuse(2)]);
}

#[test]
fn turn_is_refused_if_no_pull_succeeds_in_time() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    world.send(ended(&start, 1, true));
    let wait = world.0.next_wakeup(now()).unwrap();
    let later = Now {
        mono: Mono(wait),
        ..now()
    };
    assert_eq!(decided(world.0.handle(later, Input::Tick)), [Decided::Refuse(1)]);
    assert!(wait.as_secs() <= 3600, "{wait:?}");
}

#[test]
fn grant_that_was_not_used_leaves_its_turn_to_the_next_attempt() {
    let mut world = World::new(", turns: { max: 5 }");
    let start = world.pull("todo").unwrap();
    world.send(ended(&start, 1, true));
    assert_eq!(world.pull_while_running("todo"), [Decided::Grant(2)]);
    let report = AttemptResult {
        turn: 1,
        ..ran(Outcome::Succeeded)
    };
    end(&mut world.0, &start, report);
    assert_eq!((world.run().turns, world.life_attempts()), (1, 1));
    assert_eq!(world.pull("todo").unwrap().turn, 2);
}

#[test]
fn failed_turn_in_a_process_uses_up_one_attempt_more() {
    let mut world = World::new(", turns: { max: 5 }");
    let start = world.pull("todo").unwrap();
    world.send(ended(&start, 1, true));
    world.pull_while_running("todo");
    world.end(&start, Outcome::Failed, Some(FailureClass::Agent));
    assert_eq!((world.run().attempts, world.life_attempts()), (1, 2));
    assert_eq!(world.pull("todo").unwrap().turn, 1, "a new conversation");
}

#[test]
fn stage_that_is_parked_after_its_turns_names_their_number() {
    let mut world = World::new(", turns: { max: 2 }");
    for _ in 0..2 {
        let start = world.pull("todo").unwrap();
        world.send(ended(&start, 1, true));
        assert_eq!(world.pull_while_running("todo"), [Decided::Grant(2)]);
        world.succeed(&start);
    }
    assert!(world.pull("todo").is_none());
    let vik_core::machine::Phase::Parked { detail, .. } = &world.run().phase else {
        panic!("{:?}", world.run().phase)
    };
    assert!(detail.contains("2 of 2 turns"), "{detail}");
}

#[test]
fn issue_that_a_turn_has_moved_does_not_cancel_the_attempt_that_exits() {
    for state in ["other", "done"] {
        let mut world = World::new(", turns: { max: 3 }, on_state_change: cancel");
        let start = world.pull("todo").unwrap();
        world.send(ended(&start, 1, true));
        let seen = |world: &mut World| pull(&mut world.0, state);
        let is_stop = |effect: &Effect| matches!(effect, Effect::Stop { .. });
        let effects = seen(&mut world);
        assert!(!effects.iter().any(is_stop), "{effects:?}");
        assert_eq!(decided(effects), [Decided::Refuse(1)]);
        assert!(!seen(&mut world).iter().any(is_stop));
        // An agent that does not exit is stopped.
        let later = Now {
            mono: at(3600).mono,
            ..now()
        };
        world.0.handle(later, Input::Tick);
        let effects = match state {
            "done" => world.0.handle(later, Input::Tick),
            _ => seen(&mut world),
        };
        let is_stopping = effects.iter().any(is_stop) || {
            let machine = world.0.machine(&id()).unwrap();
            machine
                .active(start.attempt_id)
                .is_some_and(|(_, _, stopping)| stopping.is_some())
        };
        assert!(is_stopping, "{state}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// The agent ends its turn, or a recovered attempt repeats that.
    EndTurn,
    /// An older turn is reported again.
    Repeat,
    Pull(bool),
    Pause(bool),
    /// The attempt ends with success.
    End,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => Just(Act::EndTurn),
        1 => Just(Act::Repeat),
        4 => prop::bool::weighted(0.9).prop_map(Act::Pull),
        1 => any::<bool>().prop_map(Act::Pause),
        1 => Just(Act::End),
    ];
    prop::collection::vec(act, 1..40)
}

proptest! {
    /// Whatever happens, each turn is granted once, in order, after a pull that shows the state of
    /// the stage, and not while the issue is paused.
    #[test]
    fn turns_are_granted_once_and_within_all_bounds(acts in acts()) {
        const MAX: u32 = 4;
        let mut world = World::new(", turns: { max: 4 }");
        let mut start = world.pull("todo").unwrap();
        let (mut turn, mut is_idle, mut is_paused, mut conversations) = (1, false, false, 1);
        for act in acts {
            let decisions = match act {
                Act::EndTurn => {
                    is_idle = true;
                    world.send(ended(&start, turn, true))
                }
                Act::Repeat if turn > start.turn => {
                    let again = world.send(ended(&start, turn - 1, true));
                    prop_assert_eq!(again, [Decided::Grant(turn)]);
                    continue;
                }
                Act::Repeat => continue,
                Act::Pull(in_state) => {
                    let decisions = world.pull_while_running(if in_state { "todo" } else { "other" });
                    prop_assert!(in_state || !decisions.iter().any(|one| matches!(one, Decided::Grant(_))));
                    decisions
                }
                Act::Pause(pauses) => {
                    is_paused = pauses;
                    let command = match pauses {
                        true => Command::Pause(Some(id())),
                        false => Command::Resume(Some(id())),
                    };
                    let decisions = world.send(Input::Command(1, command, Actor::default()));
                    prop_assert!(!decisions.iter().any(|one| matches!(one, Decided::Grant(_))));
                    decisions
                }
                Act::End => {
                    world.succeed(&start);
                    world.send(Input::Command(2, Command::Resume(Some(id())), Actor::default()));
                    is_paused = false;
                    let Some(next) = world.pull("todo") else { break };
                    conversations += u32::from(next.turn == 1);
                    (start, is_idle) = (next, false);
                    turn = start.turn;
                    continue;
                }
            };
            for decision in decisions {
                prop_assert!(is_idle, "{decision:?}");
                is_idle = false;
                if let Decided::Grant(granted) = decision {
                    prop_assert!(!is_paused && granted == turn + 1 && granted <= MAX);
                    turn = granted;
                }
            }
            prop_assert!(world.life_attempts() <= conversations);
        }
    }
}
