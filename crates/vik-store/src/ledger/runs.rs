//! The runs of the ledger, latest first, by the filters of `vik runs`.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};
use vik_core::ids::{AgentName, IssueId, RunId, StageName};
use vik_core::outcome::Outcome;

use super::LedgerError;
use super::read::Reader;
use super::sql::{optional, read_name, read_run, read_text, read_time, time};

/// A run as the ledger stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    pub id: RunId,
    pub issue: IssueId,
    /// The issue's title when it was last pulled.
    pub title: String,
    pub stage: StageName,
    /// The number of attempts that count.
    pub attempts: u32,
    /// The phase: `active`, `settling`, `awaiting_approval`, `asking`,
    /// `handing_over`, `backing_off`, `parked`, `over`.
    pub phase: String,
    /// The time at which the run ended.
    pub over_at: Option<Timestamp>,
    /// Whether its last attempt succeeded, if the run is over.
    pub succeeded: Option<bool>,
}

/// Which runs to return. A condition that is not set holds for all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub issue: Option<IssueId>,
    pub stage: Option<StageName>,
    /// An agent that had at least one attempt of the run.
    pub agent: Option<AgentName>,
    /// The outcomes that the last attempt may have; empty for any, and for one that has not ended.
    pub outcomes: Vec<Outcome>,
    /// The time at or after which the first attempt started.
    pub since: Option<Timestamp>,
    /// The time before which the first attempt started.
    pub until: Option<Timestamp>,
    /// A text in the id or in the title of the issue, ignoring case.
    pub text: Option<String>,
    /// The run that the last page ended with: only runs before it are returned.
    pub before: Option<RunId>,
}

const RUNS: &str =
    "SELECT runs.id, runs.issue, issues.title, runs.stage, runs.attempts, phase, over_at, succeeded
  FROM runs JOIN issues ON issues.id = runs.issue";
const STARTED_AT: &str = "(SELECT min(started_at) FROM attempts WHERE run = runs.id)";
const LAST_OUTCOME: &str =
    "(SELECT outcome FROM attempts WHERE run = runs.id ORDER BY attempts.rowid DESC LIMIT 1)";

impl Reader {
    /// Returns the ids and titles of at most `limit` issues, those that were stored last first.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn titles(&self, limit: u32) -> Result<Vec<(IssueId, String)>, LedgerError> {
        self.list(
            "SELECT id, title FROM issues ORDER BY rowid DESC LIMIT ?1",
            [limit],
            |row| Ok((read_name(row, 0)?, row.get(1)?)),
        )
    }

    /// Returns the runs that a filter selects, latest first, and at most `limit` of them. They are in
    /// the order in which they were stored: times and ids follow a clock that can be set back.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<StoredRun>, LedgerError> {
        let (conditions, values) = filter.conditions();
        let sql = format!("{RUNS} WHERE {conditions} ORDER BY runs.rowid DESC");
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        let contains = |value: &str| match &text {
            // SQLite ignores the case of ASCII letters alone.
            Some(text) => value.to_lowercase().contains(text.as_str()),
            None => true,
        };
        let read = || -> rusqlite::Result<Vec<StoredRun>> {
            let mut statement = self.db.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(values))?;
            let mut found = Vec::new();
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                if contains(read_text(row, 1)?) || contains(read_text(row, 2)?) {
                    found.push(run(row)?);
                }
            }
            Ok(found)
        };
        read().map_err(|error| self.error(error))
    }
}

impl RunFilter {
    /// Returns the runs of one issue.
    pub fn of_issue(issue: &IssueId) -> Self {
        Self {
            issue: Some(issue.clone()),
            ..Self::default()
        }
    }

    /// Returns the conditions in SQL, and the values of their parameters.
    fn conditions(&self) -> (String, Vec<Value>) {
        let text = |text: &str| Value::Text(text.to_owned());
        let mut conditions = vec!["1".to_owned()];
        let mut values = Vec::new();
        let mut add = |condition: &str, value: Option<Value>| {
            if let Some(value) = value {
                conditions.push(condition.to_owned());
                values.push(value);
            }
        };
        add("runs.issue = ?", self.issue.as_ref().map(|id| text(id.as_str())));
        add(
            "runs.stage = ?",
            self.stage.as_ref().map(|name| text(name.as_str())),
        );
        add(
            "EXISTS (SELECT 1 FROM attempts WHERE run = runs.id AND agent = ?)",
            self.agent.as_ref().map(|name| text(name.as_str())),
        );
        add(
            &format!("{STARTED_AT} >= ?"),
            self.since.map(|since| Value::Text(time(since))),
        );
        add(
            &format!("{STARTED_AT} < ?"),
            self.until.map(|until| Value::Text(time(until))),
        );
        add(
            "runs.rowid < (SELECT rowid FROM runs WHERE id = ?)",
            self.before.map(|run| text(&run.to_string())),
        );
        if !self.outcomes.is_empty() {
            let places = vec!["?"; self.outcomes.len()].join(", ");
            conditions.push(format!("{LAST_OUTCOME} IN ({places})"));
            values.extend(self.outcomes.iter().map(|outcome| text(outcome.as_str())));
        }
        (conditions.join(" AND "), values)
    }
}

/// Reads one row of [`RUNS`].
fn run(row: &Row<'_>) -> rusqlite::Result<StoredRun> {
    Ok(StoredRun {
        id: read_run(row, 0)?,
        issue: read_name(row, 1)?,
        title: read_text(row, 2)?.to_owned(),
        stage: read_name(row, 3)?,
        attempts: row.get(4)?,
        phase: row.get(5)?,
        over_at: optional(row, 6, read_time)?,
        succeeded: row.get(7)?,
    })
}
