//! Tests that every released schema migrates to the latest one.

use std::collections::BTreeSet;

use vik_core::machine::{IssueMachine, ParkReason};

use super::*;

/// Returns the definition of the schema as text.
fn schema_of(db: &Connection) -> Vec<String> {
    let mut statement = db
        .prepare("SELECT type || ' ' || name || ' on ' || tbl_name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1")
        .unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn fresh() -> Vec<String> {
    let mut db = Connection::open_in_memory().unwrap();
    schema::migrate(&mut db, 0, schema::MIGRATIONS).unwrap();
    schema_of(&db)
}

/// The released schemas, oldest first: the output of `sqlite3 vik.db .dump`, with the two pragmas
/// that it omits, and without key checks during the load.
const RELEASED: &[&str] = &[
    include_str!("fixtures/ledger-1.sql"),
    include_str!("fixtures/ledger-2.sql"),
    include_str!("fixtures/ledger-3.sql"),
    include_str!("fixtures/ledger-4.sql"),
    include_str!("fixtures/ledger-5.sql"),
    include_str!("fixtures/ledger-6.sql"),
    include_str!("fixtures/ledger-7.sql"),
    include_str!("fixtures/ledger-8.sql"),
    include_str!("fixtures/ledger-9.sql"),
    include_str!("fixtures/ledger-10.sql"),
];

#[test]
fn released_ledgers_load_with_the_schema_of_a_new_one() {
    assert_eq!(
        i64::try_from(RELEASED.len()).unwrap(),
        schema::latest(),
        "one of each schema"
    );
    for (version, dump) in (1..).zip(RELEASED) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(DB);
        let db = Connection::open(&path).unwrap();
        db.execute_batch(dump).unwrap();
        let found: i64 = db
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(found, version);
        drop(db);
        // A command that only reads does not migrate.
        let reader = Reader::open(folder.path()).unwrap().unwrap();
        let read = reader.stored().unwrap();
        assert!(
            read.machines
                .iter()
                .any(|machine| machine.issue().id.as_str() == "A-2")
        );
        assert_eq!(reader.days().unwrap()[0].1.total.tokens, 30);
        let noted = |reader: &Reader| {
            let notes = reader.output_notes(run_id(2)).unwrap().into_iter();
            notes.map(|note| note.summary).collect::<Vec<_>>()
        };
        let written: &[&str] = match version {
            ..8 => &[],
            _ => &["The total is shown.", "review"],
        };
        assert_eq!(noted(&reader), written);
        drop(reader);
        let (ledger, stored) = Ledger::open(folder.path()).unwrap();
        assert_eq!(stored.machines[1].runs().len(), 1);
        assert!(stored.paused && stored.days[0].1.total.tokens == 30);
        let (internal, reason) = match version {
            1 => (0, ParkReason::NoProgress),
            _ => (2, ParkReason::Internal),
        };
        let [counted, parked, asking @ ..] = &stored.machines[..] else {
            panic!()
        };
        assert_eq!(asking.len(), usize::from(version > 5));
        asking.iter().for_each(asks_after_an_answer);
        let counted = counted.internal_in_a_row().get("plan").copied();
        assert_eq!(counted.unwrap_or(0), internal);
        assert_eq!(parked.runs()[0].park_reason(), Some(reason));
        let hand_over = parked.runs()[0].hand_over.as_ref();
        assert_eq!(
            hand_over.map(|hand_over| hand_over.tries),
            (version > 4).then_some(3)
        );
        let kept = parked.conversations().get("review");
        assert_eq!(
            kept.map(|(agent, kept)| (agent.as_str(), &*kept.provider_session_id)),
            (version > 8).then_some(("coder", "conversation"))
        );
        let seen = parked.seen().get("review").map_or(0, BTreeSet::len);
        let is_read = version > 9;
        assert_eq!(
            (seen, parked.life().rounds),
            (is_read.into(), if is_read { 2 } else { 0 })
        );
        let messages = parked.messages().iter();
        let messages: Vec<_> = messages.map(|waiting| waiting.message.text.as_str()).collect();
        let taken_over = parked.taken_over().map(|hold| hold.by.as_str());
        if version > 5 {
            assert_eq!(messages, ["Keep the old format readable."]);
            assert_eq!(taken_over, Some("a person (vik takeover, user 1000)"));
        } else {
            assert_eq!((messages.len(), taken_over), (0, None));
        }
        if version > 1 {
            // What later schemas keep as sums follows from the attempts of earlier ones.
            let estimated = Spend {
                tokens: 500,
                usd: MicroUsd(40),
            };
            assert_eq!(stored.days[0].1.estimated, estimated);
            let idle = ledger.recall(vec!["A-0".into()]).wait().unwrap();
            assert_eq!((idle.len(), idle[0].life().estimated), (1, estimated));
        }
        ledger.close().unwrap();
        let db = Connection::open(&path).unwrap();
        assert_eq!(schema_of(&db), fresh());
        let reader = Reader::open(folder.path()).unwrap().unwrap();
        assert_eq!(reader.claims().unwrap().len(), 1);
        assert_eq!(reader.decisions(None, 10).unwrap().len(), 2);
        assert_eq!(noted(&reader), written);
    }
}

