//! The stored state of the schedule: until when each entry is settled, and the result of its last
//! run.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_api::{LastRun, ScheduleResult, SkippedRun};
use vik_core::workflow::ScheduleEntry;
use vik_workspace::fs as private;
use vik_workspace::fs::write_json_atomic;

/// The name of the file, in the service folder.
const FILE: &str = "schedule.json";

/// The state of all entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleState {
    pub schema: u32,
    pub entries: BTreeMap<String, Record>,
}

/// The state of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The last known pattern.
    pub cron: String,
    /// The last known time zone.
    pub time_zone: String,
    /// All times up to this one have been handled.
    pub settled: Timestamp,
    pub last: Option<LastRun>,
    /// The last time that was due and was skipped.
    pub skipped: Option<SkippedRun>,
}

impl Record {
    /// Creates the record of a new entry: earlier times are not due.
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

impl Default for ScheduleState {
    fn default() -> Self {
        Self {
            schema: 1,
            entries: BTreeMap::new(),
        }
    }
}

impl ScheduleState {
    /// Reads the book. A missing file is an empty book.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(service: &Path) -> io::Result<Self> {
        match private::read(&Self::path(service)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes the book durably.
    ///
    /// # Errors
    /// When it cannot be written; the previous file is kept.
    pub fn write(&self, service: &Path) -> io::Result<()> {
        write_json_atomic(&Self::path(service), self)
    }

    fn path(service: &Path) -> PathBuf {
        service.join(FILE)
    }

    /// Marks running entries of an earlier daemon as stopped: their commands ended with it.
    pub fn end_running(&mut self) {
        for last in self
            .entries
            .values_mut()
            .filter_map(|record| record.last.as_mut())
        {
            if last.result == ScheduleResult::Running {
                last.result = ScheduleResult::Stopped;
                last.detail = Some("the daemon stopped before the command ended".to_owned());
            }
        }
    }

    /// Applies the entries of the current workflow: an entry that is new, or has another pattern or
    /// time zone, starts now.
    pub fn apply_entries(&mut self, entries: &BTreeMap<String, ScheduleEntry>, now: Timestamp) {
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
