//! Tests that every choice gives a usable workflow.

use std::process::{Command, Stdio};

use clap::Parser;
use vik_core::workflow::PromptSource;
use vik_template::{AFTER_CREATE_NAMES, AFTER_RUN_NAMES, NAMES, check_prompt, check_script};
use vik_workflow_reader::load;

use super::origin::PullRequests;
use super::*;
use crate::cli::{Cli, Verb};

const TRACKERS: [TrackerKind; 7] = [
    TrackerKind::Files,
    TrackerKind::Github,
    TrackerKind::Gitlab,
    TrackerKind::Gitea,
    TrackerKind::Redmine,
    TrackerKind::Linear,
    TrackerKind::Jira,
];
const AGENTS: [AgentKind; 4] = [
    AgentKind::Codex,
    AgentKind::Claude,
    AgentKind::Vex,
    AgentKind::Command,
];
const REPOSITORIES: [Repository; 5] = [
    Repository::None,
    Repository::Local,
    Repository::Remote(PullRequests::None),
    Repository::Remote(PullRequests::Tracker),
    Repository::Remote(PullRequests::Github),
];

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
            repository: Repository::Remote(PullRequests::Tracker),
        };
        let workflow = load(&files::plan(Path::new("/w/workflow.yml"), &choice)[0].text)
            .workflow
            .unwrap();
        let after_run = workflow.issue.stages[0].after_run.as_deref().unwrap();
        let moves = after_run
            .lines()
            .find(|line| line.contains("tracker workflow move"));
        assert!(page.contains(moves.unwrap().trim()), "{name}: {moves:?}");
        let tracker = workflow.tracker.unwrap();
        let named = match tracker[0].as_str() {
            "vik" => format!("tracker: {}", tracker[2]),
            program => format!("tracker: {{ command: [{program}] }}"),
        };
        assert!(page.contains(&named), "{name}: {named}");
        assert!(page.contains(&format!("vik init --tracker {name}")), "{name}");
    }
}

#[test]
fn last_stage_opens_a_pull_request_where_vik_can() {
    let opens = |tracker, repository| {
        let choice = Choice {
            tracker,
            agent: AgentKind::Codex,
            repository,
        };
        let workflow = load(&files::plan(Path::new("/w/workflow.yml"), &choice)[0].text).workflow;
        let stages = workflow.unwrap().issue.stages;
        let commands = |stage: usize| stages[stage].after_run.clone().unwrap();
        assert!(!commands(0).contains("pull_request"));
        let commands = commands(1);
        let line = commands.lines().find(|line| line.contains("pull_request open"));
        line.map(|line| line.trim().split(' ').nth(2).unwrap().to_owned())
    };
    for tracker in TRACKERS {
        for (pull_requests, command) in [
            (PullRequests::None, None),
            (PullRequests::Tracker, Some("workflow")),
            (PullRequests::Github, Some("github")),
        ] {
            let opened = opens(tracker, Repository::Remote(pull_requests));
            assert_eq!(opened.as_deref(), command);
        }
        assert_eq!(opens(tracker, Repository::None), None);
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
    }
}

