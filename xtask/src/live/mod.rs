//! `cargo xtask live`: vex, and other agents for comparison, on two groups of tasks with a real
//! model on this machine.
//!
//! It takes long, so each finished attempt is a line in a file, and the next run continues after
//! it.

mod agents;
mod languages;
mod model;
mod proof;
mod report;
mod tasks;
mod venv;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use self::agents::Agent;
use self::languages::{Language, Toolchains};
use self::tasks::{Group, Task};
use crate::repo::{self, Context as _, TaskResult};

/// The tasks of the other agents: one of each kind of the small ones.
const COMPARED: [&str; 5] = [
    "create-text",
    "fix-sign",
    "rename-constant",
    "add-function",
    "read-log-cause",
];

/// `cargo xtask live`
#[derive(Debug, Args)]
pub struct LiveArgs {
    /// Tasks to run [default: all]
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// Group of tasks to run [default: all]
    #[arg(long, value_name = "GROUP")]
    group: Option<Group>,
    /// Number of tries of each task by vex
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    tries: u8,
    /// Agents to run: vex on all tasks, vex-text once on those of real work, the others once on five
    #[arg(long = "agent", value_name = "AGENT", default_values = ["vex", "codex", "opencode"])]
    agents: Vec<Agent>,
    /// Folder of the model, its server and the results [default: `live` in the target folder of cargo]
    #[arg(long, value_name = "DIR", env = "VIK_LIVE_DIR")]
    dir: Option<PathBuf>,
    /// Running model server, such as `http://127.0.0.1:8080` [default: install and start one]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Run no agent: check that no task counts as solved before it is, and that its solution does
    #[arg(long)]
    check_tasks: bool,
    /// Discard earlier results
    #[arg(long = "anew")]
    discard_results: bool,
    /// Write the table to docs/performance.md
    #[arg(long)]
    write: bool,
}

/// One attempt of an agent at a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Attempt {
    agent: Agent,
    task: String,
    number: u8,
    /// The protocol that it used.
    protocol: String,
    /// Whether the hidden check passed.
    solved: bool,
    /// Whether the agent reported success.
    claimed: bool,
    /// Whether the task's verify command passed afterwards; `None` without one, and in results of
    /// older versions.
    #[serde(default)]
    verified: Option<bool>,
    exit_code: Option<i32>,
    turns: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// The number of repaired tool calls.
    repaired: u64,
    seconds: f64,
}

impl Attempt {
    /// Returns whether the agent solved the task and reported it.
    fn is_success(&self) -> bool {
        self.solved && self.claimed
    }

    /// Returns whether the agent reported success while the verify command failed.
    fn is_false_claim(&self) -> bool {
        self.claimed && self.verified == Some(false)
    }
}

pub fn run(args: &LiveArgs) -> TaskResult {
    let dir = args.dir.clone().unwrap_or_else(|| repo::target().join("live"));
    let dir = std::fs::create_dir_all(&dir)
        .and_then(|()| dir.canonicalize())
        .context(format!("cannot create {}", dir.display()))?;
    let selected = tasks::load(args.group, &args.tasks)?;
    if args.check_tasks {
        let toolchains = Toolchains::install(&dir, languages(&selected));
        return proof::run(&selected, &toolchains, &dir.join("check-tasks"));
    }
    let results = dir.join("results.jsonl");
    if args.discard_results {
        let _ = std::fs::remove_file(&results);
    }
    let mut done = read(&results)?;
    let mut open = remaining_attempts(args, &selected, &done);
    if !open.is_empty() {
        let server = model::serve(&dir, args.server.as_deref())?;
        let toolchains = Toolchains::install(&dir, languages(&selected));
        open.retain(|(_, task, number)| {
            let lacks = task.lacks(&toolchains);
            if let Some(language) = lacks {
                eprintln!(
                    "skipped: {}, try {number}: {language} is not installed",
                    task.name
                );
            }
            lacks.is_none()
        });
        let due: BTreeSet<_> = open.iter().map(|(agent, _, _)| *agent).collect();
        let programs = agents::prepare(&dir, &due)?;
        for (nth, (agent, task, number)) in open.iter().enumerate() {
            eprint!(
                "{}/{}: {agent}, {}, try {number} … ",
                nth + 1,
                open.len(),
                task.name
            );
            let one = agents::attempt(&programs, *agent, task, *number, &server.url, &toolchains, &dir)?;
            eprintln!(
                "{} in {:.0} s, {} turns",
                match (one.solved, one.claimed) {
                    _ if one.is_false_claim() => "EXIT 0, CHECK FAILED",
                    (true, true) => "solved",
                    (true, false) => "solved, but not claimed",
                    (false, true) => "CLAIMED, NOT SOLVED",
                    (false, false) => "not solved",
                },
                one.seconds,
                one.turns
            );
            append(&results, &one)?;
            done.push(one);
        }
    }
    let table = report::tables(&done, &tasks::load(None, &[])?);
    println!("{table}");
    if args.write { report::write(&table) } else { Ok(()) }
}

fn languages(tasks: &[Task]) -> impl Iterator<Item = Language> {
    tasks.iter().filter_map(|task| task.language)
}

/// Returns the remaining attempts, vex first.
fn remaining_attempts<'a>(args: &LiveArgs, all: &'a [Task], done: &[Attempt]) -> Vec<(Agent, &'a Task, u8)> {
    let mut open = Vec::new();
    for &agent in &args.agents {
        let tries = if agent == Agent::Vex { args.tries } else { 1 };
        for number in 1..=tries {
            for task in all {
                let is_due = match agent {
                    Agent::Vex => true,
                    Agent::VexText => task.group == Group::Work,
                    Agent::Codex | Agent::Opencode => COMPARED.contains(&task.name.as_str()),
                };
                let is_done =
                    |one: &Attempt| one.agent == agent && one.task == task.name && one.number == number;
                if is_due && !done.iter().any(is_done) {
                    open.push((agent, task, number));
                }
            }
        }
    }
    open
}

fn read(path: &std::path::Path) -> TaskResult<Vec<Attempt>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(Vec::new());
    };
    // A truncated line is an attempt that was killed.
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

fn append(path: &std::path::Path, attempt: &Attempt) -> TaskResult {
    let line = serde_json::to_string(attempt).map_err(|error| error.to_string())?;
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .context(format!("cannot write {}", path.display()))?;
    writeln!(file, "{line}").context(format!("cannot write {}", path.display()))
}