/// A service folder of an earlier version has decisions of its own, so that no log begins with it.
#[test]
fn released_ledgers_do_not_become_copies() {
    for dump in RELEASED {
        let folder = TempDir::new().unwrap();
        let db = Connection::open(folder.path().join(DB)).unwrap();
        db.execute_batch(dump).unwrap();
        drop(db);
        let before = fs::read(folder.path().join(DB)).unwrap();
        let error = LedgerCopy::open(folder.path(), &shared_log::log()).unwrap_err();
        assert!(matches!(error, LedgerError::OwnDecisions { .. }), "{error:?}");
        assert_eq!(fs::read(folder.path().join(DB)).unwrap(), before, "not migrated");
    }
}

#[test]
fn copy_of_a_released_version_opens_with_its_position() {
    let folder = TempDir::new().unwrap();
    let db = Connection::open(folder.path().join(DB)).unwrap();
    db.execute_batch(RELEASED[6]).unwrap();
    db.execute_batch(
        "INSERT INTO meta VALUES ('log', '01993c00-0000-7000-8000-000000000001'), ('log_position', '42')",
    )
    .unwrap();
    drop(db);
    let (_, stored, position) = shared_log::open(folder.path());
    assert_eq!((position, stored.machines.len()), (42, 3));
}

/// Checks an issue whose agent asked a question, got its answer, and asked another one.
fn asks_after_an_answer(machine: &IssueMachine) {
    let [run] = machine.runs() else { panic!() };
    let question = run.question().expect("a question");
    let choices = ["id".to_owned(), "name".to_owned()];
    assert_eq!(
        (&*question.question.text, &question.question.choices[..]),
        ("And which column?", &choices[..])
    );
    let timeout = question.timeout.as_ref().expect("a time limit");
    assert_eq!(
        (timeout.at.to_string(), &*timeout.answer),
        ("2027-01-15T10:00:07Z".to_owned(), "id")
    );
    let answers: Vec<_> = run
        .answers
        .iter()
        .map(|answer| (&*answer.answer, answer.is_read))
        .collect();
    assert_eq!(answers, [("new", false)]);
    assert_eq!(
        (run.attempts, machine.life().attempts),
        (0, 0),
        "a question uses up no attempt"
    );
}

/// A migration between any two versions works the same way: one step at a time, each complete or
/// not done.
#[test]
fn failed_migration_step_keeps_the_schema_before_it() {
    let steps = [
        "CREATE TABLE a (x INTEGER) STRICT;",
        "ALTER TABLE a ADD COLUMN y INTEGER; INSERT INTO a VALUES (1, 2);",
        "CREATE TABLE b (x INTEGER) STRICT; INSERT INTO a VALUES ('no number', 2);",
    ];
    let mut db = Connection::open_in_memory().unwrap();
    let version = |db: &Connection| -> i64 {
        db.pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap()
    };
    schema::migrate(&mut db, 0, &steps[..1]).unwrap();
    assert_eq!(version(&db), 1);
    assert!(schema::migrate(&mut db, 1, &steps).is_err());
    assert_eq!(version(&db), 2);
    let tables = schema_of(&db);
    assert_eq!(tables.len(), 1, "{tables:?}");
    let rows: i64 = db
        .query_row("SELECT count(*) FROM a", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
    // A completed step is not repeated.
    schema::migrate(&mut db, 2, &steps[..2]).unwrap();
    assert_eq!(version(&db), 2);
}
