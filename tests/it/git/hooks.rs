//! `vik git` in hooks, and warnings of hooks that use plain git.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

#[test]
fn hooks_can_use_vik_git_and_know_their_issue() {
    let world = World::new(&[("1", "todo")]);
    let moves = world.on_success("done");
    let world = world
        .set(
            "/issue/hooks",
            json!({"after_create": "git clone -q {{ workflow_dir }}/up.git . && git switch -qc vik/$VIK_ISSUE_ID",
                   "before_remove": "vik git log --format=%s -n 1 > {{ workflow_dir }}/last"}),
        )
        .set("/issue/terminal_states", json!(["done"]))
        .set(
            "/issue/stages/work/hooks",
            json!({
                "before_run": "vik git reset -q --hard origin/main && vik git clean -fdq",
                "after_run": format!("git -C {{{{ workflow_dir }}}} --version && vik git push -q --force-with-lease\n{moves}"),
            }),
        )
        .script("write b two");
    let work = world.env.work();
    let git = |folder: &Path, args: &[&str]| {
        let done = world
            .env
            .command("git")
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    };
    git(&work, &["init", "-q", "--bare", "-b", "main", "up.git"]);
    git(&work, &["clone", "-q", "up.git", "seed"]);
    git(
        &work.join("seed"),
        &["commit", "-q", "--allow-empty", "-m", "one"],
    );
    git(&work.join("seed"), &["push", "-q", "origin", "HEAD:main"]);
    let done = world.once().expect(0);
    assert!(!done.err.contains("outside of the sandbox"), "{}", done.err);
    assert_eq!(
        git(&work.join("up.git"), &["log", "--format=%s", "vik/1"]),
        "one\n"
    );
}

#[test]
fn run_warns_of_plain_git_in_a_hook() {
    let world = World::new(&[("1", "todo")]).set(
        "/issue/stages/work/hooks/before_run",
        json!("set -e\ngit -c core.hooksPath=/dev/null status > /dev/null || true"),
    );
    let done = world.once().expect(0);
    let line = "`issue.stages.work.hooks.before_run`, line 2, runs `git status` outside of the sandbox";
    assert_contains(&done.err, line);
    assert_contains(&done.err, "use `vik git status`");
    let doctor: Value = world.vik(&["doctor", "--offline", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let found = checks
        .iter()
        .filter(|check| check["code"] == "hook_outside")
        .count();
    assert_eq!(found, 1, "{doctor}");
}

/// The script that `vik init` wrote before `vik git` existed, and that of the reference workflow:
/// they still load and run, and each of their lines that runs git in the workspace gets a warning.
#[test]
fn doctor_warns_of_plain_git_in_hooks_of_old_templates() {
    let old = "set -eu\n{% if session.outcome == \"succeeded\" %}\n\
               git -c core.hooksPath=/dev/null push --quiet --force-with-lease origin HEAD\n";
    for (hook, script, verb) in [
        (
            "after_run",
            format!("{old}vik issue move --from todo -- {{{{ issue.id }}}} review\n{{% endif %}}"),
            "git push",
        ),
        (
            "after_run",
            format!(
                "{old}cd {{{{ workflow_dir }}}}\ngh issue edit {{{{ issue.id }}}} --remove-label vik:todo --add-label vik:review\n{{% endif %}}"
            ),
            "git push",
        ),
        (
            "after_run",
            format!(
                "{old}cd {{{{ workflow_dir }}}}\nsh ./tracker.sh move {{{{ issue.id }}}} \"In Review\"\n{{% endif %}}"
            ),
            "git push",
        ),
        (
            "before_run",
            "git reset --quiet --hard origin/main && git clean -fdq".to_owned(),
            "git reset",
        ),
    ] {
        let world = World::new(&[]).set(&format!("/issue/stages/work/hooks/{hook}"), json!(script));
        let doctor: Value = world.vik(&["doctor", "--offline", "--json"]).json();
        let checks = doctor["checks"].as_array().unwrap();
        let found: Vec<&str> = checks
            .iter()
            .filter(|check| check["code"] == "hook_outside")
            .map(|check| check["message"].as_str().unwrap())
            .collect();
        assert!(
            found.iter().any(|found| found.contains(&format!("`{verb}`"))),
            "{script}: {found:?}"
        );
        assert!(
            found.iter().all(|found| found.contains("`git ")),
            "{script}: {found:?}"
        );
    }
}
