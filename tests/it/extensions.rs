//! MCP servers and skills: what agents get in their folder, their environment and their prompt.

use serde_json::{Value, json};
use vik_testkit::bins::mcp_server;
use vik_testkit::server::ModelServer;
use vik_testkit::{RealAgent, RealMcpServer};

use crate::real_agents::Real;
use crate::support::*;

const SECRET: &str = "a-secret-of-the-server";

/// A program that copies what it gets into its workspace, and answers as Claude Code.
const CLAUDE: &str = r#"#!/bin/sh
cat > prompt.txt
printf '%s\n' "$@" > args.txt
env > env.txt
while [ $# -gt 0 ]; do
  case "$1" in
    --mcp-config) cp "$2" mcp.json; stat -c '%a' "$2" > mode.txt;;
    --settings) cp "$2" settings.json;;
    --plugin-dir) cp -R "$2" plugin; touch "$2/skills/review/added" 2> denied.txt;;
  esac
  shift
done
echo '{"type":"system","subtype":"init","session_id":"01234567-89ab-7def-8123-456789abcdef"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"01234567-89ab-7def-8123-456789abcdef","total_cost_usd":0.01,"usage":{"input_tokens":1,"output_tokens":1}}'
"#;

/// A program that prints its prompt, and answers as Codex.
const CODEX: &str = r#"#!/bin/sh
cat > prompt.txt
printf '%s\n' "$@" > args.txt
cat "$(sed -n 's/.*(file: `\(.*\)`)$/\1/p' prompt.txt)" > skill.txt
env > env.txt
echo '{"type":"thread.started","thread_id":"01a1ffcd-34e9-78d1-bc6d-b647a491f028"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
"#;

fn world(runtime: &str, program: &str) -> World {
    let world = World::new(&[("1", "todo")]);
    let work = world.env.work();
    let agent = work.join("agent.sh");
    std::fs::write(&agent, program).unwrap();
    make_executable(&agent);
    write_skill(&world, "allowed-tools: Bash\n");
    world
        .set(
            "/agents/a",
            json!({"runtime": runtime, "model": "m", "command": ["./agent.sh"], "mcp": ["tickets"], "sandbox": "on"}),
        )
        .set("/secrets/TICKETS_TOKEN", json!({"env": "SOURCE"}))
        .set(
            "/mcp/tickets",
            json!({"command": ["./server.sh", "--flag"], "env": {"LEVEL": "debug"}, "secrets": ["TICKETS_TOKEN"], "tools": ["list"]}),
        )
        .work("skills", json!(["skills/review"]))
}

/// Writes a skill with more fields in its front matter.
fn write_skill(world: &World, fields: &str) {
    let skill = world.env.work().join("skills/review");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        format!("---\nname: review\ndescription: Reviews a change.\n{fields}---\nLook twice.\n"),
    )
    .unwrap();
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the skills of the only attempt in `vik show --json`.
fn shown_skills(world: &World) -> Value {
    let shown = world.vik(&["show", "1", "--json"]).expect(0).json();
    shown.pointer("/0/attempts/0/skills").cloned().unwrap_or_default()
}

#[test]
fn claude_code_gets_servers_and_skills_in_a_private_folder() {
    let world = world("claude_code", CLAUDE);
    let done = world
        .start_with(&["run", "--once"], &[("SOURCE", SECRET)])
        .done()
        .expect(0);
    let file = |name| world.workspace_file("1", name);
    assert_eq!(file("mode.txt"), "600\n");
    let config: Value = serde_json::from_str(&file("mcp.json")).unwrap();
    let server = &config["mcpServers"]["tickets"];
    assert_eq!(
        server["command"],
        world.env.work().join("server.sh").to_str().unwrap()
    );
    assert_eq!(
        server["env"],
        json!({"LEVEL": "debug", "TICKETS_TOKEN": "${TICKETS_TOKEN}"})
    );
    for name in ["args.txt", "mcp.json", "settings.json", "prompt.txt"] {
        assert!(!file(name).contains(SECRET), "{name}");
    }
    assert_contains(file("env.txt"), format!("TICKETS_TOKEN={SECRET}\n"));
    assert_contains(file("settings.json"), "tickets__list");
    assert_eq!(
        file("plugin/skills/review/SKILL.md"),
        "---\nname: review\ndescription: Reviews a change.\n---\nLook twice.\n"
    );
    // The sandbox lets it read the folder only.
    assert!(!file("denied.txt").is_empty());
    let session = world.session("1");
    assert!(!session.file(".extensions").exists());
    let skills = shown_skills(&world);
    assert_eq!(skills[0]["name"], "review", "{skills}");
    assert_eq!(skills[0]["sha256"].as_str().map(str::len), Some(64), "{skills}");
    assert!(!done.out.contains(SECRET) && !done.err.contains(SECRET));
}

