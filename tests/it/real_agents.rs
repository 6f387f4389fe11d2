//! The real Codex and Claude Code, from the issue to the moved issue, on the scripted model server.
//!
//! They need `npm ci --prefix tests/agents` (`cargo xtask test` runs it); without it each test
//! prints that it is skipped.

mod ends;
mod questions;
mod steerable;
mod takeover;
pub mod turns;

use serde_json::{Value, json};
use vik_testkit::server::ModelServer;
use vik_testkit::{RealAgent, test_name};

use crate::support::*;

/// Runs longer than any test waits, in the session of its own that both CLIs give to a tool.
const ENDLESS: &str = "echo started > started.txt; sleep 1000";

/// The start of the name of a test whose agents take messages.
const STEERABLE: &str = "steerable_";

/// A world in which the agents of the workflow are the real CLIs.
pub struct Real {
    pub world: World,
    pub server: ModelServer,
}

impl Real {
    /// Returns a world with one issue in `todo`. The agent `a` is this CLI, and the model follows
    /// the script. Each new workspace is a git repository with one commit.
    pub fn new(agent: RealAgent, script: Value) -> Option<Self> {
        Self::of(&[("1", "todo")], &[("a", agent)], script)
    }

    fn of(issues: &[(&str, &str)], agents: &[(&str, RealAgent)], script: Value) -> Option<Self> {
        let programs: Option<Vec<_>> = agents
            .iter()
            .map(|(_, agent)| Some((agent.name(), agent.or_skip()?)))
            .collect();
        let server = ModelServer::start_json(script).unwrap();
        let create = "git init -q && git commit -q --allow-empty -m base";
        let mut world = World::new(issues)
            .set("/issue/hooks", json!({"after_create": create}))
            .work("prompt", json!("Do the task."))
            .attempts(1);
        for (name, program) in programs? {
            world.env.link(name, &program);
        }
        for (name, agent) in agents {
            let mut profile = profile(*agent, &server);
            if test_name().starts_with(STEERABLE) {
                profile["steer"] = json!(true);
            }
            world = world.set(&format!("/agents/{name}"), profile);
        }
        Some(Self { world, server })
    }

