//! Rounds: comments and checks bring an issue back to a stage that has worked on it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{end, id, now, ran, started};
use serde_json::{Value, json};
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Stored;
use vik_core::issue::Issue;
use vik_core::limits::LimitUnit;
use vik_core::machine::ParkReason;
use vik_core::outcome::{Outcome, Usage};
use vik_core::scheduler::{
    Actor, Command, Filter, Hold, Input, LookupResult, Recalled, RetryRequest, Scheduler,
};
use vik_core::workflow::Workflow;

fn workflow(show: &str, more: &str, limits: &str) -> Arc<Workflow> {
    let text = format!(
        "issues: {{ pull: {{ command: ./list }}{show} }}
agents: {{ coder: {{ runtime: codex, model: m }} }}
{more}
issue:
  terminal_states: [done]
  limits: {{ {limits} }}
  stages:
    work:
      when: {{ state: todo, follow_up: in review }}
      agent: coder
      prompt: Do it.
      resume: issue
      retry: {{ max_attempts: 1 }}
"
    );
    let loaded = vik_workflow_reader::load(&text);
    Arc::new(
        loaded
            .workflow
            .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)),
    )
}

const TRUST: &str = "trust: { authors: [ann], labels: [safe] }";

struct World {
    scheduler: Scheduler,
    workflow: Arc<Workflow>,
}

impl World {
    fn new(more: &str, limits: &str) -> Self {
        Self::of(workflow("", more, limits))
    }

    /// A world in which each issue is looked up before it starts.
    fn with_show() -> Self {
        Self::of(workflow(", show: { command: ./show }", "", ""))
    }

    fn of(workflow: Arc<Workflow>) -> Self {
        Self {
            scheduler: Scheduler::new(Arc::clone(&workflow), Filter::default(), [0; 6]),
            workflow,
        }
    }

    /// A world whose issue is in review after a first attempt.
    fn in_review(more: &str, limits: &str) -> Self {
        let mut world = Self::new(more, limits);
        let first = world.pull("todo", &json!({})).unwrap();
        assert!(!first.activity.is_follow_up);
        world.ends(&first, succeeded());
        assert!(world.pull("in review", &json!({})).is_none());
        world
    }

    /// Pulls the issue with these fields, and returns what starts.
    fn pull(&mut self, state: &str, more: &Value) -> Option<Start> {
        self.scheduler.handle(now(), Input::PullStarted);
        let pulled = Input::pulled_new(vec![issue(state, more)]);
        started(self.scheduler.handle(now(), pulled))
    }

    /// Finishes the lookup with the issue with these fields, and returns what starts.
    fn look_up(&mut self, state: &str, more: &Value) -> Option<Start> {
        let input = Input::LookupFinished {
            issue: id(),
            result: LookupResult::Snapshot(Box::new(issue(state, more))),
            recalled: Recalled::default(),
        };
        started(self.scheduler.handle(now(), input))
    }

    fn ends(&mut self, start: &Start, report: AttemptResult) {
        end(&mut self.scheduler, start, report);
    }

    fn hold(&self) -> Option<Hold> {
        let explanation = self.scheduler.explain(&id(), now()).unwrap();
        explanation.stages.into_iter().next().unwrap().hold
    }

    fn restart(&mut self) {
        let text = serde_json::to_string(self.scheduler.machine(&id()).unwrap()).unwrap();
        let stored = Stored {
            machines: vec![serde_json::from_str(&text).unwrap()],
            ..Default::default()
        };
        let workflow = Arc::clone(&self.workflow);
        self.scheduler = Scheduler::restore(workflow, Filter::default(), [1; 6], stored, now()).0;
    }
}

fn issue(state: &str, more: &Value) -> Issue {
    let mut item = json!({"id": "7", "title": "t", "state": state, "author": "ann", "labels": ["safe"]});
    item.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    Issue::parse(&item.to_string()).unwrap()
}

/// The result of an agent that has read its prompt.
fn succeeded() -> AttemptResult {
    AttemptResult {
        usage: Usage {
            output_tokens: 1,
            ..Usage::default()
        },
        ..ran(Outcome::Succeeded)
    }
}

fn failed() -> AttemptResult {
    AttemptResult {
        outcome: Outcome::Failed,
        ..succeeded()
    }
}

fn comment(number: u32, author: &str) -> Value {
    json!({"id": number, "author": author, "body": format!("Comment {number}")})
}

fn comments(list: &[(u32, &str)]) -> Value {
    let list: Vec<_> = list
        .iter()
        .map(|(number, author)| comment(*number, author))
        .collect();
    json!({ "comments": list })
}

fn check(name: &str, state: &str, url: &str) -> Value {
    json!({"name": name, "state": state, "url": url})
}

