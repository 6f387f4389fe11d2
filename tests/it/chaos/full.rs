//! A disk that is full, or broken, from the nth write on: the daemon stops before it acts, and the next one loses nothing.

use super::rig::Rig;
use crate::support::{Done, eventually};

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

/// The next daemon finds room, and finishes everything.
fn goes_on(rig: &Rig) {
    rig.up();
    rig.settle(&issues());
    rig.check(&issues());
}

fn stops_loudly(kind: &str, word: &str) {
    for commit in 0.. {
        let rig = Rig::new(&[("1", "todo")], 20);
        let done = with_fault(&rig, &["run", "--once"], &format!("{kind}:{commit}"));
        if done.code == 0 {
            assert!(commit > 2, "a claim and its end are two commits");
            break;
        }
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains(word), "{done:?}");
        if commit > 0 {
            assert!(state(&rig).contains("failed"), "{}", state(&rig));
        }
        eventually("a foreground daemon's agents have no grace", || {
            rig.world.env.leftovers().is_empty()
        });
        goes_on(&rig);
    }
}

#[test]
fn a_full_disk_stops_the_daemon_loudly_and_loses_nothing() {
    stops_loudly("full", "is full");
}

#[test]
fn a_disk_that_fails_stops_the_daemon_loudly_and_loses_nothing() {
    stops_loudly("error", "fails");
}

#[test]
fn a_daemon_without_room_is_no_daemon() {
    let rig = Rig::new(&[("1", "todo")], 20);
    let done = with_fault(&rig, &["run", "-d"], "full:0");
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("is full"), "{done:?}");
    assert!(!rig.is_up() && rig.starts() == 0);
    goes_on(&rig);
}

/// Whether an attempt of the issue has failed for a full disk, and the daemon says so.
fn has_failed(rig: &Rig) -> bool {
    let explained = rig.world.vik(&["explain", "1"]);
    explained.out.contains("the disk is full")
}

/// Journals and session logs are on the same disk, but the ledger is committed all the same.
#[test]
fn a_disk_that_fills_under_an_attempt_fails_it_and_not_the_daemon() {
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
                // Where its log took nothing more, the ledger alone knows how it ended.
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