#[test]
fn codex_gets_servers_by_name_and_skills_in_its_prompt() {
    let world = world("codex", CODEX);
    world
        .start_with(&["run", "--once"], &[("SOURCE", SECRET)])
        .done()
        .expect(0);
    let file = |name| world.workspace_file("1", name);
    for setting in ["env_vars=[\"TICKETS_TOKEN\",", "],enabled_tools=[\"list\"]"] {
        assert_contains(file("args.txt"), setting);
    }
    assert!(!file("args.txt").contains(SECRET));
    assert_contains(file("env.txt"), format!("TICKETS_TOKEN={SECRET}\n"));
    assert_contains(file("prompt.txt"), "- review: Reviews a change. (file: `");
    assert_contains(file("skill.txt"), "Look twice.");
}

#[test]
fn stage_without_servers_and_skills_gets_nothing() {
    let world = world("codex", CODEX)
        .work("mcp", json!([]))
        .work("skills", json!([]));
    world
        .start_with(&["run", "--once"], &[("SOURCE", SECRET)])
        .done()
        .expect(0);
    let file = |name| world.workspace_file("1", name);
    assert!(!file("args.txt").contains("mcp_servers") && !file("prompt.txt").contains("Vik: skills"));
    assert!(!file("env.txt").contains("TICKETS_TOKEN"));
    assert!(shown_skills(&world)[0].is_null());
}

#[test]
fn skill_without_its_file_is_found_at_the_start() {
    let world = world("codex", CODEX).work("skills", json!(["skills/none"]));
    let done = world.vik(&["run", "--once"]).expect(3);
    assert_contains(&done.err, "bad_skill");
    assert_contains(&done.err, "has no SKILL.md");
}

// --- the real agents

fn mcp_call(agent: RealAgent, tool: &str, input: &Value) -> Value {
    match agent {
        // Codex replaces the characters that are no part of an identifier.
        RealAgent::Codex => {
            let name = tool.replace('-', "_");
            json!({"call": {"name": name, "namespace": "mcp__every", "input": input}})
        }
        RealAgent::Claude => json!({"call": {"name": format!("mcp__every__{tool}"), "input": input}}),
    }
}

/// Returns a world whose agent calls a permitted tool of a real server, in the sandbox, and then one
/// that is not permitted.
fn real_world(agent: RealAgent) -> Option<Real> {
    let script = json!([
        {"tools": [mcp_call(agent, "echo", &json!({"message": "over the server"}))]},
        {"tools": [mcp_call(agent, "get-env", &json!({}))], "expect": "Echo: over the server"},
        {"text": "Finished."}
    ]);
    let mut real = Real::new(agent, script)?;
    let command = [RealMcpServer::Everything.or_skip()?];
    real.world.put("/secrets/SERVER_TOKEN", json!({"env": "SOURCE"}));
    real.world.put(
        "/mcp/every",
        json!({"command": command, "secrets": ["SERVER_TOKEN"], "tools": ["echo"], "startup_timeout": "60s"}),
    );
    real.world.put("/issue/stages/work/mcp", json!(["every"]));
    Some(real)
}

#[track_caller]
fn assert_only_echo_was_called(real: &Real) {
    real.close();
    real.world.session("1").expect("succeeded", None);
    let last = real.server.turns().last().unwrap().body.to_string();
    // The server would print its whole environment.
    assert!(!last.contains(SECRET) && !last.contains("SERVER_TOKEN"), "{last}");
}

