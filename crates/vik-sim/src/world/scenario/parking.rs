//! What parks a stage, and what frees it.

use super::*;

/// Tries one issue that keeps its state until nothing starts any more.
fn exhaust(stage: &str, report: &AttemptResult) -> Scenario {
    let mut world = scenario("", "", stage);
    for _ in 0..20 {
        world.pull(&[todo(0)]);
        if !world.running().is_empty() {
            world.end(report.clone()).pull(&[todo(0)]);
            assert!(world.running().is_empty(), "it backs off");
        }
        world.wait(600);
    }
    world.pull(&[todo(0)]).wait(100_000);
    assert!(world.running().is_empty());
    world
}

fn is_parked_after(stage: &str, report: &AttemptResult, starts: usize, reason: ParkReason) {
    let world = exhaust(stage, report);
    assert_eq!((world.starts.len(), world.parked()), (starts, Some(reason)));
}

#[test]
fn success_without_progress_is_parked() {
    is_parked_after("", &ran(Outcome::Succeeded), 3, ParkReason::NoProgress);
}

#[test]
fn failure_without_end_is_parked() {
    is_parked_after("", &ran(Outcome::Failed), 3, ParkReason::AttemptsUsedUp);
}

#[test]
fn unproven_end_parks_the_issue() {
    is_parked_after("", &failed(FailureClass::UnprovenEnd), 1, ParkReason::UnprovenEnd);
}

#[test]
fn lost_attempts_back_off_until_too_many_park_the_issue() {
    is_parked_after(
        "retry: { max_attempts: 1 }",
        &AttemptResult::new(Outcome::Lost),
        5,
        ParkReason::Lost,
    );
}

#[test]
fn exhausted_issue_is_freed_only_by_its_change() {
    let mut world = exhaust("", &ran(Outcome::Failed));
    world.pull(&[later(0)]).pull(&[todo(0)]);
    assert!(world.running().is_empty(), "the state goes away and comes back");
    world.pull(&[titled(todo(0), 1)]);
    assert_eq!(world.running().len(), 1);
    assert_eq!(world.running()[0].attempt, 1, "a new run");
}

#[test]
fn parked_stage_is_not_freed_by_an_edit_of_its_own_attempt() {
    let mut world = scenario("", "", "");
    world.pull(&[todo(0)]).end(failed(FailureClass::Auth));
    assert_eq!(world.parked(), Some(ParkReason::Auth), "at once");
    world.crash();
    // The agent edited the issue before the end.
    let edited = [titled(todo(0), 1)];
    world.pull(&edited).pull(&[titled(later(0), 1)]).pull(&edited);
    assert_eq!(world.starts.len(), 1);
    world.pull(&[titled(todo(0), 2)]);
    assert_eq!(world.starts.len(), 2, "a person edits it");
}

#[test]
fn retry_of_a_stage_leaves_the_other_parked_stages() {
    let mut world = two_stages("");
    let refused = || failed(FailureClass::Auth);
    world.attempted(refused()).end(refused());
    let parked = |world: &Scenario| (world.is_parked("plan"), world.is_parked("code"));
    assert_eq!(parked(&world), (true, true));
    assert_eq!(parked(world.retry(Some("other"), None)), (true, true));
    assert_eq!(parked(world.retry(Some("code"), None)), (true, false));
    assert_eq!(parked(world.retry(None, None)), (false, false));
}

#[test]
fn parked_stage_delays_the_next_stage_until_a_pull() {
    let mut world = two_stages("");
    world.pull(&[todo(0)]).end(failed(FailureClass::Auth));
    assert_eq!((world.starts.len(), world.parked()), (1, Some(ParkReason::Auth)));
    assert_eq!(world.hold_of(0, "code"), Some(Hold::Settling));
    assert_eq!(world.quiescence(), Quiescence::NeedsPull);
    world.pull_starts();
    assert_eq!(world.starts.len(), 1);
    world.pull(&[todo(0)]);
    assert_eq!(world.starts[1].stage.name.as_str(), "code");
}

#[test]
fn unparked_stage_waits_until_the_issue_is_seen_again() {
    let mut world = scenario("", "", "");
    world
        .pull(&[todo(0)])
        .end(failed(FailureClass::Auth))
        .retry(None, None);
    assert_eq!((world.starts.len(), world.parked()), (1, None));
    world.pull(&[todo(0)]).wait(60);
    assert_eq!(world.starts.len(), 2);
}

fn not_ready(how: BeforeRunFailure) -> AttemptResult {
    AttemptResult {
        before_run: Some(how),
        failure_class: Some(FailureClass::Hook),
        ..AttemptResult::new(Outcome::Failed)
    }
}

#[test]
fn failing_before_run_is_tried_again_until_the_attempts_are_used_up() {
    let world = exhaust("", &not_ready(BeforeRunFailure::Failed));
    assert_eq!((world.starts.len(), world.parked()), (3, Some(ParkReason::Hook)));
    let life = world.scheduler().machine(&id(0)).unwrap().life();
    assert_eq!((life.attempts, life.spend), (3, tokens(0)), "nothing is charged");
    // A hook that recovers costs only the attempts that it failed.
    let mut world = scenario("", "", "");
    world.pull(&[todo(0)]).end(not_ready(BeforeRunFailure::Failed));
    assert_eq!(
        (world.parked(), world.quiescence()),
        (None, Quiescence::NeedsPull)
    );
    world.pull(&[todo(0)]).wait(600);
    assert_eq!(world.running()[0].attempt, 2);
    world.end(ran(Outcome::Succeeded)).pull(&[done(0)]);
    assert_eq!(world.parked(), None);
}

