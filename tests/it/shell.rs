//! What shells use: completions and manual pages.

use std::process::Command;

use serde_json::json;

use crate::support::*;

/// Returns the completions of a real bash for a command line whose last argument is completed.
fn bash(world: &World, line: &[&str]) -> Vec<String> {
    let script = r#"
        source <(VIK_COMPLETE=bash "$VIK")
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_vik vik "${@: -1}" "${@: -2:1}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let vik = world.env.vik([""; 0]).get_program().to_owned();
    let mut command = world.env.command("bash");
    let out = command
        .args(["--norc", "-c", script, "bash"])
        .args(line)
        .env("VIK", vik)
        .output()
        .unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn completed(mut command: Command, shell: &str) -> String {
    command
        .env("VIK_COMPLETE", shell)
        .env("_CLAP_COMPLETE_INDEX", "2");
    let out = command.output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn completions_know_issues_stages_states_and_attempts() {
    let world = World::new(&[("7", "todo"), ("$(touch hit)", "todo"), ("9*", "todo")]).stage(
        "review",
        "review",
        "SCRIPT: ok",
    );
    world
        .tracker
        .set("7", "title", json!("Fix \u{1b}[31mthe\u{202e} `total`"));
    world.once().expect(0);
    let issues: Vec<_> = bash(&world, &["vik", "show", ""]);
    assert!(issues.contains(&"7".to_owned()), "{issues:?}");
    assert!(
        issues
            .iter()
            .all(|issue| *issue == "7" || issue.starts_with("--")),
        "{issues:?}"
    );
    assert!(!world.env.work().join("hit").exists());
    assert_eq!(bash(&world, &["vik", "retry", "--stage", ""]), ["work", "review"]);
    assert_eq!(
        bash(&world, &["vik", "approve", "7", "--stage", "rev"]),
        ["review"]
    );
    let states = bash(&world, &["vik", "issue", "move", "7", "re"]);
    assert_eq!(states, ["review"]);
    assert_eq!(bash(&world, &["vik", "vex", "exe"]), ["exec"]);
    let sessions = bash(&world, &["vik", "logs", "--session", ""]);
    let known: Vec<_> = world
        .runs()
        .iter()
        .map(|run| run["attempts"][0]["session_id"].clone())
        .collect();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
    assert!(
        sessions.iter().all(|id| known.contains(&json!(id))),
        "{sessions:?}"
    );
    // Fish shows the titles.
    let fish = completed(world.env.vik(["--", "vik", "show", "7"]), "fish");
    assert_eq!(fish, "7\tFix [31mthe `total`\n");
    // Another workflow, and none.
    assert_eq!(
        bash(&world, &["vik", "-w", "none.yml", "retry", "--stage", ""]),
        [""]
    );
    let here = world.env.work().join("workflow.yml").display().to_string();
    let named = bash(&world, &["vik", "--workflow", &here, "runs", "--stage", "w"]);
    assert_eq!(named, ["work"]);
    std::fs::write(&here, "agents: [").unwrap();
    assert_eq!(bash(&world, &["vik", "retry", "--stage", ""]), [""]);
}

#[test]
fn completions_can_be_set_up_for_each_shell() {
    let world = World::new(&[]);
    for (shell, text) in [
        ("bash", "complete -o"),
        ("zsh", "#compdef vik"),
        ("fish", "complete --keep-order"),
        ("elvish", "edit:completion:arg-completer[vik]"),
    ] {
        let script = completed(world.env.vik([""; 0]), shell);
        assert!(
            script.contains(text) && script.contains("VIK_COMPLETE"),
            "{shell}: {script}"
        );
        let options = completed(world.env.vik(["--", "vik", "show", "--js"]), shell);
        assert!(options.starts_with("--json"), "{shell}: {options}");
    }
}

#[test]
fn manual_has_a_page_for_each_command() {
    let world = World::new(&[]);
    let page = world.vik(&["man", "run"]).expect(0).out;
    assert_contains(&page, ".TH vik-run 1");
    assert_contains(&page, ".SH EXAMPLES\n.nf\nvik run");
    assert_contains(
        &world.vik(&["man", "issue", "new"]).expect(0).out,
        ".TH vik-issue-new 1",
    );
    assert_contains(&world.vik(&["man", "vex"]).expect(0).out, r"vik\-vex\-exec(1)");
    let wrong = world.vik(&["man", "issue", "nothing"]).expect(2);
    assert!(wrong.err.contains("no command `vik issue nothing`") && wrong.out.is_empty());
    world.vik(&["man", "--dir", "share/man1"]).expect(0);
    let dir = world.env.work().join("share/man1");
    let page = std::fs::read_to_string(dir.join("vik.1")).unwrap();
    let listed: Vec<_> = page.lines().filter_map(|line| line.strip_suffix("(1)")).collect();
    assert!(listed.len() > 30, "{page}");
    for name in listed {
        let name = name.replace("\\-", "-");
        assert!(dir.join(format!("{name}.1")).exists(), "{name}");
    }
    world.vik(&["man", "--dir", "workflow.yml/man"]).expect(1);
}