/// Codex merges the settings of a server with those of the user for a server of the same name, and
/// passes on only the variables that are listed.
#[test]
fn codex_gives_a_server_its_own_settings_and_the_caches() {
    let env =
        |name: &str| json!({"call": {"name": "env", "namespace": "mcp__every", "input": {"name": name}}});
    let script = json!([
        {"tools": [env("npm_config_cache"), env("HTTPS_PROXY"), env("VIK_STAGE")]},
        {"text": "Finished."}
    ]);
    let Some(mut real) = Real::new(RealAgent::Codex, script) else {
        return;
    };
    let home = real.world.env.home().join(".codex");
    std::fs::create_dir_all(&home).unwrap();
    let settings = "[mcp_servers.every]\ncommand = \"false\"\nenabled = false\ndisabled_tools = [\"env\"]\n\
                    [mcp_servers.every.tools.env]\napproval_mode = \"prompt\"\n";
    std::fs::write(home.join("config.toml"), settings).unwrap();
    real.world
        .put("/agents/a/env/HTTPS_PROXY", json!("http://proxy.invalid"));
    real.world.put("/agents/a/env/NO_PROXY", json!("127.0.0.1"));
    real.world
        .put("/mcp/every", json!({"command": [mcp_server()], "tools": ["env"]}));
    real.world.put("/issue/stages/work/mcp", json!(["every"]));
    real.world.once().expect(0);
    real.close();
    let results = json!(real.world.session("1").of_kind("tool_result")).to_string();
    for value in ["cache/npm", "http://proxy.invalid", "work"] {
        assert_contains(&results, value);
    }
}

fn works_in_the_sandbox(agent: RealAgent) {
    let Some(real) = real_world(agent) else {
        return;
    };
    real.world
        .start_with(&["run", "--once"], &[("SOURCE", SECRET)])
        .done()
        .expect(0);
    assert_only_echo_was_called(&real);
}

#[test]
fn codex_calls_a_real_server_in_the_sandbox() {
    works_in_the_sandbox(RealAgent::Codex);
}

#[test]
fn claude_code_calls_a_real_server_in_the_sandbox() {
    works_in_the_sandbox(RealAgent::Claude);
}

/// Claude Code would refuse a skill that grants itself a tool, as its profile permits none that
/// writes, and would run the hook.
#[test]
fn claude_code_loads_a_skill_without_its_grants() {
    let call = json!({"call": {"name": "Skill", "input": {"skill": "vik:review"}}});
    let script = json!([{"tools": [call]}, {"text": "Finished.", "expect": "Look twice."}]);
    let Some(mut real) = Real::new(RealAgent::Claude, script) else {
        return;
    };
    let ran = real.world.env.path("hook-ran");
    let hook =
        json!({"Stop": [{"hooks": [{"type": "command", "command": format!("touch {}", ran.display())}]}]});
    write_skill(&real.world, &format!("allowed-tools: Bash\nhooks: {hook}\n"));
    real.world
        .put("/issue/stages/work/skills", json!(["skills/review"]));
    real.world.put("/agents/a/permission", json!("read-only"));
    real.world.put("/agents/a/sandbox", json!("off"));
    real.world.start(&["run", "--once"]).done().expect(0);
    real.close();
    real.world.session("1").expect("succeeded", None);
    assert!(!ran.exists());
}

/// A rule for calls names the tool as the rules of all agents do.
fn waits_for_approval(agent: RealAgent) {
    let Some(mut real) = real_world(agent) else {
        return;
    };
    let rules = json!({"calls": [{"tool": ["mcp.every.*"]}]});
    real.world.put("/issue/stages/work/approve", rules);
    let daemon = real.world.start_with(&["run"], &[("SOURCE", SECRET)]);
    let waiting = |tool: &str| {
        let waits = || Some(real.world.status()?["approvals"][0]["call"]["tool"] == tool);
        eventually(tool, || waits() == Some(true));
        real.world.vik(&["approve", "1"]).expect(0);
    };
    waiting("mcp__every__echo");
    if agent == RealAgent::Claude {
        // Its hooks run side by side: Vik is asked although the other one denies the call.
        waiting("mcp__every__get-env");
    }
    real.world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    assert_only_echo_was_called(&real);
}

