//! Tests the report of `doctor` on valid and broken workflows.

mod calls;
mod daemon;
mod orphans;
mod program;
#[cfg(feature = "vex")]
mod servers;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use vik_core::duration::Span;
use vik_core::issue::Pull;
use vik_orchestrator::intake::{PullError, PullResult};
use vik_workflow_reader::load;

use super::*;

const GOOD: &str = r#"agents:
  coder: { runtime: command, command: [/bin/sh] }
  built_in: { runtime: vex, provider: replay, base_url: recordings, model: one }
issues:
  pull: { command: "echo '[]'" }
issue:
  hooks:
    after_create: |
      git clone -- {{ workflow_dir }} .
  stages:
    plan:
      when: { state: todo }
      agent: coder
      prompt: "Plan {{ issue.title }} from !`exec(vik git log)`"
    work:
      when: { state: planned }
      agent: built_in
      prompt_file: prompts/work.md
      verify: make test
      hooks:
        before_run: vik git fetch
        after_run: |
          {% if session.outcome == "succeeded" %}
          echo {{ issue.id }} {{ session.usage.input_tokens }}
          {% endif %}
"#;

const BROKEN: &str = r#"agents:
  coder: { runtime: command, command: [no-such-program-here] }
  built_in: { runtime: vex, provider: nowhere, model: one }
loop: { max_iteration: 3 }
issues:
  pull: { command: "echo '[]'" }
issue:
  hooks:
    after_create: |
      set -e
      sh -c {{ issue.title }}
    before_remove: echo {{ attempt.number }}
  stages:
    plan:
      when: { state: todo }
      agent: coder
      prompt: Plan {{ issue.title }} for {{ isue.id }} and {{ issue.assignee }}
    work:
      when: { state: planned }
      agent: built_in
      prompt_file: prompts/work.md
    review:
      when: { state: review }
      agent: built_in
      prompt_file: prompts/missing.md
    close:
      when: { state: closing }
      agent: coder
      prompt: Close {{ issue.assignee }}
"#;

/// Creates a folder with a workflow and one prompt file.
fn folder(workflow: &str, prompt: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("prompts")).unwrap();
    fs::write(folder.path().join("prompts/work.md"), prompt).unwrap();
    let path = folder.path().join("workflow.yml");
    fs::write(&path, workflow).unwrap();
    (folder, path)
}

/// Returns all checks that do not depend on the machine.
fn examine_offline(path: &Path) -> Examination {
    let mut examination = examine(path, Extent::Files).unwrap();
    examination
        .checks
        .retain(|check| check.group != Group::System && check.check != "instance");
    examination
}

/// Returns the result of these checks.
fn examination(checks: Vec<Check>) -> Examination {
    Examination {
        workflow_path: "/w".into(),
        offline: false,
        files: Vec::new(),
        checks,
        missing_states: Vec::new(),
    }
}

/// Returns what `doctor` prints without flags.
fn report(examination: &Examination) -> String {
    text(examination, TextOptions::default()) + &next_step(examination, false)
}

macro_rules! assert_redacted {
    ($path:expr, $($snapshot:tt)*) => {
        let folder = fs::canonicalize($path).unwrap();
        insta::with_settings!({ filters => vec![(folder.to_str().unwrap(), "[folder]")] }, {
            insta::assert_snapshot!($($snapshot)*);
        });
    };
}

fn recording(folder: &Path) {
    fs::create_dir(folder.join("recordings")).unwrap();
    let lines = r#"{"kind":"recording","version":1}
{"kind":"conversation","name":"all"}
{"kind":"turn","text":"done"}
"#;
    fs::write(folder.join("recordings/one.jsonl"), lines).unwrap();
}

#[test]
fn valid_workflow_passes_and_leaves_no_files() {
    let (folder, path) = folder(
        GOOD,
        "Work on {{ issue.title }}.\n{% if attempt.feedback %}Again.{% endif %}\n",
    );
    recording(folder.path());
    let before = entries(folder.path());
    let examination = examine_offline(&path);
    assert_eq!(examination.exit(true), Exit::Done);
    let verbose = TextOptions {
        verbose: true,
        ..TextOptions::default()
    };
    assert_redacted!(folder.path(), "good_text", text(&examination, verbose));
    assert_redacted!(folder.path(), "good_short", report(&examination));
    let json = serde_json::to_string_pretty(&json(&examination, false)).unwrap();
    assert_redacted!(folder.path(), "good_json", json);
    assert_eq!(entries(folder.path()), before, "nothing is left behind");
}

