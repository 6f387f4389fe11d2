//! Computes the sums of a report.

use std::collections::BTreeSet;

use jiff::Timestamp;
use vik_api::{AgentFigures, EndFigures, Figures, Part, ReportView, SCHEMA, SpendView, StageFigures};
use vik_core::ids::{AgentName, RunId, StageName};
use vik_core::limits::Spend;
use vik_core::outcome::{FailureClass, Outcome};
use vik_store::ledger::{EndedFigures, IssueCounts, StoredFigures};

use super::Window;

/// The sums of a report, to which attempts are added one by one. Of each attempt it keeps only what
/// the numbers of runs and the median durations need.
#[derive(Debug)]
pub(super) struct Sums {
    window: Window,
    groups: Vec<Group>,
    /// The run of each attempt, and the index of its group.
    runs: Vec<(RunId, u32)>,
    ends: Vec<EndFigures>,
    series: Vec<(Timestamp, Counts)>,
}

/// The attempts of one agent in one stage.
#[derive(Debug)]
struct Group {
    stage: StageName,
    agent: AgentName,
    counts: Counts,
    durations_ms: Vec<u64>,
}

impl Sums {
    pub(super) fn new(window: Window) -> Self {
        let parts = window.parts().into_iter();
        Self {
            window,
            groups: Vec::new(),
            runs: Vec::new(),
            ends: Vec::new(),
            series: parts.map(|at| (at, Counts::default())).collect(),
        }
    }

    /// Adds an attempt that started in the window.
    pub(super) fn add(&mut self, attempt: &StoredFigures<'_>) {
        // An end after the time span is not known at its end.
        let ended = attempt.ended.filter(|ended| ended.at < self.window.until());
        let index = self.group(attempt);
        self.runs
            .push((attempt.run, u32::try_from(index).unwrap_or(u32::MAX)));
        let group = &mut self.groups[index];
        group.counts.started += 1;
        if let Some((_, part)) = self.series.get_mut(self.window.part_index(attempt.started_at)) {
            part.started += 1;
        }
        if let Some(ended) = ended {
            group.counts.end(ended);
            let took = ended.at.as_millisecond() - attempt.started_at.as_millisecond();
            // A clock that was set back must not give a negative duration.
            group.durations_ms.push(u64::try_from(took).unwrap_or(0));
            count_end(&mut self.ends, ended.outcome, ended.failure_class);
            if let Some((_, part)) = self.series.get_mut(self.window.part_index(ended.at)) {
                part.end(ended);
            }
        }
    }

    /// Returns the index of the group of an attempt. There are as many groups as the workflow had
    /// pairs of a stage and its agent, which are few.
    fn group(&mut self, attempt: &StoredFigures<'_>) -> usize {
        let same =
            |group: &Group| group.stage.as_str() == attempt.stage && group.agent.as_str() == attempt.agent;
        self.groups.iter().position(same).unwrap_or_else(|| {
            self.groups.push(Group {
                stage: attempt.stage.into(),
                agent: attempt.agent.into(),
                counts: Counts::default(),
                durations_ms: Vec::new(),
            });
            self.groups.len() - 1
        })
    }

    /// Returns the report on the attempts that were added and on their issues.
    pub(super) fn report(mut self, issues: IssueCounts) -> ReportView {
        self.runs.sort_unstable();
        self.runs.dedup();
        self.ends.sort_by_key(|end| {
            let class = end.failure_class.map(FailureClass::as_str);
            (std::cmp::Reverse(end.attempts), end.outcome.as_str(), class)
        });
        let total = self.figures(|_| true);
        let per_issue = (issues.succeeded > 0 && total.spent.cost_usd > 0.0)
            .then(|| total.spent.cost_usd / issues.succeeded as f64);
        let stages: BTreeSet<_> = self.groups.iter().map(|group| &group.stage).collect();
        let agents: BTreeSet<_> = self.groups.iter().map(|group| &group.agent).collect();
        ReportView {
            schema: SCHEMA,
            since: self.window.since(),
            until: self.window.until(),
            total,
            issues: issues.all,
            issues_succeeded: issues.succeeded,
            cost_per_succeeded_issue_usd: per_issue,
            stages: stages
                .into_iter()
                .map(|stage| StageFigures {
                    stage: stage.clone(),
                    figures: self.figures(|group| group.stage == *stage),
                })
                .collect(),
            agents: agents
                .into_iter()
                .map(|agent| AgentFigures {
                    agent: agent.clone(),
                    figures: self.figures(|group| group.agent == *agent),
                })
                .collect(),
            ends: self.ends,
            series: self
                .series
                .into_iter()
                .map(|(at, counts)| counts.part(at))
                .collect(),
            part_ms: self.window.part_ms(),
        }
    }

    /// Returns the figures of these groups together.
    fn figures(&self, is_part: impl Fn(&Group) -> bool) -> Figures {
        let is_part: Vec<_> = self.groups.iter().map(is_part).collect();
        let mut counts = Counts::default();
        let mut durations_ms = Vec::new();
        for (group, _) in self.groups.iter().zip(&is_part).filter(|(_, is_part)| **is_part) {
            counts = counts.plus(group.counts);
            durations_ms.extend_from_slice(&group.durations_ms);
        }
        // An attempt of the same run can have had another agent.
        let runs = self.runs.chunk_by(|(a, _), (b, _)| a == b);
        let has_part = |run: &&[(RunId, u32)]| run.iter().any(|(_, index)| is_part[*index as usize]);
        let middle = durations_ms.len().saturating_sub(1) / 2;
        Figures {
            runs: count(runs.filter(has_part).count()),
            attempts: counts.started,
            succeeded: counts.succeeded,
            failed: counts.failed,
            asked: counts.asked,
            spent: SpendView::of(counts.spent, counts.estimated),
            duration_ms: durations_ms
                .iter()
                .fold(0, |sum: u64, ms| sum.saturating_add(*ms)),
            median_duration_ms: (!durations_ms.is_empty())
                .then(|| *durations_ms.select_nth_unstable(middle).1),
        }
    }
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

/// Counts of ended attempts and their charges. The sums are exact in any order.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    started: u64,
    succeeded: u64,
    failed: u64,
    asked: u64,
    spent: Spend,
    estimated: Spend,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            started: self.started + other.started,
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            asked: self.asked + other.asked,
            spent: self.spent.plus(other.spent),
            estimated: self.estimated.plus(other.estimated),
        }
    }

    fn end(&mut self, ended: EndedFigures) {
        match ended.outcome {
            Outcome::Succeeded => self.succeeded += 1,
            Outcome::Asked => self.asked += 1,
            _ => self.failed += 1,
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
            asked: self.asked,
            spent: SpendView::of(self.spent, self.estimated),
        }
    }
}
