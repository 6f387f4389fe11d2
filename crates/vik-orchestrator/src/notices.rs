//! Notices about parked runs and about the day's limit.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::limits::LimitScope;
use vik_core::machine::{Phase, Run};

use super::progress::Parked;
use super::{Orchestrator, Progress};

/// Describes a run if it is parked.
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
    /// Lists all parked runs.
    pub fn parked(&self) -> impl Iterator<Item = Parked<'_>> {
        self.scheduler.runs().filter_map(|(issue, run)| {
            let machine = self.scheduler.machine(issue)?;
            // The dependents are known only after the first pull.
            parked(machine.issue(), run, &[])
        })
    }

    /// Reports once a day that the day's limit is reached.
    pub(super) fn notify_day_limit(&mut self) {
        let now = self.now();
        let spent = self.scheduler.spent_today(now);
        let Some(hit) = self.workflow.day_limit.reached(LimitScope::Day, spent) else {
            return;
        };
        let day: Date = now.wall.to_zoned(TimeZone::UTC).date();
        if self.day_limit_reported != Some(day) {
            self.day_limit_reported = Some(day);
            self.observer.on_progress(&Progress::DayLimit { day, hit });
        }
    }
}
