//! Secrets: who receives them, and that Vik shows none of them in anything that it writes or
//! serves.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use vik_testkit::HttpClient;

use crate::support::*;

/// The number of secrets in one world.
const SECRETS: usize = 60;

/// Returns texts of 8 to 67 bytes, the same for the same seed.
fn secrets(seed: u64) -> Vec<String> {
    let mut dice = 0x2545_f491_4f6c_dd1d_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |bound: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        usize::try_from(dice % bound as u64).unwrap()
    };
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let strange: Vec<char> = "\"\\/'+%$&<>{}[]():;, =äß漢🔑".chars().collect();
    (0..SECRETS)
        .map(|at| {
            let length = 8 + at;
            let mut text = String::new();
            while text.len() < length {
                let is_edge = text.is_empty() || text.len() + 4 > length;
                let from = if !is_edge && at % 3 > 0 && next(3) == 0 {
                    &strange
                } else {
                    &letters
                };
                text.push(from[next(from.len())]);
            }
            text
        })
        .collect()
}

/// Returns a secret in the forms in which programs write it.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap();
    let hex: String = secret.bytes().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    });
    let url: String = secret.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").unwrap(),
        }
        out
    });
    let inside = |before: &str| {
        let text = URL_SAFE_NO_PAD.encode(format!("{before}{secret}and more"));
        // The part of the encoding that does not depend on the neighbours.
        let (start, end) = (
            (before.len() * 8).div_ceil(6),
            (before.len() + secret.len()) * 8 / 6,
        );
        text[start..end].to_owned()
    };
    vec![
        secret.to_owned(),
        json[1..json.len() - 1].to_owned(),
        STANDARD.encode(secret),
        inside("x"),
        inside("xy"),
        inside(""),
        hex.to_uppercase(),
        hex,
        url,
    ]
}

/// The texts that must not appear.
struct Hidden(Vec<String>);

impl Hidden {
    #[track_caller]
    fn check(&self, source: &str, text: &str) {
        for form in &self.0 {
            if let Some(at) = text.find(form.as_str()) {
                let around: String = text[..at].chars().rev().take(80).collect();
                panic!(
                    "{source} shows {form}, behind {}",
                    around.chars().rev().collect::<String>()
                );
            }
        }
    }

    /// Checks all files except those that programs wrote themselves.
    fn check_files(&self, folder: &Path, checked: &mut usize) {
        for path in list(folder) {
            let name = path.to_string_lossy().into_owned();
            // The trace keeps copies of the files that agents wrote in the workspace.
            let own = [
                ".raw.jsonl",
                ".stderr.log",
                ".hook.",
                "/issues/",
                "/trace/contents/",
            ];
            if path.is_dir() {
                self.check_files(&path, checked);
            } else if path.is_file() && !own.iter().any(|own| name.contains(own)) && !name.ends_with(".log") {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                self.check(&name, &text);
                *checked += 1;
            }
        }
    }
}