#[test]
fn codex_calls_of_a_real_server_wait_for_approval() {
    waits_for_approval(RealAgent::Codex);
}

#[test]
fn claude_code_calls_of_a_real_server_wait_for_approval() {
    waits_for_approval(RealAgent::Claude);
}

#[test]
fn edits_of_servers_and_skills_apply_to_the_next_attempt() {
    let mut world = world("codex", CODEX);
    let daemon = world.start_with(&["run"], &[("SOURCE", SECRET)]);
    world.wait_for_state("1", "done");
    let first = shown_skills(&world);
    let skill = world.env.work().join("skills/review/SKILL.md");
    let text = std::fs::read_to_string(&skill)
        .unwrap()
        .replace("twice", "three times");
    std::fs::write(&skill, text).unwrap();
    let loaded = world.status().unwrap()["workflow"]["loaded_at"].clone();
    world.put("/mcp/tickets/tools", json!(["list", "read"]));
    eventually("it was loaded", || {
        world.status().unwrap()["workflow"]["loaded_at"] != loaded
    });
    world.tracker.move_to("1", "todo");
    eventually("the second attempt", || world.sessions("1").len() == 2);
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    assert_contains(
        world.workspace_file("1", "args.txt"),
        "enabled_tools=[\"list\",\"read\"]",
    );
    assert_contains(world.workspace_file("1", "skill.txt"), "Look three times.");
    let shown = world.vik(&["show", "1", "--json"]).expect(0).json().to_string();
    let digest = first[0]["sha256"].as_str().unwrap();
    assert_eq!(shown.matches(digest).count(), 1, "{shown}");
    assert_eq!(shown.matches("\"sha256\"").count(), 2, "{shown}");
}

/// vex reaches a server, loads a skill, and may call no other tool of the server.
#[test]
fn vex_calls_permitted_tools_and_loads_skills_in_the_sandbox() {
    let call = |name: &str, input: Value| json!({"call": {"name": name, "input": input}});
    let script = json!([
        {"tools": [call("mcp__every__env", json!({"name": "SERVER_TOKEN"}))]},
        {"tools": [call("mcp__every__fail", json!({}))]},
        {"tools": [call("load_skill", json!({"name": "review"}))]},
        {"text": "I have called the tool and read the skill.", "expect": "Look twice."}
    ]);
    let server = ModelServer::start_json(script).unwrap();
    let mut world = World::new(&[("1", "todo")])
        .set(
            "/agents/a",
            json!({"runtime": "vex", "model": "scripted", "provider": "house", "mcp": ["every"], "sandbox": "on",
                   "env": {"HOUSE_KEY": "sk-scripted"}}),
        )
        .set("/secrets/SERVER_TOKEN", json!({"env": "SOURCE"}))
        .set(
            "/mcp/every",
            json!({"command": [mcp_server()], "secrets": ["SERVER_TOKEN"], "tools": ["env"]}),
        )
        .work("skills", json!(["skills/review"]))
        .work("prompt", json!("Do the task."))
        .attempts(1);
    write_skill(&world, "allowed-tools: Bash\n");
    world.house("chat", &server.v1());
    world
        .start_with(&["run", "--once"], &[("SOURCE", SECRET)])
        .done()
        .expect(0);
    assert_eq!(server.failures(), [""; 0]);
    let session = world.session("1");
    session.expect("succeeded", None);
    let results = session.of_kind("tool_result");
    let output = |nth: usize| results[nth]["output"].to_string();
    assert!(!output(0).contains(SECRET), "the value is masked: {}", output(0));
    assert_contains(output(1), "there is no tool");
    let offered = server.turns()[0].body.to_string();
    assert!(offered.contains("mcp__every__env") && !offered.contains("mcp__every__fail"));
    assert_eq!(shown_skills(&world)[0]["name"], "review");
    world.env.assert_nothing_left();
}