#[test]
fn invalid_workflow_reports_its_errors() {
    let (folder, path) = folder(BROKEN, "Work.\n\n  On {{ isue.title }} and {% if %}\n");
    let examination = examine_offline(&path);
    assert_redacted!(folder.path(), "broken_text", report(&examination));
    let json = serde_json::to_string_pretty(&json(&examination, false)).unwrap();
    assert_redacted!(folder.path(), "broken_json", json);
    assert_eq!(examination.exit(false), Exit::Workflow);
}

#[test]
#[cfg(not(feature = "temporal"))]
fn missing_engine_is_an_error_at_its_key() {
    let engine = "engine: { temporal: { address: \"host:7233\", task_queue: q } }\n";
    let (folder, path) = folder(&format!("{engine}{GOOD}"), "Work.\n");
    recording(folder.path());
    let examination = examine_offline(&path);
    let finding = examination
        .findings()
        .find(|finding| finding.code == "bad_engine");
    let finding = finding.unwrap();
    assert_eq!(
        (finding.severity, finding.line, finding.column),
        (Severity::Error, 1, 11)
    );
    assert_eq!(examination.exit(false), Exit::Workflow);
}

#[test]
fn too_few_open_files_are_a_warning() {
    let text = GOOD.replace("issues:\n", "loop: { max_issue_concurrency: 500 }\nissues:\n");
    let workflow = load(&text).workflow.unwrap();
    let check = |limit| environment_checks::open_files(OpenFiles::new(limit), &workflow);
    let (few, enough, any) = (check(Some(1024)), check(Some(20_000)), check(None));
    assert_eq!(few.code.as_deref(), Some("open_files"));
    assert!(few.hint.is_some_and(|hint| hint.contains("LimitNOFILE=")));
    assert_eq!((enough.status, any.status), (Status::Ok, Status::Ok));
    assert_eq!(
        enough.message,
        "the limit on open files is 20000, enough for 2212 sessions"
    );
}

#[test]
fn missing_workflow_still_gets_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let examination = examine(&folder.path().join("workflow.yml"), Extent::Files).unwrap();
    assert_eq!(examination.exit(false), Exit::Workflow);
    let names: Vec<_> = examination
        .checks
        .iter()
        .map(|check| check.check.as_str())
        .collect();
    assert!(
        names.contains(&"workflow") && names.contains(&"daemon") && names.contains(&"platform"),
        "{names:?}"
    );
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    entries
}

#[test]
fn recording_must_exist_and_be_valid() {
    let (folder, path) = folder(GOOD, "Work.");
    let status = |examination: &Examination| {
        let check = examination
            .checks
            .iter()
            .find(|check| check.check == "provider.built_in")
            .unwrap();
        (check.status, check.code.clone().unwrap_or_default().into_owned())
    };
    assert_eq!(
        status(&examine_offline(&path)),
        (Status::Error, "recording_missing".to_owned())
    );
    recording(folder.path());
    assert_eq!(status(&examine_offline(&path)).0, Status::Ok);
    fs::write(folder.path().join("recordings/one.jsonl"), "no recording\n").unwrap();
    assert_eq!(
        status(&examine_offline(&path)),
        (Status::Error, "recording_broken".to_owned())
    );
}

