use vik_core::outputs::{OutputKind, Recovery};

use super::*;

const PULL: &str = "  pull:\n    command: ./issues-json\n";

fn with(issues: &str) -> Workflow {
    let loaded = load(&minimal_with(&[(PULL, issues)]));
    assert!(loaded.diagnostics.is_empty(), "{}", loaded.render("w", false));
    loaded.workflow.unwrap()
}

#[test]
fn tracker_becomes_the_commands_of_pull_and_show() {
    let workflow = with("  tracker: github\n  pull: {idle_sec: 30, secrets: []}\n");
    assert_eq!(workflow.pull.command, "vik tracker github list");
    assert_eq!(workflow.pull.idle, vik_core::duration::Span::secs(30));
    insta::assert_snapshot!(workflow.show.unwrap().command, @r#"
    set -- {{ issue.id }}
    case $1 in -*) echo "invalid id: $1" >&2; exit 1 ;; esac
    code=0
    issue=$(vik tracker github show "$1") || code=$?
    case $code in
    0) printf '%s\n' "$issue" ;;
    66) echo null ;;
    *) exit "$code" ;;
    esac
    "#);
    assert_eq!(with("  tracker: files\n").pull.command, "vik tracker files list");
    assert_eq!(
        with("  tracker: gitlab\n").pull.command,
        "vik tracker gitlab list"
    );
    assert_eq!(
        with("  tracker: redmine\n").pull.command,
        "vik tracker redmine list"
    );
    let workflow = with("  tracker: {command: [./tracker.sh, --project, \"it's $HOME\", 7, \"\"]}\n");
    assert_eq!(
        workflow.pull.command,
        r"./tracker.sh --project 'it'\''s $HOME' 7 '' list"
    );
}

#[test]
fn tracker_passes_the_secrets_of_the_pull_to_both_commands() {
    let text = minimal_with(&[
        (
            PULL,
            "  tracker: github\n  pull: {secrets: [GH_TOKEN]}\n  show: {timeout: 9s}\n",
        ),
        ("agents:\n", "secrets: {GH_TOKEN: {env: V}}\nagents:\n"),
    ]);
    let show = load(&text).workflow.unwrap().show.unwrap();
    assert_eq!(show.secrets, ["GH_TOKEN"]);
    assert_eq!(show.timeout, vik_core::duration::Span::secs(9));
    let own = text.replace("{timeout: 9s}", "{secrets: []}");
    assert_eq!(load(&own).workflow.unwrap().show.unwrap().secrets, [""; 0]);
}

#[test]
fn tracker_excludes_commands() {
    let both = "  tracker: github\n  pull:\n    ^command: ./issues-json\n";
    let finding = one(&[(PULL, both)], "tracker_command");
    assert_eq!(
        finding.message,
        "`issues.tracker` and `issues.pull.command` exclude each other"
    );
    let show = "  tracker: files\n  show: {^command: x}\n";
    one(&[(PULL, show)], "tracker_command");
}

#[test]
fn invalid_trackers_are_reported_at_their_place() {
    for (tracker, code) in [
        ("tracker: ^jira", "unknown_value"),
        ("^tracker: [./tracker.sh]", "wrong_type"),
        ("^tracker: {}", "missing_key"),
        ("tracker: {command: ^./tracker.sh}", "wrong_type"),
        ("^tracker: {command: []}", "empty_value"),
        ("^tracker: {command: [a, \"{{ issue.id }}\"]}", "bad_text"),
    ] {
        one(&[(PULL, &format!("  {tracker}\n"))], code);
    }
    let finding = one(&[(PULL, "  tracker: ^glab\n")], "unknown_value");
    assert!(finding.hint.unwrap().contains("gitlab"));
    let none = [("issues:", "^issues:"), (PULL, "  {}\n")];
    let hint = one(&none, "missing_key").hint.unwrap();
    assert!(hint.contains("issues: {tracker: github}"), "{hint}");
}

#[test]
fn show_command_turns_the_exit_code_for_a_missing_issue_into_null() {
    let show = |id: &str, code: u8| {
        let tracker =
            format!("  tracker: {{command: [sh, -c, \"echo \\\"$1 $2\\\"; exit {code}\", it's]}}\n");
        let script = with(&tracker).show.unwrap().command;
        let script = script.replace("{{ issue.id }}", &format!("'{id}'"));
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text, output.status.code().unwrap())
    };
    assert_eq!(show("a b", 0), ("show a b\n".to_owned(), 0));
    assert_eq!(show("7", 66), ("null\n".to_owned(), 0));
    assert_eq!(show("7", 75), (String::new(), 75));
    assert_eq!(show("--all", 0), (String::new(), 1));
}

