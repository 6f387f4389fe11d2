//! Blockers that a pull brings.

#![allow(clippy::unwrap_used, reason = "a broken assumption fails the test")]

use vik_core::ids::IssueId;
use vik_core::issue::Pull;
use vik_core::scheduler::{Filter, Hold, Input, Scheduler};
use vik_core::time::{Mono, Now};

#[test]
fn pull_brings_blockers_in_any_state() {
    let workflow = "issues: { pull: { command: list } }
agents: { a: { runtime: codex, model: m } }
issue: { terminal_states: [done], stages: { work: { when: { state: todo }, agent: a, prompt: p } } }";
    let workflow = vik_workflow_reader::load(workflow).workflow.unwrap();
    let mut scheduler = Scheduler::new(workflow.into(), Filter::default(), [1; 6]);
    let text = br#"[{"id":"b","state":"backlog","blocked_by":"c"},{"id":"x","state":"backlog"},{"id":"c","state":"done"},
        {"id":"a","state":"todo","blocked_by":["b", 9]},{"id":"bad","state":"todo","blocked_by":[{}]}]"#;
    let pull = Pull::parse_wanted(text, &scheduler.wanted()).unwrap();
    let ids: Vec<_> = pull.issues.iter().map(|issue| issue.id.as_str()).collect();
    assert_eq!(ids, ["a", "bad", "b", "c"]);
    assert_eq!(pull.warnings[0].field, "blocked_by");
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        mono: Mono::default(),
    };
    scheduler.handle(now, Input::PullStarted);
    scheduler.handle(now, Input::pulled_new(pull.issues));
    let hold = |id: &str| scheduler.explain(&id.into(), now).unwrap().stages[0].hold.clone();
    assert!(matches!(hold("a"), Some(Hold::Blocked { by, .. }) if *by == [IssueId::from("b")]));
    // What cannot be read may be anything: it holds.
    assert!(matches!(hold("bad"), Some(Hold::Blocked { .. })));
}
