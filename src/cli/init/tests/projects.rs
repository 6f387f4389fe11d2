//! Tests that run generated workflows in projects.

use super::*;

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
  comment)
    cat >comment
    echo '{"created":true}' ;;
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
        let name = files::name(&kind);
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
                &name,
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

/// An agent that cannot do the issue comments on it and hands it to a person, once and without a
/// branch.
fn agent_asks_for_a_person(kind: TrackerKind) {
    let person = files::needs_person(kind);
    let outputs = [
        serde_json::json!({"kind": "comment", "body": "Which README? There are two."}),
        serde_json::json!({"kind": "state", "state": person}),
    ];
    let script: String = outputs
        .iter()
        .map(|output| format!("echo '{output}' >>\"$VIK_OUTPUTS\"\n"))
        .collect();
    let project = Project::new(kind, &script);
    let prompt = project.env.read("work/prompts/implement.md");
    assert!(prompt.contains(&format!("`{person}`")), "{prompt}");
    let done = project.vik(&["run", "--once"]).output().unwrap();
    assert!(done.status.success(), "{kind:?} {done:?}");
    let todo = files::states(kind)[0];
    assert_eq!(
        project.env.read("tracker/moves"),
        format!("{todo} -> {person}\n"),
        "{kind:?}"
    );
    assert!(project.env.read("tracker/comment").contains("Which README?"));
    assert_eq!(
        (project.branches(), project.env.read("tracker/pull_request")),
        Default::default()
    );
    let shown = project.vik(&["show", "1"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("Which README?"), "{shown}");
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

            #[test]
            fn agent_asks_for_a_person() {
                super::agent_asks_for_a_person(super::TrackerKind::$kind);
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
