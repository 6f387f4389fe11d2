//! When finished work is handed over again, and what ends that.

use vik_core::attempt::HandOverFailure;
use vik_core::machine::RunEvent;

use super::*;

pub(super) fn failure(wait: u64, needs_person: bool) -> HandOverFailure {
    HandOverFailure {
        step: "after_run".to_owned(),
        reason: "the tracker is down".to_owned(),
        wait: Duration::from_secs(wait),
        needs_person,
    }
}

/// The result of an attempt whose work was not handed over.
pub(super) fn not_handed_over(failure: HandOverFailure) -> AttemptResult {
    AttemptResult {
        hand_over_failure: Some(Box::new(failure)),
        ..ran(Outcome::Succeeded)
    }
}

impl Scenario {
    /// Returns the attempt whose work the last input hands over.
    fn tried(&self) -> Option<AttemptId> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::HandOver(start) => Some(start.attempt_id),
            _ => None,
        })
    }

    /// Ends the try of the attempt that started last.
    fn try_ends(&mut self, result: Result<(), HandOverFailure>) -> &mut Self {
        let start = self.starts.last().unwrap().clone();
        self.send(Input::HandOverEnded {
            issue: start.issue.id,
            attempt_id: start.attempt_id,
            result,
        })
    }

    fn retry_with_agent(&mut self) -> &mut Self {
        self.command(Command::Retry(RetryRequest {
            issue: id(0),
            stage: None,
            attempts: None,
            agent: true,
        }))
    }

    /// Fails all tries that the workflow allows.
    fn fail_all_tries(&mut self) -> &mut Self {
        self.pull(&[todo(0)]);
        for _ in 0..20 {
            self.wait(600);
            if self.tried().is_some() {
                self.try_ends(Err(failure(0, false)));
            }
            self.pull(&[todo(0)]);
        }
        self
    }
}

/// A world whose only attempt has ended, and whose work was not handed over.
fn unfinished(stage: &str) -> Scenario {
    let mut world = scenario("", "", stage);
    world.pull(&[todo(0)]).end(not_handed_over(failure(0, false)));
    world
}

#[test]
fn failed_hand_over_waits_and_starts_no_agent() {
    let mut world = unfinished("");
    world.wait(600);
    assert_eq!(world.tried(), None, "the issue must be seen again first");
    world.pull(&[todo(0)]);
    assert!(world.tried().is_some(), "its back-off is over");
    assert!(matches!(
        world.hold_of(0, "work"),
        Some(Hold::HandOver {
            until: None,
            tries: 2,
            ..
        })
    ));
    world.try_ends(Err(failure(0, false))).pull(&[todo(0)]).wait(20);
    assert_eq!(world.tried(), None, "the second wait is longer");
    world.wait(15);
    assert!(world.tried().is_some());
    world.try_ends(Ok(())).pull(&[done(0)]);
    assert_eq!((world.starts.len(), world.parked()), (1, None));
    let ended = world.effects.iter().any(|effect| {
        matches!(
            effect,
            Effect::RunEvent(
                _,
                RunEvent::Ended {
                    succeeded: true,
                    not_handed_over: None,
                    ..
                }
            )
        )
    });
    assert!(ended);
}

#[test]
fn tries_and_time_are_limited() {
    for (stage, tries) in [
        ("hand_over: { max_tries: 3 }", 2),
        (
            "hand_over: { max_time: 1m, initial_backoff: 50s, max_backoff: 50s }",
            1,
        ),
        ("hand_over: { max_tries: 1 }", 0),
    ] {
        let mut world = unfinished(stage);
        let mut tried = 0;
        for _ in 0..20 {
            world.pull(&[todo(0)]).wait(60);
            if world.tried().is_some() {
                tried += 1;
                world.try_ends(Err(failure(0, false)));
            }
        }
        assert_eq!(
            (tried, world.parked()),
            (tries, Some(ParkReason::HandOver)),
            "{stage}"
        );
        assert_eq!(world.starts.len(), 1);
    }
}

