//! The real `vex` program: conversations that resume after their process ended in any way.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

mod common;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use common::{Dice, Fixture, kill_after};

/// A recording for prompts with the task.
fn recording(turns: &[Value]) -> Fixture {
    let conversation = json!({"kind": "conversation", "name": "only", "when": ["the task"]});
    Fixture::new(&[&[conversation], turns].concat())
}

fn log(fixture: &Fixture, id: &str) -> Vec<Value> {
    let text = fixture.read(&format!("vex/sessions/{id}.jsonl"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn runs(command: &str) -> Value {
    json!({"kind": "turn", "tool_calls": [{"tool": "run_command", "input": {"command": command}}]})
}

fn text_turn(text: &str) -> Value {
    json!({"kind": "turn", "text": text})
}

fn id(events: &[Value]) -> String {
    events[0]["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn session_resumes_after_a_limit() {
    let fixture = recording(&[
        runs("echo 1 >>out"),
        runs("echo 2 >>out"),
        text_turn("Both lines are written."),
    ]);
    let (events, output) = fixture.run(&["--max-turns", "1", "the task"]);
    assert_eq!(output.status.code(), Some(5));
    let id = id(&events);

    let (events, output) = fixture.run(&["--resume", &id, "go on"]);
    assert_eq!(output.status.code(), Some(0), "{events:?}");
    assert_eq!(events[0]["session_id"], id.as_str());
    assert_eq!(events[0]["resumed_from"], id.as_str());
    assert_eq!(fixture.read("work/out"), "1\n2\n");
    let kinds: Vec<_> = log(&fixture, &id)
        .iter()
        .map(|line| line["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds.join(" "),
        "session prompt environment message message end resumed prompt environment message message message end"
    );
    for (index, line) in log(&fixture, &id).iter().enumerate() {
        assert_eq!(line["seq"], index as u64 + 1);
    }
}

#[test]
fn answer_received_before_a_kill_is_not_requested_again() {
    let fixture = recording(&[runs("echo 1 >>out"), text_turn("The line is written.")]);
    let (events, _) = fixture.run(&["the task"]);
    let id = id(&events);
    let path = fixture.path(&format!("vex/sessions/{id}.jsonl"));
    let log = std::fs::read_to_string(&path).unwrap();
    let (without_end, end) = log.trim_end().rsplit_once('\n').unwrap();
    assert!(end.contains("\"end\""), "{end}");
    std::fs::write(&path, format!("{without_end}\n")).unwrap();

    // The recording is at its end: another request would fail.
    let (events, output) = fixture.run(&["--resume", &id, "-o", "../answer"]);
    assert_eq!(output.status.code(), Some(0), "{events:#?}");
    assert!(events.iter().all(|event| event["type"] != "usage"), "{events:#?}");
    let answer = fixture.read("answer");
    assert_eq!(answer, "The line is written.\n");
}

#[test]
fn fork_leaves_the_original_session_unchanged() {
    let fixture = recording(&[
        runs("echo 1 >>out"),
        runs("echo 2 >>out"),
        text_turn("Both lines are written."),
    ]);
    let (events, _) = fixture.run(&["the task"]);
    let first = id(&events);
    let before = log(&fixture, &first);

    let (events, output) = fixture.run(&["--fork", &format!("{first}@1"), "and once more"]);
    assert_eq!(output.status.code(), Some(0), "{events:?}");
    assert_ne!(id(&events), first);
    assert_eq!(events[0]["forked_from"], format!("{first}@1"));
    assert_eq!(fixture.read("work/out"), "1\n2\n2\n");
    assert_eq!(log(&fixture, &first), before);

    let (events, output) = fixture.run(&["--fork", &format!("{first}@7"), "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        events.last().unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("has only 3 turns")
    );
}

#[test]
fn session_that_cannot_resume_gives_its_reason() {
    let fixture = recording(&[text_turn("This is all that I say.")]);
    let unknown = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";
    let (events, output) = fixture.run(&["--resume", unknown, "x"]);
    assert_eq!(output.status.code(), Some(1));
    let message = events.last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("no session"), "{message}");

    let (_, output) = fixture.run(&["--resume", "../../etc/passwd", "x"]);
    assert_eq!(output.status.code(), Some(2));

    let (events, _) = fixture.run(&["the task"]);
    let id = id(&events);
    std::fs::create_dir(fixture.path("elsewhere")).unwrap();
    let (events, output) = fixture.run(&["-C", "../elsewhere", "--resume", &id, "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        events.last().unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("or fork it")
    );
}

#[test]
fn prune_lists_and_removes_old_sessions() {
    let fixture = recording(&[text_turn("This is all that I say.")]);
    let (events, _) = fixture.run(&["the task"]);
    let path = fixture.path(&format!("vex/sessions/{}.jsonl", id(&events)));
    let prune = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vex"));
        command
            .args(["sessions", "prune"])
            .args(args)
            .env("VEX_HOME", fixture.path("vex"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(prune(&["--yes"]), "no session is older than 30d\n");
    // As if it were long ago.
    let text = std::fs::read_to_string(&path).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["at"] = json!("2026-01-01T00:00:00Z");
        format!("{line}\n")
    };
    std::fs::write(&path, text.lines().map(line).collect::<String>()).unwrap();
    assert_eq!(prune(&[]), "1 session would be removed; confirm with --yes\n");
    assert!(path.exists());
    assert_eq!(prune(&["--yes"]), "removed 1 session\n");
    assert!(!path.exists());
}

#[test]
fn flag_no_session_writes_no_log() {
    let fixture = recording(&[text_turn("This is all that I say.")]);
    let (_, output) = fixture.run(&["--no-session", "the task"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!fixture.path("vex").exists());
}

#[test]
fn unwritable_home_is_a_warning() {
    let fixture = recording(&[text_turn("This is all that I say.")]);
    std::fs::write(fixture.path("vex"), "a file").unwrap();
    let (events, output) = fixture.run(&["the task"]);
    assert_eq!(output.status.code(), Some(0), "{events:?}");
    let warned = |event: &&Value| event["type"] == "warning";
    let warning = events.iter().find(warned).unwrap();
    assert!(
        warning["message"]
            .as_str()
            .unwrap()
            .contains("cannot be resumed later"),
        "{warning}"
    );
}

/// Killed at random points again and again, it reaches its end, and no call with a result is made
/// twice.
#[test]
fn resume_after_random_kills_repeats_no_finished_call() {
    const TURNS: u64 = 20;
    const FINAL_ANSWER: &str = "All lines are written.";
    let mut dice = Dice(7);
    let turns: Vec<Value> = (0..TURNS)
        .map(|turn| runs(&format!("echo {turn} >>out")))
        .chain([text_turn(FINAL_ANSWER)])
        .collect();
    let fixture = recording(&turns);
    let mut session: Option<String> = None;
    let mut kills = 0;
    loop {
        let mut command = match &session {
            None => fixture.replay(&["the task"]),
            Some(id) => fixture.replay(&["--resume", id]),
        };
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        // `session_start`, then some of the following events.
        let (id, status) = kill_after(child, 2 + dice.throw(9));
        // The last kill may have come between the final answer and the exit. Then the recording has
        // no turn that continues the conversation.
        let was_done = || {
            let answers = |line: &Value| line.to_string().contains(FINAL_ANSWER);
            session
                .as_ref()
                .is_some_and(|id| log(&fixture, id).iter().any(answers))
        };
        if status.code() == Some(0) || (status.code().is_some() && was_done()) {
            break;
        }
        assert_eq!(status.code(), None, "killed, or done");
        kills += 1;
        assert!(kills < 500, "it never comes to its end");
        // A process that died before it created its log left nothing to resume.
        session = fixture
            .path(&format!("vex/sessions/{id}.jsonl"))
            .exists()
            .then_some(id);
        if session.is_none() {
            assert!(!fixture.path("work/out").exists());
        }
    }
    assert!(kills > 2, "{kills}");

    let mut finished: BTreeMap<String, bool> = BTreeMap::new();
    let mut commands: BTreeMap<String, String> = BTreeMap::new();
    for line in log(&fixture, &session.unwrap()) {
        let message = &line["message"];
        for block in message["blocks"].as_array().into_iter().flatten() {
            if block["type"] == "tool_call" {
                let call = block["call_id"].as_str().unwrap().to_owned();
                let command = block["input"]["json"]["command"].as_str().unwrap().to_owned();
                assert!(
                    commands.insert(call, command).is_none(),
                    "asked for twice: {line}"
                );
            }
        }
        if message["role"] == "tool" {
            let call = message["call_id"].as_str().unwrap().to_owned();
            let whole = !message["output"].as_str().unwrap().starts_with("[interrupted");
            assert!(finished.insert(call, whole).is_none(), "two results: {line}");
        }
    }
    assert_eq!(commands.len() as u64, TURNS);
    assert_eq!(finished.len() as u64, TURNS, "each call has its result");
    let out = fixture.read("work/out");
    for (call, command) in commands {
        let number = command.split(' ').nth(1).unwrap();
        let times = out.lines().filter(|line| *line == number).count();
        if finished[&call] {
            assert_eq!(times, 1, "{command}");
        } else {
            assert!(times <= 1, "{command}");
        }
    }
}
