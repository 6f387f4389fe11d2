//! Issue workspaces, and the scripts of the author around an agent.

use serde_json::json;
use vik_core::decision_kind::DecisionKind;

use crate::reconcile::decided;
use crate::support::*;

#[test]
fn after_create_runs_once_and_the_workspace_is_kept() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .set(
            "/issue/hooks",
            json!({"after_create": "echo {{ issue.id }} >> {{ workflow_dir }}/created; echo made > made"}),
        )
        .script("append turns x; ok");
    world.once().expect(0);
    world.tracker.move_to("1", "todo");
    world.once().expect(0);
    let mut created: Vec<_> = world
        .env
        .read("work/created")
        .lines()
        .map(str::to_owned)
        .collect();
    created.sort();
    assert_eq!(created, ["1", "2"]);
    assert_eq!(world.workspace_file("1", "turns"), "xx");
}

#[test]
fn after_create_runs_once_even_if_it_makes_no_file() {
    let world = World::new(&[("1", "todo")])
        .set(
            "/issue/hooks",
            json!({"after_create": "echo . >> {{ workflow_dir }}/created"}),
        )
        .attempts(3)
        .script("exit 1");
    world.once().expect(1);
    assert_eq!(world.sessions("1").len(), 3);
    assert_eq!(world.env.read("work/created"), ".\n");
    // When a person removes the workspace, the next attempt creates a new one.
    std::fs::remove_dir_all(world.workspace("1")).unwrap();
    world.tracker.set("1", "title", json!("another"));
    world.once().expect(1);
    assert_eq!(world.env.read("work/created"), ".\n.\n");
}

#[test]
fn workspace_creation_cut_by_a_crash_is_repeated() {
    let world = World::new(&[("1", "todo")]).set(
        "/issue/hooks",
        json!({"after_create": "touch half; touch {{ workflow_dir }}/up; test -e {{ workflow_dir }}/go || sleep 600; touch whole"}),
    );
    world.vik(&["run", "-d"]).expect(0);
    eventually("it is being made", || world.env.work().join("up").exists());
    let half = world.workspace("1").join("half");
    std::fs::write(world.workspace("1").join("debris"), "").unwrap();
    assert!(half.exists());
    let pid = i32::try_from(world.status().unwrap()["pid"].as_i64().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    eventually("all is gone", || world.env.leftovers().is_empty());
    world.env.write("work/go", "");
    world.once().expect(0);
    let names: Vec<_> = list(&world.workspace("1"))
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["half", "whole"]);
}

#[test]
fn older_workspace_without_a_mark_is_adopted() {
    let world = World::new(&[("0", "todo"), ("1", "todo")])
        .set("/issue/hooks", json!({"after_create": "touch created"}))
        .script("ok");
    world.vik(&["run", "--once", "--issue", "0"]).expect(0);
    std::fs::create_dir(world.workspace("1")).unwrap();
    std::fs::write(world.workspace("1").join("mine"), "precious").unwrap();
    world.once().expect(0);
    assert_eq!(world.workspace_file("1", "mine"), "precious");
    assert!(!world.workspace("1").join("created").exists());
}

#[test]
fn before_run_failure_starts_no_agent() {
    let world = World::new(&[("1", "todo")])
        .work(
            "hooks/before_run",
            json!("for n in 1 2 3; do echo line $n; done; echo to stderr >&2; exit 7"),
        )
        .script("touch ran; ok");
    let done = world.once().expect(1);
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 2, "as often as the stage allows");
    let ended = sessions[0].expect("failed", Some("hook"));
    assert_eq!(ended["cost_source"], "none");
    let reason = ended["reason"].as_str().unwrap();
    for part in ["before_run", "exited with 7", "line 3", "to stderr"] {
        assert_contains(reason, part);
        assert_contains(&done.err, part);
    }
    assert_eq!(
        sessions[0].text(".before_run.log"),
        "line 1\nline 2\nline 3\nto stderr\n"
    );
    assert!(!world.workspace("1").join("ran").exists());
    let shown = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&shown, "parked (hook): 2 attempts");
}

