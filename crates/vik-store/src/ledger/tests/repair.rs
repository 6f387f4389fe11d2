//! Tests that a damaged ledger is rebuilt, and that no counter shrinks.

use std::time::Duration;

use vik_core::attempt::{BeforeRunFailure, Start};
use vik_core::ended::Ended;
use vik_core::issue::Issue;
use vik_core::limits::Limit;
use vik_core::machine::Phase;
use vik_core::workflow::Workflow;
use vik_workflow_reader::load;

use super::*;
use crate::{AttemptFiles, AttemptRecord, Journal, Step};

fn workflow() -> Workflow {
    let text = "issues: { pull: { command: list } }
agents: { coder: { runtime: command, command: [agent], estimate: { tokens: 500 } } }
issue:
  stages:
    plan: { when: { state: todo }, agent: coder, prompt: p, retry: { max_attempts: 3 } }
    review: { when: { state: todo }, agent: coder, prompt: p }
";
    load(text).workflow.unwrap()
}

/// An attempt with its record, and with the last line of its log if it has ended.
struct Left {
    issue: &'static str,
    stage: &'static str,
    run: u64,
    session: u64,
    attempt: u32,
    /// The outcome and the number of tokens.
    ended: Option<(Outcome, u64)>,
}

fn left(session: u64, run: u64, attempt: u32, ended: Option<(Outcome, u64)>) -> Left {
    Left {
        issue: "A-1",
        stage: "plan",
        run,
        session,
        attempt,
        ended,
    }
}

fn start_of(left: &Left) -> Start {
    let stages = workflow().issue.stages;
    Start {
        issue: Issue::parse(&json!({"id": left.issue, "title": "T", "state": "todo"}).to_string()).unwrap(),
        stage: stages
            .into_iter()
            .find(|stage| *stage.name.as_str() == *left.stage)
            .unwrap(),
        run: run_id(left.run),
        attempt_id: session_id(left.session),
        worker: None,
        attempt: left.attempt,
        fencing_number: 0,
        turn: 0,
        previous: None,
        resume: None,
        budget: Limit::default(),
        intent: Default::default(),
        fenced: false,
        message: None,
        messages: Vec::new(),
        answers: Vec::new(),
        handed_back: None,
        activity: Default::default(),
    }
}

fn write(sessions: &Path, left: &Left) {
    let workflow = workflow();
    let start = start_of(left);
    let started = at(i64::try_from(left.session).unwrap());
    let record: AttemptRecord = serde_json::from_value(json!({
        "schema": 2, "run_id": start.run, "session_id": start.attempt_id, "issue_id": left.issue,
        "issue_title": "T", "issue_state": "todo", "stage": left.stage, "agent": "coder", "runtime": "command",
        "model": null, "attempt": left.attempt, "started_at": started, "workdir": "w",
        "kept": {
            "profile": workflow.agents.values().next().unwrap(), "start": start, "after_create": null,
            "create_timeout": workflow.issue.hook_timeout,
        },
    }))
    .unwrap();
    let folder = sessions.join(left.issue);
    fs::create_dir_all(&folder).unwrap();
    let files = AttemptFiles::new(&folder, &record.stage, record.session_id);
    fs::write(files.record(), serde_json::to_vec(&record).unwrap()).unwrap();
    let end = left.ended.map(|(outcome, tokens)| {
        let (cost, source) = if (outcome, tokens) == (Outcome::Failed, 0) {
            (json!(0.5), "estimate")
        } else {
            (json!(null), "none")
        };
        json!({
            "seq": 2, "at": at(i64::try_from(left.session).unwrap() + 1), "kind": "ended", "outcome": outcome,
            "failure_class": null, "exit_code": 0, "signal": null, "duration_ms": 5,
            "usage": {"input_tokens": tokens, "output_tokens": 0}, "cost_usd": cost, "cost_source": source,
        })
        .to_string()
            + "\n"
    });
    fs::write(
        files.log(),
        "{\"seq\":1,\"kind\":\"message\"}\n".to_owned() + &end.unwrap_or_default(),
    )
    .unwrap();
}

/// Creates a service folder, and a sessions folder with the files of these attempts.
fn folders(attempts: &[Left]) -> (TempDir, TempDir) {
    let sessions = TempDir::new().unwrap();
    for left in attempts {
        write(sessions.path(), left);
    }
    (TempDir::new().unwrap(), sessions)
}

/// Returns the attempts of a daemon, as a repair would find them.
fn history() -> Vec<Left> {
    use Outcome::{Failed, Lost, Succeeded};
    vec![
        left(1, 1, 1, Some((Succeeded, 20))),
        left(2, 2, 1, Some((Failed, 30))),
        left(3, 2, 2, Some((Lost, 7))),
        left(4, 2, 2, Some((Failed, 0))),
        Left {
            issue: "A-2",
            ..left(5, 5, 1, None)
        },
    ]
}

fn by_id<'a>(stored: &'a Stored, issue: &str) -> &'a IssueMachine {
    let mut machines = stored.machines.iter();
    machines
        .find(|machine| machine.issue().id.as_str() == issue)
        .unwrap()
}

