//! The order of starts, and what many waiting issues cost.

use super::hand_over::{failure, not_handed_over};
use super::*;

#[test]
fn older_issues_of_a_priority_start_first() {
    let of = |issue, priority, created| {
        todo(issue).with(|item| (item.priority, item.created) = (priority, created))
    };
    let mut world = scenario("", "", "");
    world.pull(&[
        of(0, Some(1), None),
        of(1, Some(1), Some(9)),
        of(2, None, Some(1)),
        of(3, Some(1), Some(2)),
    ]);
    let order = world.starts.iter().map(|start| start.issue.id.as_str());
    assert_eq!(order.collect::<Vec<_>>(), ["3", "1", "0", "2"]);
}

/// A stage that has ended must not lose its slot to an issue on which nothing was done yet.
#[test]
fn issue_under_way_starts_before_new_ones_of_a_higher_priority() {
    let of = |issue, priority| todo(issue).with(|item| item.priority = Some(priority));
    let mut world = scenario("loop: { max_issue_concurrency: 1 }", "", "");
    world.pull(&[of(0, 3)]).succeed(0);
    world.pull(&[of(0, 3), of(1, 1), of(2, 2)]).wait(10_000);
    let order: Vec<_> = world.starts.iter().map(|start| start.issue.id.as_str()).collect();
    assert_eq!(order, ["0", "1"], "its back-off gives the slot away");
    world.succeed(1).pull(&[of(0, 3), of(1, 1), of(2, 2)]);
    let order: Vec<_> = world.starts.iter().map(|start| start.issue.id.as_str()).collect();
    assert_eq!(order, ["0", "1", "0"]);
}

/// A stage after the other, with few slots.
fn code_and_review(slots: usize) -> Scenario {
    Scenario::new(&format!(
        "loop: {{ max_issue_concurrency: {slots} }}
issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  stages:
    code: {{ when: {{ state: todo }}, agent: a, prompt: p }}
    review: {{ when: {{ state: review }}, agent: a, prompt: p }}
"
    ))
}

#[test]
fn new_issue_waits_until_a_pull_shows_the_next_state_of_a_finished_one() {
    let started = |world: &Scenario| -> Vec<String> {
        let starts = world.starts.iter();
        starts
            .map(|start| format!("{} {}", start.issue.id, start.stage.name))
            .collect()
    };
    let mut world = code_and_review(1);
    world.pull(&[todo(0), todo(1)]).succeed(0).wait(10_000);
    assert_eq!(started(&world), ["0 code"]);
    assert_eq!(world.hold(1), Some(Hold::Slot));
    world.pull(&[Item::new(0, "review"), todo(1)]);
    assert_eq!(started(&world), ["0 code", "0 review"]);
    world.succeed(0).pull(&[done(0), todo(1)]);
    assert_eq!(started(&world), ["0 code", "0 review", "1 code"]);
}

#[test]
fn failed_attempt_and_failed_hand_over_give_the_slot_away() {
    for report in [ran(Outcome::Failed), not_handed_over(failure(0, false))] {
        let mut world = code_and_review(1);
        world.pull(&[todo(0), todo(1)]);
        let start = world.running().remove(0);
        world.end_of(&start, report);
        assert_eq!(world.running_issues(), [1]);
    }
}

#[test]
fn thousands_that_wait_cost_neither_decisions_nor_changes() {
    let text = scenario("loop: { max_issue_concurrency: 1 }", "", "").text;
    let mut world = Scenario::with(&text, 10_000, []);
    let all: Vec<_> = (0..10_000).map(todo).collect();
    world.pull(&all);
    let decisions = world.decisions.len();
    for _ in 0..3 {
        world.pass(1);
        world.pull(&all);
        assert!(world.effects.is_empty());
    }
    assert_eq!(world.decisions.len(), decisions);
    let (some, waiting) = world.scheduler().waiting(world.now(), 5);
    assert_eq!((some.len(), waiting), (5, 9_999));
}

