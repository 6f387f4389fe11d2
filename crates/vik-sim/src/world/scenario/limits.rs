//! Limits of runs, issues, attempts and days.

use vik_core::limits::{LimitScope, LimitUnit};

use super::*;

#[test]
fn endless_success_costs_at_most_the_lifetime_limit() {
    let mut world = scenario("", "", "");
    for round in 0..200 {
        world.pull(&[todo(0)]);
        if !world.running().is_empty() {
            world.end(ran(Outcome::Succeeded));
        }
        // The tracker flaps and loses sight of it, and the daemon dies now and then.
        match round % 4 {
            0 => world.pull(&[later(0)]),
            1 => world.pull(&[]),
            2 => world.crash(),
            _ => world.wait(3_600),
        };
    }
    assert_eq!(world.starts.len(), 15, "the limit of its life");
    assert_eq!(world.parked(), Some(ParkReason::IssueLimit));

    // In a state that it keeps, `max_attempts` bounds it.
    let mut world = scenario("", "", "");
    for _ in 0..50 {
        world.pull(&[todo(0)]);
        if world.quiescence() == Quiescence::Running {
            world.end(ran(Outcome::Succeeded)).pull(&[todo(0)]);
        }
        world.crash().wait(3_600);
    }
    assert_eq!(world.starts.len(), 3);
    assert_eq!(world.parked(), Some(ParkReason::NoProgress));
}

#[test]
fn flapping_tracker_under_cancel_is_bounded() {
    let mut world = scenario("", "", "on_state_change: cancel");
    for _ in 0..60 {
        world.pull(&[todo(0)]).pull(&[later(0)]);
        if !world.stops().is_empty() {
            assert_eq!(world.stops(), [StopReason::StateChanged]);
            world.end(ran(Outcome::Cancelled)).pull(&[later(0)]);
        }
        world.wait(3_600);
    }
    assert_eq!(world.starts.len(), 15);
}

#[test]
fn lifetime_limit_is_freed_only_by_unpark_or_a_higher_limit() {
    let mut world = scenario("", "limits: { attempts: 1 }", "");
    world.attempted(ran(Outcome::Failed));
    let Some(Hold::Parked { reason, detail, .. }) = world.hold(0) else {
        panic!("{:?}", world.hold(0))
    };
    assert_eq!(reason, ParkReason::IssueLimit);
    assert_eq!(detail, "limit reached: 1 of 1 attempts for the life of the issue");
    world.pull(&[titled(todo(0), 1)]);
    assert_eq!(world.starts.len(), 1, "a change does not");
    world.retry(None, Some(1));
    assert!(matches!(world.effects[0], Effect::RunEvent(..)));
    assert_eq!(world.starts.len(), 2);
    world.end(ran(Outcome::Failed)).pull(&[todo(0)]);
    assert_eq!(world.parked(), Some(ParkReason::IssueLimit));
    world.edit("attempts: 1", "attempts: 3").crash();
    world.pull(&[todo(0)]);
    assert_eq!(world.starts.len(), 3, "the limit was raised");
}

#[test]
fn lower_max_attempts_holds_a_waiting_run() {
    let mut world = scenario("", "", "");
    world.attempted(ran(Outcome::Failed));
    world
        .edit("prompt: p,", "prompt: p, retry: { max_attempts: 1 },")
        .wait(600);
    let parked = Some(ParkReason::AttemptsUsedUp);
    assert_eq!((world.starts.len(), world.parked()), (1, parked));
}

#[test]
fn limit_warns_once_and_stops_once() {
    let mut world = scenario("", "limits: { tokens: 1000 }", "limits: { tokens: 100 }");
    world.pull(&[todo(0)]).spent(79);
    assert!(world.effects.is_empty());
    world.spent(80);
    let [Effect::Warn { limit, .. }] = world.effects[..] else {
        panic!("{:?}", world.effects)
    };
    assert_eq!(
        (limit.scope, limit.unit, limit.spent, limit.limit),
        (LimitScope::Attempt, LimitUnit::Tokens, 80, 100)
    );
    assert!(world.spent(90).effects.is_empty());
    assert_eq!(world.spent(101).stops().len(), 1);
    assert!(world.spent(150).stops().is_empty());
    assert_eq!(world.crash().stops().len(), 1, "the next daemon repeats it");
    let over = AttemptResult {
        spend: Some(tokens(160)),
        ..ran(Outcome::OverBudget)
    };
    world.end(over).pull(&[todo(0)]);
    assert_eq!(world.parked(), Some(ParkReason::OverBudget));
    let spend = Spend {
        tokens: 160,
        usd: MicroUsd(500_000),
    };
    assert_eq!(world.scheduler().life(&id(0)).spend, spend);
}

#[test]
fn exhausted_day_limit_holds_all_until_the_next_day() {
    let both = [todo(0), todo(1)];
    let mut world = scenario(
        "limits: { tokens_per_day: 100 }\nloop: { max_issue_concurrency: 1 }",
        "",
        "retry: { max_attempts: 1 }",
    );
    world.pull(&both);
    assert_eq!(world.starts[0].budget.tokens, Some(100));
    assert!(
        matches!(world.spent(100).stops()[..], [StopReason::OverBudget(hit)] if hit.scope == LimitScope::Day)
    );
    let over = AttemptResult {
        spend: Some(tokens(100)),
        ..ran(Outcome::OverBudget)
    };
    world.end(over).pull(&both);
    assert_eq!(world.parked(), None, "it resumes when the day ends");
    let Some(Hold::DayLimit { until, .. }) = world.hold(1) else {
        panic!("{:?}", world.hold(1))
    };
    assert!(matches!(world.quiescence(), Quiescence::At(_)));
    assert!(world.next_wakeup().unwrap() <= Duration::from_secs(24 * 3_600));
    world.crash().pull(&both);
    assert_eq!(world.starts.len(), 1, "the next daemon knows the day");
    // The clock jumps to the next day, and back.
    let ahead = until.duration_since(world.now().wall).as_secs() + 1;
    world.jump(ahead);
    world.wait(0);
    assert_eq!(world.starts.len(), 2);
    world.end(ran(Outcome::Succeeded));
    world.jump(-ahead);
    world.pull(&both).wait(3_600);
    assert_eq!(world.starts.len(), 2, "the older day is as it was");
}
