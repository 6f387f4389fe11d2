//! Starts each agent on a task and reads its output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vik_testkit::RealAgent;

use super::Attempt;
use super::languages::Toolchains;
use super::tasks::Task;
use crate::repo::{self, Context as _, TaskResult};

/// The name of the local model.
const MODEL: &str = "qwen2.5-coder-1.5b";
/// The open agent that is compared with vex and Codex, and its version.
const OPENCODE: &str = "opencode-ai@1.18.33";
/// The timeout of an attempt, in seconds.
const TIMEOUT_S: u64 = 700;

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agent {
    /// Built-in agent
    Vex,
    /// Built-in agent with its tools described in the prompt: the baseline of small models
    VexText,
    /// Codex CLI
    Codex,
    /// opencode
    Opencode,
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vex => "vex",
            Self::VexText => "vex, `tool_calls = \"text\"`",
            Self::Codex => "Codex CLI",
            Self::Opencode => "opencode",
        })
    }
}

/// Builds and installs agents.
pub fn prepare(dir: &Path, agents: &BTreeSet<Agent>) -> TaskResult<BTreeMap<Agent, PathBuf>> {
    let program = |agent| match agent {
        Agent::Vex | Agent::VexText => repo::release("vex", "vex"),
        Agent::Codex => {
            let hint = "Codex CLI is not installed: run `npm ci --prefix tests/agents`";
            RealAgent::Codex.native().ok_or_else(|| hint.to_owned())
        }
        Agent::Opencode => opencode(dir),
    };
    agents.iter().map(|&agent| Ok((agent, program(agent)?))).collect()
}

fn opencode(dir: &Path) -> TaskResult<PathBuf> {
    let place = dir.join("opencode");
    let program = place.join("node_modules/.bin/opencode");
    if !program.exists() {
        eprintln!("Installing opencode (only once)");
        let mut npm = repo::program("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
        repo::run(npm.arg(&place).arg(OPENCODE))?;
    }
    Ok(program)
}

/// Runs an agent on a task once.
pub fn attempt(
    programs: &BTreeMap<Agent, PathBuf>,
    agent: Agent,
    task: &Task,
    number: u8,
    url: &str,
    toolchains: &Toolchains,
    dir: &Path,
) -> TaskResult<Attempt> {
    // Always the same path: text about it stays in the server's cache between attempts, for every
    // agent.
    let scratch = dir.join("try");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch).context("cannot remove the files of the last try")?;
    }
    let (work, home) = (scratch.join("work"), scratch.join("home"));
    std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    task.lay_out(&work)?;
    // One protocol per attempt: all protocols of the server are used.
    let protocol = match (agent, number % 3) {
        (Agent::Vex, 1) | (Agent::VexText | Agent::Opencode, _) => "chat",
        (Agent::Vex, 2) => "messages",
        (Agent::Vex, _) | (Agent::Codex, _) => "responses",
    };
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &TIMEOUT_S.to_string()]);
    command.arg(
        programs
            .get(&agent)
            .ok_or_else(|| format!("{agent} is not prepared"))?,
    );
    match agent {
        Agent::Vex | Agent::VexText => vex(&mut command, agent, task, protocol, url, toolchains),
        Agent::Codex => codex(&mut command, task, url),
        Agent::Opencode => opencode_run(&mut command, task, url),
    }
    toolchains.apply(&mut command);
    command.current_dir(&work).env("HOME", &home);
    for name in [
        "VEX_HOME",
        "CODEX_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
    ] {
        command.env_remove(name);
    }
    let start = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(format!("cannot start {agent}"))?;
    let seconds = start.elapsed().as_secs_f64();
    let name = format!("{agent:?}").to_lowercase();
    let transcript = dir.join(format!("{name}-{}-{number}.log", task.name));
    let mut kept = output.stdout.clone();
    kept.extend_from_slice(&output.stderr);
    std::fs::write(&transcript, kept).context(format!("cannot write {}", transcript.display()))?;
    // The hidden check comes last: it may add files.
    let verified = task.is_verified(&work, toolchains);
    let mut attempt = Attempt {
        agent,
        task: task.name.clone(),
        number,
        protocol: protocol.to_owned(),
        solved: task.is_solved(&work, toolchains),
        verified,
        claimed: output.status.success(),
        exit_code: output.status.code(),
        turns: 0,
        input_tokens: 0,
        output_tokens: 0,
        repaired: 0,
        seconds,
    };
    for line in output.stdout.split(|&byte| byte == b'\n') {
        if let Ok(event) = serde_json::from_slice::<Value>(line) {
            on_event(&mut attempt, &event);
        }
    }
    Ok(attempt)
}

