//! Secrets of many forms, and everything that Vik writes or serves.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use vik_testkit::HttpClient;

use super::*;

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
pub(super) fn forms(secret: &str) -> Vec<String> {
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
pub(super) struct Hidden(pub(super) Vec<String>);

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
    pub(super) fn check_files(&self, folder: &Path, checked: &mut usize) {
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
    let output = world.env.path("sent");
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
    assert_contains(&feed, "[secret S");
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
    hidden.check_files(&world.env.path("sent"), &mut checked);
    for log in list(&world.home().join("logs")) {
        hidden.check(&log.to_string_lossy(), &std::fs::read_to_string(&log).unwrap());
        checked += 1;
    }
    assert!(checked > 30, "{checked}");
    assert!(
        list(&world.env.path("sent"))
            .iter()
            .any(|path| path.extension().is_some_and(|end| end == "json"))
    );
    let after = std::fs::read_to_string(world.env.path("sent").join("after-2")).unwrap();
    assert_contains(&after, "[secret S");
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
