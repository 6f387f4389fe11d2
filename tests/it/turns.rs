//! Conversations that continue with another turn until the issue leaves its state.

use serde_json::{Value, json};

use crate::support::*;

/// The conversation of every attempt of a scripted agent that resumes it.
const THREAD: &str = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";

/// Returns a world whose agent ends each turn with success, and whose issue is done once `verify`
/// passes or after_run moves it.
fn turns(max: u32) -> World {
    let script = format!("start {THREAD}; message hi; done");
    World::new(&[("1", "todo")])
        .agent("codex")
        .script(&script)
        .attempts(1)
        .set("/agents/a/env", json!({"VIK_SCRIPT": script}))
        .work("turns", json!({"max": max}))
        .set("/issue/stages/work/hooks", json!({}))
}

fn kinds(world: &World, kind: &str) -> Vec<String> {
    let explained: Value = world.explained("1");
    let decisions = explained["decisions"].as_array().unwrap();
    let of_kind = decisions.iter().filter(|decision| decision["kind"] == kind);
    of_kind
        .map(|decision| decision["reason"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn success_without_a_change_of_state_continues_the_conversation_up_to_the_maximum() {
    let world = turns(3);
    world.once();
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 3);
    assert_eq!(sessions[1].events()[0]["kind"], "resumed");
    assert_eq!(sessions[2].events()[0]["provider_session_id"], THREAD);
    let prompt = sessions[1].text(".prompt.md");
    assert_contains(&prompt, "still in the state");
    assert_eq!(kinds(&world, "turn").len(), 2);
    let explained = world.explained("1");
    assert_eq!(explained["now"]["life"]["attempts"], 1, "{explained}");
    assert_eq!(explained["now"]["stages"][0]["hold"]["reason"], "parked");
}

#[test]
fn failed_verify_is_the_prompt_of_the_next_turn() {
    let world = turns(5).work(
        "verify",
        json!("echo x >> tries; test $(wc -l < tries) -ge 3 || { echo not yet; exit 1; }"),
    );
    let moves = world.on_success("done");
    let world = world.set("/issue/stages/work/hooks", json!({"after_run": moves}));
    world.once().expect(0);
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 3);
    sessions[0].expect("failed", Some("verify"));
    sessions[2].expect("succeeded", None);
    let prompt = sessions[1].text(".prompt.md");
    assert_contains(&prompt, "did not pass the check");
    assert_contains(&prompt, "not yet");
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}