#[test]
fn before_run_is_tried_again_without_an_agent_until_it_passes() {
    for (code, max_attempts, attempts) in [(7, 3, "1\n2\n3\n"), (75, 1, "1\n1\n1\n")] {
        let fails_twice = format!("echo $VIK_ATTEMPT >> tries; test $(wc -l < tries) -ge 3 || exit {code}");
        let world = World::new(&[("1", "todo")])
            .attempts(max_attempts)
            .agent("codex")
            .script("touch ran; ok");
        let moved = world.on_success("done");
        let world = world.work("hooks", json!({"before_run": fails_twice, "after_run": moved}));
        world.once().expect(0);
        assert_eq!(world.workspace_file("1", "tries"), attempts);
        let sessions = world.sessions("1");
        assert_eq!(sessions.len(), 3, "{code}");
        for failed in &sessions[..2] {
            let ended = failed.expect("failed", Some("hook"));
            assert_eq!(ended["cost_usd"], json!(null));
            assert_eq!(ended["cost_source"], "none");
        }
        sessions[2].expect("succeeded", None);
        assert!(world.workspace("1").join("ran").exists());
    }
}

#[test]
fn before_run_that_names_a_time_holds_the_stage_and_is_explained() {
    let world = World::new(&[("1", "todo")])
        .attempts(1)
        .work(
            "hooks/before_run",
            json!("echo 'Retry-After: 900'; echo busy >&2; exit 22"),
        )
        .script("touch ran; ok");
    let done = world.once().expect(10);
    assert_contains(&done.err, "as `before_run` asked");
    let daemon = world.daemon();
    let waiting = world.status().unwrap()["waiting"][0].clone();
    assert_eq!(waiting["reason"], "backoff");
    assert_eq!(waiting["attempts"], 0);
    let detail = waiting["detail"].as_str().unwrap();
    assert_contains(detail, "asked to be tried again later");
    let shown = world.vik(&["explain", "1"]).expect(0).out;
    for part in ["asked to be tried again later", "14m"] {
        assert_contains(&shown, part);
    }
    daemon.stop();
    assert_eq!(world.sessions("1").len(), 1);
    assert!(!world.workspace("1").join("ran").exists());
}

#[test]
fn verify_failure_is_fed_back_to_the_next_attempt() {
    let world = World::new(&[("1", "todo")])
        .work("verify", json!("test -e fixed || { echo 'test total_is_right FAILED'; exit 1; }"))
        .work(
            "prompt",
            json!("attempt {{ attempt.number }} after '{{ attempt.previous_outcome }}'\n{{ attempt.feedback }}\nSCRIPT: count n; on 2 \"touch fixed\"; ok"),
        );
    world.once().expect(0);
    let sessions = world.sessions("1");
    let ended = sessions[0].expect("failed", Some("verify"));
    assert_eq!(ended["exit_code"], 0, "the agent itself said it was done");
    assert!(ended["reason"].as_str().unwrap().contains("total_is_right"));
    sessions[1].expect("succeeded", None);
    assert!(
        sessions[0]
            .text(".prompt.md")
            .starts_with("attempt 1 after ''\n\n")
    );
    assert!(
        sessions[1]
            .text(".prompt.md")
            .starts_with("attempt 2 after 'failed'\ntest total_is_right FAILED\n")
    );
    assert!(sessions[0].text(".verify.log").contains("total_is_right"));
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

/// An attempt that finds the work done must pass a `verify` that requires new commits, even if they
/// were pushed. A new run has to make others.
#[test]
fn verify_compares_with_the_commit_before_the_run() {
    let commit = "git -c user.name=n -c user.email=e commit -q --allow-empty -m";
    let world = World::new(&[("1", "todo")])
        .set(
            "/issue/hooks",
            json!({"after_create": format!("git init -q . && {commit} zero")}),
        )
        .work(
            "verify",
            json!("test -n \"$(git log --oneline -1 \"$VIK_BASE_COMMIT..HEAD\")\""),
        );
    // The first attempt commits and pushes, and the issue stays in its state.
    let moves = world.on_success("done");
    let world = world
        .work(
            "hooks/after_run",
            json!(format!(
                "test $VIK_ATTEMPT = 1 && git update-ref refs/remotes/origin/main HEAD || {{ {moves}\n}}"
            )),
        )
        .script(&format!("count n; on 1 \"run {commit} one\"; ok"));
    world.once().expect(0);
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 2);
    sessions[1].expect("succeeded", None);
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
    world.tracker.move_to("1", "todo");
    world.once().expect(1);
    let sessions = world.sessions("1");
    sessions[2].expect("failed", Some("verify"));
}

