//! What is kept of the schedule: up to when each entry is settled, and how it went.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_api::{LastRun, ScheduleResult, SkippedRun};
use vik_core::workflow::ScheduleEntry;

use crate::workspace::fs as private;
use crate::workspace::fs::write_json_atomic;

/// The file, in the service folder.
const FILE: &str = "schedule.json";

/// All that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// Always 1.
    pub schema: u32,
    /// By name.
    pub entries: BTreeMap<String, Record>,
}

/// What is kept of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The pattern it had.
    pub cron: String,
    /// The time zone it had.
    pub time_zone: String,
    /// All times up to this one were dealt with.
    pub settled: Timestamp,
    /// Its last run.
    pub last: Option<LastRun>,
    /// The last time it was due and did not run.
    pub skipped: Option<SkippedRun>,
}

impl Record {
    /// Of an entry that is new: what was due before was not due to it.
    fn new(entry: &ScheduleEntry, now: Timestamp) -> Self {
        Self {
            cron: entry.cron.clone(),
            time_zone: entry.time_zone.clone(),
            settled: now,
            last: None,
            skipped: None,
        }
    }
}

impl Default for Book {
    /// An empty one.
    fn default() -> Self {
        Self {
            schema: 1,
            entries: BTreeMap::new(),
        }
    }
}

impl Book {
    /// Reads it; one that is not there is empty.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(service: &Path) -> io::Result<Self> {
        match private::read(&Self::path(service)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes it, so that it lasts.
    ///
    /// # Errors
    /// When it cannot be written; what was there stays.
    pub fn write(&self, service: &Path) -> io::Result<()> {
        write_json_atomic(&Self::path(service), self)
    }

    fn path(service: &Path) -> PathBuf {
        service.join(FILE)
    }

    /// Runs whose daemon is gone were stopped with it.
    pub fn end_running(&mut self) {
        for last in self
            .entries
            .values_mut()
            .filter_map(|record| record.last.as_mut())
        {
            if last.result == ScheduleResult::Running {
                last.result = ScheduleResult::Stopped;
                last.detail = Some("the daemon ended before it".to_owned());
            }
        }
    }

    /// Takes up the entries of the workflow as it is now: what is new, or due at other times than before, begins now.
    pub fn take_up(&mut self, entries: &BTreeMap<String, ScheduleEntry>, now: Timestamp) {
        self.entries.retain(|name, _| entries.contains_key(name));
        for (name, entry) in entries {
            let record = self.entries.entry(name.clone());
            let record = record.or_insert_with(|| Record::new(entry, now));
            if record.cron != entry.cron || record.time_zone != entry.time_zone {
                record.cron.clone_from(&entry.cron);
                record.time_zone.clone_from(&entry.time_zone);
                record.settled = now;
            }
        }
    }
}