    fn git(&self, issue: &str, args: &[&str]) -> String {
        let mut git = self.world.env.command("git");
        let output = git
            .args(args)
            .current_dir(self.world.workspace(issue))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks that the script was followed, and that no process is left.
    #[track_caller]
    pub fn close(&self) {
        assert_eq!(self.server.failures(), [""; 0]);
        self.world.env.assert_nothing_left();
    }
}

/// Returns the profile of this agent with this server.
pub fn profile(agent: RealAgent, server: &ModelServer) -> Value {
    match agent {
        RealAgent::Codex => json!({
            "runtime": "codex", "model": "gpt-5.5", "base_url": server.v1(), "env": {"OPENAI_API_KEY": "sk-scripted"},
        }),
        RealAgent::Claude => json!({
            "runtime": "claude_code", "model": "claude-sonnet-4-5", "base_url": server.url(),
            "env": {"ANTHROPIC_API_KEY": "sk-scripted"},
        }),
    }
}

// --- a good session

fn works_and_commits(agent: RealAgent, model: Option<&str>) {
    let script = json!([
        {"thinking": "Let me see.", "text": "First a command.", "run": "echo hi > out.txt; cat out.txt"},
        {"tools": [{"write": {"path": "hello.txt", "content": "hello\nworld\n"}}]},
        {"tools": [{"edit": {"path": "hello.txt", "old": "world", "new": "there"}}]},
        {"run": "git add -A && git commit -m 'Say hello'", "usage": {"input": 1500, "cached": 1000, "output": 30}},
        {"text": "Finished.", "expect": "Say hello"}
    ]);
    let Some(mut real) = Real::new(agent, script) else {
        return;
    };
    if let Some(model) = model {
        real.world.put("/agents/a/model", json!(model));
    }
    if agent == RealAgent::Codex {
        // Codex reports no cost.
        let price = json!({"input": 1.0, "cached_input": 0.1, "cache_write": 0, "output": 10.0});
        real.world.put("/agents/a/price", price);
    }
    real.world.put(
        "/issue/stages/work/verify",
        json!("grep -q there hello.txt && test -z \"$(git status --short)\""),
    );
    let done = real.world.once().expect(0);
    real.close();

    assert_eq!(real.world.tracker.state("1").as_deref(), Some("done"));
    let log = real.git("1", &["log", "--format=%s", "--name-only"]);
    assert_eq!(log, "Say hello\n\nhello.txt\nout.txt\nbase\n");
    assert_eq!(real.world.workspace_file("1", "hello.txt"), "hello\nthere\n");

    let session = real.world.session("1");
    let ended = session.expect("succeeded", None);
    assert_eq!(ended["last_message"], "Finished.");
    assert_eq!(ended["exit_code"], 0);
    assert_eq!(ended["workspace_changed"], true);
    let usage = &ended["usage"];
    assert_eq!(
        [
            &usage["input_tokens"],
            &usage["cached_input_tokens"],
            &usage["output_tokens"]
        ],
        [5500, 1000, 110]
    );
    let cost = ended["cost_usd"].as_f64().unwrap();
    match agent {
        RealAgent::Codex => {
            assert_eq!(ended["cost_source"], "price");
            assert!((cost - (4500.0 + 100.0 + 1100.0) / 1e6).abs() < 1e-9, "{cost}");
        }
        RealAgent::Claude => {
            assert_eq!(ended["cost_source"], "reported");
            assert!(cost > 0.001 && cost < 1.0, "{cost}");
        }
    }
    let started = session.of_kind("session_started").remove(0);
    let id = ended["provider_session_id"].as_str().unwrap();
    assert_eq!(started["provider_session_id"], id);
    assert_eq!(id.len(), 36, "{id}");
    for kind in ["reasoning", "message", "tool_call", "tool_result", "completed"] {
        assert!(!session.of_kind(kind).is_empty(), "no {kind}");
    }
    assert_eq!(session.of_kind("unknown"), [Value::Null; 0]);
    assert_eq!(session.of_kind("malformed"), [Value::Null; 0]);

    let runs = real.world.runs();
    assert_eq!(runs[0]["state"], "ended");
    assert_eq!(runs[0]["outcome"], "succeeded");
    assert_eq!(runs[0]["attempts"][0]["usage"], *usage);
    assert_contains(&done.out, "1 succeeded, 0 failed");
}

#[test]
fn codex_edits_commits_and_moves_the_issue() {
    works_and_commits(RealAgent::Codex, None);
}

#[test]
fn codex_in_code_mode_edits_commits_and_moves_the_issue() {
    works_and_commits(RealAgent::Codex, Some("gpt-6-sol"));
}

#[test]
fn claude_edits_commits_and_moves_the_issue() {
    works_and_commits(RealAgent::Claude, None);
}

// --- errors of the model

/// Checks that an attempt never succeeds when the server always answers with this status, and that
/// its failure class gives the reason.
fn fails(agent: RealAgent, turn: &Value, class: &str) {
    let Some(real) = Real::new(agent, json!([turn])) else {
        return;
    };
    let done = real.world.once().expect(1);
    real.world.env.assert_nothing_left();
    assert_eq!(
        real.world.tracker.state("1").as_deref(),
        Some("todo"),
        "it did not move"
    );
    let ended = real.world.session("1").expect("failed", Some(class));
    assert!(
        ended["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
        "{ended}"
    );
    let runs = real.world.runs();
    assert_eq!(runs[0]["outcome"], "failed");
    assert_eq!(runs[0]["attempts"][0]["failure_class"], class);
    assert_contains(&done.out, class);
}

#[test]
fn codex_fails_on_a_persistent_server_error() {
    let turn = json!({"status": 500, "times": "forever"});
    fails(RealAgent::Codex, &turn, "overloaded");
}

#[test]
fn claude_fails_on_a_persistent_server_error() {
    let turn = json!({"status": 500, "times": "forever"});
    fails(RealAgent::Claude, &turn, "overloaded");
}

#[test]
fn codex_fails_on_a_rate_limit() {
    let turn = json!({"status": 429, "retry_after": 1, "times": "forever"});
    fails(RealAgent::Codex, &turn, "rate_limit");
}

#[test]
fn claude_fails_on_a_rate_limit() {
    let turn = json!({"status": 429, "retry_after": 1, "times": "forever"});
    fails(RealAgent::Claude, &turn, "rate_limit");
}

#[test]
fn codex_fails_on_a_refused_key() {
    let turn = json!({"status": 401, "times": "forever"});
    fails(RealAgent::Codex, &turn, "auth");
}

#[test]
fn claude_fails_on_a_refused_key() {
    let turn = json!({"status": 401, "times": "forever"});
    fails(RealAgent::Claude, &turn, "auth");
}

/// Checks that the first attempt meets an error, and that the second one succeeds in the same
/// workspace.
fn tries_again(agent: RealAgent) {
    // Claude Code 2.1.330 itself repeats such a request five times.
    let times = if agent == RealAgent::Claude { 6 } else { 1 };
    let script = json!({"turns": [
        {"run": "echo one >> log.txt"},
        {"status": 400, "error": "This model has had enough.", "times": times},
        {"run": "echo two >> log.txt && git add -A && git commit -qm 'Both'"},
        {"text": "Finished."}
    ]});
    let Some(real) = Real::new(agent, script) else {
        return;
    };
    let world = real
        .world
        .attempts(2)
        .work("prompt", json!("Do the task.\nKEY: shared"));
    world.once().expect(0);
    assert_eq!(real.server.failures(), [""; 0]);
    world.env.assert_nothing_left();
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 2);
    let failed = sessions[0].ended();
    assert_eq!(failed["outcome"], "failed");
    assert_contains(failed["reason"].as_str().unwrap(), "had enough");
    sessions[1].expect("succeeded", None);
    assert_eq!(world.workspace_file("1", "log.txt"), "one\ntwo\n");
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

#[test]
fn codex_retries_in_the_same_workspace() {
    tries_again(RealAgent::Codex);
}

#[test]
fn claude_retries_in_the_same_workspace() {
    tries_again(RealAgent::Claude);
}

// --- both at once

#[test]
fn codex_plans_and_claude_implements_two_issues_at_once() {
    let agents = [("a", RealAgent::Codex), ("b", RealAgent::Claude)];
    let Some(real) = Real::of(&[("1", "todo"), ("2", "todo")], &agents, json!([])) else {
        return;
    };
    let meet = |stage: &str| {
        // Proceeds only when the agent of the other issue has reached the same point.
        let root = real.world.env.root().display().to_string();
        format!(
            "touch {root}/tmp/{stage}-{{{{ issue.id }}}}; for i in $(seq 600); do [ $(ls {root}/tmp/{stage}-* | wc -l) = 2 ] && break; sleep 0.1; done"
        )
    };
    let plan = json!([
        {"run": "printf 'plan\\n' > PLAN.md && git add -A && git commit -qm Plan"},
        {"text": "Planned."}
    ]);
    let implement = json!([
        {"run": "cat PLAN.md"},
        {"tools": [{"write": {"path": "feature.txt", "content": "built\n"}}]},
        {"run": "git add -A && git commit -qm Implement", "expect": "plan"},
        {"text": "Implemented."}
    ]);
    let prompt = |text: &str, script: &Value| {
        json!(format!(
            "{text} issue {{{{ issue.id }}}}.\nSCRIPT_JSON: {script}\n"
        ))
    };
    let (planned, built) = (real.world.on_success("planned"), real.world.on_success("done"));
    let (meet_plan, meet_build) = (meet("plan"), meet("build"));
    let world = real
        .world
        .set("/loop", json!({"max_issue_concurrency": 2}))
        .work("prompt", prompt("Plan", &plan))
        .work("hooks", json!({"before_run": meet_plan, "after_run": planned}))
        .stage("build", "planned", "")
        .set("/issue/stages/build/agent", json!("b"))
        .set("/issue/stages/build/prompt", prompt("Build", &implement))
        .set(
            "/issue/stages/build/hooks",
            json!({"before_run": meet_build, "after_run": built}),
        );
    let done = world.once().expect(0);
    assert_eq!(real.server.failures(), [""; 0]);
    world.env.assert_nothing_left();
    for issue in ["1", "2"] {
        assert_eq!(world.tracker.state(issue).as_deref(), Some("done"));
        let sessions = world.sessions(issue);
        let messages: Vec<_> = sessions
            .iter()
            .map(|session| session.expect("succeeded", None)["last_message"].clone())
            .collect();
        assert_eq!(messages, ["Planned.", "Implemented."]);
        let mut git = world.env.command("git");
        let log = git
            .args(["log", "--format=%s"])
            .current_dir(world.workspace(issue))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&log.stdout), "Implement\nPlan\nbase\n");
    }
    assert_contains(&done.out, "4 succeeded, 0 failed");
}

