//! The real `vex` program with a scripted model server: hundreds of turns, megabytes of output, and
//! kills in between.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use vik_testkit::server::ModelServer;

use common::{Dice, kill_after};

const TASK: &str = "KEY: long\nTranslate every file of the catalogue, one after the other.";

struct Fixture {
    dir: tempfile::TempDir,
    server: ModelServer,
}

impl Fixture {
    fn new(script: Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::create_dir(dir.path().join("vex")).unwrap();
        let settings = "[models.scripted]\ncontext_window = 24000\n";
        std::fs::write(dir.path().join("vex/config.toml"), settings).unwrap();
        let server = ModelServer::start_json(script).unwrap();
        Self { dir, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, args: &[&str]) -> Child {
        let url = self.server.v1();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vex"));
        command
            .args([
                "exec",
                "--json",
                "-m",
                "scripted",
                "--provider",
                "local",
                "--base-url",
                &url,
            ])
            .args(["--max-turns", "1000"])
            .args(args)
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("VEX_HOME", self.path("vex"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The messages of each request, each as the text that was sent.
    fn requests(&self) -> Vec<Vec<String>> {
        let turns = self.server.turns();
        let bodies = turns.iter().map(|turn| turn.body["messages"].as_array().unwrap());
        bodies
            .map(|messages| messages.iter().map(Value::to_string).collect())
            .collect()
    }
}

/// The peak memory of a process, in KiB.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn three_hundred_turns_with_two_megabytes_of_output() {
    const TURNS: usize = 300;
    // The plan changes now and then.
    let plan = |number: usize| {
        json!({"tools": [{"call": {"name": "update_plan", "input": {"steps": [
            {"text": format!("files up to {number}"), "status": "done"},
            {"text": "all other files of the catalogue", "status": "in_progress"}]}}}]})
    };
    let turns: Vec<Value> = (0..TURNS)
        .map(|number| match number {
            n if n % 50 == 0 => plan(n),
            n => json!({"run": format!("seq -f 'file {n} line %g: some words' 1 260")}),
        })
        .chain([json!({"text": "All files of the catalogue are translated."})])
        .collect();
    let fixture = Fixture::new(json!({ "turns": turns }));
    let mut child = fixture.start(&[TASK]);
    let (mut output, mut memory, mut compactions, mut results) = (0, Vec::new(), 0, 0);
    let mut end = Value::Null;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match event["type"].as_str().unwrap() {
            "tool_result" => {
                output += event["output"].as_str().unwrap().len();
                results += 1;
                if results % 50 == 0 {
                    memory.extend(peak(child.id()));
                }
            }
            "compaction" => compactions += 1,
            "end" => end = event,
            _ => {}
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "{end}");
    assert!(output > 2_000_000, "{output} bytes of output");
    assert!(compactions > 10, "{compactions}");

    let requests = fixture.requests();
    let (mut extends, mut bytes, mut extended_bytes) = (0, 0, 0);
    for (number, pair) in requests.windows(2).enumerate() {
        let all = pair[1].concat();
        assert!(
            all.contains("Translate every file of the catalogue"),
            "request {number}"
        );
        assert!(
            all.contains("all other files of the catalogue"),
            "request {number}: the plan"
        );
        bytes += all.len();
        if pair[1].starts_with(&pair[0]) {
            extends += 1;
            extended_bytes += all.len();
        }
    }
    // A compaction breaks the row once; twice if the model was asked for a summary.
    assert!(
        extends + 2 * compactions >= requests.len() - 1,
        "{extends} of {}",
        requests.len()
    );
    assert!(
        extended_bytes * 100 > bytes * 80,
        "{extended_bytes} of {bytes} bytes"
    );
    println!(
        "{} requests, {extends} extend the one before; {compactions} compactions; peak memory by 50 results, KiB: {memory:?}",
        requests.len()
    );
    // It does not grow with the conversation.
    if let (Some(first), Some(last)) = (memory.get(1), memory.last()) {
        assert!(*last < first + 8 * 1024, "{memory:?}");
    }
}

#[test]
fn resume_over_compactions_repeats_no_finished_call() {
    const TURNS: usize = 60;
    let turns: Vec<Value> = (0..TURNS)
        .map(|number| json!({"run": format!("echo {number} >>out; seq -f 'file {number} line %g: some words' 1 300")}))
        .chain([json!({"text": "All files of the catalogue are translated."})])
        .collect();
    let fixture = Fixture::new(json!({ "turns": turns }));
    let mut dice = Dice(11);
    let mut session: Option<String> = None;
    let mut kills = 0;
    loop {
        let child = match &session {
            None => fixture.start(&[TASK]),
            Some(id) => fixture.start(&["--resume", id]),
        };
        let (id, status) = kill_after(child, 2 + dice.throw(30));
        if status.code() == Some(0) {
            break;
        }
        assert_eq!(status.code(), None, "killed, or done");
        kills += 1;
        assert!(kills < 200, "it never comes to its end");
        session = fixture
            .path(&format!("vex/sessions/{id}.jsonl"))
            .exists()
            .then_some(id);
    }
    assert!(kills > 3, "{kills}");
    let log =
        std::fs::read_to_string(fixture.path(&format!("vex/sessions/{}.jsonl", session.unwrap()))).unwrap();
    let mut commands: BTreeMap<String, String> = BTreeMap::new();
    let (mut finished, mut compactions) = (Vec::new(), 0);
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let message = &line["message"];
        compactions += usize::from(line["kind"] == "compaction");
        for block in message["blocks"].as_array().into_iter().flatten() {
            if block["type"] == "tool_call" {
                let command = block["input"]["json"]["command"].as_str().unwrap();
                commands.insert(block["call_id"].as_str().unwrap().to_owned(), command.to_owned());
            }
        }
        if message["role"] == "tool" && !message["output"].as_str().unwrap().starts_with("[interrupted") {
            finished.push(message["call_id"].as_str().unwrap().to_owned());
        }
    }
    assert!(compactions > 0, "some runs continued over a compaction");
    let out = std::fs::read_to_string(fixture.path("work/out")).unwrap();
    for call in finished {
        let number = commands[&call].split(' ').nth(1).unwrap().to_owned();
        let times = out.lines().filter(|line| *line == number).count();
        assert_eq!(times, 1, "{}", commands[&call]);
    }
    for number in 0..TURNS {
        let times = out.lines().filter(|line| *line == number.to_string()).count();
        assert!(times <= 1, "{number} was run {times} times");
    }
    // Each request satisfies the requirements of providers and contains the task.
    for request in fixture.requests() {
        assert!(request.concat().contains("Translate every file of the catalogue"));
    }
    println!("{kills} kills, {compactions} compactions");
}
