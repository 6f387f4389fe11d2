//! What must hold after a run.

use std::collections::BTreeMap;

use super::record::{Fault, LAST, Record, STAGES, Step};

/// A check and what contradicts it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Check {
    pub name: &'static str,
    pub problems: Vec<String>,
}

pub fn all(record: &Record) -> Vec<Check> {
    let check = |name, problems| Check { name, problems };
    vec![
        check(
            "every issue that no person took is in its last state",
            unfinished(record),
        ),
        check(
            "agents ran once for each piece of work, failure and interruption",
            agent_runs(record),
        ),
        check("every attempt is accounted for", attempts(record)),
        check("Redmine has each move once", moves(record)),
        check("Redmine has each comment once", comments(record)),
        check("what a person moved stayed there", taken(record)),
        check("the repository has each commit once", commits(record)),
        check("no process is left", record.leftovers.clone()),
        check("every planned fault struck", missing_faults(record)),
    ]
}

fn unfinished(record: &Record) -> Vec<String> {
    let open = record
        .issues
        .iter()
        .filter(|(issue, state)| record.taken(issue).is_none() && *state != LAST);
    open.map(|(issue, state)| format!("issue {issue} is `{state}`"))
        .collect()
}

fn agent_runs(record: &Record) -> Vec<String> {
    let figures = record.figures();
    let justified = figures.pieces + figures.failures + figures.interrupted + figures.cancelled;
    let mut problems = Vec::new();
    if figures.agent_runs != justified {
        problems.push(format!(
            "{} agents ran, but {justified} are justified",
            figures.agent_runs
        ));
    }
    let expected: usize = record
        .issues
        .keys()
        .map(|issue| {
            record
                .pieces(issue)
                .iter()
                .filter(|(_, is_finished)| *is_finished)
                .count()
        })
        .sum();
    if figures.pieces < expected {
        problems.push(format!(
            "{} pieces of work are done, not {expected}",
            figures.pieces
        ));
    }
    problems
}

fn attempts(record: &Record) -> Vec<String> {
    let mut problems = Vec::new();
    let runs = count(record.reports_of(Step::Run).map(|report| report.id.clone()));
    for (id, times) in &runs {
        if *times > 1 {
            problems.push(format!("attempt {id} had {times} agents"));
        }
        if record.attempt(id).is_none() {
            problems.push(format!("the ledger has no attempt {id}"));
        }
    }
    let failed = count(record.reports_of(Step::Fail).map(|report| report.piece.clone()));
    for piece in failed.keys() {
        if !record.failures.contains(piece) || failed[piece] > 1 {
            problems.push(format!("{piece} failed {} times", failed[piece]));
        }
    }
    let was_killed = record.faults.iter().any(|(fault, _)| *fault == Fault::KillVik);
    for attempt in &record.attempts {
        let has_failed = record
            .reports_of(Step::Fail)
            .any(|report| report.id == attempt.id);
        let is_plausible = match attempt.outcome.as_deref() {
            Some("succeeded") => runs.contains_key(&attempt.id) && !has_failed,
            Some("failed") => has_failed,
            Some("lost") => was_killed,
            Some("cancelled") => record.taken.iter().any(|taken| taken.piece == attempt.piece),
            _ => false,
        };
        if !is_plausible {
            let outcome = attempt.outcome.as_deref().unwrap_or("no outcome");
            problems.push(format!("attempt {} of {}: {outcome}", attempt.id, attempt.piece));
        }
    }
    problems
}

fn moves(record: &Record) -> Vec<String> {
    let mut problems = Vec::new();
    for issue in record.issues.keys() {
        let of_vik = record
            .moves
            .iter()
            .filter(|moved| moved.issue == *issue && moved.by == "vik");
        let found: Vec<_> = of_vik.map(|moved| (&*moved.from, &*moved.to)).collect();
        let pieces = record.pieces(issue).into_iter().zip(STAGES);
        let expected = pieces.filter(|((_, is_finished), _)| *is_finished);
        let expected: Vec<_> = expected.map(|(_, (_, from, to))| (from, to)).collect();
        if found != expected {
            problems.push(format!("issue {issue}: {found:?} instead of {expected:?}"));
        }
    }
    problems
}