// --- conversations and budgets

fn resumes_the_conversation(agent: RealAgent, with_approvals: bool) {
    let script = json!([
        {"text": "Going.", "run": ENDLESS},
        // Only the first attempt has this text, so the conversation is the same.
        {"text": "Went on.", "expect": "Do the task."}
    ]);
    let Some(real) = Real::new(agent, script) else {
        return;
    };
    // Only the call of the first attempt has a time limit, so a slow machine changes nothing.
    let mut world = real.world.attempts(2).work("tool_timeout", json!("2s"));
    if with_approvals {
        world.put(
            "/issue/stages/work/approve",
            json!({"calls": [{"tool": ["nothing of this name"]}]}),
        );
    }
    world.once().expect(0);
    assert_eq!(real.server.failures(), [""; 0]);
    world.env.assert_nothing_left();
    let [first, second] = &world.sessions("1")[..] else {
        panic!("{:?}", world.runs())
    };
    first.expect("timed_out", None);
    let ended = second.expect("succeeded", None);
    assert_eq!(ended["last_message"], "Went on.");
    let id = first.of_kind("session_started")[0]["provider_session_id"].clone();
    assert_eq!(second.events()[0]["kind"], "resumed");
    assert_eq!(second.events()[0]["provider_session_id"], id);
    assert_eq!(ended["provider_session_id"], id);
    if agent == RealAgent::Claude {
        // Two requests in all: the figures of the second attempt may begin with those of the first,
        // and are not charged twice. An agent that is killed while it exits has reported no cost.
        let ends = [first.ended(), ended];
        let input = ends
            .iter()
            .map(|end| end["usage"]["input_tokens"].as_u64().unwrap());
        assert_eq!(input.sum::<u64>(), 2000, "{ends:?}");
        let reported = ends.iter().filter(|end| end["cost_source"] == "reported");
        let cost: f64 = reported.map(|end| end["cost_usd"].as_f64().unwrap()).sum();
        assert!(cost < 0.006_601, "{ends:?}");
    }
}