#[test]
fn requested_wait_is_kept_and_failures_for_a_person_park() {
    let mut world = scenario("", "", "");
    world.pull(&[todo(0)]).end(not_handed_over(failure(900, false)));
    world.pull(&[todo(0)]).wait(890);
    assert_eq!(world.tried(), None);
    world.wait(20);
    assert!(world.tried().is_some());
    world.try_ends(Err(failure(0, true))).pull(&[todo(0)]);
    assert_eq!(world.parked(), Some(ParkReason::HandOver));
}

#[test]
fn parked_hand_over_is_freed_by_a_person_alone() {
    let mut world = unfinished("");
    world.fail_all_tries();
    assert_eq!(world.parked(), Some(ParkReason::HandOver));
    world.pull(&[titled(todo(0), 5)]).wait(600);
    assert_eq!(
        (world.starts.len(), world.tried()),
        (1, None),
        "an edit starts nothing"
    );
    world.retry(None, None);
    assert!(world.tried().is_some(), "only the hand-over");
    world.try_ends(Err(failure(0, true))).pull(&[todo(0)]);
    world.retry_with_agent().pull(&[todo(0)]).wait(60);
    assert_eq!(world.starts.len(), 2, "the work is done again");
}

#[test]
fn retry_with_an_agent_allows_an_attempt_although_none_is_left() {
    let mut world = unfinished("retry: { max_attempts: 1 }");
    world.pull(&[todo(0)]).retry_with_agent();
    assert_eq!((world.starts.len(), world.parked()), (2, None));
}

#[test]
fn hand_over_ends_when_the_issue_is_moved_or_closed() {
    for elsewhere in [later(0), done(0)] {
        let mut world = unfinished("");
        world.fail_all_tries();
        world.pull(std::slice::from_ref(&elsewhere));
        assert_eq!(world.parked(), None, "{}", elsewhere.state);
        let mut world = unfinished("");
        world.pull(&[todo(0)]).pull(&[elsewhere]).wait(60);
        assert_eq!(world.tried(), None);
    }
    let mut world = unfinished("");
    world.pull(&[todo(0)]).pull(&[later(0)]).pull(&[todo(0)]);
    assert_eq!(world.starts.len(), 2, "another stay is another run");
}

#[test]
fn list_that_is_short_by_mistake_loses_no_hand_over() {
    let mut world = unfinished("");
    world.pull(&[]).wait(600);
    assert_eq!(world.tried(), None, "nobody knows its state");
    world.pull(&[todo(0)]);
    assert!(world.tried().is_some());
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn interrupted_try_is_repeated_and_counts() {
    let mut world = unfinished("hand_over: { max_tries: 3 }");
    world.pull(&[todo(0)]).wait(60);
    assert!(world.tried().is_some());
    world.crash().pull(&[todo(0)]);
    assert!(world.tried().is_some(), "the third try");
    world.crash().pull(&[todo(0)]);
    assert_eq!(
        (world.tried(), world.parked()),
        (None, Some(ParkReason::HandOver))
    );
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn paused_issue_is_not_handed_over() {
    let mut world = unfinished("");
    world
        .command(Command::Pause(Some(id(0))))
        .pull(&[todo(0)])
        .wait(600);
    assert_eq!(
        (world.tried(), world.hold_of(0, "work")),
        (None, Some(Hold::Paused { all: false }))
    );
    world.command(Command::Resume(Some(id(0))));
    assert!(world.tried().is_some());
}

#[test]
fn cancelled_try_ends_and_is_parked() {
    let mut world = unfinished("");
    world.pull(&[todo(0)]).wait(60).command(Command::Cancel(id(0)));
    assert!(!world.stops().is_empty());
    world.try_ends(Err(failure(0, false)));
    assert_eq!(world.parked(), Some(ParkReason::Cancelled));
    world.retry(None, None).pull(&[todo(0)]).wait(60);
    assert!(world.tried().is_some(), "only the hand-over");
}

#[test]
fn workspace_is_kept_while_work_is_handed_over() {
    let mut world = unfinished("");
    world.pull(&[todo(0)]).wait(60);
    assert!(world.tried().is_some());
    assert!(!world.pull(&[done(0)]).removes());
    assert!(
        !world.try_ends(Ok(())).removes(),
        "the issue must be seen again first"
    );
    assert!(world.pull(&[done(0)]).removes());
}
