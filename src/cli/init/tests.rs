//! Tests that every choice gives a usable workflow.

use std::process::{Command, Stdio};

use clap::Parser;
use vik_core::workflow::PromptSource;
use vik_template::{AFTER_CREATE_NAMES, AFTER_RUN_NAMES, NAMES, check_prompt, check_script};
use vik_workflow_reader::load;

use super::*;
use crate::cli::{Cli, Verb};

const TRACKERS: [TrackerKind; 5] = [
    TrackerKind::Files,
    TrackerKind::Github,
    TrackerKind::Gitlab,
    TrackerKind::Linear,
    TrackerKind::Jira,
];
const AGENTS: [AgentKind; 3] = [AgentKind::Codex, AgentKind::Claude, AgentKind::Vex];
const REPOSITORIES: [Repository; 3] = [Repository::None, Repository::Local, Repository::Remote];

fn args(flags: &[&str]) -> InitArgs {
    let cli = Cli::try_parse_from(["vik", "init"].iter().chain(flags)).unwrap();
    match cli.verb {
        Verb::Init(args) => args,
        other => panic!("{other:?}"),
    }
}

fn choices() -> impl Iterator<Item = Choice> {
    TRACKERS.into_iter().flat_map(|tracker| {
        AGENTS.into_iter().flat_map(move |agent| {
            REPOSITORIES.into_iter().map(move |repository| Choice {
                tracker,
                agent,
                repository,
            })
        })
    })
}

#[test]
fn generated_workflows_load_without_findings() {
    for choice in choices() {
        let files = files::plan(Path::new("/w/workflow.yml"), &choice);
        let loaded = load(&files[0].text);
        assert!(
            loaded.is_ok(true),
            "{choice:?}\n{}\n{}",
            loaded.render("workflow.yml", false),
            files[0].text
        );
        assert!(
            !files[0].text.contains('@'),
            "a place was not filled: {}",
            files[0].text
        );
        let workflow = loaded.workflow.unwrap();
        let script = |text: &str, names: &[&str]| {
            assert_eq!(check_script(text, names), [], "{choice:?}\n{text}");
        };
        script(
            workflow.issue.after_create.as_deref().unwrap(),
            AFTER_CREATE_NAMES,
        );
        for stage in &workflow.issue.stages {
            script(stage.verify.as_deref().unwrap(), NAMES);
            script(stage.after_run.as_deref().unwrap(), AFTER_RUN_NAMES);
            let PromptSource::File(prompt) = &stage.prompt else {
                panic!("{choice:?}")
            };
            let prompt = files.iter().find(|file| file.path == Path::new(prompt)).unwrap();
            assert_eq!(check_prompt(&prompt.text, NAMES), []);
        }
    }
}

#[test]
fn tracker_pages_match_the_generated_workflow() {
    for tracker in TRACKERS {
        let name = files::tracker_name(tracker);
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/usage/trackers/{name}.md"));
        let page = fs::read_to_string(page).unwrap();
        let choice = Choice {
            tracker,
            agent: AgentKind::Codex,
            repository: Repository::Remote,
        };
        let workflow = load(&files::plan(Path::new("/w/workflow.yml"), &choice)[0].text)
            .workflow
            .unwrap();
        let after_run = workflow.issue.stages[0].after_run.as_deref().unwrap();
        // A page may omit lines that are not its subject, but must not have others.
        let move_lines = after_run
            .lines()
            .filter(|line| line.contains("move") || line.contains("label"));
        let show = workflow.show.iter().flat_map(|show| show.command.lines());
        assert_eq!(workflow.show.is_none(), tracker == TrackerKind::Files, "{name}");
        for line in workflow.pull.command.lines().chain(show).chain(move_lines) {
            assert!(page.contains(line.trim()), "{name}: {line}");
        }
        assert!(page.contains(&format!("vik init --tracker {name}")), "{name}");
    }
}

#[test]
fn generated_scripts_are_valid_shell() {
    let sh = |text: &str| {
        let mut child = Command::new("sh")
            .arg("-n")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
    };
    let session = serde_json::json!({"outcome": "succeeded"});
    let context = serde_json::json!({
        "issue": {"id": "1; rm"}, "workflow_dir": "/w", "attempt": {"feedback": ""}, "session": session,
    });
    for choice in choices() {
        let files = files::plan(Path::new("/w/workflow.yml"), &choice);
        let workflow = load(&files[0].text).workflow.unwrap();
        let mut scripts = vec![workflow.issue.after_create.unwrap(), workflow.pull.command];
        scripts.extend(workflow.show.map(|show| show.command));
        scripts.extend(
            workflow
                .issue
                .stages
                .iter()
                .filter_map(|stage| stage.after_run.clone()),
        );
        scripts.extend(
            workflow
                .issue
                .stages
                .iter()
                .filter_map(|stage| stage.verify.clone()),
        );
        for script in &scripts {
            sh(&vik_template::script(script, &context).unwrap());
        }
        files
            .iter()
            .filter(|file| file.is_script)
            .for_each(|file| sh(&file.text));
    }
}