/// Returns the minimal workflow with a tracker and these keys of its stage.
fn stage(tracker: &str, keys: &str) -> Loaded {
    load(&minimal_with(&[
        (PULL, &format!("  {tracker}\n")),
        (
            "        state: todo\n",
            &format!("        state: [todo, it's on]\n{keys}"),
        ),
    ]))
}

#[test]
fn outputs_without_commands_are_left_to_the_tracker() {
    let outputs = "      outputs: {comment: {}, pull_request: {max: 2}, label: {run: x, allow: [a]}}\n";
    let loaded = stage(
        "tracker: {command: [./t.sh, a b]}\n  pull: {secrets: [T]}\nsecrets: {T: {env: V}}",
        outputs,
    );
    let text = loaded.render("w", false);
    let stages = loaded.workflow.expect(&text).issue.stages;
    let policy = stages[0].outputs.as_ref().unwrap();
    assert_eq!(policy.secrets, ["T"]);
    let rule = |kind| &policy.rules[&kind];
    insta::assert_snapshot!(rule(OutputKind::PullRequest).push.as_deref().unwrap(), @r#"
    set -e
    vik git push --quiet --branch "vik/$VIK_ISSUE_ID"
    "#);
    insta::assert_snapshot!(rule(OutputKind::PullRequest).run, @r#"
    vik tracker output --from=todo --from='it'\''s on' -- ./t.sh 'a b'
    "#);
    assert_eq!(rule(OutputKind::Comment).recovery(), Recovery::Repeat);
    assert_eq!(rule(OutputKind::Label).recovery(), Recovery::Person);
    assert_eq!(rule(OutputKind::Label).run, "x");
    assert_eq!(rule(OutputKind::Label).push, None);
}

#[test]
fn start_state_is_moved_to_by_the_tracker() {
    let loaded = stage("tracker: files", "      start_state: it's on\n");
    let start = loaded.workflow.unwrap().issue.stages[0]
        .start_state
        .clone()
        .unwrap();
    insta::assert_snapshot!(start.command, @r#"
    printf '%s' '{"kind":"state","state":"it'\''s on"}' |
      vik tracker output --from=todo --from='it'\''s on' -- vik tracker files
    "#);
}

#[test]
fn tracker_moves_issues_from_states_of_follow_ups_too() {
    let keys =
        "        follow_up: review\n      start_state: it's on\n      outputs: {state: {allow: [x]}}\n";
    let loaded = stage("tracker: files", keys);
    let stage = &loaded.workflow.unwrap().issue.stages[0];
    let moves = "vik tracker output --from=todo --from='it'\\''s on' --from=review -- vik tracker files";
    for command in [
        &stage.start_state.as_ref().unwrap().command,
        &stage.outputs.as_ref().unwrap().rules[&OutputKind::State].run,
    ] {
        assert!(command.contains(moves), "{command}");
    }
}

#[test]
fn actions_that_the_tracker_cannot_take_over_are_reported() {
    let files = "tracker: files";
    for (tracker, keys, code, path) in [
        (files, "      start_state: doing\n", "start_state", "start_state"),
        (
            "pull: {command: x}",
            "      start_state: todo\n",
            "start_state",
            "start_state",
        ),
        (
            "pull: {command: x}",
            "      outputs: {comment: {}}\n",
            "missing_key",
            "outputs.comment.run",
        ),
        (
            files,
            "      outputs: {comment: {check: x}}\n",
            "tracker_command",
            "outputs.comment.check",
        ),
        (
            files,
            "      outputs: {state: {}}\n",
            "missing_key",
            "outputs.state.allow",
        ),
    ] {
        let loaded = stage(tracker, keys);
        let found: Vec<_> = loaded
            .diagnostics
            .iter()
            .map(|found| (found.code, found.path.as_str()))
            .collect();
        let path = format!("issue.stages.plan.{path}");
        assert_eq!(found, [(code, path.as_str())], "{}", loaded.render("w", false));
        assert!(loaded.diagnostics[0].hint.is_some());
    }
    let loaded = load(&minimal_with(&[
        (PULL, "  tracker: files\n"),
        ("state: todo", "state: \"{{ x }}\""),
    ]));
    assert_eq!(loaded.diagnostics[0].code, "bad_text");
}
