//! Tests of the ledger.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;
use vik_core::attempt::AttemptResult;
use vik_core::changes::{Decision, EndedAttempt, RunOver, StartedAttempt};
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_core::limits::{Charges, Spend};
use vik_core::machine::IssueMachine;
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, Outcome};
use vik_core::outputs::{Output, OutputNote, Progress, Pursuit};

use super::*;

mod copies;
mod damage;
mod decided;
mod history;
mod kill;
mod model;
mod outputs;
mod refuse;
mod repair;
mod rows;
mod runs;
mod shared_log;
mod snapshots;
mod versions;

fn at(second: i64) -> Timestamp {
    Timestamp::new(1_800_000_000 + second, 123_456_789).unwrap()
}

fn run_id(number: u64) -> RunId {
    RunId(Uuid::from_u64_pair(1, number))
}

fn session_id(number: u64) -> AttemptId {
    AttemptId(Uuid::from_u64_pair(2, number))
}

/// Builds a machine with these runs from its stored form.
fn machine(issue: &str, attempts: u32, tokens: u64, runs: &[serde_json::Value]) -> IssueMachine {
    let payload = json!({"id": issue, "title": "T", "state": "todo"}).to_string();
    serde_json::from_value(json!({
        "issue": {"id": issue, "title": "T", "state": "todo", "payload": payload},
        "present": true,
        "runs": runs,
        "life": {"attempts": attempts, "extra_attempts": 1, "spend": {"tokens": tokens, "usd": tokens * 3}},
        "paused": attempts % 2 == 1,
    }))
    .unwrap()
}

fn run(id: u64, stage: &str, attempts: u32, phase: &serde_json::Value) -> serde_json::Value {
    json!({
        "id": run_id(id), "stage": stage, "attempts": attempts, "lost_in_a_row": 0, "changed": true,
        "last": AttemptResult::new(Outcome::Failed), "phase": phase,
    })
}

fn settling() -> serde_json::Value {
    json!({"settling": {"after": 3, "ended": {"wall": at(1), "mono": {"secs": 5, "nanos": 0}}}})
}

fn parked(reason: &str) -> serde_json::Value {
    json!({"parked": {
        "since": at(2), "reason": reason, "detail": "why", "fingerprint": vec![7; 16], "unseen_until": null,
    }})
}

fn started(issue: &str, stage: &str, run: u64, session: u64) -> StartedAttempt {
    StartedAttempt {
        attempt_id: session_id(session),
        run: run_id(run),
        issue: issue.into(),
        stage: stage.into(),
        agent: "coder".into(),
        attempt: 1,
        resumed_from: None,
        at: at(i64::try_from(session).unwrap()),
    }
}

fn ended(session: u64, tokens: u64) -> EndedAttempt {
    EndedAttempt {
        attempt_id: session_id(session),
        at: at(i64::try_from(session).unwrap() + 1),
        report: AttemptResult {
            ran: true,
            proof: Some("subreaper".to_owned()),
            provider_session_id: Some("conversation".to_owned()),
            ..AttemptResult::new(Outcome::Succeeded)
        },
        charged: Spend {
            tokens,
            usd: MicroUsd(tokens * 3),
        },
        source: CostSource::Reported,
    }
}

fn decision(issue: Option<&str>, second: i64) -> Decision {
    Decision {
        at: at(second),
        issue: issue.map(IssueId::from),
        stage: Some("plan".into()),
        run: Some(run_id(1)),
        attempt_id: None,
        kind: DecisionKind::Started,
        detail: format!("decision {second}"),
    }
}

fn note(summary: &str, progress: Progress) -> OutputNote {
    let output = Output::Comment {
        body: summary.to_owned(),
    };
    let pursuit = Pursuit {
        issue: &"A-1".into(),
        stage: &"plan".into(),
        run: run_id(1),
    };
    OutputNote {
        at: at(1),
        attempt_id: session_id(1),
        key: pursuit.key(&output),
        kind: output.kind(),
        summary: summary.to_owned(),
        progress,
        is_keyed: false,
        detail: None,
    }
}

/// Returns the sums of a day with this number of tokens, of which half are an estimate.
fn day(tokens: u64) -> (jiff::civil::Date, Charges) {
    let charges = Charges {
        total: ended(0, tokens).charged,
        estimated: ended(0, tokens / 2).charged,
    };
    ("2027-01-15".parse().unwrap(), charges)
}

fn pause(paused: bool) -> Changes {
    Changes {
        paused: Some(paused),
        ..Changes::default()
    }
}

fn of_machine(machine: IssueMachine) -> Changes {
    Changes {
        machines: vec![machine],
        ..Changes::default()
    }
}

fn empty() -> (TempDir, Ledger) {
    let folder = TempDir::new().unwrap();
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    (folder, ledger)
}

/// Creates a ledger with data of every kind, and returns its contents.
fn sample(folder: &Path) -> Changes {
    let changes = Changes {
        machines: vec![
            machine("A-1", 2, 30, &[run(1, "plan", 1, &settling())]),
            machine("A-2", 1, 10, &[run(2, "plan", 3, &parked("no_progress"))]),
        ],
        started: vec![
            started("A-1", "plan", 1, 1),
            started("A-2", "plan", 2, 2),
            started("A-1", "plan", 3, 3),
        ],
        ended: vec![ended(1, 20), ended(2, 10)],
        runs_over: vec![RunOver {
            run: run_id(3),
            issue: "A-1".into(),
            succeeded: true,
            at: at(9),
        }],
        days: vec![day(30)],
        paused: Some(true),
        decisions: vec![decision(Some("A-1"), 1), decision(None, 2)],
        outputs: vec![(run_id(1), note("done", Progress::Applied))],
    };
    let (ledger, _) = Ledger::open(folder).unwrap();
    ledger.commit(changes.clone()).wait().unwrap();
    ledger.close().unwrap();
    changes
}

fn stored_of(changes: &Changes) -> Stored {
    Stored {
        machines: changes.machines.clone(),
        days: changes.days.clone(),
        paused: changes.paused == Some(true),
    }
}

fn refused(folder: &Path) -> LedgerError {
    Ledger::open(folder).unwrap_err()
}

/// Copies the files of a ledger in the state that a crash would leave.
fn copy(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

const DB: &str = "vik.db";
const WAL: &str = "vik.db-wal";
const LOCK: &str = "vik.db.lock";