#[test]
fn generated_workflow_and_next_steps_match_snapshots() {
    let choice = Choice {
        tracker: TrackerKind::Github,
        agent: AgentKind::Codex,
        repository: Repository::Remote,
    };
    insta::assert_snapshot!(
        "github_codex",
        files::plan(Path::new("/w/workflow.yml"), &choice)[0].text
    );
    let choice = Choice {
        tracker: TrackerKind::Files,
        agent: AgentKind::Vex,
        repository: Repository::None,
    };
    insta::assert_snapshot!(
        "files_vex",
        files::plan(Path::new("/w/workflow.yml"), &choice)[0].text
    );
    insta::assert_snapshot!(next_steps(&choice, Path::new("w.yml")), @r#"

    Next:
      vik issue new "TITLE" --body "TEXT"
          create an issue
      vik run --dry-run --workflow w.yml
          show what would start
      vik run --once --workflow w.yml
          run until no work is left
    "#);
}

#[test]
fn files_are_overwritten_only_with_force_and_issues_never() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/workflow.yml");
    let dir = path.parent().unwrap();
    let choice = Choice {
        tracker: TrackerKind::Files,
        agent: AgentKind::Codex,
        repository: Repository::None,
    };
    let out = write(&path, dir, &choice, false).unwrap();
    assert!(
        out.contains("wrote workflow.yml\nwrote prompts/implement.md\n"),
        "{out}"
    );
    let issues = Tracker::new(dir.join("issues"));
    assert_eq!(issues.list().unwrap().issues.len(), 1);
    fs::write(&path, "mine").unwrap();
    fs::remove_file(dir.join("prompts/review.md")).unwrap();
    let failure = write(&path, dir, &choice, false).unwrap_err();
    assert_eq!((failure.code(), failure.exit), ("exists", Exit::Failed));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(!dir.join("prompts/review.md").exists(), "all or nothing");
    issues
        .move_to("1", "done", None, None, jiff::Timestamp::now())
        .unwrap();
    let out = write(&path, dir, &choice, true).unwrap();
    assert!(out.contains("kept the existing issues"), "{out}");
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with("# yaml-language-server")
    );
    assert_eq!(issues.show("1").unwrap().state, "done");
}

#[test]
fn questions_accept_numbers_names_and_empty_input() {
    let ask = |flags: &[&str], input: &str| {
        let mut output = Vec::new();
        let answer = ask::ask_tracker_and_agent(
            &mut input.as_bytes(),
            &mut output,
            &args(flags),
            AgentKind::Claude,
        );
        (
            answer.map_err(|error| error.kind()),
            String::from_utf8(output).unwrap(),
        )
    };
    assert_eq!(ask(&[], "\n\n").0, Ok((TrackerKind::Files, AgentKind::Claude)));
    assert_eq!(
        ask(&[], "9\n0\nLinear\n1\n").0,
        Ok((TrackerKind::Linear, AgentKind::Codex))
    );
    assert_eq!(
        ask(&["--tracker", "jira"], "3\n").0,
        Ok((TrackerKind::Jira, AgentKind::Vex))
    );
    assert_eq!(ask(&[], "").0, Err(io::ErrorKind::UnexpectedEof));
    insta::assert_snapshot!(ask(&["--tracker", "files"], "x\n\n").1, @"
    Which agent works on the issues?
      1) codex    Codex CLI
      2) claude   Claude Code
      3) vex      the built-in agent, for a model API or your own server
    Number or name [2]: Invalid choice.
    Number or name [2]: 
    ");
}

/// An agent that makes a commit and prints the events of Codex.
const AGENT: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo codex-cli 1.2.3; exit 0; }
cat >prompt.txt
git add -A && git commit --quiet -m "Do what was asked"
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"done"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
"#;