/// Returns a world in which hooks and agents print all their secrets, in all forms.
fn talkative(secrets: &[String]) -> (World, Vec<(String, String)>) {
    let world = World::new(&[("1", "todo"), ("2", "text"), ("3", "broken")]).agent("codex");
    let print = world.env.path("forms.txt");
    let text: Vec<String> = secrets.iter().flat_map(|secret| forms(secret)).collect();
    std::fs::write(&print, text.join("\n")).unwrap();
    let output = world.env.path("told");
    std::fs::create_dir_all(&output).unwrap();
    let print = print.display().to_string();
    let mut env = Vec::new();
    let mut defined = serde_json::Map::new();
    let folder = world.env.work().join("keys");
    std::fs::create_dir_all(&folder).unwrap();
    for (at, secret) in secrets.iter().enumerate() {
        let name = format!("S{at}");
        let source = match at % 3 {
            0 => {
                env.push((format!("SOURCE_{at}"), secret.clone()));
                json!({"env": format!("SOURCE_{at}")})
            }
            kind => {
                std::fs::write(folder.join(&name), format!("{secret}\n")).unwrap();
                if kind == 1 {
                    json!({"file": format!("keys/{name}")})
                } else {
                    json!({"command": format!("cat keys/{name}")})
                }
            }
        };
        defined.insert(name, source);
    }
    let names: Vec<&String> = defined.keys().collect();
    let names = json!(names);
    let stage = |state: &str, agent: &str, script: &str, verify: Value| {
        json!({
            "when": {"state": state}, "agent": agent, "prompt": script, "verify": verify,
            "retry": {"max_attempts": 2, "initial_backoff": "50ms", "max_backoff": "50ms"},
            "hooks": {
                "secrets": names,
                "before_run": format!("env; cat {print}"),
                "after_run": format!("cat {print}; printf '%s' {{{{ session.last_message }}}} > {}/after-$VIK_ISSUE_ID", output.display()),
            },
        })
    };
    let print_script =
        format!("SCRIPT: run cp {print} out.txt\nSCRIPT: do cat {print}; env\nSCRIPT: run cat {print} >&2");
    let notify = format!(
        "cat > {}/$VIK_DELIVERY_ID.json; env | grep VIK_ > {0}/$VIK_DELIVERY_ID.env",
        output.display()
    );
    let world = world
        .set("/secrets", defined.into())
        .set("/agents/a/secrets", names.clone())
        .set("/agents/b", json!({"runtime": "command", "command": ["sh", "-c", format!("cat > /dev/null; cat {print}")], "secrets": names}))
        .set("/agents/c", json!({"runtime": "command", "command": ["sh", "-c", format!("cat > /dev/null; cat {print} >&2; exit 3")], "secrets": names}))
        .set("/issue/hooks", json!({"after_create": "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a"}))
        .set("/issue/stages/work", stage("todo", "a", &format!("{print_script}\nSCRIPT: ok"), json!(format!("cat {print}; exit 1"))))
        .set("/issue/stages/plain", stage("text", "b", "go", Value::Null))
        .set("/issue/stages/bad", stage("broken", "c", "go", Value::Null))
        .set("/notify/team", json!({"kind": "command", "command": notify, "debounce": "0s"}));
    (world, env)
}

/// `VIK_SECRET_ROUNDS` sets the number of rounds, each with other secrets: 167 rounds are 10,000
/// secrets.
#[test]
fn secrets_appear_in_nothing_that_vik_writes_or_serves() {
    let rounds = std::env::var("VIK_SECRET_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    for seed in 0..rounds {
        none_is_shown(&secrets(seed));
    }
}

fn none_is_shown(secrets: &[String]) {
    let hidden = Hidden(secrets.iter().flat_map(|secret| forms(secret)).collect());
    let (world, env) = talkative(secrets);
    let env: Vec<_> = env
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let daemon = world.start_with(&["run", "-v", "--port", "0"], &env);
    let status = wait_for_value(LONG, || {
        let status = world.status()?;
        let parked = status["parked"].as_array()?.len();
        (parked >= 2 && world.sessions("2").len() == 2 && status["sessions"].as_array()?.is_empty())
            .then_some(status)
    });
    let status = status.unwrap_or_else(|| panic!("it is not over: {}", daemon.err()));
    let client = HttpClient::tcp(status["api"]["address"].as_str().unwrap());
    let token = std::fs::read_to_string(world.instance().join("api.token")).unwrap();
    let client = client.with_header("Authorization", &format!("Bearer {token}"));
    let get = |path: &str| {
        let reply = client.get(&format!("/api/v1{path}")).expect_status(200);
        hidden.check(path, &reply.body);
        reply.body
    };
    for path in ["/state", "/issues", "/runs", "/decisions", "/report", "/metrics"] {
        get(path);
    }
    let mut seen = String::new();
    for issue in ["1", "2", "3"] {
        get(&format!("/issues/{issue}"));
        for session in world.sessions(issue) {
            // The agent did print each secret.
            let raw = session.text(".raw.jsonl") + &session.text(".stderr.log");
            assert!(
                secrets
                    .iter()
                    .all(|secret| raw.contains(secret.as_str()) || raw.contains(&forms(secret)[1]))
            );
            let id = session.id().to_owned();
            seen += &get(&format!("/sessions/{id}"));
            seen += &get(&format!("/sessions/{id}/events?limit=1000"));
            seen += &get(&format!("/sessions/{id}/diff"));
            for bytes in [1, 7, 50, 64, 100, 333, 1000, 5000, 100_000] {
                let page = get(&format!("/sessions/{id}/stderr?bytes={bytes}"));
                let page: Value = serde_json::from_str(&page).unwrap();
                assert_no_partial_secret(secrets, page["text"].as_str().unwrap());
            }
        }
    }
    let feed = all_feed_events(&client);
    hidden.check("the feed", &feed);
    assert!(feed.contains("[secret S"), "{feed}");
    for name in (0..SECRETS).map(|at| format!("[secret S{at}]")) {
        assert!(seen.contains(&name), "{name} was never masked");
    }
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["runs"],
        &["runs", "--json"],
        &["show", "1"],
        &["show", "3", "--json"],
        &["explain", "1"],
        &["report"],
        &["trace", "log"],
        &["trace", "export"],
        &["logs", "--issue", "1", "--full"],
        &["logs", "--issue", "2", "--json"],
        &["logs", "--issue", "1", "--raw"],
        &["logs", "--issue", "2", "--raw"],
    ] {
        let done = world.start_with(args, &env).done().expect(0);
        hidden.check(&args.join(" "), &(done.out + &done.err));
    }
    let console = daemon.stop();
    hidden.check("the console", &(console.out + &console.err));
    let mut checked = 0;
    hidden.check_files(&world.home(), &mut checked);
    hidden.check_files(&world.env.path("told"), &mut checked);
    for log in list(&world.home().join("logs")) {
        hidden.check(&log.to_string_lossy(), &std::fs::read_to_string(&log).unwrap());
        checked += 1;
    }
    assert!(checked > 30, "{checked}");
    assert!(
        list(&world.env.path("told"))
            .iter()
            .any(|path| path.extension().is_some_and(|end| end == "json"))
    );
    let after = std::fs::read_to_string(world.env.path("told").join("after-2")).unwrap();
    assert!(after.contains("[secret S"), "{after}");
}

