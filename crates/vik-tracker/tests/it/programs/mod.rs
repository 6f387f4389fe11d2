//! The programs of examples/trackers, each against a fake of the API that it uses.

mod gitea;
mod gitea_api;
mod jira;
mod jira_api;
mod linear;
mod linear_api;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use vik_tracker::protocol::{ProgramTracker, Request};

use crate::alone;
use crate::calls::{self, comment, comments, create, moving, show};
use crate::web::{Fake, Fault, WebResponse, WebServer};

/// A text that is harmful wherever it is not only data.
const HOSTILE: &str =
    "'; rm -rf ~ #\"\\ $(id) `id` {{ x }} %2e%2e/../ <!-- vik:k --> é\u{1F980} &amp; \\u0041 \"}]";
const NAMES: [&str; 3] = ["linear", "jira", "gitea"];
/// The settings of all programs.
const VARIABLES: [(&str, &str); 7] = [
    ("LINEAR_API_KEY", "secret-1"),
    ("LINEAR_TEAM", "ENG"),
    ("JIRA_EMAIL", "a@example.com"),
    ("JIRA_API_TOKEN", "secret-1"),
    ("JIRA_PROJECT", "ENG"),
    ("GITEA_TOKEN", "secret-1"),
    ("GITEA_REPO", "o/r"),
];

/// A program, and the fake of its API.
type World<S> = calls::World<Fake<S>, ProgramTracker>;

impl<S> World<S> {
    /// Returns `METHOD PATH` of the requests since the last call that were not only reading.
    fn changes(&self) -> Vec<String> {
        let requests = self.api.server.take_requests().into_iter();
        requests
            .filter(|request| request.method != "GET")
            .map(|request| format!("{} {}", request.method, request.target))
            .collect()
    }
}

/// Returns the time so many days ago.
pub fn days_ago(days: i64) -> jiff::Timestamp {
    jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days)
}

/// Returns the first items, and whether there are more.
pub fn cut(items: &[Value], at: usize, limit: usize) -> (Vec<Value>, bool) {
    let page = items.iter().skip(at).take(limit).cloned().collect();
    (page, items.len() > at + limit)
}

fn path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join("examples/trackers").join(format!("{name}.py"))
}

/// Returns whether the programs can run. Where all tests must run, Python must be there.
fn has_python() -> bool {
    let _alone = alone();
    let found = Command::new("python3").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "python3 is not installed");
    let _ = writeln!(std::io::stderr(), "skipped: python3 is not installed");
    false
}

/// Returns a program with these variables, and with these options before the verb.
pub fn program(name: &str, variables: &[(&str, &str)], options: &[&str]) -> ProgramTracker {
    // Proxies of the machine are not for loopback.
    let mut args = vec!["NO_PROXY=*".to_owned(), "PYTHONDONTWRITEBYTECODE=1".to_owned()];
    args.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
    args.push(path(name).to_str().unwrap().to_owned());
    args.extend(options.iter().map(|&option| option.to_owned()));
    let args: Vec<_> = args.into_iter().map(Into::into).collect();
    ProgramTracker::new(OsStr::new("env"), &args, Duration::from_secs(60)).unwrap()
}

/// Checks everything that all trackers have in common. The world has at least three pages of open
/// issues, `count` issues in all, and issue `id`, whose state is not `none`.
fn check_protocol<S>(world: &World<S>, id: &str, count: usize, skipped: usize) {
    let report = world.conformance(count + 1);
    assert_eq!(report.count(vik_tracker::conformance::Status::Skipped), skipped);
    check_texts(world, id);
    check_faults(world, id);
}

/// Checks that texts remain what they are.
fn check_texts<S>(world: &World<S>, id: &str) {
    let body = format!("{HOSTILE}\n\n\n\t- {HOSTILE}");
    assert!(world.comment(id, "k", &body));
    assert!(!world.comment(id, "k", &body));
    assert!(world.comment(id, "k2", &body));
    let found = world.call(&comments(id));
    let last = found.as_array().unwrap().last().unwrap();
    assert_eq!(last["body"], format!("{body}\n\n<!-- vik:k2 -->"));
    let created = world.call(&create("k", HOSTILE, &body, None, &[]));
    assert_eq!(created["created"], true);
    let again = world.call(&create("k", HOSTILE, &body, None, &[]));
    assert_eq!((&again["created"], &again["id"]), (&json!(false), &created["id"]));
    let shown = world.call(&show(created["id"].as_str().unwrap()));
    assert_eq!(shown["title"], HOSTILE);
    assert_eq!(shown["state"], "none");
    assert_eq!(shown["description"], format!("{body}\n\n<!-- vik:k -->"));
    // Texts as arguments.
    for name in ["show", "move", "comments"] {
        let id = format!("{id}/../../{HOSTILE}");
        let request = match name {
            "show" => show(&id),
            "move" => moving(&id, "a", "b"),
            _ => comments(&id),
        };
        world.api.server.take_requests();
        world.fails(&request, 66);
        assert!(world.api.server.take_requests().is_empty(), "{name}");
    }
    assert!(!world.move_issue(id, HOSTILE, "none").0);
}