#[test]
fn comment_starts_a_round_that_resumes_the_conversation_with_what_is_new() {
    let mut world = World::new("", "");
    let first = world.pull("todo", &comments(&[(1, "bob")])).unwrap();
    assert_eq!(first.activity.comments, [0], "a new conversation gets all");
    world.ends(&first, succeeded());
    assert!(world.pull("in review", &comments(&[(1, "bob")])).is_none());
    assert_eq!(world.hold(), Some(Hold::NothingNew { pending: Vec::new() }));
    let round = world
        .pull("in review", &comments(&[(1, "bob"), (2, "ann")]))
        .unwrap();
    assert_ne!(round.run, first.run);
    assert!(round.follows_up() && round.activity.is_follow_up);
    assert_eq!(round.activity.comments, [1]);
    world.ends(&round, succeeded());
    assert!(
        world
            .pull("in review", &comments(&[(1, "bob"), (2, "ann")]))
            .is_none()
    );
    assert_eq!(world.scheduler.machine(&id()).unwrap().life().rounds, 1);
}

#[test]
fn edited_comment_is_new_and_one_that_flickers_is_not() {
    let mut world = World::new("", "");
    let first = world.pull("todo", &comments(&[(1, "ann")])).unwrap();
    world.ends(&first, succeeded());
    assert!(world.pull("in review", &json!({})).is_none());
    assert!(world.pull("in review", &comments(&[(1, "ann")])).is_none());
    let edited = json!({"comments": [{"id": 1, "author": "ann", "body": "Do more"}]});
    assert!(world.pull("in review", &edited).is_some());
}

#[test]
fn neither_strangers_nor_vik_itself_start_a_round() {
    let mut world = World::in_review(TRUST, "");
    let own = json!({"author": "ann", "body": "Done.\n\n<!-- vik:0b1c -->"});
    let others = json!({"comments": [comment(1, "eve"), {"body": "no author"}, own, "no comment"]});
    assert!(world.pull("in review", &others).is_none());
    assert_eq!(world.hold(), Some(Hold::NothingNew { pending: Vec::new() }));
    // The label of the issue says nothing about its comments.
    let round = world
        .pull("in review", &comments(&[(1, "eve"), (2, "ann")]))
        .unwrap();
    assert_eq!(round.activity.comments, [0, 1], "the agent reads all of them");
    assert!(round.activity.trust.is_some());
}

#[test]
fn failed_checks_start_a_round_when_all_have_a_result() {
    let mut world = World::in_review("", "");
    let checks = |build: &str, test: &str, url: &str| json!({"checks": [check("build", build, url), check("test", test, url)]});
    assert!(
        world
            .pull("in review", &checks("FAILURE", "queued", "1"))
            .is_none()
    );
    let pending = vec!["test".to_owned()];
    assert_eq!(world.hold(), Some(Hold::NothingNew { pending }));
    let round = world
        .pull("in review", &checks("FAILURE", "success", "1"))
        .unwrap();
    assert_eq!(round.activity.checks, [0, 1]);
    world.ends(&round, succeeded());
    assert!(
        world
            .pull("in review", &checks("FAILURE", "success", "1"))
            .is_none()
    );
    assert!(
        world
            .pull("in review", &checks("success", "success", "2"))
            .is_none()
    );
    assert!(
        world
            .pull("in review", &checks("failed", "success", "3"))
            .is_some()
    );
}

#[test]
fn check_that_passes_meanwhile_does_not_stop_the_round() {
    let mut world = World::in_review("", "");
    let round = world
        .pull("in review", &json!({"checks": [check("build", "failed", "1")]}))
        .unwrap();
    assert!(
        world
            .pull("in review", &json!({"checks": [check("build", "passed", "1")]}))
            .is_none()
    );
    let machine = world.scheduler.machine(&id()).unwrap();
    let (_, _, stopping) = machine.active(round.attempt_id).unwrap();
    assert_eq!(stopping, None);
}

#[test]
fn issue_on_which_the_stage_has_not_worked_does_not_start_in_review() {
    let mut world = World::new("", "");
    assert!(world.pull("in review", &comments(&[(1, "ann")])).is_none());
    assert_eq!(world.hold(), Some(Hold::NothingNew { pending: Vec::new() }));
    assert!(world.pull("todo", &comments(&[(1, "ann")])).is_some());
}