fn comments(record: &Record) -> Vec<String> {
    let comments = record.comments.iter();
    let mut found = count(comments.map(|comment| (comment.issue.clone(), comment.key.clone())));
    let mut problems = Vec::new();
    for attempt in record.attempts.iter().filter(|attempt| attempt.is("succeeded")) {
        let times = found.remove(&(attempt.piece.issue.clone(), attempt.run.clone()));
        let times = times.unwrap_or(0);
        let may_lack = record.taken.iter().any(|taken| taken.piece == attempt.piece);
        if times > 1 || (times == 0 && !may_lack) {
            problems.push(format!("{} has {times} comments", attempt.piece));
        }
    }
    let unknown = found
        .keys()
        .map(|(issue, key)| format!("issue {issue} has a comment of {key}"));
    problems.extend(unknown);
    problems
}

fn taken(record: &Record) -> Vec<String> {
    let mut problems = Vec::new();
    for taken in &record.taken {
        let issue = &taken.piece.issue;
        let moves: Vec<_> = record
            .moves
            .iter()
            .filter(|moved| moved.issue == *issue)
            .collect();
        let by_person = moves.iter().filter(|moved| moved.by != "vik").count();
        let is_last = moves
            .last()
            .is_some_and(|moved| moved.by != "vik" && moved.to == taken.to);
        if by_person != 1 || !is_last || record.issues.get(issue) != Some(&taken.to) {
            problems.push(format!("issue {issue}: {moves:?}"));
        }
    }
    problems
}

fn commits(record: &Record) -> Vec<String> {
    let mut found = count(record.commits.iter().cloned());
    let mut problems = Vec::new();
    for (piece, is_finished) in record.issues.keys().flat_map(|issue| record.pieces(issue)) {
        let times = found.remove(&piece.to_string()).unwrap_or(0);
        if times > 1 || (times == 0 && is_finished) {
            problems.push(format!("{piece} has {times} commits"));
        }
    }
    problems.extend(found.keys().map(|subject| format!("unknown commit `{subject}`")));
    problems
}

fn missing_faults(record: &Record) -> Vec<String> {
    let missing = record.planned_faults - record.faults.len();
    let missing = (missing > 0).then(|| format!("{missing} came too late"));
    missing.into_iter().collect()
}