/// Checks the exit codes for refusals, broken connections and redirects.
fn check_faults<S>(world: &World<S>, id: &str) {
    let list = Request::List { all: false };
    let refusal = |status: u16| WebResponse::json(status, &json!({"message": world.secrets.concat()}));
    for (status, header, expected) in [
        (429, Some("17"), 17),
        (503, Some("5"), 5),
        (429, None, 60),
        (503, None, 0),
        (500, None, 0),
    ] {
        let mut response = refusal(status);
        if let Some(seconds) = header {
            response = response.with_header("Retry-After", seconds);
        }
        // Not the first request: an incomplete list is never printed.
        world.api.server.fail_after(1, Fault::Respond(response));
        assert_eq!(world.wait(&list), expected, "{status}");
    }
    for fault in [Fault::Close, Fault::Truncate] {
        world.api.server.fail_after(1, fault);
        assert_eq!(world.wait(&list), 0);
    }
    world.api.server.fail_after(0, Fault::Respond(refusal(404)));
    world.fails(&list, 1);
    // A redirect does not take the token to another server.
    let other = WebServer::start(|_| WebResponse::json(200, &Value::Null));
    let redirect = WebResponse::json(307, &Value::Null).with_header("Location", &other.url());
    world.api.server.fail_after(0, Fault::Respond(redirect));
    world.fails(&show(id), 1);
    assert!(other.take_requests().is_empty());
    // Messages of the server that repeat the token.
    for status in [400, 401, 403, 429, 503] {
        let secret = world.secrets.join(" ");
        let body = json!({"message": secret, "errorMessages": [secret], "errors": [{"message": secret}]});
        world
            .api
            .server
            .fail_after(0, Fault::Respond(WebResponse::json(status, &body)));
        world.fails(&show(id), if status < 429 { 1 } else { 75 });
    }
    world
        .api
        .server
        .fail_after(0, Fault::Respond(WebResponse::json(200, &json!(["unexpected"]))));
    world.fails(&show(id), 1);
    // The change was made, but its response was lost: a repeated call finds that out.
    world.api.server.recover();
    let commented = world.call(&comments(id)).as_array().unwrap().len();
    world.api.server.fail_when(Fault::CloseAfterwards, |request| {
        request.text.contains("<!-- vik:lost -->")
    });
    assert_eq!(world.wait(&comment(id, "lost", "x")), 0);
    world.api.server.recover();
    assert!(!world.comment(id, "lost", "x"));
    let found = world.call(&comments(id)).as_array().unwrap().len();
    assert_eq!(found, commented + 1);
}

