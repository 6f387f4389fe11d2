//! Questions of agents: asked by a file, answered by people, and continued in the same conversation.

use serde_json::{Value, json};

use crate::support::*;

/// A script that asks a question with two choices in its first attempt, and succeeds then.
const ASKS: &str = r#"count n
on 1 run printf '{"question":"Which table?","choices":["old","new"]}\n' >> "$VIK_QUESTIONS"
ok"#;

pub fn asking() -> World {
    World::new(&[("1", "todo")]).agent("claude_code").script(ASKS)
}

fn question(world: &World) -> Option<Value> {
    world.status()?["questions"].get(0).cloned()
}

pub fn asked(world: &World) -> Value {
    wait_for_value(LONG, || question(world)).expect("a question")
}

fn hold(world: &World) -> Value {
    let explained = world.explained("1");
    explained["now"]["stages"][0]["hold"].clone()
}

#[test]
fn answer_continues_the_conversation_and_uses_up_no_attempt() {
    let world = asking().attempts(1);
    let daemon = world.daemon();
    let question = asked(&world);
    assert_eq!(question["text"], "Which table?", "{question}");
    assert_eq!(question["choices"], json!(["old", "new"]), "{question}");
    assert_eq!(question["needs_person"], false, "{question}");
    world.sessions("1")[0].expect("asked", None);
    assert_eq!(hold(&world)["reason"], "question");
    let status = world.vik(&["status"]).expect(0).out;
    assert_contains(&status, "QUESTIONS OF AGENTS");
    assert_contains(&status, "2. new");
    let refused = world.vik(&["answer", "1", "--choice", "3"]).expect(2);
    assert_contains(&refused.err, "no choice 3; it has 2");
    // The question outlives the daemon, and its death.
    daemon.kill();
    let daemon = world.daemon();
    assert_eq!(asked(&world)["id"], question["id"]);
    let answered = world.vik(&["answer", "--issue", "1", "--choice", "2"]).expect(0);
    assert_eq!(answered.out, "issue 1: answered\n");
    world.wait_for_state("1", "done");
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 2);
    let prompt = sessions[1].text(".prompt.md");
    assert_contains(&prompt, "You asked: Which table?");
    assert_contains(&prompt, ":\nnew\n");
    assert!(
        sessions[1].of_kind("resumed").len() == 1,
        "{:?}",
        sessions[1].events()
    );
    let answer = &sessions[1].of_kind("answer")[0];
    assert_eq!(
        (&answer["answer"], &answer["asked_by"]),
        (&json!("new"), &question["id"])
    );
    assert!(answer["by"].as_str().unwrap().contains("a person ("), "{answer}");
    assert_eq!(sessions[0].of_kind("question")[0]["question"], "Which table?");
    let runs = world.runs();
    let attempts: Vec<_> = runs[0]["attempts"].as_array().unwrap().iter().collect();
    let numbers: Vec<_> = attempts.iter().map(|one| one["attempt"].clone()).collect();
    assert_eq!(numbers, [json!(1), json!(1)], "the question uses up no attempt");
    let late = world.vik(&["answer", "1", "again"]);
    assert!(matches!(late.code, 2 | 8), "{}", late.err);
    daemon.stop().expect(0);
}

#[test]
fn agent_that_cannot_resume_gets_question_and_answer_beside_its_prompt() {
    let world = World::new(&[("1", "todo")]).script(ASKS);
    let daemon = world.daemon();
    asked(&world);
    world
        .vik(&["answer", "--issue", "1", "neither:", "a", "view"])
        .expect(0);
    world.wait_for_state("1", "done");
    let prompt = world.sessions("1")[1].text(".prompt.md");
    for part in ["SCRIPT: count n", "You asked: Which table?", "neither: a view"] {
        assert_contains(&prompt, part);
    }
    daemon.stop().expect(0);
}

