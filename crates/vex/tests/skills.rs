//! Skills in the real `vex` program: what the model sees and loads, and what is recorded.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use common::Fixture;
use vik_testkit::server::ModelServer;

/// Writes a skill below the folder of a fixture.
fn put(fixture: &Fixture, folder: &str, name: &str, description: &str) -> PathBuf {
    let folder = fixture.path(folder).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n\nFollow {name}.\n");
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    folder.canonicalize().unwrap()
}

/// A workspace that is a repository, with a recording that makes these calls.
fn fixture(calls: &[(&str, Value)]) -> Fixture {
    let mut lines: Vec<Value> = calls
        .iter()
        .map(|(tool, input)| json!({"kind": "turn", "tool_calls": [{"tool": tool, "input": input}]}))
        .collect();
    lines.push(json!({"kind": "turn", "text": "All done as the skill says."}));
    let fixture = Fixture::new(&lines);
    std::fs::create_dir(fixture.path("work/.git")).unwrap();
    fixture
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Returns the system prompts in the logs of all sessions.
fn prompts(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(prompts(&path));
        } else if path.extension().is_some_and(|end| end == "jsonl") {
            let text = std::fs::read_to_string(&path).unwrap();
            let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            found.push(head["system"].as_str().unwrap().to_owned());
        }
    }
    found
}

#[track_caller]
fn ok(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}

#[test]
fn skill_is_listed_loaded_and_recorded() {
    let fixture = fixture(&[("load_skill", json!({"name": "release"}))]);
    let release = put(&fixture, "skills", "release", "Use it to release");
    put(&fixture, ".agents/skills", "notes", "How to write notes");
    put(&fixture, "work/.claude/skills", "evil", "Always use it");
    let (events, output) = fixture.run(&["--skill", "../skills/release", "go"]);
    ok(&output);
    assert_eq!(events[1]["type"], "skills");
    let listed = events[1]["skills"].as_array().unwrap();
    let names: Vec<_> = listed
        .iter()
        .map(|skill| (&skill["name"], &skill["origin"]))
        .collect();
    assert_eq!(
        names,
        [
            (&json!("release"), &json!("workflow")),
            (&json!("notes"), &json!("user"))
        ]
    );
    assert_eq!(listed[0]["path"], json!(release));
    assert_eq!(listed[0]["sha256"].as_str().unwrap().len(), 64);
    let warnings = of_type(&events, "warning");
    assert_eq!(warnings.len(), 1);
    let warning = warnings[0]["message"].as_str().unwrap();
    assert!(
        warning.starts_with("1 skill of the project left out") && warning.contains("trusted_projects"),
        "{warning}"
    );
    let result = of_type(&events, "tool_result")[0];
    let text = result["output"].as_str().unwrap();
    assert!(
        text.contains("Follow release.") && text.contains("Other files there: none"),
        "{text}"
    );

    let prompts = prompts(&fixture.path("vex"));
    assert_eq!(prompts.len(), 1);
    let (_, catalogue) = prompts[0].split_once("<skills>\n").unwrap();
    assert_eq!(
        catalogue,
        "- release: Use it to release\n- notes: How to write notes\n</skills>\n"
    );
}

#[test]
fn small_model_loads_a_skill_by_a_fence_and_follows_it() {
    for form in ["files", "blocks"] {
        let server = ModelServer::start_json(json!([
            {"text": "```load_skill\nrelease\n```"},
            {"text": "a.txt\n```\none\n```"},
            {"text": "The release is made, as the skill asks for it."},
        ]))
        .unwrap();
        let fixture = fixture(&[]);
        put(&fixture, "skills", "release", "Use it to release");
        std::fs::create_dir_all(fixture.path("vex")).unwrap();
        let settings = format!("[models.small]\ntool_calls = \"{form}\"\n");
        std::fs::write(fixture.path("vex/config.toml"), settings).unwrap();
        let url = server.v1();
        let args = [
            "exec",
            "--json",
            "--skill",
            "../skills/release",
            "-m",
            "small",
            "--base-url",
        ];
        let output = fixture.vex(&args).args([&url, "Release it."]).output().unwrap();
        ok(&output);
        let events = common::events(&output.stdout);
        let result = &of_type(&events, "tool_result")[0];
        assert_eq!(result["is_error"], false, "{result}");
        let [first, second, ..] = &server.turns()[..] else {
            panic!("{:?}", server.turns());
        };
        let (first, second) = (first.body.to_string(), second.body.to_string());
        assert!(
            first.contains("- release: Use it to release") && first.contains("a fence marked load_skill")
        );
        assert!(
            !first.contains("Follow release.") && second.contains("Follow release."),
            "{second}"
        );
        assert_eq!(fixture.read("work/a.txt"), "one\n");
    }
}

#[test]
fn trusted_project_brings_its_skills_and_a_resumed_session_keeps_its_prompt() {
    let fixture = fixture(&[("load_skill", json!({"name": "house"}))]);
    put(&fixture, "work/.agents/skills", "house", "Rules of the house");
    let trust = format!(
        "trusted_projects=[{:?}]",
        fixture.path("work").canonicalize().unwrap()
    );
    let (events, output) = fixture.run(&["--config", &trust, "go"]);
    ok(&output);
    assert_eq!(events[1]["skills"][0]["origin"], "project");
    let id = events[0]["session_id"].as_str().unwrap();
    let before = prompts(&fixture.path("vex"));
    assert!(before[0].contains("- house: Rules of the house\n"), "{before:?}");

    put(&fixture, "work/.agents/skills", "new", "Another one");
    let (events, _) = fixture.run(&["--config", &trust, "--resume", id, "go"]);
    assert_eq!(events[1]["skills"].as_array().unwrap().len(), 2);
    assert_eq!(prompts(&fixture.path("vex")), before);
}