fn run(name: &str, variables: &[(&str, &str)], args: &[&str]) -> (i32, String) {
    let output = Command::new("python3")
        .arg("-B")
        .arg(path(name))
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", std::env::var_os("HOME").unwrap_or_default())
        .envs(variables.iter().copied())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn programs_compile_and_explain_themselves() {
    if !has_python() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        let output = Command::new("python3")
            .args(["-W", "error", "-m", "py_compile"])
            .arg(path(name))
            .env("PYTHONPYCACHEPREFIX", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let (code, help) = run(name, &[], &["--help"]);
        assert_eq!(code, 0, "{help}");
        for setting in ["_URL", "only in the environment", "pull_request"] {
            let expected = setting != "pull_request" || name == "gitea";
            assert_eq!(help.contains(setting), expected, "{name}: {setting}");
        }
    }
    assert!(!path("__pycache__").with_extension("").exists());
}

#[test]
fn programs_share_the_part_about_the_protocol() {
    let parts = NAMES.map(|name| {
        let text = std::fs::read_to_string(path(name)).unwrap();
        let (_, from) = text.split_once("\n# ---- The protocol").unwrap();
        from.split_once("\n# ---- End").unwrap().0.to_owned()
    });
    assert!(parts.iter().all(|part| *part == parts[0]));
}

#[test]
fn programs_warn_once_when_little_of_a_limit_is_left() {
    if !has_python() {
        return;
    }
    let _alone = alone();
    // In the middle of a minute, so that the minute is certain.
    let reset = jiff::Timestamp::now().as_second() / 60 * 60 + 5430;
    let until = jiff::Timestamp::from_second(reset).unwrap().strftime("%H:%M");
    let team = json!({"nodes": [{"id": "team"}]});
    let issues = json!({"nodes": [], "pageInfo": {"hasNextPage": false}});
    for (name, prefix, unit, body) in [
        (
            "linear",
            "X-RateLimit-Complexity",
            "points",
            json!({"data": {"teams": team, "issues": issues}}),
        ),
        ("jira", "X-RateLimit", "requests", json!({"issues": []})),
        ("gitea", "RateLimit", "requests", json!([])),
    ] {
        let warning = format!("warning: {name}: 149 of 1500 {unit} are left");
        for (remaining, reset, expected) in [
            ("150", reset.to_string(), String::new()),
            ("149", reset.to_string(), format!("{warning} until {until} UTC\n")),
            ("149", String::new(), format!("{warning}\n")),
            ("149", "9".repeat(30), format!("{warning}\n")),
            ("x", reset.to_string(), String::new()),
        ] {
            let response = WebResponse::json(200, &body)
                .with_header(&format!("{prefix}-Limit"), "1500")
                .with_header(&format!("{prefix}-Remaining"), remaining)
                .with_header(&format!("{prefix}-Reset"), &reset);
            let server = WebServer::start(move |_| response.clone());
            // Gitea gets two requests.
            let (code, text) = run(name, &VARIABLES, &["--url", &server.url(), "list"]);
            assert_eq!((code, text), (0, format!("[]\n{expected}")), "{name}");
        }
    }
}

#[test]
fn programs_refuse_invalid_settings_and_arguments() {
    if !has_python() {
        return;
    }
    let _alone = alone();
    for name in NAMES {
        let fails = |code: i32, args: &[&str]| {
            let (found, text) = run(name, &VARIABLES, args);
            assert_eq!(found, code, "{name} {args:?}: {text}");
            assert!(
                !text.contains("Traceback") && !text.contains("secret-1"),
                "{text}"
            );
            text
        };
        for url in [
            "http://example.com",
            "ftp://127.0.0.1",
            "https://",
            "https://[",
            "https://user:secret@example.com",
            "https://example.com:x",
            "https://exa mple.com",
            "https://example.com?x=1",
            "file:///etc/passwd",
        ] {
            let text = fails(1, &["--url", url, "list"]);
            assert!(text.contains("URL"), "{name} {url}: {text}");
        }
        let text = fails(75, &["--url", "http://127.0.0.1:1", "list"]);
        assert!(text.contains("no complete response"), "{text}");
        for args in [
            &[] as &[&str],
            &["unknown"],
            &["show"],
            &["show", "a\nb"],
            &["show", ""],
            &["move", "1", "--from", "a"],
            &["move", "1", "--fro", "a", "--to", "b"],
            &["comment", "1", "--key", "a b"],
            &["comment", "1", "--key", "k"],
            &["create", "--key", "k"],
            &["label", "1", "--add", "a", "--remove", "a"],
        ] {
            let args = [&["--url", "http://127.0.0.1:1"], args].concat();
            fails(2, &args);
        }
        if name != "gitea" {
            fails(2, &["pull_request", "status", "x"]);
        }
        // Without a setting, the message names it.
        for (missing, _) in VARIABLES {
            if !missing.starts_with(&name.to_uppercase()) {
                continue;
            }
            let others: Vec<_> = VARIABLES
                .into_iter()
                .filter(|(known, _)| *known != missing)
                .collect();
            let (code, text) = run(name, &others, &["--url", "http://127.0.0.1:1", "list"]);
            assert_eq!(code, 1);
            assert!(text.contains(&format!("set {missing}")), "{text}");
        }
    }
    let (code, text) = run(
        "linear",
        &[("LINEAR_API_KEY", "secret-1\nX: y"), ("LINEAR_TEAM", "ENG")],
        &["list"],
    );
    assert!(code == 1 && !text.contains("secret-1"), "{text}");
    for (name, option, value) in [
        ("jira", "--project", "ENG\" OR project = \"OPS"),
        ("jira", "--project", "../ENG"),
        ("gitea", "--repo", "o/../r"),
        ("gitea", "--repo", "../r"),
        ("gitea", "--repo", "o/r?x"),
    ] {
        let (code, text) = run(
            name,
            &VARIABLES,
            &["--url", "http://127.0.0.1:1", option, value, "list"],
        );
        assert_eq!(code, 1, "{value}: {text}");
    }
}
