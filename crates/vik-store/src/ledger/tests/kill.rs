//! Tests that a killed process keeps everything that it acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::shared_log::open as open_copy;
use super::*;

const FOLDER: &str = "VIK_TEST_LEDGER";

fn step(number: u64) -> Changes {
    let attempts = u32::try_from(number).unwrap();
    Changes {
        machines: vec![machine("A-1", attempts, number, &[])],
        started: vec![started("A-1", "plan", 1, number)],
        ended: vec![ended(number, 1)],
        days: vec![day(number)],
        decisions: vec![decision(Some("A-1"), 1)],
        ..Changes::default()
    }
}

/// Returns the number of steps in a ledger. All its counters agree on it, unless a step was torn.
fn steps(stored: &Stored, reader: &Reader) -> u64 {
    let tokens = stored.days.first().map_or(0, |(_, charges)| charges.total.tokens);
    let machine = (tokens > 0).then(|| machine("A-1", u32::try_from(tokens).unwrap(), tokens, &[]));
    assert_eq!(reader.recall(&["A-1".into()]).unwrap(), Vec::from_iter(machine));
    let attempts = reader.attempts(None, u32::MAX).unwrap();
    assert_eq!(attempts.len() as u64, tokens);
    assert!(attempts.iter().all(|attempt| attempt.ended.is_some()));
    tokens
}

/// Reports to the parent process that a step is stored.
fn acknowledge(number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nkept {number}").unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn child_commits_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let (ledger, stored) = Ledger::open(Path::new(&folder)).unwrap();
    let mut number = stored.days.first().map_or(0, |(_, charges)| charges.total.tokens);
    loop {
        let first = ledger.commit(step(number + 1));
        let second = ledger.commit(step(number + 2));
        for commit in [first, second] {
            commit.wait().unwrap();
            number += 1;
            acknowledge(number);
        }
    }
}

/// Reads the log from some entries before its position on, as a hub may.
#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn child_copies_a_log_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let (copy, _, position) = open_copy(Path::new(&folder));
    let mut number = position.saturating_sub(2);
    loop {
        let entries = [number + 1, number + 2].map(|entry| copy.commit_entry(entry, step(entry)));
        for entry in entries {
            entry.wait().unwrap();
            number += 1;
            acknowledge(number);
        }
    }
}

/// Starts a child process again and again, and kills it at some moment. Calls `check` after each
/// kill with the last step that the child acknowledged; the child goes on from what `check` leaves.
fn kill_repeatedly(child: &str, kills: u64, folder: &Path, mut check: impl FnMut(u64, u64)) {
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("ledger::tests::kill::{child}")])
            .args(["--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let kept = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        let mut last = 0;
        let mut kept = kept.peekable();
        // The child continues in the meantime, so that the kill hits any point of a later commit.
        for number in kept.by_ref().take(1 + usize::try_from(kill * 7 % 23).unwrap()) {
            last = number;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(number) = kept.last() {
            last = number;
        }
        assert!(last > 0, "the child commits");
        check(kill, last);
    }
}

#[test]
fn acknowledged_commits_survive_a_kill_at_any_moment() {
    let folder = TempDir::new().unwrap();
    kill_repeatedly(
        "child_commits_until_it_is_killed",
        60,
        folder.path(),
        |kill, last| {
            let (ledger, stored) = Ledger::open(folder.path()).unwrap();
            let reader = Reader::open(folder.path()).unwrap().unwrap();
            let found = steps(&stored, &reader);
            assert!(found >= last, "{found} steps are there, {last} were acknowledged");
            // A ledger that was closed cleanly has no log; the next kill must find one.
            if kill % 2 == 0 {
                ledger.close().unwrap();
            }
        },
    );
}

#[test]
fn position_of_a_copy_agrees_with_its_content_after_a_kill_at_any_moment() {
    let folder = TempDir::new().unwrap();
    kill_repeatedly(
        "child_copies_a_log_until_it_is_killed",
        60,
        folder.path(),
        |kill, last| {
            let (copy, stored, position) = open_copy(folder.path());
            let reader = Reader::open(folder.path()).unwrap().unwrap();
            assert_eq!(steps(&stored, &reader), position);
            assert!(
                position >= last,
                "{position} entries are there, {last} were acknowledged"
            );
            if kill % 2 == 0 {
                copy.close().unwrap();
            }
        },
    );
}