#[test]
fn missing_login_is_an_error_unless_the_settings_name_another() {
    let home = tempfile::tempdir().unwrap();
    for (runtime, settings, other) in [
        ("codex", "config.toml", "model_provider = \"mine\""),
        ("claude_code", "settings.json", r#"{"apiKeyHelper": "./key"}"#),
    ] {
        let settings = home.path().join(settings);
        fs::write(&settings, "{}").unwrap();
        let text = GOOD
            .replace("runtime: command", &format!("runtime: {runtime}, model: m"))
            .replace(", command: [/bin/sh]", "");
        let path = home.path().join("workflow.yml");
        let workflow = load(&text).workflow.unwrap();
        let host = vik_daemon::host(&path, &workflow, &Instance::of(&path).unwrap()).unwrap();
        let folder = home.path().to_str().unwrap().to_owned();
        let env = ["HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"].map(|name| (name.to_owned(), folder.clone()));
        let name = "coder".into();
        let status = || {
            let check = agents::login(&host, &name, &workflow.agents[&name], &env.clone().into());
            check.unwrap().status
        };
        assert_eq!(status(), Status::Error, "{runtime}");
        fs::write(&settings, other).unwrap();
        assert_eq!(status(), Status::Warning, "{runtime}");
    }
}

#[test]
fn exit_code_follows_from_the_failed_checks() {
    let error = |check: &str| Check::error(Group::System, check, "x", "x");
    let warning = |check: &str| Check::warning(Group::System, check, "x", "x");
    let exit = |checks: Vec<Check>, strict| examination(checks).exit(strict);
    assert_eq!(
        exit(vec![warning("git"), Check::ok(Group::System, "a", "a")], false),
        Exit::Done
    );
    assert_eq!(exit(vec![warning("git")], true), Exit::Failed);
    assert_eq!(exit(vec![error(PULL)], false), Exit::NotFound);
    assert_eq!(exit(vec![error(PULL), error("agent.a")], false), Exit::Failed);
    assert_eq!(
        exit(vec![error(PULL), error("agent.a"), error(WORKFLOW)], false),
        Exit::Workflow
    );
    assert_eq!(exit(vec![warning(WORKFLOW)], false), Exit::Done);
    assert_eq!(exit(vec![warning(WORKFLOW)], true), Exit::Workflow);
}

fn pull_text(result: Result<&str, PullError>) -> String {
    let workflow = load(GOOD).workflow.unwrap();
    let result = result.map(|items| Pull::parse(items.as_bytes()).unwrap());
    let duration = Duration::from_millis(120);
    let (checks, _) = issues::check(&workflow, PullResult { duration, result });
    report(&examination(checks))
}

#[test]
fn pull_report_shows_issues_or_the_error() {
    let items = r#"[{"id":1,"state":"todo"},{"id":2,"state":"done"},{"id":3,"state":"Todo "},{"id":4},{"id":1,"state":"a"},
        7,{"state":"x"}]"#;
    insta::assert_snapshot!(pull_text(Ok(items)));
    insta::assert_snapshot!(pull_text(Err(PullError::TimedOut(Span::secs(60)))));
    let failed = PullError::Failed {
        how: "exited with 127".into(),
        stderr: "sh: gh: not found\x1b[31m".into(),
        requested_wait: None,
    };
    insta::assert_snapshot!(pull_text(Err(failed)));
}

