//! Tests that every choice gives a usable workflow.

mod projects;

use std::process::{Command, Stdio};

use clap::{Parser, ValueEnum};
use vik_core::workflow::PromptSource;
use vik_template::{AFTER_CREATE_NAMES, AFTER_RUN_NAMES, NAMES, check_prompt, check_script};
use vik_workflow_reader::load;

use super::origin::PullRequests;
use super::*;
use crate::cli::{Cli, Verb};

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
    TrackerKind::value_variants().iter().flat_map(|tracker| {
        AgentKind::value_variants().iter().flat_map(move |agent| {
            REPOSITORIES.into_iter().map(move |repository| Choice {
                tracker: *tracker,
                agent: *agent,
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
    for &tracker in TrackerKind::value_variants() {
        let name = files::name(&tracker);
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
    for &tracker in TrackerKind::value_variants() {
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
        "outputs": {"state": ""},
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
      vik issue new "TITLE" --body "TEXT" --workflow w.yml
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
