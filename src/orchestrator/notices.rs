//! What is told of what rests, and of the day.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::limits::LimitScope;
use vik_core::machine::{Phase, Run};

use super::progress::Parked;
use super::{Orchestrator, Progress};

/// A run that is parked, as it is told.
pub(super) fn parked<'a>(issue: &'a Issue, run: &'a Run, dependents: &'a [IssueId]) -> Option<Parked<'a>> {
    match &run.phase {
        Phase::Parked {
            since,
            reason,
            detail,
            ..
        } => Some(Parked {
            issue,
            run: run.id,
            stage: &run.stage,
            since: *since,
            reason: *reason,
            detail,
            dependents,
        }),
        _ => None,
    }
}

impl Orchestrator {
    /// All that is parked.
    pub fn parked(&self) -> impl Iterator<Item = Parked<'_>> {
        self.scheduler.runs().filter_map(|(issue, run)| {
            let machine = self.scheduler.machine(issue)?;
            // Who waits for it is known after the first pull.
            parked(machine.issue(), run, &[])
        })
    }

    /// Says once a day that what may be spent in it is spent.
    pub(super) fn notify_day_limit(&mut self) {
        let now = self.now();
        let spent = self.scheduler.spent_today(now);
        let Some(hit) = self.workflow.day_limit.reached(LimitScope::Day, spent) else {
            return;
        };
        let day: Date = now.wall.to_zoned(TimeZone::UTC).date();
        if self.day_limit_reported != Some(day) {
            self.day_limit_reported = Some(day);
            self.observer.on(&Progress::DayLimit { day, hit });
        }
    }
}
