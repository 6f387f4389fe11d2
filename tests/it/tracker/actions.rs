//! A workflow with `issues.tracker` leaves outputs and `start_state` to the tracker.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use vik_testkit::HttpClient;

use crate::support::*;

/// A tracker with issues in files. It writes down each request. For a verb with a file `fail-VERB`,
/// it carries out the request, and then ends with the exit code in the file, once.
const TRACKER: &str = r#"#!/bin/sh
echo "$*" >>calls
if [ "$1" = pull_request ]; then
  cat >>pull_requests
  echo '{"id":"1","created":true,"url":"https://tracker.example/1"}'
  [ -e fail-pull_request ] || exit 0
  rm fail-pull_request
  exit 75
fi
if [ "$1" = move ] && [ -e person ]; then
  rm person
  vik tracker files move "$2" --from todo --to backlog >/dev/null
fi
case "$1 $2" in
  "capabilities "*) echo '{"protocol":1,"name":"test","verbs":["capabilities","states","list","show"]}'; exit ;;
  "states "*)
    [ $# = 1 ] || echo "$3" >>states
    exec jq -Rnc '{states: [inputs], created: []}' states ;;
esac
vik tracker files "$@" || exit
if [ -e "fail-$1" ]; then
  code=$(cat "fail-$1")
  rm "fail-$1"
  exit "$code"
fi
"#;

struct Tracked {
    world: World,
}

impl Tracked {
    /// A world whose agent runs this script, with one issue in the state `todo`.
    fn new(script: &str) -> Self {
        let world = World::new(&[]).script(script);
        let tracker = world.env.write("work/tracker.sh", TRACKER);
        std::fs::set_permissions(tracker, std::fs::Permissions::from_mode(0o755)).unwrap();
        let issues = json!({"tracker": {"command": ["./tracker.sh"]}, "pull": {"idle_sec": "100ms"}});
        let world = world
            .set("/issues", issues)
            .set("/issue/terminal_states", json!(["done"]))
            .set("/agents/a/sandbox", json!({}))
            .work("hooks", json!({}));
        world
            .vik(&["issue", "new", "--state", "todo", "Show the total"])
            .expect(0);
        Self { world }
    }

    /// A world whose agent requests these outputs.
    fn asking(lines: &[&str]) -> Self {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let tracked = Self::new("ok");
        let file = tracked.world.env.write("asked", text);
        let script = format!("run cat {} >> \"$VIK_OUTPUTS\"; ok", file.display());
        let world = tracked.world.script(&script).work(
            "hand_over",
            json!({"initial_backoff": "50ms", "max_backoff": "50ms"}),
        );
        Self { world }
    }

    fn work(self, key: &str, value: Value) -> Self {
        Self {
            world: self.world.work(key, value),
        }
    }

    fn fail(&self, verb: &str, code: u8) {
        std::fs::write(
            self.world.env.work().join(format!("fail-{verb}")),
            code.to_string(),
        )
        .unwrap();
    }

    /// Returns the requests that are not about reading issues.
    fn changes(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.world.env.work().join("calls")).unwrap_or_default();
        let reads = ["list", "show", "capabilities"];
        calls
            .lines()
            .filter(|call| !reads.contains(&call.split(' ').next().unwrap()))
            .map(str::to_owned)
            .collect()
    }

    fn comments(&self) -> Vec<Value> {
        let printed = self.world.vik(&["tracker", "files", "comments", "1"]).expect(0);
        serde_json::from_str(&printed.out).unwrap()
    }

    fn issue(&self, id: &str) -> Value {
        let shown = self.world.vik(&["issue", "show", "--json", "--", id]).expect(0);
        serde_json::from_str(&shown.out).unwrap()
    }
}

