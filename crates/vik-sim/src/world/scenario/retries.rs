//! When and how the next attempt starts.

use jiff::SignedDuration;
use vik_core::ids::AttemptId;

use super::*;

#[test]
fn interrupted_attempt_is_resumed_by_the_same_agent() {
    let mut world = scenario("", "", "");
    let cut = |outcome, id: &str| AttemptResult {
        provider_session_id: Some(id.to_owned()),
        ..ran(outcome)
    };
    world.attempted(cut(Outcome::TimedOut, "x")).wait(600);
    let resume = world.starts[1].resume.clone().unwrap();
    assert_eq!(
        (resume.attempt_id, &*resume.provider_session_id),
        (world.starts[0].attempt_id, "x")
    );
    let failed = AttemptResult {
        resume_failed: true,
        ..cut(Outcome::Lost, "y")
    };
    world.crash().end(failed).pull(&[todo(0)]);
    assert_eq!(world.starts.len(), 3, "a lost attempt is repeated at once");
    assert_eq!(
        world.starts[2].resume, None,
        "that conversation cannot be resumed"
    );
}

#[test]
fn restarted_conversation_is_recorded() {
    let mut world = scenario("", "", "");
    let failed = AttemptResult {
        resume_failed: true,
        ..ran(Outcome::Failed)
    };
    world.attempted(failed);
    assert_eq!(world.decisions_of(&DecisionKind::ResumeFailed), 1);
}

#[test]
fn quota_wait_can_be_cancelled() {
    let mut world = scenario("", "", "");
    let quota = |world: &Scenario| AttemptResult {
        resets_at: Some(world.now().wall + SignedDuration::from_hours(2)),
        provider_session_id: Some("x".to_owned()),
        ..failed(FailureClass::RateLimit)
    };
    let exhausted = quota(&world);
    world.attempted(exhausted);
    assert!(matches!(world.hold(0), Some(Hold::Quota { .. })));
    world.wait(7_100).crash().pull(&[todo(0)]);
    assert_eq!(world.starts.len(), 1);
    world.wait(130);
    assert!(world.starts[1].resume.is_some());
    let exhausted = quota(&world);
    world.end(exhausted).pull(&[todo(0)]);
    world.command(Command::Cancel(id(0)));
    assert_eq!(world.result(), Some(&CommandResult::Done(1)));
    assert_eq!(world.parked(), Some(ParkReason::Cancelled));
    world.wait(10_000);
    assert_eq!(world.starts.len(), 2);
}

#[test]
fn backoff_continues_after_a_restart_whatever_the_clocks_show() {
    for jump in [-100_000, 0, 50, 100_000] {
        let mut world = scenario("", "", "retry: { initial_backoff: 100s, max_backoff: 100s }");
        world.attempted(ran(Outcome::Failed));
        world.jump(jump);
        world.crash().pull(&[todo(0)]);
        if jump > 100 {
            let (_, run) = world.scheduler().runs().next().unwrap();
            assert!(matches!(run.phase, Phase::Active { .. }), "it is over");
            continue;
        }
        assert_eq!(world.starts.len(), 1, "{jump}");
        assert_eq!(world.wait(100).starts.len(), 2, "never longer than it was");
    }
}

#[test]
fn backoff_is_explained_before_the_first_pull() {
    let mut world = scenario("", "", "");
    world.attempted(ran(Outcome::Failed));
    let waits = |hold| match hold {
        Some(Hold::BackingOff { until, after, .. }) => (until, after),
        other => panic!("{other:?}"),
    };
    let (until, after) = waits(world.hold(0));
    assert_eq!(after, Some(Outcome::Failed));
    world.crash();
    assert_eq!(waits(world.hold(0)), (until, after));
    world.wait(600);
    assert_eq!(world.hold(0), Some(Hold::NotPulled));
}

#[test]
fn end_of_an_unknown_attempt_changes_nothing() {
    let mut world = scenario("", "", "");
    world.pull(&[todo(0)]);
    for issue in [0, 1] {
        world.send(Input::Ended {
            issue: id(issue),
            attempt_id: AttemptId(Default::default()),
            report: ran(Outcome::Succeeded),
        });
        assert!(world.effects.is_empty() && world.running().len() == 1);
    }
}
