//! Approval requests of attempts across a restart of the daemon.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use common::{at, id, pull, restored, scheduler, started};
use vik_core::approval::{Answer, Gate, Request};
use vik_core::machine::IssueMachine;
use vik_core::scheduler::{Actor, ApprovalReply, Command, CommandResult, Effect, Input, Scheduler};
use vik_core::time::Now;

const STAGE: &str = "approve: { after: true, timeout: 1h }";

/// Returns the machine of an issue whose attempt waits for an approval since the second 0.
fn waiting(gate: Gate) -> IssueMachine {
    let mut scheduler = scheduler(STAGE);
    let start = started(pull(&mut scheduler, "todo")).unwrap();
    let policy = start.stage.approve.clone().unwrap();
    let request = Request::new("r".to_owned(), gate, &policy, at(0).wall);
    scheduler.handle(
        at(0),
        Input::ApprovalPending {
            issue: id(),
            attempt_id: start.attempt_id,
            request: Some(Box::new(request)),
        },
    );
    scheduler.machine(&id()).unwrap().clone()
}

/// Approves whatever waits. Returns the result, and whether the answer is delivered to the attempt.
fn approve(scheduler: &mut Scheduler, now: Now) -> (CommandResult, bool) {
    let reply = ApprovalReply {
        issue: id(),
        stage: None,
        request: None,
        answer: Answer::Approve { message: None },
    };
    let effects = scheduler.handle(now, Input::Command(0, Command::Answer(reply), Actor::default()));
    let is_delivered = effects
        .iter()
        .any(|effect| matches!(effect, Effect::DeliverAnswer { .. }));
    let result = effects.into_iter().find_map(|effect| match effect {
        Effect::CommandResult(_, result) => Some(result),
        _ => None,
    });
    (result.unwrap(), is_delivered)
}

#[test]
fn restored_result_is_approved_once_and_the_answer_is_delivered_by_each_daemon() {
    let (mut scheduler, _) = restored(STAGE, &waiting(Gate::After), at(60));
    assert_eq!(scheduler.pending_approvals().len(), 1);
    assert_eq!(approve(&mut scheduler, at(60)), (CommandResult::Done(1), true));
    let none = CommandResult::NoEffect("the issue has no pending approval");
    assert_eq!(approve(&mut scheduler, at(60)), (none, false));
    let machine = scheduler.machine(&id()).unwrap();
    let (mut scheduler, _) = restored(STAGE, machine, at(120));
    let effects = scheduler.handle(at(120), Input::Tick);
    let delivered = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::DeliverAnswer { .. }));
    assert_eq!(delivered.count(), 1);
}

#[test]
fn expired_result_and_call_of_an_agent_are_not_approved_before_the_attempt_reports_them() {
    for (gate, seconds) in [(Gate::After, 3600), (Gate::Call, 60)] {
        let (mut scheduler, _) = restored(STAGE, &waiting(gate), at(seconds));
        let (result, is_delivered) = approve(&mut scheduler, at(seconds));
        assert!(
            matches!(result, CommandResult::NoEffect(_)) && !is_delivered,
            "{gate}"
        );
    }
}
