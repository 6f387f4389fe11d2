//! Tests of the queries for people.

use std::sync::Arc;
use std::time::Duration;

use vik_core::issue::Pull;
use vik_core::scheduler::{Effect, Filter, Input, Scheduler};
use vik_core::time::{Mono, Now};

use super::*;

fn reader(folder: &TempDir) -> Reader {
    Reader::open(folder.path()).unwrap().unwrap()
}

#[test]
fn reader_returns_attempts_claims_runs_and_decisions() {
    let folder = TempDir::new().unwrap();
    assert!(Reader::open(folder.path()).unwrap().is_none());
    let changes = sample(folder.path());
    let reader = reader(&folder);
    assert_eq!(reader.stored().unwrap(), stored_of(&changes));
    let attempts = reader.attempts(Some(&"A-1".into()), 10).unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!(
        (&attempts[0].started, &attempts[0].ended),
        (&changes.started[2], &None)
    );
    assert_eq!(attempts[1].ended.as_ref(), Some(&changes.ended[0]));
    assert_eq!(
        reader.attempt(session_id(2)).unwrap().unwrap().started,
        changes.started[1]
    );
    assert_eq!(reader.attempt(session_id(9)).unwrap(), None);
    assert_eq!(reader.claims().unwrap(), [changes.started[2].clone()]);
    let phases: Vec<_> = reader
        .runs(&RunFilter::default(), 10)
        .unwrap()
        .into_iter()
        .map(|run| (run.id, run.phase, run.over_at, run.succeeded))
        .collect();
    assert_eq!(
        phases,
        [
            (run_id(3), "over".to_owned(), Some(at(9)), Some(true)),
            (run_id(2), "parked".to_owned(), None, None),
            (run_id(1), "settling".to_owned(), None, None),
        ]
    );
    let titles = reader.titles(10).unwrap();
    assert_eq!(titles.len(), changes.machines.len());
    assert_eq!(reader.titles(1).unwrap(), titles[..1]);
    let parked = reader.parked().unwrap();
    assert_eq!((&*parked[0].reason, parked[0].since), ("no_progress", at(2)));
    assert_eq!(reader.days().unwrap(), changes.days);
    assert!(reader.is_paused().unwrap());
    let decisions: Vec<_> = reader.decisions(Some(&"A-1".into()), 10).unwrap();
    assert_eq!(
        decisions,
        [changes.decisions[1].clone(), changes.decisions[0].clone()]
    );
    assert_eq!(reader.decisions(Some(&"A-2".into()), 10).unwrap().len(), 1);
}

#[test]
fn decision_of_an_unknown_kind_keeps_its_kind() {
    let (folder, ledger) = empty();
    let unknown = Decision {
        kind: "postponed".to_owned().into(),
        ..decision(Some("A-1"), 1)
    };
    let changes = Changes {
        decisions: vec![unknown.clone()],
        ..Changes::default()
    };
    ledger.commit(changes).wait().unwrap();
    let found = reader(&folder).decisions(None, 10).unwrap();
    assert_eq!(found, [unknown]);
    assert_eq!(found[0].kind.as_str(), "postponed");
}

/// Returns the issue, agent, start and run of each attempt that started in a span, and its end.
fn figures_of(
    reader: &Reader,
    since: Timestamp,
    until: Timestamp,
) -> Vec<(String, String, Timestamp, RunId, Option<EndedFigures>)> {
    let mut found = Vec::new();
    let visit = |one: &StoredFigures<'_>| {
        let (issue, agent) = (one.issue.to_owned(), one.agent.to_owned());
        found.push((issue, agent, one.started_at, one.run, one.ended));
    };
    reader.visit_figures(since, until, visit).unwrap();
    found
}

