//! Tests of the filters of runs.

use super::*;

/// Creates a ledger with four runs of three issues; the last one is running.
fn reader(folder: &Path) -> Reader {
    let titled = |issue: &str, title: &str, stages: &[serde_json::Value]| {
        let mut machine = serde_json::to_value(machine(issue, 1, 10, stages)).unwrap();
        let payload = json!({"id": issue, "title": title, "state": "todo"});
        machine["issue"] = json!({
            "id": issue, "title": title, "state": "todo", "payload": payload.to_string(),
        });
        serde_json::from_value(machine).unwrap()
    };
    let by = |agent: &str, started| StartedAttempt {
        agent: agent.into(),
        ..started
    };
    let with = |outcome, ended: EndedAttempt| EndedAttempt {
        report: AttemptResult {
            outcome,
            ..ended.report
        },
        ..ended
    };
    let changes = Changes {
        machines: vec![
            titled("A-1", "Fix the Login page", &[]),
            titled("A-2", "Größe der Übersicht", &[]),
            titled("B-login", "Other", &[run(5, "plan", 0, &settling())]),
        ],
        started: vec![
            started("A-1", "plan", 1, 1),
            started("A-1", "work", 2, 2),
            by("reviewer", started("A-1", "work", 2, 3)),
            started("A-2", "plan", 4, 4),
            started("B-login", "plan", 5, 5),
        ],
        ended: vec![
            ended(1, 1),
            with(Outcome::Failed, ended(2, 1)),
            ended(3, 1),
            with(Outcome::TimedOut, ended(4, 1)),
        ],
        ..Changes::default()
    };
    let (ledger, _) = Ledger::open(folder).unwrap();
    ledger.commit(changes).wait().unwrap();
    ledger.close().unwrap();
    Reader::open(folder).unwrap().unwrap()
}

#[test]
fn runs_are_selected_by_all_conditions_latest_first() {
    let folder = TempDir::new().unwrap();
    let reader = reader(folder.path());
    let select = |filter: RunFilter| -> Vec<RunId> {
        let found = reader.runs(&filter, 10).unwrap();
        found.iter().map(|run| run.id).collect()
    };
    let any = RunFilter::default();
    let text = |text: &str| Some(text.to_owned());
    for (name, filter, expected) in [
        ("all", any.clone(), &[5, 4, 2, 1][..]),
        ("issue", RunFilter::of_issue(&"A-1".into()), &[2, 1]),
        (
            "stage",
            RunFilter {
                stage: Some("plan".into()),
                ..any.clone()
            },
            &[5, 4, 1],
        ),
        (
            "an agent of any attempt",
            RunFilter {
                agent: Some("coder".into()),
                ..any.clone()
            },
            &[5, 4, 2, 1],
        ),
        (
            "outcome of the last attempt",
            RunFilter {
                outcomes: vec![Outcome::Failed, Outcome::TimedOut],
                ..any.clone()
            },
            &[4],
        ),
        (
            "start of the first attempt",
            RunFilter {
                since: Some(at(2)),
                until: Some(at(5)),
                ..any.clone()
            },
            &[4, 2],
        ),
        (
            "title, ignoring case, or id",
            RunFilter {
                text: text("LOGIN"),
                ..any.clone()
            },
            &[5, 2, 1],
        ),
        (
            "title beyond ASCII, ignoring case",
            RunFilter {
                text: text("ÜBER"),
                ..any.clone()
            },
            &[4],
        ),
        (
            "no pattern",
            RunFilter {
                text: text("%"),
                ..any.clone()
            },
            &[],
        ),
        (
            "page",
            RunFilter {
                before: Some(run_id(4)),
                ..any
            },
            &[2, 1],
        ),
        (
            "all at once",
            RunFilter {
                issue: Some("A-1".into()),
                stage: Some("work".into()),
                agent: Some("reviewer".into()),
                outcomes: vec![Outcome::Succeeded],
                since: Some(at(2)),
                until: Some(at(3)),
                text: text("login"),
                before: Some(run_id(4)),
            },
            &[2],
        ),
    ] {
        let expected: Vec<_> = expected.iter().copied().map(run_id).collect();
        assert_eq!(select(filter), expected, "{name}");
    }
    let first = reader.runs(&RunFilter::default(), 1).unwrap();
    assert_eq!((first.len(), &*first[0].title), (1, "Other"));
}

#[test]
fn order_does_not_depend_on_the_clock() {
    let (folder, ledger) = empty();
    // The clock was set back between all of them.
    let back = |second, started| StartedAttempt {
        at: at(second),
        ..started
    };
    let changes = Changes {
        machines: vec![machine("A-1", 1, 10, &[])],
        started: vec![
            back(30, started("A-1", "plan", 9, 9)),
            back(20, started("A-1", "work", 5, 5)),
            back(10, started("A-1", "work", 5, 1)),
        ],
        ended: vec![
            EndedAttempt {
                report: AttemptResult::new(Outcome::Lost),
                ..ended(5, 1)
            },
            ended(1, 1),
        ],
        ..Changes::default()
    };
    ledger.commit(changes).wait().unwrap();
    ledger.close().unwrap();
    let reader = Reader::open(folder.path()).unwrap().unwrap();
    let ids = |filter: &RunFilter| -> Vec<RunId> {
        let runs = reader.runs(filter, 10).unwrap();
        runs.iter().map(|run| run.id).collect()
    };
    assert_eq!(ids(&RunFilter::default()), [run_id(5), run_id(9)]);
    let second = RunFilter {
        before: Some(run_id(5)),
        ..RunFilter::default()
    };
    assert_eq!(ids(&second), [run_id(9)]);
    let succeeded = RunFilter {
        outcomes: vec![Outcome::Succeeded],
        ..RunFilter::default()
    };
    assert_eq!(ids(&succeeded), [run_id(5)]);
    let attempts = reader.attempts_of_run(run_id(5)).unwrap();
    let last = attempts.last().unwrap();
    assert_eq!(last.started.attempt_id, session_id(1));
}

#[test]
fn text_is_a_value_and_not_a_part_of_the_query() {
    let folder = TempDir::new().unwrap();
    let reader = reader(folder.path());
    for text in ["'", "' OR 1 --", "?", "\0"] {
        let filter = RunFilter {
            issue: Some(text.into()),
            stage: Some(text.into()),
            agent: Some(text.into()),
            text: Some(text.to_owned()),
            ..RunFilter::default()
        };
        assert_eq!(reader.runs(&filter, 10).unwrap(), [], "{text}");
    }
}
