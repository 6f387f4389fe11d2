//! An issue that comes back to a stage, which resumes its conversation.

use serde_json::json;

use crate::support::*;

/// The conversation of every attempt of the scripted agent.
const THREAD: &str = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";

/// Returns a world in which the issue has been in review, and has come back to its stage since.
fn reviewed(resume: &str) -> World {
    let script = format!("start {THREAD}; message hi; done");
    let world = World::new(&[("1", "todo")]).agent("codex").script(&script);
    let moves = world.on_success("review");
    let world = world
        .set("/agents/a/env", json!({"VIK_SCRIPT": script}))
        .work("resume", json!(resume))
        .work(
            "prompt",
            json!("{% if attempt.resumed %}REVIEWED {% endif %}{{ issue.title }}"),
        )
        .set("/issue/stages/work/hooks", json!({"after_run": moves}));
    world.once().expect(0);
    assert!(world.tracker.move_to("1", "todo"));
    world.once().expect(0);
    world
}

#[test]
fn issue_that_comes_back_resumes_its_conversation_with_the_prompt_of_the_stage() {
    let world = reviewed("issue");
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[1].events()[0]["kind"], "resumed");
    assert_eq!(sessions[1].events()[0]["provider_session_id"], THREAD);
    assert_contains(sessions[1].text(".prompt.md"), "REVIEWED");
    assert_eq!(world.tracker.state("1").as_deref(), Some("review"));
    let show = world.vik(&["show", "1"]).expect(0).out;
    assert_contains(&show, "resumes the conversation of attempt 1");
}

#[test]
fn issue_that_comes_back_starts_a_new_conversation_by_default() {
    let sessions = reviewed("run").sessions("1");
    assert_eq!(sessions.len(), 2);
    assert!(
        sessions[1]
            .events()
            .iter()
            .all(|event| event["kind"] != "resumed")
    );
    assert!(!sessions[1].text(".prompt.md").contains("REVIEWED"));
}
