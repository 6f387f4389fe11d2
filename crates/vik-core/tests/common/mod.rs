//! One issue and its scheduler, which several tests share.

#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::Arc;
use std::time::Duration;

use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Stored;
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::machine::IssueMachine;
use vik_core::outcome::Outcome;
use vik_core::scheduler::{Effect, Filter, Input, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::workflow::Workflow;

/// Returns the workflow with one stage for the state `todo` that has these keys as well.
pub fn workflow(stage: &str) -> Arc<Workflow> {
    let text = format!(
        "issues: {{ pull: {{ command: ./list }} }}
agents: {{ coder: {{ runtime: codex, model: m }} }}
issue:
  terminal_states: [done]
  stages: {{ plan: {{ when: {{ state: todo }}, agent: coder, prompt: Do it., {stage} }} }}
"
    );
    let loaded = vik_workflow_reader::load(&text);
    let workflow = loaded.workflow;
    Arc::new(workflow.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)))
}

/// Returns the scheduler of that workflow.
pub fn scheduler(stage: &str) -> Scheduler {
    Scheduler::new(workflow(stage), Filter::default(), [0; 6])
}

/// Returns the scheduler of the next daemon, with what the ledger has of a machine.
pub fn restored(stage: &str, machine: &IssueMachine, now: Now) -> (Scheduler, Vec<Start>) {
    let text = serde_json::to_string(machine).unwrap();
    let stored = Stored {
        machines: vec![serde_json::from_str(&text).unwrap()],
        ..Default::default()
    };
    Scheduler::restore(workflow(stage), Filter::default(), [1; 6], stored, now)
}

pub fn at(seconds: u64) -> Now {
    Now {
        wall: jiff::Timestamp::from_second(seconds.try_into().unwrap()).unwrap(),
        mono: Mono(Duration::from_secs(seconds)),
    }
}

pub fn now() -> Now {
    at(0)
}

/// Returns the id of the issue.
pub fn id() -> IssueId {
    "7".into()
}

/// Returns the issue in a state, as a pull brings it.
pub fn pulled(state: &str) -> Input {
    let text = format!(r#"{{"id": "7", "title": "t", "state": "{state}"}}"#);
    Input::pulled_new(vec![Issue::parse(&text).unwrap()])
}

/// Pulls the issue in a state.
pub fn pull(scheduler: &mut Scheduler, state: &str) -> Vec<Effect> {
    scheduler.handle(now(), Input::PullStarted);
    scheduler.handle(now(), pulled(state))
}

/// Returns the attempt that starts.
pub fn started(effects: Vec<Effect>) -> Option<Start> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Start(start) => Some(*start),
        _ => None,
    })
}

/// Returns the result of an agent that ran in one conversation.
pub fn ran(outcome: Outcome) -> AttemptResult {
    AttemptResult {
        ran: true,
        provider_session_id: Some("conversation".to_owned()),
        ..AttemptResult::new(outcome)
    }
}

/// Reports the end of an attempt to the scheduler.
pub fn end(scheduler: &mut Scheduler, start: &Start, report: AttemptResult) {
    let (issue, attempt_id) = (id(), start.attempt_id);
    let ended = Input::Ended {
        issue,
        attempt_id,
        report,
    };
    scheduler.handle(now(), ended);
}
