use serde_json::{Value, json};

use super::*;

const STARTED: &str = "2026-03-04T10:00:00Z";
const BEFORE: &str = "2026-03-04T09:00:00Z";
const AFTER: &str = "2026-03-04T11:00:00Z";

fn run(outcome: Option<&str>, changed: bool, phase: &Value) -> Run {
    let last = outcome.map(|outcome| {
        json!({"outcome": outcome, "failure_class": null, "reason": null, "feedback": null, "changed": null})
    });
    serde_json::from_value(json!({
        "id": "00000000-0000-0001-0000-000000000001", "stage": "work", "attempts": 1, "changed": changed,
        "last": last, "phase": phase,
    }))
    .unwrap()
}

fn parked(reason: &str, since: &str) -> Value {
    json!({"parked": {
        "since": since, "reason": reason, "detail": "", "fingerprint": vec![7; 16], "unseen_until": null,
    }})
}

fn backing_off() -> Value {
    json!({"backing_off": {
        "since": AFTER, "wait": {"secs": 10, "nanos": 0}, "until": {"secs": 99, "nanos": 0}, "why": "backoff",
    }})
}

fn settling() -> Value {
    json!({"settling": {"after": 2, "ended": {"wall": AFTER, "mono": {"secs": 1, "nanos": 0}}}})
}

/// Returns the exit code of a loop with only this run.
fn exit(run: &Run, is_present: bool, ended_here: bool, waits: bool) -> Exit {
    let mut summary = RunSummary {
        any_pull: true,
        succeeded: ended_here && run.last_succeeded(),
        changed: ended_here && run.changed,
        ..RunSummary::default()
    };
    if waits {
        summary.waiting.push("something".to_owned());
    }
    summary.add_run(
        "1 work",
        run_status(run, STARTED.parse().unwrap(), is_present, ended_here),
        run,
    );
    summary.exit()
}

/// Covers each outcome of this loop's attempts, combined with each kind of parking, with whether
/// the pull still returns the issue, and with whether something else waits.
#[test]
fn exit_code_follows_from_outcome_parking_and_waiting_work() {
    use Exit::{Budget, Done, Failed, NoProgress, Waiting};
    let bad = ["failed", "timed_out", "stalled", "lost"];
    let failures = [
        "attempts_used_up",
        "lost",
        "unproven_end",
        "auth",
        "config",
        "hook",
        "denied",
    ];
    let mut cases: Vec<(Run, bool, Exit)> = Vec::new();
    for outcome in bad {
        for reason in failures {
            cases.push((run(Some(outcome), false, &parked(reason, AFTER)), true, Failed));
            // An earlier daemon has reported the failure; the run still waits for a person.
            cases.push((run(Some(outcome), false, &parked(reason, BEFORE)), false, Waiting));
        }
        for reason in ["over_budget", "issue_limit"] {
            cases.push((run(Some(outcome), false, &parked(reason, AFTER)), true, Budget));
            cases.push((run(Some(outcome), false, &parked(reason, BEFORE)), false, Budget));
        }
        cases.push((run(Some(outcome), false, &settling()), true, Failed));
    }
    let good = |changed, since| run(Some("succeeded"), changed, &parked("no_progress", since));
    cases.push((good(false, AFTER), true, NoProgress));
    cases.push((good(true, AFTER), true, Waiting));
    cases.push((good(false, BEFORE), false, Waiting));
    cases.push((run(Some("succeeded"), true, &settling()), true, Done));
    cases.push((
        run(Some("cancelled"), false, &parked("cancelled", AFTER)),
        true,
        Waiting,
    ));
    cases.push((run(None, false, &parked("cancelled", BEFORE)), false, Waiting));
    for (run, ended_here, expected) in cases {
        for is_present in [false, true] {
            for waits in [false, true] {
                let expected = match expected {
                    NoProgress | Done if waits => Waiting,
                    expected => expected,
                };
                assert_eq!(
                    exit(&run, is_present, ended_here, waits),
                    expected,
                    "present: {is_present}, waits: {waits}: {run:?}"
                );
            }
        }
    }
}

/// A next attempt is expected only while the pull returns the issue.
#[test]
fn failed_attempt_of_an_issue_that_left_the_pull_is_a_failure() {
    for outcome in ["failed", "stalled", "timed_out", "lost"] {
        let run = run(Some(outcome), false, &backing_off());
        assert_eq!(exit(&run, false, true, false), Exit::Failed);
        assert_eq!(
            exit(&run, false, false, false),
            Exit::Done,
            "an earlier daemon reported it"
        );
        // Waiting work is reported separately.
        assert_eq!(exit(&run, true, true, false), Exit::Done);
    }
}

#[test]
fn misspelled_state_exits_with_not_found() {
    let summary = RunSummary {
        any_pull: true,
        misspelled: vec!["issue 1".to_owned()],
        ..RunSummary::default()
    };
    assert_eq!(summary.exit(), Exit::NotFound);
}