#[test]
fn repair_from_logs_alone_keeps_limits_and_open_attempts() {
    let (service, sessions) = folders(&history());
    fs::write(service.path().join(DB), "no database").unwrap();
    let repaired = repair(service.path(), sessions.path()).unwrap();
    assert_eq!((repaired.issues, repaired.attempts), (2, 5));
    assert_eq!(repaired.open, [session_id(5)]);
    assert_eq!(
        fs::read(&repaired.moved[0]).unwrap(),
        b"no database",
        "nothing is removed"
    );
    let (_ledger, stored) = Ledger::open(service.path()).unwrap();
    let first = by_id(&stored, "A-1");
    // The lost attempt does not count; the one without reported usage is charged the estimate.
    assert_eq!(first.life().attempts, 3);
    assert_eq!(first.life().spend.tokens, 20 + 30 + 7 + 500);
    assert_eq!(
        (first.runs().len(), first.runs()[0].id, first.runs()[0].attempts),
        (1, run_id(2), 2)
    );
    assert!(matches!(first.runs()[0].phase, Phase::Settling { .. }));
    let open = by_id(&stored, "A-2").runs()[0].active().unwrap();
    assert_eq!(open.attempt_id, session_id(5));
    assert_eq!(stored.days[0].1.total.tokens, 557);
    assert_eq!(stored.days[0].1.estimated.tokens, 500);
    assert_eq!(first.life().estimated.tokens, 500);
    let reader = Reader::open(service.path()).unwrap().unwrap();
    assert_eq!(reader.claims().unwrap().len(), 1);
    assert_eq!(reader.attempts(None, 10).unwrap().len(), 5);
    assert_eq!(
        reader.decisions(None, 10).unwrap()[0].kind,
        DecisionKind::Repaired
    );
}

#[test]
fn repair_keeps_the_readable_rows() {
    let (service, sessions) = folders(&[]);
    let changes = sample(service.path());
    let db = Connection::open(service.path().join(DB)).unwrap();
    db.execute("UPDATE issues SET machine = 'nothing' WHERE id = 'A-2'", [])
        .unwrap();
    drop(db);
    assert!(refused(service.path()).is_damage());
    repair(service.path(), sessions.path()).unwrap();
    let (_ledger, stored) = Ledger::open(service.path()).unwrap();
    assert_eq!(by_id(&stored, "A-1").runs(), changes.machines[0].runs());
    assert_eq!((stored.days.clone(), stored.paused), (changes.days.clone(), true));
    let second = by_id(&stored, "A-2");
    assert_eq!(
        (second.life(), second.is_paused()),
        (changes.machines[1].life(), true)
    );
    let Phase::Parked { reason, since, .. } = &second.runs()[0].phase else {
        panic!("what was parked stays parked: {second:?}");
    };
    assert_eq!((reason.as_str(), *since), ("no_progress", at(2)));
    let reader = Reader::open(service.path()).unwrap().unwrap();
    assert_eq!(reader.attempts(None, 10).unwrap().len(), 3);
    assert_eq!(reader.decisions(None, 10).unwrap().len(), 3);
    // The attempt was claimed, but neither a machine nor a record contains it.
    let lost = reader.attempt(session_id(3)).unwrap().unwrap().ended.unwrap();
    assert_eq!(lost.report.outcome, Outcome::Lost);
}

#[test]
fn attempt_that_is_to_be_tried_later_does_not_count_in_a_repair() {
    let (service, sessions) = folders(&[left(1, 1, 1, Some((Outcome::Failed, 20)))]);
    let folder = sessions.path().join("A-1");
    let journal = AttemptFiles::new(&folder, &"plan".into(), session_id(1)).journal();
    let wait = Duration::from_secs(30);
    let result = AttemptResult {
        before_run: Some(BeforeRunFailure::TryLater { wait }),
        ..AttemptResult::new(Outcome::Failed)
    };
    let over = Step::over(&Ended::new(result, Spend::default()));
    Journal::open(&journal).unwrap().record(over).unwrap();
    repair(service.path(), sessions.path()).unwrap();
    let (_ledger, stored) = Ledger::open(service.path()).unwrap();
    let machine = by_id(&stored, "A-1");
    assert_eq!((machine.life().attempts, machine.runs()[0].attempts), (0, 0));
}

#[test]
fn repair_takes_the_larger_figure_of_backup_and_logs() {
    let (service, sessions) = folders(&[]);
    sample(service.path());
    let backup = fs::read(service.path().join(DB)).unwrap();
    let (ledger, _) = Ledger::open(service.path()).unwrap();
    ledger.commit(pause(false)).wait().unwrap();
    ledger.close().unwrap();
    // The copy is restored. After it was made, one attempt of the run that it contains ended, and
    // the next one runs.
    fs::write(service.path().join(DB), backup).unwrap();
    write(sessions.path(), &left(1, 1, 1, Some((Outcome::Failed, 20))));
    write(sessions.path(), &left(8, 1, 2, Some((Outcome::Failed, 40))));
    write(sessions.path(), &left(9, 1, 3, None));
    assert!(matches!(refused(service.path()), LedgerError::Behind { .. }));
    let repaired = repair(service.path(), sessions.path()).unwrap();
    assert_eq!(repaired.open, [session_id(9)]);
    let (_ledger, stored) = Ledger::open(service.path()).unwrap();
    let machine = by_id(&stored, "A-1");
    assert_eq!(
        machine.life().attempts,
        3,
        "two that the copy had, and one after it"
    );
    assert_eq!(machine.life().spend.tokens, 70);
    assert_eq!((machine.runs()[0].id, machine.runs()[0].attempts), (run_id(1), 2));
    assert_eq!(machine.runs()[0].active().unwrap().attempt_id, session_id(9));
    assert_eq!(
        stored.days[0].1.total.tokens, 70,
        "20 and 10 of the copy, 40 after it"
    );
}