#[test]
fn generated_workflow_and_next_steps_match_snapshots() {
    let choice = Choice {
        tracker: TrackerKind::Github,
        agent: AgentKind::Codex,
        repository: Repository::Remote(PullRequests::Tracker),
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
    let written = ["w.yml".into(), "issues".into()];
    insta::assert_snapshot!(next_steps(&choice, Path::new("w.yml"), &written, false), @r#"

    Next:
      export ANTHROPIC_API_KEY=…
          the key of the provider in `agents`
      vik issue new "TITLE" --body "TEXT"
          create an issue
      vik run --dry-run --workflow w.yml
          show what would start
      vik run --once --workflow w.yml
          run until no work is left
    "#);
    let choice = Choice {
        repository: Repository::Local,
        ..choice
    };
    let steps = next_steps(&choice, Path::new("a b/w.yml"), &written, true);
    assert!(!steps.contains("export"), "{steps}");
    let commit = "\n  git -C 'a b' add w.yml issues && git -C 'a b' commit --message \"Add Vik\"\n";
    assert!(steps.contains(commit), "{steps}");
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
    let written = write(&path, dir, &choice, false).unwrap();
    assert_eq!(written.files.last().unwrap(), Path::new("issues"));
    let out = written.report;
    assert!(
        out.contains("wrote workflow.yml\nwrote prompts/implement.md\n"),
        "{out}"
    );
    let issues = Tracker::new(dir.join("issues"));
    assert_eq!(issues.list().unwrap().issues.len(), 1);
    fs::write(&path, "mine").unwrap();
    fs::remove_file(dir.join("prompts/review.md")).unwrap();
    let failure = write(&path, dir, &choice, false).err().unwrap();
    assert_eq!((failure.code(), failure.exit), ("exists", Exit::Failed));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert!(!dir.join("prompts/review.md").exists(), "all or nothing");
    issues
        .move_to("1", "done", None, None, jiff::Timestamp::now())
        .unwrap();
    let out = write(&path, dir, &choice, true).unwrap().report;
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
      4) command  any other program, through the script agent.sh
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
    assert!(out.contains("login.codex") && !out.contains("✓"), "{out}");
    assert!(
        out.ends_with("vik run --once\n      run until no work is left\n"),
        "{out}"
    );
    let login = env.home().join(".codex");
    fs::create_dir(&login).unwrap();
    fs::write(login.join("auth.json"), "{}").unwrap();
    let out = run("vik", &["doctor", "-v"]);
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

#[test]
fn script_of_another_agent_fails_until_it_is_replaced() {
    let env = vik_testkit::TestEnv::new(vik_testkit::bins::built("vik", "vik"));
    let run = |program: &str, args: &[&str]| {
        let mut command = env.command(program);
        let output = command.args(args).stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    run("git", &["init", "--quiet", "."]);
    run("git", &["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    assert!(run("vik", &["init", "--tracker", "files", "--agent", "command"]).0);
    let (is_valid, report) = run("vik", &["doctor", "--offline", "--strict", "-v"]);
    assert!(is_valid && report.contains("agent.command"), "{report}");
    let (has_succeeded, report) = run("vik", &["run", "--once"]);
    assert!(
        !has_succeeded && report.contains("there is no agent in"),
        "{report}"
    );
    let script = env.read("work/agent.sh");
    let (before, _) = script.split_once("echo \"there is no agent").unwrap();
    let agent = "git commit --quiet --allow-empty --message \"Work on $VIK_ISSUE_ID\"\n";
    env.write("work/agent.sh", format!("{before}{agent}"));
    assert!(run("vik", &["retry", "1"]).0);
    let (has_succeeded, report) = run("vik", &["run", "--once"]);
    assert!(has_succeeded, "{report}");
    let (_, log) = run("git", &["log", "--format=%s", "vik/1"]);
    assert_eq!(log, "Work on 1\nWork on 1\nBegin\n");
    env.assert_nothing_left();
}

/// A tracker with one issue: its state and its labels are files beside it.
const TRACKER: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
state=$(cat state)
issue=$(printf '{"id":"1","title":"--base=x $(touch owned) fix","state":"%s","labels":["%s"]}' "$state" "$(cat labels)")
case $1 in
  list) if [ -e unlisted ]; then echo '[]'; else echo "[$issue]"; fi ;;
  show) echo "$issue" ;;
  move)
    moved=false
    if [ "$state" = "$4" ]; then
      moved=true state=$6
      printf %s "$6" >state
      echo "$4 -> $6" >>moves
    fi
    printf '{"moved":%s,"state":"%s"}\n' "$moved" "$state" ;;
  pull_request)
    cat >pull_request
    echo '{"id":"1","created":true,"url":"https://tracker.example/1"}' ;;
  *) exit 2 ;;
esac
"#;

/// A project with the workflow for a tracker, whose program is [`TRACKER`], pulled often, and a
/// Codex that runs a script.
struct Project {
    env: vik_testkit::TestEnv,
    kind: TrackerKind,
}

impl Project {
    fn new(kind: TrackerKind, script: &str) -> Self {
        let env = vik_testkit::TestEnv::new(vik_testkit::bins::built("vik", "vik"));
        let executable = |path: &str, text: &str| {
            let path = env.write(path, text);
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            path
        };
        let tracker = executable("tracker/tracker", TRACKER);
        let agent = AGENT.replace("cat >prompt.txt", script);
        env.link("codex", &executable("bin/agent", &agent));
        let project = Self { env, kind };
        project.put("state", files::states(kind)[0]);
        project.put("labels", "vik");
        let name = files::tracker_name(kind);
        let remote = project.env.path("remote").display().to_string();
        for args in [
            ["git", "init", "--quiet", "--bare", &remote].as_slice(),
            &["git", "init", "--quiet", "."],
            &["git", "commit", "--quiet", "--allow-empty", "-m", "Begin"],
            &["git", "remote", "add", "origin", &remote],
            &["git", "push", "--quiet", "origin", "HEAD"],
            &[
                "vik",
                "init",
                "--tracker",
                name,
                "--agent",
                "codex",
                "--no-doctor",
            ],
        ] {
            let output = project.env.command(args[0]).args(&args[1..]).output().unwrap();
            assert!(output.status.success(), "{args:?}: {output:?}");
        }
        let workflow = project.env.read("work/workflow.yml");
        let (before, after) = workflow.split_once("  tracker: ").unwrap();
        let (_, after) = after.split_once('\n').unwrap();
        let workflow = format!(
            "{before}  tracker: {{command: ['{}']}}\n{after}",
            tracker.display()
        )
        .replace("idle_sec: ", "idle_sec: 200ms # ")
        .replace("200ms # 5 }", "200ms }")
        .replace("200ms # 30 }", "200ms }")
        .replace("200ms # 60 }", "200ms }")
        .replace("\n  limits:", "\n  terminal_grace: 100ms\n  limits:");
        project.env.write("work/workflow.yml", workflow);
        project
    }