fn git(world: &World, args: &[&str]) -> String {
    let output = world.env.command("git").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const COMMENT: &str = r#"{"kind":"comment","body":"Done; it's $(touch pwned) {{ x }}"}"#;
const LABEL: &str = r#"{"kind":"label","label":"area/ui"}"#;
const STATE: &str = r#"{"kind":"state","state":"done"}"#;
const ISSUE: &str = r#"{"kind":"issue","title":"The footer is cut off","body":"On phones."}"#;

fn all_kinds() -> Value {
    json!({"comment": {}, "label": {"allow": ["area/*"]}, "issue": {}, "state": {"allow": ["done"]}})
}

#[test]
fn outputs_without_commands_are_carried_out_by_the_tracker() {
    let tracked = Tracked::asking(&[COMMENT, LABEL, ISSUE, STATE]).work("outputs", all_kinds());
    tracked.world.once().expect(0);
    let issue = tracked.issue("1");
    assert_eq!(issue["state"], "done");
    assert_eq!(issue["labels"], json!(["area/ui"]));
    let comments = tracked.comments();
    assert_eq!(comments.len(), 1, "{comments:?}");
    let body = comments[0]["body"].as_str().unwrap();
    assert!(body.starts_with("Done; it's $(touch pwned) {{ x }}\n"), "{body}");
    let created = tracked.issue("2");
    assert_eq!(created["title"], "The footer is cut off");
    assert_eq!(created["state"], "triage");
    assert!(!tracked.world.env.work().join("pwned").exists());
    tracked.world.session("1").expect("succeeded", None);
}

#[test]
fn interrupted_outputs_of_the_tracker_are_repeated_once_and_without_an_agent() {
    for (verb, code) in [
        ("comment", 1),
        ("comment", 75),
        ("create", 9),
        ("label", 75),
        ("move", 75),
    ] {
        let tracked = Tracked::asking(&[COMMENT, LABEL, ISSUE, STATE]).work("outputs", all_kinds());
        tracked.fail(verb, code);
        tracked.world.once().expect(0);
        let issue = tracked.issue("1");
        assert_eq!(issue["state"], "done", "{verb} {code}");
        assert_eq!(tracked.comments().len(), 1, "{verb} {code}");
        tracked.issue("2");
        tracked.world.vik(&["tracker", "files", "show", "3"]).expect(66);
        assert_eq!(tracked.world.sessions("1").len(), 1, "{verb} {code}");
        let repeated = tracked
            .changes()
            .iter()
            .filter(|call| call.starts_with(verb))
            .count();
        assert_eq!(repeated, 2, "{verb} {code}");
    }
}

#[test]
fn output_of_a_state_leaves_an_issue_that_a_person_has_moved() {
    let tracked = Tracked::asking(&[STATE]).work("outputs", all_kinds());
    std::fs::write(tracked.world.env.work().join("person"), "").unwrap();
    tracked.world.once().expect(1);
    assert_eq!(tracked.issue("1")["state"], "backlog");
    let explained = tracked.world.vik(&["explain", "1", "--json"]).expect(0).out;
    assert_contains(&explained, "meanwhile it is in the state `backlog`");
}

#[test]
fn start_state_is_set_before_the_agent_and_keeps_the_run() {
    let tracked = Tracked::new("ok")
        .work("when", json!({"state": ["todo", "in progress"]}))
        .work("start_state", json!("in progress"))
        .work("on_state_change", json!("cancel"));
    let tracked = tracked.work(
        "hooks",
        json!({"before_run": "cd {{ workflow_dir }} && vik tracker files show {{ issue.id }} >seen",
               "after_run": "{% if session.outcome == 'succeeded' %}\n\
                             vik tracker workflow move --from 'in progress' --to done\n\
                             {% endif %}"}),
    );
    tracked.fail("move", 75);
    tracked.world.once().expect(0);
    let seen = std::fs::read_to_string(tracked.world.env.work().join("seen")).unwrap();
    assert_contains(&seen, "\"in progress\"");
    assert_eq!(tracked.issue("1")["state"], "done");
    assert_eq!(
        tracked.changes(),
        [
            "move 1 --from todo --to in progress",
            "move 1 --from todo --to in progress",
            "move 1 --from in progress --to done"
        ]
    );
}

#[test]
fn issue_that_a_person_moves_before_the_start_gets_no_agent() {
    let tracked = Tracked::new("ok")
        .work("when", json!({"state": ["todo", "doing"]}))
        .work("start_state", json!("doing"));
    std::fs::write(tracked.world.env.work().join("person"), "").unwrap();
    tracked.world.once();
    assert_eq!(tracked.issue("1")["state"], "backlog");
    let session = tracked.world.session("1");
    session.expect("failed", Some("hook"));
    assert!(session.of_kind("agent_started").is_empty());
}

#[test]
fn doctor_names_the_command_that_creates_missing_states() {
    let tracked = Tracked::new("ok").work("when", json!({"state": ["todo", "in progress"]}));
    tracked.world.env.write("work/states", "todo\n");
    let check = || {
        let report = tracked.world.vik(&["doctor", "--json"]).json();
        let checks = report["checks"].as_array().unwrap().iter();
        let mut checks = checks.filter(|check| check["check"] == "tracker.states");
        checks.next().unwrap().clone()
    };
    let found = check();
    assert_eq!(found["status"], "warning");
    assert_eq!(found["code"], "states_missing");
    assert_contains(found["message"].as_str().unwrap(), "`in progress`");
    let hint = found["hint"].as_str().unwrap();
    let command = hint.split('`').nth(1).unwrap();
    let output = tracked
        .world
        .env
        .command("sh")
        .args(["-c", command])
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    assert_eq!(check()["status"], "ok");
}

#[test]
fn doctor_names_outputs_that_the_tracker_cannot_carry_out() {
    let outputs = json!({"comment": {}, "label": {"allow": ["a"], "run": "true"}});
    let tracked = Tracked::new("ok").work("outputs", outputs);
    let report = tracked.world.vik(&["doctor", "--json"]).json();
    let mut checks = report["checks"].as_array().unwrap().iter();
    let found = checks.find(|check| check["check"] == "tracker.outputs").unwrap();
    assert_eq!(found["status"], "error");
    assert_eq!(
        found["message"],
        "the tracker cannot carry out `issue.stages.work.outputs.comment`"
    );
}

#[test]
fn state_is_set_after_all_other_outputs() {
    let tracked = Tracked::asking(&[STATE, COMMENT, LABEL]).work("outputs", all_kinds());
    tracked.fail("label", 75);
    tracked.world.once().expect(0);
    let verbs: Vec<_> = tracked
        .changes()
        .iter()
        .map(|call| call.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(verbs, ["comment", "label", "label", "move"]);
    assert_eq!(tracked.issue("1")["labels"], json!(["area/ui"]));
    assert_eq!(tracked.world.sessions("1").len(), 1);
}

#[test]
fn output_of_a_command_is_not_repeated_by_the_tracker() {
    let done = "touch ran; exec sleep 600";
    let tracked = Tracked::asking(&[COMMENT])
        .work("outputs", json!({"comment": {"run": done}}))
        .work("hooks", json!({"timeout": "1s"}));
    tracked.world.once().expect(1);
    assert!(tracked.world.env.work().join("ran").exists());
    // It began, and its end is unknown.
    let notes = |tracked: &Tracked| {
        let log = tracked.world.session("1").file(".jsonl");
        let run = tracked.world.runs()[0]["run_id"].as_str().unwrap().to_owned();
        let book = log.with_file_name(format!("{run}.outputs"));
        std::fs::read_to_string(book).unwrap().lines().count()
    };
    assert_eq!(notes(&tracked), 2);
    let tracked = tracked.work("outputs", all_kinds());
    let daemon = tracked.world.daemon();
    tracked.world.vik(&["retry", "1"]).expect(0);
    eventually("the hand-over was tried again", || {
        let status = tracked.world.status().unwrap_or_default();
        status["parked"][0]["reason"] == "hand_over" && notes(&tracked) == 3
    });
    daemon.stop();
    assert_eq!(tracked.comments().len(), 0);
}

#[test]
fn pull_request_goes_to_its_own_branch_and_never_replaces_commits_of_others() {
    let pull_request = r#"{"kind":"pull_request","title":"Fix it's","body":"x"}"#;
    let tracked = Tracked::asking(&[pull_request])
        .work("outputs", json!({"pull_request": {}}))
        .work("hand_over", json!({"initial_backoff": "10ms", "max_tries": 2}));
    let remote = tracked.world.env.path("remote").display().to_string();
    git(&tracked.world, &["init", "--quiet", "--bare", &remote]);
    git(&tracked.world, &["clone", "--quiet", &remote, "seed"]);
    git(
        &tracked.world,
        &["-C", "seed", "commit", "--quiet", "--allow-empty", "-m", "Begin"],
    );
    git(
        &tracked.world,
        &["-C", "seed", "push", "--quiet", "origin", "HEAD"],
    );
    let first = git(&tracked.world, &["-C", &remote, "rev-parse", "HEAD"]);
    let world = tracked.world.set(
        "/issue/hooks",
        json!({"after_create": format!("git clone --quiet {remote} .")}),
    );
    let script = world
        .value("/issue/stages/work/prompt")
        .as_str()
        .unwrap()
        .replace("SCRIPT: ", "");
    let script = format!("run git commit --quiet --allow-empty -m Work; {}", script.trim());
    let tracked = Tracked {
        world: world.script(&script).work(
            "hooks",
            json!({"after_run": "vik tracker workflow move --from todo --to done"}),
        ),
    };
    tracked.fail("pull_request", 75);
    tracked.world.once().expect(0);
    let calls = tracked.changes();
    let opened: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("pull_request"))
        .collect();
    assert_eq!(opened, ["pull_request open vik/1"; 2]);
    let drafts = std::fs::read_to_string(tracked.world.env.work().join("pull_requests")).unwrap();
    assert!(
        drafts.starts_with(r#"{"title":"Fix it's","body":"x"}"#),
        "{drafts}"
    );
    assert_eq!(
        git(&tracked.world, &["-C", &remote, "log", "--format=%s", "vik/1"]),
        "Work\nBegin\n"
    );
    // Nothing went to the branch that was cloned.
    assert_eq!(git(&tracked.world, &["-C", &remote, "rev-parse", "HEAD"]), first);
    assert_eq!(tracked.world.sessions("1").len(), 1);

    // The workspace is gone, a person pushes to the branch, and the issue begins again.
    assert!(!tracked.world.workspace("1").exists());
    git(&tracked.world, &["-C", "seed", "fetch", "--quiet"]);
    git(&tracked.world, &["-C", "seed", "switch", "--quiet", "vik/1"]);
    git(
        &tracked.world,
        &[
            "-C",
            "seed",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "By a person",
        ],
    );
    git(&tracked.world, &["-C", "seed", "push", "--quiet"]);
    tracked.world.vik(&["issue", "move", "1", "todo"]).expect(0);
    tracked.world.once().expect(1);
    let log = git(&tracked.world, &["-C", &remote, "log", "--format=%s", "vik/1"]);
    assert_eq!(log, "By a person\nWork\nBegin\n");
}

#[test]
fn workflow_tracker_has_the_secrets_of_the_pull_outside_of_hooks() {
    let tracked = Tracked::new("ok");
    let script = "#!/bin/sh\n[ \"$TOKEN\" = sesame ] || { echo 'no token' >&2; exit 1; }\nexec vik tracker files \"$@\"\n";
    tracked.world.env.write("work/tracker.sh", script);
    let file = tracked.world.env.write("token", "sesame\n").display().to_string();
    let world = tracked
        .world
        .set("/secrets", json!({"TOKEN": {"file": file}}))
        .set("/issues/pull/secrets", json!(["TOKEN"]))
        .work(
            "hooks",
            json!({"after_run": "vik tracker workflow move --from todo --to done"}),
        );
    let listed = world.vik(&["tracker", "workflow", "list"]).expect(0);
    assert!(listed.out.contains("Show the total") && !listed.out.contains("sesame"));
    // A hook has the secrets that the workflow gives it.
    let world = world.work("hand_over", json!({"max_tries": 1}));
    world.once().expect(1);
    let log = world.session("1").text(".after_run.log");
    assert_contains(&log, "hooks: {secrets: [TOKEN]}");
    let world = world.set("/issue/stages/work/hooks/secrets", json!(["TOKEN"]));
    let daemon = world.daemon();
    world.vik(&["retry", "1"]).expect(0);
    eventually("the issue is moved", || {
        world.vik(&["issue", "show", "1", "--json"]).json()["state"] == "done"
    });
    daemon.stop();
}

#[test]
fn stage_runs_again_when_a_person_has_the_issue_moved_back() {
    let tracked = Tracked::asking(&[STATE]).work("outputs", all_kinds());
    let world = &tracked.world;
    let daemon = world.daemon();
    let client = HttpClient::unix(world.instance().join("vik.sock"));
    let ended = || {
        let runs = world.runs();
        runs.iter().filter(|run| run["state"] == "ended").count()
    };
    eventually("the first run has ended", || ended() == 1);
    let run_again = |stage: &str| client.post("/api/v1/issues/1/run-again", &json!({"stage": stage}));

    let unknown = run_again("nothing").expect_status(404).json();
    assert_eq!(unknown["code"], "unknown_stage");
    tracked.fail("move", 1);
    let failed = run_again("work").expect_status(503).json();
    assert_eq!(failed["code"], "tracker_failed", "{failed}");
    // The failed move was carried out: nothing moves the issue twice.
    eventually("the second run has ended", || ended() == 2);

    assert_eq!(run_again("work").expect_status(200).json()["count"], 1);
    eventually("the third run has ended", || ended() == 3);
    assert_eq!(tracked.issue("1")["state"], "done");
    let explained = world.explained("1");
    let decisions = explained["decisions"].as_array().unwrap();
    let again = decisions
        .iter()
        .filter(|decision| decision["kind"] == "run_again");
    let again: Vec<_> = again
        .map(|decision| decision["detail"].as_str().unwrap())
        .collect();
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(
        again[0].starts_with("moved from `done` to `todo`, by "),
        "{again:?}"
    );
    let missing = client.post("/api/v1/issues/99/run-again", &json!({"stage": "work"}));
    assert_eq!(missing.expect_status(404).json()["code"], "unknown_issue");
    daemon.stop().expect(0);
}

#[test]
fn issue_that_the_stage_would_not_take_is_not_moved_back() {
    let tracked = Tracked::new("ok").work("when", json!({"state": "todo", "labels": ["ai"]}));
    let world = &tracked.world;
    world.vik(&["issue", "move", "1", "done"]).expect(0);
    let daemon = world.daemon();
    let client = HttpClient::unix(world.instance().join("vik.sock"));
    let reply = client.post("/api/v1/issues/1/run-again", &json!({"stage": "work"}));
    let reply = reply.expect_status(409).json();
    let detail = reply["detail"].as_str().unwrap();
    assert!(detail.contains("only issues with the labels `ai`"), "{reply}");
    assert_eq!(tracked.issue("1")["state"], "done");
    assert_eq!(tracked.changes(), Vec::<String>::new());
    daemon.stop().expect(0);
}