#[test]
fn repair_leaves_intact_and_newer_ledgers_unchanged() {
    let (service, sessions) = folders(&history());
    sample(service.path());
    let before = fs::read(service.path().join(DB)).unwrap();
    assert_eq!(
        repair(service.path(), sessions.path()).unwrap(),
        Repaired::default()
    );
    assert_eq!(fs::read(service.path().join(DB)).unwrap(), before);
    let db = Connection::open(service.path().join(DB)).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let error = repair(service.path(), sessions.path()).unwrap_err();
    assert!(matches!(error, LedgerError::Newer { .. }));
    let (ledger, _) = Ledger::open(sessions.path()).unwrap();
    assert!(matches!(
        repair(sessions.path(), sessions.path()),
        Err(LedgerError::Busy { .. })
    ));
    drop(ledger);
}

#[test]
fn repair_rebuilds_a_missing_ledger_from_the_logs() {
    let (service, sessions) = folders(&history());
    let repaired = repair(service.path(), sessions.path()).unwrap();
    assert_eq!((repaired.moved.len(), repaired.attempts), (0, 5));
    let (service, sessions) = folders(&[]);
    assert_eq!(
        repair(service.path(), sessions.path()).unwrap(),
        Repaired::default()
    );
    assert!(!service.path().join(DB).exists());
}

/// A repair that is interrupted between setting the damaged files aside and installing the new ones
/// starts again, and finds all data.
#[test]
fn repair_resumes_after_an_interruption() {
    let (service, sessions) = folders(&[]);
    sample(service.path());
    for name in ["vik.db.broken-20270101T000000.000Z", "vik.db.new"] {
        fs::copy(service.path().join(DB), service.path().join(name)).unwrap();
    }
    fs::remove_file(service.path().join(DB)).unwrap();
    assert!(matches!(
        refused(service.path()),
        LedgerError::Behind { found: 0, .. }
    ));
    repair(service.path(), sessions.path()).unwrap();
    let (_ledger, stored) = Ledger::open(service.path()).unwrap();
    assert_eq!((stored.machines.len(), stored.paused), (2, true));
}

/// Any damage in the file: whatever can be read is kept, and the rebuilt ledger is intact.
#[test]
fn repair_after_any_damage_counts_no_less_than_the_logs() {
    let (service, sessions) = folders(&history());
    sample(service.path());
    let whole = fs::read(service.path().join(DB)).unwrap();
    let mut kept = 0;
    for page in 0..whole.len() / 4096 {
        let broken = TempDir::new().unwrap();
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0x5a);
        fs::write(broken.path().join(DB), &bytes).unwrap();
        let repaired = repair(broken.path(), sessions.path()).unwrap();
        assert!(!repaired.moved.is_empty(), "page {page} is in use");
        let (_ledger, stored) = Ledger::open(broken.path()).unwrap();
        let life = by_id(&stored, "A-1").life();
        assert!(
            life.attempts >= 3 && life.spend.tokens >= 557,
            "page {page}: {life:?}"
        );
        assert_eq!(
            by_id(&stored, "A-2")
                .runs()
                .iter()
                .filter_map(|run| run.active())
                .count(),
            1
        );
        kept += usize::from(stored.paused);
    }
    assert!(kept > whole.len() / 4096 / 2, "{kept}");
}

/// The logs of attempts can outlive their rows, which were deleted because of their age.
#[test]
fn repair_counts_deleted_attempts_once() {
    let ended = Some((Outcome::Failed, 20));
    let (service, sessions) = folders(&[left(1, 1, 1, ended), left(3, 3, 1, ended)]);
    let ledger = history::finished(service.path(), CostSource::Reported);
    assert_eq!(history::delete(&ledger, 100, 10), 3);
    ledger.close().unwrap();
    let db = Connection::open(service.path().join(DB)).unwrap();
    db.execute("UPDATE issues SET machine = 'nothing' WHERE id = 'A-2'", [])
        .unwrap();
    drop(db);
    repair(service.path(), sessions.path()).unwrap();
    let (_ledger, stored) = Ledger::open(service.path()).unwrap();
    let machine = by_id(&stored, "A-1");
    // The logs together used 40 tokens, and the machine has 35: each counter is the larger one.
    assert_eq!((machine.life().attempts, machine.life().spend.tokens), (3, 40));
    assert!(machine.runs().is_empty(), "no run starts again: {machine:?}");
}