/// Returns all events that the feed still has, as it sends them.
fn all_feed_events(client: &HttpClient) -> String {
    let mut now = client.events("/api/v1/events");
    for verb in ["pause", "continue"] {
        let _ = client
            .post(&format!("/api/v1/{verb}"), &json!({}))
            .expect_status(200);
    }
    let last = now.find_map(|event| event.id).unwrap();
    let (epoch, count) = last.split_once('-').unwrap();
    let all = client
        .clone()
        .with_header("Last-Event-ID", &format!("{epoch}-0"))
        .events("/api/v1/events");
    let all = all.take(count.parse().unwrap());
    all.map(|event| event.data.to_string() + "\n").collect()
}

/// Checks that a page that begins inside a secret does not show the remaining part of it.
fn assert_no_partial_secret(secrets: &[String], page: &str) {
    let line = page.lines().next().unwrap_or_default();
    for secret in secrets.iter().filter(|secret| secret.len() > 20) {
        let end = (0..=8)
            .find_map(|more| secret.get(secret.len() - 8 - more..))
            .unwrap();
        assert!(!line.contains(end), "{line}");
    }
}

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
        .set("/agents/a/secrets", json!(["KEY"]));
    let value = "correct horse battery";
    world
        .start_with(&["run", "--once"], &[("SOURCE", value)])
        .done()
        .expect(0);
    let raw = world
        .start_with(&["logs", "--raw"], &[("SOURCE", value)])
        .done()
        .expect(0);
    assert!(raw.out.contains("it is [secret KEY]\n"), "{}", raw.out);
    let refused = world.vik(&["logs", "--raw"]).expect(1);
    assert!(
        refused.err.contains("a secret cannot be read") && refused.out.is_empty(),
        "{}",
        refused.err
    );
    let all = world.vik(&["logs", "--raw", "--unmasked"]).expect(0);
    assert!(all.out.contains(value));
    // The events need no values, because they were masked before they were written.
    let log = world.vik(&["logs"]).expect(0);
    assert!(log.out.contains("[secret KEY]"), "{}", log.out);
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
    eventually("it is seen", || {
        world
            .status()
            .is_some_and(|status| !status["last_pull"].is_null())
    });
    std::fs::write(world.workspace("1").join("go"), "").unwrap();
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
    assert!(reason.contains("SOURCE is not set"), "{reason}");
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
    assert!(raw.contains("it is [secret DEPLOY]"), "{raw}");
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
