//! Turns of one conversation: when another one follows, what bounds them, and what they use up.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;

use vik_core::attempt::{AttemptResult, Start};
use vik_core::issue::Issue;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{Effect, Filter, Input, Scheduler};
use vik_core::time::{Mono, Now};

fn now() -> Now {
    Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        mono: Mono::default(),
    }
}

struct World(Scheduler);

impl World {
    /// Creates a world whose stage has these settings.
    fn new(settings: &str) -> Self {
        let stage = format!(
            "{{ when: {{ state: todo }}, agent: coder, prompt: Do it., retry: {{ max_attempts: 2, initial_backoff: 0s }}{settings} }}"
        );
        let text = format!(
            "issues: {{ pull: {{ command: ./list }} }}\nagents: {{ coder: {{ runtime: codex, model: m }} }}\n\
             issue: {{ terminal_states: [done], stages: {{ plan: {stage} }} }}\n"
        );
        let loaded = vik_workflow_reader::load(&text);
        let workflow = loaded
            .workflow
            .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        Self(Scheduler::new(Arc::new(workflow), Filter::default(), [0; 6]))
    }

    fn pull(&mut self, state: &str) -> Option<Start> {
        let text = format!(r#"{{"id": "7", "title": "t", "state": "{state}"}}"#);
        let issue = Issue::parse(&text).unwrap();
        self.0.handle(now(), Input::PullStarted);
        let effects = self.0.handle(now(), Input::pulled_new(vec![issue]));
        effects.into_iter().find_map(|effect| match effect {
            Effect::Start(start) => Some(*start),
            _ => None,
        })
    }

    fn end(&mut self, start: &Start, outcome: Outcome, failure_class: Option<FailureClass>) {
        let report = AttemptResult {
            ran: true,
            failure_class,
            provider_session_id: Some("conversation".to_owned()),
            ..AttemptResult::new(outcome)
        };
        let (issue, attempt_id) = ("7".into(), start.attempt_id);
        self.0.handle(
            now(),
            Input::Ended {
                issue,
                attempt_id,
                report,
            },
        );
    }

    fn succeed(&mut self, start: &Start) {
        self.end(start, Outcome::Succeeded, None);
    }

    fn life_attempts(&self) -> u32 {
        self.0.machine(&"7".into()).unwrap().life().attempts
    }
}

#[test]
fn conversation_has_at_most_the_allowed_turns_and_uses_up_one_attempt() {
    let mut world = World::new(", turns: { max: 3 }");
    for conversation in 1..=2 {
        for turn in 1..=3 {
            let start = world.pull("todo").unwrap();
            assert_eq!((start.turn, start.resume.is_some()), (turn, turn > 1));
            assert_eq!(start.continues_turns(), turn > 1);
            if turn == 2 {
                world.end(&start, Outcome::Failed, Some(FailureClass::Verify));
            } else {
                world.succeed(&start);
            }
            assert_eq!(world.life_attempts(), conversation);
        }
    }
    assert!(world.pull("todo").is_none(), "parked");
}

#[test]
fn no_turn_follows_once_the_issue_has_left_the_state() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    world.succeed(&start);
    assert!(world.pull("done").is_none());
}

#[test]
fn interrupted_turn_keeps_its_number_and_other_failures_start_a_new_conversation() {
    let mut world = World::new(", turns: { max: 3 }");
    let start = world.pull("todo").unwrap();
    world.succeed(&start);
    let start = world.pull("todo").unwrap();
    world.end(&start, Outcome::Lost, None);
    let start = world.pull("todo").unwrap();
    assert_eq!((start.turn, start.resume.is_some()), (2, true));
    assert!(!start.continues_turns(), "its prompt says that it was cut off");
    world.end(&start, Outcome::Failed, Some(FailureClass::Agent));
    assert_eq!(world.life_attempts(), 2, "a turn that fails uses up an attempt");
}

#[test]
fn stage_without_turns_starts_a_new_conversation() {
    for settings in ["", ", resume: false, turns: { max: 3 }"] {
        let mut world = World::new(settings);
        for attempt in 1..=2 {
            let start = world.pull("todo").unwrap();
            assert!(start.turn <= 1 && start.resume.is_none());
            world.succeed(&start);
            assert_eq!(world.life_attempts(), attempt);
        }
        assert!(world.pull("todo").is_none(), "parked");
    }
}
