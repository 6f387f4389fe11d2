//! The contents of a ledger as a series of changes that recreate them in an empty ledger.
//!
//! With them, a shared log can start without the entries of before
//! (`adr/0067-many-machines-on-temporal.md`). They have what a scheduler decides with, of all issues,
//! and not the history, which nothing depends on:
//!
//! | table | recreated |
//! | --- | --- |
//! | `issues` | all rows |
//! | `runs`, `parked` | those of the runs that are not over, which follow from the machines |
//! | `attempts`, `claims`, `sessions` | those of the attempts that have not ended |
//! | `days` | the latest ones, which are all that a reader returns |
//! | `meta` | the pause |
//! | `usage`, `decisions` | nothing |

use std::collections::BTreeSet;

use vik_core::changes::Changes;
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;

use super::LedgerError;
use super::read::{self, Reader};

/// Reads a ledger as a series of changes.
///
/// The first one has the attempts that have not ended with their issues, the sums of the days and the
/// pause, all of one time. Each one after it has machines, of the time when it is read.
#[derive(Debug)]
pub struct Snapshot {
    reader: Reader,
    max_bytes: usize,
    next: Next,
}

#[derive(Debug)]
enum Next {
    Head,
    /// The machines of the issues after this one.
    Machines(Option<IssueId>),
    End,
}

impl Reader {
    /// Returns the contents of the ledger as a series of changes. Each has machines of at most
    /// `max_bytes`, or one that is larger.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_core::changes::Changes;
    /// use vik_store::Ledger;
    /// use vik_store::ledger::Reader;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let (ledger, _) = Ledger::open(folder.path())?;
    /// let pause = Changes { paused: Some(true), ..Changes::default() };
    /// ledger.commit(pause.clone()).wait()?;
    ///
    /// let reader = Reader::open(folder.path())?.ok_or("there is a ledger")?;
    /// let series: Vec<_> = reader.into_snapshot(1024).collect::<Result<_, _>>()?;
    /// assert_eq!(series, [pause]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_snapshot(self, max_bytes: usize) -> Snapshot {
        Snapshot {
            reader: self,
            max_bytes,
            next: Next::Head,
        }
    }

    /// Returns the size of all machines in bytes, which is about that of a snapshot.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn machine_bytes(&self) -> Result<u64, LedgerError> {
        let sum = "SELECT COALESCE(sum(octet_length(machine)), 0) FROM issues";
        let bytes: i64 = self
            .db
            .query_row(sum, [], |row| row.get(0))
            .map_err(|error| self.error(error))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    fn snapshot_head(&self) -> Result<Changes, LedgerError> {
        let reading = self
            .db
            .unchecked_transaction()
            .map_err(|error| self.error(error))?;
        let started = self.claims()?;
        let issues: BTreeSet<_> = started.iter().map(|started| started.issue.clone()).collect();
        let issues: Vec<_> = issues.into_iter().collect();
        let head = Changes {
            machines: self.recall(&issues)?,
            started,
            ended: Vec::new(),
            runs_over: Vec::new(),
            days: self.days()?,
            paused: Some(self.is_paused()?),
            decisions: Vec::new(),
            outputs: self.open_outputs()?,
        };
        reading.finish().map_err(|error| self.error(error))?;
        Ok(head)
    }

    /// Returns the machines of the issues after `after`, in the order of their ids.
    fn machines_after(
        &self,
        after: Option<&IssueId>,
        max_bytes: usize,
    ) -> Result<Vec<IssueMachine>, LedgerError> {
        let fail = |error| self.error(error);
        let sql = format!("{} WHERE ?1 IS NULL OR id > ?1 ORDER BY id", read::MACHINES);
        let mut statement = self.db.prepare_cached(&sql).map_err(fail)?;
        let mut rows = statement.query([after.map(IssueId::as_str)]).map_err(fail)?;
        let mut machines = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next().map_err(fail)? {
            bytes += row
                .get_ref(2)
                .and_then(|text| Ok(text.as_str()?.len()))
                .map_err(fail)?;
            if bytes > max_bytes && !machines.is_empty() {
                break;
            }
            machines.push(read::machine(row, self.path())?);
        }
        Ok(machines)
    }
}

impl Iterator for Snapshot {
    type Item = Result<Changes, LedgerError>;

    fn next(&mut self) -> Option<Self::Item> {
        // After an error there is nothing more.
        let after = match std::mem::replace(&mut self.next, Next::End) {
            Next::End => return None,
            Next::Head => {
                let head = self.reader.snapshot_head();
                if head.is_ok() {
                    self.next = Next::Machines(None);
                }
                return Some(head);
            }
            Next::Machines(after) => after,
        };
        let machines = match self.reader.machines_after(after.as_ref(), self.max_bytes) {
            Ok(machines) => machines,
            Err(error) => return Some(Err(error)),
        };
        let last = machines.last()?;
        self.next = Next::Machines(Some(last.issue().id.clone()));
        Some(Ok(Changes {
            machines,
            ..Changes::default()
        }))
    }
}
