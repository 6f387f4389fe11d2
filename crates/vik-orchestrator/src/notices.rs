//! Notices about parked runs and about the day's limit.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::limits::LimitScope;
use vik_core::machine::{Phase, Run};
use vik_core::scheduler::Scheduler;
use vik_core::time::Now;
use vik_core::workflow::Workflow;

use super::Progress;
use super::progress::Parked;

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

/// Lists all parked runs.
pub(super) fn all_parked(scheduler: &Scheduler) -> impl Iterator<Item = Parked<'_>> {
    scheduler.runs().filter_map(|(issue, run)| {
        let machine = scheduler.machine(issue)?;
        // The dependents are known only after the first pull.
        parked(machine.issue(), run, &[])
    })
}

/// Reports once a day that the day's limit is reached.
#[derive(Debug, Default)]
pub(super) struct DayLimitNotice {
    /// The last day whose limit was reported as reached.
    reported: Option<Date>,
}

impl DayLimitNotice {
    /// Returns the report if the limit is reached and was not reported today.
    pub(super) fn check(
        &mut self,
        scheduler: &Scheduler,
        workflow: &Workflow,
        now: Now,
    ) -> Option<Progress<'static>> {
        let spent = scheduler.spent_today(now);
        let hit = workflow.day_limit.reached(LimitScope::Day, spent)?;
        let day: Date = now.wall.to_zoned(TimeZone::UTC).date();
        let is_new = self.reported.replace(day) != Some(day);
        is_new.then_some(Progress::DayLimit { day, hit })
    }
}
