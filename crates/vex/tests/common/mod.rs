//! What the tests of the real `vex` program share.

#![allow(dead_code, reason = "no program of tests uses all of it")]
#![allow(clippy::print_stdout, reason = "it explains a failure")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::Value;

/// A folder with a workspace and a recording.
pub struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    /// Writes a recording. If it has no conversation, its lines are one for every prompt.
    pub fn new(lines: &[Value]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let mut text = "{\"kind\":\"recording\",\"version\":1}\n".to_owned();
        if !lines.iter().any(|line| line["kind"] == "conversation") {
            text += "{\"kind\":\"conversation\",\"name\":\"only\"}\n";
        }
        for line in lines {
            text += &format!("{line}\n");
        }
        std::fs::write(dir.path().join("model.jsonl"), text).unwrap();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn vex(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vex"));
        command
            .args(args)
            .current_dir(self.path("work"))
            .env_remove("VEX_REPLAY_DIR")
            .env("HOME", self.dir.path())
            .env("VEX_HOME", self.path("vex"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        command
    }

    /// Returns a run that answers from the recording.
    pub fn replay(&self, args: &[&str]) -> Command {
        let mut command = self.vex(&["exec", "--json", "--replay", "../model.jsonl"]);
        command.args(args);
        command
    }

    /// Replays the recording to its end.
    pub fn run(&self, args: &[&str]) -> (Vec<Value>, Output) {
        let output = self.replay(args).output().unwrap();
        (events(&output.stdout), output)
    }
}

/// Reads the events of a whole run.
pub fn events(bytes: &[u8]) -> Vec<Value> {
    let events: Vec<Value> = bytes
        .split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["v"], 1);
        assert_eq!(
            event["type"] == "end",
            index + 1 == events.len(),
            "the end, and nothing else, comes last"
        );
    }
    events
}

/// Random numbers, the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Kills a run after this number of events. Returns its session and how it ended.
pub fn kill_after(mut run: Child, events: u64) -> (String, ExitStatus) {
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let seen: Vec<String> = lines
        .by_ref()
        .take(usize::try_from(events).unwrap())
        .map(Result::unwrap)
        .collect();
    let start: Value = serde_json::from_str(&seen[0]).unwrap();
    run.kill().unwrap();
    let status = run.wait().unwrap();
    if status.code().is_some_and(|code| code != 0) {
        println!("{}", seen[seen.len().saturating_sub(3)..].join("\n"));
    }
    (start["session_id"].as_str().unwrap().to_owned(), status)
}
