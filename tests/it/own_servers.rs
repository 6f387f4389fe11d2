//! MCP servers with sandboxes of their own: the agent gets their tools, and none of their secrets.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vik_testkit::RealAgent;
use vik_testkit::bins::mcp_server;
use vik_testkit::server::ModelServer;

use crate::backends::{ELSEWHERE, has_bubblewrap};
use crate::real_agents::Real;
use crate::support::*;

/// Returns the secret, which no other test has.
fn secret() -> String {
    format!("a-secret-of-{}-server", std::process::id())
}

/// A program that answers as Codex. It takes the command of the server from its arguments, as Codex
/// does, calls tools of the server, and searches for its secret.
const CODEX: &str = r#"#!/bin/sh
cat > prompt.txt
printf '%s\n' "$@" > args.txt
env > env.txt
table=$(grep '^mcp_servers.tickets=' args.txt)
vik=$(printf %s "$table" | sed 's/.*{command="\([^"]*\)".*/\1/')
pipes=$(printf %s "$table" | sed 's/.*args=\["__connect","\([^"]*\)","tickets"\].*/\1/')
call() {
  echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
  echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"'$1'","arguments":{"name":"TICKETS_TOKEN"}}}'
  while ! [ -e "$2" ]; do sleep 0.01; done
}
call die / | "$vik" __connect "$pipes" tickets > first.txt
call env searched | "$vik" __connect "$pipes" tickets | sed -u 's/a-secret.*server/the secret/' > second.txt &
while ! grep -q 'the secret' second.txt; do sleep 0.01; done
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' '\n' > seen.txt
for found in $(ls -d /proc/[0-9]*); do
  cat $found/environ > /dev/null 2>&1 && echo ${found#/proc/} >> readable.txt
done
find "$pipes" > pipes.txt
touch ready
while ! [ -e go ]; do sleep 0.01; done
touch searched
wait
echo '{"type":"thread.started","thread_id":"01a1ffcd-34e9-78d1-bc6d-b647a491f028"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
"#;

/// A program that connects to its server and waits.
const WAITING: &str = r#"#!/bin/sh
pipes=$(printf '%s\n' "$@" | sed -n 's/^mcp_servers.*args=\["__connect","\([^"]*\)","tickets"\].*/\1/p')
sleep 600 | vik __connect "$pipes" tickets &
touch up
wait
"#;

/// A program that connects to its server until that has written its results.
const PATIENT: &str = r#"#!/bin/sh
pipes=$(printf '%s\n' "$@" | sed -n 's/^mcp_servers.*args=\["__connect","\([^"]*\)","tickets"\].*/\1/p')
sleep 600 | vik __connect "$pipes" tickets &
while ! [ -e places.txt ]; do sleep 0.01; done
"#;

/// A server that writes where its variables lead to, and reads the files of its agent.
const PLACES: &str = r#"exec > "$VIK_WORKSPACE/places.part" 2>&1
touch "$TMPDIR/own" "$XDG_CACHE_HOME/own" && echo written
echo "set: $XDG_DATA_HOME"
cat "$0/conversation"
mv "$VIK_WORKSPACE/places.part" "$VIK_WORKSPACE/places.txt"
cat
"#;

/// A server that ignores the end of its input and signals, and leaves a process behind.
const DEAF: &str = "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; while :; do sleep 1; done' & \
                    touch $VIK_WORKSPACE/server-up; while :; do sleep 1; done";

fn world(program: &str, command: &Value) -> World {
    with_server(World::new(&[("1", "todo")]), program, command)
}

fn with_server(world: World, program: &str, command: &Value) -> World {
    let agent = world.env.work().join("agent.sh");
    std::fs::write(&agent, program).unwrap();
    make_executable(&agent);
    world
        .set(
            "/agents/a",
            json!({"runtime": "codex", "model": "m", "command": ["./agent.sh"], "mcp": ["tickets"],
                   "sandbox": {"network": "off"}}),
        )
        .set("/secrets/TICKETS_TOKEN", json!({"env": "SOURCE"}))
        .set(
            "/mcp/tickets",
            json!({"command": command, "env": {"LEVEL": "debug"}, "secrets": ["TICKETS_TOKEN"], "tools": ["env"],
                   "sandbox": "own"}),
        )
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Waits until the workspace has a file.
#[track_caller]
fn wait_for_file(world: &World, name: &str) {
    let homes = world.env.work().join("home/workflows");
    let exists = || {
        let has_home = list(&homes).iter().any(|path| path.is_dir());
        has_home && world.workspace("1").join(name).exists()
    };
    eventually(name, exists);
}

/// Returns the processes that have the secret in their environment.
fn processes_with_the_secret() -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let entry = format!("TICKETS_TOKEN={}", secret());
    pids.filter(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|own| own == entry.as_bytes())
    })
    .collect()
}