#[test]
fn generated_workflow_runs_to_completion() {
    let env = vik_testkit::TestEnv::new(vik_testkit::bins::built("vik", "vik"));
    let agent = env.write("bin/agent", AGENT);
    fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.link("codex", &agent);
    let run = |program: &str, args: &[&str]| {
        let output = env
            .command(program)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{program} {args:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    run("git", &["init", "--quiet", "."]);
    run("git", &["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    // There is no terminal for questions: defaults apply.
    let out = run("vik", &["init"]);
    assert!(
        out.contains("agent.codex: codex-cli 1.2.3") && out.contains("1 for implement"),
        "{out}"
    );
    run("vik", &["run", "--once"]);
    let issues: serde_json::Value = serde_json::from_str(&run("vik", &["issue", "list", "--json"])).unwrap();
    assert_eq!(issues[0]["state"], "ready");
    // The commits are back in the original repository, on a branch.
    let prompts = run("git", &["log", "--format=%s", "vik/1"]);
    assert_eq!(prompts, "Do what was asked\nDo what was asked\nBegin\n");
    assert!(run("git", &["show", "vik/1:prompt.txt"]).contains("Review of issue 1"));
}

/// A `gh` with one issue, whose state and labels are files beside it. It prints the results of the
/// generated `--jq` expressions.
const GH: &str = r#"#!/bin/sh
cd "$(dirname "$(readlink -f "$0")")"
issue() {
  state=$(sed -n 's/^vik://p' labels | sort | head -n 1)
  [ "$(cat state)" = OPEN ] || state=closed
  printf '{"id":1,"title":"One","description":"","state":"%s"}\n' "${state:-none}"
}
case "$1 $2 $*" in
  "issue list "*) if [ "$(cat state)" = OPEN ]; then printf '[%s]\n' "$(issue)"; else echo '[]'; fi ;;
  "issue view "*"--json state,labels "*) 
    wanted=$(printf '%s' "$*" | sed -n 's/.*select(. == "\(.*\)").*/\1/p')
    if [ "$(cat state)" = OPEN ]; then grep -x "$wanted" labels || true; fi ;;
  "issue view "*) issue ;;
  "issue edit "*) echo "$4 $5" >>edits; case $4 in
      --add-label) echo "$5" >>labels ;;
      --remove-label) grep -vx "$5" labels >left; mv left labels ;;
    esac ;;
  *) exit 1 ;;
esac
"#;

/// Returns a project with the workflow for GitHub, pulled often, and a Codex that runs `script`.
fn github_project(script: &str) -> vik_testkit::TestEnv {
    let env = vik_testkit::TestEnv::new(vik_testkit::bins::built("vik", "vik"));
    let executable = |path: &str, text: &str| {
        let path = env.write(path, text);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    env.link("gh", &executable("tracker/gh", GH));
    env.link(
        "codex",
        &executable("bin/agent", &AGENT.replace("cat >prompt.txt", script)),
    );
    env.write("tracker/state", "OPEN");
    env.write("tracker/labels", "bug\nvik:todo\n");
    for args in [
        ["git", "init", "--quiet", "."].as_slice(),
        &["git", "commit", "--quiet", "--allow-empty", "-m", "Begin"],
        &["vik", "init", "--tracker", "github", "--agent", "codex"],
    ] {
        let output = env
            .command(args[0])
            .args(&args[1..])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
    let workflow = env
        .read("work/workflow.yml")
        .replace("idle_sec: 30", "idle_sec: 200ms")
        .replace("[closed]", "[closed]\n  terminal_grace: 100ms");
    env.write("work/workflow.yml", workflow);
    env
}

#[test]
fn person_who_closes_or_moves_a_github_issue_stops_its_agent() {
    for (file, content) in [
        ("state", "CLOSED"),
        ("labels", "bug\n"),
        ("labels", "vik:backlog\n"),
    ] {
        let env = github_project("touch started; exec sleep 600");
        let mut run = env
            .command("vik")
            .args(["run", "--once"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let started = || {
            let found = env
                .command("find")
                .args([".vik", "-name", "started"])
                .output()
                .unwrap();
            !found.stdout.is_empty()
        };
        vik_testkit::eventually("the agent works", started);
        env.write(format!("tracker/{file}"), content);
        run.wait().unwrap();
        assert!(!env.path("tracker/edits").exists(), "{file} {content}");
        let pushed = env
            .command("git")
            .args(["branch", "--list", "vik/*"])
            .output()
            .unwrap();
        assert!(pushed.stdout.is_empty(), "{file} {content}");
        env.assert_nothing_left();
    }
}

/// The issue has a label at any time, and a label that does not exist leaves it in its state.
#[test]
fn github_issue_is_moved_by_a_new_label_first() {
    let env = github_project("cat >prompt.txt");
    let done = env
        .command("vik")
        .args(["run", "--once"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        env.read("tracker/edits"),
        "--add-label vik:review\n--remove-label vik:todo\n--add-label vik:ready\n--remove-label vik:review\n"
    );
}
