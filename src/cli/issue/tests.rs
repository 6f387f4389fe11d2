use clap::Parser;

use super::*;

#[derive(Parser)]
struct TestCli {
    #[command(flatten)]
    issue: IssueArgs,
}

/// Returns exit code, stdout, and stderr or the error.
fn vik_issue(dir: &Path, args: &[&str], stdin: &str) -> (u8, String, String) {
    let dir = dir.join("issues").display().to_string();
    let cli = ["vik-issue", "--dir", &dir]
        .into_iter()
        .chain(args.iter().copied());
    let cli = TestCli::try_parse_from(cli).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(
        Path::new("workflow.yml"),
        &cli.issue,
        &mut stdin.as_bytes(),
        &mut out,
        &mut err,
    );
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&dir, "DIR");
    match code {
        Ok(code) => (code, text(out), text(err)),
        Err(error) => (
            error.exit_code(),
            text(out),
            error.to_string().replace(&dir, "DIR"),
        ),
    }
}

#[test]
fn verbs_create_list_move_comment_and_show_issues() {
    let dir = tempfile::tempdir().unwrap();
    let vik = |args: &[&str]| vik_issue(dir.path(), args, "from stdin\n");
    let mut transcript = String::new();
    for args in [
        &["list", "--json"][..],
        &["new", "First", "--body", "-", "--label", "a", "--label", "b"],
        &[
            "new",
            "Second \u{1b}[31m",
            "--state",
            "backlog",
            "--priority",
            "-1",
            "--json",
        ],
        &["new", "Third", "--id", "../x"],
        &["list"],
        &["list", "--state", "backlog"],
        &["move", "1", "review", "--from", "backlog"],
        &[
            "move", "1", "review", "--from", "todo", "--reason", "it works", "--author", "ann",
        ],
        &["move", "1", "review"],
        &["comment", "1", "-", "--author", "bob"],
        &["close", "2", "--json"],
        &["show", "3"],
    ] {
        let (code, out, err) = vik(args);
        transcript += &format!(
            "$ {}\n{out}{err}[{code}]\n",
            args.join(" ").replace('\u{1b}', "ESC")
        );
    }
    insta::assert_snapshot!(transcript, @r#"
    $ list --json
    cannot open the issues folder DIR[1]
    $ new First --body - --label a --label b
    1
    [0]
    $ new Second ESC[31m --state backlog --priority -1 --json
    {"id":"2"}
    [0]
    $ new Third --id ../x
    "../x" cannot be the id of a new issue[2]
    $ list
    1  todo     First
    2  backlog  Second [31m
    [0]
    $ list --state backlog
    2  backlog  Second [31m
    [0]
    $ move 1 review --from backlog
    the issue "1" is in state "todo", not in "backlog"[1]
    $ move 1 review --from todo --reason it works --author ann
    1: todo → review
    [0]
    $ move 1 review
    1 is already in review
    [0]
    $ comment 1 - --author bob
    [0]
    $ close 2 --json
    {"id":"2","from":"backlog","to":"done","changed":true}
    [0]
    $ show 3
    no issue "3" in DIR[8]
    "#);
    let (_, shown, _) = vik(&["show", "1"]);
    let stamp = shown
        .lines()
        .find_map(|line| line.strip_suffix(" · ann"))
        .unwrap()
        .to_owned();
    assert!(stamp.parse::<Timestamp>().is_ok());
    let created = shown
        .lines()
        .find_map(|line| line.strip_prefix("created_at: "))
        .unwrap()
        .to_owned();
    let shown = shown.replace(&created, "TIME").replace(&stamp, "TIME");
    let second = shown
        .lines()
        .find_map(|line| line.strip_suffix(" · bob"))
        .unwrap()
        .to_owned();
    insta::assert_snapshot!(shown.replace(&second, "TIME"), @r"
    1  First
    state: review
    created_at: TIME
    labels: a, b
    file: DIR/1-first.md

    from stdin

    TIME · ann
    todo → review: it works

    TIME · bob
    from stdin
    ");
}

#[test]
fn listing_fails_only_when_all_files_are_broken() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("issues")).unwrap();
    assert_eq!(
        vik_issue(dir.path(), &["list", "--json"], ""),
        (0, "[\n]\n".to_owned(), String::new())
    );
    std::fs::write(dir.path().join("issues/x.md"), "---\nstate: a\n---\n").unwrap();
    let (code, out, err) = vik_issue(dir.path(), &["list", "--json"], "");
    assert_eq!((code, out.as_str()), (1, "[\n]\n"));
    assert_eq!(
        err,
        "skipped DIR/x.md:1: it has no `id`\n  hint: add a line such as `id: 1`\n"
    );
    vik_issue(dir.path(), &["new", "good"], "");
    let (code, out, _) = vik_issue(dir.path(), &["list", "--json"], "");
    assert_eq!(code, 0);
    let pull = vik_core::issue::Pull::parse(out.as_bytes()).unwrap();
    assert_eq!((pull.issues.len(), pull.issues[0].id.as_str()), (1, "1"));
}

#[test]
fn issues_are_next_to_the_workflow_file() {
    let dir = tempfile::tempdir().unwrap();
    let workflow = dir.path().join("conf/workflow.yml");
    let cli = TestCli::try_parse_from(["vik-issue", "new", "A title"]).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    run(&workflow, &cli.issue, &mut "".as_bytes(), &mut out, &mut err).unwrap();
    assert!(dir.path().join("conf/issues/1-a-title.md").is_file());
}

#[test]
fn move_to_a_state_without_a_meaning_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let workflow = dir.path().join("workflow.yml");
    let warning = |state: &str| {
        let cli = TestCli::try_parse_from(["vik-issue", "move", "1", state]).unwrap();
        unknown_state(&workflow, &cli.issue)
    };
    assert_eq!(warning("nonsense"), None, "no workflow");
    let text = "issues: { pull: { command: list } }\n\
                agents: { a: { runtime: codex, model: m } }\n\
                issue:\n  terminal_states: [done]\n  stages:\n    \
                work: { when: { state: todo }, agent: a, prompt: p,\n            \
                hooks: { after_run: vik tracker workflow move --to review } }\n";
    std::fs::write(&workflow, text).unwrap();
    for known in ["todo", "done", "review"] {
        assert_eq!(warning(known), None, "{known}");
    }
    assert_eq!(
        warning("non\u{1b}sense").unwrap(),
        "warning: the workflow does not use the state `non sense`; known states: todo, review, done\n"
    );
}
