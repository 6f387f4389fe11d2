//! Tests that the MCP servers of stages are started once, in their sandbox, and listed.

use serde_json::{Value, json};
use vik_testkit::{TestEnv, bins};

const SECRET: &str = "tok-0123456789-abc";

/// Returns an environment with a Codex that only prints its version.
fn test_env() -> TestEnv {
    let env = TestEnv::new(bins::built("vik", "vik"));
    env.unlink("claude");
    let codex = env.write("bin/codex-program", "#!/bin/sh\necho codex-cli 1.2.3\n");
    std::fs::set_permissions(&codex, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.link("codex", &codex);
    env
}

const CODEX: &str = "runtime: codex, model: m";

/// Writes a workflow whose two stages use the server `s` with these keys, and this agent.
fn workflow(env: &TestEnv, agent: &str, keys: &str) {
    workflow_of(env, agent, &[("s", keys)]);
}

/// Writes a workflow whose two stages use these servers, and this agent.
fn workflow_of(env: &TestEnv, agent: &str, servers: &[(&str, &str)]) {
    let names: Vec<_> = servers.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let servers: Vec<_> = servers
        .iter()
        .map(|(name, keys)| format!("  {name}: {{ {keys} }}"))
        .collect();
    let servers = servers.join("\n");
    env.workflow(&format!(
        r#"secrets: {{ TOKEN: {{ env: SOURCE }}, OTHER: {{ env: SOURCE }} }}
mcp:
{servers}
  unused: {{ command: [no-such-program-here], tools: ['*'] }}
agents: {{ a: {{ {agent}, mcp: [{names}] }} }}
issues: {{ pull: {{ command: "echo '[]'" }} }}
issue:
  terminal_states: [done]
  stages:
    plan: {{ when: {{ state: todo }}, agent: a, prompt: x }}
    work: {{ when: {{ state: planned }}, agent: a, prompt: x }}
"#
    ));
}

/// Returns the command of the scripted server in a mode.
fn fake(mode: &str) -> String {
    format!("command: ['{}', '{mode}']", bins::mcp_server().display())
}

/// Returns the exit code, and the checks about the tools of the servers.
fn doctor(env: &TestEnv, args: &[&str]) -> (i32, Vec<Value>) {
    let output = env
        .vik(["doctor", "--json"].iter().chain(args))
        .env("CODEX_API_KEY", "sk-key")
        .env("SOURCE", SECRET)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!(text.clone() + &error).contains(SECRET), "{text}{error}");
    let json: Value = serde_json::from_str(&text).unwrap();
    let checks = json["checks"].as_array().unwrap().iter();
    let is_of_tools = |check: &&Value| {
        let name = check["check"].as_str().unwrap_or_default();
        name.starts_with("mcp.") && name.ends_with(".tools")
    };
    let checks = checks.filter(is_of_tools).cloned();
    env.assert_nothing_left();
    (output.status.code().unwrap(), checks.collect())
}

fn text<'c>(check: &'c Value, key: &str) -> &'c str {
    check[key].as_str().unwrap_or_default()
}

#[test]
fn servers_are_started_once_and_their_tools_listed() {
    let env = test_env();
    let log = format!("log={}", env.path("started").display());
    workflow(
        &env,
        &format!("{CODEX}, sandbox: off"),
        &format!("{}, secrets: [TOKEN], tools: [echo, nope]", fake(&log)),
    );
    let (code, checks) = doctor(&env, &[]);
    assert_eq!(code, 0, "{checks:?}");
    assert_eq!(
        text(&checks[0], "message"),
        "s (protocol 2025-11-25, fake 1) has 12 tools; agents may call: echo; \
         not: env, big, fail, die, hang, image, ask, change, cancelled, flood, fork"
    );
    assert_eq!(checks[0]["tools"][0], json!({"name": "echo", "permitted": true}));
    assert_eq!(checks[0]["tools"][1], json!({"name": "env", "permitted": false}));
    assert_eq!(text(&checks[1], "code"), "mcp_tool_missing");
    assert_eq!(checks.len(), 2);
    assert_eq!(env.read("started"), "start\n");
    for option in ["--offline", "--no-servers"] {
        let (_, checks) = doctor(&env, &[option]);
        assert!(
            text(&checks[0], "message").starts_with("s: tools not listed: "),
            "{checks:?}"
        );
    }
    assert_eq!(env.read("started"), "start\n");
}

