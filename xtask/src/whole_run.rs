//! `cargo xtask whole-run`: this repository as the workspace, the real Codex and Claude Code on the
//! scripted model server, three issues of the embedded tracker, two stages each, two at once. The
//! result is a report in Markdown.

mod model;
mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use vik_testkit::server::{ModelServer, ModelServerOptions};
use vik_testkit::{RealAgent, TestEnv};

use crate::repo::{self, Context as _, TaskResult};

/// `cargo xtask whole-run`
#[derive(Debug, Args)]
pub struct WholeRunArgs {
    /// Write the report to this file [default: stdout]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// The environment and the model server of the run.
struct Scene {
    env: TestEnv,
    server: ModelServer,
}

/// The output of a `vik` command.
struct CommandOutput {
    out: String,
    err: String,
}

/// The data for the report.
struct RunRecord {
    versions: Vec<String>,
    workflow: String,
    first: CommandOutput,
    second: CommandOutput,
    issues: String,
    branches: Vec<(String, String)>,
    log: String,
    requests: usize,
}

pub fn run(args: &WholeRunArgs) -> TaskResult {
    repo::run(repo::cargo().args(["build", "--quiet", "--package", "vik", "--bin", "vik"]))?;
    let scene = Scene::new()?;
    let story = scene.execute()?;
    let text = report::markdown(&story, &scene.private_paths());
    match &args.report {
        Some(path) => repo::write(path, &text),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

impl Scene {
    fn new() -> TaskResult<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let env = TestEnv::new(own.with_file_name("vik"));
        for agent in [RealAgent::Codex, RealAgent::Claude] {
            let program = agent
                .installed()
                .ok_or("the agent CLIs are not installed: run `npm ci --prefix tests/agents`")?;
            env.link(agent.name(), &program);
        }
        let options = ModelServerOptions {
            scripts: model::scripts()?,
            ..ModelServerOptions::default()
        };
        let server = ModelServer::start_with(options).context("cannot start the model server")?;
        let workflow = include_str!("whole_run/workflow.yml")
            .replace("@OPENAI@", &server.v1())
            .replace("@ANTHROPIC@", &server.url());
        env.workflow(&workflow);
        Ok(Self { env, server })
    }

    fn execute(&self) -> TaskResult<RunRecord> {
        let origin = self.env.work().join("origin.git");
        repo::output(
            self.env
                .command("git")
                .args(["clone", "--quiet", "--bare"])
                .arg(repo::root())
                .arg(&origin),
        )?;
        // The commit that is checked out here is `main` there.
        self.git(&["update-ref", "refs/heads/main", "HEAD"])?;
        for (title, body) in model::ISSUES {
            repo::output(&mut self.env.vik(["issue", "new", title, "--body", body]))?;
        }
        let versions = [("vik", "vik"), ("codex", "codex"), ("claude", "claude")];
        let versions = versions.map(|(name, program)| {
            let version = repo::output(
                self.env
                    .command(self.env.path("bin").join(program))
                    .arg("--version"),
            );
            version.map(|text| format!("{name}: {}", text.trim()))
        });
        let versions = versions.into_iter().collect::<TaskResult<_>>()?;

        let first = self.vik_run(0)?;
        let failures = self.server.failures();
        if !failures.is_empty() {
            return Err(format!(
                "requests lack the tool output that the model expected:\n{}",
                failures.join("\n")
            ));
        }
        let requests = self.server.turns().len();
        let second = self.vik_run(0)?;
        let left = self.env.leftovers();
        if !left.is_empty() {
            return Err(format!("processes are left over: {left:?}"));
        }
        let branches = (1..=model::ISSUES.len()).map(|issue| {
            let branch = format!("issue-{issue}");
            let range = format!("main..{branch}");
            let log = self.git(&["log", "--reverse", "--stat=100", "--format=%n%h %an: %s", &range])?;
            Ok((branch, log.trim().to_owned()))
        });
        Ok(RunRecord {
            versions,
            workflow: std::fs::read_to_string(self.env.work().join("workflow.yml")).unwrap_or_default(),
            first,
            second,
            issues: repo::output(&mut self.env.vik(["issue", "list"]))?,
            branches: branches.collect::<TaskResult<_>>()?,
            log: self.log()?,
            requests,
        })
    }

    fn git(&self, args: &[&str]) -> TaskResult<String> {
        repo::output(
            self.env
                .command("git")
                .arg("-C")
                .arg(self.env.work().join("origin.git"))
                .args(args),
        )
    }

    /// Runs `vik run --once` with the API keys that the CLIs require, and the toolchain of the
    /// caller.
    fn vik_run(&self, expected: i32) -> TaskResult<CommandOutput> {
        let mut vik = self.env.vik(["run", "--once"]);
        vik.env("OPENAI_API_KEY", "sk-scripted")
            .env("ANTHROPIC_API_KEY", "sk-scripted");
        toolchain(&mut vik);
        let output = vik.stdin(Stdio::null()).output().context("cannot start vik")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = CommandOutput {
            out: text(&output.stdout),
            err: text(&output.stderr),
        };
        if output.status.code() == Some(expected) {
            return Ok(printed);
        }
        Err(format!(
            "vik run ended with {}\n{}{}",
            output.status, printed.err, printed.out
        ))
    }

    /// Returns the log of the implementation of the first issue.
    fn log(&self) -> TaskResult<String> {
        let runs = repo::output(&mut self.env.vik(["runs", "--json", "--issue", "1"]))?;
        let runs: serde_json::Value = serde_json::from_str(&runs).context("vik runs")?;
        let runs = runs.as_array().map(Vec::as_slice).unwrap_or_default();
        let run = runs.iter().find(|run| run["stage"] == "implement");
        let path = run
            .and_then(|run| run["attempts"][0]["log"].as_str())
            .ok_or("no run of issue 1, implement")?;
        repo::read(Path::new(path))
    }

    /// Returns the paths of this machine with their placeholders in a report.
    fn private_paths(&self) -> Vec<(String, &'static str)> {
        let root = self.env.root().display().to_string();
        // The key of a workflow in Vik's home is its escaped path.
        let key = root.replace('/', "-");
        let repository = repo::root().display().to_string();
        let mut paths = vec![
            (format!("{root}/work"), "…"),
            (root, "…"),
            (format!("{key}-work-"), "…-"),
            (key, "…"),
        ];
        paths.push((repository, "…/vik"));
        paths.extend(home().map(|home| (home.display().to_string(), "…")));
        paths
    }
}

fn toolchain(command: &mut Command) {
    for (name, below_home) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let given = std::env::var_os(name).map(PathBuf::from);
        if let Some(path) = given.or_else(|| home().map(|home| home.join(below_home))) {
            command.env(name, path);
        }
    }
    // The dependencies are built already; this task's own folder is `target/debug`.
    let target = std::env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.parent()?.to_owned()));
    command.env(
        "CARGO_TARGET_DIR",
        target.unwrap_or_else(|| repo::root().join("target")),
    );
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}
