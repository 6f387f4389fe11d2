use super::*;

fn found(script: &str) -> Vec<(usize, String)> {
    scan(script, true)
}

#[test]
fn git_in_the_workspace_is_found_in_any_form() {
    for script in [
        "git push",
        "git -c core.hooksPath=/dev/null push --quiet origin HEAD",
        "/usr/bin/git push",
        "command git push",
        "env -u X A=b git push",
        "GIT_TRACE=1 git push",
        "echo x | git push",
        "true && git push",
        "if ! git push; then :; fi",
        "( git push )",
        "cd sub && git push",
        "cd \"$somewhere\"; git push",
        "x=$(git push)",
        "x=\"$(git push)\"",
        "x=`git push`",
        "sh -c 'git push'",
        "bash -euc \"cd sub; git push\"",
        "eval 'git push'",
        "ls | xargs -n 1 git push",
        "find . -name x -exec git push {} +",
        "timeout 5 git push",
        "cd {{ workflow_dir }}\ncd {{ issue.workdir }}; git push",
        "git -C {{ issue.workdir }} push",
        "(cd {{ workflow_dir }}; true); git push",
        "case x in x) git push;; esac",
        "f() { git push; }; f",
        "git \\\n  push",
        "{% if session.outcome == \"succeeded\" %}git push{% endif %}",
        "g'i't push",
    ] {
        let found = found(script);
        assert!(
            found.iter().any(|(_, command)| command == "git push"),
            "{script}: {found:?}"
        );
    }
}

#[test]
fn programs_of_the_workspace_are_found() {
    for (script, command) in [
        ("npm ci && npm test", "npm"),
        ("./script", "./script"),
        ("scripts/deploy x", "scripts/deploy"),
        ("bash x.sh", "bash x.sh"),
        ("sh -eu ./x.sh", "sh ./x.sh"),
        ("python3 -m pytest", "python3 -m pytest"),
        (". ./env.sh", ". ./env.sh"),
        ("make", "make"),
        ("echo x; {{ issue.workdir }}/run", "{{issue.workdir}}/run"),
        ("gh pr create --fill", "gh"),
        ("\"$PWD/run\"", "$PWD/run"),
    ] {
        let found = found(script);
        assert!(
            found.iter().any(|(_, found)| found == command),
            "{script}: {found:?}"
        );
    }
}

#[test]
fn commands_outside_the_workspace_are_not_found() {
    for script in [
        "vik git push --quiet",
        "vik issue move --from todo -- {{ issue.id }} review",
        "cd {{ workflow_dir }}\ngh issue edit {{ issue.id }} --add-label x\ngit status",
        "repository=$(git -C {{ workflow_dir }} rev-parse --show-toplevel)",
        "cd /tmp && git init x",
        "echo git push",
        "echo make; echo 'git push'",
        "# git push",
        "git --version",
        "sh {{ workflow_dir }}/deploy.sh",
        "make -C {{ workflow_dir }} deploy",
        "gh issue comment 1 --repo a/b --body-file x",
        "curl -fsS https://example.com/push | jq .",
        "printf '%s\\n' './x'",
    ] {
        assert_eq!(found(script), [], "{script}");
    }
}

#[test]
fn found_command_has_the_line_of_the_script() {
    assert_eq!(
        found("set -eu\n\n{% if x %}\nvik x\ngit status --short\n"),
        [(5, "git status".to_owned())]
    );
    let prompt = prompt_commands("a\nb !`exec(git log -n 1)`\n");
    assert_eq!(found(&prompt[0]), [(2, "git log".to_owned())]);
}

#[test]
fn output_scripts_start_outside_the_workspace() {
    let recipe =
        "git init --quiet --bare \"$clean\"\ngit -C \"$clean\" fetch --quiet {{ issue.workdir }} HEAD";
    assert_eq!(scan(recipe, false), [(2, "git fetch".to_owned())]);
}