#[test]
fn failed_before_run_keeps_the_conversation_that_was_to_be_resumed() {
    let mut world = scenario("", "", "retry: { max_attempts: 9 }");
    let cut = AttemptResult {
        provider_session_id: Some("x".to_owned()),
        ..ran(Outcome::TimedOut)
    };
    let wait = Duration::from_secs(1);
    world.attempted(cut).wait(600);
    for how in [BeforeRunFailure::Failed, BeforeRunFailure::TryLater { wait }] {
        world.end(not_ready(how)).pull(&[todo(0)]).wait(600);
        let resume = world.running()[0].resume.clone();
        assert_eq!(resume.unwrap().provider_session_id, "x", "{how:?}");
    }
}

#[test]
fn prompt_that_cannot_be_rendered_is_parked_at_once() {
    is_parked_after("", &failed(FailureClass::Hook), 1, ParkReason::Hook);
}

#[test]
fn before_run_that_asks_for_a_wait_uses_no_attempt_and_waits_longer_each_time() {
    let limits = "limits: { attempts: 2 }";
    let mut world = scenario("", limits, "retry: { max_attempts: 2, max_backoff: 5m }");
    let later = |seconds| {
        not_ready(BeforeRunFailure::TryLater {
            wait: Duration::from_secs(seconds),
        })
    };
    world.pull(&[todo(0)]);
    let mut waits = Vec::new();
    for number in 0..20 {
        assert_eq!(world.running()[0].attempt, 1);
        world.end(later(0)).pull(&[todo(0)]);
        if number == 10 {
            world.crash().pull(&[todo(0)]);
        }
        let now = world.now().wall;
        let Some(Hold::BackingOff {
            until,
            is_requested: true,
            ..
        }) = world.hold(0)
        else {
            panic!("{:?}", world.hold(0))
        };
        waits.push(until.duration_since(now).as_secs());
        world.wait(300);
    }
    assert!(
        waits[0] <= 10 && waits[1] > waits[0] && waits[2] > waits[1],
        "{waits:?}"
    );
    assert!(
        waits[10..].iter().all(|wait| (225..=300).contains(wait)),
        "{waits:?}"
    );
    // The hook names a longer time.
    world.end(later(3_600)).pull(&[todo(0)]).wait(3_590);
    assert!(world.running().is_empty());
    world.wait(10);
    let machine = world.scheduler().machine(&id(0)).unwrap();
    assert_eq!((machine.life().attempts, machine.runs()[0].attempts), (0, 0));
    // An attempt that counts starts a new series.
    world.end(ran(Outcome::Failed)).pull(&[todo(0)]).wait(300);
    world.end(later(0)).pull(&[todo(0)]).wait(10);
    assert_eq!(world.running()[0].attempt, 2);
}

#[test]
fn internal_failures_use_no_attempt_and_three_in_a_row_park_the_stage() {
    let mut world = scenario("", "", "retry: { max_attempts: 3 }");
    let internal = || failed(FailureClass::Internal);
    world.pull(&[todo(0)]);
    for _ in 0..2 {
        world.end(internal()).pull(&[todo(0)]).wait(3_600);
        assert_eq!(world.starts.last().unwrap().attempt, 1);
    }
    // Another end resets the count, and a lost attempt does not.
    world.end(ran(Outcome::Failed)).pull(&[todo(0)]).wait(3_600);
    for _ in 0..2 {
        assert_eq!(world.starts.last().unwrap().attempt, 2);
        world.end(internal()).pull(&[todo(0)]).wait(3_600);
    }
    world.end(ran(Outcome::Lost)).pull(&[todo(0)]).wait(3_600);
    assert_eq!(world.parked(), None);
    world.crash().end(internal()).pull(&[todo(0)]).wait(3_600);
    assert_eq!(world.parked(), Some(ParkReason::Internal));
    let machine = world.scheduler().machine(&id(0)).unwrap();
    assert_eq!((machine.life().attempts, machine.runs()[0].attempts), (1, 1));
    // What frees the stage starts a new count.
    world.retry(None, None).pull(&[todo(0)]);
    world.end(internal()).pull(&[todo(0)]);
    assert_eq!(world.parked(), None);
}

/// Each attempt moves the issue, so that each failure is in another run.
#[test]
fn internal_failures_in_different_runs_park_the_stage() {
    let mut world = scenario("", "", "");
    for _ in 0..3 {
        world.pull(&[todo(0)]).end(failed(FailureClass::Internal));
        world.pull(&[later(0)]).wait(3_600);
    }
    world.pull(&[todo(0)]);
    assert_eq!(world.starts.len(), 3);
    assert_eq!(world.parked(), Some(ParkReason::Internal));
}