/// Returns the files below a folder that contain the secret.
fn files_with_the_secret(folder: &Path) -> Vec<String> {
    let done = std::process::Command::new("grep")
        .args(["-rl", "--devices=skip", &secret()])
        .arg(folder)
        .output()
        .unwrap();
    let found = String::from_utf8(done.stdout).unwrap();
    found.lines().map(str::to_owned).collect()
}

#[test]
fn agent_gets_the_tools_and_not_the_secret() {
    gets_the_tools_and_not_the_secret(&world(CODEX, &json!([mcp_server()])));
}

#[test]
fn agent_in_namespaces_gets_the_tools_and_not_the_secret() {
    if !has_bubblewrap() {
        return;
    }
    let world = World::below(Path::new(ELSEWHERE), &[("1", "todo")]);
    let mut world = with_server(world, CODEX, &json!([mcp_server()]));
    world.put("/agents/a/sandbox/backend", json!("bubblewrap"));
    gets_the_tools_and_not_the_secret(&world);
}

/// A list of hosts needs a network namespace and a proxy for the agent and for its server.
#[test]
fn agent_with_a_list_of_hosts_gets_the_tools_and_not_the_secret() {
    let mut world = world(CODEX, &json!([mcp_server()]));
    world.put("/agents/a/sandbox/network", json!(["example.invalid"]));
    gets_the_tools_and_not_the_secret(&world);
}

fn gets_the_tools_and_not_the_secret(world: &World) {
    let running = world.start_with(&["run", "--once"], &[("SOURCE", &secret())]);
    let file = |name| world.workspace_file("1", name);
    wait_for_file(world, "ready");
    // The control for the agent: the server has the secret, and this unconfined process finds it.
    let servers = processes_with_the_secret();
    assert_eq!(servers.len(), 1, "{servers:?}");
    let program = std::fs::read_link(format!("/proc/{}/exe", servers[0])).unwrap();
    assert_eq!(program, mcp_server());
    let readable = file("readable.txt");
    assert!(
        !readable.lines().any(|pid| pid == servers[0].to_string()),
        "{readable}"
    );
    assert_eq!(files_with_the_secret(world.env.path("").as_path()), [""; 0]);
    let session = world.session("1");
    assert!(session.file(".pipes").join("requests").exists());
    std::fs::write(world.workspace("1").join("go"), "").unwrap();
    running.done().expect(0);
    session.expect("succeeded", None);
    // The first one died in a call, and the second one was started for the next connection.
    assert_contains(file("first.txt"), "\"id\":1");
    assert!(!file("first.txt").contains("\"id\":2"));
    assert_contains(file("second.txt"), "the secret");
    assert_contains(file("args.txt"), "enabled_tools=[\"env\"]");
    for name in ["args.txt", "env.txt", "seen.txt"] {
        let text = file(name);
        assert!(
            !text.contains(&secret()) && !text.contains("TICKETS_TOKEN"),
            "{name}: {text}"
        );
    }
    assert_contains(session.text(".servers.log"), "out of memory");
    for folder in [".pipes", ".servers"] {
        assert!(!session.file(folder).exists(), "{folder}");
    }
    world.env.assert_nothing_left();
}

#[test]
fn no_server_survives_cancel_and_a_killed_shim() {
    for end in ["cancel", "shim"] {
        let world = world(WAITING, &json!(["sh", "-c", DEAF])).attempts(1);
        let daemon = world.start_with(&["run"], &[("SOURCE", &secret())]);
        wait_for_file(&world, "server-up");
        if end == "cancel" {
            world.vik(&["cancel", "1"]).expect(0);
        } else {
            let parent = |pid: i32| stat_fields(pid)[1].parse::<i32>().unwrap();
            let mut shim = processes_with_the_secret()[0];
            while parent(shim) != daemon.pid() {
                shim = parent(shim);
            }
            kill(Pid::from_raw(shim), Signal::SIGKILL).unwrap();
        }
        eventually("the attempt has ended", || {
            world.runs().iter().any(|run| !run["outcome"].is_null())
        });
        daemon.stop().expect(0);
        world.env.assert_nothing_left();
    }
}

/// The agent could replace such a program, and would get the secret with it.
#[test]
fn program_that_the_agent_can_write_is_not_started() {
    let world = world(WAITING, &json!(["./shared/server.sh"])).attempts(1);
    let shared = world.env.work().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("server.sh"), "#!/bin/sh\n").unwrap();
    make_executable(&shared.join("server.sh"));
    let world = world.set("/agents/a/sandbox/write", json!([shared]));
    world
        .start_with(&["run", "--once"], &[("SOURCE", &secret())])
        .done();
    let ended = world.session("1").expect("failed", Some("usage"));
    assert_contains(ended["reason"].to_string(), "which its agent can write");
}