#[test]
fn figures_of_a_span_exclude_its_end() {
    let folder = TempDir::new().unwrap();
    let changes = sample(folder.path());
    let reader = reader(&folder);
    let all = figures_of(&reader, at(0), at(9));
    let end = EndedFigures {
        at: at(2),
        outcome: Outcome::Succeeded,
        failure_class: None,
        charged: changes.ended[0].charged,
        estimated: Spend::default(),
    };
    let first = ("A-1".to_owned(), "coder".to_owned(), at(1), run_id(1), Some(end));
    assert_eq!((all.len(), &all[0], all[2].4), (3, &first, None));
    // A time with a fraction of a second must sort as a time and not as text with fewer digits.
    let half = at(1) + jiff::SignedDuration::from_millis(500);
    let starts: Vec<_> = figures_of(&reader, half, at(3)).iter().map(|one| one.2).collect();
    assert_eq!(starts, [at(2)]);
}

/// A ledger with few other runs is read as a whole, and one with many is searched.
#[test]
fn issue_succeeds_when_its_last_run_did_and_none_is_open() {
    let issues = [
        // Both succeeded.
        [Some((50, true)), Some((51, true))],
        // One is open.
        [Some((50, true)), None],
        // The later one failed, and the later one succeeded, independent of the order of the ids.
        [Some((50, true)), Some((51, false))],
        [Some((51, true)), Some((50, false))],
        // One ended only after the time span.
        [Some((50, true)), Some((100, true))],
        // Both ended at the same time: that with the later id counts.
        [Some((50, false)), Some((50, true))],
        [Some((50, true)), Some((50, false))],
    ];
    let (folder, ledger) = empty();
    let mut changes = Changes::default();
    for (number, ends) in (0..).zip(issues) {
        let issue = format!("A-{number}");
        changes.machines.push(machine(&issue, 2, 0, &[]));
        for (place, end) in [(1, ends[1]), (0, ends[0])] {
            let id = 2 * number + place;
            let stage = if place == 0 { "plan" } else { "work" };
            changes.started.push(started(&issue, stage, id, id));
            changes.runs_over.extend(end.map(|(second, succeeded)| RunOver {
                run: run_id(id),
                issue: issue.as_str().into(),
                succeeded,
                at: at(second),
            }));
        }
    }
    ledger.commit(changes).wait().unwrap();
    let counts = || reader(&folder).visit_figures(at(0), at(100), |_| {}).unwrap();
    assert_eq!(counts(), IssueCounts { all: 7, succeeded: 3 });
    let many = Changes {
        machines: vec![machine("B", 100, 0, &[])],
        started: (100..200).map(|id| started("B", "plan", id, id)).collect(),
        ended: (100..200).map(|id| ended(id, 0)).collect(),
        ..Changes::default()
    };
    ledger.commit(many).wait().unwrap();
    assert_eq!(counts(), IssueCounts { all: 7, succeeded: 3 });
    let none = reader(&folder).visit_figures(at(300), at(400), |_| {}).unwrap();
    assert_eq!(none, IssueCounts::default());
}

#[test]
fn reader_sees_commits_made_meanwhile() {
    let (folder, ledger) = empty();
    let reader = reader(&folder);
    for paused in [true, false, true] {
        ledger.commit(pause(paused)).wait().unwrap();
        assert_eq!(reader.is_paused().unwrap(), paused);
    }
}

#[test]
fn repeated_end_is_charged_once() {
    let folder = TempDir::new().unwrap();
    let changes = sample(folder.path());
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    let mut repeated = changes.clone();
    repeated.ended[0].charged.tokens = 999;
    repeated.decisions.clear();
    ledger.commit(repeated).wait().unwrap();
    let attempt = reader(&folder).attempt(session_id(1)).unwrap().unwrap();
    assert_eq!(attempt.ended.as_ref(), Some(&changes.ended[0]));
    assert_eq!(reader(&folder).attempts(None, 10).unwrap().len(), 3);
}

#[test]
fn attempt_may_end_and_the_next_start_in_one_commit() {
    let (folder, ledger) = empty();
    let changes = Changes {
        machines: vec![machine("A-1", 1, 1, &[])],
        started: vec![started("A-1", "plan", 1, 1), started("A-1", "plan", 1, 2)],
        ended: vec![ended(1, 1)],
        ..Changes::default()
    };
    ledger.commit(changes).wait().unwrap();
    assert_eq!(reader(&folder).claims().unwrap().len(), 1);
}

