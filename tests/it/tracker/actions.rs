//! A workflow with `issues.tracker` leaves outputs and `start_state` to the tracker.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::*;

/// A tracker with issues in files. It writes down each request. For a verb with a file `fail-VERB`,
/// it carries out the request, and then ends with the exit code in the file, once.
const TRACKER: &str = r#"#!/bin/sh
echo "$*" >>calls
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
    assert_eq!(
        (&created["title"], &created["state"]),
        (&json!("The footer is cut off"), &json!("triage"))
    );
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
    assert!(
        explained.contains("meanwhile it is in the state `backlog`"),
        "{explained}"
    );
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
    assert!(seen.contains("\"in progress\""), "{seen}");
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
    assert_eq!(
        (&found["status"], &found["code"]),
        (&json!("warning"), &json!("states_missing"))
    );
    assert!(
        found["message"].as_str().unwrap().contains("`in progress`"),
        "{found}"
    );
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
