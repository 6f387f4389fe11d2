//! Several turns of one conversation in one process of the real CLI.

use super::*;

/// Moves the issue to `done`.
pub const MOVE: &str = "sh .git/move.sh";

/// Returns a world whose stage has turns and no hooks.
pub fn with_turns(agent: RealAgent, max: u32, script: &Value) -> Option<Real> {
    let mut real = Real::new(agent, script.clone())?;
    let world = &mut real.world;
    world.put("/issue/stages/work/hooks", json!({}));
    world.put("/issue/stages/work/turns", json!({"max": max}));
    // Codex runs a login shell, which sets PATH.
    let tracker = world.env.path("bin/vik-fake-tracker");
    let moves = world.tracker.move_command("done").replace("{{ issue.id }}", "1");
    let moves = moves.replace("vik-fake-tracker", &tracker.to_string_lossy());
    let create =
        format!("git init -q && git commit -q --allow-empty -m base && echo '{moves}' > .git/move.sh");
    world.put("/issue/hooks/after_create", json!(create));
    Some(real)
}

fn decisions(world: &World, kind: &str) -> Vec<String> {
    let explained = world.explained("1");
    let decisions = explained["decisions"].as_array().unwrap().clone();
    let of_kind = decisions.iter().filter(|decision| decision["kind"] == kind);
    of_kind
        .map(|decision| decision["reason"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Returns the values of a field in the events of a kind.
fn values(session: &Session, kind: &str, field: &str) -> Vec<Value> {
    let events = session.of_kind(kind);
    events.iter().map(|event| event[field].clone()).collect()
}

/// `verify` fails after the first turn, the issue is unchanged after the second, and the agent
/// moves it in the third.
fn has_three_turns(agent: RealAgent) {
    let script = json!([
        {"text": "First.", "run": "echo one > one.txt", "expect": "Do the task."},
        {"text": "That is all."},
        {"text": "Second.", "run": "echo two > two.txt", "expect": "not yet two"},
        {"text": "Now it is.", "expect": "Do the task."},
        {"text": "Third.", "run": MOVE, "expect": "still in the state"},
        {"text": "Finished."}
    ]);
    let Some(mut real) = with_turns(agent, 5, &script) else {
        return;
    };
    let verify = "echo run >> ../verified.txt; test -e two.txt || { echo not yet two; exit 1; }";
    real.world.put("/issue/stages/work/verify", json!(verify));
    real.world.once().expect(0);
    real.close();
    let world = &real.world;
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
    let session = world.session("1");
    let ended = session.expect("succeeded", None);
    assert_eq!(ended["last_message"], "Finished.");
    assert_eq!(values(&session, "turn", "number"), [2, 3]);
    assert_eq!(values(&session, "turn", "of"), [5, 5]);
    assert_eq!(
        values(&session, "turn", "why"),
        ["verify_failed", "state_unchanged"]
    );
    let prompts = values(&session, "turn", "prompt");
    assert_contains(prompts[0].as_str().unwrap(), "not yet two");
    // One process, one conversation.
    assert_eq!(session.text(".steps.jsonl").matches("agent_started").count(), 1);
    let conversations = values(&session, "session_started", "provider_session_id");
    assert!(!conversations.is_empty() && conversations.iter().all(|id| *id == conversations[0]));
    assert_eq!(decisions(world, "turn").len(), 2);
    let explained = world.explained("1");
    assert_eq!(explained["now"]["life"]["attempts"], 1, "{explained}");
    // Once after each turn, and not again after the last one.
    let verified = std::fs::read_to_string(world.workspace("1").join("../verified.txt"));
    assert_eq!(verified.unwrap().lines().count(), 3);
    let shown = world.vik(&["logs", "--issue", "1"]).expect(0).out;
    assert_contains(&shown, "turn 2 of 5: `verify` failed");
    assert_eq!(world.runs()[0]["attempts"][0]["turn"], 3);
    assert!(world.vik(&["runs"]).expect(0).out.contains("succeeded (turn 3)"));
}

#[test]
fn steerable_codex_has_three_turns_in_one_process() {
    has_three_turns(RealAgent::Codex);
}

#[test]
fn steerable_claude_has_three_turns_in_one_process() {
    has_three_turns(RealAgent::Claude);
}

/// The agent asks in its second turn.
fn asks_in_its_second_turn(agent: RealAgent) {
    let ask = r#"printf '{"question":"Which table?"}\n' >> "$VIK_QUESTIONS""#;
    let script = json!([
        {"text": "First.", "expect": "Do the task."},
        {"text": "I ask.", "run": ask, "expect": "still in the state"},
        {"text": "I wait."},
        {"text": "Then this.", "run": MOVE, "expect": "You asked: Which table?"},
        {"text": "Finished."}
    ]);
    let Some(real) = with_turns(agent, 5, &script) else {
        return;
    };
    let world = &real.world;
    world.once().expect(10);
    let session = world.session("1");
    session.expect("asked", None);
    assert_eq!(values(&session, "turn", "number"), [2]);
    world.vik(&["answer", "1", "this"]).expect(0);
    world.once().expect(0);
    real.close();
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn steerable_codex_asks_in_its_second_turn() {
    asks_in_its_second_turn(RealAgent::Codex);
}

#[test]
fn steerable_claude_asks_in_its_second_turn() {
    asks_in_its_second_turn(RealAgent::Claude);
}

/// A message that arrives while `verify` runs after the first turn gets its answer before the next
/// turn, and `verify` runs again after it.
fn gets_a_message_between_turns(agent: RealAgent) {
    const TEXT: &str = "Make it blue.";
    let script = json!([
        {"text": "First.", "expect": "Do the task."},
        {"text": "Blue it is.", "run": "echo blue > color.txt", "expect": TEXT},
        {"text": "Is it done?"},
        {"text": "Second.", "run": MOVE, "expect": "still in the state"},
        {"text": "Finished."}
    ]);
    let Some(mut real) = with_turns(agent, 5, &script) else {
        return;
    };
    let verify = "touch ../verifying.txt; test -e color.txt || sleep 1000";
    real.world.put("/issue/stages/work/verify", json!(verify));
    let world = &real.world;
    let daemon = world.daemon();
    eventually("`verify` runs", || {
        world.workspace("1").join("../verifying.txt").exists()
            && world
                .status()
                .is_some_and(|status| status["sessions"][0]["phase"] == "verifying")
    });
    let session = &world.status().unwrap()["sessions"][0];
    assert_eq!(session["turn"], json!({"number": 1, "max": 5}));
    world.vik(&["message", "1", TEXT]).expect(0);
    world.wait_for_state("1", "done");
    eventually("the attempt has ended", || {
        world.runs().first().is_some_and(|run| run["state"] == "ended")
    });
    daemon.stop().expect(0);
    real.close();
    let session = world.session("1");
    session.expect("succeeded", None);
    assert_eq!(values(&session, "person_message", "state"), ["sent", "taken"]);
    assert_eq!(values(&session, "turn", "number"), [2]);
}

#[test]
fn steerable_codex_gets_a_message_between_turns() {
    gets_a_message_between_turns(RealAgent::Codex);
}

#[test]
fn steerable_claude_gets_a_message_between_turns() {
    gets_a_message_between_turns(RealAgent::Claude);
}

/// What holds the issue ends the process after its turn; the next one is an attempt of its own.
fn pause_ends_the_process(agent: RealAgent) {
    let script = json!([
        {"text": "First.", "run": "touch up.txt; while [ ! -e go.txt ]; do sleep 0.1; done", "expect": "Do the task."},
        {"text": "That is all."},
        {"text": "Second.", "run": MOVE, "expect": "still in the state"},
        {"text": "Finished."}
    ]);
    let Some(real) = with_turns(agent, 5, &script) else {
        return;
    };
    let world = &real.world;
    let daemon = world.daemon();
    eventually("the agent works", || world.workspace("1").join("up.txt").exists());
    world.vik(&["pause", "1"]).expect(0);
    std::fs::write(world.workspace("1").join("go.txt"), "").unwrap();
    eventually("the attempt has ended", || {
        let runs = world.runs();
        runs[0]["attempts"][0]["outcome"] == "succeeded"
    });
    world.vik(&["resume", "1"]).expect(0);
    world.wait_for_state("1", "done");
    eventually("the next attempt has ended", || {
        world.runs()[0]["attempts"][1]["outcome"] == "succeeded"
    });
    daemon.stop().expect(0);
    real.close();
    let turns: Vec<_> = world.runs()[0]["attempts"].as_array().unwrap().clone();
    let turns: Vec<_> = turns.iter().map(|attempt| attempt["turn"].clone()).collect();
    assert_eq!(turns, [1, 2]);
}

#[test]
fn steerable_codex_ends_its_process_for_a_pause() {
    pause_ends_the_process(RealAgent::Codex);
}

#[test]
fn steerable_claude_ends_its_process_for_a_pause() {
    pause_ends_the_process(RealAgent::Claude);
}

/// A daemon that stops and leaves its agents alive ends the `verify` that runs between two turns. The
/// next daemon ends the process and checks its work.
fn is_kept_between_turns(agent: RealAgent) {
    let script = json!([
        {"text": "First.", "expect": "Do the task."},
        {"text": "Second.", "run": MOVE, "expect": "still in the state"},
        {"text": "Finished."}
    ]);
    let Some(mut real) = with_turns(agent, 3, &script) else {
        return;
    };
    let verify = "test -e ../go.txt || { touch ../verifying.txt; sleep 1000; }";
    real.world.put("/issue/stages/work/verify", json!(verify));
    real.world.put("/loop", json!({"orphan_grace": "10m"}));
    let world = &real.world;
    let file = |name: &str| world.workspace("1").join("..").join(name);
    world.vik(&["run", "-d"]).expect(0);
    eventually("`verify` runs", || file("verifying.txt").exists());
    let output = world.vik(&["stop", "--keep-sessions"]).expect(0).out;
    assert_contains(&output, "1 agent keeps running");
    std::fs::write(file("go.txt"), "").unwrap();
    world.vik(&["run", "-d"]).expect(0);
    eventually("the second attempt has ended", || {
        let runs = world.runs();
        runs.first()
            .is_some_and(|run| run["attempts"][1]["outcome"] == "succeeded")
    });
    world.vik(&["stop"]).expect(0);
    real.close();
    let attempts = world.runs()[0]["attempts"].as_array().unwrap().clone();
    let turns: Vec<_> = attempts.iter().map(|attempt| attempt["turn"].clone()).collect();
    assert_eq!(turns, [1, 2]);
}

#[test]
fn steerable_codex_is_kept_between_turns() {
    is_kept_between_turns(RealAgent::Codex);
}

#[test]
fn steerable_claude_is_kept_between_turns() {
    is_kept_between_turns(RealAgent::Claude);
}

/// `timeout` starts again with each turn.
fn each_turn_has_its_own_timeout(agent: RealAgent) {
    let script = json!([
        {"text": "First.", "run": "sleep 4", "expect": "Do the task."},
        {"text": "That is all."},
        {"text": "Second.", "run": "sleep 4", "expect": "still in the state"},
        {"text": "That is all."},
        {"text": "Third.", "run": format!("sleep 4; {MOVE}")},
        {"text": "Finished."}
    ]);
    let Some(mut real) = with_turns(agent, 3, &script) else {
        return;
    };
    real.world.put("/issue/stages/work/timeout", json!("10s"));
    real.world.once().expect(0);
    real.close();
    let session = real.world.session("1");
    let ended = session.expect("succeeded", None);
    assert!(ended["duration_ms"].as_u64().unwrap() > 12_000, "{ended}");
}

#[test]
fn steerable_claude_has_a_timeout_for_each_turn() {
    each_turn_has_its_own_timeout(RealAgent::Claude);
}
