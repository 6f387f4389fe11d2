//! A disk that is full, or fails, from the nth write on: the daemon stops before it acts, and the
//! next one loses nothing.

use serde_json::json;

use super::rig::Rig;
use crate::support::{Done, World, assert_contains, eventually};

fn issues() -> [String; 1] {
    ["1".to_owned()]
}

fn with_fault(rig: &Rig, args: &[&str], fault: &str) -> Done {
    let mut command = rig.command(args);
    command.env("VIK_DISK_FAULT", fault);
    rig.world.start_command(command).done()
}

fn state(rig: &Rig) -> String {
    std::fs::read_to_string(rig.world.home().join("service/state.json")).unwrap()
}

/// Starts a daemon with enough space, and checks that it finishes everything.
fn assert_recovers(rig: &Rig) {
    rig.up();
    rig.settle(&issues());
    rig.check(&issues());
}

fn stops_loudly(kind: &str, message: &str) {
    for commit in 0.. {
        let rig = Rig::new(&[("1", "todo")], 20);
        let done = with_fault(&rig, &["run", "--once"], &format!("{kind}:{commit}"));
        if done.code == 0 {
            assert!(commit > 2, "a claim and its end are two commits");
            break;
        }
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains(message), "{done:?}");
        if commit > 0 {
            assert_contains(state(&rig), "failed");
        }
        eventually("a foreground daemon's agents have no grace", || {
            rig.world.env.leftovers().is_empty()
        });
        assert_recovers(&rig);
    }
}

#[test]
fn full_disk_stops_the_daemon_loudly_and_loses_nothing() {
    stops_loudly("full", "is full");
}

#[test]
fn failing_disk_stops_the_daemon_loudly_and_loses_nothing() {
    stops_loudly("error", "reports errors");
}

#[test]
fn detached_run_fails_when_the_ledger_cannot_be_written() {
    let rig = Rig::new(&[("1", "todo")], 20);
    let done = with_fault(&rig, &["run", "-d"], "full:0");
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("is full"), "{done:?}");
    assert!(!rig.is_up() && rig.starts() == 0);
    assert_recovers(&rig);
}

/// Returns whether an attempt of the issue has failed because of a full disk, and the daemon
/// reports it.
fn has_failed(rig: &Rig) -> bool {
    let explained = rig.world.vik(&["explain", "1"]);
    explained.out.contains("the disk is full")
}

/// Journals and session logs are on the full disk, but the ledger still commits.
#[test]
fn disk_full_during_an_attempt_fails_it_and_not_the_daemon() {
    let mut write = 0;
    loop {
        write += 1 + write / 3;
        let rig = Rig::new(&[("1", "todo")], 20);
        with_fault(&rig, &["run", "-d"], &format!("files:{write}")).expect(0);
        let is_done = || rig.world.tracker.state("1").as_deref() == Some("done");
        let idle = || {
            rig.world
                .status()
                .is_some_and(|status| status["sessions"] == serde_json::json!([]))
        };
        eventually("the attempt has failed, or never came to that write", || {
            assert!(rig.is_up(), "write {write}: {}", state(&rig));
            has_failed(&rig) || (is_done() && idle())
        });
        let went_well = !has_failed(&rig);
        rig.world.vik(&["stop"]).expect(0);
        rig.up();
        rig.settle(&issues());
        for run in rig.world.runs() {
            for attempt in run["attempts"].as_array().unwrap() {
                // Where the log could not be written any more, only the ledger has the outcome.
                let outcome = attempt["outcome"].as_str().unwrap_or("lost");
                assert!(
                    matches!(outcome, "succeeded" | "failed" | "cancelled" | "lost"),
                    "write {write}: {attempt:#}"
                );
            }
        }
        if went_well {
            assert!(write > 10, "an attempt has more steps");
            break;
        }
    }
}

/// The usage of the agent is in its raw output, whether or not the session log could be written.
#[test]
fn attempt_without_a_writable_log_is_charged_its_real_usage() {
    // The log is written in the middle of the lines that are read at once.
    let message = json!({"type": "item.completed", "item":
        {"id": "i1", "type": "agent_message", "text": "a message of the agent ".repeat(20)}});
    let usage =
        json!({"type": "turn.completed", "usage": {"input_tokens": 1_000_000, "output_tokens": 500_000}});
    let printed = format!("{}{usage}\n", format!("{message}\n").repeat(400));
    let mut seen = 0;
    for write in 1.. {
        let world = World::new(&[("1", "todo")])
            .attempts(1)
            .work("hand_over/max_tries", json!(1));
        world.env.write("work/printed", &printed);
        let command = format!("cat {}", world.env.work().join("printed").display());
        let agent = json!({"runtime": "codex", "model": "scripted", "command": ["sh", "-c", command],
            "price": {"input": 1.0, "cached_input": 1.0, "output": 2.0}});
        let world = world.set("/agents/a", agent);
        let fault = format!("files:{write}");
        let done = world
            .start_with(&["run", "--once"], &[("VIK_DISK_FAULT", &fault)])
            .done();
        if done.code == 0 {
            break;
        }
        let session = world.session("1");
        let raw = std::fs::read_to_string(session.file(".raw.jsonl")).unwrap_or_default();
        if raw != printed {
            // The agent was never started, or was killed because its start could not be recorded.
            continue;
        }
        let attempt = &world.runs()[0]["attempts"][0];
        let reason = attempt["reason"].as_str().unwrap_or_default();
        let charged = json!({
            "tokens": 1_500_000, "cost_usd": 2.0, "estimated_tokens": 0, "estimated_usd": 0.0
        });
        if attempt["outcome"] == "failed" {
            seen += 1;
            assert!(reason.contains("the disk is full"), "write {write}: {attempt:#}");
        }
        assert_eq!(attempt["charged"], charged, "write {write}: {attempt:#}");
        assert_eq!(
            attempt["usage"]["input_tokens"], 1_000_000,
            "write {write}: {attempt:#}"
        );
        assert_eq!(attempt["cost_usd"], 2.0, "write {write}: {attempt:#}");
    }
    assert!(seen > 0, "no write was that of the log");
}