fn count<T: Ord>(items: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::record::{Attempt, Comment, Move, Piece, Report, Taken};
    use super::*;

    /// Returns a run of two issues. A person takes the second one from its review; the review of the
    /// first one fails once, and a crash interrupts its implementation.
    fn record() -> Record {
        let mut record = Record {
            seed: 1,
            issues: [("1", "Closed"), ("2", "Rejected")]
                .map(|(id, state)| (id.into(), state.into()))
                .into(),
            taken: vec![Taken {
                piece: Piece::new("2", "review"),
                to: "Rejected".to_owned(),
            }],
            failures: [Piece::new("1", "review")].into(),
            reports: Vec::new(),
            attempts: Vec::new(),
            moves: Vec::new(),
            comments: Vec::new(),
            commits: ["implement-1", "review-1", "implement-2"]
                .map(str::to_owned)
                .into(),
            faults: vec![(Fault::KillVik, 3)],
            planned_faults: 1,
            leftovers: Vec::new(),
            requests: 100,
            wall_secs: 60,
        };
        let attempts = [
            ("a", "1", "implement", "lost"),
            ("b", "1", "implement", "succeeded"),
            ("c", "1", "review", "failed"),
            ("d", "1", "review", "succeeded"),
            ("e", "2", "implement", "succeeded"),
            ("f", "2", "review", "cancelled"),
        ];
        for (id, issue, stage, outcome) in attempts {
            let piece = Piece::new(issue, stage);
            let run = format!("run-{piece}");
            record.report(Step::Run, &piece, id);
            match outcome {
                "failed" => record.report(Step::Fail, &piece, id),
                "succeeded" => {
                    record.report(Step::Try, &piece, &run);
                    record.comments.push(Comment {
                        issue: issue.to_owned(),
                        key: run.clone(),
                    });
                    let (_, from, to) = STAGES[usize::from(stage == "review")];
                    record.push_move(issue, "vik", from, to);
                }
                _ => {}
            }
            record.attempts.push(Attempt {
                id: id.to_owned(),
                run,
                piece,
                outcome: Some(outcome.to_owned()),
            });
        }
        record.push_move("2", "admin", "Resolved", "Rejected");
        record
    }

    impl Record {
        fn report(&mut self, step: Step, piece: &Piece, id: &str) {
            self.reports.push(Report {
                step,
                piece: piece.clone(),
                id: id.to_owned(),
            });
        }

        fn push_move(&mut self, issue: &str, by: &str, from: &str, to: &str) {
            let [issue, by, from, to] = [issue, by, from, to].map(str::to_owned);
            self.moves.push(Move { issue, by, from, to });
        }
    }

    #[test]
    fn checks_accept_a_run_without_a_loss() {
        for check in all(&record()) {
            assert!(check.problems.is_empty(), "{check:?}");
        }
        let figures = record().figures();
        assert_eq!((figures.pieces, figures.agent_runs, figures.tries), (3, 6, 3));
        assert_eq!(
            (figures.failures, figures.interrupted, figures.cancelled),
            (1, 1, 1)
        );
    }

    /// Asserts that the check with this in its name finds the damage.
    #[track_caller]
    fn assert_found(name: &str, damage: impl FnOnce(&mut Record)) {
        let mut record = record();
        damage(&mut record);
        let checks = all(&record);
        let check = checks.iter().find(|check| check.name.contains(name));
        assert!(
            check.is_some_and(|check| !check.problems.is_empty()),
            "{checks:#?}"
        );
    }

    #[test]
    fn checks_find_work_that_is_lost_or_repeated() {
        let implement = Piece::new("1", "implement");
        assert_found("last state", |record| {
            record.issues.insert("1".to_owned(), "Resolved".to_owned());
        });
        // An agent ran because a hand-over had failed.
        assert_found("agents ran", |record| {
            let id = "again".to_owned();
            record.report(Step::Run, &implement, &id);
            let again = Attempt {
                id,
                ..record.attempts[1].clone()
            };
            record.attempts.push(again);
        });
        assert_found("agents ran", |record| {
            record.attempts.remove(4);
            record.reports.retain(|report| report.id != "e");
        });
        assert_found("attempt", |record| record.report(Step::Run, &implement, "b"));
        assert_found("attempt", |record| {
            record.report(Step::Run, &implement, "unknown");
        });
        assert_found("attempt", |record| record.attempts[1].outcome = None);
        assert_found("attempt", |record| {
            record.attempts[1].outcome = Some("cancelled".to_owned());
        });
        assert_found("attempt", |record| record.failures.clear());
        // An interruption without a crash.
        assert_found("attempt", |record| record.faults.clear());
        assert_found("commit", |record| drop(record.commits.remove(0)));
        assert_found("commit", |record| record.commits.push("review-1".to_owned()));
    }

    #[test]
    fn checks_find_moves_and_comments_that_are_lost_or_repeated() {
        assert_found("each move", |record| drop(record.moves.remove(0)));
        assert_found("each move", |record| {
            record.push_move("1", "vik", "Resolved", "Closed");
        });
        assert_found("a person", |record| {
            record.push_move("2", "vik", "Rejected", "Closed");
        });
        assert_found("each comment", |record| {
            record.comments.push(record.comments[0].clone());
        });
        assert_found("each comment", |record| drop(record.comments.remove(0)));
        assert_found("each comment", |record| record.comments[0].key.push('x'));
        assert_found("process", |record| {
            record.leftovers.push("1 (environ): sh".to_owned());
        });
        assert_found("planned fault", |record| record.planned_faults += 1);
    }
}