#[test]
fn closing_that_nothing_shows_is_a_warning() {
    let warned = |change: (&str, &str), state: &str| {
        let text = GOOD.replace("issue:\n", "issue:\n  terminal_states: [closed]\n");
        let workflow = load(&text.replace(change.0, change.1)).workflow.unwrap();
        let item = format!(r#"[{{"id": 1, "state": "{state}"}}]"#);
        let pull = PullResult {
            duration: Duration::ZERO,
            result: Ok(Pull::parse(item.as_bytes()).unwrap()),
        };
        let (checks, _) = issues::check(&workflow, pull);
        let check = checks.into_iter().find(|check| check.check == "pull.closed");
        check.and_then(|check| check.code).unwrap_or_default()
    };
    assert_eq!(warned(("", ""), "todo"), "closed_unseen");
    assert_eq!(warned(("", ""), "closed"), "");
    let show = ("issues:\n", "issues:\n  show: { command: ./show }\n");
    assert_eq!(warned(show, "todo"), "");
    let no_states = ("terminal_states: [closed]", "terminal_grace: 1s");
    assert_eq!(warned(no_states, "todo"), "closing_ignored");
    let cancels = ("issue:\n  terminal_states: [closed]\n", "issue:\n");
    let text = GOOD.replace("agent: ", "on_state_change: cancel\n      agent: ");
    assert_ne!(text, GOOD);
    let workflow = load(&text.replace(cancels.0, cancels.1)).workflow.unwrap();
    assert!(issues::closing_ignored(&workflow, "x").is_none());
}

#[test]
fn template_is_rendered_with_an_issue_of_the_pull() {
    let (_folder, path) = folder(BROKEN, "Work.");
    let loaded = load(&BROKEN.replace("isue", "issue"));
    let workflow = loaded.draft().unwrap().clone();
    let sources = vik_workflow::Sources::read(&workflow, &loaded, path.parent().unwrap());
    let instance = Instance::of(&path).unwrap();
    let host = vik_daemon::host(&path, &workflow, &instance).unwrap();
    let item = r#"[{"id":"7","state":"closing","title":"t"},{"id":"8","state":"todo","assignee":"me"}]"#;
    let pulled = Pull::parse(item.as_bytes()).unwrap().issues;
    let render = |pulled: &[Issue]| {
        let rendered = templates::render(&host, &workflow, &sources, pulled);
        rendered
            .into_iter()
            .map(|rendered| rendered.check)
            .collect::<Vec<_>>()
    };
    let checks = render(&pulled);
    let status = |name: &str| {
        checks
            .iter()
            .find(|check| check.check == name)
            .map(|check| check.status)
    };
    // A real issue without the field is an error. With an invented issue it is a warning. The other
    // issue has the field.
    assert_eq!(status("prompt.close"), Some(Status::Error));
    assert_eq!(status("prompt.plan"), Some(Status::Ok));
    let checks = render(&[]);
    let close = checks.iter().find(|check| check.check == "prompt.close").unwrap();
    assert_eq!(
        (close.status, close.code.as_deref()),
        (Status::Warning, Some("template_undefined"))
    );
}

#[test]
fn folder_check_finds_unwritable_paths_and_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let status = |path: &Path| environment_checks::writable("home", "the root", path).status;
    assert_eq!(status(&folder.path().join("a/b/c")), Status::Ok);
    assert!(!folder.path().join("a").exists());
    assert_eq!(status(folder.path()), Status::Ok);
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(status(&file), Status::Error);
    assert_eq!(status(&file.join("below")), Status::Error);
}

#[test]
fn program_search_skips_relative_path_entries() {
    assert!(probe::find("sh", "relative:/bin:/usr/bin").is_some());
    assert_eq!(probe::find("sh", "bin:."), None);
    assert_eq!(probe::find("/etc/passwd", "/bin"), None);
}

#[test]
fn agent_program_is_found_beside_the_workflow() {
    let (folder, path) = folder(&GOOD.replace("[/bin/sh]", "[./agent.sh]"), "Work");
    recording(folder.path());
    let found = |code: &str| {
        let examination = examine_offline(&path);
        let mut checks = examination.checks.into_iter();
        let check = checks.find(|check| check.check == "agent.coder").unwrap();
        assert_eq!(
            check.code.as_deref().unwrap_or_default(),
            code,
            "{}",
            check.message
        );
    };
    // Old workflows have it in the repository, and so in each workspace.
    found("agent_relative");
    let program = folder.path().join("agent.sh");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    found("agent_not_found");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    found("");
}

#[test]
fn agent_that_cannot_take_messages_is_a_warning() {
    let agent = "{ runtime: codex, model: m, steer: true, args: { output-schema: a.json } }";
    let text = GOOD.replace("{ runtime: command, command: [/bin/sh] }", agent);
    let (folder, path) = folder(&text, "Work");
    recording(folder.path());
    let checks = examine_offline(&path).checks;
    let is_found = |check: &&Check| check.code.as_deref() == Some("not_steerable");
    let check = checks.iter().find(is_found).unwrap();
    assert!(
        check.status == Status::Warning && check.message.contains("`args`"),
        "{}",
        check.message
    );
}

#[test]
fn slip_in_a_template_is_an_error_without_a_pulled_issue_too() {
    let code = |hook: &str| {
        let (folder, path) = folder(&GOOD.replace("echo {{ issue.id }}", hook), "Work");
        recording(folder.path());
        let mut checks = examine_offline(&path).checks.into_iter();
        let check = checks.find(|check| check.check == "after_run.work").unwrap();
        (check.status, check.code)
    };
    let undefined = |status| (status, Some("template_undefined".into()));
    assert_eq!(code("echo {{ issue.idd }}"), undefined(Status::Error));
    assert_eq!(code("echo {{ session.outcom }}"), undefined(Status::Error));
    // A tracker may have this field.
    assert_eq!(code("echo {{ issue.milestone }}"), undefined(Status::Warning));
}
