//! When an entry is due: a function of its pattern, of its settled time, and of the current time.

use croner::Cron;
use croner::errors::CronError;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use vik_core::workflow::ScheduleEntry;

/// A later start counts as missed, not late: the daemon was down, or the machine was suspended.
const GRACE: SignedDuration = SignedDuration::from_secs(120);

/// A clock that goes back further than this was wrong before, so the settled time does not count.
const BELIEVED: SignedDuration = SignedDuration::from_hours(24);

/// Why the times of an entry cannot be computed. Validation of the workflow prevents it.
#[derive(Debug, thiserror::Error)]
pub enum TimingError {
    #[error("`{pattern}` is not a cron pattern")]
    Cron { pattern: String, source: CronError },
    #[error("unknown time zone `{0}`")]
    Zone(String),
}

/// The times of one entry.
#[derive(Clone, Debug)]
pub struct Timing {
    cron: Cron,
    zone: TimeZone,
    pub(super) catch_up: bool,
}

/// What to do about an entry now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing until then; `None` means never again.
    Wait(Option<Timestamp>),
    /// Run, for this time.
    Run(Timestamp),
    /// This time, and perhaps later ones, passed while no daemon was running.
    Missed(Timestamp),
    /// The clock went back so far that the settled time cannot be right.
    ClockWentBack,
}

impl Timing {
    /// Returns the times of an entry of the workflow.
    ///
    /// # Errors
    /// When its pattern or its time zone is invalid.
    pub fn of(entry: &ScheduleEntry) -> Result<Self, TimingError> {
        let cron = entry.cron.parse::<Cron>().map_err(|source| TimingError::Cron {
            pattern: entry.cron.clone(),
            source,
        })?;
        // The machine's data may be newer than the built-in data, and may be missing.
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

    /// Returns the first time after this one; `None` if there is none.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        Some(next.timestamp()).filter(|next| *next > after.timestamp())
    }

    /// Returns what to do now. All times up to `settled` have been handled. After any result but
    /// [`Due::Wait`], the caller sets `settled` to `now`.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::Timestamp;
    /// use vik_core::workflow::ScheduleEntry;
    /// use vik_daemon::schedule::{Due, Timing};
    ///
    /// let timing = Timing::of(&ScheduleEntry {
    ///     cron: "0 6 * * *".to_owned(),
    ///     time_zone: "Europe/Berlin".to_owned(),
    ///     job: None,
    ///     catch_up: false,
    /// })?;
    /// let at = |hour: u8| format!("2026-01-10T{hour:02}:00:00Z").parse::<Timestamp>().unwrap();
    /// // Berlin is one hour ahead.
    /// let (settled, six, later) = (at(0), at(5), at(9));
    /// assert_eq!(timing.due(settled, settled), Due::Wait(Some(six)));
    /// assert_eq!(timing.due(settled, six), Due::Run(six));
    /// assert_eq!(timing.due(settled, later), Due::Missed(six));
    /// # Ok::<(), vik_daemon::schedule::TimingError>(())
    /// ```
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