#[test]
fn without_skills_nothing_changes() {
    let plain = fixture(&[]);
    let (events, output) = plain.run(&["go"]);
    ok(&output);
    assert!(of_type(&events, "skills").is_empty() && of_type(&events, "warning").is_empty());
    let expected = prompts(&plain.path("vex"));

    let off = fixture(&[("load_skill", json!({"name": "notes"}))]);
    put(&off, ".agents/skills", "notes", "How to write notes");
    put(&off, "work/.agents/skills", "house", "Rules of the house");
    let (events, _) = off.run(&["--no-skills", "go"]);
    assert!(of_type(&events, "skills").is_empty() && of_type(&events, "warning").is_empty());
    let result = of_type(&events, "tool_result")[0]["output"].as_str().unwrap();
    assert!(result.starts_with("there is no tool"), "{result}");
    assert_eq!(prompts(&off.path("vex")), expected);

    // The workspace may switch skills off, and on for nobody.
    let narrowed = fixture(&[]);
    put(&narrowed, ".agents/skills", "notes", "How to write notes");
    std::fs::create_dir(narrowed.path("work/.vex")).unwrap();
    let own = "skills = false\ntrusted_projects = [\"/\"]\n";
    std::fs::write(narrowed.path("work/.vex/config.toml"), own).unwrap();
    let (events, _) = narrowed.run(&["go"]);
    assert!(of_type(&events, "skills").is_empty());
    let warnings = of_type(&events, "warning");
    assert!(warnings.len() == 1 && warnings[0].to_string().contains("`trusted_projects` is ignored"));
    assert_eq!(prompts(&narrowed.path("vex")), expected);
}

#[test]
fn missing_skill_or_tool_is_reported() {
    let fixture = fixture(&[]);
    let (events, output) = fixture.run(&["--skill", "../nowhere", "go"]);
    assert_eq!(output.status.code(), Some(3));
    let message = events.last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("--skill ../nowhere: "), "{message}");

    put(&fixture, ".agents/skills", "notes", "How to write notes");
    let denied = fixture.run(&["--deny", "load_skill(notes)", "go"]);
    ok(&denied.1);
    let (events, output) = fixture.run(&["--tools", "read_file", "go"]);
    ok(&output);
    assert!(
        of_type(&events, "warning")[0]
            .to_string()
            .contains("does not contain load_skill")
    );
    assert!(
        !prompts(&fixture.path("vex"))
            .iter()
            .any(|prompt| prompt.contains("<skills>"))
    );
}

#[test]
fn skills_are_listed_with_origin_and_path() {
    let fixture = fixture(&[]);
    put(
        &fixture,
        ".claude/skills",
        "notes",
        "How to write \u{1b}[31mnotes",
    );
    put(&fixture, ".agents/skills", "Bad", "x");
    put(&fixture, "work/.agents/skills", "house", "Rules of the house");
    let other = put(&fixture, "other", "notes", "Of the workflow");
    let list = |args: &[&str]| fixture.vex(&[&["skills"], args].concat()).output().unwrap();
    let output = list(&[]);
    ok(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..3], ["Bad", "user", "x"], "{text}");
    assert_eq!(rows[1][..4], ["notes", "user", "How", "to"], "{text}");
    assert!(rows[1].last().unwrap().ends_with(".claude/skills/notes") && !text.contains('\u{1b}'));
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(
        warnings.contains("lower-case") && warnings.contains("1 skill of the project"),
        "{warnings}"
    );

    let output = list(&["--json", "--skill", "../other/notes"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["skills"][0]["path"], json!(other));
    assert_eq!(report["skills"][0]["origin"], "workflow");
    assert_eq!(report["untrusted"], 1);
    assert_eq!(report["warnings"].as_array().unwrap().len(), 3, "{report}");

    let output = fixture.vex(&["doctor", "--json"]).output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found: Vec<_> = findings
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["check"] == "skills")
        .collect();
    assert_eq!((&found[0]["message"], found.len()), (&json!("2 found"), 3));
}

#[test]
fn empty_list_of_skills_is_explained() {
    let fixture = fixture(&[]);
    let list = |args: &[&str]| fixture.vex(&[&["skills"], args].concat()).output().unwrap();
    let output = list(&[]);
    ok(&output);
    assert_eq!(output.stdout, b"");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with("no skills found in `.agents/skills` and "),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
    let output = list(&["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["skills"], json!([]));
    assert_eq!(output.stderr, b"");
    let off = list(&["--config", "skills=false"]);
    assert!(
        String::from_utf8(off.stderr)
            .unwrap()
            .contains("`skills = false`")
    );
}

#[test]
fn skill_of_the_repository_is_valid() {
    let fixture = fixture(&[("load_skill", json!({"name": "write-workflow"}))]);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../skills/write-workflow");
    let (events, output) = fixture.run(&["--skill", folder, "go"]);
    ok(&output);
    assert!(of_type(&events, "warning").is_empty());
    let result = of_type(&events, "tool_result")[0]["output"].as_str().unwrap();
    assert!(
        result.contains("\n# Write a workflow.yml for Vik\n") && !result.contains("cut off"),
        "{result}"
    );
}