/// Each of these changes would break an invariant, so the ledger ends instead of storing it.
#[test]
fn contradicting_changes_are_refused() {
    let twice = Changes {
        started: vec![started("A-1", "plan", 4, 4)],
        ..Changes::default()
    };
    let shrunk = of_machine(machine("A-1", 1, 30, &[]));
    // The row of an issue that is no longer in use is replaced.
    let shrunk_idle = of_machine(machine("A-1", 0, 30, &[]));
    let unknown = Changes {
        ended: vec![ended(77, 1)],
        ..Changes::default()
    };
    for changes in [twice, shrunk, shrunk_idle, unknown] {
        let folder = TempDir::new().unwrap();
        let before = stored_of(&sample(folder.path()));
        let (ledger, _) = Ledger::open(folder.path()).unwrap();
        let error = ledger.commit(changes).wait().unwrap_err();
        assert!(matches!(*error.cause, LedgerError::Refused { .. }), "{error:?}");
        let good = pause(false);
        assert!(
            ledger.commit(good).wait().is_err(),
            "nothing is kept after an error"
        );
        ledger.close().unwrap();
        assert_eq!(Ledger::open(folder.path()).unwrap().1, before);
    }
}

#[test]
fn decisions_are_trimmed_and_counters_are_not() {
    let (folder, ledger) = empty();
    let now = Timestamp::now().as_second() - at(0).as_second();
    let mut changes = of_machine(machine("A-1", 5, 50, &[]));
    for number in 0..1300 {
        changes.decisions.push(decision(Some("A-1"), now + number));
    }
    for number in 0..50 {
        changes
            .decisions
            .push(decision(Some("old"), now - 90 * 86_400 + number));
    }
    ledger.commit(changes).wait().unwrap();
    assert_eq!(
        reader(&folder)
            .decisions(Some(&"A-1".into()), 5000)
            .unwrap()
            .len(),
        1000
    );
    ledger.close().unwrap();
    let (_ledger, stored) = Ledger::open(folder.path()).unwrap();
    let decisions_of = |issue: &str| reader(&folder).decisions(Some(&issue.into()), 5000).unwrap();
    assert_eq!(
        decisions_of("old").len(),
        20,
        "the latest rows explain the present state"
    );
    assert_eq!(decisions_of("A-1")[0].detail, format!("decision {}", now + 1299));
    assert_eq!(stored.machines, [machine("A-1", 5, 50, &[])]);
}

/// The answer is about the moment of the question: a commit that was requested before counts,
/// even if it is not on disk yet, and a later one does not.
#[test]
fn recall_has_the_commits_before_it_and_no_later_one() {
    let (_folder, ledger) = empty();
    let asked = || vec!["A-1".into(), "unknown".into()];
    let commit = |attempts| {
        drop(ledger.commit(of_machine(machine("A-1", attempts, 0, &[]))));
    };
    let answers: Vec<_> = (0..200)
        .map(|number| {
            commit(2 * number);
            ledger.recall(asked())
        })
        .collect();
    for (number, answer) in (0..).zip(answers) {
        let found = answer.wait().unwrap();
        assert_eq!(found, [machine("A-1", 2 * number, 0, &[])]);
    }
}

