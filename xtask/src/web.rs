//! `cargo xtask web`: the dashboard in a real browser, and the HTTP API against its own OpenAPI
//! document. `cargo xtask web shots` makes the pictures of the documentation.

mod daemon;
mod live;

use std::path::Path;
use std::process::Command;

use clap::{Args, ValueEnum};
use serde_json::Value;

use self::daemon::{Daemon, Scene, TOKEN};
use crate::repo::{self, Context as _, TaskResult};

/// The version of schemathesis.
const SCHEMATHESIS: &str = "4.32.5";

/// `cargo xtask web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Parts to test [default: all tests]
    #[arg(value_enum)]
    only: Vec<Part>,
    /// Number of cases that schemathesis generates for each operation
    #[arg(long, value_name = "N", default_value_t = 25)]
    examples: u32,
    /// Seed of the generated cases
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// A part of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Pages in Chromium, with a mock of the API
    Pages,
    /// Pages of a real daemon
    Daemon,
    /// API of a real daemon, with schemathesis
    Api,
    /// Metrics of a real daemon, with promtool
    Metrics,
    /// Pictures of the dashboard in docs/usage/images; only when named
    Shots,
}

pub fn run(args: &WebArgs) -> TaskResult {
    let takes_shots = args.only.contains(&Part::Shots);
    let wanted = |part: Part| args.only.is_empty() || args.only.contains(&part);
    let pages = repo::root().join("tests/dashboard");
    if wanted(Part::Pages) || wanted(Part::Daemon) || takes_shots {
        repo::installed("chromium", "chromium")?;
        repo::run(repo::program("npm").args(["ci", "--silent", "--prefix", "tests/dashboard"]))?;
    }
    if wanted(Part::Pages) {
        let tests = ["--test", "--test-concurrency=1", "--test-reporter=spec"];
        repo::run(repo::program("node").args(tests).current_dir(&pages))?;
    }
    if takes_shots {
        let images = repo::root().join("docs/usage/images");
        repo::run(
            repo::program("node")
                .arg("shots.mjs")
                .arg(images)
                .current_dir(&pages),
        )?;
        live::shots()?;
    }
    if wanted(Part::Daemon) {
        let daemon = Daemon::start(&every_kind())?;
        for tests in ["any.test.mjs", "sign_in.test.mjs"] {
            let mut node = repo::program("node");
            // A link works once: each file gets one of its own.
            node.args(["--test", "--test-reporter=spec", tests])
                .env("VIK_DASHBOARD_URL", daemon.link()?);
            repo::run(node.current_dir(&pages))?;
        }
    }
    if wanted(Part::Api) {
        schemathesis(&Daemon::start(&every_kind())?, args)?;
    }
    if wanted(Part::Metrics) {
        repo::installed("promtool", "prometheus")?;
        let daemon = Daemon::start(&every_kind())?;
        let header = format!("Authorization: Bearer {TOKEN}");
        let url = format!("http://{}/metrics", daemon.address);
        let curl = ["--silent", "--show-error", "--fail", "--noproxy", "*", "--header"];
        let text = repo::output(Command::new("curl").args(curl).arg(&header).arg(&url))?;
        let file = daemon.folder().join("metrics.txt");
        repo::write(&file, &text)?;
        let input = std::fs::File::open(&file).context("cannot read the metrics")?;
        repo::run(Command::new("promtool").args(["check", "metrics"]).stdin(input))?;
        println!("promtool accepts {} lines of metrics", text.lines().count());
    }
    Ok(())
}

fn schemathesis(daemon: &Daemon, args: &WebArgs) -> TaskResult {
    let folder = repo::target().join("ci-tools/schemathesis");
    let program = folder.join("bin/schemathesis");
    let version = |program: &Path| repo::output(Command::new(program).arg("--version")).unwrap_or_default();
    if !version(&program).contains(SCHEMATHESIS) {
        eprintln!("Installing schemathesis {SCHEMATHESIS}");
        repo::run(repo::program("python3").args(["-m", "venv"]).arg(&folder))?;
        let wanted = format!("schemathesis=={SCHEMATHESIS}");
        repo::run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", &wanted]))?;
    }
    let mut command = Command::new(program);
    command
        .current_dir(daemon.folder())
        .arg("run")
        .arg(format!("http://{}/api/v1/openapi.json", daemon.address))
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--checks", "all", "--max-examples", &args.examples.to_string()])
        .args(["--seed", &args.seed.to_string()])
        // The former never ends, the latter ends the daemon.
        .args([
            "--exclude-path",
            "/api/v1/events",
            "--exclude-path",
            "/api/v1/drain",
        ]);
    repo::run(&mut command)
}

/// The workflow of a daemon with data of every kind.
const WORKFLOW: &str = "
workspace: {root: home}
agents:
  slow: {runtime: command, command: [sh, -c, 'while :; do echo step; echo note >&2; sleep 1; done']}
  bad: {runtime: command, command: [sh, -c, 'echo trying; exit 3']}
issues: {pull: {command: cat issues.json, idle_sec: 1}}
issue:
  stages:
    implement:
      when: {state: todo}
      agent: slow
      prompt: 'do {{ issue.title }}'
      hooks: {before_run: 'git init -q . && echo new > new.txt'}
    review: {when: {state: review}, agent: bad, prompt: review, retry: {max_attempts: 2, initial_backoff: 1s}}
    later: {when: {state: later}, agent: bad, prompt: later, retry: {max_attempts: 5, initial_backoff: 5m}}
";

const ISSUES: &str = r#"[
  {"id": "1", "title": "Fix <img src=x onerror=alert(1)>", "state": "todo"},
  {"id": "a/b c?#%", "title": "An id that must be escaped", "state": "todo"},
  {"id": "3", "title": "Review me", "state": "review"},
  {"id": "4", "title": "Much later", "state": "later"}
]"#;

/// Returns a scene with data of every kind.
fn every_kind() -> Scene {
    Scene {
        workflow: WORKFLOW.to_owned(),
        issues: ISSUES,
        is_ready: |status: &Value| {
            let count = |list: &str| status[list].as_array().map_or(0, Vec::len);
            count("sessions") == 2 && count("parked") == 1 && count("waiting") == 1
        },
    }
}
