//! When an entry is due: a function of its pattern, of what is settled, and of the time.

use croner::Cron;
use croner::errors::CronError;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use vik_core::workflow::ScheduleEntry;

/// Who comes later than this is not late but missed: the daemon was down, or the machine slept.
const GRACE: SignedDuration = SignedDuration::from_secs(120);

/// A clock that goes back further than this was wrong before: what is settled by it does not count.
const BELIEVED: SignedDuration = SignedDuration::from_hours(24);

/// Why nothing can be told of an entry. The workflow was checked: it does not happen.
#[derive(Debug, thiserror::Error)]
pub enum TimingError {
    /// Its pattern.
    #[error("`{pattern}` is no cron pattern")]
    Cron {
        /// The text.
        pattern: String,
        /// Why.
        source: CronError,
    },
    /// Its time zone.
    #[error("no time zone is named `{0}`")]
    Zone(String),
}

/// The times of one entry.
#[derive(Clone, Debug)]
pub struct Timing {
    cron: Cron,
    zone: TimeZone,
    pub(super) catch_up: bool,
}

/// What is to be done about an entry now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing until then; `None`: never again.
    Wait(Option<Timestamp>),
    /// It runs, for this time.
    Run(Timestamp),
    /// It was to run at this time and later, and nobody was there.
    Missed(Timestamp),
    /// The clock went back so far that what is settled cannot be true.
    ClockWentBack,
}

impl Timing {
    /// The times of an entry of the workflow.
    ///
    /// # Errors
    /// When its pattern or its zone makes no sense.
    pub fn of(entry: &ScheduleEntry) -> Result<Self, TimingError> {
        let cron = vik_core::workflow::cron(&entry.cron).map_err(|source| TimingError::Cron {
            pattern: entry.cron.clone(),
            source,
        })?;
        // The machine's data may be newer than what is built in, and may not be there.
        let zone = jiff::tz::db()
            .get(&entry.time_zone)
            .or_else(|_| TimeZoneDatabase::bundled().get(&entry.time_zone))
            .map_err(|_| TimingError::Zone(entry.time_zone.clone()))?;
        Ok(Self {
            cron,
            zone,
            catch_up: entry.catch_up,
        })
    }

    /// The first time after this one; `None`: it does not come again.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        Some(next.timestamp()).filter(|next| *next > after.timestamp())
    }

    /// What is to be done. All times up to `settled` were dealt with; after anything but [`Look::Wait`], `now` is settled.
    pub fn due(&self, settled: Timestamp, now: Timestamp) -> Due {
        if settled.duration_since(now) > BELIEVED {
            return Due::ClockWentBack;
        }
        let first = match self.next(settled) {
            Some(first) if first <= now => first,
            next => return Due::Wait(next),
        };
        let recent = now.checked_sub(GRACE).unwrap_or(now).max(settled);
        let mut last = None;
        let mut at = recent;
        while let Some(next) = self.next(at).filter(|next| *next <= now) {
            last = Some(next);
            at = next;
        }
        match last {
            Some(last) => Due::Run(last),
            None if self.catch_up => Due::Run(first),
            None => Due::Missed(first),
        }
    }
}