/// Variables of the daemon lead to none of its places, nor to those of the agent.
#[test]
fn server_has_places_of_its_own_and_none_of_its_agent() {
    let base = World::new(&[("1", "todo")]);
    let [home, daemon] = ["codex-home", "of-the-daemon"].map(|name| base.env.path(name));
    for folder in [&home, &daemon] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(home.join("conversation"), "a conversation").unwrap();
    let command = json!(["sh", "-c", PLACES, home]);
    let world = with_server(base, PATIENT, &command)
        .set("/agents/a/env", json!({"CODEX_HOME": home}))
        .set("/mcp/tickets/env", json!({"XDG_DATA_HOME": "/of/the/server"}))
        .attempts(1);
    let daemon = daemon.to_string_lossy();
    let variables = ["TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME"].map(|name| (name, &*daemon));
    let secret = secret();
    let variables = [variables.as_slice(), &[("SOURCE", secret.as_str())]].concat();
    world.start_with(&["run", "--once"], &variables).done();
    let places = world.workspace_file("1", "places.txt");
    assert_contains(&places, "written\nset: /of/the/server\n");
    assert!(!places.contains("a conversation"), "{places}");
    assert_contains(&places, "ermission denied");
    world.env.assert_nothing_left();
}

/// The built-in agent reaches a server through the pipes as it does a child.
#[test]
fn vex_calls_a_tool_of_an_own_server() {
    let call = |name: &str, input: Value| json!({"call": {"name": name, "input": input}});
    let script = json!([
        {"tools": [call("mcp__tickets__env", json!({"name": "TICKETS_TOKEN"}))]},
        {"text": "I have called the tool.", "expect": secret()}
    ]);
    let server = ModelServer::start_json(script).unwrap();
    let mut world = World::new(&[("1", "todo")])
        .set(
            "/agents/a",
            json!({"runtime": "vex", "model": "scripted", "provider": "house", "mcp": ["tickets"], "sandbox": "on",
                   "env": {"HOUSE_KEY": "sk-scripted"}}),
        )
        .set("/secrets/TICKETS_TOKEN", json!({"env": "SOURCE"}))
        .set(
            "/mcp/tickets",
            json!({"command": [mcp_server()], "secrets": ["TICKETS_TOKEN"], "tools": ["env"], "sandbox": "own"}),
        )
        .work("prompt", json!("Do the task."))
        .attempts(1);
    world.house("chat", &server.v1());
    world
        .start_with(&["run", "--once"], &[("SOURCE", &secret())])
        .done()
        .expect(0);
    assert_eq!(server.failures(), [""; 0]);
    let session = world.session("1");
    session.expect("succeeded", None);
    let results = session.of_kind("tool_result");
    assert!(
        !results[0]["output"].to_string().contains(&secret()),
        "the value is masked: {results:?}"
    );
    world.env.assert_nothing_left();
}

// --- the real agents

/// The server alone decides to return its secret, and proves with it that it is the one beside the
/// agent.
fn real_agent_calls_it(agent: RealAgent) {
    let input = json!({"name": "SERVER_TOKEN"});
    let call = match agent {
        RealAgent::Codex => json!({"call": {"name": "env", "namespace": "mcp__apart", "input": input}}),
        RealAgent::Claude => json!({"call": {"name": "mcp__apart__env", "input": input}}),
    };
    let script = json!([{"tools": [call]}, {"text": "Finished.", "expect": secret()}]);
    let Some(mut real) = Real::new(agent, script) else {
        return;
    };
    real.world.put("/agents/a/sandbox", json!("on"));
    real.world.put("/secrets/SERVER_TOKEN", json!({"env": "SOURCE"}));
    real.world.put(
        "/mcp/apart",
        json!({"command": [mcp_server()], "secrets": ["SERVER_TOKEN"], "tools": ["env"], "sandbox": "own"}),
    );
    real.world.put("/issue/stages/work/mcp", json!(["apart"]));
    real.world
        .start_with(&["run", "--once"], &[("SOURCE", &secret())])
        .done()
        .expect(0);
    real.close();
    real.world.session("1").expect("succeeded", None);
    real.world.env.assert_nothing_left();
}

#[test]
fn codex_calls_a_tool_of_an_own_server() {
    real_agent_calls_it(RealAgent::Codex);
}

#[test]
fn claude_code_calls_a_tool_of_an_own_server() {
    real_agent_calls_it(RealAgent::Claude);
}