#[test]
fn work_that_moves_its_issue_comes_to_an_end() {
    for slots in 1..4 {
        let mut world = code_and_review(slots);
        let mut states = ["todo"; 5];
        for _ in 0..100 {
            let items: Vec<_> = states
                .iter()
                .enumerate()
                .map(|(issue, state)| Item::new(issue, state))
                .collect();
            world.pull(&items);
            if world.quiescence() == Quiescence::Idle {
                break;
            }
            for start in world.running() {
                let issue = crate::oracle::number(&start.issue.id);
                states[issue] = if states[issue] == "todo" { "review" } else { "done" };
                world.end_of(&start, ran(Outcome::Succeeded));
            }
        }
        assert_eq!(states, ["done"; 5]);
        assert_eq!(world.quiescence(), Quiescence::Idle);
        assert_eq!(world.scheduler().runs().count(), 0);
        assert_eq!(world.starts.len(), 10);
    }
}

#[test]
fn draining_scheduler_starts_nothing_more() {
    let mut world = scenario("loop: { max_issue_concurrency: 1 }", "", "");
    world.pull(&[todo(0), todo(1)]).send(Input::Drain);
    world.succeed(0).pull(&[todo(0), todo(1)]).wait(10_000);
    assert_eq!(world.starts.len(), 1);
    assert_eq!(world.hold(1), Some(Hold::Draining));
}

#[test]
fn no_more_sessions_start_than_files_may_be_opened_for() {
    let mut world = scenario("loop: { max_issue_concurrency: 3 }", "", "");
    let all: Vec<_> = (0..4).map(todo).collect();
    world.max_sessions(2).pull(&all);
    assert_eq!(world.running_issues(), [0, 1]);
    assert_eq!(world.hold(2), Some(Hold::OpenFiles { max_sessions: 2 }));
    let (waiting, count) = world.scheduler().waiting(world.now(), 1);
    assert_eq!((waiting[0].hold.as_str(), count), ("open_files", 2));
    world.succeed(0).pull(&[done(0), todo(1), todo(2), todo(3)]);
    assert_eq!(world.running_issues(), [1, 2]);
    // With more files, the workflow is what limits them.
    world.max_sessions(100);
    assert_eq!(world.running_issues(), [1, 2, 3]);
    world.pull(&[todo(1), todo(2), todo(3), todo(4)]);
    assert_eq!(world.hold(4), Some(Hold::Slot));
}

/// An issue whose stages run beside each other has one slot and several sessions.
#[test]
fn parallel_stage_is_one_more_session() {
    let mut world = Scenario::new(
        "issues: { pull: { command: list } }
agents: { a: { runtime: command, command: [agent] } }
issue:
  stages:
    plan: { when: { state: todo }, agent: a, prompt: p }
    code: { when: { state: todo }, agent: a, prompt: p, parallel: true }
",
    );
    world.max_sessions(1).pull(&[todo(0)]);
    assert_eq!(world.running().len(), 1);
    let held = world.hold_of(0, "code");
    assert_eq!(held, Some(Hold::OpenFiles { max_sessions: 1 }));
    world.max_sessions(2);
    assert_eq!(world.running().len(), 2);
}

#[test]
fn adopted_sessions_count_even_if_they_are_too_many() {
    let mut world = scenario("", "", "");
    world.pull(&[todo(0), todo(1), todo(2)]).crash().max_sessions(2);
    assert_eq!(world.running_issues(), [0, 1, 2]);
    let all: Vec<_> = (0..4).map(todo).collect();
    world.pull(&all).succeed(0).pull(&all);
    assert_eq!(world.running_issues(), [1, 2]);
    assert_eq!(world.hold(3), Some(Hold::OpenFiles { max_sessions: 2 }));
    world.succeed(1).pull(&all);
    assert_eq!(world.running_issues().len(), 2);
}
