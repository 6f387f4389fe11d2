//! The real Codex and Claude Code against the scripted model server, with the command lines of
//! Vik's adapters.
//!
//! They need `npm ci --prefix tests/agents`; otherwise each test reports that it is skipped.

#![allow(clippy::unwrap_used, reason = "a test")]

mod agent_run;
mod extensions;
mod steering;

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vik_core::outcome::FailureClass;
use vik_core::workflow::{AgentProfile, Runtime};
use vik_testkit::server::ModelServer;
use vik_testkit::{RealAgent, TestEnv, eventually};

use agent_run::{AgentRun, profile, start};

struct Setup {
    env: TestEnv,
    server: ModelServer,
    profile: AgentProfile,
}

fn setup(agent: RealAgent, script: Value) -> Option<Setup> {
    let program = agent.or_skip()?;
    let env = TestEnv::new("/bin/true");
    env.link(agent.name(), &program);
    for args in [
        ["init", "-q"].as_slice(),
        &["commit", "-q", "--allow-empty", "-m", "base"],
    ] {
        assert!(env.command("git").args(args).status().unwrap().success());
    }
    let server = ModelServer::start_json(script).unwrap();
    let mut profile = match agent {
        RealAgent::Codex => profile(Runtime::Codex),
        RealAgent::Claude => profile(Runtime::ClaudeCode),
    };
    match agent {
        RealAgent::Codex => {
            profile.model = Some("gpt-5.5".to_owned());
            profile.base_url = Some(server.v1());
        }
        RealAgent::Claude => {
            profile.model = Some("claude-sonnet-4-5".to_owned());
            profile.base_url = Some(server.url());
        }
    }
    Some(Setup { env, server, profile })
}

fn work_script() -> Value {
    json!([
        {"thinking": "Let me see.", "text": "First a command.", "run": "echo hi > out.txt; cat out.txt"},
        {"tools": [{"write": {"path": "hello.txt", "content": "hello\nworld\n"}}]},
        {"tools": [{"edit": {"path": "hello.txt", "old": "world", "new": "there"}}]},
        {"run": "git add -A && git commit -m 'Say hello'", "usage": {"input": 1500, "cached": 1000, "output": 30}},
        {"text": "Finished.", "expect": "Say hello"}
    ])
}

fn edits_runs_and_commits(agent: RealAgent, model: Option<&str>) {
    let Some(mut setup) = setup(agent, work_script()) else {
        return;
    };
    if let Some(model) = model {
        setup.profile.model = Some(model.to_owned());
    }
    let run = AgentRun::run(&setup.env, &setup.profile, "Do the task.\n");
    assert_eq!(setup.server.failures(), [""; 0]);
    assert!(run.conclusion.ok, "{:?}", run.conclusion);
    assert_eq!(run.conclusion.last_message.as_deref(), Some("Finished."));
    assert_eq!(setup.env.read("work/hello.txt"), "hello\nthere\n");
    let log = setup
        .env
        .command("git")
        .args(["log", "--format=%s", "--stat"])
        .output()
        .unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    assert!(log.starts_with("Say hello\n") && log.contains("out.txt"), "{log}");
    let usage = run.conclusion.usage;
    assert_eq!(
        (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens),
        (5500, 1000, 110)
    );
    for kind in [
        "session_started",
        "reasoning",
        "message",
        "tool_call",
        "tool_result",
        "completed",
    ] {
        assert!(
            run.kinds().contains(&kind.to_owned()),
            "no {kind}: {:?}",
            run.events
        );
    }
    assert_eq!(setup.server.turns().len(), 5);
}

fn fails_on_a_model_error(agent: RealAgent) {
    let Some(setup) = setup(agent, json!([{"status": 500, "times": "forever"}])) else {
        return;
    };
    let run = AgentRun::run(&setup.env, &setup.profile, "Do the task.\n");
    assert!(!run.conclusion.ok);
    assert_eq!(
        run.conclusion.failure_class,
        Some(FailureClass::Overloaded),
        "{:?}",
        run.conclusion
    );
    assert!(setup.server.turns().len() > 1, "it tries again");
}

fn stops_in_mid_tool(agent: RealAgent) {
    let script = json!([{"text": "Going.", "run": "echo started > started.txt; sleep 600"}]);
    let Some(setup) = setup(agent, script) else {
        return;
    };
    let child = start(&setup.env, &setup.profile, "Do the task.\n");
    eventually("the tool runs", || {
        setup.env.read("work/started.txt").contains("started")
    });
    let pid = Pid::from_raw(child.id().cast_signed());
    let started = Instant::now();
    kill(pid, Signal::SIGINT).unwrap();
    let run = AgentRun::wait(child, &setup.profile);
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "SIGINT took {:?}",
        started.elapsed()
    );
    assert!(!run.conclusion.ok, "{:?}", run.conclusion);
    eventually("its tools are gone", || setup.env.leftovers().is_empty());
}

#[test]
fn codex_edits_runs_and_commits() {
    edits_runs_and_commits(RealAgent::Codex, None);
}

#[test]
fn codex_in_code_mode_edits_runs_and_commits() {
    edits_runs_and_commits(RealAgent::Codex, Some("gpt-6-sol"));
}

#[test]
fn claude_edits_runs_and_commits() {
    edits_runs_and_commits(RealAgent::Claude, None);
}

#[test]
fn codex_fails_on_a_model_error() {
    fails_on_a_model_error(RealAgent::Codex);
}

#[test]
fn claude_fails_on_a_model_error() {
    fails_on_a_model_error(RealAgent::Claude);
}

#[test]
fn codex_stops_in_mid_tool() {
    stops_in_mid_tool(RealAgent::Codex);
}

#[test]
fn claude_stops_in_mid_tool() {
    stops_in_mid_tool(RealAgent::Claude);
}