/// The commits of a workspace that was removed may not exist in the next one.
#[test]
fn base_commit_exists_in_a_workspace_that_was_created_again() {
    let create = "git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m $(date +%N)";
    let world = World::new(&[("1", "todo")])
        .set("/issue/hooks", json!({"after_create": create}))
        .work("verify", json!("git cat-file -e $VIK_BASE_COMMIT"));
    let moves = world.on_success("done");
    let remove = "test $VIK_ATTEMPT = 2 || { cd / && rm -rf {{ issue.workdir }}; exit 0; }";
    let world = world.work("hooks/after_run", json!(format!("{remove}\n{moves}")));
    world.once().expect(0);
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn verify_does_not_run_after_a_failed_agent() {
    let world = World::new(&[("1", "todo")])
        .attempts(1)
        .work("verify", json!("touch verified"))
        .script("exit 3");
    world.once().expect(1);
    world.session("1").expect("failed", Some("agent"));
    assert!(!world.workspace("1").join("verified").exists());
}

#[test]
fn after_run_runs_after_any_end_but_cancellation() {
    let hook = "printf '%s|%s|%s|%s\\n' {{ session.outcome }} {{ session.exit_code }} {{ session.failure_class }} {{ session.last_message }} >> {{ workflow_dir }}/ends";
    let world = World::new(&[("1", "todo")])
        .attempts(4)
        .work("hooks/after_run", json!(hook))
        .work("timeout", json!("1s"))
        .script("count n; on 1 \"message bye; exit 3\"; on 2 hang; on 3 \"signal KILL\"; message all good");
    world.once().expect(10);
    let ends = world.env.read("work/ends");
    assert!(ends.starts_with("failed|3|agent|bye\n"), "{ends}");
    let outcomes: Vec<_> = ends.lines().map(|line| line.split('|').next().unwrap()).collect();
    assert_eq!(outcomes, ["failed", "timed_out", "failed", "succeeded"], "{ends}");
    assert!(ends.lines().last().unwrap().ends_with("|0||all good"), "{ends}");
}

#[test]
fn after_run_sees_the_whole_session() {
    let hook = "cat > {{ workflow_dir }}/seen <<'END'\nEND\n\
        printf '%s %s %s %s\\n' {{ session.usage.input_tokens }} {{ session.usage.output_tokens }} {{ session.cost_usd }} {{ attempt.number }} > {{ workflow_dir }}/seen\n\
        cp {{ session.log_path }} {{ workflow_dir }}/log";
    let world = World::new(&[("1", "todo")])
        .agent("claude_code")
        .script("start; usage 100 7; cost 0.25; message hi; done");
    let moves = world.on_success("done");
    let world = world.work("hooks/after_run", json!(format!("{hook}\n{moves}")));
    world.once().expect(0);
    assert_eq!(world.env.read("work/seen"), "100 7 0.25 1\n");
    let log = world.env.read("work/log");
    assert!(
        log.lines().last().unwrap().contains("\"kind\":\"ended\""),
        "the log is whole when after_run sees it"
    );
}

#[test]
fn after_run_failure_is_reported_and_keeps_the_outcome() {
    let world = World::new(&[("1", "todo")])
        .attempts(1)
        .work("hooks/after_run", json!("echo the tracker is down; exit 2"))
        .work("hand_over/max_tries", json!(1))
        .script("write x y; ok");
    let done = world.once().expect(1);
    world.session("1").expect("succeeded", None);
    assert_contains(&done.err, "after_run failed");
    assert_contains(&done.err, "the tracker is down");
    assert_contains(&done.out, "1 work: parked (hand_over)");
    assert_contains(world.session("1").text(".after_run.log"), "the tracker is down");
    for verb in ["show", "explain"] {
        let text = world.vik(&[verb, "1"]).expect(0).out;
        assert!(text.contains("the tracker is down"), "{verb}: {text}");
    }
    let logs = list(&world.home().join("logs"));
    let errors = logs
        .iter()
        .find(|path| path.to_string_lossy().contains("vik-error.log"))
        .unwrap();
    assert_contains(std::fs::read_to_string(errors).unwrap(), "after_run failed");
}

/// The work of a failed attempt is not handed over, so its `after_run` is not repeated.
#[test]
fn failed_after_run_of_a_failed_attempt_is_not_repeated() {
    let world = World::new(&[("1", "todo")])
        .attempts(1)
        .work(
            "hooks/after_run",
            json!("echo . >> {{ workflow_dir }}/tries; echo the tracker is down; exit 2"),
        )
        .script("exit 1");
    world.once().expect(1);
    assert!(decided(&world, "1", &DecisionKind::AfterRunFailed));
    assert!(!decided(&world, "1", &DecisionKind::HandingOver));
    assert_eq!(world.env.read("work/tries"), ".\n");
}

/// The hook is not run again, so its failure must come from the journal.
#[test]
fn after_run_failure_survives_a_crash_of_the_daemon() {
    let world = World::new(&[("1", "todo")])
        .attempts(1)
        .work("hand_over/max_tries", json!(1))
        .work(
            "hooks/after_run",
            json!("echo . >> {{ workflow_dir }}/tries; echo the tracker is down; exit 2"),
        );
    world.kill_once_at("after_run_ended");
    assert!(!decided(&world, "1", &DecisionKind::Parked));
    world.once().expect(1);
    assert!(decided(&world, "1", &DecisionKind::Parked));
    assert_eq!(world.env.read("work/tries"), ".\n");
}

#[test]
fn hooks_each_have_their_own_timeout() {
    let world = World::new(&[("create", "todo"), ("after", "todo"), ("verify", "todo")])
        .attempts(1)
        .set(
            "/issue/hooks",
            json!({"after_create": "test {{ issue.id }} != create || sleep 600", "timeout": "200ms"}),
        )
        .work(
            "hooks",
            json!({"after_run": "echo x; test {{ issue.id }} != after || sleep 600", "timeout": "300ms"}),
        )
        .work(
            "verify",
            json!("test {{ issue.id }} != verify || { echo still checking; sleep 600; }"),
        )
        .work("timeout", json!("1s"))
        .work("hand_over/max_tries", json!(1));
    let done = world.once().expect(1);
    let reason = |id: &str| {
        world.session(id).ended()["reason"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    world.session("create").expect("failed", Some("hook"));
    assert_contains(reason("create"), "200ms");
    world.session("verify").expect("failed", Some("verify"));
    assert_contains(reason("verify"), "1s");
    assert_contains(reason("verify"), "still checking");
    world.session("after").expect("succeeded", None);
    assert_contains(&done.err, "300ms");
    world.env.assert_nothing_left();
}

#[test]
fn hook_leftover_processes_are_ended() {
    let leave = "setsid sleep 600 > /dev/null & sleep 600 & (sleep 600 &) ; echo $! ";
    let world = World::new(&[("1", "todo")])
        .set("/issue/hooks", json!({"after_create": leave}))
        .work("hooks/before_run", json!(leave))
        .work("verify", json!(leave));
    let script = "run test $(ps -eo args | grep -c '^sleep 600$') -lt 1000; ok";
    let world = world.script(script);
    world.once().expect(0);
    world.env.assert_nothing_left();
}

#[test]
fn hooks_know_their_issue() {
    let world = World::new(&[("1", "todo")]).work(
        "hooks/before_run",
        json!("env > env.txt; pwd > where.txt; printf '%s\\n' {{ issue.stage }} {{ issue.workdir }} {{ workflow_path }} {{ workspace_root }} {{ env.MY_VALUE }} > seen.txt; vik --version; vik issue new hooked"),
    );
    world.tracker.set("1", "title", json!("A 'title'\nof two lines"));
    let mut command = world.env.vik(["run", "--once"]);
    command.env("MY_VALUE", "it's");
    world.start_command(command).done().expect(0);
    let env = world.workspace_file("1", "env.txt");
    for line in [
        "VIK_ISSUE_ID=1\n",
        "VIK_ISSUE_TITLE=A 'title'\nof two lines\n",
        "VIK_ATTEMPT=1\n",
        "VIK_STAGE=work\n",
        "VIK_ATTEMPT_ID=",
        "VIK_ISSUES_DIR=",
    ] {
        assert_contains(&env, line);
    }
    assert_eq!(
        list(&world.env.work().join("issues")).len(),
        1,
        "the embedded tracker is found"
    );
    let workdir = world.workspace("1").canonicalize().unwrap();
    assert_eq!(
        world.workspace_file("1", "where.txt").trim(),
        workdir.to_str().unwrap()
    );
    let work = world.env.work().canonicalize().unwrap();
    let root = world.home().canonicalize().unwrap();
    let expected = format!(
        "work\n{}\n{}/workflow.yml\n{}\nit's\n",
        workdir.display(),
        work.display(),
        root.display()
    );
    assert_eq!(world.workspace_file("1", "seen.txt"), expected);
    assert!(env.contains(&format!("GIT_CEILING_DIRECTORIES={}/issues\n", root.display())));
}

#[test]
fn hook_scripts_are_not_stored() {
    let world =
        World::new(&[("1", "todo")]).work("hooks/before_run", json!("echo {{ env.SECRET }} > /dev/null"));
    let mut command = world.env.vik(["run", "--once"]);
    command.env("SECRET", "tr0ub4dor");
    world.start_command(command).done().expect(0);
    let mut folders = vec![world.home()];
    while let Some(folder) = folders.pop() {
        for path in list(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains("tr0ub4dor"), "{path:?}");
            }
        }
    }
}

#[test]
fn workspace_is_not_part_of_an_enclosing_repository() {
    let world = World::new(&[("1", "todo")]).attempts(1).work(
        "hooks/before_run",
        json!("git rev-parse --show-toplevel > top.txt 2>&1; true"),
    );
    assert!(
        world
            .env
            .command("git")
            .args(["init", "-q"])
            .status()
            .unwrap()
            .success()
    );
    world.once().expect(0);
    assert_contains(world.workspace_file("1", "top.txt"), "not a git repository");
    // The home does not appear as changed files of the repository, either.
    let status = world
        .env
        .command("git")
        .args(["status", "--porcelain", "--", "home"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&status.stdout), "");
    assert_eq!(world.env.read("work/home/.gitignore"), "*\n");
}

#[test]
fn scripts_do_not_follow_a_link_in_place_of_the_workspace() {
    let world = World::new(&[("1", "todo")])
        .work("hooks/before_run", json!("touch by-before-run"))
        .work("verify", json!("touch by-verify"))
        .work("hooks/after_run", json!("touch by-after-run"));
    let outside = world.env.path("outside");
    std::fs::create_dir(&outside).unwrap();
    let script = format!(
        "run 'd=$PWD; cd /; rm -rf $d; ln -s {} $d'\nok",
        outside.display()
    );
    let world = world.script(&script);
    let done = world.once().expect(1);
    assert!(list(&outside).is_empty(), "{:?}", list(&outside));
    assert_contains(&done.err, "a link");
    // No agent is started there, either.
    assert!(world.sessions("1").len() == 2 && !world.sessions("1")[1].file(".raw.jsonl").exists());
}

#[test]
fn agent_starts_with_a_title_of_any_length() {
    let world = World::new(&[("1", "todo")]).work(
        "hooks/before_run",
        json!("printf %s {{ issue.title }} | wc -c > size"),
    );
    let title = "\u{e9}".repeat(150_000);
    world.tracker.set("1", "title", json!(title));
    let world = world.script("dump-env env; ok");
    world.once().expect(0);
    assert!(world.workspace_file("1", "size").trim().parse::<usize>().unwrap() >= 300_000);
}
