//! Stages that take issues in several states: all of them are one stay of an issue.

use super::*;

fn doing(issue: usize) -> Item {
    Item::new(issue, "review")
}

/// One stage for the states `todo` and `review`.
fn two_states(stage: &str) -> Scenario {
    Scenario::new(&format!(
        "issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: codex, model: m }} }}
issue:
  terminal_states: [done]
  stages:
    work: {{ when: {{ state: [todo, review] }}, agent: a, prompt: p, {stage} }}
"
    ))
}

#[test]
fn move_between_the_states_of_a_stage_stops_and_starts_nothing() {
    let mut world = two_states("on_state_change: cancel");
    world.pull(&[todo(0)]).pull(&[doing(0)]);
    assert_eq!(world.running().len(), 1);
    let run = world.starts[0].run;
    world.succeed(0).pull(&[doing(0)]).wait(600);
    assert_eq!(world.starts.len(), 2, "it kept its state");
    assert_eq!(
        (world.starts[1].run, world.starts[1].attempt),
        (run, 2),
        "the same run"
    );
    world.pull(&[later(0)]);
    assert!(!world.stops().is_empty());
}

#[test]
fn move_between_the_states_of_a_stage_frees_nothing() {
    let mut world = two_states("");
    world.attempted(failed(FailureClass::Auth));
    assert_eq!(world.parked(), Some(ParkReason::Auth));
    world.pull(&[doing(0)]).pull(&[todo(0)]).pull(&[doing(0)]);
    assert_eq!((world.starts.len(), world.parked()), (1, Some(ParkReason::Auth)));
    world.pull(&[titled(doing(0), 1)]);
    assert_eq!(world.starts.len(), 2, "a person edits it");
}