#[test]
fn tool_with_a_name_of_megabytes_hides_no_other() {
    let env = test_env();
    workflow(&env, CODEX, &format!("{}, tools: [echo]", fake("many")));
    let (code, checks) = doctor(&env, &[]);
    assert_eq!((code, checks.len()), (0, 1), "{checks:?}");
    let tools = checks[0]["tools"].as_array().unwrap();
    assert_eq!(tools[0], json!({"name": "echo", "permitted": true}));
    let lengths = tools.iter().map(|tool| text(tool, "name").chars().count());
    assert_eq!((tools.len(), lengths.max()), (33, Some(80)));
}

#[test]
fn servers_run_in_the_sandbox_of_their_stage() {
    let env = test_env();
    let log = format!("log={}", env.path("home/started").display());
    let vex = "runtime: vex, model: m, provider: replay, base_url: recordings, sandbox: off";
    // vex confines its servers itself, too.
    for agent in [CODEX, &format!("{CODEX}, sandbox: {{ network: off }}"), vex] {
        workflow(&env, agent, &format!("{}, tools: ['*']", fake(&log)));
        let (_, checks) = doctor(&env, &[]);
        assert!(
            text(&checks[0], "message").ends_with("fork; not: none"),
            "{checks:?}"
        );
        assert_eq!(text(&checks[0], "status"), "ok");
        assert!(!env.path("home/started").exists(), "{agent}");
    }
    assert!(!env.path("home/.codex").exists());
}

#[test]
fn server_that_does_not_start_is_an_error() {
    let env = test_env();
    let failure = |keys: &str| {
        workflow(&env, CODEX, keys);
        let (code, checks) = doctor(&env, &[]);
        assert_eq!((code, checks.len()), (1, 1), "{checks:?}");
        assert_eq!(text(&checks[0], "code"), "mcp_start_failed");
        assert!(text(&checks[0], "hint").ends_with("of the stage `plan`"));
        text(&checks[0], "message").to_owned()
    };
    let script =
        "command: [sh, -c, 'echo \"token $TOKEN is wrong\" >&2; exit 3'], secrets: [TOKEN], tools: [a]";
    let message = failure(script);
    assert!(
        message.contains("it ended with exit code 3; its last message: \"token [REDACTED"),
        "{message}"
    );
    let message = failure(&format!("{}, startup_timeout: 1s, tools: [a]", fake("never")));
    assert!(message.contains("no answer within 1 s"), "{message}");
    // A port on which nothing listens.
    let message = failure("url: 'http://127.0.0.1:1/mcp', tools: [a]");
    assert!(message.contains("the MCP server s does not start: "), "{message}");
}

#[test]
fn secret_of_an_own_server_is_in_no_other_server() {
    let env = test_env();
    let script = |secret: &str| {
        let counts = "$(env | grep -c ^TOKEN=) and $(env | grep -c ^OTHER=)";
        format!("command: [sh, -c, 'echo \"has {counts}\" >&2; exit 3'], secrets: [{secret}], tools: [a]")
    };
    let own = format!("{}, sandbox: own", script("OTHER"));
    workflow_of(&env, CODEX, &[("own", &own), ("s", &script("TOKEN"))]);
    let (_, checks) = doctor(&env, &[]);
    let of = |name: &str| {
        let check = checks
            .iter()
            .find(|check| check["check"] == format!("mcp.{name}.tools"));
        text(check.unwrap(), "message")
    };
    assert!(of("s").contains("has 1 and 0"), "{checks:?}");
    assert!(of("own").contains("has 0 and 1"), "{checks:?}");
}