#[test]
fn round_that_fails_is_parked_and_freed_by_a_comment_of_a_trusted_author() {
    let mut world = World::in_review(TRUST, "");
    let round = world.pull("in review", &comments(&[(1, "ann")])).unwrap();
    world.ends(&round, failed());
    assert!(world.pull("in review", &comments(&[(1, "ann")])).is_none());
    assert!(matches!(world.hold(), Some(Hold::Parked { .. })));
    assert!(
        world
            .pull("in review", &comments(&[(1, "ann"), (2, "eve")]))
            .is_none()
    );
    let freed = world
        .pull("in review", &comments(&[(1, "ann"), (2, "eve"), (3, "ann")]))
        .unwrap();
    assert_eq!(freed.activity.comments, [1, 2]);
}

#[test]
fn comment_that_came_during_the_attempt_is_not_lost() {
    let mut world = World::in_review("", "");
    let round = world.pull("in review", &comments(&[(1, "ann")])).unwrap();
    assert!(
        world
            .pull("in review", &comments(&[(1, "ann"), (2, "ann")]))
            .is_none()
    );
    world.ends(&round, succeeded());
    let next = world
        .pull("in review", &comments(&[(1, "ann"), (2, "ann")]))
        .unwrap();
    assert_eq!(next.activity.comments, [1]);
}

#[test]
fn comment_that_no_agent_has_read_stays_new() {
    let mut world = World::in_review("", "");
    let all = comments(&[(1, "ann")]);
    let lost = world.pull("in review", &all).unwrap();
    let unread = AttemptResult {
        answered: Some(false),
        ..ran(Outcome::Lost)
    };
    world.ends(&lost, unread);
    world.restart();
    let again = world.pull("in review", &all).unwrap();
    assert_eq!((again.run, &again.activity.comments[..]), (lost.run, &[0][..]));
    assert_eq!(world.scheduler.machine(&id()).unwrap().life().rounds, 1);
}

#[test]
fn rounds_are_limited_and_a_person_allows_as_many_again() {
    let mut world = World::in_review("", "rounds: 2");
    let mut list = Vec::new();
    let mut next = |world: &mut World| {
        list.push((u32::try_from(list.len()).unwrap(), "ann"));
        world.pull("in review", &comments(&list))
    };
    for _ in 0..2 {
        let round = next(&mut world).unwrap();
        world.ends(&round, succeeded());
    }
    assert!(next(&mut world).is_none());
    let Some(Hold::Parked { reason, detail, .. }) = world.hold() else {
        panic!("{:?}", world.hold())
    };
    assert_eq!(reason, ParkReason::IssueLimit);
    assert!(detail.contains("2 of 2 rounds"), "{detail}");
    world.restart();
    assert!(next(&mut world).is_none(), "a comment does not raise the limit");
    let machine = world.scheduler.machine(&id()).unwrap();
    assert_eq!(
        machine.life().rounds_used_up(&world.workflow.issue).unwrap().unit,
        LimitUnit::Rounds
    );
    let retry = Command::Retry(RetryRequest {
        issue: id(),
        stage: None,
        attempts: None,
        agent: false,
    });
    let retry = Input::Command(0, retry, Actor::default());
    let round = started(world.scheduler.handle(now(), retry)).or_else(|| next(&mut world));
    world.ends(&round.unwrap(), succeeded());
    let round = next(&mut world).unwrap();
    world.ends(&round, succeeded());
    assert!(next(&mut world).is_none(), "two more were allowed");
}

#[test]
fn rounds_by_the_state_count_too() {
    let mut world = World::in_review("", "rounds: 1");
    let round = world.pull("todo", &json!({})).unwrap();
    world.ends(&round, succeeded());
    assert!(world.pull("in review", &json!({})).is_none());
    assert!(world.pull("todo", &json!({})).is_none());
    assert!(matches!(world.hold(), Some(Hold::Parked { .. })));
}

#[test]
fn lookup_without_comments_does_not_take_the_reason_away() {
    let mut world = World::with_show();
    let first = world
        .pull("todo", &json!({}))
        .or_else(|| world.look_up("todo", &json!({})));
    world.ends(&first.unwrap(), succeeded());
    assert!(world.pull("in review", &json!({})).is_none());
    assert!(
        world.pull("in review", &comments(&[(1, "ann")])).is_none(),
        "it is looked up"
    );
    let round = world.look_up("in review", &json!({})).unwrap();
    assert_eq!(round.activity.comments, [0]);
}

#[test]
fn lookup_without_a_reason_starts_nothing() {
    let mut world = World::with_show();
    let first = world
        .pull("todo", &json!({}))
        .or_else(|| world.look_up("todo", &json!({})));
    world.ends(&first.unwrap(), succeeded());
    assert!(world.pull("in review", &json!({})).is_none());
    assert!(world.pull("in review", &comments(&[(1, "ann")])).is_none());
    assert!(
        world.look_up("in review", &json!({"comments": []})).is_none(),
        "it was deleted"
    );
}
