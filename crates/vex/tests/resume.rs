//! The real `vex` program: conversations that go on after their process ended, however it ended.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new(turns: &[Value]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let mut text = "{\"kind\":\"recording\",\"version\":1}\n\
                        {\"kind\":\"conversation\",\"name\":\"only\",\"when\":[\"the task\"]}\n"
            .to_owned();
        for turn in turns {
            text += &format!("{turn}\n");
        }
        std::fs::write(dir.path().join("model.jsonl"), text).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn vex(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vex"));
        command
            .args(["exec", "--json", "--replay", "../model.jsonl"])
            .args(args)
            .current_dir(self.path("work"))
            .env_remove("VEX_REPLAY_DIR")
            .env("HOME", self.dir.path())
            .env("VEX_HOME", self.path("vex"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> (Vec<Value>, Output) {
        let output = self.vex(args).output().unwrap();
        let lines = String::from_utf8(output.stdout.clone()).unwrap();
        let events = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        (events.collect(), output)
    }

    fn log(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(&format!("vex/sessions/{id}.jsonl"))).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn runs(command: &str) -> Value {
    json!({"kind": "turn", "tool_calls": [{"tool": "run_command", "input": {"command": command}}]})
}

fn says(text: &str) -> Value {
    json!({"kind": "turn", "text": text})
}

fn id(events: &[Value]) -> String {
    events[0]["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_conversation_goes_on_where_its_limit_ended_it() {
    let place = Place::new(&[
        runs("echo 1 >>out"),
        runs("echo 2 >>out"),
        says("Both lines are written."),
    ]);
    let (events, output) = place.run(&["--max-turns", "1", "the task"]);
    assert_eq!(output.status.code(), Some(5));
    let id = id(&events);

    let (events, output) = place.run(&["--resume", &id, "go on"]);
    assert_eq!(output.status.code(), Some(0), "{events:?}");
    assert_eq!(events[0]["session_id"], id.as_str());
    assert_eq!(events[0]["resumed_from"], id.as_str());
    assert_eq!(std::fs::read_to_string(place.path("work/out")).unwrap(), "1\n2\n");
    let kinds: Vec<_> = place
        .log(&id)
        .iter()
        .map(|line| line["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds.join(" "),
        "session prompt environment message message end resumed prompt environment message message message end"
    );
    for (index, line) in place.log(&id).iter().enumerate() {
        assert_eq!(line["seq"], index as u64 + 1);
    }
}

#[test]
fn an_answer_that_was_there_when_it_was_killed_is_the_end_and_not_asked_for_again() {
    let place = Place::new(&[runs("echo 1 >>out"), says("The line is written.")]);
    let (events, _) = place.run(&["the task"]);
    let id = id(&events);
    let path = place.path(&format!("vex/sessions/{id}.jsonl"));
    let log = std::fs::read_to_string(&path).unwrap();
    let (without_end, end) = log.trim_end().rsplit_once('\n').unwrap();
    assert!(end.contains("\"end\""), "{end}");
    std::fs::write(&path, format!("{without_end}\n")).unwrap();

    // The recording has nothing more to say: another request would fail.
    let (events, output) = place.run(&["--resume", &id, "-o", "../answer"]);
    assert_eq!(output.status.code(), Some(0), "{events:#?}");
    assert!(events.iter().all(|event| event["type"] != "usage"), "{events:#?}");
    let answer = std::fs::read_to_string(place.path("answer")).unwrap();
    assert_eq!(answer, "The line is written.\n");
}

#[test]
fn a_branch_leaves_the_other_one_as_it_was() {
    let place = Place::new(&[
        runs("echo 1 >>out"),
        runs("echo 2 >>out"),
        says("Both lines are written."),
    ]);
    let (events, _) = place.run(&["the task"]);
    let first = id(&events);
    let before = place.log(&first);

    let (events, output) = place.run(&["--fork", &format!("{first}@1"), "and once more"]);
    assert_eq!(output.status.code(), Some(0), "{events:?}");
    assert_ne!(id(&events), first);
    assert_eq!(events[0]["forked_from"], format!("{first}@1"));
    assert_eq!(
        std::fs::read_to_string(place.path("work/out")).unwrap(),
        "1\n2\n2\n"
    );
    assert_eq!(place.log(&first), before);

    let (events, output) = place.run(&["--fork", &format!("{first}@7"), "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        events.last().unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("has only 3 turns")
    );
}

#[test]
fn what_cannot_go_on_says_so() {
    let place = Place::new(&[says("This is all that I say.")]);
    let unknown = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";
    let (events, output) = place.run(&["--resume", unknown, "x"]);
    assert_eq!(output.status.code(), Some(1));
    let message = events.last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("no session"), "{message}");

    let (_, output) = place.run(&["--resume", "../../etc/passwd", "x"]);
    assert_eq!(output.status.code(), Some(2));

    let (events, _) = place.run(&["the task"]);
    let id = id(&events);
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    let (events, output) = place.run(&["-C", "../elsewhere", "--resume", &id, "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        events.last().unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("or fork it")
    );
}

#[test]
fn old_sessions_are_shown_and_removed_where_that_is_wanted() {
    let place = Place::new(&[says("This is all that I say.")]);
    let (events, _) = place.run(&["the task"]);
    let path = place.path(&format!("vex/sessions/{}.jsonl", id(&events)));
    let prune = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vex"));
        command
            .args(["sessions", "prune"])
            .args(args)
            .env("VEX_HOME", place.path("vex"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(prune(&["--yes"]), "nothing is older than 720h\n");
    // As if it had been long ago.
    let text = std::fs::read_to_string(&path).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["at"] = json!("2026-01-01T00:00:00Z");
        format!("{line}\n")
    };
    std::fs::write(&path, text.lines().map(line).collect::<String>()).unwrap();
    assert_eq!(prune(&[]), "1 session would be removed: say so with --yes\n");
    assert!(path.exists());
    assert_eq!(prune(&["--yes"]), "removed 1 session\n");
    assert!(!path.exists());
}

#[test]
fn nothing_is_kept_where_nothing_is_to_be_kept() {
    let place = Place::new(&[says("This is all that I say.")]);
    let (_, output) = place.run(&["--no-session", "the task"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!place.path("vex").exists());
}

#[test]
fn a_home_that_cannot_be_written_stops_no_work_but_is_told() {
    let place = Place::new(&[says("This is all that I say.")]);
    std::fs::write(place.path("vex"), "a file").unwrap();
    let (events, output) = place.run(&["the task"]);
    assert_eq!(output.status.code(), Some(0), "{events:?}");
    let warned = |event: &&Value| event["type"] == "warning";
    let warning = events.iter().find(warned).unwrap();
    assert!(
        warning["message"].as_str().unwrap().contains("not kept"),
        "{warning}"
    );
}

/// Random numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Killed at random points again and again, it comes to its end, and no call that has a result was made twice.
#[test]
fn killed_at_random_points_it_repeats_no_finished_call() {
    const TURNS: u64 = 20;
    let mut dice = Dice(7);
    let turns: Vec<Value> = (0..TURNS)
        .map(|turn| runs(&format!("echo {turn} >>out")))
        .chain([says("All lines are written.")])
        .collect();
    let place = Place::new(&turns);
    let mut session: Option<String> = None;
    let mut kills = 0;
    loop {
        let mut command = match &session {
            None => place.vex(&["the task"]),
            Some(id) => place.vex(&["--resume", id]),
        };
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut events = BufReader::new(child.stdout.take().unwrap()).lines();
        // `session_start`, then some of what follows.
        let heard: Vec<String> = events
            .by_ref()
            .take(2 + dice.throw(9) as usize)
            .map(Result::unwrap)
            .collect();
        let start: Value = serde_json::from_str(&heard[0]).unwrap();
        let id = start["session_id"].as_str().unwrap().to_owned();
        child.kill().unwrap();
        let status = child.wait().unwrap();
        if status.code() == Some(0) {
            break;
        }
        assert_eq!(status.code(), None, "killed, or done: {heard:#?}");
        kills += 1;
        assert!(kills < 500, "it never comes to its end");
        // A process that died before its log began left nothing to go on with.
        session = place
            .path(&format!("vex/sessions/{id}.jsonl"))
            .exists()
            .then_some(id);
        if session.is_none() {
            assert!(!place.path("work/out").exists());
        }
    }
    assert!(kills > 2, "{kills}");

    let mut finished: BTreeMap<String, bool> = BTreeMap::new();
    let mut commands: BTreeMap<String, String> = BTreeMap::new();
    for line in place.log(&session.unwrap()) {
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
    let out = std::fs::read_to_string(place.path("work/out")).unwrap();
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
