//! Agents that ask people, and continue with the answers.

use super::*;

fn asks_and_continues(test: &str, agent: RealAgent, own_sandbox: bool) {
    let ask =
        r#"printf '{"question":"Which table?","choices":["old","new"]}\n' >> "$VIK_QUESTIONS" && echo asked"#;
    let script = json!([
        {"text": "I ask.", "run": ask, "expect": "VIK_QUESTIONS"},
        {"text": "I wait.", "expect": "asked"},
        // Only the first attempt has the first text, so the conversation is the same.
        {"text": "Then the new one.", "expect": "Do the task.", "run": "echo new > table.txt"},
        {"text": "Finished.", "expect": "You asked: Which table?"}
    ]);
    let Some(mut real) = Real::new(test, agent, script) else {
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
    let test = "codex_asks_and_continues_with_the_answer";
    asks_and_continues(test, RealAgent::Codex, false);
}

#[test]
fn codex_asks_in_its_own_sandbox() {
    asks_and_continues("codex_asks_in_its_own_sandbox", RealAgent::Codex, true);
}

#[test]
fn steerable_codex_asks_and_continues_with_the_answer() {
    let test = "steerable_codex_asks_and_continues_with_the_answer";
    asks_and_continues(test, RealAgent::Codex, false);
}

#[test]
fn claude_asks_and_continues_with_the_answer() {
    let test = "claude_asks_and_continues_with_the_answer";
    asks_and_continues(test, RealAgent::Claude, false);
}

#[test]
fn steerable_claude_asks_and_continues_with_the_answer() {
    let test = "steerable_claude_asks_and_continues_with_the_answer";
    asks_and_continues(test, RealAgent::Claude, false);
}
