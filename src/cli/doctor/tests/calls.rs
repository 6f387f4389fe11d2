//! Tests `--probe` with programs that replay what the real agents printed.

use std::path::Path;

use serde_json::Value;
use vik_testkit::{TestEnv, bins};

/// Links a program that replays a recording, and tries to write outside of its workspace.
fn replaying(env: &TestEnv, name: &str, recording: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crates/vik-agents/tests/fixtures")
        .join(recording);
    let text = std::fs::read_to_string(path).unwrap();
    let exit = text.lines().find_map(|line| line.strip_prefix("exit: ")).unwrap();
    let (_, stdout) = text.split_once("=== stdout\n").unwrap();
    let stdout = stdout.split("\n=== ").next().unwrap();
    let output = env.write(format!("bin/{name}.out"), stdout);
    let escaped = env.path("escaped");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo {name} 1.2.3; exit 0; }}\n\
         cat | grep --quiet OK || exit 3\necho $0 >>called\ntouch {} 2>/dev/null\ncat {}\nexit {exit}\n",
        escaped.display(),
        output.display(),
    );
    let program = env.write(format!("bin/{name}-program"), script);
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.link(name, &program);
}

fn workflow(env: &TestEnv, profiles: &[(&str, &str)]) {
    let agents: String = profiles
        .iter()
        .map(|(name, profile)| format!("  {name}: {profile}\n"))
        .collect();
    let stage = |(name, _): &(&str, &str)| {
        format!(
            "    {name}: {{ when: {{ state: {name} }}, agent: {name}, prompt: x, on_state_change: cancel }}\n"
        )
    };
    let stages: String = profiles.iter().map(stage).collect();
    env.workflow(&format!(
        "agents:\n{agents}issues: {{ pull: {{ command: \"echo '[]'\" }} }}\nissue:\n  terminal_states: [done]\n  stages:\n{stages}"
    ));
}

/// Returns the checks about calls, by name: the code and the message; and what is on stderr.
fn probe(env: &TestEnv, args: &[&str]) -> (Vec<(String, String, String)>, String) {
    let mut command = env.vik(["doctor", "--json"].iter().chain(args));
    let output = command
        .env("ANTHROPIC_API_KEY", "sk-key")
        .env("CODEX_API_KEY", "sk-key")
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = json["checks"].as_array().unwrap().iter();
    let checks = checks
        .map(|check| {
            (
                text(&check["check"]),
                text(&check["code"]),
                text(&check["message"]),
            )
        })
        .filter(|(name, ..)| name.split('.').next() == Some("probe"))
        .collect();
    (checks, String::from_utf8(output.stderr).unwrap())
}

fn message<'c>(checks: &'c [(String, String, String)], name: &str) -> (&'c str, &'c str) {
    let check = checks.iter().find(|(check, ..)| check == name);
    let (_, code, message) = check.unwrap_or_else(|| panic!("no {name}: {checks:?}"));
    (code, message)
}

#[test]
fn each_login_and_model_is_called_once_and_only_with_the_flag() {
    let env = TestEnv::new(bins::built("vik", "vik"));
    replaying(&env, "claude", "claude/2.1.197/text-stdin.recording");
    replaying(&env, "codex", "codex/0.169.0/dash-prompt-stdin.recording");
    let claude = "{ runtime: claude_code, model: sonnet }";
    workflow(
        &env,
        &[
            ("a", claude),
            ("b", claude),
            (
                "c",
                "{ runtime: codex, model: m, price: { input: 1, cached_input: 1, output: 1 } }",
            ),
            ("d", "{ runtime: command, command: [/bin/true] }"),
        ],
    );
    assert_eq!(probe(&env, &[]), Default::default());
    let (checks, notice) = probe(&env, &["--probe"]);
    assert!(
        notice.contains("costs money: a (claude_code, model sonnet), c (codex, model m)\n"),
        "{notice}"
    );
    let (code, answered) = message(&checks, "probe.a");
    assert_eq!(code, "");
    let (start, end) = answered.split_once("model sonnet, ").unwrap();
    assert!(
        start == "a answers (" && end.ends_with("s, $0.0051)"),
        "{answered}"
    );
    assert!(
        message(&checks, "probe.c").1.starts_with("c answers (model m, "),
        "{checks:?}"
    );
    assert!(
        message(&checks, "probe.d").1.starts_with("not called: "),
        "{checks:?}"
    );
    assert!(
        message(&checks, "probe").1.starts_with("2 calls, $0.0"),
        "{checks:?}"
    );
    assert_eq!(checks.len(), 4, "{checks:?}");
    assert!(!env.path("escaped").exists(), "the sandbox holds");
    env.assert_nothing_left();
}

#[test]
fn failed_call_is_reported_with_its_class() {
    for (runtime, program, recording, code, reason) in [
        (
            "claude_code",
            "claude",
            "claude/2.1.330/bad-model.recording",
            "agent_silent",
            "(model)",
        ),
        (
            "claude_code",
            "claude",
            "claude/2.1.330/oauth-ratelimit-429.recording",
            "agent_silent",
            "(rate_limit)",
        ),
        (
            "codex",
            "codex",
            "codex/0.169.0/conn-refused-retries1.recording",
            "agent_silent",
            "(network)",
        ),
    ] {
        let env = TestEnv::new(bins::built("vik", "vik"));
        replaying(&env, program, recording);
        workflow(&env, &[("a", &format!("{{ runtime: {runtime}, model: m }}"))]);
        let (checks, _) = probe(&env, &["--probe"]);
        let found = message(&checks, "probe.a");
        assert_eq!(found.0, code, "{recording}: {found:?}");
        assert!(
            found.1.starts_with(&format!("a does not answer {reason}: ")),
            "{recording}: {found:?}"
        );
    }
}

#[cfg(feature = "vex")]
#[test]
fn built_in_agent_is_called_by_its_own_probe() {
    let env = TestEnv::new(bins::built("vik", "vik"));
    // Nothing listens on this port.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = format!("{{ runtime: vex, base_url: \"http://{free}/v1\", model: m }}");
    workflow(&env, &[("a", &server)]);
    let (checks, _) = probe(&env, &["--probe"]);
    let (code, reason) = message(&checks, "probe.a");
    assert_eq!(code, "agent_silent", "{reason}");
    assert!(
        reason.contains(&free.to_string()) || reason.contains("refused"),
        "{reason}"
    );
}
