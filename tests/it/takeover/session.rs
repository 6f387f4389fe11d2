//! The session of a person: outside of the sandbox, with the private home of the agent, and while
//! the daemon dies.

use serde_json::json;

use super::*;

/// Waits until a file of the workspace has a whole line, and returns its text.
fn seen(world: &World, name: &str) -> String {
    eventually(name, || world.workspace_file("1", name).ends_with('\n'));
    world.workspace_file("1", name)
}

/// The steps of an agent that plants what programs outside of the sandbox could start.
const PLANTS: &str = r#"run git init -q && mkdir -p .claude .vscode && echo '{}' > .claude/settings.json
run echo '{}' > .vscode/tasks.json && git config core.fsmonitor ./watch && git config alias.st '!x'
run printf '#!/bin/sh\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit
touch up; wait-file go; ok"#;

const QUESTION: &str = "Open the session outside of the sandbox? [y/N]";

#[test]
fn session_outside_of_the_sandbox_is_opened_only_when_confirmed() {
    let world = World::new(&[("1", "todo")]).script(PLANTS);
    let daemon = world.daemon();
    world.wait_for_agent(1);
    let outside = &["takeover", "1", "--open", "--outside"][..];
    // Nobody can answer without a terminal, and nothing is taken over.
    for more in [&[][..], &["--yes"]] {
        let refused = world.vik(&[outside, more].concat()).expect(2);
        assert_contains(&refused.err, "needs a terminal");
    }
    let refused = world.vik(&["takeover", "1", "--outside"]).expect(2);
    assert_contains(&refused.err, "--open");
    assert_eq!((held(&world).len(), world.sessions("1").len()), (0, 1));

    let mut typed = Typed::start(&world, outside, &[]);
    typed.type_line("n");
    let (code, shown) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_contains(&shown, QUESTION);
    assert_contains(&shown, "nothing was opened");
    for planted in [
        ".claude/settings.json",
        ".vscode/tasks.json",
        ".git/hooks/pre-commit",
        ".git/config: core.fsmonitor",
        ".git/config: alias.st",
    ] {
        assert_contains(&shown, planted);
    }
    // Without an answer, nothing is opened either.
    let mut typed = Typed::start(&world, outside, &[]);
    typed.type_line("");
    assert!(typed.end().1.contains("nothing was opened"));

    let probe = "echo \"stage:$VIK_STAGE own:$OWN\" > who; grep NoNewPrivs /proc/self/status > privs";
    let mut typed = Typed::start(&world, outside, &[("OWN", "mine")]);
    typed.type_line("yes");
    typed.type_line(&format!("{probe}; exit"));
    let (code, shown) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(
        seen(&world, "who"),
        "stage: own:mine\n",
        "the person's own environment"
    );
    assert_eq!(seen(&world, "privs"), "NoNewPrivs:\t0\n", "no sandbox");

    let mut typed = Typed::start(&world, &[outside, &["--yes"]].concat(), &[]);
    typed.type_line("touch again; exit");
    let (_, shown) = typed.end();
    assert!(!shown.contains(QUESTION), "{shown}");
    assert!(world.workspace("1").join("again").exists(), "{shown}");

    // The session in the sandbox has neither.
    let mut typed = Typed::start(&world, &["takeover", "1", "--open"], &[("OWN", "mine")]);
    typed.type_line(&format!("{probe}; exit"));
    let (code, shown) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(seen(&world, "who"), "stage:work own:\n");
    assert_eq!(seen(&world, "privs"), "NoNewPrivs:\t1\n");
    change(&world);
    world.vik(&["handback", "1"]).expect(0);
    daemon.stop();
}

#[test]
fn session_has_the_private_home_of_its_agent() {
    let world = World::new(&[("1", "todo")])
        .agent("claude_code")
        .set("/agents/a/home", json!("private"))
        .script("start; dump-env env.first; touch up; wait-file go; done");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    let taken = world.vik(&["takeover", "1", "--json"]).expect(0).json();
    let variable = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("CLAUDE_CONFIG_DIR="));
        line.map(|line| line["CLAUDE_CONFIG_DIR=".len()..].to_owned())
    };
    let home = variable(&world.workspace_file("1", "env.first")).expect("a private home");
    assert_eq!(taken["env"], json!({"CLAUDE_CONFIG_DIR": home}));
    assert!(std::path::Path::new(&home).is_dir(), "{home}");
    let printed = world.vik(&["takeover", "1"]).expect(0).out;
    assert_contains(&printed, format!("CLAUDE_CONFIG_DIR={home} claude "));
    // The program of the session reads its script from the environment of the profile.
    let script = "never-read-stdin; dump-env env.second; dump-argv argv.second; exit 0";
    let world = world.set("/agents/a/env", json!({"VIK_SCRIPT": script}));
    let conversation = taken["conversation"].as_str().unwrap();
    let typed = Typed::start(&world, &["takeover", "1", "--open"], &[]);
    let (code, shown) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(variable(&world.workspace_file("1", "env.second")), Some(home));
    let argv = world.workspace_file("1", "argv.second");
    assert_contains(&argv, "--resume");
    assert_contains(&argv, conversation);
    world.vik(&["handback", "1"]).expect(0);
    daemon.stop();
}

#[test]
fn open_session_outlives_the_daemon() {
    let world = working();
    let daemon = world.daemon();
    world.wait_for_agent(1);
    let mut typed = Typed::start(&world, &["takeover", "1", "--open"], &[]);
    typed.type_line("echo before > before");
    seen(&world, "before");
    daemon.kill();
    let daemon = world.daemon();
    world.wait_for_status("a pull has succeeded", |status| {
        status["pulls"]["ok"].as_u64() > Some(1)
    });
    let busy = world.vik(&["handback", "1"]).expect(1);
    assert_contains(&busy.err, "close the session");
    typed.type_line("echo after > fixed.txt; touch go; exit");
    let (code, shown) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(world.workspace_file("1", "before"), "before\n");
    world.vik(&["handback", "1", "-m", "add a test"]).expect(0);
    is_handed_back(&world, 2);
    daemon.stop().expect(0);
}
