//! Computes the sums of a report.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use vik_api::{AgentFigures, EndFigures, Figures, Part, ReportView, SCHEMA, SpendView, StageFigures};
use vik_core::ids::{IssueId, RunId};
use vik_core::limits::Spend;
use vik_core::outcome::{FailureClass, Outcome};
use vik_store::ledger::{EndedFigures, StoredFigures, StoredRun};

use super::Window;

/// Returns the report on these attempts and on all runs of their issues. Records outside of the
/// window are left out.
pub fn figures(attempts: &[StoredFigures], runs: &[StoredRun], window: Window) -> ReportView {
    let mut total = Sum::default();
    let mut stages = BTreeMap::new();
    let mut agents = BTreeMap::new();
    let mut ends: Vec<EndFigures> = Vec::new();
    let mut issues = BTreeSet::new();
    let parts = window.parts();
    let mut series: Vec<_> = parts.iter().map(|at| (*at, Counts::default())).collect();
    for attempt in attempts.iter().filter(|one| is_in(one.started_at, window)) {
        // An end after the time span is not known at its end.
        let ended = attempt.ended.filter(|ended| ended.at < window.until());
        total.add(attempt, ended);
        stages
            .entry(&attempt.stage)
            .or_insert_with(Sum::default)
            .add(attempt, ended);
        agents
            .entry(&attempt.agent)
            .or_insert_with(Sum::default)
            .add(attempt, ended);
        issues.insert(&attempt.issue);
        if let Some((_, part)) = series.get_mut(window.part_index(attempt.started_at)) {
            part.started += 1;
        }
        if let Some(ended) = ended {
            count_end(&mut ends, ended.outcome, ended.failure_class);
            if let Some((_, part)) = series.get_mut(window.part_index(ended.at)) {
                part.end(ended);
            }
        }
    }
    ends.sort_by_key(|end| {
        let class = end.failure_class.map(FailureClass::as_str);
        (std::cmp::Reverse(end.attempts), end.outcome.as_str(), class)
    });
    let done = done(runs, window);
    let issues_succeeded = count(issues.iter().filter(|issue| done.contains(*issue)).count());
    let total = total.figures();
    let per_issue = (issues_succeeded > 0 && total.spent.cost_usd > 0.0)
        .then(|| total.spent.cost_usd / issues_succeeded as f64);
    ReportView {
        schema: SCHEMA,
        since: window.since(),
        until: window.until(),
        total,
        issues: count(issues.len()),
        issues_succeeded,
        cost_per_succeeded_issue_usd: per_issue,
        stages: stages
            .into_iter()
            .map(|(stage, sum)| StageFigures {
                stage: stage.clone(),
                figures: sum.figures(),
            })
            .collect(),
        agents: agents
            .into_iter()
            .map(|(agent, sum)| AgentFigures {
                agent: agent.clone(),
                figures: sum.figures(),
            })
            .collect(),
        ends,
        series: series.into_iter().map(|(at, counts)| counts.part(at)).collect(),
        part_ms: window.part_ms(),
    }
}

fn is_in(at: Timestamp, window: Window) -> bool {
    at >= window.since() && at < window.until()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn count_end(ends: &mut Vec<EndFigures>, outcome: Outcome, failure_class: Option<FailureClass>) {
    let same = |end: &&mut EndFigures| end.outcome == outcome && end.failure_class == failure_class;
    match ends.iter_mut().find(same) {
        Some(end) => end.attempts += 1,
        None => ends.push(EndFigures {
            outcome,
            failure_class,
            attempts: 1,
        }),
    }
}

/// Returns the issues that had no open or parked run at the end of the time span and whose last run
/// succeeded.
fn done(runs: &[StoredRun], window: Window) -> HashSet<&IssueId> {
    // When the last run of each issue ended, and whether it succeeded; `None` if a run has not
    // ended.
    let mut last: HashMap<&IssueId, Option<(Timestamp, bool)>> = HashMap::new();
    for run in runs {
        let end = run
            .over_at
            .filter(|at| *at < window.until())
            .map(|at| (at, run.succeeded == Some(true)));
        last.entry(&run.issue)
            .and_modify(|last| *last = last.zip(end).map(|(a, b)| if b.0 >= a.0 { b } else { a }))
            .or_insert(end);
    }
    let has_succeeded = |end: &Option<(Timestamp, bool)>| end.is_some_and(|(_, succeeded)| succeeded);
    last.into_iter()
        .filter_map(|(issue, end)| has_succeeded(&end).then_some(issue))
        .collect()
}

/// Counts of ended attempts and their charges. The sums are exact in any order.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    started: u64,
    succeeded: u64,
    failed: u64,
    spent: Spend,
    estimated: Spend,
}

impl Counts {
    fn end(&mut self, ended: EndedFigures) {
        if ended.outcome == Outcome::Succeeded {
            self.succeeded += 1;
        } else {
            self.failed += 1;
        }
        self.spent = self.spent.plus(ended.charged);
        self.estimated = self.estimated.plus(ended.estimated);
    }

    fn part(self, at: Timestamp) -> Part {
        Part {
            at,
            started: self.started,
            succeeded: self.succeeded,
            failed: self.failed,
            spent: SpendView::of(self.spent, self.estimated),
        }
    }
}

#[derive(Debug, Default)]
struct Sum {
    runs: HashSet<RunId>,
    counts: Counts,
    durations_ms: Vec<u64>,
}

impl Sum {
    fn add(&mut self, attempt: &StoredFigures, ended: Option<EndedFigures>) {
        self.runs.insert(attempt.run);
        self.counts.started += 1;
        if let Some(ended) = ended {
            self.counts.end(ended);
            let took = ended.at.as_millisecond() - attempt.started_at.as_millisecond();
            // A clock that was set back must not give a negative duration.
            self.durations_ms.push(u64::try_from(took).unwrap_or(0));
        }
    }

    fn figures(mut self) -> Figures {
        self.durations_ms.sort_unstable();
        let middle = self.durations_ms.len().saturating_sub(1) / 2;
        Figures {
            runs: count(self.runs.len()),
            attempts: self.counts.started,
            succeeded: self.counts.succeeded,
            failed: self.counts.failed,
            spent: SpendView::of(self.counts.spent, self.counts.estimated),
            duration_ms: self
                .durations_ms
                .iter()
                .fold(0, |sum: u64, ms| sum.saturating_add(*ms)),
            median_duration_ms: self.durations_ms.get(middle).copied(),
        }
    }
}
