//! Approval requests of attempts across a restart of the daemon.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;

use vik_core::approval::{Answer, Gate, Request};
use vik_core::changes::Stored;
use vik_core::issue::Issue;
use vik_core::machine::IssueMachine;
use vik_core::scheduler::{Actor, ApprovalReply, Command, CommandResult, Effect, Filter, Input, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::workflow::Workflow;

const WORKFLOW: &str = "
issues: { pull: { command: ./list } }
agents: { coder: { runtime: codex, model: m } }
issue:
  terminal_states: [done]
  stages:
    plan: { when: { state: todo }, agent: coder, prompt: Do it., approve: { after: true, timeout: 1h } }
";

fn workflow() -> Arc<Workflow> {
    let loaded = vik_workflow_reader::load(WORKFLOW);
    Arc::new(
        loaded
            .workflow
            .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)),
    )
}

fn at(seconds: i64) -> Now {
    Now {
        wall: jiff::Timestamp::from_second(seconds).unwrap(),
        mono: Mono(std::time::Duration::from_secs(seconds.unsigned_abs())),
    }
}

/// Returns the machine of an issue whose attempt waits for an approval since the second 0.
fn waiting(gate: Gate) -> IssueMachine {
    let mut scheduler = Scheduler::new(workflow(), Filter::default(), [0; 6]);
    let issue = Issue::parse(r#"{"id": "7", "title": "t", "state": "todo"}"#).unwrap();
    scheduler.handle(at(0), Input::PullStarted);
    let effects = scheduler.handle(at(0), Input::pulled_new(vec![issue]));
    let start = effects.into_iter().find_map(|effect| match effect {
        Effect::Start(start) => Some(*start),
        _ => None,
    });
    let start = start.unwrap();
    let policy = start.stage.approve.clone().unwrap();
    let request = Request::new("r".to_owned(), gate, &policy, at(0).wall);
    scheduler.handle(
        at(0),
        Input::ApprovalPending {
            issue: "7".into(),
            attempt_id: start.attempt_id,
            request: Some(Box::new(request)),
        },
    );
    let machine = scheduler.machine(&"7".into()).unwrap();
    serde_json::from_str(&serde_json::to_string(machine).unwrap()).unwrap()
}

fn restored(machine: IssueMachine, now: Now) -> Scheduler {
    let stored = Stored {
        machines: vec![machine],
        ..Default::default()
    };
    Scheduler::restore(workflow(), Filter::default(), [1; 6], stored, now).0
}

/// Approves whatever waits. Returns the result, and whether the answer is delivered to the attempt.
fn approve(scheduler: &mut Scheduler, now: Now) -> (CommandResult, bool) {
    let reply = ApprovalReply {
        issue: "7".into(),
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
    let mut scheduler = restored(waiting(Gate::After), at(60));
    assert_eq!(scheduler.pending_approvals().len(), 1);
    assert_eq!(approve(&mut scheduler, at(60)), (CommandResult::Done(1), true));
    let none = CommandResult::NoEffect("the issue has no pending approval");
    assert_eq!(approve(&mut scheduler, at(60)), (none, false));
    let machine = scheduler.machine(&"7".into()).unwrap().clone();
    let effects = restored(machine, at(120)).handle(at(120), Input::Tick);
    let delivered = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::DeliverAnswer { .. }));
    assert_eq!(delivered.count(), 1);
}

#[test]
fn expired_result_and_call_of_an_agent_are_not_approved_before_the_attempt_reports_them() {
    for (gate, seconds) in [(Gate::After, 3600), (Gate::Call, 60)] {
        let mut scheduler = restored(waiting(gate), at(seconds));
        let (result, is_delivered) = approve(&mut scheduler, at(seconds));
        assert!(
            matches!(result, CommandResult::NoEffect(_)) && !is_delivered,
            "{gate}"
        );
    }
}