    fn put(&self, file: &str, content: &str) {
        self.env.write(format!("tracker/{file}"), content);
    }

    fn is_terminal(&self) -> &'static str {
        files::terminal(self.kind).split(", ").next().unwrap()
    }

    fn vik(&self, args: &[&str]) -> Command {
        let mut command = self.env.command("vik");
        command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Returns the files of this name in workspaces.
    fn found(&self, name: &str) -> String {
        let mut find = self.env.command("find");
        let found = find.args([".vik", "-name", name]).output().unwrap();
        String::from_utf8(found.stdout).unwrap()
    }

    fn branches(&self) -> String {
        let remote = self.env.path("remote").display().to_string();
        let mut git = self.env.command("git");
        let branches = git
            .args(["-C", &remote, "branch", "--list", "vik/*"])
            .output()
            .unwrap();
        String::from_utf8(branches.stdout).unwrap()
    }
}

/// What a person does to an issue in progress stops its agent, and nothing moves it after that.
fn person_stops_the_agent(kind: TrackerKind) {
    let project = Project::new(kind, "touch started; exec sleep 600");
    let closed = project.is_terminal();
    for (file, content) in [
        ("state", closed),
        ("state", "Backlog"),
        ("state", "none"),
        ("labels", "bug"),
    ] {
        if file == "labels" && files::required_labels(kind).is_empty() {
            // There, an issue without the label is in the state `none`.
            continue;
        }
        project.put("state", files::states(kind)[0]);
        project.put("labels", "vik");
        let mut run = project.vik(&["run", "--once"]).spawn().unwrap();
        vik_testkit::eventually("the agent works", || !project.found("started").is_empty());
        project.put(file, content);
        run.wait().unwrap();
        assert_eq!(project.env.read("tracker/moves"), "", "{kind:?} {content}");
        assert_eq!(project.branches(), "", "{kind:?} {content}");
        for started in project.found("started").lines() {
            fs::remove_file(project.env.work().join(started)).unwrap();
        }
    }
    project.env.assert_nothing_left();
}

/// Issues reach the person with a pull request, and leave nothing when the person has closed them.
fn work_is_handed_over_and_cleaned_up(kind: TrackerKind) {
    let project = Project::new(kind, "cat >prompt.txt");
    let done = project.vik(&["run", "--once"]).status().unwrap();
    assert!(done.success(), "{kind:?}");
    let [todo, review, ready] = files::states(kind);
    let moves = format!("{todo} -> {review}\n{review} -> {ready}\n");
    assert_eq!(project.env.read("tracker/moves"), moves);
    assert_eq!(project.branches().trim(), "vik/1");
    let at = pull_requests(kind, "", false, |_| None);
    let has_pull_requests = at == PullRequests::Tracker;
    assert_eq!(
        !project.env.read("tracker/pull_request").is_empty(),
        has_pull_requests,
        "{kind:?}"
    );
    if has_pull_requests {
        let draft: serde_json::Value =
            serde_json::from_str(&project.env.read("tracker/pull_request")).unwrap();
        assert_eq!(
            draft,
            serde_json::json!({"title": "--base=x $(touch owned) fix", "body": "Closes #1"})
        );
    }
    assert_eq!(project.found("owned"), "");
    assert_ne!(project.found("prompt.txt"), "");
    project.put("state", project.is_terminal());
    project.put("unlisted", "");
    let mut daemon = project.vik(&["run"]).spawn().unwrap();
    vik_testkit::eventually("the workspace is removed", || {
        project.found("prompt.txt").is_empty()
    });
    project.vik(&["stop"]).status().unwrap();
    daemon.wait().unwrap();
    project.env.assert_nothing_left();
}

/// Tests each tracker on its own, so that they run side by side.
macro_rules! each_tracker {
    ($($name:ident: $kind:ident,)+) => {
        $(mod $name {
            #[test]
            fn person_stops_the_agent() {
                super::person_stops_the_agent(super::TrackerKind::$kind);
            }

            #[test]
            fn work_is_handed_over_and_cleaned_up() {
                super::work_is_handed_over_and_cleaned_up(super::TrackerKind::$kind);
            }
        })+
    };
}

each_tracker! {
    markdown: Files,
    github: Github,
    gitlab: Gitlab,
    gitea: Gitea,
    redmine: Redmine,
    linear: Linear,
    jira: Jira,
}