#[test]
fn question_without_choices_needs_a_person_and_is_answered_without_a_daemon() {
    let script = ASKS.replace(r#","choices":["old","new"]"#, "");
    let world = World::new(&[("1", "todo")]).script(&script);
    world.once().expect(10);
    assert_eq!(world.sessions("1").len(), 1);
    for (args, code, error) in [
        (&["answer", "1", " "][..], 2, "the answer is empty"),
        (&["answer", "1", "a\u{7}"], 2, "the control character U+0007"),
        (
            &["answer", "1", "--choice", "1"],
            2,
            "the question has no choices",
        ),
        (&["answer", "9", "a"], 8, "unknown issue `9`"),
        (&["answer", "1", "a", "--stage", "other"], 2, "no stage `other`"),
        (
            &["answer", "1", "a", "--question", "x"],
            2,
            "is not the one that you named",
        ),
    ] {
        let refused = world.vik(args).expect(code);
        assert!(refused.err.contains(error), "{args:?}: {}", refused.err);
    }
    let large = world.env.work().join("large");
    std::fs::write(&large, vec![b'a'; 1 << 20]).unwrap();
    let large = large.display().to_string();
    let refused = world.vik(&["answer", "1", "--file", &large]).expect(2);
    assert_contains(&refused.err, "1048576 bytes; at most 65536");
    let answered = world.vik(&["answer", "1", "the new one"]).expect(0);
    assert_contains(&answered.err, "recorded for the next `vik run`");
    let again = world.vik(&["answer", "1", "another"]).expect(2);
    assert_contains(&again.err, "no open question");
    world.once().expect(0);
    let prompt = world.sessions("1")[1].text(".prompt.md");
    assert_contains(&prompt, "the new one");
    assert!(!prompt.contains("another"), "{prompt}");
}

#[test]
fn malformed_question_fails_with_the_line_and_does_nothing() {
    let script = r#"count n
on 1 run printf 'which one?\n' > "$VIK_QUESTIONS"
on 2 run rm "$VIK_QUESTIONS" && ln -s /etc/passwd "$VIK_QUESTIONS"
on 3 run rm "$VIK_QUESTIONS" && mkfifo "$VIK_QUESTIONS"
ok"#;
    let world = World::new(&[("1", "todo")])
        .script(script)
        .attempts(4)
        .work("verify", json!("touch verified"));
    world.once().expect(0);
    let sessions = world.sessions("1");
    let reason = |at: usize| sessions[at].expect("failed", Some("verify"))["reason"].clone();
    let first = reason(0);
    assert_contains(first.as_str().unwrap(), "line 1: not valid JSON");
    for at in [1, 2] {
        let reason = reason(at);
        assert_contains(reason.as_str().unwrap(), "cannot read the file");
    }
    let prompt = sessions[1].text(".prompt.md");
    assert_contains(&prompt, "What you wrote into the file for questions is refused");
}

#[test]
fn question_skips_verify_and_after_run() {
    let world = World::new(&[("1", "todo")])
        .script(ASKS)
        .work("verify", json!("touch verified"));
    let hook = world.value("/issue/stages/work/hooks/after_run");
    let hook = format!("touch finished; {}", hook.as_str().unwrap());
    let world = world.work("hooks", json!({"after_run": hook}));
    world.once().expect(10);
    for file in ["verified", "finished"] {
        assert!(!world.workspace("1").join(file).exists(), "{file}");
    }
    world.offline(&["answer", "1", "old"]).expect(0);
    world.once().expect(0);
    for file in ["verified", "finished"] {
        assert!(world.workspace("1").join(file).exists(), "{file}");
    }
}

#[test]
fn time_limit_answers_with_the_default_and_does_not_run_for_a_person() {
    let world = asking().work("questions", json!({"timeout": "2s", "default": "as before"}));
    let daemon = world.daemon();
    asked(&world);
    world.vik(&["takeover", "1"]).expect(0);
    let refused = world.vik(&["answer", "1", "new"]).expect(1);
    assert_contains(&refused.err, "a person has taken the issue over");
    let before = asked(&world)["timeout"]["at"].clone();
    world.vik(&["handback", "1"]).expect(0);
    let after = asked(&world)["timeout"]["at"].clone();
    assert!(after.as_str() > before.as_str(), "{before} {after}");
    world.wait_for_state("1", "done");
    let answer = &world.sessions("1")[1].of_kind("answer")[0];
    assert_eq!(answer["answer"], "as before");
    assert_eq!(answer["by"], "the time limit");
    daemon.stop().expect(0);
}

#[test]
fn agent_cannot_answer() {
    let vik = env!("CARGO_BIN_EXE_vik");
    let world = World::new(&[("1", "todo"), ("2", "todo")]).set("/agents/a/sandbox", json!("off"));
    let workflow = world.env.work().join("workflow.yml").display().to_string();
    let script =
        format!("run '{vik}' answer --workflow {workflow} 2 hello > refused 2>&1 || touch tried\nok");
    let world = world.script(&script);
    let daemon = world.daemon();
    world.wait_for_state("1", "done");
    assert!(world.workspace("1").join("tried").exists());
    let refused = world.workspace_file("1", "refused");
    assert_contains(&refused, "agents must not control");
    daemon.stop().expect(0);
}

#[test]
fn agent_without_a_tool_that_writes_does_not_learn_of_the_file() {
    let world = World::new(&[("1", "todo")]).agent("claude_code");
    let world = world
        .set("/agents/a/permission", json!("read-only"))
        .set("/agents/a/sandbox", json!("off"));
    world.once().expect(0);
    let prompt = world.session("1").text(".prompt.md");
    assert!(!prompt.contains("VIK_QUESTIONS"), "{prompt}");
}
