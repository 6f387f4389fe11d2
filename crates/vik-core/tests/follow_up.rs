//! An issue that comes back to a stage with `resume: issue` resumes its conversation.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use common::{end, id, now, pull, ran, scheduler, started};
use vik_core::attempt::{AttemptResult, Start};
use vik_core::ids::AttemptId;
use vik_core::outcome::{FailureClass, Outcome, Usage};
use vik_core::scheduler::{Input, Scheduler};

/// Starts an attempt of the stage, whose issue has come to it.
fn comes(scheduler: &mut Scheduler) -> Start {
    started(pull(scheduler, "todo")).unwrap()
}

/// Ends the attempt, and lets the issue leave the stage.
fn leaves(scheduler: &mut Scheduler, start: &Start, report: AttemptResult) {
    end(scheduler, start, report);
    assert!(started(pull(scheduler, "review")).is_none());
}

/// The result of an agent that used some tokens.
fn succeeded() -> AttemptResult {
    AttemptResult {
        usage: Usage {
            input_tokens: 3,
            ..Usage::default()
        },
        ..ran(Outcome::Succeeded)
    }
}

fn resumed(start: &Start) -> Option<AttemptId> {
    Some(start.resume.as_ref()?.attempt_id)
}

#[test]
fn later_run_resumes_the_last_conversation_with_the_prompt_of_the_stage() {
    let mut scheduler = scheduler("resume: issue");
    let first = comes(&mut scheduler);
    assert_eq!(resumed(&first), None);
    leaves(&mut scheduler, &first, succeeded());
    let second = comes(&mut scheduler);
    assert_ne!(first.run, second.run);
    assert_eq!(resumed(&second), Some(first.attempt_id));
    assert!(second.follows_up());
    leaves(&mut scheduler, &second, succeeded());
    let third = comes(&mut scheduler);
    assert_eq!(resumed(&third), Some(second.attempt_id));
    let total = |start: &Start| start.resume.as_ref().unwrap().total.input_tokens;
    assert_eq!((total(&second), total(&third)), (3, 6), "its usage adds up");
}

#[test]
fn interrupted_attempt_of_a_later_run_gets_the_resume_prompt() {
    let mut scheduler = scheduler("resume: issue, retry: { initial_backoff: 0s }");
    let first = comes(&mut scheduler);
    leaves(&mut scheduler, &first, succeeded());
    let second = comes(&mut scheduler);
    end(&mut scheduler, &second, ran(Outcome::Lost));
    let third = comes(&mut scheduler);
    assert_eq!(
        (third.run, resumed(&third)),
        (second.run, Some(second.attempt_id))
    );
    assert!(!third.follows_up());
}

#[test]
fn run_starts_a_new_conversation_without_the_setting() {
    for settings in ["", "resume: run", "resume: true", "resume: false"] {
        let mut scheduler = scheduler(settings);
        let first = comes(&mut scheduler);
        leaves(&mut scheduler, &first, succeeded());
        assert_eq!(resumed(&comes(&mut scheduler)), None, "{settings}");
    }
}

#[test]
fn conversation_that_cannot_be_resumed_is_forgotten() {
    for broken in [
        AttemptResult {
            resume_failed: true,
            ..ran(Outcome::Failed)
        },
        AttemptResult {
            failure_class: Some(FailureClass::Context),
            ..ran(Outcome::Failed)
        },
    ] {
        let mut scheduler = scheduler("resume: issue");
        let first = comes(&mut scheduler);
        leaves(&mut scheduler, &first, succeeded());
        let second = comes(&mut scheduler);
        leaves(&mut scheduler, &second, broken);
        assert!(
            scheduler
                .machine(&id())
                .is_none_or(|machine| machine.conversations().is_empty())
        );
    }
}

#[test]
fn removed_workspace_ends_its_conversations() {
    let mut scheduler = scheduler("resume: issue");
    scheduler.handle(now(), Input::Workspaces(vec![id()]));
    let first = comes(&mut scheduler);
    end(&mut scheduler, &first, succeeded());
    assert!(started(pull(&mut scheduler, "done")).is_none());
    let kept = |scheduler: &Scheduler| scheduler.machine(&id()).unwrap().conversations().len();
    assert_eq!(kept(&scheduler), 1);
    let removed = Input::WorkspaceRemoved {
        issue: id(),
        removed: true,
    };
    scheduler.handle(now(), removed);
    assert_eq!(kept(&scheduler), 0);
}
