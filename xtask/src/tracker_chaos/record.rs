//! What is left of a run, from all who took part: the agents, Vik's ledger, Redmine's database and
//! the repository.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The stages, each with its state and the next one.
pub const STAGES: [(&str, &str, &str); 2] = [("implement", "New", "Resolved"), ("review", "Resolved", LAST)];

/// The state of an issue that is done.
pub const LAST: &str = "Closed";

/// One stage of one issue. It is written `STAGE-ISSUE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Piece {
    pub issue: String,
    pub stage: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fault {
    KillRedmine,
    /// The key of Vik is wrong for a time.
    WrongKey,
    /// Redmine does not answer for longer than a request may take.
    Hang,
    KillVik,
}

/// What a script reports when it does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Reported by an agent before its work.
    Run,
    /// Reported by an agent before a planned failure.
    Fail,
    /// A try of the hand-over starts.
    Try,
    /// The comment is there, and the move follows.
    Comment,
}

/// A line of the scripts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub step: Step,
    #[serde(flatten)]
    pub piece: Piece,
    /// The attempt of an agent, or the run of a hand-over.
    pub id: String,
}

/// An attempt of Vik's ledger.
#[derive(Clone, Debug, Serialize)]
pub struct Attempt {
    pub id: String,
    pub run: String,
    pub piece: Piece,
    pub outcome: Option<String>,
}

/// A change of a state in Redmine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    pub issue: String,
    pub by: String,
    pub from: String,
    pub to: String,
}

/// A comment with a key in Redmine.
#[derive(Clone, Debug, Serialize)]
pub struct Comment {
    pub issue: String,
    pub key: String,
}

/// An issue that a person moves while an agent works on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Taken {
    pub piece: Piece,
    pub to: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Record {
    pub seed: u64,
    pub issues: BTreeMap<String, String>,
    pub taken: Vec<Taken>,
    pub failures: BTreeSet<Piece>,
    pub reports: Vec<Report>,
    pub attempts: Vec<Attempt>,
    pub moves: Vec<Move>,
    pub comments: Vec<Comment>,
    /// The subjects of the commits in the bare repository.
    pub commits: Vec<String>,
    /// The faults that struck, with the number of reports before each.
    pub faults: Vec<(Fault, usize)>,
    /// The faults that were planned.
    pub planned_faults: usize,
    pub leftovers: Vec<String>,
    pub requests: usize,
    pub wall_secs: u64,
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Pieces of work that an attempt finished.
    pub pieces: usize,
    pub agent_runs: usize,
    pub failures: usize,
    pub interrupted: usize,
    /// Agents that were stopped because a person took the issue.
    pub cancelled: usize,
    pub tries: usize,
    pub requests: usize,
    pub wall_secs: u64,
}

impl Piece {
    pub fn new(issue: &str, stage: &str) -> Self {
        Self {
            issue: issue.to_owned(),
            stage: stage.to_owned(),
        }
    }
}

impl std::fmt::Display for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.stage, self.issue)
    }
}

impl Attempt {
    /// Returns the attempts that `vik runs --json` printed.
    pub fn read_all(runs: &Value) -> Vec<Self> {
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let attempts = items(runs).into_iter().flat_map(|run| {
            items(&run["attempts"]).into_iter().map(move |attempt| Self {
                id: text(&attempt["session_id"]).unwrap_or_default(),
                run: text(&run["run_id"]).unwrap_or_default(),
                piece: Piece {
                    issue: text(&run["issue_id"]).unwrap_or_default(),
                    stage: text(&run["stage"]).unwrap_or_default(),
                },
                outcome: text(&attempt["outcome"]),
            })
        });
        attempts.collect()
    }

    pub fn is(&self, outcome: &str) -> bool {
        self.outcome.as_deref() == Some(outcome)
    }
}

impl Record {
    /// Returns the reports of a step.
    pub fn reports_of(&self, step: Step) -> impl Iterator<Item = &Report> {
        self.reports.iter().filter(move |report| report.step == step)
    }

    /// Returns the attempt of an agent.
    pub fn attempt(&self, id: &str) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.id == id)
    }

    /// Returns what the person did to an issue.
    pub fn taken(&self, issue: &str) -> Option<&Taken> {
        self.taken.iter().find(|taken| taken.piece.issue == issue)
    }

    /// Returns the pieces of work of an issue: with whether it must have been handed over. The one
    /// during which a person took the issue may have been.
    pub fn pieces(&self, issue: &str) -> Vec<(Piece, bool)> {
        let taken = self.taken(issue).map(|taken| &taken.piece.stage);
        let mut pieces = Vec::new();
        for (stage, _, _) in STAGES {
            let is_last = taken.is_some_and(|taken| taken == stage);
            pieces.push((Piece::new(issue, stage), !is_last));
            if is_last {
                break;
            }
        }
        pieces
    }

    pub fn figures(&self) -> Figures {
        let runs_with = |outcome: &str| {
            let attempts = self.reports_of(Step::Run).filter_map(|run| self.attempt(&run.id));
            attempts.filter(|attempt| attempt.is(outcome)).count()
        };
        let finished = self.attempts.iter().filter(|attempt| attempt.is("succeeded"));
        Figures {
            pieces: finished
                .map(|attempt| &attempt.piece)
                .collect::<BTreeSet<_>>()
                .len(),
            agent_runs: self.reports_of(Step::Run).count(),
            failures: runs_with("failed"),
            interrupted: runs_with("lost"),
            cancelled: runs_with("cancelled"),
            tries: self.reports_of(Step::Try).count(),
            requests: self.requests,
            wall_secs: self.wall_secs,
        }
    }
}
