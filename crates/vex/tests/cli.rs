//! The real `vex` program: its settings, its other verbs, and its output.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use vex::json_schema::JsonSchema;
use vik_testkit::server::ModelServer;

struct Fixture {
    dir: tempfile::TempDir,
    server: ModelServer,
}

impl Fixture {
    fn new(script: Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["work/.vex", "home"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let server = ModelServer::start_json(script).unwrap();
        Self { dir, server }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    fn vex(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vex"));
        command
            .args(args)
            .current_dir(self.dir.path().join("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("VEX_HOME", self.dir.path().join("home"))
            .env("COLUMNS", "100")
            .stdin(Stdio::null());
        command
    }

    /// `vex exec` with the scripted model.
    fn exec(&self, args: &[&str]) -> Command {
        let mut command = self.vex(&["exec", "-m", "scripted", "--base-url", &self.server.v1()]);
        command.args(args);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.vex(args).output().unwrap()
    }

    /// Runs `vex exec` with the scripted model to its end.
    fn run(&self, args: &[&str]) -> Output {
        self.exec(args).output().unwrap()
    }

    fn plain(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let real = self.dir.path().canonicalize().unwrap();
        text.replace(real.to_str().unwrap(), "D")
            .replace(self.dir.path().to_str().unwrap(), "D")
            .replace(&self.server.addr().port().to_string(), "PORT")
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn end(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().next_back().unwrap()).unwrap()
}

/// Concatenated here, so that scanners do not take this file for one with secrets.
fn secret() -> String {
    format!("{}_{}", "ghp", "q7Rz2Lk9Xw4Tb8Vn3Pc6Jd5Hf1Gs0MyKaEu9")
}

#[test]
fn config_show_names_the_origin_of_each_value() {
    let fixture = Fixture::new(json!([]));
    fixture.write(
        "home/config.toml",
        "model = \"m\"\nmax_turns = 50\n[providers.house]\nprotocol = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         headers = { X-Team = \"hidden\" }\n",
    );
    fixture.write("work/.vex/config.toml", "max_turns = 7\npermission = \"full\"\n");
    let show = |args: &[&str]| {
        let mut all = vec!["config", "show"];
        all.extend(args);
        fixture
            .vex(&all)
            .env("VEX_MAX_USD", "1.5")
            .env("HOUSE_API_KEY", secret())
            .output()
            .unwrap()
    };
    let output = show(&["--set", "--config", "retry.max_tries=2", "--provider", "house"]);
    assert_eq!(code(&output), 0);
    insta::assert_snapshot!(format!(
        "{}\n{}",
        fixture.plain(&output.stdout),
        fixture.plain(&output.stderr)
    ));
    let output = show(&["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = report["settings"].as_array().unwrap();
    assert!(all.len() > 30, "{}", all.len());
    assert!(all.iter().any(|shown| shown["key"] == "max_usd"
        && shown["value"] == 1.5
        && shown["origin"] == "$VEX_MAX_USD"));
    for output in [show(&[]), show(&["--json"])] {
        let output_text = format!("{output:?}");
        assert!(
            !output_text.contains("hidden") && !output_text.contains(&secret()),
            "{output_text}"
        );
    }
    let output = fixture.output(&["config", "path"]);
    insta::assert_snapshot!(fixture.plain(&output.stdout));
}

#[test]
fn wrong_settings_end_every_verb_with_3() {
    let fixture = Fixture::new(json!([]));
    fixture.write("home/config.toml", "modle = \"m\"\n");
    for verb in [
        &["config", "show"][..],
        &["models"],
        &["doctor"],
        &["exec", "go"],
        &["exec", "--json", "go"],
    ] {
        let output = fixture.vex(verb).output().unwrap();
        assert_eq!(code(&output), 3, "{verb:?}");
        let output_text = fixture.plain(&output.stderr) + &fixture.plain(&output.stdout);
        assert!(
            output_text.contains("D/home/config.toml:1:1: unknown key `modle`; did you mean `model`?"),
            "{output_text}"
        );
    }
    let output = fixture.output(&["exec", "--json", "go"]);
    assert_eq!(end(&output)["reason"], "config");
}

#[test]
fn models_and_doctor_ask_the_provider() {
    let fixture = Fixture::new(json!([{"text": "ok"}]));
    let url = fixture.server.v1();
    let output = fixture.output(&["models", "--json", "--base-url", &url]);
    let models: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            code(&output),
            models.as_array().is_some_and(|models| !models.is_empty())
        ),
        (0, true),
        "{models}"
    );

    let output = fixture.output(&[
        "doctor",
        "--probe",
        "--json",
        "-m",
        "scripted",
        "--base-url",
        &url,
    ]);
    assert_eq!(code(&output), 0, "{}", fixture.plain(&output.stdout));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let level = |check: &str| {
        let found = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["check"] == check);
        found.map(|finding| finding["level"].as_str().unwrap().to_owned())
    };
    for check in ["settings", "git", "workspace", "keys", "provider", "probe"] {
        assert_eq!(level(check).as_deref(), Some("ok"), "{findings}");
    }
    assert!(level("sandbox").is_some());

    // Nothing listens there.
    let output = fixture.output(&[
        "doctor",
        "--probe",
        "-m",
        "m",
        "--base-url",
        "http://127.0.0.1:1/v1",
    ]);
    assert_eq!(code(&output), 1);
    assert!(fixture.plain(&output.stdout).contains("error"));
    // The provider is ambiguous.
    let output = fixture.output(&["doctor"]);
    assert_eq!(code(&output), 3);
    let output_text = fixture.plain(&output.stdout);
    assert!(
        output_text.contains("ANTHROPIC_API_KEY") && output_text.contains("no provider is selected"),
        "{output_text}"
    );
}

#[test]
fn doctor_shows_only_the_name_of_a_key() {
    let fixture = Fixture::new(json!([{"text": "ok"}]));
    let key = "correct-horse-battery-staple";
    let output = fixture
        .vex(&["doctor", "--json"])
        .env("ANTHROPIC_API_KEY", key)
        .output()
        .unwrap();
    let output_text = fixture.plain(&output.stdout) + &fixture.plain(&output.stderr);
    assert!(
        output_text.contains("ANTHROPIC_API_KEY set") && !output_text.contains(key),
        "{output_text}"
    );
}

#[test]
fn environment_variables_equal_flags() {
    let fixture = Fixture::new(json!([{"run": "true"}, {"run": "true"}, {"text": "The work is done."}]));
    let output = fixture
        .vex(&["exec", "go"])
        .env("VEX_JSON", "1")
        .env("VEX_MODEL", "scripted")
        .env("VEX_BASE_URL", fixture.server.v1())
        .env("VEX_MAX_TURNS", "1")
        .env("VEX_OUTPUT", fixture.dir.path().join("last.txt"))
        .output()
        .unwrap();
    assert_eq!(
        (code(&output), end(&output)["reason"].as_str()),
        (5, Some("limit"))
    );
    // The flag wins.
    let output = fixture
        .exec(&["--json", "--max-turns", "9", "go"])
        .env("VEX_MAX_TURNS", "1")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", fixture.plain(&output.stdout));
    // Of a repeated flag the last one counts.
    let output = fixture.run(&["--json", "--max-turns", "9", "--max-turns", "1", "go"]);
    assert_eq!(code(&output), 5);
}

#[test]
fn last_message_is_written_to_a_file() {
    let fixture = Fixture::new(json!([{"run": "true"}, {"text": "The work is done."}]));
    fixture.write("work/last.txt", "old");
    let output = fixture.run(&["-o", "last.txt", "go"]);
    assert_eq!(
        (code(&output), fixture.read("work/last.txt").as_str()),
        (0, "The work is done.\n")
    );
    assert_eq!(output.stdout, b"The work is done.\n");
    // If the file cannot be written, the run fails.
    let output = fixture.run(&["--json", "-o", "no/last.txt", "go"]);
    assert_eq!(code(&output), 1);
    assert!(
        end(&output)["message"]
            .as_str()
            .unwrap()
            .contains("cannot write no/last.txt")
    );
}

#[test]
fn failed_check_is_returned_to_the_model() {
    let fixture = Fixture::new(json!([
        {"text": "I am done with the whole of the work, as far as I can see."},
        {"run": "touch ready"},
        {"text": "Now it is done."}
    ]));
    let output = fixture.run(&["--json", "--verify", "test -e ready", "go"]);
    let end = end(&output);
    assert_eq!(code(&output), 0, "{end}");
    let oks: Vec<bool> = end["verify"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["ok"].as_bool().unwrap())
        .collect();
    assert_eq!(oks, [false, true]);
}

#[test]
fn secrets_reach_neither_the_model_nor_the_events() {
    let fixture = Fixture::new(json!([{"run": "cat .env"}, {"text": "It holds a key."}]));
    fixture.write("work/.env", &format!("GITHUB_TOKEN={}\n", secret()));
    let output = fixture.run(&["--json", &format!("What is in .env? Not {} I hope.", secret())]);
    assert_eq!(code(&output), 0);
    assert!(!fixture.plain(&output.stdout).contains(&secret()));
    assert!(fixture.plain(&output.stdout).contains("[REDACTED:github_token]"));
    let results: Vec<String> = fixture
        .server
        .turns()
        .iter()
        .map(|turn| turn.body.to_string())
        .collect();
    let tool = results.last().unwrap();
    assert!(tool.contains("GITHUB_TOKEN=[REDACTED:github_token]"), "{tool}");
}

#[test]
fn events_of_a_run_fit_the_schema() {
    let schema = JsonSchema::new(&vex::events::json_schema()).unwrap();
    let fixture = Fixture::new(json!([
        {"thinking": "Let me see.", "run": "echo hi; exit 3"},
        {"tools": [{"call": {"name": "update_plan", "input": {"steps": [{"text": "look", "status": "done"}]}}}]},
        {"tools": [{"write": {"path": "a.txt", "content": "a\n"}}, {"call": {"name": "no_such_tool", "input": {}}}]},
        {"text": "Done for now."},
        {"text": "Done for good."}
    ]));
    let output = fixture.run(&["--json", "--verify", "test -e a.txt", "go"]);
    let text = fixture.plain(&output.stdout);
    let mut seen = Vec::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let mistakes = schema.violations(&event);
        assert!(mistakes.is_empty(), "{line}: {mistakes:?}");
        seen.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(code(&output), 0, "{text}");
    for kind in [
        "session_start",
        "message",
        "tool_call",
        "tool_result",
        "usage",
        "plan",
        "verify",
        "end",
    ] {
        assert!(seen.iter().any(|seen| seen == kind), "no {kind}: {seen:?}");
    }
}

#[test]
fn full_stdout_fails_the_run() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let fixture = Fixture::new(json!([{"run": "touch ran"}, {"text": "The work is done."}]));
    let output = fixture
        .exec(&["--json", "go"])
        .stdout(full.try_clone().unwrap())
        .output()
        .unwrap();
    assert_eq!(code(&output), 1);
    assert!(!fixture.dir.path().join("work/ran").exists());
    let output = fixture.vex(&["config", "show"]).stdout(full).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(fixture.plain(&output.stderr).contains("cannot write to stdout"));
}

#[test]
fn sessions_are_listed_and_shown() {
    let fixture = Fixture::new(json!([{"run": "true"}, {"text": "The work is done."}]));
    let listed = |json: &str| fixture.output(&["sessions", json]);
    assert_eq!(
        serde_json::from_slice::<Value>(&listed("--json").stdout).unwrap(),
        json!([])
    );
    assert_eq!(code(&fixture.run(&["Fix the bug"])), 0);
    let rows: Value = serde_json::from_slice(&listed("--json").stdout).unwrap();
    assert_eq!(
        (&rows[0]["title"], &rows[0]["ended"]),
        (&json!("Fix the bug"), &json!("done"))
    );
    let id = rows[0]["session_id"].as_str().unwrap();
    let output = fixture.output(&["sessions", "show", id]);
    assert!(fixture.plain(&output.stdout).contains("Fix the bug"));
    assert_eq!(
        code(&fixture.output(&["sessions", "show", "00000000-0000-7000-8000-000000000000"])),
        1
    );
    assert_eq!(code(&fixture.output(&["sessions", "show", "../x"])), 2);
}

#[test]
fn completions_know_the_verbs() {
    let fixture = Fixture::new(json!([]));
    for shell in ["bash", "zsh", "fish"] {
        let output = fixture.output(&["completions", shell]);
        assert!(fixture.plain(&output.stdout).contains("max-usd"), "{shell}");
    }
}