/// The machines of issues in use are large. Their pages are used again afterwards.
#[test]
fn past_issues_take_little_room() {
    const ISSUES: u32 = 200;
    let (folder, ledger) = empty();
    for number in 0..u64::from(ISSUES) {
        let id = format!("A-{number}");
        let mut phase = parked("lost");
        phase["parked"]["detail"] = "why ".repeat(600).into();
        let in_use = run(number, "work", 1, &phase);
        let mut changes = of_machine(machine(&id, 1, 10, &[in_use]));
        changes.started.push(started(&id, "work", number, number));
        ledger.commit(changes).wait().unwrap();
        let mut changes = of_machine(machine(&id, 2, 10, &[]));
        changes.ended.push(ended(number, 10));
        ledger.commit(changes).wait().unwrap();
    }
    let titles = reader(&folder).titles(2).unwrap();
    let newest: Vec<&str> = titles.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(
        newest,
        ["A-199", "A-198"],
        "the order is that of the first commit"
    );
    ledger.close().unwrap();
    let db = Connection::open(folder.path().join(DB)).unwrap();
    let bytes: u32 = db
        .query_row(
            "SELECT page_size * page_count FROM pragma_page_size(), pragma_page_count()",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(bytes / ISSUES < 3000, "{} bytes for each issue", bytes / ISSUES);
    let broken: Vec<String> = db
        .prepare("PRAGMA foreign_key_check")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(broken, [""; 0]);
}

#[test]
fn unreadable_issue_is_an_error_when_it_is_recalled() {
    let (folder, ledger) = empty();
    ledger
        .commit(of_machine(machine("A-1", 2, 0, &[])))
        .wait()
        .unwrap();
    ledger.close().unwrap();
    let db = Connection::open(folder.path().join(DB)).unwrap();
    db.execute("UPDATE issues SET machine = 'nothing'", []).unwrap();
    drop(db);
    let (ledger, stored) = Ledger::open(folder.path()).unwrap();
    assert_eq!(stored.machines, []);
    let error = ledger.recall(vec!["A-1".into()]).wait().unwrap_err();
    assert!(
        matches!(*error.cause, LedgerError::IssueMachine { .. }),
        "{error:?}"
    );
    assert!(matches!(check(folder.path()), Health::Bad(error) if error.is_damage()));
}

#[test]
fn ledger_files_are_readable_only_by_their_owner() {
    let (folder, ledger) = empty();
    ledger.commit(pause(true)).wait().unwrap();
    let names = [
        "vik.db",
        "vik.db-wal",
        "vik.db-shm",
        "vik.db.lock",
        "vik.db.reserve",
    ];
    for name in names {
        let mode = fs::metadata(folder.path().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), names.len());
}

/// An attempt that reports its tokens while it runs, and nothing at its end, is charged an estimate
/// of its cost only.
#[test]
fn estimated_charge_is_the_same_after_a_restart() {
    let text = "
agents:
  a: { runtime: codex, model: m, estimate: { usd: 2, tokens: 1000 } }
issues:
  pull: { command: cat issues.json }
issue:
  stages:
    work: { when: { state: todo }, agent: a, prompt: Work on it. }
";
    let workflow = Arc::new(vik_workflow_reader::load(text).workflow.unwrap());
    let now = Now {
        wall: at(0),
        mono: Mono(Duration::ZERO),
    };
    let issue: IssueId = "A-1".into();
    let pulled = json!([{"id": "A-1", "title": "T", "state": "todo"}]).to_string();
    let mut before = Scheduler::new(Arc::clone(&workflow), Filter::default(), [0; 6]);
    let issues = Pull::parse(pulled.as_bytes()).unwrap().issues;
    let effects = before.handle(now, Input::pulled_new(issues));
    let attempt_id = effects.iter().find_map(|effect| match effect {
        Effect::Start(start) => Some(start.attempt_id),
        _ => None,
    });
    let attempt_id = attempt_id.unwrap();
    let reported = Spend {
        tokens: 7,
        usd: MicroUsd(0),
    };
    before.handle(
        now,
        Input::Spent {
            issue: issue.clone(),
            attempt_id,
            spend: reported,
        },
    );
    let result = AttemptResult {
        ran: true,
        answered: Some(true),
        ..AttemptResult::new(Outcome::TimedOut)
    };
    before.handle(
        now,
        Input::Ended {
            issue: issue.clone(),
            attempt_id,
            report: result,
        },
    );
    let (folder, ledger) = empty();
    ledger.commit(before.take_changes()).wait().unwrap();
    ledger.close().unwrap();
    let (_ledger, stored) = Ledger::open(folder.path()).unwrap();
    let (after, _) = Scheduler::restore(Arc::clone(&workflow), Filter::default(), [0; 6], stored, now);
    let estimated = Spend {
        tokens: 0,
        usd: MicroUsd(2_000_000),
    };
    for scheduler in [before, after] {
        assert_eq!(scheduler.spent_today(now), reported.plus(estimated));
        assert_eq!(scheduler.estimated_today(now), estimated);
        assert_eq!(scheduler.life(&issue).estimated, estimated);
    }
}
