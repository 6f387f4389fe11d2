//! Agents that ask people, and continue with the answers.

use super::*;

/// The command with which a model asks.
const ASK: &str =
    r#"printf '{"question":"Which table?","choices":["old","new"]}\n' >> "$VIK_QUESTIONS" && echo asked"#;

fn asks_and_continues(agent: RealAgent, own_sandbox: bool) {
    let script = json!([
        {"text": "I ask.", "run": ASK, "expect": "VIK_QUESTIONS"},
        {"text": "I wait.", "expect": "asked"},
        // Only the first attempt has the first text, so the conversation is the same.
        {"text": "Then the new one.", "expect": "Do the task.", "run": "echo new > table.txt"},
        {"text": "Finished.", "expect": "You asked: Which table?"}
    ]);
    let Some(mut real) = Real::new(agent, script) else {
        return;
    };
    if own_sandbox {
        real.world.put("/agents/a/sandbox", json!("off"));
    }
    let world = &real.world;
    world.once().expect(10);
    let asked = world.session("1");
    asked.expect("asked", None);
    assert_eq!(asked.of_kind("question")[0]["choices"], json!(["old", "new"]));
    world.vik(&["answer", "1", "--choice", "2"]).expect(0);
    world.once().expect(0);
    real.close();
    let sessions = world.sessions("1");
    let ended = sessions[1].expect("succeeded", None);
    assert_eq!(ended["last_message"], "Finished.");
    let id = &asked.of_kind("session_started")[0]["provider_session_id"];
    assert_eq!(&ended["provider_session_id"], id);
    assert_eq!(sessions[1].of_kind("answer")[0]["answer"], "new");
    assert_eq!(world.workspace_file("1", "table.txt"), "new\n");
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

#[test]
fn codex_asks_and_continues_with_the_answer() {
    asks_and_continues(RealAgent::Codex, false);
}

#[test]
fn codex_asks_in_its_own_sandbox() {
    asks_and_continues(RealAgent::Codex, true);
}

#[test]
fn steerable_codex_asks_and_continues_with_the_answer() {
    asks_and_continues(RealAgent::Codex, false);
}

#[test]
fn claude_asks_and_continues_with_the_answer() {
    asks_and_continues(RealAgent::Claude, false);
}

#[test]
fn steerable_claude_asks_and_continues_with_the_answer() {
    asks_and_continues(RealAgent::Claude, false);
}

/// An agent that may change nothing asks, and continues after the answer.
fn asks_without_other_changes(agent: RealAgent, changes: &Value, script: Value) {
    let Some(mut real) = Real::new(agent, script) else {
        return;
    };
    for (key, value) in changes.as_object().unwrap() {
        real.world.put(&format!("/agents/a/{key}"), value.clone());
    }
    let world = &real.world;
    world.once().expect(10);
    let asked = world.session("1");
    asked.expect("asked", None);
    assert_eq!(asked.of_kind("question")[0]["question"], "Which table?");
    world.vik(&["answer", "1", "new"]).expect(0);
    world.once().expect(0);
    real.close();
    let sessions = world.sessions("1");
    assert_eq!(
        sessions[1].expect("succeeded", None)["last_message"],
        "The new one."
    );
    for name in ["first", "second"] {
        assert!(!world.workspace("1").join(name).exists(), "{name} was written");
    }
}

/// Returns a script of a model that has a shell, in both attempts.
fn shell_script() -> Value {
    json!([
        {"run": format!("touch first; {ASK}"), "expect": "VIK_QUESTIONS"},
        {"text": "I wait.", "expect": "asked"},
        // The conversation continues in a sandbox of its own.
        {"run": "touch second; echo again >> \"$VIK_QUESTIONS\"; : > \"$VIK_QUESTIONS\" && echo cleared",
         "expect": "You asked: Which table?"},
        {"text": "The new one.", "expect": "cleared"}
    ])
}

#[test]
fn read_only_codex_asks_in_its_own_sandbox() {
    let changes = json!({"permission": "read-only", "sandbox": "off"});
    asks_without_other_changes(RealAgent::Codex, &changes, shell_script());
}

#[test]
fn read_only_codex_asks_in_the_sandbox_of_vik() {
    let changes = json!({"permission": "read-only", "sandbox": "on"});
    asks_without_other_changes(RealAgent::Codex, &changes, shell_script());
}

#[test]
fn codex_asks_in_a_sandbox_that_its_flags_select() {
    let script = json!([
        {"run": ASK, "expect": "VIK_QUESTIONS"},
        {"text": "I wait.", "expect": "asked"},
        {"text": "The new one.", "expect": "You asked: Which table?"}
    ]);
    let changes = json!({"args": {"s": "workspace-write"}, "sandbox": "off"});
    asks_without_other_changes(RealAgent::Codex, &changes, script);
}

/// Returns a script of a model that only has a tool that writes files.
fn writing_script() -> Value {
    let question = r#"{"question":"Which table?"}"#;
    let write = |path: &str, content: &str| json!([{"write": {"path": path, "content": content}}]);
    json!([
        {"tools": write("first", ""), "expect": "VIK_QUESTIONS"},
        {"tools": [{"read": "$VIK_QUESTIONS"}]},
        {"tools": write("$VIK_QUESTIONS", question)},
        {"text": "I wait."},
        {"tools": write("second", ""), "expect": "You asked: Which table?"},
        {"text": "The new one."}
    ])
}

#[test]
fn read_only_claude_asks_in_the_sandbox_of_vik() {
    let changes = json!({"permission": "read-only", "sandbox": "on"});
    asks_without_other_changes(RealAgent::Claude, &changes, writing_script());
}

#[test]
fn claude_that_accepts_edits_asks() {
    let script = json!([
        {"tools": [{"read": "$VIK_QUESTIONS"}]},
        {"tools": [{"write": {"path": "$VIK_QUESTIONS", "content": r#"{"question":"Which table?"}"#}}]},
        {"text": "I wait."},
        {"text": "The new one.", "expect": "You asked: Which table?"}
    ]);
    let changes = json!({"args": {"permission-mode": "acceptEdits"}, "sandbox": "off"});
    asks_without_other_changes(RealAgent::Claude, &changes, script);
}
