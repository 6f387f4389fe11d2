//! Secrets: who receives them, and that Vik shows none of them in anything that it writes or
//! serves.

mod leaks;

use serde_json::{Value, json};

use crate::support::*;
use leaks::{Hidden, forms};

fn given(world: &World, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(world.env.path(name)).unwrap();
    let mut names: Vec<_> = text
        .split(['\n', '\0'])
        .filter(|line| line.starts_with("TRACKER") || line.starts_with("MY_") || line.starts_with("DEPLOY"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[test]
fn secret_is_given_only_to_those_that_list_it() {
    let world = World::new(&[("1", "todo")]);
    let (hook, agent, pull) = (
        world.env.path("hook"),
        world.env.path("agent"),
        world.env.path("pull"),
    );
    let (verify, command) = (world.env.path("verify"), world.env.path("command"));
    std::fs::write(world.env.work().join("deploy.key"), "from-a-file-1\n\n").unwrap();
    let pull_command = format!("env > {}; {}", pull.display(), world.tracker.pull_command());
    let moves = world.on_success("done");
    let world = world
        .script(&format!("dump-env {}; ok", agent.display()))
        .set("/secrets/TRACKER_TOKEN", json!({"env": "MY_TOKEN"}))
        .set("/secrets/DEPLOY_KEY", json!({"file": "deploy.key"}))
        .set(
            "/secrets/MY_COMMAND",
            json!({"command": format!("env > {}; echo from-a-command", command.display())}),
        )
        .set("/agents/a/secrets", json!(["DEPLOY_KEY"]))
        .set("/agents/a/env_pass", json!(["MY_TOKEN", "MY_OTHER"]))
        .set("/issues/pull/command", json!(pull_command))
        .set("/issues/pull/secrets", json!(["TRACKER_TOKEN"]))
        .work("verify", json!(format!("env > {}", verify.display())))
        .set(
            "/issue/stages/work/hooks/before_run",
            json!(format!("env > {}", hook.display())),
        )
        .set("/issue/stages/work/hooks/secrets", json!(["MY_COMMAND"]));
    drop(moves);
    let env = [
        ("MY_TOKEN", "from-a-variable"),
        ("MY_OTHER", "public"),
        ("DEPLOY_KEY", "another"),
    ];
    world.start_with(&["run", "--once"], &env).done().expect(0);
    assert_eq!(
        given(&world, "hook"),
        ["MY_COMMAND=from-a-command", "MY_OTHER=public"]
    );
    assert_eq!(
        given(&world, "verify"),
        ["MY_COMMAND=from-a-command", "MY_OTHER=public"]
    );
    assert_eq!(
        given(&world, "agent"),
        ["DEPLOY_KEY=from-a-file-1", "MY_OTHER=public"]
    );
    assert_eq!(
        given(&world, "pull"),
        ["MY_OTHER=public", "TRACKER_TOKEN=from-a-variable"]
    );
    assert_eq!(given(&world, "command"), ["MY_OTHER=public"]);
}

#[test]
fn attempt_with_a_missing_secret_fails_before_its_agent() {
    for (source, why, class) in [
        (
            json!({"env": "NOT_THERE"}),
            "the variable NOT_THERE is not set",
            "usage",
        ),
        (json!({"file": "missing.key"}), "cannot read", "hook"),
        (
            json!({"command": "echo no; echo because >&2; exit 4"}),
            "its command exited with 4; output: because",
            "hook",
        ),
        (json!({"command": "true"}), "the secret KEY is empty", "usage"),
    ] {
        let world = World::new(&[("1", "todo")]).attempts(1);
        let ran = world.env.path("ran");
        let world = world
            .script(&format!("touch {}; ok", ran.display()))
            .set("/secrets/KEY", source)
            .set("/agents/a/secrets", json!(["KEY"]));
        world.once().expect(1);
        let ended = world.session("1").ended();
        assert_eq!(ended["failure_class"], class, "{ended}");
        assert!(ended["reason"].as_str().unwrap().contains(why), "{ended}");
        assert!(!ran.exists());
    }
}

#[test]
fn raw_log_is_refused_when_it_cannot_be_masked() {
    let world = World::new(&[("1", "todo")])
        .set(
            "/agents/a/command",
            json!(["sh", "-c", "cat > /dev/null; echo it is $KEY; touch done"]),
        )
        .set("/secrets/KEY", json!({"env": "SOURCE"}))
        .set("/agents/a/secrets", json!(["KEY"]))
        .work("hooks/secrets", json!(["KEY"]))
        .work("hooks/before_run", json!("echo hook $KEY"));
    let value = "correct horse battery";
    world
        .start_with(&["run", "--once"], &[("SOURCE", value)])
        .done()
        .expect(0);
    let raw = world
        .start_with(&["logs", "--raw"], &[("SOURCE", value)])
        .done()
        .expect(0);
    assert_contains(&raw.out, "it is [secret KEY]\n");
    let refused = world.vik(&["logs", "--raw"]).expect(1);
    assert_contains(&refused.err, "a secret cannot be read");
    assert!(refused.out.is_empty(), "{}", refused.err);
    let all = world.vik(&["logs", "--raw", "--unmasked"]).expect(0);
    assert!(all.out.contains(value));
    // The events need no values, because they were masked before they were written.
    let log = world.vik(&["logs"]).expect(0);
    assert_contains(&log.out, "it is [secret KEY]");
    // The output of a hook is as the hook printed it.
    assert!(!log.out.contains("hook"), "{}", log.out);
    assert_contains(&log.err, "the output of scripts is not shown");
    let log = world.start_with(&["logs"], &[("SOURCE", value)]).done().expect(0);
    assert_contains(&log.out, "hook [secret KEY]");
}

/// Kills a daemon while its agent waits, and lets the agent print its secret to the next daemon.
fn print_to_next_daemon(source: Option<&str>) -> (World, Value) {
    let wait =
        "cat > /dev/null; touch up; until test -e go; do sleep 0.05; done; echo it is $KEY; touch done";
    let world = World::new(&[("1", "todo")])
        .set("/loop", json!({"orphan_grace": "10m"}))
        .set("/agents/a/command", json!(["sh", "-c", wait]))
        .set("/agents/a/secrets", json!(["KEY"]))
        .set("/secrets/KEY", json!({"env": "SOURCE"}))
        .attempts(1);
    let first = world.start_with(&["run"], &[("SOURCE", "correct horse battery")]);
    eventually("the agent is up", || {
        !world.sessions("1").is_empty() && world.workspace("1").join("up").exists()
    });
    first.signal(nix::sys::signal::Signal::SIGKILL);
    first.done();
    let env: Vec<_> = source.map(|value| ("SOURCE", value)).into_iter().collect();
    let second = world.start_with(&["run"], &env);
    world.wait_for_status("it is seen", |status| !status["last_pull"].is_null());
    world.go();
    eventually("it has ended", || {
        world.session("1").text(".jsonl").contains("\"ended\"")
    });
    second.stop().expect(0);
    let ended = world.session("1").ended();
    (world, ended)
}

#[test]
fn adopted_agent_is_masked_with_secrets_resolved_again() {
    let (world, ended) = print_to_next_daemon(Some("correct horse battery"));
    assert_eq!(ended["outcome"], "succeeded", "{ended}");
    assert_eq!(world.session("1").messages(), ["it is [secret KEY]"]);
}

#[test]
fn adopted_agent_without_its_secrets_is_stopped() {
    let (world, ended) = print_to_next_daemon(None);
    assert_eq!(
        (&ended["outcome"], &ended["failure_class"]),
        (&"failed".into(), &"usage".into()),
        "{ended}"
    );
    let reason = ended["reason"].as_str().unwrap();
    assert_contains(reason, "SOURCE is not set");
    assert_eq!(world.session("1").messages(), [""; 0]);
}

#[test]
fn vex_masks_the_secrets_that_vik_provides() {
    let server = vik_testkit::server::ModelServer::start_json(json!([
        {"text": "I look.", "run": "echo it is $DEPLOY"},
        {"text": "Done."}
    ]))
    .unwrap();
    let world = World::new(&[("1", "todo")]);
    let home = world.env.home().join("vex");
    let world = world
        .set(
            "/agents/a",
            json!({"runtime": "vex", "model": "scripted", "provider": "local", "base_url": server.v1(),
                   "env": {"VEX_HOME": home}, "secrets": ["DEPLOY"]}),
        )
        .set(
            "/secrets/DEPLOY",
            json!({"command": "echo correct horse battery"}),
        )
        .work("prompt", json!("Do the task."))
        .attempts(1);
    world.once();
    world.session("1").expect("succeeded", None);
    let raw = world.session("1").text(".raw.jsonl");
    assert_contains(&raw, "it is [secret DEPLOY]");
    assert!(!raw.contains("correct horse"), "{raw}");
    let hidden = Hidden(forms("correct horse battery"));
    let mut checked = 0;
    hidden.check_files(&home, &mut checked);
    assert!(checked > 0);
    // The provider does not receive it, either.
    let requests = format!("{:?}", server.requests());
    assert!(requests.contains("[secret DEPLOY]") && !requests.contains("correct horse"));
}

#[test]
fn doctor_checks_secrets_without_showing_values() {
    let world = World::new(&[("1", "todo")])
        .set("/secrets/GOOD", json!({"command": "echo long-enough-value"}))
        .set("/secrets/SHORT", json!({"command": "echo tiny"}))
        .set("/secrets/GONE", json!({"env": "NOT_THERE"}))
        .set("/agents/a/secrets", json!(["GOOD", "SHORT", "GONE"]));
    let done = world.vik(&["doctor", "--json"]);
    let found: Vec<_> = done.json()["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["check"].as_str().unwrap_or_default().starts_with("secret."))
        .map(|check| {
            (
                check["check"].as_str().unwrap().to_owned(),
                check["status"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let expected = [
        ("secret.GONE", "error"),
        ("secret.GOOD", "ok"),
        ("secret.SHORT", "warning"),
    ];
    assert_eq!(
        found,
        expected.map(|(check, status)| (check.to_owned(), status.to_owned()))
    );
    assert!(
        !done.out.contains("long-enough-value") && !done.out.contains("tiny"),
        "{}",
        done.out
    );
}
