//! The real MCP servers of npm and PyPI, if they are installed (`cargo xtask test` installs them).

use serde_json::{Value, json};
use vik_testkit::RealMcpServer;

use crate::support::{Bench, DATA};

/// Returns the results of the calls, without their first line.
fn results(server: Value, calls: &[(&str, Value)]) -> Vec<String> {
    let bench = Bench::with(server, calls);
    let ran = bench.allowed();
    assert_eq!(ran.end()["reason"], "done", "{:?} {:?}", ran.end(), ran.outputs());
    let strip = |output: &String| {
        let (first, text) = output.split_once('\n').unwrap();
        assert!(first.ends_with(DATA), "{first}");
        let mark = if first.starts_with('!') { "!" } else { "" };
        format!("{mark}{text}")
    };
    ran.outputs().iter().map(strip).collect()
}

#[test]
fn everything_server_returns_every_kind_of_content() {
    let Some(program) = RealMcpServer::Everything.or_skip() else {
        return;
    };
    let outputs = results(
        json!({"command": program}),
        &[
            ("get-sum", json!({"a": 2, "b": "3"})),
            ("get-tiny-image", json!({})),
            ("get-structured-content", json!({"location": "New York"})),
            ("get-resource-links", json!({"count": 2})),
            ("get_sum", json!({"a": 1, "b": 1})),
        ],
    );
    assert_eq!(outputs[0], "The sum of 2 and 3 is 5.");
    assert!(outputs[1].contains("[image, image/png, about "), "{}", outputs[1]);
    assert!(outputs[2].contains("\"temperature\":33"), "{}", outputs[2]);
    assert!(outputs[3].contains("[link to the resource "), "{}", outputs[3]);
    assert_eq!(
        outputs[4], "The sum of 1 and 1 is 2.",
        "the name in another notation"
    );
}

#[test]
fn filesystem_server_is_confined_to_its_folder() {
    let Some(program) = RealMcpServer::Filesystem.or_skip() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let file = folder.join("a.txt");
    let outputs = results(
        json!({"command": program, "args": [folder]}),
        &[
            ("write_file", json!({"path": file, "content": "hello"})),
            ("read_text_file", json!({"path": file})),
            ("!read_text_file", json!({"path": "/etc/hostname"})),
        ],
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello");
    assert_eq!(outputs[1], "hello");
    assert!(outputs[2].contains("Access denied"), "{}", outputs[2]);
}

#[test]
fn memory_server_remembers() {
    let Some(program) = RealMcpServer::Memory.or_skip() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let outputs = results(
        json!({"command": program, "env": {"MEMORY_FILE_PATH": folder.path().join("memory.jsonl")}}),
        &[
            (
                "create_entities",
                json!({"entities": [{"name": "vex", "entityType": "agent", "observations": ["small"]}]}),
            ),
            ("read_graph", json!({})),
        ],
    );
    assert!(outputs[1].contains("\"small\""), "{}", outputs[1]);
}

#[test]
fn git_server_reports_the_repository() {
    let Some(program) = RealMcpServer::Git.or_skip() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let init = std::process::Command::new("git")
        .args(["init", "-q", "-b", "trunk"])
        .arg(folder.path())
        .status();
    assert!(init.unwrap().success());
    let outputs = results(
        json!({"command": program, "args": ["--repository", folder.path()]}),
        &[("git_status", json!({"repo_path": folder.path()}))],
    );
    assert!(outputs[0].contains("On branch trunk"), "{}", outputs[0]);
}

#[test]
fn time_server_converts_and_refuses() {
    let Some(program) = RealMcpServer::Time.or_skip() else {
        return;
    };
    let at = |zone: &str| json!({"source_timezone": zone, "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let outputs = results(
        json!({"command": program, "args": ["--local-timezone", "Europe/Berlin"]}),
        &[("convert_time", at("UTC")), ("!convert_time", at("Nowhere"))],
    );
    assert!(outputs[0].contains("T21:00:00+09:00"), "{}", outputs[0]);
    assert!(
        outputs[1].starts_with('!') && outputs[1].contains("Nowhere"),
        "{}",
        outputs[1]
    );
}