fn vex(command: &mut Command, agent: Agent, task: &Task, protocol: &str, url: &str, toolchains: &Toolchains) {
    // Each protocol has its own base path.
    let base = if protocol == "messages" {
        url.to_owned()
    } else {
        format!("{url}/v1")
    };
    command.args(["exec", "--json", "-m", MODEL, "--provider", "live"]);
    command.args(["--config", &format!("providers.live.protocol={protocol:?}")]);
    command.args(["--config", &format!("providers.live.base_url={base:?}")]);
    command.args(["--config", &format!("models.{MODEL:?}.context_window=32768")]);
    command.args(["--max-turns", "30", "--timeout", "10m"]);
    command.args(["--config", "verify_attempts=6"]);
    // Its commands can write nowhere else but to the workspace.
    if let Some(cache) = task.language.and_then(|language| toolchains.cache(language)) {
        command.args(["--config", &format!("sandbox.write=[{cache:?}]")]);
    }
    if let Some(verify) = &task.verify {
        command.args(["--verify", verify]);
    }
    if agent == Agent::VexText {
        command.args(["--config", &format!("models.{MODEL:?}.tool_calls=\"text\"")]);
    }
    command.arg(&task.prompt);
}

fn codex(command: &mut Command, task: &Task, url: &str) {
    command.args(["exec", "--json", "--skip-git-repo-check", "-m", MODEL]);
    command.arg("--dangerously-bypass-approvals-and-sandbox");
    for setting in [
        "model_provider=\"live\"".to_owned(),
        "model_providers.live.name=\"live\"".to_owned(),
        format!("model_providers.live.base_url=\"{url}/v1\""),
        "model_providers.live.wire_api=\"responses\"".to_owned(),
    ] {
        command.args(["-c", &setting]);
    }
    command.arg(&task.prompt);
}

fn opencode_run(command: &mut Command, task: &Task, url: &str) {
    let settings = serde_json::json!({"provider": {"live": {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": format!("{url}/v1"), "apiKey": "none"},
        "models": {MODEL: {"limit": {"context": 32768, "output": 4096}}}}}});
    command.env("OPENCODE_CONFIG_CONTENT", settings.to_string());
    command.args([
        "run",
        "--format",
        "json",
        "--auto",
        "-m",
        &format!("live/{MODEL}"),
    ]);
    command.arg(&task.prompt);
}

/// Reads the metrics from an event of any agent.
fn on_event(attempt: &mut Attempt, event: &Value) {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    match (attempt.agent, event["type"].as_str().unwrap_or_default()) {
        // The tokens of the run so far; a run that was killed has no `end`.
        (Agent::Vex | Agent::VexText, "usage") => {
            attempt.turns += 1;
            attempt.input_tokens = number(&event["input_tokens"]);
            attempt.output_tokens = number(&event["output_tokens"]);
        }
        (Agent::Vex | Agent::VexText, "tool_call") if event["repaired"] == true => attempt.repaired += 1,
        (Agent::Vex | Agent::VexText, "end") => {
            attempt.input_tokens = number(&event["usage"]["input_tokens"]);
            attempt.output_tokens = number(&event["usage"]["output_tokens"]);
        }
        (Agent::Codex, "item.completed") => attempt.turns += 1,
        (Agent::Codex, "turn.completed") => {
            attempt.input_tokens = number(&event["usage"]["input_tokens"]);
            attempt.output_tokens = number(&event["usage"]["output_tokens"]);
        }
        (Agent::Opencode, "step_finish") => {
            let tokens = &event["part"]["tokens"];
            attempt.turns += 1;
            attempt.input_tokens += number(&tokens["input"]) + number(&tokens["cache"]["read"]);
            attempt.output_tokens += number(&tokens["output"]);
        }
        _ => {}
    }
}