#[test]
fn codex_resumes_the_conversation() {
    resumes_the_conversation(RealAgent::Codex, false);
}

#[test]
fn codex_resumes_the_conversation_with_approvals() {
    resumes_the_conversation(RealAgent::Codex, true);
}

#[test]
fn claude_resumes_the_conversation_with_approvals() {
    resumes_the_conversation(RealAgent::Claude, true);
}

#[test]
fn claude_resumes_the_conversation() {
    resumes_the_conversation(RealAgent::Claude, false);
}

/// `verify` fails after the first turn, and the conversation continues with its output.
fn continues_with_a_turn(agent: RealAgent) {
    let script = json!([
        {"text": "First turn."},
        {"text": "Second turn.", "expect": "one more time"},
        {"text": "Third turn.", "expect": "one more time"}
    ]);
    let Some(real) = Real::new(agent, script) else {
        return;
    };
    let verify = "echo x >> tries; test $(wc -l < tries) -ge 3 || { echo one more time; exit 1; }";
    let world = real
        .world
        .attempts(1)
        .work("verify", json!(verify))
        .work("turns", json!({"max": 5}));
    world.once().expect(0);
    assert_eq!(real.server.failures(), [""; 0]);
    world.env.assert_nothing_left();
    let [first, second, third] = &world.sessions("1")[..] else {
        panic!("{:?}", world.runs())
    };
    first.expect("failed", Some("verify"));
    second.expect("failed", Some("verify"));
    let ended = third.expect("succeeded", None);
    assert_eq!(ended["last_message"], "Third turn.");
    let id = first.of_kind("session_started")[0]["provider_session_id"].clone();
    assert_eq!(second.events()[0]["provider_session_id"], id);
    assert_eq!(third.events()[0]["provider_session_id"], id);
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

#[test]
fn codex_continues_with_a_turn() {
    continues_with_a_turn(RealAgent::Codex);
}

#[test]
fn claude_continues_with_a_turn() {
    continues_with_a_turn(RealAgent::Claude);
}

#[test]
fn claude_keeps_to_its_budget() {
    keeps_to_its_budget();
}

fn keeps_to_its_budget() {
    let script = json!([{"text": "One.", "run": "true", "times": 3}, {"text": "Done."}]);
    let Some(real) = Real::new(RealAgent::Claude, script) else {
        return;
    };
    let world = real.world.work("limits", json!({"usd": 0.001}));
    world.once();
    world.env.assert_nothing_left();
    let ended = world.session("1").expect("over_budget", None);
    assert_eq!(ended["cost_source"], "reported");
    // The daemon did not stop the agent: the agent stopped itself.
    let completed = world.session("1").of_kind("completed").remove(0);
    assert_eq!(completed["reason"], "error_max_budget_usd");
}
