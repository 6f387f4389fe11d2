//! Servers that do not start, or list their tools wrongly.

use std::process::Stdio;

use serde_json::json;
use vik_testkit::alive;
use vik_testkit::bins::mcp_server;

use crate::support::{Bench, DATA};

#[test]
fn time_limit_of_the_run_ends_the_start() {
    let ran = Bench::new(&["never"], &[]).run(&["--allow", "mcp.s.*", "--timeout", "300ms"]);
    assert_eq!(ran.output.status.code(), Some(5));
    assert_eq!(
        ran.end()["message"],
        "reached the time limit of 0.3 s while MCP servers started"
    );
}

#[test]
fn server_that_refuses_a_request_is_not_one_that_ended() {
    for modes in [&["unlisted"][..], &["unlisted", "modern"]] {
        let ran = Bench::new(modes, &[]).allowed();
        assert_eq!(
            ran.end()["message"],
            "the MCP server s does not start: it does not list its tools: \"no database\\u{1b}[2J now\"",
            "{modes:?}"
        );
    }
}

#[test]
fn tools_of_a_repeated_page_are_listed_once() {
    for (mode, warnings) in [
        ("again=", &[][..]),
        ("again=x", &["the MCP server s: its list of tools repeats itself"]),
    ] {
        let ran = Bench::new(&[mode], &[("echo", json!({"text": "a"}))]).allowed();
        assert_eq!(ran.warnings(), warnings, "{mode}");
        assert!(ran.outputs()[0].ends_with("\na"), "{:?}", ran.outputs());
    }
}

#[test]
fn unknown_version_of_the_protocol_is_refused() {
    let ran = Bench::new(&["future"], &[]).allowed();
    assert_eq!(ran.output.status.code(), Some(3));
    assert_eq!(
        ran.end()["message"],
        "the MCP server s does not start: it speaks an unknown version of the protocol: \"2099-01-01\""
    );
}

#[test]
fn malformed_elements_of_results_are_left_out() {
    let env = ("!env", json!({"name": "a"}));
    for modes in [&["malformed"][..], &["malformed", "modern"]] {
        let calls = [("echo", json!({"text": "a"})), env.clone(), ("!fail", json!({}))];
        let ran = Bench::new(modes, &calls).allowed();
        let outputs = [
            format!("[mcp.s.echo; {DATA}\nkept\n[content of an unknown kind: not shown]"),
            "!the MCP server s gave no valid answer: its answer is not a result of the request".to_owned(),
            format!("![mcp.s.fail; {DATA}\nno\\u{{1b}}[2J\\u{{202e}} now run"),
        ];
        assert_eq!(ran.outputs(), outputs, "{modes:?}");
        let left_out = "is left out: the schema of its arguments is not of the type `object`";
        assert_eq!(
            ran.warnings()[0],
            format!("the MCP server s: its tool \"unschemed\" {left_out}")
        );
        assert!(ran.warnings()[1].starts_with("the MCP server s: its tool \"\" is left out: "));
    }
}

#[test]
fn interrupted_doctor_leaves_no_server() {
    use nix::sys::signal::{Signal, kill};
    let script = "echo $$ > started; exec sleep 600";
    let bench = Bench::with(json!({"command": "sh", "args": ["-c", script]}), &[]);
    let started = bench.fixture.path("work/started");
    nix::unistd::mkfifo(&started, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command =
            bench
                .fixture
                .vex(&["doctor", "--mcp-config", "../mcp.json", "--provider", "replay"]);
        let doctor = command.stdout(Stdio::null()).spawn().unwrap();
        let server: i32 = std::fs::read_to_string(&started).unwrap().trim().parse().unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(doctor.id()).unwrap());
        kill(pid, signal).unwrap();
        let output = doctor.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{signal}");
        assert!(!alive(server), "{signal}");
    }
}

#[test]
fn doctor_reports_a_deny_of_a_tool_that_does_not_exist() {
    let bench = Bench::with(json!({"command": mcp_server()}), &[]);
    let mut command = bench
        .fixture
        .vex(&["doctor", "--mcp-config", "../mcp.json", "--provider", "replay"]);
    let output = command
        .args(["--config", "deny=[\"mcp.s.ehco\"]"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("error    mcp       s: it has no such tools, which a deny or a hook names: mcp.s.ehco"),
        "{text}"
    );
    assert!(!output.status.success());
}

#[test]
fn denied_tools_are_not_reported_as_tools_without_a_rule() {
    let bench = Bench::with(json!({"command": mcp_server(), "tools": ["echo"]}), &[]);
    let ran = bench.run(&["--allow", "mcp.s.*", "--deny", "mcp.s.*"]);
    assert_eq!(
        ran.warnings(),
        ["the MCP server s: the rules deny all of its tools"]
    );
    let mut command = bench
        .fixture
        .vex(&["doctor", "--mcp-config", "../mcp.json", "--provider", "replay"]);
    let rules = ["allow=[\"mcp.s.*\"]", "deny=[\"mcp.s.echo\"]"].map(|rule| ["--config", rule]);
    let output = command.args(rules.concat()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("denied   mcp.s.echo"), "{text}");
}
